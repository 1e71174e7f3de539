//! Cost of a packet under each scheduler on this machine, side by side.
//!
//! A figure is the cost of one enqueue and one dequeue under a [workload](fairlink_workload): every leaf backlogged, or
//! one in a hundred, or leaves that come and go with each packet. Arrivals are in a random order. Classification is not
//! included. Every packet has the link's maximum length, so that a round robin visits a leaf for every packet: the most
//! expensive case. The figure is the median of [`REPETITIONS`]. The cost of the workload itself is measured in the same
//! run and subtracted, and a calibrator measures the speed of the machine.

use std::time::{Duration, Instant};

use fairlink_core::{Hierarchy, SchedulerInfo};
use fairlink_report::Content;
use fairlink_workload::{BATCH, Calls, Pattern, Shape, Subject, Workload, WorkloadError, calibrate};
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(target_os = "linux")]
mod cores;
mod memory;
pub mod page;

#[cfg(target_os = "linux")]
pub use cores::{CoresCost, CoresReport, RUNS, cores};

pub use memory::{Memory, memory};

/// Times each figure is measured; the median is reported.
pub const REPETITIONS: usize = 7;

/// The configuration of a benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The schedulers.
    pub schedulers: Vec<&'static SchedulerInfo>,
    /// Numbers of leaves.
    pub leaves: Vec<usize>,
    /// Numbers of levels.
    pub levels: Vec<usize>,
    /// Patterns of senders.
    pub patterns: Vec<Pattern>,
    /// Lengths of packets, in bytes.
    pub packet_bytes: Vec<u32>,
    /// True if the scheduler is called for batches or for single packets.
    pub calls: Calls,
    /// True if every class has a ceiling.
    pub ceilings: bool,
    /// True if a record of a cache line is touched for each packet.
    pub record: bool,
    /// Time to spend on each figure, setting up left out.
    pub time: Duration,
}

/// One line of the table to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Point {
    /// The scheduler; or `harness`, the workload alone, or `rings`, bare queues.
    pub scheduler: &'static str,
    /// Pattern of senders: `backlogged`, `sparse`, `churn`.
    pub pattern: &'static str,
    /// Leaves of the tree.
    pub leaves: usize,
    /// Levels of the tree, the root not counted.
    pub levels: usize,
    /// Length of every packet.
    pub packet_bytes: u32,
    /// Kind of calls of the scheduler: in `batches`, or for `single` packets.
    pub calls: &'static str,
    /// True if every class had a ceiling.
    pub ceilings: bool,
    /// True if a record of a cache line was touched for each packet.
    pub record: bool,
}

/// The cost of one packet.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Cost {
    /// The measurement point.
    #[serde(flatten)]
    pub point: Point,
    /// Nanoseconds for enqueue and dequeue together and for the harness around them, the median.
    pub ns_per_packet: f64,
    /// The same without the harness.
    pub net_ns_per_packet: f64,
    /// The same on a clock of [`calibrate::REFERENCE_GHZ`], by the clock measured just before.
    pub reference_ns_per_packet: f64,
    /// Instructions; not counted here. `scripts/instructions` counts them.
    pub instructions_per_packet: Option<f64>,
}

/// Speed of the machine at the start.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Calibration {
    /// Its clock, by a chain of operations of a cycle each.
    pub clock_ghz: f64,
    /// The clock that `reference_ns_per_packet` is for.
    pub reference_ghz: f64,
    /// Loads that wait for each other, at random over some memory.
    pub loads: Vec<Load>,
}

/// A load that waits for the one before it.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Load {
    /// Bytes that it is somewhere in.
    pub bytes: usize,
    /// Nanoseconds.
    pub ns: f64,
}

/// All of it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Report {
    /// The processor's name and the number of processors.
    pub machine: String,
    /// Its speed.
    pub calibration: Calibration,
    /// One entry per scheduler and workload, in the order measured.
    pub results: Vec<Cost>,
    /// The harness and bare rings under the same workloads.
    pub baselines: Vec<Cost>,
    /// Memory of schedulers per leaf and per packet.
    pub memory: Vec<Memory>,
}

impl Content for Report {
    const KIND: &'static str = "bench";
}

impl Calibration {
    /// Measures it.
    #[must_use]
    pub fn measure() -> Self {
        // In a first-level cache, in a second-level one, and in neither.
        let loads = [16 << 10, 512 << 10, 64 << 20].map(|bytes| Load { bytes, ns: calibrate::load_ns(bytes) });
        let (clock_ghz, reference_ghz) = (calibrate::clock_ghz(), calibrate::REFERENCE_GHZ);
        Self { clock_ghz, reference_ghz, loads: loads.to_vec() }
    }
}

impl Plan {
    /// Returns the shapes of the workloads, in order.
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for &len in &self.packet_bytes {
            for &pattern in &self.patterns {
                for &levels in &self.levels {
                    for &leaves in &self.leaves {
                        let Self { calls, ceilings, record, .. } = *self;
                        let max_packet = len;
                        let shape = Shape {
                            leaves,
                            levels,
                            pattern,
                            calls,
                            ceilings,
                            record,
                            weights: 1,
                            len,
                            max_packet,
                            ..Shape::default()
                        };
                        shapes.push(shape);
                    }
                }
            }
        }
        shapes
    }
}

/// Returns the measurement point of `subject` under `shape`.
fn point(subject: Subject, shape: &Shape) -> Point {
    Point {
        scheduler: subject.name(),
        pattern: shape.pattern.name(),
        leaves: shape.leaves,
        levels: shape.levels,
        packet_bytes: shape.len,
        calls: shape.calls.name(),
        ceilings: shape.ceilings,
        record: shape.record,
    }
}

/// Measures all of `plan`, and reports the next point to `progress`. Trees that a scheduler does not support are left
/// out.
///
/// # Errors
/// The first [`WorkloadError`].
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Point)) -> Result<Report, WorkloadError> {
    let mut report = Report {
        machine: machine(),
        calibration: Calibration::measure(),
        results: Vec::new(),
        baselines: Vec::new(),
        memory: Vec::new(),
    };
    for shape in plan.shapes() {
        let tree = shape.tree()?;
        let scale = calibrate::clock_ghz() / calibrate::REFERENCE_GHZ;
        let harness = ns(Subject::Harness, &tree, shape, plan.time)?;
        let schedulers = plan.schedulers.iter().map(|&info| Subject::Scheduler(info));
        for subject in [Subject::Harness, Subject::Rings].into_iter().chain(schedulers) {
            if !subject.takes(&tree) {
                continue;
            }
            let point = point(subject, &shape);
            progress(point);
            let gross = match subject {
                Subject::Harness => harness,
                _ => ns(subject, &tree, shape, plan.time)?,
            };
            // A disturbance of the machine may make the harness look more expensive than the code in it.
            let net = (gross - harness).max(0.0);
            let cost = Cost {
                point,
                ns_per_packet: gross,
                net_ns_per_packet: net,
                reference_ns_per_packet: net * scale,
                instructions_per_packet: None,
            };
            match subject {
                Subject::Scheduler(_) => report.results.push(cost),
                Subject::Harness | Subject::Rings => report.baselines.push(cost),
            }
        }
    }
    for &info in &plan.schedulers {
        for &levels in &plan.levels {
            let leaves = plan.leaves.iter().copied().max().unwrap_or(1);
            report.memory.extend(memory(info, leaves, levels)?);
        }
    }
    Ok(report)
}

/// Nanoseconds per packet under `info` on `tree`, whose largest packet every packet is, with every leaf backlogged, measured for about `time`; the
/// harness is taken off.
///
/// # Errors
/// [`WorkloadError::Build`], [`WorkloadError::Misbehaved`].
pub fn cost(info: &'static SchedulerInfo, tree: &Hierarchy, time: Duration) -> Result<f64, WorkloadError> {
    let len = tree.link().max_packet;
    let shape = Shape { len, max_packet: len, ..Shape::default() };
    let harness = ns(Subject::Harness, tree, shape, time / 4)?;
    let gross = ns(Subject::Scheduler(info), tree, shape, time)?;
    // Never zero: it is compared with others as a ratio.
    Ok((gross - harness).max(0.1))
}

/// Nanoseconds per packet, the harness included: the median of [`REPETITIONS`].
fn ns(subject: Subject, tree: &Hierarchy, shape: Shape, time: Duration) -> Result<f64, WorkloadError> {
    let mut workload = Workload::on(tree, subject, shape)?;
    // Once through all leaves, so that no page is touched for the first time and no start-up round is measured.
    workload.run(tree.leaves().len() as u64)?;
    let mut figures = Vec::with_capacity(REPETITIONS);
    let each = time / REPETITIONS as u32;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        let mut packets = 0;
        // The clock is read once per 64 batches, which has a negligible cost.
        let elapsed = loop {
            packets += workload.run(64 * BATCH as u64)?;
            let elapsed = start.elapsed();
            if elapsed >= each {
                break elapsed;
            }
        };
        figures.push(elapsed.as_nanos() as f64 / packets as f64);
    }
    figures.sort_by(f64::total_cmp);
    Ok(figures[REPETITIONS / 2])
}

/// Returns the processor's name and the number of processors, for the reader of a table.
#[must_use]
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {processors} processors", name.unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests;
