//! `fairlink-lab bench`: cost per packet on this machine.

#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
mod cores;
#[cfg(target_os = "linux")]
pub(crate) mod real;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairlink_core::{Nanos, SchedulerInfo, registry::SCHEDULERS};
use fairlink_lab::bench::{self, Cost, Load, Memory, Plan, Report, page};
use fairlink_report::Document;
use fairlink_workload::{BATCH, Calls, Pattern};
use indicatif::{ProgressBar, ProgressStyle};

use super::busy;
use fairlink_terminal::args::{one_of, scheduler, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::Out;
#[cfg(target_os = "linux")]
use fairlink_terminal::out::note;

const DEBUG_BUILD: &str = "This is a debug build: a release build has other costs.";

/// Schedulers and workload to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this scheduler; may be repeated.
    #[arg(long = "scheduler", value_name = "NAME", value_parser = scheduler)]
    schedulers: Vec<&'static SchedulerInfo>,
    /// Numbers of leaves.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8,1024,65536", value_parser = leaves)]
    leaves: Vec<usize>,
    /// Numbers of levels of the tree.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,3", value_parser = levels)]
    levels: Vec<usize>,
    /// Active leaves: all (backlogged), one in a hundred (sparse), or all with one packet at a time (churn).
    #[arg(
        long = "pattern", value_name = "PATTERN,...", value_delimiter = ',', default_value = "backlogged,sparse,churn",
        value_parser = one_of(Pattern::ALL.map(|pattern| (pattern.name(), pattern)))
    )]
    patterns: Vec<Pattern>,
    /// Lengths of packets in bytes.
    #[arg(long = "packet", value_name = "BYTES,...", value_delimiter = ',', default_value = "64,1500", value_parser = packet)]
    packet_bytes: Vec<u32>,
    /// Enqueue and dequeue single packets instead of batches.
    #[arg(long)]
    single: bool,
    /// Give every class a ceiling of twice its share.
    #[arg(long)]
    ceilings: bool,
    /// Access a record of 64 bytes per packet, as a gateway does.
    #[arg(long)]
    record: bool,
    /// Also a million leaves (needs 1 GB of memory).
    #[arg(long)]
    full: bool,
    /// Also write the report as cost.json, its tables as cost.md and a plot as cost.svg into this directory, which is
    /// made.
    #[arg(long = "out", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// With --out: show the figures of this earlier cost.json, or of another `bench --json`, before the current ones.
    #[arg(long, value_name = "FILE", requires = "directory")]
    before: Option<PathBuf>,
    /// With --out: also show the figures of this cost.json, of other schedulers or with other classes; may be repeated.
    #[arg(long, value_name = "FILE", requires = "directory")]
    beside: Vec<PathBuf>,
    /// Time to spend on each figure [default: 100ms; with --cores 1s; with --gateway 1.5s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Nanos>,
    /// Measure a link on 1 to N threads instead, memory to memory, with 1,024 leaves [default: hls; all processors]:
    /// the scheduler alone, a hub with 16 rings, shared virtual times, 1 to N hubs. With --gateway: a gateway on N cores.
    #[cfg(target_os = "linux")]
    #[arg(
        long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u16).range(1..),
        conflicts_with_all = [
            "leaves", "levels", "patterns", "packet_bytes", "single", "ceilings", "record", "full", "directory", "quick"
        ]
    )]
    cores: Option<Option<u16>>,
    /// Measure the gateway with real packets in a private network namespace instead, beside a bridge of the kernel and
    /// the kernel's HTB: processor time per frame, delay, TCP. Takes about two minutes.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    gateway: bool,
    /// With --gateway: only the bits per second that one processor moves with full frames; takes less than a second.
    #[cfg(target_os = "linux")]
    #[arg(long, requires = "gateway")]
    quick: bool,
}

fn within(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is outside 1 .. {most}")) }
}

fn leaves(text: &str) -> Result<usize, String> {
    within(text, fairlink_core::MAX_LEAVES)
}

fn levels(text: &str) -> Result<usize, String> {
    within(text, fairlink_core::MAX_DEPTH)
}

fn packet(text: &str) -> Result<u32, String> {
    within(text, fairlink_core::MAX_PACKET as usize).map(|bytes| bytes as u32)
}

/// Measures and prints.
pub(crate) fn run(args: Args, out: &mut Out) -> Result<(), CliError> {
    #[cfg(target_os = "linux")]
    fairlink_net::HugePages::ask();
    #[cfg(target_os = "linux")]
    if args.gateway {
        return real::run(&args, out);
    }
    #[cfg(target_os = "linux")]
    if let Some(most) = args.cores {
        return cores::run(&args, most, out);
    }
    let mut plan = Plan {
        schedulers: args.schedulers,
        leaves: args.leaves,
        levels: args.levels,
        patterns: args.patterns,
        packet_bytes: args.packet_bytes,
        calls: if args.single { Calls::Single } else { Calls::Batches },
        ceilings: args.ceilings,
        record: args.record,
        time: args.time.map_or(Duration::from_millis(100), |time| Duration::from_nanos(time.0)),
    };
    if plan.schedulers.is_empty() {
        plan.schedulers = SCHEDULERS.iter().collect();
    }
    if args.full {
        plan.leaves.push(fairlink_core::MAX_LEAVES);
    }
    // Report unreadable and unwritable files before the measurement.
    let earlier = args.before.as_deref().map(other).transpose()?.unwrap_or_default();
    let beside: Vec<page::Other> = args.beside.iter().map(|path| other(path)).collect::<Result<_, _>>()?;
    if let Some(directory) = &args.directory {
        std::fs::create_dir_all(directory).map_err(|error| unusable(directory, &error))?;
    }
    // Draws only where standard error is a terminal.
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template"));
    #[cfg(target_os = "linux")]
    let load = busy::Load::now();
    let report = bench::run(&plan, &mut |point| {
        bar.set_message(format!(
            "{}, {}: {}, {}, {} B",
            point.scheduler,
            point.pattern,
            human::count(point.leaves, "leaf", "leaves"),
            human::count(point.levels, "level", "levels"),
            point.packet_bytes
        ));
        bar.tick();
    });
    bar.finish_and_clear();
    #[cfg(target_os = "linux")]
    if let Some(warning) = load.warning() {
        note(warning);
    }
    let report = Document::new(report.map_err(CliError::failed)?);
    if let Some(directory) = &args.directory {
        let json = serde_json::to_string_pretty(&report).map_err(CliError::failed)?;
        let files = [
            ("cost.json", json),
            ("cost.md", page::markdown(&report.content, &earlier, &beside)),
            ("cost.svg", page::figure(&report.content, &beside).svg()),
        ];
        for (name, content) in files {
            let path = directory.join(name);
            std::fs::write(&path, content).map_err(|error| unusable(&path, &error))?;
        }
    }
    if out.json { out.document(&report) } else { text(&plan, &report.content, out) }
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::wrong(format!("{}: {error}", path.display()))
}

/// The report of another run.
fn other(path: &Path) -> Result<page::Other, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
    let says = |error| format!("{}: {error}; a file of `fairlink-lab bench --json` is wanted", path.display());
    serde_json::from_str(&text).map_err(|error| CliError::wrong(says(error)))
}

fn text(plan: &Plan, report: &Report, out: &mut Out) -> Result<(), CliError> {
    let calibration = &report.calibration;
    let calls = match plan.calls {
        Calls::Batches => format!("in batches of {BATCH}"),
        Calls::Single => "a packet a call".to_owned(),
    };
    out.paragraph(&format!("Nanoseconds per packet: one enqueue and one dequeue, {calls}, less the"), 2)?;
    out.line("harness, on a clock of 2.5 GHz; no classification. Arrivals are in random order.")?;
    if plan.ceilings {
        out.line("Every class has a ceiling, twice what it gets.")?;
    }
    if plan.record {
        out.line("A record of 64 B is touched for each packet.")?;
    }
    out.paragraph(&format!("Machine: {}, at {:.2} GHz.", report.machine, calibration.clock_ghz), 2)?;
    let load = |load: &Load| format!("{:.1} ns in {}", load.ns, human::size(load.bytes as f64));
    let loads: Vec<String> = calibration.loads.iter().map(load).collect();
    out.line("A load that waits for the one before it, at random over some memory:")?;
    out.paragraph(&format!("{}.", loads.join(", ")), 2)?;
    if cfg!(debug_assertions) {
        out.line(DEBUG_BUILD)?;
    }
    let mut head = vec!["scheduler".to_owned(), "levels".to_owned()];
    head.extend(plan.leaves.iter().map(|leaves| human::count(*leaves, "leaf", "leaves")));
    for &packet_bytes in &plan.packet_bytes {
        for pattern in &plan.patterns {
            out.line("")?;
            out.paragraph(&format!("{}, packets of {packet_bytes} B:", in_words(*pattern)), 2)?;
            let of = |cost: &&Cost| cost.point.pattern == pattern.name() && cost.point.packet_bytes == packet_bytes;
            let costs: Vec<&Cost> = report.baselines.iter().chain(&report.results).filter(of).collect();
            out.table(&head, rows(plan, &costs), 1..head.len())?;
        }
    }
    out.line("")?;
    out.line("harness: nanoseconds of the workload itself, already taken off. rings: bare")?;
    out.line("queues without a scheduler. Bytes, inner classes shared out among the leaves:")?;
    out.line("")?;
    let head = ["scheduler", "levels", "leaves", "B per idle leaf", "B per queued packet"];
    let row = |memory: &Memory| {
        let mut row = vec![memory.scheduler.to_owned(), memory.levels.to_string(), memory.leaves.to_string()];
        row.extend([memory.bytes_per_idle_leaf, memory.bytes_per_queued_packet].map(|bytes| format!("{bytes:.0}")));
        row
    };
    out.table(&head, report.memory.iter().map(row).collect(), 1..head.len())
}

const fn in_words(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Backlogged => "Every leaf backlogged",
        Pattern::Sparse => "One leaf of a hundred backlogged, the others idle",
        Pattern::Churn => "Leaves that come and go, a packet at a time",
    }
}

/// Returns a row for each scheduler and number of levels. The cost of the harness is shown in full and subtracted from
/// all others.
fn rows(plan: &Plan, costs: &[&Cost]) -> Vec<Vec<String>> {
    let names = ["harness", "rings"].into_iter().chain(plan.schedulers.iter().map(|info| info.name));
    let mut rows = Vec::new();
    for name in names {
        for &levels in &plan.levels {
            let figure = |&leaves: &usize| {
                let is = |cost: &&&Cost| {
                    (cost.point.scheduler, cost.point.levels, cost.point.leaves) == (name, levels, leaves)
                };
                let cost = costs.iter().find(is)?;
                let ns = if name == "harness" { cost.ns_per_packet } else { cost.reference_ns_per_packet };
                Some(format!("{ns:.1}"))
            };
            let figures: Vec<Option<String>> = plan.leaves.iter().map(figure).collect();
            if figures.iter().any(Option::is_some) {
                let mut row = vec![name.to_owned(), levels.to_string()];
                row.extend(figures.into_iter().map(|figure| figure.unwrap_or_else(|| "-".to_owned())));
                rows.push(row);
            }
        }
    }
    rows
}
