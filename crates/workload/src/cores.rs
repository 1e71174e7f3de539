//! One link on several threads, memory to memory: nanoseconds of processor time for a packet.
//!
//! All runs have [`LEAVES`] leaves for each thread that schedules, and calls in batches. `Backlogged`: a packet that
//! was sent comes back to the same leaf; 24 packets for each leaf are queued, more than the credit that it may have, so
//! that none becomes empty. `Churn`: it comes back to a random leaf, half a packet for each leaf is queued. The link has
//! 1 Tbit/s and packets have 700 B, less with more than two threads, so that the processors are the limit. Times are
//! those of `CLOCK_THREAD_CPUTIME_ID`: time without a processor does not count.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate, Scheduler, SchedulerInfo,
    Share,
};

use crate::error::WorkloadError;
use crate::random::Random;
use crate::shape::{BATCH, Pattern};

mod hub;
mod hubs;
mod shared;

pub use hub::{RING_PACKETS, RINGS, hub};
pub use hubs::hubs;
pub use shared::shared;

/// Leaves of each thread that schedules.
pub const LEAVES: usize = 1024;
/// Packets of a segment.
pub const SEGMENT: usize = 1 << 16;

/// A number of packets of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Processor time for a packet, in nanoseconds.
    pub nanos: f64,
    /// Of a thread that shares virtual times: calls that sent nothing, for each full batch. Of one hub: its time without
    /// a packet, for each second with packets. Of several: turns in which no packet moved, for each full batch.
    pub empty: f64,
}

/// The classes above the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// None: all leaves are directly below the link.
    None,
    /// So many for each thread.
    Own(usize),
    /// So many, with leaves of all threads.
    Common(usize),
    /// So many for each thread, in a tree of its own: nothing is shared but the machine.
    Apart(usize),
}

/// Returns the time for which this thread has had a processor.
#[must_use]
pub fn on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Measures the scheduler `info` alone, on one thread, for about `time`.
///
/// # Errors
/// [`WorkloadError`], if it does not take the tree.
pub fn alone(info: &'static SchedulerInfo, pattern: Pattern, time: Duration) -> Result<Vec<Segment>, WorkloadError> {
    let (tree, leaves) = tree_for(info, packets(pattern))?;
    let mut scheduler = build(info, &tree)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| circle(&mut *scheduler, &leaves, (pattern, packet_len(1)), Instant::now(), &stop));
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap_or(Err("panicked"))
    })
    .map_err(|what| misbehaved(info.name, what))
}

/// Returns the tree of one thread that schedules, with its leaves: with 8 classes above them if `info` takes classes.
fn tree_for(info: &SchedulerInfo, packets: usize) -> Result<(Hierarchy, Vec<ClassId>), WorkloadError> {
    let (mut tree_of, mut leaves) = tree(1, Classes::Own(8), packets)?;
    if info.unsupported(&tree_of).next().is_some() {
        (tree_of, leaves) = tree(1, Classes::None, packets)?;
    }
    Ok((tree_of, leaves.swap_remove(0)))
}

fn build(info: &'static SchedulerInfo, tree: &Hierarchy) -> Result<Box<dyn Scheduler>, WorkloadError> {
    info.build(tree, Leniency::Refuse, Members::new())
        .map_err(|source| WorkloadError::Build { scheduler: info.name, source })
}

const fn misbehaved(scheduler: &'static str, what: &'static str) -> WorkloadError {
    WorkloadError::Misbehaved { scheduler, leaves: LEAVES, what }
}

/// Returns a tree with leaves for each thread, and these. It has room for `packets`.
fn tree(threads: usize, classes: Classes, packets: usize) -> Result<(Hierarchy, Vec<Vec<ClassId>>), WorkloadError> {
    let make = || {
        let max_queued = u32::try_from(packets).unwrap_or(u32::MAX);
        let mut tree = Hierarchy::builder(LinkConfig { max_queued, ..LinkConfig::new(Rate::MAX) });
        let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
        let count = match classes {
            Classes::None => 0,
            Classes::Own(each) | Classes::Apart(each) => each * threads,
            Classes::Common(all) => all,
        };
        let mut inner = Vec::new();
        for class in 0..count {
            inner.push(tree.add(ClassId::ROOT, weight(1 + class as u64 % 4))?);
        }
        let mut leaves = vec![Vec::new(); threads];
        for (thread, leaves) in leaves.iter_mut().enumerate() {
            for leaf in 0..LEAVES {
                let class = match classes {
                    Classes::None => ClassId::ROOT,
                    Classes::Own(each) | Classes::Apart(each) => inner[thread * each + leaf % each],
                    Classes::Common(all) => inner[leaf % all],
                };
                leaves.push(tree.add(class, weight(1 + leaf as u64 % 3))?);
            }
        }
        Ok((tree.build()?, leaves))
    };
    make().map_err(|source| WorkloadError::Tree {
        leaves: LEAVES * threads,
        levels: if classes == Classes::None { 1 } else { 2 },
        source,
    })
}

/// Returns the length of packets, in bytes: with it, the link carries a packet of each thread in 11.2 ns.
const fn packet_len(threads: usize) -> u32 {
    let len = 1400 / if threads > 2 { threads } else { 2 };
    if len < 64 { 64 } else { len as u32 }
}

/// Returns the number of packets in circles for each thread that schedules.
const fn packets(pattern: Pattern) -> usize {
    match pattern {
        Pattern::Churn => LEAVES / 2,
        Pattern::Backlogged | Pattern::Sparse => 24 * LEAVES,
    }
}

/// Sends packets in circles until `stop`, and at least one segment.
fn circle(
    scheduler: &mut dyn Scheduler,
    leaves: &[ClassId],
    (pattern, len): (Pattern, u32),
    start: Instant,
    stop: &AtomicBool,
) -> Result<Vec<Segment>, &'static str> {
    let mut lost = 0u64;
    let mut drops = |_: Nanos, _: Packet, _| lost += 1;
    let mut random = Random::new();
    let churn = pattern == Pattern::Churn;
    let now = || Nanos(start.elapsed().as_nanos() as u64);
    for packet in 0..packets(pattern) {
        let class = leaves[if churn { random.below(LEAVES) } else { packet % LEAVES }];
        scheduler.enqueue(now(), Packet { handle: packet as u64, len, class }, &mut drops);
    }
    let (mut segments, mut batch) = (Vec::new(), Vec::with_capacity(BATCH));
    while segments.is_empty() || !stop.load(Ordering::Relaxed) {
        let from = on_processor();
        let (mut sent, mut empty) = (0, 0);
        while sent < SEGMENT {
            let at = now();
            let _ = scheduler.dequeue_batch(at, BATCH, u64::MAX, &mut batch, &mut drops);
            sent += batch.len();
            empty += usize::from(batch.is_empty());
            if churn {
                batch.iter_mut().for_each(|packet| packet.class = leaves[random.below(LEAVES)]);
            }
            scheduler.enqueue_batch(at, &mut batch, &mut drops);
        }
        let nanos = (on_processor() - from).as_nanos() as f64 / sent as f64;
        segments.push(Segment { nanos, empty: (empty * BATCH) as f64 / sent as f64 });
    }
    if lost > 0 { Err("dropped packets that it had room for") } else { Ok(segments) }
}

#[cfg(test)]
mod tests {
    use fairlink_core::registry;

    use super::*;

    #[test]
    fn every_way_has_a_figure_for_each_pattern() {
        let hls = registry::find("hls").expect("it is registered");
        let time = Duration::from_millis(1);
        for pattern in [Pattern::Backlogged, Pattern::Churn] {
            let all = [
                alone(hls, pattern, time),
                hub(hls, 2, pattern, time),
                hub(hls, 4, pattern, time),
                shared(2, Classes::Common(8), pattern, time),
                shared(2, Classes::Apart(8), pattern, time),
                hubs(1, pattern, time),
                hubs(3, pattern, time),
            ];
            for segments in all {
                let segments = segments.expect("it runs");
                assert!(segments.iter().all(|segment| segment.nanos > 0.0 && segment.empty >= 0.0), "{segments:?}");
                assert!(!segments.is_empty());
            }
        }
    }
}
