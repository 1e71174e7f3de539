//! `fairlink import`: what people run today, as a link file, with a report of what became of it.

mod report;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) mod script;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
#[cfg(target_os = "linux")]
use fairlink_api::ProblemReport;
use fairlink_api::{ImportDoc, ImportOptions, ImportedFile};
use fairlink_config::SourceText;
use fairlink_config::import::{Direction, Imported, ImportedLink, Weights, mikrotik, tc};
use fairlink_config::units::show_time;
use fairlink_core::{Nanos, Rate};
use fairlink_figures::human::count;

#[cfg(target_os = "linux")]
use crate::capacity::Capacity;
use fairlink_terminal::args;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::{Out, make_directory, write_all_new};

/// From which tool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Tool,
    /// Write into this directory, which is made if it is missing: a link file, and tables where there are many classes.
    /// Without it the link file is printed, class by class.
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the tool's lending rule, with its quanta, bursts and priorities, instead of the scheduler hls.
    #[arg(long, global = true)]
    as_is: bool,
    /// Do not compare rates before and after, which takes a simulation.
    #[arg(long, global = true)]
    no_compare: bool,
    /// Import classes that no frame can reach, too.
    #[arg(long, global = true)]
    allow_unmatched: bool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// LibreQoS: ShapedDevices.csv and network.json.
    Libreqos(LibreqosArgs),
    /// tc: a script of commands, or output of `tc -d qdisc|class|filter show` of a running system.
    Tc(TcArgs),
    /// MikroTik RouterOS: an export with queue trees or simple queues.
    Mikrotik(MikrotikArgs),
    /// Kubernetes: bandwidth annotations of pods, from `kubectl get pods -A -o json` or `-o yaml`, and of manifests.
    K8s(K8sArgs),
    /// libvirt: XML of domains, and of their network.
    Libvirt(LibvirtArgs),
    /// pf.conf with ALTQ: hfsc, cbq and priq of FreeBSD, and of OpenBSD up to 5.4.
    Pf(PfArgs),
}

#[derive(Debug, clap::Args)]
struct LibreqosArgs {
    /// ShapedDevices.csv.
    devices: PathBuf,
    /// network.json, with the nodes of the circuits.
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Rate of the link [default: the sum of the topmost nodes].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Option<Rate>,
    /// To the subscribers, from them, or a link for each; both need --out.
    #[arg(long, value_enum, default_value_t = Way::Down)]
    direction: Way,
    /// Share spare bandwidth in proportion to the minimum rates, the maximum rates, or equally.
    #[arg(long, value_enum, default_value_t = WeightsArg::Guarantee)]
    weights: WeightsArg,
}

#[derive(Debug, clap::Args)]
struct TcArgs {
    /// The file: commands, or output of tc, as text or JSON; with --run a shell script.
    file: PathBuf,
    /// Run the file as a script, and import its commands. It runs without privileges and network, and can write only to
    /// a scratch directory; tc, iptables, ip and others are replaced by recorders and change nothing.
    #[arg(long)]
    run: bool,
    /// With --run: stop the script after this time, at most 600s, and import its commands so far.
    #[arg(long, value_name = "TIME", requires = "run", default_value = "10s", value_parser = run_limit)]
    run_limit: Nanos,
    /// With --run: a variable of the script's environment.
    #[arg(long, value_name = "NAME=VALUE", requires = "run")]
    set: Vec<String>,
    /// With --run: arguments of the script.
    #[arg(last = true, requires = "run", value_name = "ARGUMENT")]
    args: Vec<String>,
    /// Rate of the link [default: cbq's bandwidth; of htb the sum of the root's classes].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Option<Rate>,
    /// Import only this device; also the name for output without a device [default: all; several need --out].
    #[arg(long, value_name = "IF")]
    dev: Option<String>,
}

#[derive(Debug, clap::Args)]
struct MikrotikArgs {
    /// The output of `/export`.
    file: PathBuf,
    /// Rate of the link [default: the sum of the topmost queues].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Option<Rate>,
    /// Queues to import, if the file has both kinds.
    #[arg(long, value_enum)]
    queues: Option<Queues>,
    /// Import the queues of the tree below this: an interface, `global`, or a queue, whose limit is then the link's
    /// rate [default: all; several interfaces need --out].
    #[arg(long, value_name = "NAME")]
    parent: Option<String>,
    /// Of simple queues: to the targets, from them, or a link for each; both need --out.
    #[arg(long, value_enum, default_value_t = Way::Down)]
    direction: Way,
    /// Share spare bandwidth in proportion to the minimum rates, the maximum rates, or equally.
    #[arg(long, value_enum, default_value_t = WeightsArg::Guarantee)]
    weights: WeightsArg,
}

#[derive(Debug, clap::Args)]
struct K8sArgs {
    /// The pods: output of `kubectl get pods -A -o json` or `-o yaml`, or manifests of pods, Deployments and other
    /// objects, which have no addresses.
    file: PathBuf,
    /// Rate of the node's link.
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Rate,
    /// The pods of this node, where there are several.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// To the pods (ingress), from them (egress), or a link for each; both need --out.
    #[arg(long, value_enum, default_value_t = Way::Down)]
    direction: Way,
}

#[derive(Debug, clap::Args)]
struct LibvirtArgs {
    /// XML of domains (virsh dumpxml) and of the network with their addresses (virsh net-dumpxml).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Rate of the link [default: the average of the network's bandwidth].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Option<Rate>,
    /// To the machines (inbound), from them (outbound), or a link for each; both need --out.
    #[arg(long, value_enum, default_value_t = Way::Down)]
    direction: Way,
}

#[derive(Debug, clap::Args)]
struct PfArgs {
    /// pf.conf, or its output of `pfctl -vnf pf.conf`.
    file: PathBuf,
    /// Rate of the link [default: the bandwidth of its altq].
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    rate: Option<Rate>,
    /// Import only the queues of this interface [default: all; several need --out].
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
}

/// A time that a script may run.
fn run_limit(text: &str) -> Result<Nanos, String> {
    const MOST: Nanos = Nanos(600 * 1_000_000_000);
    let limit = args::time(text)?;
    match limit.0 {
        0 => Err("0 is no time; write one such as 10s".to_owned()),
        _ if limit > MOST => Err(format!("the limit is {}", show_time(MOST))),
        _ => Ok(limit),
    }
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// To users of the link.
    Down,
    /// From them.
    Up,
    /// A link for each.
    Both,
}

impl Way {
    fn directions(self) -> Vec<Direction> {
        match self {
            Self::Down => vec![Direction::Down],
            Self::Up => vec![Direction::Up],
            Self::Both => vec![Direction::Down, Direction::Up],
        }
    }
}

/// The weights by which spare bandwidth is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightsArg {
    /// The minimum rates, which are guaranteed.
    Guarantee,
    /// The maximum rates.
    Ceiling,
    /// Nothing: all have equal parts.
    Equal,
}

impl From<WeightsArg> for Weights {
    fn from(weights: WeightsArg) -> Self {
        match weights {
            WeightsArg::Guarantee => Self::Guarantee,
            WeightsArg::Ceiling => Self::Ceiling,
            WeightsArg::Equal => Self::Equal,
        }
    }
}

/// The two kinds of queues of RouterOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Queues {
    /// /queue tree
    Tree,
    /// /queue simple
    Simple,
}

/// Reads, compares, writes and reports. Nothing is written before everything was read and found sound.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let mut ran = Vec::new();
    let (tool, imported) = read(args, &mut ran)?;
    let links = &imported.links;
    if links.len() > 1 && args.out.is_none() {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let names = names.join(", ");
        return Err(CliError::wrong(format!(
            "there are several links ({names}): write them with --out DIR, or choose one"
        )));
    }
    let mut document = ImportDoc::new(&tool, &imported, !args.no_compare)?;
    document.content.ran = ran;
    #[cfg(target_os = "linux")]
    for (link, report) in links.iter().zip(&mut document.content.links) {
        let capacity = Capacity::of(&link.link);
        report.gateway_bps = capacity.bps();
        report.problems.extend(capacity.warning(&link.link).iter().map(ProblemReport::from));
    }
    let unmatched: usize = document.content.links.iter().map(|link| link.unreachable.len()).sum();
    let refused = (unmatched > 0 && !args.allow_unmatched).then(|| {
        CliError::failed(anyhow!(
            "nothing was imported: no frame can reach {}; {}, or add --allow-unmatched and write the missing matches into the link file",
            count(unmatched, "class", "classes"),
            match tool {
                fairlink_api::Tool::K8s { .. } => {
                    "export the pods that run, which have addresses: kubectl get pods -A -o yaml > pods.yaml"
                }
                _ => "mend the configuration",
            }
        ))
    });
    let files = &mut document.content.files;
    *files = if refused.is_some() { Vec::new() } else { made(links, args.out.is_some()) };
    if let (Some(dir), None) = (&args.out, &refused) {
        write(dir, files)?;
        files.iter_mut().for_each(|file| file.name = dir.join(&file.name).display().to_string());
    }
    if out.json {
        out.document(&document)?;
        // So that it comes before the error on a terminal.
        out.flush()?;
        return refused.map_or(Ok(()), Err);
    }
    let report = report::Report {
        document: &document.content,
        links,
        notes: &imported.notes,
        is_written: args.out.is_some() && refused.is_none(),
    };
    report.warn_of_unreachable();
    report.warn_of_rates();
    if args.out.is_none() && refused.is_none() {
        out.raw(links[0].text.as_bytes())?;
        // So that it comes before the report on a terminal.
        out.flush()?;
    }
    report.to_people();
    refused.map_or(Ok(()), Err)
}

/// Reads the tool's configuration. Messages about a script that was run are added to `ran`.
fn read(args: &Args, ran: &mut Vec<String>) -> Result<(fairlink_api::Tool, Imported), CliError> {
    let mut options = ImportOptions { as_is: args.as_is, ..ImportOptions::default() };
    let (tool, files): (_, Vec<&PathBuf>) = match &args.tool {
        Tool::Libreqos(from) => {
            (options.rate, options.weights) = (from.rate, from.weights.into());
            options.directions = from.direction.directions();
            (fairlink_api::Tool::Libreqos, std::iter::once(&from.devices).chain(&from.network).collect())
        }
        Tool::Tc(from) if from.run => {
            let options = tc::Options { rate: from.rate, device: from.dev.clone(), as_is: args.as_is };
            let imported = run_script(from, &options, ran)?;
            return Ok((fairlink_api::Tool::Tc { device: options.device }, imported));
        }
        Tool::Tc(from) => {
            options.rate = from.rate;
            (fairlink_api::Tool::Tc { device: from.dev.clone() }, vec![&from.file])
        }
        Tool::Mikrotik(from) => {
            (options.rate, options.weights) = (from.rate, from.weights.into());
            options.directions = from.direction.directions();
            let queues = from.queues.map(|queues| match queues {
                Queues::Tree => mikrotik::Queues::Tree,
                Queues::Simple => mikrotik::Queues::Simple,
            });
            (fairlink_api::Tool::Mikrotik { queues, parent: from.parent.clone() }, vec![&from.file])
        }
        Tool::K8s(from) => {
            options.rate = Some(from.rate);
            options.directions = from.direction.directions();
            (fairlink_api::Tool::K8s { node: from.node.clone() }, vec![&from.file])
        }
        Tool::Libvirt(from) => {
            options.rate = from.rate;
            options.directions = from.direction.directions();
            (fairlink_api::Tool::Libvirt, from.files.iter().collect())
        }
        Tool::Pf(from) => {
            options.rate = from.rate;
            (fairlink_api::Tool::Pf { interface: from.interface.clone() }, vec![&from.file])
        }
    };
    let sources = files.into_iter().map(SourceText::read).collect::<Result<Vec<_>, _>>()?;
    let imported = fairlink_api::import(&tool, &sources, &options)?;
    Ok((tool, imported))
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn run_script(from: &TcArgs, options: &tc::Options, ran: &mut Vec<String>) -> Result<Imported, CliError> {
    let device = from.dev.as_deref().unwrap_or("eth0");
    let limit = std::time::Duration::from_nanos(from.run_limit.0);
    let made =
        script::run(&script::Order { script: &from.file, args: &from.args, variables: &from.set, device, limit })?;
    let imported = tc::import(&format!("{}, as recorded", from.file.display()), made.text, options);
    // If the commands are invalid, an early end of the script is often the reason.
    let warnings = || made.notes.iter().filter(|note| note.starts_with("WARNING")).cloned().collect::<Vec<_>>();
    let imported = imported.map_err(|errors| match &warnings()[..] {
        [] => CliError::from(errors),
        warnings => CliError::from(errors).within(warnings.join("; ")),
    })?;
    *ran = made.notes;
    Ok(imported)
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
fn run_script(_: &TcArgs, _: &tc::Options, _: &mut Vec<String>) -> Result<Imported, CliError> {
    Err(CliError::wrong("--run needs a sandbox, which there is on Linux (x86_64, aarch64, riscv64) only"))
}

/// Returns the files to write. They have tables if `tables` is true; a file that is printed has none.
fn made(links: &[ImportedLink], tables: bool) -> Vec<ImportedFile> {
    let mut all = Vec::new();
    for link in links {
        let name = format!("{}.toml", link.name);
        match link.tabled.as_ref().filter(|_| tables) {
            Some(tabled) => {
                all.push(ImportedFile { name, text: tabled.text.clone() });
                let table = |(name, text): &(String, String)| ImportedFile { name: name.clone(), text: text.clone() };
                all.extend(tabled.tables.iter().map(table));
            }
            None => all.push(ImportedFile { name, text: link.text.clone() }),
        }
    }
    all
}

/// Writes all files or none. Files that are there already are not overwritten.
fn write(dir: &Path, files: &[ImportedFile]) -> Result<(), CliError> {
    make_directory(dir)?;
    let files: Vec<(PathBuf, &str)> = files.iter().map(|file| (dir.join(&file.name), file.text.as_str())).collect();
    write_all_new("--out", &files)
}
