//! Tests that move real packets, in one program so that they link once. Each suite is a process of its own, and so is
//! each of its tests (`support`). Arguments that name suites select them: `cargo test -p fairlink-testbed --test packets
//! -- fail_open faults`; the suites get all others.

mod af_xdp;
mod claims;
mod demo;
mod endpoints;
mod fail_open;
mod faults;
mod fragments;
mod gateway;
mod hostile;
mod own_traffic;
mod privileges;
mod reloads;
mod sandbox;
mod super_frames;
mod tcp;
mod traffic;
mod workers;

mod support;

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, thread};

use crate::support::{both_ends, cables, ends, faulty, machines, raw, sink, through, variants};

/// A name and the function that runs the tests.
type Suite = (&'static str, fn() -> ExitCode);

/// Longest first, so that none is left to run alone at the end.
const SUITES: [Suite; 17] = [
    ("fail_open", fail_open::main),
    ("gateway", gateway::main),
    ("super_frames", super_frames::main),
    ("faults", faults::main),
    ("own_traffic", own_traffic::main),
    ("hostile", hostile::main),
    ("tcp", tcp::main),
    ("claims", claims::main),
    ("endpoints", endpoints::main),
    ("demo", demo::main),
    ("reloads", reloads::main),
    ("af_xdp", af_xdp::main),
    ("traffic", traffic::main),
    ("workers", workers::main),
    ("fragments", fragments::main),
    ("privileges", privileges::main),
    ("sandbox", sandbox::main),
];
/// Number of suites that run at a time. Their tests mostly wait for packets.
const AT_ONCE: usize = 3;
/// Environment variable with the suite of a process; absent in the first process.
const VARIABLE: &str = "FAIRLINK_SUITE";

fn main() -> ExitCode {
    if let Ok(name) = env::var(VARIABLE) {
        let (_, run) = SUITES.iter().find(|(known, _)| *known == name).expect("a suite of that name");
        return run();
    }
    let (named, arguments): (Vec<OsString>, Vec<OsString>) =
        env::args_os().skip(1).partition(|argument| SUITES.iter().any(|(name, _)| argument == name));
    let chosen = SUITES.iter().filter(|(name, _)| named.is_empty() || named.iter().any(|argument| argument == name));
    let (waiting, failed) = (Mutex::new(chosen), AtomicBool::new(false));
    let next = || waiting.lock().expect("no thread panics").next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, _)) = next() {
                    if !run(name, &arguments) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs a suite in a new process and shows its output when it has ended. Returns true if all tests passed.
fn run(name: &str, arguments: &[OsString]) -> bool {
    let program = env::current_exe().expect("the path of this program");
    let output = Command::new(program).args(arguments).env(VARIABLE, name).output().expect("a process");
    let (text, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("     Running suite {name}\n{text}{complaints}");
    output.status.success()
}
