//! A snapshot read: sums of inner classes and delays; in other threads than the data thread's.

use std::sync::Arc;

use fairlink_core::{Amount, ClassId, DropReason};

use super::delays::DelayTally;
use super::passage::Passage;
use super::snapshot::Snapshot;
use crate::gateway::stats::{REASONS, reason_of_edge};

/// What was counted of one class and of all below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) received: Amount,
    pub(crate) sent: Amount,
    pub(crate) dropped: [Amount; REASONS.len()],
    pub(crate) queued: Amount,
    pub(crate) marked: Amount,
    /// `None` where some leaf below has none of its own.
    pub(crate) delays: Option<DelayTally>,
}

impl Totals {
    /// For whatever reason.
    pub(crate) fn dropped(&self) -> Amount {
        self.dropped.iter().copied().sum()
    }

    fn balances(&self) -> bool {
        self.received == self.sent + self.dropped() + self.queued
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.dropped.iter_mut().zip(other.dropped).for_each(|(sum, dropped)| *sum += dropped);
        self.queued += other.queued;
        self.marked += other.marked;
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
    /// Of all packets, also of leaves that have none of their own.
    pub(crate) all_delays: DelayTally,
}

impl Observation {
    /// Reads a snapshot that was completed.
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let passage = &snapshot.passage;
        let class = |index: usize| ClassId(index as u32);
        let mut totals: Vec<Totals> = (0..passage.tree.len()).map(|index| of_class(&snapshot, class(index))).collect();
        let removed = totals[ClassId::ROOT.index()].clone();
        // Children come after their parent.
        for index in (1..totals.len()).rev() {
            let parent = passage.tree.parent(class(index)).unwrap_or(ClassId::ROOT).index();
            let (before, from) = totals.split_at_mut(index);
            before[parent].add(&from[0]);
        }
        let all_delays = passage.delays.all.tally();
        Self { snapshot, totals, removed, all_delays }
    }

    /// What the gateway is.
    pub(crate) fn passage(&self) -> &Arc<Passage> {
        &self.snapshot.passage
    }

    /// Whether received = sent + dropped + queued holds for every leaf and for removed classes, and the packet pool agrees.
    pub(crate) fn is_balanced(&self) -> bool {
        let mut leaves = self.passage().tree.leaves().iter();
        self.snapshot.gateway.pool_agrees
            && self.removed.balances()
            && leaves.all(|leaf| self.totals[leaf.index()].balances())
    }
}

/// What was counted of one class itself.
fn of_class(snapshot: &Snapshot, class: ClassId) -> Totals {
    let passage = &snapshot.passage;
    let counts = &snapshot.classes[class.index()];
    let mut dropped = [Amount::default(); REASONS.len()];
    dropped[..DropReason::ALL.len()].copy_from_slice(&counts.inside.dropped);
    for (edge, amount) in counts.edges.dropped().enumerate() {
        dropped[reason_of_edge(edge)] += amount;
    }
    let delays = match &passage.delays.of[class.index()] {
        Some(delays) => Some(delays.tally()),
        // Sums begin with nothing.
        None => (!passage.tree.is_leaf(class)).then(DelayTally::default),
    };
    Totals {
        received: counts.inside.received + counts.edges.unfit(),
        sent: counts.edges.sent,
        dropped,
        queued: counts.queued,
        marked: counts.inside.marked,
        delays,
    }
}
