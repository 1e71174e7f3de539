//! What a packet costs under each scheduler on this machine, side by side.
//!
//! A figure is the cost of one enqueue and one dequeue, in batches of [`BATCH`], with every leaf backlogged and arrivals at the
//! leaves in random order. Handing a packet over is part of it and costs a nanosecond or two; classification is not. Every packet
//! is as long as the link allows, so that a round robin visits a leaf for every packet: the dearest case. The figure is the median
//! of [`REPETITIONS`].

use std::time::{Duration, Instant};

use fairlink_core::{
    BatchEnd, BuildError, ClassConfig, ClassId, DropReason, Hierarchy, HierarchyError, Leniency, LinkConfig, Members,
    Nanos, Packet, QueueLimits, Rate, Scheduler, SchedulerInfo, Share,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Packets per batch.
pub const BATCH: usize = 32;
/// Times each figure is measured; the median is reported.
pub const REPETITIONS: usize = 7;

/// Packets that wait at each leaf before the measurement. With fewer, a leaf would run empty when its turn comes early and its next
/// arrival late, or, where there are few leaves, within a batch.
fn depth(leaves: usize) -> usize {
    4 + (2 * BATCH).div_ceil(leaves.max(1))
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The schedulers.
    pub schedulers: Vec<&'static SchedulerInfo>,
    /// Numbers of leaves.
    pub leaves: Vec<usize>,
    /// Numbers of levels: 1 (flat) or 3.
    pub levels: Vec<usize>,
    /// Lengths of packets, in bytes.
    pub packet_bytes: Vec<u32>,
    /// Time to spend on each figure, setting up left out.
    pub time: Duration,
}

/// One line of the table to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The scheduler.
    pub scheduler: &'static str,
    /// Leaves of the tree.
    pub leaves: usize,
    /// Levels of the tree, the root not counted.
    pub levels: usize,
    /// Length of every packet.
    pub packet_bytes: u32,
}

/// What one packet cost.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Of what.
    #[serde(flatten)]
    pub point: Point,
    /// Nanoseconds for enqueue and dequeue together, the median.
    pub ns_per_packet: f64,
    /// Instructions; not counted here. `scripts/instructions` counts them.
    pub instructions_per_packet: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The processor's name and the number of processors.
    pub machine: String,
    /// One entry per scheduler and tree, in the order measured.
    pub results: Vec<Cost>,
}

/// Why a figure could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// A tree that cannot be.
    #[error("{leaves} leaves in {levels} levels: {source}")]
    Tree {
        /// Leaves asked for.
        leaves: usize,
        /// Levels asked for.
        levels: usize,
        /// Why not.
        source: HierarchyError,
    },
    /// Other than 1 or 3 levels.
    #[error("{levels} levels; trees of 1 and of 3 levels are measured")]
    Levels {
        /// Levels asked for.
        levels: usize,
    },
    /// A scheduler that cannot be made for the tree.
    #[error("{scheduler}: {source}")]
    Build {
        /// The scheduler.
        scheduler: &'static str,
        /// Why not.
        source: BuildError,
    },
    /// A scheduler that dropped a packet or said that it was idle while every leaf was backlogged.
    #[error("{scheduler} with {leaves} leaves {what} while every leaf was backlogged")]
    Misbehaved {
        /// The scheduler.
        scheduler: &'static str,
        /// Leaves of the tree.
        leaves: usize,
        /// What it did.
        what: &'static str,
    },
}

/// Measures all of `plan`, telling `progress` what comes next. Trees that a scheduler cannot take are left out.
///
/// # Errors
/// The first [`CostError`].
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Point)) -> Result<Report, CostError> {
    let mut results = Vec::new();
    for &packet_bytes in &plan.packet_bytes {
        for &levels in &plan.levels {
            for &leaves in &plan.leaves {
                let tree = tree(leaves, levels, packet_bytes)?;
                for &info in &plan.schedulers {
                    if info.unsupported(&tree).next().is_none() {
                        let point = Point { scheduler: info.name, leaves, levels, packet_bytes };
                        progress(point);
                        let ns_per_packet = cost(info, &tree, plan.time)?;
                        results.push(Cost { point, ns_per_packet, instructions_per_packet: None });
                    }
                }
            }
        }
    }
    Ok(Report { machine: machine(), results })
}

/// Nanoseconds per packet under `info` on `tree`, whose largest packet every packet is, measured for about `time`.
///
/// # Errors
/// [`CostError::Build`], [`CostError::Misbehaved`].
pub fn cost(info: &'static SchedulerInfo, tree: &Hierarchy, time: Duration) -> Result<f64, CostError> {
    let mut load = Load::new(info, tree)?;
    // Once through all leaves, so that no page is touched for the first time and no start-up round is measured.
    load.pass(tree.leaves().len().div_ceil(BATCH))?;
    let mut figures = Vec::with_capacity(REPETITIONS);
    let each = time / REPETITIONS as u32;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        let mut batches = 0;
        // The clock is looked at once per 64 batches: its cost does not show.
        let elapsed = loop {
            load.pass(64)?;
            batches += 64;
            let elapsed = start.elapsed();
            if elapsed >= each {
                break elapsed;
            }
        };
        figures.push(elapsed.as_nanos() as f64 / (batches * BATCH) as f64);
    }
    figures.sort_by(f64::total_cmp);
    Ok(figures[REPETITIONS / 2])
}

/// A scheduler with every leaf backlogged, and arrivals that keep it so.
struct Load {
    scheduler: Box<dyn Scheduler>,
    name: &'static str,
    /// All leaves in a random order, over and over: each gets as much as it is served.
    arrivals: Vec<ClassId>,
    next: usize,
    packet_bytes: u32,
    packet_time: Nanos,
    now: Nanos,
    batch: Vec<Packet>,
    dropped: u64,
}

impl Load {
    fn new(info: &'static SchedulerInfo, tree: &Hierarchy) -> Result<Self, CostError> {
        let scheduler = info
            .build(tree, Leniency::Refuse, Members::new())
            .map_err(|source| CostError::Build { scheduler: info.name, source })?;
        let mut arrivals = tree.leaves().to_vec();
        arrivals.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
        let link = tree.link();
        let mut load = Self {
            scheduler,
            name: info.name,
            arrivals,
            next: 0,
            packet_bytes: link.max_packet,
            packet_time: link.rate.time_for(link.max_packet),
            now: Nanos(1),
            batch: Vec::with_capacity(BATCH),
            dropped: 0,
        };
        for _ in 0..depth(tree.leaves().len()) * tree.leaves().len() {
            load.arrive(1);
        }
        Ok(load)
    }

    fn arrive(&mut self, packets: usize) {
        for _ in 0..packets {
            let class = self.arrivals[self.next];
            self.next += 1;
            if self.next == self.arrivals.len() {
                self.next = 0;
            }
            self.batch.push(Packet { handle: 0, len: self.packet_bytes, class });
        }
        let dropped = &mut self.dropped;
        self.scheduler
            .enqueue_batch(self.now, &mut self.batch, &mut |_: Nanos, _: Packet, _: DropReason| *dropped += 1);
    }

    /// Sends and refills `batches` batches.
    fn pass(&mut self, batches: usize) -> Result<(), CostError> {
        let misbehaved =
            |load: &Self, what| Err(CostError::Misbehaved { scheduler: load.name, leaves: load.arrivals.len(), what });
        for _ in 0..batches {
            let mut wanted = BATCH;
            while wanted > 0 {
                let dropped = &mut self.dropped;
                let sink = &mut |_: Nanos, _: Packet, _: DropReason| *dropped += 1;
                let end = self.scheduler.dequeue_batch(self.now, wanted, u64::MAX, &mut self.batch, sink);
                let sent = self.batch.len();
                self.batch.clear();
                self.now = self.now.saturating_add(Nanos(self.packet_time.0 * sent as u64));
                wanted -= sent;
                match end {
                    BatchEnd::Full => {}
                    BatchEnd::WaitUntil(t) => self.now = self.now.max(t),
                    BatchEnd::Idle => return misbehaved(self, "said that it was idle"),
                }
            }
            self.arrive(BATCH);
        }
        if self.dropped > 0 { misbehaved(self, "dropped packets") } else { Ok(()) }
    }
}

/// A tree of equal leaves below a link of 100 Gbit/s, flat or in three levels as even as the number allows.
fn tree(leaves: usize, levels: usize, packet_bytes: u32) -> Result<Hierarchy, CostError> {
    let fanouts = match levels {
        1 => vec![leaves],
        3 => {
            let top = divisor_up_to(leaves, cube_root(leaves));
            let middle = divisor_up_to(leaves / top, (leaves / top).isqrt());
            vec![top, middle, leaves / top / middle]
        }
        _ => return Err(CostError::Levels { levels }),
    };
    even_tree(&fanouts, packet_bytes)
}

/// A tree below a link of 100 Gbit/s in which each class of a level has as many children as `fanouts` says, from the link down. All packets
/// have `packet_bytes` bytes, and all leaves are guaranteed the same.
///
/// # Errors
/// [`CostError::Tree`].
pub fn even_tree(fanouts: &[usize], packet_bytes: u32) -> Result<Hierarchy, CostError> {
    let leaves = fanouts.iter().product();
    let build = || {
        let rate = Rate::from_bps(100_000_000_000).expect("within 1 bit/s .. 1 Tbit/s");
        let queued = ((depth(leaves) + 2) * leaves + BATCH) as u32;
        let link = LinkConfig { max_packet: packet_bytes, max_queued: queued, ..LinkConfig::new(rate) };
        let mut builder = Hierarchy::builder(link);
        let mut parents = vec![ClassId::ROOT];
        let mut classes = 1;
        for &fanout in fanouts {
            classes *= fanout;
            // At least 100 kbit/s: there are no more than a million leaves.
            let share = Rate::from_bps(rate.bps() / classes.max(1) as u64).ok().map(Share::Guarantee);
            let limits = QueueLimits { packets: queued, ..QueueLimits::default() };
            let config = ClassConfig { share, limits, ..ClassConfig::default() };
            let mut children = Vec::with_capacity(classes);
            for parent in parents {
                for _ in 0..fanout {
                    children.push(builder.add(parent, config)?);
                }
            }
            parents = children;
        }
        builder.build()
    };
    build().map_err(|source| CostError::Tree { leaves, levels: fanouts.len(), source })
}

fn cube_root(n: usize) -> usize {
    (1..=n).take_while(|root| root * root * root <= n).last().unwrap_or(1)
}

fn divisor_up_to(n: usize, most: usize) -> usize {
    (1..=most.max(1)).rev().find(|divisor| n.is_multiple_of(*divisor)).unwrap_or(1)
}

/// The processor's name and the number of processors, for the reader of a table.
#[must_use]
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {processors} processors", name.unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::registry;

    #[test]
    fn three_levels_hold_as_many_leaves_as_asked_for_and_are_even() {
        for leaves in [8, 1024, 65_536] {
            let tree = tree(leaves, 3, 64).unwrap();
            assert_eq!((tree.leaves().len(), tree.levels()), (leaves, 3));
            let widest = tree.classes().map(|class| tree.children(class).len()).max().unwrap();
            assert!(widest.pow(3) <= 8 * leaves, "{leaves}: {widest}");
        }
        assert!(matches!(tree(8, 2, 64), Err(CostError::Levels { levels: 2 })));
        assert!(matches!(tree(0, 1, 64), Err(CostError::Tree { .. })));
    }

    #[test]
    fn every_scheduler_is_measured_on_every_tree_it_takes() {
        let plan = Plan {
            schedulers: registry::SCHEDULERS.iter().collect(),
            leaves: vec![1, 40],
            levels: vec![1, 3],
            packet_bytes: vec![64],
            time: Duration::ZERO,
        };
        let mut announced = Vec::new();
        let report = run(&plan, &mut |point| announced.push(point)).unwrap();
        assert_eq!(report.results.iter().map(|cost| cost.point).collect::<Vec<_>>(), announced);
        for info in registry::SCHEDULERS {
            let flat = announced.iter().filter(|point| point.scheduler == info.name && point.levels == 1).count();
            assert_eq!(flat, 2, "{}", info.name);
        }
        assert!(report.results.iter().all(|cost| cost.ns_per_packet > 0.0));
    }

    #[test]
    fn every_leaf_stays_backlogged() {
        for info in registry::SCHEDULERS {
            let tree = tree(100, 1, 1500).unwrap();
            let mut load = Load::new(info, &tree).unwrap();
            for _ in 0..200 {
                load.pass(1).unwrap();
                for &leaf in tree.leaves() {
                    assert!(load.scheduler.class_backlog(leaf).packets > 0, "{} {leaf:?}", info.name);
                }
            }
        }
    }
}
