//! The links of a gateway: from files and flags to configurations.

use std::path::{Path, PathBuf};

use fairlink_api::share_warnings;
use fairlink_config::{LinkFile, Problems, ReadOptions};
use fairlink_net::{GatewayConfig, LogEvent, Processor, has_room_to_read};

use crate::link::reach_warning;
use crate::log;
use fairlink_terminal::failure::CliError;

/// Files and interfaces.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LinkArgs {
    /// The link files. A file may hold several links, each with its interfaces.
    #[arg(required_unless_present_any = ["close", "print_unit"], value_name = "LINK")]
    pub(super) files: Vec<PathBuf>,
    /// Input interface of the shaped direction [default: the one that the file names].
    #[arg(long = "in", value_name = "IF", requires = "output")]
    input: Option<String>,
    /// Output interface of the shaped direction: the link [default: the one that the file names].
    #[arg(long = "out", value_name = "IF", requires = "input")]
    output: Option<String>,
    /// Shape the traffic that this machine sends and routes by IF. IF keeps its addresses; received traffic is not
    /// affected.
    #[arg(long, value_name = "IF", conflicts_with_all = ["input", "output", "reverse", "no_reverse"])]
    egress: Option<String>,
    /// Also shape the other direction, from --out to --in, by this file.
    #[arg(long, value_name = "LINK", requires = "input", conflicts_with = "no_reverse")]
    reverse: Option<PathBuf>,
    /// Do not forward frames from --out to --in.
    #[arg(long)]
    no_reverse: bool,
}

/// Why links cannot be served.
#[derive(Debug)]
pub(super) enum Wrong {
    /// Errors of a file, with places.
    File(Problems),
    /// Conflict between links.
    Together(String),
}

impl From<Problems> for Wrong {
    fn from(problems: Problems) -> Self {
        Self::File(problems)
    }
}

impl From<Wrong> for CliError {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::File(problems) => problems.into(),
            Wrong::Together(message) => Self::wrong(message),
        }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(problems) => f.write_str(problems.lines().trim_end()),
            Self::Together(message) => f.write_str(message),
        }
    }
}

impl LinkArgs {
    /// The links of the files that were named.
    pub(super) fn read(&self, options: &ReadOptions<'_>) -> Result<Read, CliError> {
        let read = |file: &Path| -> Result<Vec<LinkFile>, CliError> {
            let mut links = LinkFile::read_all(file, options)?;
            for link in &mut links {
                let warnings = std::mem::take(&mut link.warnings);
                let warnings = warnings.into_iter().chain(share_warnings(link)?).chain(reach_warning(link));
                warnings.for_each(|warning| log::write(&LogEvent::warn(warning.line())));
            }
            Ok(links)
        };
        let mut links = Vec::new();
        for file in &self.files {
            links.extend(read(file)?);
        }
        let back = self.reverse.as_deref().map(read).transpose()?;
        Ok(Read { links, back, again: false })
    }

    /// Makes the configuration of each link. `apply` sets options common to all.
    pub(super) fn arrange(
        &self,
        read: Read,
        cpu: Processor,
        apply: impl Fn(&mut GatewayConfig) -> Result<(), Wrong>,
    ) -> Result<Vec<GatewayConfig>, Wrong> {
        let Read { mut links, back, again } = read;
        // A file that has come to have several links names their interfaces itself.
        let all_named = again && links.len() > 1 && links.iter().all(|link| link.ports.iter().all(Option::is_some));
        if let (Some(input), Some(output), false) = (&self.input, &self.output, all_named) {
            if links.len() > 1 {
                return Err(Wrong::Together(format!(
                    "--in and --out need a single link, and there are {}; name the interfaces in the files: in = \"IF\", out = \"IF\"",
                    links.len()
                )));
            }
            if let Some(link) = links.first_mut() {
                (link.ports, link.egress) = ([Some(input.clone()), Some(output.clone())], None);
            }
            if let Some(mut back) = back {
                if back.len() > 1 {
                    let file = back[0].source().name().to_owned();
                    return Err(Wrong::Together(format!("{file}: --reverse takes a file with one link")));
                }
                for link in &mut back {
                    (link.ports, link.egress) = ([Some(output.clone()), Some(input.clone())], None);
                }
                links.append(&mut back);
            }
        }
        if let Some(egress) = &self.egress {
            if links.len() > 1 {
                return Err(Wrong::Together(format!(
                    "--egress needs a single link, and there are {}; name the interfaces in the files: egress = \"IF\"",
                    links.len()
                )));
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
                    return Err(Wrong::Together(format!(
                        "{file}: no interfaces; pass --in IF and --out IF, or write in = \"IF\" and out = \"IF\" in [link]; for traffic that this machine itself sends, pass --egress IF, or write egress = \"IF\""
                    )));
                }
            };
            apply(&mut config)?;
            config.processor = match cpu {
                Processor::Last => Processor::BeforeLast(place),
                other => other,
            };
            config.reverse = !self.no_reverse && !config.own_traffic;
            configs.push(config);
        }
        settle(configs).map_err(Wrong::Together)
    }
}

/// The links of some files.
#[derive(Debug)]
pub(super) struct Read {
    links: Vec<LinkFile>,
    /// Those of the file for the other direction.
    back: Option<Vec<LinkFile>>,
    /// True if the files were read before.
    again: bool,
}

/// The files that a running gateway reads again.
#[derive(Debug)]
pub(super) struct Files {
    files: Vec<PathBuf>,
    back: Option<PathBuf>,
}

impl Files {
    pub(super) fn new(args: &LinkArgs) -> Self {
        Self { files: args.files.clone(), back: args.reverse.clone() }
    }

    /// Reads the links of all files. `text` replaces the file of its name, or all files if none has it.
    pub(super) fn read(&self, text: Option<&(String, String)>, options: &ReadOptions<'_>) -> Result<Read, Wrong> {
        let given = |file: &Path| text.filter(|(name, _)| is_same(file, Path::new(name)));
        let read = |file: &Path| -> Result<Vec<LinkFile>, Wrong> {
            let mut links = match given(file) {
                Some((name, text)) => LinkFile::all_from_text(name, text.clone(), options)?,
                None => LinkFile::read_all(file, options)?,
            };
            for link in &mut links {
                // Warnings of valid files; errors are reported elsewhere.
                link.warnings.extend(share_warnings(link).unwrap_or_default());
                link.warnings.extend(reach_warning(link));
            }
            Ok(links)
        };
        // At the start a process may end for lack of memory; a running gateway must not.
        let length = |file: &PathBuf| std::fs::metadata(file).map_or(0, |file| file.len());
        let bytes: u64 = text.map_or(0, |(_, text)| text.len() as u64)
            + self.files.iter().chain(&self.back).map(length).sum::<u64>();
        has_room_to_read(bytes).map_err(|error| Wrong::Together(error.to_string()))?;
        let mut links = Vec::new();
        match text {
            Some((name, text)) if !self.has(name) => links = LinkFile::all_from_text(name, text.clone(), options)?,
            _ => {
                for file in &self.files {
                    links.extend(read(file)?);
                }
            }
        }
        let back = self.back.as_deref().map(read).transpose()?;
        Ok(Read { links, back, again: true })
    }

    /// Replaces all files by `name`, unless it is one of them.
    pub(super) fn taken(&mut self, name: &str) {
        if !self.has(name) {
            self.files = vec![PathBuf::from(name)];
        }
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().chain(&self.back).any(|file| is_same(file, Path::new(name)))
    }
}

/// Returns true if both are names of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// A direction that one link shares is not forwarded by another beside it. No direction is shared twice, and no name is
/// given twice.
fn settle(mut configs: Vec<GatewayConfig>) -> Result<Vec<GatewayConfig>, String> {
    let ways: Vec<(String, String)> =
        configs.iter().map(|config| (config.input.clone(), config.output.clone())).collect();
    for (place, (input, output)) in ways.iter().enumerate() {
        if ways[..place].iter().any(|(other, _)| other == input) {
            let what = match configs[place].own_traffic {
                true => configs[place].way(),
                false => format!("frames received on {input}"),
            };
            return Err(format!("two links take {what}; each frame can use only one link"));
        }
        let config = &mut configs[place];
        config.reverse &= !ways.iter().any(|(from, _)| from == output);
    }
    for place in 0..configs.len() {
        let name = configs[place].link_name().to_owned();
        if configs[..place].iter().any(|other| other.link_name() == name) {
            return Err(format!("two links are called {name}; give one of them another name = \"...\""));
        }
        let both = |other: &&GatewayConfig| other.reverse && configs[place].reverse && other.output == ways[place].1;
        if let Some(other) = configs[..place].iter().find(both) {
            return Err(format!(
                "links {} and {name} would both forward frames received on {}; each frame can use only one link: give that direction its own link (in = \"{}\"), or none (--no-reverse)",
                other.link_name(),
                other.output,
                other.output
            ));
        }
    }
    Ok(configs)
}
