//! `fairlink bench`: what a packet costs, on this machine.

use std::time::Duration;

use fairlink_core::registry::{self, SCHEDULERS, SchedulerInfo};
use fairlink_lab::bench::{self, BATCH, Cost, Plan};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::out::Out;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this scheduler; may be given several times.
    #[arg(long = "scheduler", value_name = "NAME", value_parser = scheduler)]
    schedulers: Vec<&'static SchedulerInfo>,
    /// Numbers of leaves.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8,1024,65536", value_parser = leaves)]
    leaves: Vec<usize>,
    /// Also a million leaves (needs 1 GB of memory).
    #[arg(long)]
    full: bool,
    /// Milliseconds to spend on each figure.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    time_ms: u64,
}

fn scheduler(name: &str) -> Result<&'static SchedulerInfo, String> {
    registry::find(name).ok_or_else(|| {
        let names: Vec<_> = SCHEDULERS.iter().map(|info| info.name).collect();
        format!("there is no such scheduler; these are: {}", names.join(" "))
    })
}

fn leaves(text: &str) -> Result<usize, String> {
    let most = fairlink_core::hierarchy::MAX_LEAVES;
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is outside 1 .. {most}")) }
}

/// Measures and prints.
pub(crate) fn run(args: Args, out: &mut Out) -> Result<(), Failure> {
    let mut plan = Plan {
        schedulers: args.schedulers,
        leaves: args.leaves,
        levels: vec![1, 3],
        packet_bytes: vec![64, 1500],
        time: Duration::from_millis(args.time_ms),
    };
    if plan.schedulers.is_empty() {
        plan.schedulers = SCHEDULERS.iter().collect();
    }
    if args.full {
        plan.leaves.push(fairlink_core::hierarchy::MAX_LEAVES);
    }
    // Draws only where standard error is a terminal.
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template"));
    let report = bench::run(&plan, &mut |point| {
        bar.set_message(format!(
            "{}: {} leaves, {} levels, {} B",
            point.scheduler, point.leaves, point.levels, point.packet_bytes
        ));
        bar.tick();
    });
    bar.finish_and_clear();
    let report = report.map_err(Failure::failed)?;
    if out.json {
        return out.document(&report);
    }
    out.line(format!(
        "Nanoseconds per packet: one enqueue and one dequeue, in batches of {BATCH}, every leaf backlogged, arrivals at"
    ))?;
    out.line(format!("random leaves, no classification. Machine: {}.", report.machine))?;
    if cfg!(debug_assertions) {
        out.line("This is a debug build; `cargo run --release -- bench` tells what it really costs.")?;
    }
    out.line("")?;
    let mut head = vec!["scheduler".to_owned(), "levels".to_owned(), "packet".to_owned()];
    head.extend(plan.leaves.iter().map(|leaves| format!("{leaves} leaves")));
    out.table(&head, rows(&plan, &report.results), 1..head.len())
}

fn rows(plan: &Plan, costs: &[Cost]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for &packet_bytes in &plan.packet_bytes {
        for info in &plan.schedulers {
            for &levels in &plan.levels {
                let figures = plan.leaves.iter().map(|&leaves| {
                    let point = bench::Point { scheduler: info.name, leaves, levels, packet_bytes };
                    let cost = costs.iter().find(|cost| cost.point == point)?;
                    Some(format!("{:.1}", cost.ns_per_packet))
                });
                let figures: Vec<_> = figures.collect();
                if figures.iter().any(Option::is_some) {
                    let mut row = vec![info.name.to_owned(), levels.to_string(), format!("{packet_bytes} B")];
                    row.extend(figures.into_iter().map(|figure| figure.unwrap_or_else(|| "-".to_owned())));
                    rows.push(row);
                }
            }
        }
    }
    rows
}
