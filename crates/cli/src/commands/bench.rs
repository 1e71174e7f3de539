//! `fairlink bench`: what a packet costs, on this machine.

use std::time::Duration;

use fairlink_core::{Nanos, SchedulerInfo, registry::SCHEDULERS};
use fairlink_lab::bench::{self, BATCH, Cost, Plan};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{scheduler, time};
use crate::failure::Failure;
use crate::human;
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
    /// Time to spend on each figure [default: 300ms; with --gateway 2s].
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Nanos>,
    /// Instead: real packets through the gateway in a private network namespace; packets per second, delay, the scheduler's share.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    gateway: bool,
}

fn leaves(text: &str) -> Result<usize, String> {
    let most = fairlink_core::MAX_LEAVES;
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is outside 1 .. {most}")) }
}

/// Measures and prints.
pub(crate) fn run(args: Args, out: &mut Out) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    fairlink_net::HugePages::ask();
    #[cfg(target_os = "linux")]
    if args.gateway {
        return real::run(&args, out);
    }
    let mut plan = Plan {
        schedulers: args.schedulers,
        leaves: args.leaves,
        levels: vec![1, 3],
        packet_bytes: vec![64, 1500],
        time: args.time.map_or(Duration::from_millis(300), |time| Duration::from_nanos(time.0)),
    };
    if plan.schedulers.is_empty() {
        plan.schedulers = SCHEDULERS.iter().collect();
    }
    if args.full {
        plan.leaves.push(fairlink_core::MAX_LEAVES);
    }
    // Draws only where standard error is a terminal.
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template"));
    let report = bench::run(&plan, &mut |point| {
        bar.set_message(format!(
            "{}: {}, {}, {} B",
            point.scheduler,
            human::count(point.leaves, "leaf", "leaves"),
            human::count(point.levels, "level", "levels"),
            point.packet_bytes
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
    head.extend(plan.leaves.iter().map(|leaves| human::count(*leaves, "leaf", "leaves")));
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

/// `--gateway`.
#[cfg(target_os = "linux")]
mod real {
    use std::time::Duration;

    use anyhow::anyhow;
    use fairlink_core::registry;
    use fairlink_net::{GatewayBench, GatewayBenchConfig, enter_private_namespace, gateway_bench};
    use serde::Serialize;

    use super::Args;
    use crate::failure::Failure;
    use crate::human;
    use crate::out::{Out, note};

    #[derive(Serialize)]
    struct Document {
        machine: String,
        gateway: Vec<GatewayBench>,
    }

    pub(super) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
        let namespace = enter_private_namespace().map_err(Failure::wrong)?;
        let info = match &args.schedulers[..] {
            [] => registry::find("hls").ok_or_else(|| Failure::wrong("there is no scheduler hls"))?,
            [info] => info,
            _ => return Err(Failure::wrong("--gateway measures one scheduler at a time")),
        };
        let mut config = GatewayBenchConfig::new(info);
        if let Some(time) = args.time {
            config.span = Duration::from_nanos(time.0);
        }
        note(format!(
            "measuring for {}",
            human::time(config.span.as_secs_f64() * 3.0 * (config.frame_bytes.len() * config.backends.len()) as f64)
        ));
        let bench = gateway_bench(&namespace, &config).map_err(Failure::failed)?;
        let machine = fairlink_lab::bench::machine();
        let balanced = bench.results.iter().all(|result| result.balanced);
        if out.json {
            out.document(&Document { machine, gateway: vec![bench] })?;
        } else {
            text(&machine, &bench, out)?;
        }
        out.flush()?;
        if balanced { Ok(()) } else { Err(Failure::Failed(anyhow!("packets are unaccounted for"))) }
    }

    fn text(machine: &str, bench: &GatewayBench, out: &mut Out) -> Result<(), Failure> {
        out.line(format!(
            "The gateway on one processor, {} with {}, pacing {}; sender and receiver on the same machine. Machine: {machine}.",
            bench.scheduler,
            human::count(bench.classes as usize, "class", "classes"),
            bench.pacing
        ))?;
        out.line("")?;
        let head = [
            "frame",
            "backend",
            "offered/s",
            "forwarded/s",
            "if never waiting",
            "at work",
            "processor",
            "scheduler",
            "classifier",
            "added p50",
            "added p99",
        ];
        let rows = bench.results.iter().map(|result| {
            let rates = [result.offered_pps, result.forwarded_pps, result.forwarded_per_busy_second];
            let copies = if result.zero_copy { " zero-copy" } else { "" };
            let mut row = vec![format!("{} B", result.frame_bytes), format!("{}{copies}", result.backend)];
            row.extend(rates.map(|pps| format!("{pps:.0}")));
            let parts = [result.busy, result.processor, result.scheduler_share, result.classify_share];
            row.extend(parts.map(human::percent));
            row.extend([result.added_p50_s, result.added_p99_s].map(human::time));
            row
        });
        out.table(&head, rows.collect(), 2..head.len())?;
        for why in &bench.skipped {
            out.line(format!("SKIPPED: {why}"))?;
        }
        out.line("")?;
        out.line("forwarded/s is with the sender as fast as it can; scheduler and classifier are shares of the time at work;")?;
        out.line("added is the delay through the gateway on an idle link, less that over a bare cable.")
    }
}
