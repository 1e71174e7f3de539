//! `fairlink receive`: measures the traffic of a generator.

mod record;
mod tcp;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlink_core::{ClassId, Nanos};
use fairlink_report::{Document, Rates};
use fairlink_testbed::{ClassDatagrams, Datagrams, DelayClock, MAX_FLOWS, Receiver, ReceiverConfig, ReceiverReport};
use fairlink_traffic::Script;
use indicatif::{ProgressBar, ProgressStyle};

use fairlink_terminal::args::{one_of, time};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::files::read_tree;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, make_directory, note};

pub(super) use self::record::Record;

/// Interfaces or port to receive from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Interface to listen at.
    #[arg(long = "in", value_name = "IF", required_unless_present = "tcp")]
    input: Option<String>,
    /// Listen at this TCP port for `fairlink generate --tcp` instead.
    #[arg(long, value_name = "PORT", conflicts_with_all = ["input", "link", "flows"], value_parser = clap::value_parser!(u16).range(1..))]
    tcp: Option<u16>,
    /// Duration [default: until Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Nanos>,
    /// The link file with the classes to measure. Without it, classes are numbers; the first 65,536 are measured, and
    /// delays of the first
    /// 512.
    #[arg(long, value_name = "LINK")]
    link: Option<PathBuf>,
    /// Clock for delays: monotonic (sender on this machine) or realtime (two machines). With realtime, offset, skew,
    /// drift and jumps of the two clocks are estimated from the delays, and corrected delays are shown as well.
    #[arg(long, value_name = "CLOCK", default_value = "monotonic", value_parser = one_of([("monotonic", DelayClock::Monotonic), ("realtime", DelayClock::Realtime)]))]
    clock: DelayClock,
    /// Show each flow; the number of flows of a class, as in `generate --flows`.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FLOWS)))]
    flows: u32,
    /// Write rates and delays against time into this directory, as CSV and SVG.
    #[arg(long, value_name = "DIR", conflicts_with = "tcp")]
    out: Option<PathBuf>,
    /// Length of the windows in these files, 1 ms at least.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = time, requires = "out")]
    window: Nanos,
    /// The sender's script; each of its R commands is marked below the x axis.
    #[arg(long, value_name = "FILE", requires = "out")]
    script: Option<PathBuf>,
    /// Keep the receiving thread on this processor.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

/// Receives and reports.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    if let Some(port) = args.tcp {
        return tcp::run(port, args.duration, out);
    }
    let Some(input) = &args.input else { return Err(CliError::wrong("an interface is missing (--in), or --tcp")) };
    let mut config = ReceiverConfig::new(input);
    if let Some(path) = &args.link {
        let link = read_tree(path)?;
        config.names = link.tree.leaves().iter().map(|&leaf| (leaf, link.names.name(leaf).to_owned())).collect();
    }
    let script = args.script.as_deref().map(script).transpose()?;
    if args.window < Nanos::from_millis(1) {
        return Err(CliError::wrong(format!(
            "--window {}: the shortest is 1 ms",
            human::time(args.window.0 as f64 / 1e9)
        )));
    }
    if let Some(dir) = &args.out {
        // Before the work, not after it.
        make_directory(dir)?;
        config.window = Duration::from_nanos(args.window.0);
    }
    let (names, flows) = (config.names.clone(), script.is_some());
    let name = |class: ClassId| match names.get(&class) {
        Some(name) => name.clone(),
        None if flows => format!("flow {}", class.0),
        None => class.0.to_string(),
    };
    config.clock = args.clock;
    config.flows = args.flows;
    config.duration = args.duration.map(|time| Duration::from_nanos(time.0));
    config.cpu = args.cpu;
    let receiver = Receiver::open(config).map_err(CliError::wrong)?;
    let stop = stop_flag()?;
    if !stop.load(Ordering::Relaxed) {
        let end = args
            .duration
            .map_or_else(|| "until Ctrl-C".to_owned(), |time| format!("for {}", human::time(time.0 as f64 / 1e9)));
        note(format!("receiving at {input} {end}"));
    }
    // Draws only where standard error is a terminal.
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template");
    let bar = ProgressBar::new_spinner().with_style(style);
    let mut record = Record::default();
    let report = receiver.run(&stop, |window| {
        let length = window.end_s - window.start_s;
        let bps: f64 = window.classes.values().map(|seen| Rates::bps(seen.amount, length)).sum();
        if args.out.is_some() {
            record.keep(window, name);
        }
        bar.set_message(format!("{:.1} s: {}", window.end_s, human::rate(bps)));
        bar.tick();
    });
    bar.finish_and_clear();
    let report = report.map_err(CliError::failed)?;
    if let Some(dir) = &args.out {
        record.write(script.as_ref(), dir).map_err(CliError::failed)?;
    }
    if out.json { out.document(&Document::new(report)) } else { text(&report, out) }
}

/// The script in a file.
fn script(path: &Path) -> Result<Script, CliError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| CliError::wrong(format!("{}: {error}", path.display())))?;
    Script::parse(&text).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{}:{error}", path.display())).collect();
        CliError::wrong(lines.join("\n"))
    })
}

/// Prints the received traffic.
pub(super) fn text(report: &ReceiverReport, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(&format!("received for {}", human::time(report.duration_s)), 2)?;
    let head = ["class", "frames", "rate", "lost", "twice", "out of order", "delay min", "mean", "p50", "p99", "max"];
    let rows = report.classes.iter().map(|class| {
        let mut row = vec![class.name.clone(), class.received_packets.to_string(), human::rate(class.rate_bps)];
        row.extend(
            [class.lost_packets, class.duplicate_packets, class.reordered_packets].map(|count| count.to_string()),
        );
        let delay = class.delay_s.unwrap_or_default();
        row.extend([delay.min, delay.mean, delay.p50, delay.p99, delay.max].map(human::known_time));
        row
    });
    out.table(&head, rows.collect(), 1..head.len())?;
    let corrected: Vec<_> = report.classes.iter().filter_map(|class| Some((class, class.corrected_delay_s?))).collect();
    if !corrected.is_empty() {
        out.line("")?;
        let head = ["class", "corrected delay beyond the shortest: min", "mean", "p50", "p99", "max"];
        let rows = corrected.iter().map(|(class, of)| {
            let mut row = vec![class.name.clone()];
            row.extend([of.min, of.mean, of.p50, of.p99, of.max].map(human::time));
            row
        });
        out.table(&head, rows.collect(), 1..head.len())?;
    }
    for sender in &report.clocks {
        out.line("")?;
        out.paragraph(&format!("this machine's clock against that of the sender of run {}", sender.run), 2)?;
        out.tables(&sender.clock.tables())?;
        sender.clock.doubts().iter().try_for_each(|doubt| out.paragraph(doubt, 2))?;
    }
    if !report.flows.is_empty() {
        out.line("")?;
        let head = ["class", "flow", "frames", "rate", "lost", "twice", "out of order", "mean delay"];
        let rows = report.flows.iter().map(|flow| {
            let counts = [flow.lost_packets, flow.duplicate_packets, flow.reordered_packets];
            let mut row = vec![flow.name.clone(), flow.flow.to_string(), flow.received_packets.to_string()];
            row.push(human::rate(flow.rate_bps));
            row.extend(counts.map(|count| count.to_string()));
            row.push(flow.delay_mean_s.map_or_else(|| "-".to_owned(), human::time));
            row
        });
        out.table(&head, rows.collect(), 1..head.len())?;
    }
    if let Some(of) = &report.datagrams {
        datagrams(of, out)?;
    }
    if report.beyond_flow_packets > 0 {
        out.paragraph(&format!("{} frames were of flows beyond the first 65,536", report.beyond_flow_packets), 2)?;
    }
    if report.foreign_packets > 0 {
        out.paragraph(&format!("{} frames were not from a generator", report.foreign_packets), 2)?;
    }
    if report.beyond_packets > 0 {
        out.paragraph(
            &format!(
                "{} frames were of classes that are not measured: not in the link file, or beyond the first 65,536",
                report.beyond_packets
            ),
            2,
        )?;
    }
    if report.classes_without_delays > 0 {
        out.paragraph(
            &format!("{} classes are counted without delays: the first 512 have them", report.classes_without_delays),
            2,
        )?;
    }
    if report.socket_drops > 0 {
        out.paragraph(
            &format!("{} frames came too fast for this receiver; they are part of the lost", report.socket_drops),
            2,
        )?;
    }
    let early: u64 = report.classes.iter().map(|class| class.negative_delays).sum();
    if early > 0 && report.clocks.is_empty() {
        out.paragraph(&format!("{early} frames seem to have come before they were sent: the clocks disagree"), 2)?;
    }
    Ok(())
}

/// The counts of fragments and of datagrams put together, in words.
fn datagrams(of: &Datagrams, out: &mut Out) -> Result<(), CliError> {
    out.line("")?;
    let head = ["class", "datagrams whole", "incomplete", "fragments"];
    let row = |class: &ClassDatagrams| {
        let counts = [class.whole, class.incomplete, class.fragments].map(|count| count.to_string());
        std::iter::once(class.name.clone()).chain(counts).collect()
    };
    out.table(&head, of.classes.iter().map(row).collect(), 1..head.len())?;
    if of.incomplete_of_unknown_class > 0 {
        let datagrams = human::count(of.incomplete_of_unknown_class as usize, "datagram", "datagrams");
        out.paragraph(&format!("{datagrams} lacked the first fragment, which says the class"), 2)?;
    }
    if of.refused_fragments > 0 {
        let (refused, all) = (of.refused_fragments, of.fragments);
        let why = "they came twice, overlapped others, or contradicted what was known of their datagram";
        out.paragraph(&format!("{refused} of {all} fragments were refused: {why}"), 2)?;
    }
    Ok(())
}
