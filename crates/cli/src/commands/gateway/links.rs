//! The links that a gateway serves: from files and flags to what each of them is to do.

use std::path::{Path, PathBuf};

use fairlink_config::{LinkFile, ReadOptions};
use fairlink_net::{GatewayConfig, Processor};

use crate::failure::Failure;
use crate::link::{share_warning, warn};

/// Which files, and between which interfaces.
#[derive(Debug, clap::Args)]
pub(crate) struct LinkArgs {
    /// The link files. A file may hold several links, each with its interfaces.
    #[arg(required_unless_present = "close", value_name = "LINK")]
    files: Vec<PathBuf>,
    /// Interface that the shared direction comes from [default: the one that the file names].
    #[arg(long = "in", value_name = "IF", requires = "output")]
    input: Option<String>,
    /// Interface that it goes to: the link [default: the one that the file names].
    #[arg(long = "out", value_name = "IF", requires = "input")]
    output: Option<String>,
    /// Share what this machine itself sends (and routes) by IF, without a second box. IF keeps its addresses, and what it receives is
    /// left alone.
    #[arg(long, value_name = "IF", conflicts_with_all = ["input", "output", "reverse", "no_reverse"])]
    egress: Option<String>,
    /// Share the other direction too, from --out to --in, as this file says.
    #[arg(long, value_name = "LINK", requires = "input", conflicts_with = "no_reverse")]
    reverse: Option<PathBuf>,
    /// Do not forward frames from --out to --in.
    #[arg(long)]
    no_reverse: bool,
}

impl LinkArgs {
    /// What each link is to do. `apply` brings in what is the same for all.
    pub(super) fn plan(
        &self,
        options: &ReadOptions<'_>,
        cpu: Processor,
        apply: impl Fn(&mut GatewayConfig),
    ) -> Result<Vec<GatewayConfig>, Failure> {
        let mut links = Vec::new();
        for file in &self.files {
            links.extend(read(file, options)?);
        }
        if let (Some(input), Some(output)) = (&self.input, &self.output) {
            if links.len() > 1 {
                let message = format!(
                    "--in and --out are for one link, and there are {}; name the interfaces in the files: in = \"IF\", out = \"IF\"",
                    links.len()
                );
                return Err(Failure::wrong(message));
            }
            if let Some(link) = links.first_mut() {
                (link.ports, link.egress) = ([Some(input.clone()), Some(output.clone())], None);
            }
            if let Some(file) = &self.reverse {
                let mut back = read(file, options)?;
                if back.len() > 1 {
                    return Err(Failure::wrong(format!("{}: --reverse takes a file with one link", file.display())));
                }
                for link in &mut back {
                    (link.ports, link.egress) = ([Some(output.clone()), Some(input.clone())], None);
                }
                links.append(&mut back);
            }
        }
        if let Some(egress) = &self.egress {
            if links.len() > 1 {
                let message = format!(
                    "--egress is for one link, and there are {}; name the interfaces in the files: egress = \"IF\"",
                    links.len()
                );
                return Err(Failure::wrong(message));
            }
            for link in &mut links {
                (link.ports, link.egress) = ([None, None], Some(egress.clone()));
            }
        }
        let mut configs = Vec::with_capacity(links.len());
        for (place, link) in links.iter().enumerate() {
            let mut config = match (&link.egress, &link.ports) {
                (Some(egress), _) => GatewayConfig::for_own_traffic(link, egress)?,
                (None, [Some(input), Some(output)]) => GatewayConfig::from_link_file(link, input, output)?,
                _ => {
                    let file = link.source().name();
                    let message = format!(
                        "{file}: no interfaces; give --in IF and --out IF, or write in = \"IF\" and out = \"IF\" in [link]; for what \
                         this machine itself sends, give --egress IF, or write egress = \"IF\""
                    );
                    return Err(Failure::wrong(message));
                }
            };
            apply(&mut config);
            config.processor = match cpu {
                Processor::Last => Processor::BeforeLast(place),
                other => other,
            };
            config.reverse = !self.no_reverse && !config.own_traffic;
            configs.push(config);
        }
        settle(configs)
    }
}

fn read(file: &Path, options: &ReadOptions<'_>) -> Result<Vec<LinkFile>, Failure> {
    let mut links = LinkFile::read_all(file, options)?;
    for link in &mut links {
        warn(std::mem::take(&mut link.warnings).into_iter().chain(share_warning(link)?));
    }
    Ok(links)
}

/// A direction that one link shares is not forwarded by another beside it. No direction is shared twice, and no name is given twice.
fn settle(mut configs: Vec<GatewayConfig>) -> Result<Vec<GatewayConfig>, Failure> {
    let ways: Vec<(String, String)> =
        configs.iter().map(|config| (config.input.clone(), config.output.clone())).collect();
    for (place, (input, output)) in ways.iter().enumerate() {
        if ways[..place].iter().any(|(other, _)| other == input) {
            let what = match configs[place].own_traffic {
                true => configs[place].way(),
                false => format!("what {input} receives"),
            };
            return Err(Failure::wrong(format!("two links take {what}; each frame can go one way only")));
        }
        let config = &mut configs[place];
        config.reverse &= !ways.iter().any(|(from, _)| from == output);
    }
    for place in 0..configs.len() {
        let name = configs[place].link_name().to_owned();
        if configs[..place].iter().any(|other| other.link_name() == name) {
            return Err(Failure::wrong(format!(
                "two links are called {name}; give one of them another name = \"...\""
            )));
        }
    }
    Ok(configs)
}
