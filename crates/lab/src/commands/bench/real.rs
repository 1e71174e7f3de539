//! `fairlink-lab bench --gateway`: the gateway beside a bridge of the kernel and the kernel's HTB, with real packets.

use std::time::Duration;

use anyhow::anyhow;
use fairlink_core::{MAX_CORES, registry};
use fairlink_report::{Content, Document};
use fairlink_testbed::{
    GatewayBench, GatewayBenchConfig, GatewayBenchError, GatewayThroughput, PathBench, PathDelay, Spread, TcpBench,
    enter_private_namespace, gateway_bench, gateway_throughput,
};
use indicatif::{ProgressBar, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Args, busy};
use fairlink_terminal::failure::CliError;
use fairlink_terminal::human;
use fairlink_terminal::interrupt::stop_flag;
use fairlink_terminal::out::{Out, note};

#[derive(JsonSchema, Serialize)]
pub(crate) struct GatewayBenchDoc {
    machine: String,
    #[serde(flatten)]
    bench: GatewayBench,
}

impl Content for GatewayBenchDoc {
    const KIND: &'static str = "bench_gateway";
    const VERSION: u32 = 2;
}

/// Time to measure with `--quick`.
const QUICK: Duration = Duration::from_millis(300);

#[derive(JsonSchema, Serialize)]
pub(crate) struct ThroughputDoc {
    machine: String,
    scheduler: &'static str,
    #[serde(flatten)]
    throughput: GatewayThroughput,
}

impl Content for ThroughputDoc {
    const KIND: &'static str = "bench_gateway_quick";
}

/// Measures and prints.
pub(super) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    let namespace = enter_private_namespace().map_err(CliError::wrong)?;
    let info = match &args.schedulers[..] {
        [] => registry::find("hls").ok_or_else(|| CliError::wrong("there is no scheduler hls"))?,
        [info] => info,
        _ => return Err(CliError::wrong("--gateway measures one scheduler at a time")),
    };
    if args.quick {
        let span = args.time.map_or(QUICK, |time| Duration::from_nanos(time.0));
        let throughput = gateway_throughput(&namespace, info, span).map_err(CliError::failed)?;
        let machine = fairlink_lab::bench::machine();
        return if out.json {
            out.document(&Document::new(ThroughputDoc { machine, scheduler: info.name, throughput }))
        } else {
            let (rate, frames) = (human::rate(throughput.bps), throughput.frames_per_s.round());
            let text = format!(
                "One processor moves {rate} through the gateway with {}, in {frames} frames of {} B a second. Machine: {machine}.",
                info.name, throughput.frame_bytes
            );
            out.paragraph(&text, 2)?;
            if cfg!(debug_assertions) { out.line(super::DEBUG_BUILD) } else { Ok(()) }
        };
    }
    let stop = stop_flag()?;
    let mut config = GatewayBenchConfig::new(info);
    if let Some(time) = args.time {
        config.span = Duration::from_nanos(time.0);
    }
    if let Some(cores) = args.cores {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        config.cores = cores.unwrap_or(processors.min(MAX_CORES.into()) as u16);
    }
    note(format!("measuring for about {}", human::time(config.duration().as_secs_f64().ceil())));
    // Draws only where standard error is a terminal.
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template"));
    let load = busy::Load::now();
    let bench = gateway_bench(&namespace, &config, &stop, |what| {
        bar.set_message(what.to_owned());
        bar.tick();
    });
    bar.finish_and_clear();
    let bench = bench.map_err(|error| match error {
        GatewayBenchError::Stopped => CliError::Failed(anyhow!("interrupted: no figure is complete")),
        error => CliError::failed(error),
    })?;
    if let Some(warning) = load.warning() {
        note(warning);
    }
    let machine = fairlink_lab::bench::machine();
    let balanced = bench.paths.iter().all(|path| path.balanced) && bench.tcp.iter().all(|tcp| tcp.balanced);
    if out.json {
        out.document(&Document::new(GatewayBenchDoc { machine, bench }))?;
    } else {
        text(&machine, &bench, out)?;
    }
    out.flush()?;
    if balanced { Ok(()) } else { Err(CliError::Failed(anyhow!("packets are unaccounted for"))) }
}

fn text(machine: &str, bench: &GatewayBench, out: &mut Out) -> Result<(), CliError> {
    out.paragraph(
        &format!(
            "Paths between two virtual cables, medians of {} of {}: {} with {}, on {}, pacing {}; sender and receiver on the same machine. Machine: {machine}.",
            human::count(bench.rounds as usize, "round", "rounds"),
            human::time(bench.span_s),
            bench.scheduler,
            human::count(bench.classes.into(), "class", "classes"),
            human::count(bench.cores.into(), "core", "cores"),
            bench.pacing
        ),
        2,
    )?;
    if cfg!(debug_assertions) {
        out.line(super::DEBUG_BUILD)?;
    }
    out.line("")?;
    work(bench, out)?;
    let delays: [(&str, Of); 2] = [
        ("Delay added at 5,000 frames per second", |path| path.delay_light.as_ref()),
        ("Delay added at half of the path's own rate", |path| path.delay_half.as_ref()),
    ];
    for (title, of) in delays {
        delay(title, bench, of, out)?;
    }
    tcp(&bench.tcp, out)?;
    if !bench.skipped.is_empty() {
        out.line("")?;
    }
    for skipped in &bench.skipped {
        out.paragraph(&format!("SKIPPED: {}: not measured, because {}", skipped.what, skipped.why), 2)?;
    }
    Ok(())
}

fn frame(path: &PathBench) -> [String; 2] {
    let copies = if path.gateway.is_some_and(|gateway| gateway.zero_copy) { " zero-copy" } else { "" };
    [format!("{} B", path.frame_bytes), format!("{}{copies}", path.path)]
}

fn known(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| format(spread.median))
}

/// Rate and processor time of each path.
fn work(bench: &GatewayBench, out: &mut Out) -> Result<(), CliError> {
    out.paragraph("Processor time per frame, the sender as fast as it can:", 2)?;
    out.line("")?;
    let head = ["frame", "path", "frames/s", "lost", "thread", "machine", "scheduler", "sending"];
    let rows = bench.paths.iter().map(|path| {
        let gateway = |of: fn(&fairlink_testbed::GatewayPart) -> Spread| path.gateway.as_ref().map(of);
        let lost = 1.0 - path.counts.arrived_packets as f64 / path.counts.offered_packets.max(1) as f64;
        let mut row = frame(path).to_vec();
        row.extend([
            format!("{:.0}", path.arrived_pps.median),
            human::percent(lost),
            known(gateway(|gateway| gateway.data_thread_s), human::time),
            known(path.added_machine_s, human::time),
            known(gateway(|gateway| gateway.scheduler_share), human::percent),
            known(gateway(|gateway| gateway.send_share), human::percent),
        ]);
        row
    });
    out.table(&head, rows.collect(), 2..head.len())?;
    out.line("")?;
    out.paragraph(
        "thread: the gateway's data thread, without waiting. scheduler, sending: their shares of it; sending includes the kernel's receiving at the other end of the cable.",
        2,
    )?;
    let sending = |path: &PathBench| {
        let sending = path.machine_s.filter(|_| path.path == "cable")?;
        Some(format!("{} for {} B", human::time(sending.median), path.frame_bytes))
    };
    let sending: Vec<String> = bench.paths.iter().filter_map(sending).collect();
    if !sending.is_empty() {
        let all = if bench.softirqs_apart { ", and all softirqs of the machine" } else { "" };
        out.paragraph(
            &format!(
                "machine: sender, data thread and ksoftirqd{all}, less what sending over the bare cable takes: {}.",
                sending.join(", ")
            ),
            2,
        )?;
    }
    Ok(())
}

type Of = fn(&PathBench) -> Option<&PathDelay>;

/// Delays of each path beside the cable and the bridge.
fn delay(title: &str, bench: &GatewayBench, of: Of, out: &mut Out) -> Result<(), CliError> {
    let cable = |path: &PathBench| {
        let delay = of(path).filter(|_| path.path == "cable")?;
        let [p50, p99] = [delay.p50_s, delay.p99_s].map(|spread| human::time(spread.median));
        Some(format!("{p50} and {p99} for {} B", path.frame_bytes))
    };
    let cable: Vec<String> = bench.paths.iter().filter_map(cable).collect();
    let above = if cable.is_empty() { String::new() } else { format!(" (p50 and p99 {})", cable.join(", ")) };
    out.line("")?;
    out.paragraph(&format!("{title}, above the bare cable{above}:"), 2)?;
    out.line("")?;
    let head = ["frame", "path", "load/s", "p50", "p99", "p50 - bridge", "p99 - bridge"];
    let signed = |seconds: f64| format!("{}{}", if seconds < 0.0 { "" } else { "+" }, human::time(seconds));
    let rows = bench.paths.iter().filter(|path| path.path != "cable").filter_map(|path| {
        let delay = of(path)?;
        let mut row = frame(path).to_vec();
        row.push(format!("{:.0}", delay.load_pps));
        row.extend([delay.added_p50_s, delay.added_p99_s].map(|spread| known(spread, human::time)));
        row.extend([delay.over_bridge_p50_s, delay.over_bridge_p99_s].map(|spread| known(spread, signed)));
        Some(row)
    });
    out.table(&head, rows.collect(), 2..head.len())
}

/// Goodput beside the kernel's HTB.
fn tcp(runs: &[TcpBench], out: &mut Out) -> Result<(), CliError> {
    let Some(first) = runs.first() else { return Ok(()) };
    out.line("")?;
    out.paragraph(
        &format!(
            "TCP over a link of {}, three classes guaranteed 60, 30 and 10 %: goodput in Gbit/s.",
            human::rate(first.link_bps as f64)
        ),
        2,
    )?;
    out.line("")?;
    let head = ["connections", "path", "gso", "all", "60 %", "30 %", "10 %", "of kernel-htb"];
    let gbit = |spread: Spread| format!("{:.2}", spread.median / 1e9);
    let rows = runs.iter().map(|run| {
        let gso = run.gso.clone().unwrap_or_else(|| "-".to_owned());
        let mut row = vec![run.connections.to_string(), run.path.clone(), gso, gbit(run.goodput_bps)];
        row.extend(run.class_goodput_bps.map(gbit));
        row.push(known(run.of_kernel_htb, human::percent));
        row
    });
    out.table(&head, rows.collect(), 3..head.len())
}
