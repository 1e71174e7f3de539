//! Cost of enqueue + dequeue per packet: batches of 32, every leaf backlogged, arrivals at random.
//!
//! ```text
//! cargo bench -p fairlink-core --bench cost                       # all schedulers, 8 .. 65,536 leaves, 1 and 3 levels
//! cargo bench -p fairlink-core --bench cost -- hls drr leaves=8,1024,1000000 levels=1 weights=10 len=64
//! ```
//!
//! `len` is the packets' length and defaults to `max`, the link's largest packet, 1500 B: then a visit of a round-robin
//! scheduler sends one packet at equal weights, which is its dearest case. `weights=R` draws weights from 1 to R.
//! The row `harness` is the workload without a scheduler, to be subtracted. Times on a shared machine wander: each figure
//! is the best of several runs. For one that does not wander, count instructions: see `examples/callgrind.rs`.

#[path = "common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{HARNESS, Shape, Workload};
use fairlink_core::registry::SCHEDULERS;

/// The best of this many runs ...
const RUNS: usize = 7;
/// ... of at least this many packets and leaves twice over.
const PACKETS: u64 = 400_000;

fn ns_per_packet(name: &str, shape: Shape) -> (f64, f64) {
    let mut workload = Workload::new(name, shape);
    let packets = PACKETS.max(2 * shape.leaves as u64);
    workload.run(packets);
    let best = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let done = workload.run(packets);
            start.elapsed().as_nanos() as f64 / done as f64
        })
        .fold(f64::INFINITY, f64::min);
    (best, workload.backlogged().unwrap_or(1.0))
}

fn list<T: std::str::FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(|item| item.parse().unwrap_or_else(|_| panic!("not a number: {item}"))).collect()
}

fn main() {
    let mut names: Vec<String> = Vec::new();
    let mut leaves: Vec<usize> = vec![8, 64, 1_024, 8_192, 65_536];
    let mut levels: Vec<u32> = vec![1, 3];
    let (mut weights, mut max_packet, mut len) = (1, 1500, None);
    for arg in std::env::args().skip(1).filter(|arg| arg != "--bench") {
        match arg.split_once('=') {
            Some(("leaves", value)) => leaves = list(value),
            Some(("levels", value)) => levels = list(value),
            Some(("weights", value)) => weights = list(value)[0],
            Some(("len", value)) => len = Some(list(value)[0]),
            Some(("max", value)) => max_packet = list(value)[0],
            Some((key, _)) => panic!("{key}: one of leaves, levels, weights, len, max"),
            None => names.push(arg),
        }
    }
    if names.is_empty() {
        names = SCHEDULERS.iter().map(|info| info.name.to_owned()).collect();
    }
    names.insert(0, HARNESS.to_owned());
    println!(
        "{:<16} {:>9} {:>7} {:>12} {:>11} {:>8}",
        "scheduler", "leaves", "levels", "ns/packet", "backlogged", "took"
    );
    for &leaves in &leaves {
        for &levels in &levels {
            for name in &names {
                let shape = Shape { leaves, levels, weights, len: len.unwrap_or(max_packet), max_packet };
                let start = Instant::now();
                let (ns, backlogged) = ns_per_packet(name, shape);
                let took: Duration = start.elapsed();
                println!(
                    "{name:<16} {leaves:>9} {levels:>7} {ns:>12.1} {:>10.2}% {:>7.1}s",
                    backlogged * 100.0,
                    took.as_secs_f64()
                );
            }
        }
    }
}
