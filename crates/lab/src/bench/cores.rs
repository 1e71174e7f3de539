//! Cost of a packet on several threads: a scheduler alone, behind the rings of a hub, one tree that all threads share,
//! and hubs that share the virtual time of the link.

use std::time::Duration;

use fairlink_core::SchedulerInfo;
use fairlink_report::Content;
use fairlink_workload::cores::{Classes, LEAVES, RINGS, Segment, alone, hub, hubs, shared};
use fairlink_workload::{BATCH, Pattern, WorkloadError};
use schemars::JsonSchema;
use serde::Serialize;

use super::machine;

/// Runs of each figure; the median is reported.
pub const RUNS: usize = 5;
/// Classes above the leaves of a shared tree, each with leaves of all threads.
const SHARED_CLASSES: usize = 8;

/// The cost of a packet on some threads.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CoresCost {
    /// The way in which the threads share the link: `one`, `hub`, `shared`, `hubs`.
    pub split: &'static str,
    /// The scheduler. Absent for `shared` and `hubs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<&'static str>,
    /// Pattern of senders: `backlogged`, `churn`.
    pub pattern: &'static str,
    /// Number of threads. With `hub` one of them schedules; with `hubs` each has a hub, and also receives and sends.
    pub threads: usize,
    /// Processor time of a thread that schedules for a packet, in nanoseconds: the median of all runs.
    pub ns_per_packet: f64,
    /// The least of all runs.
    pub least_ns_per_packet: f64,
    /// The most of all runs.
    pub most_ns_per_packet: f64,
    /// Million packets a second of processor time of one thread that schedules.
    pub mpps: f64,
    /// With `hub`: time for which the hub found no packet, beside the time with packets, as a ratio; it is not counted.
    /// With `shared` and `hubs`: calls that sent, and turns that moved, nothing for each full batch; they are counted.
    pub empty: f64,
}

/// The costs of all ways.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CoresReport {
    /// The processor's name and the number of processors.
    pub machine: String,
    /// Leaves of each thread that schedules.
    pub leaves: usize,
    /// Receive rings of the hub.
    pub rings: usize,
    /// Packets of a call.
    pub batch: usize,
    /// Runs of each figure.
    pub runs: usize,
    /// One entry for each way, pattern and number of threads.
    pub results: Vec<CoresCost>,
}

impl Content for CoresReport {
    const KIND: &'static str = "bench_cores";
}

/// Returns the numbers of threads to measure: powers of two below `most`, and `most`.
fn thread_counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

/// Measures `schedulers` alone and as a hub, shared virtual times, and several hubs, on up to `most` threads, each for about `time`.
/// Calls `progress` with the way and the number of threads before each.
///
/// # Errors
/// The first [`WorkloadError`].
pub fn cores(
    schedulers: &[&'static SchedulerInfo],
    most: usize,
    time: Duration,
    progress: &mut dyn FnMut(&str, usize),
) -> Result<CoresReport, WorkloadError> {
    let mut results = Vec::new();
    let each = time / RUNS as u32;
    for pattern in [Pattern::Backlogged, Pattern::Churn] {
        let mut add = |split, scheduler: Option<&'static SchedulerInfo>, threads, run: &dyn Fn() -> Runs| {
            progress(split, threads);
            let scheduler = scheduler.map(|info| info.name);
            results.push(cost(CoresCost { split, scheduler, threads, pattern: pattern.name(), ..NONE }, run)?);
            Ok::<(), WorkloadError>(())
        };
        for &info in schedulers {
            add("one", Some(info), 1, &|| alone(info, pattern, each))?;
            for threads in thread_counts(most).into_iter().filter(|&threads| threads > 1) {
                add("hub", Some(info), threads, &|| hub(info, threads, pattern, each))?;
            }
        }
        for threads in thread_counts(most) {
            add("shared", None, threads, &|| shared(threads, Classes::Common(SHARED_CLASSES), pattern, each))?;
        }
        for threads in thread_counts(most) {
            add("hubs", None, threads, &|| hubs(threads, pattern, each))?;
        }
    }
    Ok(CoresReport { machine: machine(), leaves: LEAVES, rings: RINGS, batch: BATCH, runs: RUNS, results })
}

type Runs = Result<Vec<Segment>, WorkloadError>;

/// A cost before it is measured.
const NONE: CoresCost = CoresCost {
    split: "",
    scheduler: None,
    pattern: "",
    threads: 0,
    ns_per_packet: 0.0,
    least_ns_per_packet: 0.0,
    most_ns_per_packet: 0.0,
    mpps: 0.0,
    empty: 0.0,
};

/// Fills in the figures of `cost`: those of a run are the medians of its segments.
fn cost(cost: CoresCost, run: &dyn Fn() -> Runs) -> Result<CoresCost, WorkloadError> {
    let (mut nanos, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let segments = run()?;
        nanos.push(median(segments.iter().map(|segment| segment.nanos)));
        empty.push(median(segments.iter().map(|segment| segment.empty)));
    }
    let ns_per_packet = median(nanos.iter().copied());
    Ok(CoresCost {
        ns_per_packet,
        least_ns_per_packet: nanos.iter().copied().fold(f64::INFINITY, f64::min),
        most_ns_per_packet: nanos.iter().copied().fold(0.0, f64::max),
        mpps: 1e3 / ns_per_packet,
        empty: median(empty.into_iter()),
        ..cost
    })
}

/// Returns the middle of all; there is at least one.
fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_powers_of_two_and_the_most() {
        for (most, counts) in
            [(1, &[1][..]), (2, &[1, 2]), (3, &[1, 2, 3]), (8, &[1, 2, 4, 8]), (12, &[1, 2, 4, 8, 12])]
        {
            assert_eq!(thread_counts(most), counts);
        }
    }
}
