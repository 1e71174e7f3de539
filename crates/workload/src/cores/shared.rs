//! One tree whose virtual times several threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use fairlink_core::{SharedConfig, SharedTree};

use super::{Classes, LEAVES, Segment, circle, misbehaved, packet_len, packets, tree};
use crate::error::WorkloadError;
use crate::shape::Pattern;

/// Measures `threads` threads, each with leaves of its own, for about `time`. A thread that is ahead of the others
/// waits for its share: its calls that send nothing count.
///
/// # Errors
/// [`WorkloadError`], if the tree cannot be shared.
pub fn shared(
    threads: usize,
    classes: Classes,
    pattern: Pattern,
    time: Duration,
) -> Result<Vec<Segment>, WorkloadError> {
    let (tree, leaves) = tree(threads, classes, LEAVES.max(packets(pattern)))?;
    let config = SharedConfig::for_link(&tree.link());
    let make = || SharedTree::new(tree.clone(), config).map_err(|_| misbehaved("shared", "does not take the tree"));
    let shared = make()?;
    let mut workers = Vec::with_capacity(threads);
    for thread in 0..threads {
        let tree = match classes {
            Classes::Apart(_) if thread > 0 => make()?,
            _ => Arc::clone(&shared),
        };
        workers.push(tree.worker().map_err(|_| misbehaved("shared", "has no memory for a worker"))?);
    }
    let (stop, barrier, start) = (AtomicBool::new(false), Barrier::new(threads), Instant::now());
    std::thread::scope(|scope| {
        let all: Vec<_> = workers
            .iter_mut()
            .zip(&leaves)
            .map(|(worker, leaves)| {
                let (stop, barrier) = (&stop, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    circle(worker, leaves, (pattern, packet_len(threads)), start, stop)
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let mut segments = Vec::new();
        for thread in all {
            segments.extend(thread.join().unwrap_or(Err("panicked")).map_err(|what| misbehaved("shared", what))?);
        }
        Ok(segments)
    })
}
