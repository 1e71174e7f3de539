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

#[path = "../tests/packets/support/cables.rs"]
mod cables;
#[path = "../tests/packets/support/machines.rs"]
mod machines;
#[path = "../tests/packets/support/shared_tcp.rs"]
mod shared_tcp;

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_config::link::Gso;
use fairlink_core::QueueKind;
use fairlink_net::{BackendChoice, Gateway, GatewayConfig, Pacing};
use fairlink_testbed::enter_private_namespace;

use crate::cables::cables;
use crate::machines::{default_offloads, ip};
use crate::shared_tcp::{LIMIT, PERCENT, PORTS, Shared, USERS_PART, config, share};

/// Environment variable with the run of a process; absent in the first process, which starts one for each run.
const VARIABLE: &str = "FAIRLINK_TCP_TABLE_RUN";
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

fn tc(arguments: &str) -> Result<(), String> {
    let output = Command::new("tc").args(arguments.split(' ')).output().map_err(|why| format!("tc: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("tc {arguments}: {said}")) }
}

/// A bridge in the gateway's place.
fn bridge() -> Result<(), String> {
    ip("link add bridge type bridge stp_state 0 mcast_snooping 0")?;
    for port in ["in", "out"] {
        ip(&format!("link set {port} master bridge"))?;
    }
    ip("link set bridge up")
}

/// The kernel's HTB at `out`, with the gateway's classes.
fn kernel_htb(mbit: u64, leaf: &str) -> Result<(), String> {
    tc("qdisc add dev out root handle 1: htb default 13")?;
    tc(&format!("class add dev out parent 1: classid 1:1 htb rate {mbit}mbit ceil {mbit}mbit quantum 1514"))?;
    for (index, percent) in (1..).zip(PERCENT) {
        let rate = mbit * percent * 10;
        let quantum = 1514 * percent / 10;
        tc(&format!(
            "class add dev out parent 1:1 classid 1:1{index} htb rate {rate}kbit ceil {mbit}mbit quantum {quantum}"
        ))?;
        let queue = if leaf == FIFO { "pfifo" } else { leaf };
        tc(&format!("qdisc add dev out parent 1:1{index} {queue} limit {LIMIT}"))?;
        let port = PORTS[index - 1];
        tc(&format!("filter add dev out parent 1: protocol ip u32 match ip dport {port} 0xffff flowid 1:1{index}"))?;
    }
    Ok(())
}

/// One run, in this process.
fn play(sharer: &str, leaf: &str, mbit: u64, run: Run) -> Result<(), String> {
    let Run { seconds, connections, pacing, backend } = run;
    let namespace = enter_private_namespace().map_err(|error| error.to_string())?;
    cables();
    default_offloads(&["gen", "in", "out", "sink"]);
    let wait = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    };
    let (shared, stats) = match sharer {
        "bridge" | "kernel-htb" => {
            bridge()?;
            if sharer == "kernel-htb" {
                kernel_htb(mbit, leaf)?;
            }
            share(wait, connections, seconds * 1000)?
        }
        scheduler => {
            let queue = if leaf == FIFO { QueueKind::Fifo } else { QueueKind::FqCoDel };
            let (scheduler, gso) = match scheduler.strip_suffix("/auto") {
                Some(scheduler) => (scheduler, Gso::Whole(Gso::AUTO)),
                None => (scheduler, Gso::Split),
            };
            let config = GatewayConfig { pacing, backend, gso, ..config(mbit * 1_000_000, scheduler, queue) };
            let gateway = Gateway::open(config).map_err(|error| error.to_string())?;
            share(
                |stop| Some(gateway.run(stop).unwrap_or_else(|error| panic!("{error}"))),
                connections,
                seconds * 1000,
            )?
        }
    };
    let _ = namespace;
    show(&format!("{sharer} {leaf}"), mbit, &shared);
    match stats {
        Some(stats) if stats.gateway().balanced => {
            // The backend in use: another may have replaced the requested one.
            let movers: Vec<&str> =
                stats.gateway().interfaces.iter().map(|interface| interface.backend.as_str()).collect();
            let movers = movers.join(", ");
            println!(
                "   {:>4.0} %{:>7.0} ms  {movers}",
                stats.gateway().time.processor * 100.0,
                stats.gateway().forfeited_s * 1e3
            );
        }
        Some(stats) => return Err(format!("the counters are inconsistent: {stats:?}")),
        None => println!(),
    }
    Ok(())
}

fn show(sharer: &str, mbit: u64, shared: &Shared) {
    print!("{mbit:>5} {sharer:<20}");
    for (percent, goodput) in PERCENT.iter().zip(shared.goodput) {
        let ideal = (mbit * percent) as f64 * 1e4 * USERS_PART;
        print!("{:>8.2} ({:>5.1} %)", goodput / 1e6, 100.0 * goodput / ideal);
    }
    let all: f64 = shared.goodput.iter().sum();
    print!("{:>9.2} ({:>5.1} %)", all / 1e6, all / (mbit as f64 * 1e4 * USERS_PART));
    print!("{:>8.2}{:>8.2}{:>5}", shared.echo_ms(50), shared.echo_ms(99), shared.unanswered);
}

/// Starts a process for each run, one after the other.
fn all(rates: &[u64], run: Run) -> Result<(), String> {
    println!(
        "{:>5} {:<20}{:>18}{:>18}{:>18}{:>19}{:>17}{:>5}  gateway's processor, lost time, backends in and out",
        "Mbit", "", "60 %", "30 %", "10 %", "all", " echo p50, p99 ms", "lost"
    );
    for mbit in rates {
        for [sharer, leaf] in SHARERS {
            let Run { seconds, connections, pacing, backend } = run;
            let run = format!("{sharer};{leaf};{mbit};{seconds};{connections};{};{}", pacing.name(), backend.name());
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            let output = Command::new(program).env(VARIABLE, run).output().map_err(|error| error.to_string())?;
            print!("{}", String::from_utf8_lossy(&output.stdout));
            if !output.status.success() {
                let sharer = format!("{sharer} {leaf}");
                println!("{mbit:>5} {sharer:<20} SKIPPED: {}", String::from_utf8_lossy(&output.stderr).trim());
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
    if let Ok(run) = std::env::var(VARIABLE) {
        let words: Vec<&str> = run.split(';').collect();
        let [sharer, leaf, mbit, seconds, connections, pacing, backend] = words[..] else {
            return Err(format!("no run: {run}"));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
        let connections = u32::try_from(number(connections)?).map_err(|error| error.to_string())?;
        let run =
            Run { seconds: number(seconds)?, connections, pacing: mode(pacing)?, backend: backend_named(backend)? };
        return play(sharer, leaf, number(mbit)?, run);
    }
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
