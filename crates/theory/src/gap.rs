//! Waits of leaves for their turn: Definition 2 of \[hls\] (transmission gap) measured on a trace.
//!
//! The gap is the time from the end of a visit to a leaf that stays backlogged to the next visit to it. The time from
//! becoming backlogged to the first visit counts too, since the paper bounds it by the same. A round robin may visit a
//! leaf and send nothing, and from outside only services can be seen. If services are reported instead of visits, the
//! result is at least the gap of the visits: a measurement below the bound of Theorem 5 confirms it, one above does not
//! refute it.

use fairlink_core::{ClassId, Hierarchy, Nanos};

#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    /// Start of its wait; `None` while idle.
    since: Option<Nanos>,
    longest: Nanos,
}

/// Measures the longest gap of each leaf.
#[derive(Clone, Debug)]
pub struct GapMeter {
    /// By class; entries of inner classes are unused.
    leaves: Vec<Leaf>,
}

impl GapMeter {
    /// Makes a meter of a tree without backlog.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        Self { leaves: vec![Leaf::default(); tree.len()] }
    }

    /// Records that `leaf` becomes backlogged at `now`; no effect if it already is.
    ///
    /// # Panics
    /// When there is no such class, as in the other methods.
    pub fn backlogged(&mut self, now: Nanos, leaf: ClassId) {
        self.leaves[leaf.index()].since.get_or_insert(now);
    }

    /// Records a visit to `leaf`, or the transmission of one of its packets, from `start` to `end`. Called while the
    /// leaf is backlogged, before [`GapMeter::idle`] if it is empty afterwards. A leaf that is not backlogged counts as
    /// backlogged since `start`.
    pub fn visited(&mut self, leaf: ClassId, start: Nanos, end: Nanos) {
        let leaf = &mut self.leaves[leaf.index()];
        let since = leaf.since.replace(end).unwrap_or(start);
        leaf.longest = leaf.longest.max(start.saturating_sub(since));
    }

    /// Records that `leaf` is empty.
    pub fn idle(&mut self, leaf: ClassId) {
        self.leaves[leaf.index()].since = None;
    }

    /// Returns the longest ended gap of a leaf.
    #[must_use]
    pub fn of(&self, leaf: ClassId) -> Nanos {
        self.leaves[leaf.index()].longest
    }

    /// Returns the leaf with the longest gap, and the gap. Gaps that are still open at `now` count.
    #[must_use]
    pub fn longest(&self, now: Nanos) -> (ClassId, Nanos) {
        let gaps = self.leaves.iter().map(|leaf| leaf.longest.max(now.saturating_sub(leaf.since.unwrap_or(now))));
        let gaps = gaps.enumerate().map(|(index, gap)| (ClassId(index as u32), gap));
        gaps.reduce(|longest, gap| if gap.1 > longest.1 { gap } else { longest })
            .unwrap_or((ClassId::ROOT, Nanos::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate};

    #[test]
    fn a_gap_runs_from_the_end_of_a_visit_to_the_next_and_not_through_idleness() {
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(10).unwrap()));
        let a = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        let b = tree.add(ClassId::ROOT, ClassConfig::default()).unwrap();
        let mut meter = GapMeter::new(&tree.build().unwrap());
        meter.backlogged(Nanos(10), a);
        meter.backlogged(Nanos(12), a);
        meter.visited(a, Nanos(15), Nanos(20));
        assert_eq!(meter.of(a), Nanos(5));
        meter.visited(a, Nanos(23), Nanos(30));
        assert_eq!(meter.of(a), Nanos(5));
        meter.visited(a, Nanos(37), Nanos(38));
        meter.idle(a);
        meter.visited(a, Nanos(100), Nanos(101));
        assert_eq!(meter.of(a), Nanos(7));
        meter.idle(a);
        meter.backlogged(Nanos(200), b);
        assert_eq!(meter.longest(Nanos(206)), (a, Nanos(7)));
        assert_eq!(meter.longest(Nanos(208)), (b, Nanos(8)));
        assert_eq!(meter.of(b), Nanos::ZERO);
    }
}
