//! Raw counters of a running gateway, copied by the data thread a few classes at a time.

use std::ops::Range;
use std::sync::Arc;

use fairlink_core::{Amount, ClassId, Counters, Hierarchy, MAX_CORES, MAX_COUNTERS, Metered, Nanos, Scheduler};

use super::generation::Generation;
use crate::gateway::data_path::DataPath;
use crate::gateway::fail_open::FailOpenStats;
use crate::gateway::fail_open::keep::Upkeep;
use crate::gateway::liveness::LivenessStats;
use crate::gateway::splitter::Splits;
use crate::gateway::stats::{ClassEdges, Profile, ReverseStats, TimeShares};
use crate::io::backend::{Backend, BackendCounters, BackendInfo};
use crate::io::clock::Clock;

/// Maximum number of classes copied between two turns.
pub(crate) const COPIED: usize = 64;

/// Counters of one class at one moment between two turns. Inner classes have none; the link's place holds the counters
/// of removed classes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassCounts {
    /// Time of the copy.
    pub(crate) at: Nanos,
    /// In the scheduler.
    pub(crate) inside: Counters,
    /// Before and behind it.
    pub(crate) edges: ClassEdges,
    /// Packets in the scheduler, or waiting for the output behind it.
    pub(crate) queued: Amount,
}

/// Fractions of the time for which a processor worked for each worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerTimes {
    count: usize,
    times: [f64; MAX_CORES as usize],
}

impl Default for WorkerTimes {
    fn default() -> Self {
        Self { count: 0, times: [0.0; MAX_CORES as usize] }
    }
}

impl WorkerTimes {
    /// Adds that of one more worker.
    pub(crate) fn add(&mut self, time: f64) {
        if let Some(place) = self.times.get_mut(self.count) {
            *place = time;
            self.count += 1;
        }
    }

    /// Those that were added.
    pub(crate) fn all(&self) -> &[f64] {
        &self.times[..self.count]
    }
}

/// Counters of the whole gateway, at the end of the copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayCounts {
    /// Since the data thread started.
    pub(crate) uptime: Nanos,
    /// Of both interfaces together.
    pub(crate) interfaces: BackendCounters,
    /// Of both directions together.
    pub(crate) splits: Splits,
    /// Frames of unknown flows that the kernel dropped while load was shed.
    pub(crate) shed_unknown: u64,
    /// Backends of the input and of the output.
    pub(crate) movers: [BackendInfo; 2],
    pub(crate) output_busy: u64,
    /// True if the output and the input have no carrier and frames wait for them.
    pub(crate) waits_for_carrier: [bool; 2],
    pub(crate) forfeited: Nanos,
    /// Passing of frames while the gateway does not run, and its lapses.
    pub(crate) fail_open: Option<Arc<FailOpenStats>>,
    pub(crate) upkeep: Upkeep,
    pub(crate) liveness: LivenessStats,
    pub(crate) reverse: Option<ReverseStats>,
    pub(crate) time: TimeShares,
    pub(crate) workers: WorkerTimes,
    pub(crate) profile: Option<Profile>,
    pub(crate) pool_most_used: u64,
    /// True if each frame of the pool was in its place.
    pub(crate) pool_agrees: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) generation: Arc<Generation>,
    /// By class, the root included.
    pub(crate) classes: Vec<ClassCounts>,
    /// The scheduler's own counters: class, name and value.
    pub(crate) counted: Vec<(ClassId, &'static str, u64)>,
    pub(crate) gateway: GatewayCounts,
}

impl Snapshot {
    /// Room for a copy.
    pub(crate) fn new(generation: Arc<Generation>) -> Self {
        let classes = generation.tree.len();
        Self {
            generation,
            classes: vec![ClassCounts::default(); classes],
            counted: Vec::with_capacity(classes * MAX_COUNTERS),
            gateway: GatewayCounts::default(),
        }
    }

    /// Bytes of a snapshot of `tree`.
    pub(crate) fn memory(tree: &Hierarchy) -> usize {
        tree.len() * (size_of::<ClassCounts>() + MAX_COUNTERS * size_of::<(ClassId, &str, u64)>())
    }

    /// Copies the classes whose ids are in `classes`, as of `now`. Does not allocate.
    pub(crate) fn copy<I: Backend, O: Backend, C: Clock, S: Scheduler>(
        &mut self,
        classes: Range<usize>,
        now: Nanos,
        data_path: &DataPath<I, O, C>,
        scheduler: &Metered<S>,
    ) {
        for (index, counts) in self.classes.iter_mut().enumerate().take(classes.end).skip(classes.start) {
            let class = ClassId(index as u32);
            let edges = data_path.counters.edges(class);
            let mut inside = if class == ClassId::ROOT { scheduler.elsewhere() } else { scheduler.counters(class) };
            edges.add_further(&mut inside);
            let mut queued = scheduler.class_backlog(class);
            queued.packets += u64::from(data_path.queues.further(class));
            *counts = ClassCounts { at: now, inside, edges, queued };
        }
        for packet in data_path.waiting().filter(|packet| classes.contains(&packet.class.index())) {
            self.classes[packet.class.index()].queued.count(packet.len);
        }
        let counted = &mut self.counted;
        scheduler.for_each_counter(classes, &mut |class, name, value| {
            // There is room for all counters that the contract allows.
            if counted.len() < counted.capacity() {
                counted.push((class, name, value));
            }
        });
    }
}

/// A snapshot on its way.
#[derive(Debug)]
pub(crate) struct Copying {
    snapshot: Arc<Snapshot>,
    /// The first class that is not copied yet.
    next: usize,
    /// The last question that it answers.
    number: u64,
}

impl Copying {
    /// Begins an answer to all requests up to `number`. Returns `None` if the old contents of `snapshot` are still
    /// being read.
    pub(crate) fn begin(mut snapshot: Arc<Snapshot>, number: u64) -> Option<Self> {
        Arc::get_mut(&mut snapshot)?.counted.clear();
        Some(Self { snapshot, next: 0, number })
    }

    /// Returns true if no class is copied yet.
    pub(crate) fn is_new(&self) -> bool {
        self.next == 0
    }

    /// Copies up to `most` further classes. Returns true if all are copied.
    pub(crate) fn go_on<I: Backend, O: Backend, C: Clock, S: Scheduler>(
        &mut self,
        most: usize,
        now: Nanos,
        data_path: &DataPath<I, O, C>,
        scheduler: &Metered<S>,
    ) -> bool {
        let Some(snapshot) = Arc::get_mut(&mut self.snapshot) else { return false };
        let end = self.next.saturating_add(most).min(snapshot.classes.len());
        if self.next < end {
            snapshot.copy(self.next..end, now, data_path, scheduler);
            self.next = end;
        }
        self.next == snapshot.classes.len()
    }

    /// Adds the counters of the whole gateway.
    pub(crate) fn complete(&mut self, gateway: GatewayCounts) {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.gateway = gateway;
        }
    }

    /// The last request that it answers, and the snapshot.
    pub(crate) fn into_parts(self) -> (u64, Arc<Snapshot>) {
        (self.number, self.snapshot)
    }
}
