//! A gateway in a process of its own for fault tests, and its reports.
#![allow(dead_code, reason = "not every suite needs all of it")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlink_net::{Control, FailOpen, Gateway, GatewayConfig, GatewayStats};

use crate::cables::{self, config, over_af_xdp};
use crate::ends::Outcome;

/// Environment variable that makes a process a gateway of these tests: `auto`, `require` or `never`, and `+` to take
/// over.
pub(crate) const ROLE: &str = "FAIRLINK_FAULTY_GATEWAY";
/// Environment variable with the path of its control socket, if it shall have one.
const CONTROL: &str = "FAIRLINK_FAULTY_CONTROL";

/// Runs this process as a gateway, if the variable is set.
pub(crate) fn as_gateway() -> Option<ExitCode> {
    std::env::var(ROLE).ok().map(|role| gateway_process(&role))
}

/// A gateway between `in` and `out`.
fn gateway_process(role: &str) -> ExitCode {
    let mut config = config(1_000_000_000, "hls");
    config.fail_open = FailOpen::named(role.trim_end_matches('+')).expect("a policy");
    config.take_over = role.ends_with('+');
    config.wait_for_interfaces = true;
    be_gateway(config)
}

/// Runs this gateway in this process until a line arrives. Prints events, a line each, and its statistics at the end.
pub(crate) fn be_gateway(config: GatewayConfig) -> ExitCode {
    println!("begins {}", peak_of_addresses());
    let control = std::env::var(CONTROL).ok();
    let gateway = match Gateway::open(config) {
        Ok(gateway) => gateway,
        Err(error) => {
            println!("refused {error}");
            return ExitCode::FAILURE;
        }
    };
    let (stop, vitals) = (AtomicBool::new(false), gateway.vitals());
    let _control = control.map(|path| Control::start(path.as_ref(), gateway.remote()).expect("a control socket"));
    let stats = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().stack_size(256 << 10);
        // A failure to start a thread is a refusal, and not a panic that waits for the others.
        let waiting = thread().spawn_scoped(scope, || {
            // Also returns when the parent is gone.
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            stop.store(true, Ordering::Relaxed);
        });
        let data = waiting.and_then(|_| {
            thread().spawn_scoped(scope, || {
                // SAFETY: cannot fail, takes nothing.
                println!("thread {}", unsafe { libc::gettid() });
                gateway.run(&stop)
            })
        });
        let data = match data {
            Ok(data) => data,
            Err(why) => {
                println!("refused cannot start a thread: {why}");
                std::process::exit(1);
            }
        };
        while vitals.since_turn().is_none() && !data.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("running");
        let stats = data.join().expect("the data thread").expect("an end without an error");
        println!("stats {}", serde_json::to_string(&stats).expect("statistics"));
        stats
    });
    if stats.gateway().balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The largest address space that this process has had, in bytes.
fn peak_of_addresses() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("a line of the address space");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") * 1024
}

/// A gateway in a process of its own.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// The largest address space that it had before it opened the gateway, in bytes.
    pub(crate) addresses_at_begin: u64,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    pub(crate) thread: i32,
    backend: &'static str,
}

impl Running {
    /// Starts a gateway, and waits until its data thread runs. Returns `None`, with a message, if this system cannot
    /// fail open.
    pub(crate) fn start(role: &str) -> Option<Self> {
        Self::start_over(role, if over_af_xdp() { "af_xdp" } else { "af_packet" })
    }

    /// The same with this backend.
    pub(crate) fn start_over(role: &str, backend: &'static str) -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let started = Self::start_by(command.env(ROLE, role).env(cables::BACKEND, backend));
        let started = started.map(|running| Self { backend, ..running });
        started.inspect_err(|why| println!("SKIPPED: {why}")).ok()
    }

    /// As above, with a control socket at `path`.
    pub(crate) fn start_with_control(role: &str, path: &str) -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let started = Self::start_by(command.env(ROLE, role).env(CONTROL, path));
        started.inspect_err(|why| println!("SKIPPED: {why}")).ok()
    }

    /// Starts a gateway by this command; returns the reason if it does not start.
    pub(crate) fn start_by(command: &mut Command) -> Result<Self, String> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, addresses_at_begin: 0, lines, thread: 0, backend: "af_packet" };
        loop {
            let Some(line) = running.lines.next() else {
                return Err(format!("it ended without a word: {}", running.child.wait().unwrap()));
            };
            let line = line.unwrap();
            if line == "running" {
                return Ok(running);
            }
            match line.split_once(' ') {
                Some(("begins", bytes)) => running.addresses_at_begin = bytes.parse().unwrap(),
                Some(("thread", number)) => running.thread = number.parse().unwrap(),
                Some(("refused", why)) => {
                    let status = running.child.wait().unwrap();
                    assert_eq!(status.code(), Some(1), "{why}: {status}");
                    return Err(why.to_owned());
                }
                _ => panic!("{line}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: takes no pointers; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Ends it and returns its statistics.
    pub(crate) fn end(mut self) -> GatewayStats {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.ended()
    }

    /// Returns its statistics after it has ended by itself.
    pub(crate) fn ended(mut self) -> GatewayStats {
        let line = self.lines.next().expect("statistics").unwrap();
        let (_, text) = line.split_once("stats ").unwrap_or_else(|| panic!("{line}"));
        let stats: GatewayStats = serde_json::from_str(text).unwrap();
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        assert!(stats.gateway().balanced, "{stats}");
        assert!(
            stats.gateway().interfaces.iter().all(|interface| interface.backend == self.backend),
            "{:?}",
            stats.gateway().interfaces
        );
        stats
    }
}

pub(crate) fn times() -> usize {
    std::env::var("FAIRLINK_FAULTS").ok().and_then(|times| times.parse().ok()).unwrap_or(2)
}

/// Prints the results of both directions, and asserts that no frame was doubled.
pub(crate) fn tell(fault: &str, outcomes: &[Outcome; 2]) {
    tell_of(["forth", "back"], fault, outcomes);
}

/// As above, with names of the two directions.
pub(crate) fn tell_of(ways: [&str; 2], fault: &str, outcomes: &[Outcome; 2]) {
    for (way, Outcome { sent, lost, doubled, out_of_order, silence, .. }) in ways.iter().zip(outcomes) {
        println!(
            "{fault:<22} {way:<5} {sent:>6} sent {lost:>5} lost {doubled:>3} doubled {out_of_order:>5} out of order, nothing for {:>7.1} ms",
            silence.as_secs_f64() * 1e3
        );
        assert_eq!(*doubled, 0, "{fault}, {way}");
    }
}

/// All drops of a gateway, in both directions.
pub(crate) fn dropped(stats: &GatewayStats) -> u64 {
    stats.counts().dropped.packets
        + stats.counts().queued.packets
        + stats.gateway().reverse.unwrap_or_default().dropped.packets
        + stats.gateway().unreceived_packets()
}
