//! `fairlink-lab bench --cores`: a link on several threads, memory to memory.

use std::thread::available_parallelism;
use std::time::Duration;

use fairlink_core::registry;
use fairlink_lab::bench::{CoresCost, CoresReport, cores};
use fairlink_report::Document;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Args, DEBUG_BUILD, busy};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::out::{Out, note};

/// Time for each figure without `--time`.
const TIME: Duration = Duration::from_secs(1);

/// Measures on up to `most` threads, or one for each processor, and prints.
pub(super) fn run(args: &Args, most: Option<u16>, out: &mut Out) -> Result<(), CliError> {
    let processors = available_parallelism().map_or(1, usize::from);
    let most = most.map_or(processors, usize::from);
    if most > processors {
        return Err(CliError::wrong(format!(
            "--cores {most}: more threads than processors; this program may use {}",
            human::count(processors, "processor", "processors")
        )));
    }
    let schedulers = match &args.schedulers[..] {
        [] => vec![registry::find("hls").ok_or_else(|| CliError::wrong("there is no scheduler hls"))?],
        some => some.to_vec(),
    };
    let time = args.time.map_or(TIME, |time| Duration::from_nanos(time.0));
    // Draws only where standard error is a terminal.
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template"));
    let load = busy::Load::now();
    let report = cores(&schedulers, most, time, &mut |split, threads| {
        bar.set_message(format!("{split}: {}", human::count(threads, "thread", "threads")));
        bar.tick();
    });
    bar.finish_and_clear();
    if let Some(warning) = load.warning() {
        note(warning);
    }
    let report = Document::new(report.map_err(CliError::failed)?);
    if out.json { out.document(&report) } else { text(&report.content, out) }
}

fn text(report: &CoresReport, out: &mut Out) -> Result<(), CliError> {
    let CoresReport { machine, leaves, rings, batch, runs, .. } = report;
    out.paragraph(
        &format!(
            "Packets through one link on several threads, memory to memory, {leaves} leaves for each thread that \
             schedules, calls for {batch} packets. Processor time of such a thread: the median of {runs} runs, least \
             and most in brackets."
        ),
        2,
    )?;
    out.paragraph(&format!("Machine: {machine}."), 2)?;
    if cfg!(debug_assertions) {
        out.line(DEBUG_BUILD)?;
    }
    for (pattern, words) in
        [("backlogged", "Every leaf backlogged"), ("churn", "Leaves that come and go, a packet at a time")]
    {
        out.line("")?;
        out.line(format!("{words}:"))?;
        let rows = report.results.iter().filter(|cost| cost.pattern == pattern).map(row).collect();
        out.table(&["", "threads", "million packets/s", "ns per packet", "", "empty"], rows, 1..6)?;
    }
    out.line("")?;
    out.paragraph(
        &format!(
            "hub: one thread schedules, {rings} rings lead to it; the others fill and empty rings. empty: its time \
             without any packet, in per cent of the time with packets; it is not counted."
        ),
        2,
    )?;
    out.paragraph(
        "shared: all threads schedule, and share the virtual times of 8 classes. empty: calls that sent nothing, in per \
         cent of full batches; they are counted.",
        2,
    )?;
    out.paragraph(
        "hubs: each thread has a hub with 8 classes of its own; it also receives packets for all hubs, and sends those \
         of all hubs. empty: turns in which no packet moved, in per cent of full batches; they are counted.",
        2,
    )
}

fn row(cost: &CoresCost) -> Vec<String> {
    let way = match (cost.split, cost.scheduler) {
        ("one", Some(scheduler)) => format!("{scheduler} alone"),
        (split, Some(scheduler)) => format!("{scheduler}, {split}"),
        (split, None) => split.to_owned(),
    };
    vec![
        way,
        cost.threads.to_string(),
        format!("{:.1}", cost.mpps),
        format!("{:.1}", cost.ns_per_packet),
        format!("[{:.1}, {:.1}]", cost.least_ns_per_packet, cost.most_ns_per_packet),
        human::percent(cost.empty),
    ]
}
