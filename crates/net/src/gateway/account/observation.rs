//! Evaluation of a snapshot: sums of inner classes and delays. Runs in other threads than the data thread.

use std::sync::Arc;

use fairlink_core::ClassId;
use fairlink_report::Counts;

use super::delays::DelayTally;
use super::generation::Generation;
use super::snapshot::Snapshot;

/// Counters of one class and of all below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) counts: Counts,
    /// `None` if some leaf below has no histogram.
    pub(crate) delays: Option<DelayTally>,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.counts += &other.counts;
        match (&mut self.delays, &other.delays) {
            (Some(delays), Some(other)) => delays.add(other),
            (delays, None) => *delays = None,
            _ => {}
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) snapshot: Arc<Snapshot>,
    /// By class; the root has the sums of all, removed classes included.
    pub(crate) totals: Vec<Totals>,
    /// Of classes that changes have removed.
    pub(super) removed: Totals,
    /// Delays of all packets, including those of leaves without their own histogram.
    pub(crate) all_delays: DelayTally,
}

impl Observation {
    /// Reads a snapshot that was completed.
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let generation = &snapshot.generation;
        let class = |index: usize| ClassId(index as u32);
        let mut totals: Vec<Totals> =
            (0..generation.tree.len()).map(|index| of_class(&snapshot, class(index))).collect();
        let removed = totals[ClassId::ROOT.index()].clone();
        // Children come after their parent.
        for index in (1..totals.len()).rev() {
            let parent = generation.tree.parent(class(index)).unwrap_or(ClassId::ROOT).index();
            let (before, from) = totals.split_at_mut(index);
            before[parent].add(&from[0]);
        }
        let all_delays = generation.delays.all.tally();
        Self { snapshot, totals, removed, all_delays }
    }

    /// The gateway's configuration at that time.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.snapshot.generation
    }

    /// Returns true if received = sent + dropped + queued holds for every leaf and for removed classes, and the packet
    /// pool agrees.
    pub(crate) fn is_balanced(&self) -> bool {
        let mut leaves = self.generation().tree.leaves().iter();
        self.snapshot.gateway.pool_agrees
            && self.removed.counts.balances()
            && leaves.all(|leaf| self.totals[leaf.index()].counts.balances())
    }
}

/// Counters of one class itself.
fn of_class(snapshot: &Snapshot, class: ClassId) -> Totals {
    let generation = &snapshot.generation;
    let counts = &snapshot.classes[class.index()];
    let inside = Counts::of_scheduler(&counts.inside, counts.queued);
    let mut causes = inside.dropped_by.unwrap_or_default();
    counts.edges.add_to(&mut causes);
    let delays = match &generation.delays.of[class.index()] {
        Some(delays) => Some(delays.tally()),
        // Sums start empty.
        None => (!generation.tree.is_leaf(class)).then(DelayTally::default),
    };
    let received = inside.received + counts.edges.dropped_before + counts.edges.passed;
    Totals { counts: Counts { received, sent: counts.edges.sent, ..inside }.with_causes(causes), delays }
}
