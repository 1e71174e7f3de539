//! Nanoseconds for a packet through one tree that several threads share, memory to memory, beside `hls` on one thread.
//!
//! ```text
//! cargo run --release -p fairlink-workload --example cores -- [THREADS] [SECONDS] [WORDS]
//! ```
//!
//! Each thread has 1,024 leaves of its own, in batches of 32. A packet that was sent comes back to the same leaf
//! (`backlogged`, 4 packets each), or to a random leaf of the thread (`churn`, half a packet each). The classes above
//! the leaves belong to one thread each, or all threads have leaves in all of them. The link has 1 Tbit/s, so that the
//! processors are the limit. Printed are the median and the least of segments of 2,000,000 packets, in time on a
//! processor as Linux counts it, in steps of up to 4 ms. WORDS: only lines with all of them. A thread that is ahead of
//! the others waits for its share: its calls that send nothing count.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use fairlink_core::{
    ClassConfig, ClassId, DropReason, Hierarchy, Leniency, LinkConfig, Members, Nanos, Packet, Rate, Scheduler, Share,
    SharedConfig, SharedTree, registry,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEAVES: usize = 1024;
const BATCH: usize = 32;
const SEGMENT: usize = 2_000_000;

/// The classes above the leaves.
#[derive(Clone, Copy, Debug)]
enum Classes {
    /// So many for each thread.
    Own(usize),
    /// So many, with leaves of all threads.
    Common(usize),
    /// So many for each thread, in a tree of its own: nothing is shared but the machine.
    Apart(usize),
}

/// Returns a tree with leaves for each thread, and these.
fn tree(threads: usize, classes: Classes) -> Result<(Hierarchy, Vec<Vec<ClassId>>), Failure> {
    let mut tree = Hierarchy::builder(LinkConfig::new(Rate::MAX));
    let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
    let count = match classes {
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
                Classes::Own(each) | Classes::Apart(each) => thread * each + leaf % each,
                Classes::Common(all) => leaf % all,
            };
            leaves.push(tree.add(inner[class], weight(1 + leaf as u64 % 3))?);
        }
    }
    Ok((tree.build()?, leaves))
}

/// Sends packets in circles until `stop`. Returns nanoseconds for a packet, by segment.
fn circle(
    scheduler: &mut dyn Scheduler,
    leaves: &[ClassId],
    churn: bool,
    start: Instant,
    stop: &AtomicBool,
) -> Vec<Segment> {
    let mut lost = 0u64;
    let mut drops = |_: Nanos, _: Packet, _: DropReason| lost += 1;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        ((u128::from(random.wrapping_mul(0x2545_f491_4f6c_dd1d)) * LEAVES as u128) >> 64) as usize
    };
    let now = || Nanos(start.elapsed().as_nanos() as u64);
    for packet in 0..if churn { LEAVES / 2 } else { 4 * LEAVES } {
        let class = leaves[if churn { next() } else { packet % LEAVES }];
        scheduler.enqueue(now(), Packet { handle: packet as u64, len: 1500, class }, &mut drops);
    }
    let (mut segments, mut batch) = (Vec::new(), Vec::with_capacity(BATCH));
    while !stop.load(Ordering::Relaxed) {
        let from = on_processor();
        let (mut sent, mut empty) = (0, 0);
        while sent < SEGMENT {
            let at = now();
            let _ = scheduler.dequeue_batch(at, BATCH, u64::MAX, &mut batch, &mut drops);
            sent += batch.len();
            empty += usize::from(batch.is_empty());
            if churn {
                batch.iter_mut().for_each(|packet| packet.class = leaves[next()]);
            }
            scheduler.enqueue_batch(at, &mut batch, &mut drops);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        if sent >= SEGMENT {
            segments.push(Segment {
                nanos: (on_processor() - from) / sent as f64,
                empty: (empty * BATCH) as f64 / sent as f64,
            });
        }
    }
    assert_eq!(lost, 0, "packets were dropped");
    segments
}

/// Returns the nanoseconds for which this thread has had a processor.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(f64::NAN)
}

/// A number of packets of one thread.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Processor time for a packet.
    nanos: f64,
    /// Calls that sent nothing, for each full batch.
    empty: f64,
}

/// Returns the median and the least time, and the median of empty calls, in words.
fn summary(segments: &[Segment]) -> String {
    let sorted = |of: fn(&Segment) -> f64| {
        let mut all: Vec<f64> = segments.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (nanos, empty) = (sorted(|segment| segment.nanos), sorted(|segment| segment.empty));
    let at = |all: &[f64], at: usize| all.get(at).copied().unwrap_or(f64::NAN);
    let (median, least) = (at(&nanos, nanos.len() / 2), at(&nanos, 0));
    let empty = at(&empty, empty.len() / 2);
    format!("{median:.1} ns a packet, least {least:.1}; {empty:.2} empty calls a batch")
}

fn shared(threads: usize, classes: Classes, churn: bool, time: Duration) -> Result<Vec<Segment>, Failure> {
    let (tree, leaves) = tree(threads, classes)?;
    let config = SharedConfig::for_link(&tree.link());
    let shared = SharedTree::new(tree.clone(), config)?;
    let tree_of = |thread: usize| match classes {
        Classes::Apart(_) if thread > 0 => SharedTree::new(tree.clone(), config),
        _ => Ok(Arc::clone(&shared)),
    };
    let (stop, barrier, start) = (AtomicBool::new(false), Barrier::new(threads), Instant::now());
    let mut workers = (0..threads).map(|thread| tree_of(thread)?.worker()).collect::<Result<Vec<_>, _>>()?;
    Ok(std::thread::scope(|scope| {
        let all: Vec<_> = workers
            .iter_mut()
            .zip(&leaves)
            .map(|(worker, leaves)| {
                let (stop, barrier) = (&stop, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    circle(worker, leaves, churn, start, stop)
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        all.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }))
}

fn alone(name: &str, churn: bool, time: Duration) -> Result<Vec<Segment>, Failure> {
    let (tree, leaves) = tree(1, Classes::Own(8))?;
    let info = registry::find(name).ok_or("no such scheduler")?;
    let mut scheduler = info.build(&tree, Leniency::Refuse, Members::new())?;
    let stop = AtomicBool::new(false);
    Ok(std::thread::scope(|scope| {
        let thread = scope.spawn(|| circle(&mut *scheduler, &leaves[0], churn, Instant::now(), &stop));
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap_or_default()
    }))
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let most: usize = args.next().map_or(Ok(2), |threads| threads.parse())?;
    let time = Duration::from_secs_f64(args.next().map_or(Ok(2.0), |seconds| seconds.parse())?);
    let words: Vec<String> = args.collect();
    let print = |title: String, run: &dyn Fn() -> Result<Vec<Segment>, Failure>| -> Result<(), Failure> {
        if words.iter().all(|word| title.contains(word.as_str())) {
            println!("{title}: {}", summary(&run()?));
        }
        Ok(())
    };
    for churn in [false, true] {
        let pattern = if churn { "churn" } else { "backlogged" };
        for name in ["hls", "hvt"] {
            print(format!("{pattern}, {name}, 1 thread"), &|| alone(name, churn, time))?;
        }
        for classes in [Classes::Apart(8), Classes::Own(8), Classes::Common(8), Classes::Common(1)] {
            for threads in 1..=most {
                let title = format!("{pattern}, classes {classes:?}, {threads} threads");
                print(title, &|| shared(threads, classes, churn, time))?;
            }
        }
    }
    Ok(())
}
