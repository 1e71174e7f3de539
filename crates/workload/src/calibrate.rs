//! Speed of the machine during a measurement: its clock, and the latency of dependent loads.
//!
//! Figures of two machines, or of one machine at two times, are comparable if both are scaled to a clock of
//! [`REFERENCE_GHZ`]. That is right for computation, but favours a fast clock that waits for memory: so the latency of
//! loads is shown beside it.

use std::hint::black_box;
use std::time::Instant;

use crate::random::Random;

/// The reference clock of figures.
pub const REFERENCE_GHZ: f64 = 2.5;
/// Each figure is the best of this many runs: disturbances only ever make it worse.
const RUNS: usize = 5;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Returns the best of [`RUNS`] runs of `steps` steps, in nanoseconds a step.
fn ns_per_step(steps: u64, mut run: impl FnMut(u64)) -> f64 {
    let once = |_| {
        let start = Instant::now();
        run(steps);
        start.elapsed().as_nanos() as f64 / steps as f64
    };
    (0..RUNS).map(once).fold(f64::INFINITY, f64::min)
}

/// Measures the clock in GHz: cycles of a chain in which each operation waits for the previous one and takes a cycle.
#[must_use]
pub fn clock_ghz() -> f64 {
    const CYCLES: f64 = 6.0;
    let mut x = black_box(0x9E37_79B9_7F4A_7C15u64);
    let ns = ns_per_step(1_000_000, |steps| {
        for _ in 0..steps {
            // Three shifts and three exclusive ors; copies between registers take no time.
            x ^= x >> 12;
            x ^= x << 25;
            x ^= x >> 27;
        }
        x = black_box(x);
    });
    CYCLES / ns
}

/// Nanoseconds of a load that waits for the one before it, at random over `bytes` bytes, one in each cache line.
#[must_use]
pub fn load_ns(bytes: usize) -> f64 {
    let lines = (bytes / LINE).max(2);
    let words = LINE / size_of::<u32>();
    // One cycle through all lines (Sattolo): each line is swapped with an earlier one.
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = Random::new();
    for last in (1..lines).rev() {
        order.swap(last, random.below(last));
    }
    let mut chain = vec![0u32; lines * words];
    for (line, next) in order.into_iter().enumerate() {
        chain[line * words] = next;
    }
    let mut line = 0u32;
    ns_per_step(300_000, |steps| {
        for _ in 0..steps {
            line = chain[line as usize * words];
        }
        line = black_box(line);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_and_loads_have_figures() {
        assert!(clock_ghz() > 0.0);
        assert!(load_ns(0) > 0.0 && load_ns(4096) > 0.0);
    }
}
