//! Fixed limits of classes: the features of a link file that the fluid ideal uses beside shares.
//!
//! | feature | what the ideal makes of it | source |
//! | --- | --- | --- |
//! | `ceiling` | the class gets no more than it | \[hls\] Section X names it as future work |
//! | `upper_limit` | the class gets no more than the slope in the long run of the curve | later practice of \[hfsc\] |
//! | `bounded` | the class may not borrow, so it gets no more than its own rate | \[cbq\] |
//! | `real_time` | a leaf that has it and neither `link_share` nor a share gets no more than its slope in the long run | \[hfsc\] Section 4.1: no part in link-sharing |
//! | `isolated` | the class may not borrow either, and its rate is reserved for it: no class outside gets the unused part | \[cbq\] |
//!
//! The own rate of a class is its guarantee, or else its share by weight of its parent's own rate, in whole bit/s
//! rounded down, at least 1. The link's is its rate. That is the allotted bandwidth of \[cbq\].
//!
//! DIFFERENCE: here an upper limit holds in the long run. A curve's initial allowance (a steep first piece) is a burst,
//! which a fluid ideal does not have.

use fairlink_core::{ClassId, Feature, Hierarchy, Rate, SchedulerInfo, Share};

/// The feature that sets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// A maximum rate.
    Ceiling,
    /// A curve that bounds the service.
    UpperLimit,
    /// The class does not borrow.
    Bounded,
    /// The class neither borrows nor lends.
    Isolated,
    /// The class has a real-time curve and no part in link-sharing.
    RealTime,
}

impl LimitKind {
    /// Returns the name for running text, after "its own" or "the": `ceiling`, `upper limit`, `rate (bounded)`, `rate
    /// (isolated)`, `real-time curve`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::UpperLimit => "upper limit",
            Self::Bounded => "rate (bounded)",
            Self::Isolated => "rate (isolated)",
            Self::RealTime => "real-time curve",
        }
    }
}

/// A fixed upper limit of a class's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Limit in bit/s.
    pub bps: u64,
    /// The feature that sets it; the first if several set the same.
    pub kind: LimitKind,
}

/// The limits of all classes of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    classes: usize,
    /// By class id; empty if no class has one.
    limits: Vec<Option<Limit>>,
    /// Reservation for an isolated class by class id, in bit/s; empty if none is isolated.
    kept: Vec<Option<u64>>,
}

impl Limits {
    /// Returns the limits of the classes of `tree`.
    #[must_use]
    pub fn for_tree(tree: &Hierarchy) -> Self {
        Self::filtered(tree, |_| true)
    }

    /// No limits.
    #[must_use]
    pub fn none(tree: &Hierarchy) -> Self {
        Self { classes: tree.len(), limits: Vec::new(), kept: Vec::new() }
    }

    /// Returns the limits of the classes of `tree` that the scheduler `info` supports.
    #[must_use]
    pub fn honoured_by(info: &SchedulerInfo, tree: &Hierarchy) -> Self {
        Self::filtered(tree, |feature| info.supports(feature))
    }

    fn filtered(tree: &Hierarchy, honoured: impl Fn(Feature) -> bool) -> Self {
        let [ceilings, curves, borrowing] = [Feature::Ceiling, Feature::LinkCurves, Feature::Borrowing].map(honoured);
        let limited = |class| {
            let config = tree.config(class);
            ceilings && config.ceiling.is_some()
                || curves && config.upper_limit.is_some()
                || borrowing && (config.bounded || config.isolated)
        };
        let mut found = Self { classes: tree.len(), limits: Vec::new(), kept: Vec::new() };
        if !tree.classes().any(limited) {
            return found;
        }
        let bounds = |class| tree.config(class).bounded || tree.config(class).isolated;
        let own = if borrowing && tree.classes().any(bounds) { own_rates(tree) } else { Vec::new() };
        found.limits = vec![None; tree.len()];
        for class in tree.classes() {
            let config = tree.config(class);
            let (index, slope) = (class.index(), |rate: Option<Rate>| rate.map_or(0, Rate::bps));
            let own = || own.get(index).copied().unwrap_or_default();
            let curve = config.upper_limit.filter(|_| curves).map(|curve| slope(curve.m2));
            found.limits[index] = [
                (LimitKind::Ceiling, config.ceiling.filter(|_| ceilings).map(Rate::bps)),
                (LimitKind::UpperLimit, curve),
                (LimitKind::Isolated, (borrowing && config.isolated).then(own)),
                (LimitKind::Bounded, (borrowing && config.bounded).then(own)),
            ]
            .into_iter()
            .filter_map(|(kind, bps)| Some(Limit { bps: bps?, kind }))
            .min_by_key(|limit| limit.bps);
            if borrowing && config.isolated {
                found.kept.resize(tree.len(), None);
                found.kept[index] = found.limits[index].map(|limit| limit.bps);
            }
        }
        found
    }

    /// Returns the limit of a class; the link has none here.
    #[must_use]
    pub fn get(&self, class: ClassId) -> Option<Limit> {
        self.limits.get(class.index()).copied().flatten()
    }

    /// Returns the reservation for an isolated class, in bit/s: its parent shares as if the class always requested this
    /// rate.
    #[must_use]
    pub fn kept(&self, class: ClassId) -> Option<u64> {
        self.kept.get(class.index()).copied().flatten()
    }

    /// Adds the limit `other` to `class`.
    pub(crate) fn lowered(mut self, class: ClassId, other: Limit) -> Self {
        self.limits.resize(self.classes, None);
        let limit = &mut self.limits[class.index()];
        if limit.is_none_or(|limit| limit.bps > other.bps) {
            *limit = Some(other);
        }
        self
    }

    /// Returns true if no class has a limit.
    pub(crate) fn is_empty(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }

    /// Returns true if there is an isolated class.
    pub(crate) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Panics unless the limits were made for a tree of `classes` classes.
    pub(crate) fn assert_for(&self, classes: usize) {
        assert_eq!(self.classes, classes, "limits made for another tree");
    }
}

/// Returns the rate of each class without borrowing, in bit/s, by class id.
fn own_rates(tree: &Hierarchy) -> Vec<u64> {
    // In 2^-24 bit/s, so that shares of shares are rounded once; at most 2^64.
    const FINE_BITS: u32 = 24;
    let mut fine = vec![u128::from(tree.link().rate.bps()) << FINE_BITS; tree.len()];
    for class in tree.classes() {
        let parent = tree.parent(class).unwrap_or(ClassId::ROOT);
        fine[class.index()] = match tree.config(class).share {
            Some(Share::Guarantee(rate)) => u128::from(rate.bps()) << FINE_BITS,
            _ => {
                // A product below 2^104.
                let share = fine[parent.index()] * u128::from(tree.weight(class));
                share / u128::from(tree.children_weight(parent).max(1))
            }
        };
    }
    fine.iter().map(|fine| ((fine >> FINE_BITS) as u64).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hmm::Allocation;
    use crate::request::{Demand, Request};
    use fairlink_core::{ClassConfig, LinkConfig, Nanos, ServiceCurve, registry};

    fn mbit(mbps: u64) -> Rate {
        Rate::from_bps(mbps * 1_000_000).unwrap()
    }

    fn class(mbps: u64) -> ClassConfig {
        ClassConfig { share: Some(Share::Guarantee(mbit(mbps))), ..ClassConfig::default() }
    }

    fn line(mbps: u64) -> Option<ServiceCurve> {
        Some(ServiceCurve { m1: None, d: Nanos::ZERO, m2: Some(mbit(mbps)) })
    }

    /// Rates of `classes` below the link, and of classes below the first of them, when the leaves `busy` are greedy, in
    /// Mbit/s.
    fn shares(classes: &[ClassConfig], below: &[ClassConfig], busy: &[u32]) -> Vec<u64> {
        let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)));
        classes.iter().for_each(|&config| assert!(tree.add(ClassId::ROOT, config).is_ok()));
        below.iter().for_each(|&config| assert!(tree.add(ClassId(1), config).is_ok()));
        let tree = tree.build().unwrap();
        let demand = Demand::new(&tree, busy.iter().map(|&class| (ClassId(class), Request::Unlimited))).unwrap();
        let solved = Allocation::solve(&tree, &demand);
        tree.classes().map(|class| solved.floor_bps(class) / 1_000_000).collect()
    }

    #[test]
    fn a_bounded_class_gets_no_more_than_its_own_rate_and_its_leaves_share_it() {
        let bounded = ClassConfig { bounded: true, ..class(30) };
        assert_eq!(shares(&[bounded, class(50)], &[], &[1, 2]), [30, 70]);
        assert_eq!(shares(&[bounded, class(50)], &[], &[1]), [30, 0]);
        assert_eq!(shares(&[bounded, class(50)], &[class(10), class(10)], &[3, 4]), [30, 0, 15, 15]);
        assert_eq!(shares(&[bounded, class(50)], &[class(10), class(10)], &[4]), [30, 0, 0, 30]);
        // By weight: a quarter of its parent's 30, though 45 are there.
        let of =
            |weight, bounded| ClassConfig { share: Some(Share::Weight(weight)), bounded, ..ClassConfig::default() };
        assert_eq!(shares(&[class(30), class(30)], &[of(1, true), of(3, false)], &[2, 3, 4]), [50, 50, 7, 42]);
    }

    #[test]
    fn what_an_isolated_class_leaves_goes_to_nobody_outside() {
        // As the tests of the CBQ schedulers have it.
        let isolated = ClassConfig { isolated: true, ..class(30) };
        assert_eq!(shares(&[isolated, class(50)], &[], &[2]), [0, 70]);
        assert_eq!(shares(&[isolated, class(50)], &[], &[1]), [30, 0]);
        assert_eq!(shares(&[isolated, class(50)], &[], &[1, 2]), [30, 70]);
        // Classes inside lend to each other.
        assert_eq!(shares(&[isolated, class(50)], &[class(10), class(20)], &[2, 3]), [30, 70, 30, 0]);
        // One level down: neither its sibling nor its parent's sibling gets it.
        assert_eq!(shares(&[class(50), class(50)], &[isolated, class(20)], &[2, 4]), [20, 50, 0, 20]);
        assert_eq!(shares(&[class(50), class(50)], &[isolated, class(20)], &[4]), [70, 0, 0, 70]);
    }

    #[test]
    fn an_upper_limit_is_its_slope_in_the_long_run() {
        let limited = ClassConfig { upper_limit: line(20), ..class(50) };
        assert_eq!(shares(&[limited, class(50)], &[], &[1, 2]), [20, 80]);
    }

    #[test]
    fn only_what_a_scheduler_honours_limits_its_classes() {
        let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)));
        let all = ClassConfig { ceiling: Some(mbit(40)), bounded: true, upper_limit: line(20), ..class(30) };
        let class = tree.add(ClassId::ROOT, all).unwrap();
        let tree = tree.build().unwrap();
        let limit = |name| Limits::honoured_by(registry::find(name).unwrap(), &tree).get(class);
        assert_eq!(limit("hls"), Some(Limit { bps: 40_000_000, kind: LimitKind::Ceiling }));
        assert_eq!(limit("hfsc"), Some(Limit { bps: 20_000_000, kind: LimitKind::UpperLimit }));
        assert_eq!(limit("cbq-formal"), Some(Limit { bps: 30_000_000, kind: LimitKind::Bounded }));
        assert_eq!(limit("fifo"), None);
        assert_eq!(Limits::for_tree(&tree).get(class).map(|limit| limit.bps), Some(20_000_000));
    }
}
