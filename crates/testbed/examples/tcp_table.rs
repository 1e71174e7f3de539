//! Measures TCP with default offloads through the gateway, and through the kernel's own HTB on a bridge. Three classes
//! are guaranteed 60, 30 and 10 % of the link, with FQ-CoDel or one queue of 1000 packets in each. Small packets are
//! echoed in the last one. `scripts/tcp-table` runs it; it needs `ip` and `tc`, and about a minute on an idle machine.
//!
//! Goodput is the rate of user data. The ideal is the link's rate times the class's part times 1448/1514, the fraction
//! of user data in full frames. HTB's quanta are 9084, 4542 and 1514 B; they do not matter, because the guarantees add
//! up to the link.
//!
//! Arguments: rates in Mbit/s [100 1000], seconds of each run with `--seconds N` [5], connections in each class with
//! `--connections N` [1], the gateway's waiting mode with `--pacing MODE` [precise], its backend with `--backend NAME`
//! [af_packet].
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairlink_config::link::Gso;
use fairlink_core::{QueueKind, registry};
use fairlink_net::{BackendChoice, GatewayConfig, GatewayStats, Pacing};
use fairlink_testbed::{
    SHARED_PERCENT, SharedTcp, SharedTcpStage, USER_DATA, enter_private_namespace, shared_config, shared_link,
};

/// Schedulers and queues. With `/auto` behind its name, a scheduler has super-frames in pieces of 0.25 ms.
const SHARERS: [[&str; 2]; 9] = [
    ["bridge", ""],
    ["kernel-htb", FIFO],
    ["htb", FIFO],
    ["hls", FIFO],
    ["hls/auto", FIFO],
    ["kernel-htb", FQ_CODEL],
    ["htb", FQ_CODEL],
    ["hls", FQ_CODEL],
    ["hls/auto", FQ_CODEL],
];
const FIFO: &str = "fifo";
const FQ_CODEL: &str = "fq_codel";

/// Settings shared by all runs.
#[derive(Clone, Copy)]
struct Run {
    seconds: u64,
    connections: u32,
    pacing: Pacing,
    backend: BackendChoice,
}

/// One run.
fn play(
    stage: &SharedTcpStage,
    [sharer, leaf]: [&str; 2],
    mbit: u64,
    run: Run,
) -> Result<(SharedTcp, Option<GatewayStats>), String> {
    let Run { seconds, connections, pacing, backend } = run;
    let (span, never) = (Duration::from_secs(seconds), AtomicBool::new(false));
    let queue = if leaf == FQ_CODEL { QueueKind::FqCoDel } else { QueueKind::Fifo };
    let link = shared_link(mbit * 1_000_000, queue).map_err(|error| error.to_string())?;
    let over_bridge = |link| {
        let ran = stage.over_bridge(link, connections, span, &never);
        ran.map(|(shared, _)| (shared, None)).map_err(|error| error.to_string())
    };
    match sharer {
        "bridge" => over_bridge(None),
        "kernel-htb" => over_bridge(Some(&link)),
        scheduler => {
            let (scheduler, gso) = match scheduler.strip_suffix("/auto") {
                Some(scheduler) => (scheduler, Gso::Whole(Gso::AUTO)),
                None => (scheduler, Gso::Split),
            };
            let scheduler = registry::find(scheduler).ok_or_else(|| format!("no scheduler {scheduler}"))?;
            let config = shared_config(SharedTcpStage::PORTS, link, scheduler);
            let config = GatewayConfig { pacing, backend, gso, ..config };
            let (shared, stats) =
                stage.over_gateway(config, connections, span, &never).map_err(|error| error.to_string())?;
            if stats.gateway().balanced {
                Ok((shared, Some(stats)))
            } else {
                Err(format!("the counters are inconsistent: {stats:?}"))
            }
        }
    }
}

fn show([sharer, leaf]: [&str; 2], mbit: u64, shared: &SharedTcp, stats: Option<&GatewayStats>) {
    print!("{mbit:>5} {:<20}", format!("{sharer} {leaf}"));
    for (percent, goodput) in SHARED_PERCENT.iter().zip(shared.goodput_bps) {
        let ideal = (mbit * percent) as f64 * 1e4 * USER_DATA;
        print!("{:>8.2} ({:>5.1} %)", goodput / 1e6, 100.0 * goodput / ideal);
    }
    let all: f64 = shared.goodput_bps.iter().sum();
    print!("{:>9.2} ({:>5.1} %)", all / 1e6, all / (mbit as f64 * 1e4 * USER_DATA));
    let echo_ms = |percent| shared.echo(percent).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    print!("{:>8.2}{:>8.2}{:>5}", echo_ms(50), echo_ms(99), shared.unanswered);
    let Some(stats) = stats else { return println!() };
    // The backend in use: another may have replaced the requested one.
    let movers: Vec<&str> = stats.gateway().interfaces.iter().map(|interface| interface.backend.as_str()).collect();
    let movers = movers.join(", ");
    println!(
        "   {:>4.0} %{:>7.0} ms  {movers}",
        stats.gateway().time.processor * 100.0,
        stats.gateway().forfeited_s * 1e3
    );
}

/// All runs, one after the other.
fn all(rates: &[u64], run: Run) -> Result<(), String> {
    let namespace = enter_private_namespace().map_err(|error| error.to_string())?;
    let stage = SharedTcpStage::new(&namespace).map_err(|error| error.to_string())?;
    println!(
        "{:>5} {:<20}{:>18}{:>18}{:>18}{:>19}{:>17}{:>5}  gateway's processor, lost time, backends in and out",
        "Mbit", "", "60 %", "30 %", "10 %", "all", " echo p50, p99 ms", "lost"
    );
    for &mbit in rates {
        for sharer in SHARERS {
            match play(&stage, sharer, mbit, run) {
                Ok((shared, stats)) => show(sharer, mbit, &shared, stats.as_ref()),
                Err(why) => println!("{mbit:>5} {:<20} SKIPPED: {why}", sharer.join(" ")),
            }
        }
    }
    Ok(())
}

fn mode(name: &str) -> Result<Pacing, String> {
    Pacing::named(name).ok_or_else(|| format!("{name}: must be precise, busy or eco"))
}

fn backend_named(name: &str) -> Result<BackendChoice, String> {
    BackendChoice::named(name).ok_or_else(|| format!("{name}: must be auto, af_packet or af_xdp"))
}

fn run() -> Result<(), String> {
    let mut rates = Vec::new();
    let mut run = Run { seconds: 5, connections: 1, pacing: Pacing::Precise, backend: BackendChoice::AfPacket };
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        let number = |text: Option<String>| {
            let text = text.ok_or("a number is missing at the end")?;
            text.parse::<u64>().ok().filter(|&number| number > 0).ok_or(format!("{text}: must be a number, at least 1"))
        };
        match word.as_str() {
            "--pacing" => run.pacing = mode(&arguments.next().unwrap_or_default())?,
            "--backend" => run.backend = backend_named(&arguments.next().unwrap_or_default())?,
            "--seconds" => run.seconds = number(arguments.next())?,
            "--connections" => run.connections = number(arguments.next())?.min(64) as u32,
            _ => rates.push(number(Some(word))?),
        }
    }
    if rates.is_empty() {
        rates = vec![100, 1000];
    }
    all(&rates, run)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
