//! Links that move random packets in memory, for tests of servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::gateway::account::Generation;
use crate::gateway::account::played::{Played, two_levels};
use crate::gateway::remote::{Publisher, Remote};
use crate::gateway::stats::EdgeCounters;

/// A data thread that moves packets and answers requests for statistics, until this is dropped. It has no link file, so
/// that changes are refused.
#[derive(Debug)]
pub struct PlayedLink {
    thread: Option<JoinHandle<(u64, usize)>>,
    stop: Arc<AtomicBool>,
    remote: Remote,
}

impl PlayedLink {
    /// Starts a link called `out` of `inner` classes with `leaves` each below them, named by their numbers.
    #[must_use]
    pub fn start(inner: usize, leaves: usize) -> Self {
        let tree = two_levels(inner, leaves);
        let publisher = Publisher::new(Generation::of_tree(tree.clone(), "hls"));
        let (remote, stop) = (publisher.remote(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut played = Played::new(tree, "hls");
            // It counts for the generation of the publisher.
            played.generation = Arc::clone(publisher.generation());
            played.data_path.counters = EdgeCounters::new(played.generation.delays.clone());
            played.answer(publisher, &stopped)
        });
        Self { thread: Some(thread), stop, remote }
    }

    /// Its remote.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Ends it. Returns the number of answers, and the largest number of pieces of answers between two turns.
    ///
    /// # Panics
    /// If the data thread has panicked.
    #[must_use]
    pub fn end(mut self) -> (u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).expect("the data thread has not panicked")
    }
}

impl Drop for PlayedLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
