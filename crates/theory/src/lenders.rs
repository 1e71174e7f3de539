//! Sharing level by level of lenders, as in \[htb\], in `f64`: [`crate::htb_fluid`] for large trees, with detection of
//! unknown cases.
//!
//! At each level, from the leaves up, and at each priority, leaves grow in proportion to their quanta. A class stops
//! growing at its limit, or when it has lent its whole assured rate. A class that stops stops the leaves below it.
//! Stops are taken from a heap, in time order; a class is re-evaluated at its stop, because leaves that have stopped
//! slow it down.
//!
//! **Unknown cases.** A leaf that is limited by its demand or by a ceiling has no packets, or may not send them, most
//! of the time. When it does, it takes from the lowest lender that has anything left *then*. A lender whose leaves
//! always have packets is almost always used up. So such a leaf may borrow less from it than is computed here, and more
//! further up. Which one depends on lengths of packets, quanta and depths of buckets. There is no answer either if a
//! class comes near a ceiling whose bucket is less deep than the quantum of a leaf below it. The bucket ends turns
//! early then, which takes up to 70 % off a rate. The same holds if a class comes near its assured rate with a `burst`
//! below the default: the bucket is full before the class has its next turn.
//!
//! Cost: O(n levels log n) for each level and priority that has leaves to serve.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{ClassId, Hierarchy};

use crate::floats::SAME;
use crate::limits::Limits;
use crate::request::Demand;

/// A class that gets this part of its ceiling finds its bucket empty now and then.
const NEAR: f64 = 0.5;

/// The numbers that leaves of one tree borrow by.
#[derive(Clone, Debug)]
pub(crate) struct Lenders {
    plan: Plan,
    limits: Limits,
    /// By class id: 0 for a leaf, else one above the children's largest.
    levels: Vec<usize>,
    /// By class id, the depth of the bucket of its ceiling in bytes, if it has one.
    depths: Vec<u64>,
    /// True by class id if its `burst` is less than the minimum that keeps its assured rate for any traffic of the
    /// others.
    short: Vec<bool>,
}

impl Lenders {
    pub(crate) fn new(tree: &Hierarchy, plan: Plan, limits: Limits) -> Self {
        let mut levels = vec![0; tree.len()];
        for class in tree.classes().rev() {
            let parent = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            levels[parent] = levels[parent].max(levels[class.index()] + 1);
        }
        let depth = |class: ClassId| {
            let config = tree.config(class);
            let default = || config.ceiling.map(|ceiling| plan.ceiling_depth(class, ceiling));
            config.ceiling_burst.or_else(default).unwrap_or(u64::MAX)
        };
        let depths = (0..tree.len()).map(|index| depth(ClassId(index as u32))).collect();
        let is_short = |class: ClassId| tree.config(class).burst.is_some_and(|burst| burst < plan.depth(class));
        let short = (0..tree.len()).map(|index| is_short(ClassId(index as u32))).collect();
        Self { plan, limits, levels, depths, short }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Computes the rate of each class for `demand` in bit/s, by class id, the root first; `None` if it depends on more
    /// than rates.
    pub(crate) fn rates(&self, tree: &Hierarchy, demand: &Demand) -> Option<Vec<f64>> {
        let mut priorities: Vec<u8> = tree.leaves().iter().map(|leaf| self.plan.priorities[leaf.index()]).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let mut first = Filling::new(self, tree, demand);
        // True for a class between leaves and link that has lent its whole rate.
        let mut lent = vec![false; tree.len()];
        for level in 0..=self.levels[0] {
            for &priority in &priorities {
                first.fill(level, |class| self.plan.priorities[class.index()] == priority);
            }
            for index in (1..tree.len()).filter(|&index| level > 0 && self.levels[index] == level) {
                lent[index] = first.rates[index] >= self.plan.assured[index].bps() as f64 * (1.0 - SAME);
            }
        }
        let at_limit = |class: ClassId| {
            class != ClassId::ROOT && first.rates[class.index()] >= first.most[class.index()] * (1.0 - SAME)
        };
        let borrows =
            |leaf: ClassId| first.rates[leaf.index()] > self.plan.assured[leaf.index()].bps() as f64 * (1.0 + SAME);
        let late = |leaf: ClassId| first.path(leaf).any(at_limit) && first.path(leaf).any(|class| lent[class.index()]);
        let asking = || tree.leaves().iter().filter(|&&leaf| demand.bps(leaf) > 0.0);
        // Nothing is taken from a leaf that is alone.
        if asking().nth(1).is_some() && tree.leaves().iter().any(|&leaf| borrows(leaf) && late(leaf)) {
            return None;
        }
        let shallow = |leaf: ClassId, class: ClassId| {
            let rate = first.rates[class.index()];
            self.limits.get(class).is_some_and(|limit| rate >= NEAR * limit.bps as f64) && self.is_shallow(class, leaf)
        };
        let short = |class: ClassId| {
            let (rate, assured) = (first.rates[class.index()], self.plan.assured[class.index()]);
            self.short[class.index()] && rate >= NEAR * assured.bps() as f64
        };
        let interrupted = |&&leaf: &&ClassId| first.path(leaf).any(|class| shallow(leaf, class) || short(class));
        if asking().any(|leaf| interrupted(&leaf)) {
            return None;
        }
        Some(first.rates)
    }

    /// Returns true if the bucket of `class` may end turns of `leaf` below it early.
    pub(crate) fn may_interrupt(&self, class: ClassId, leaf: ClassId) -> bool {
        self.short[class.index()] || self.limits.get(class).is_some() && self.is_shallow(class, leaf)
    }

    fn is_shallow(&self, class: ClassId, leaf: ClassId) -> bool {
        self.plan.quanta[leaf.index()] > self.depths[class.index()]
    }
}

/// When a class stops, in units of time of one filling.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stop {
    at: f64,
    class: ClassId,
}

impl Eq for Stop {}

impl PartialOrd for Stop {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stop {
    /// Orders the earliest as the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then_with(|| other.class.cmp(&self.class))
    }
}

struct Filling<'a> {
    lenders: &'a Lenders,
    tree: &'a Hierarchy,
    /// Upper limit of its rate, by class id.
    most: Vec<f64>,
    /// Total rate through each class, by class id.
    rates: Vec<f64>,
    /// During one filling, by class id: the sum of the quanta of growing leaves below it, and the time since its rate
    /// is constant.
    speeds: Vec<f64>,
    since: Vec<f64>,
    growing: Vec<bool>,
}

impl<'a> Filling<'a> {
    fn new(lenders: &'a Lenders, tree: &'a Hierarchy, demand: &Demand) -> Self {
        let most = |index: usize| {
            let class = ClassId(index as u32);
            let demand = if tree.is_leaf(class) { demand.bps(class) } else { f64::INFINITY };
            let limit = lenders.limits.get(class).map_or(f64::INFINITY, |limit| limit.bps as f64);
            let link = if index == 0 { tree.link().rate.bps() as f64 } else { f64::INFINITY };
            demand.min(limit).min(link)
        };
        let zeros = vec![0.0; tree.len()];
        Self {
            lenders,
            tree,
            most: (0..tree.len()).map(most).collect(),
            rates: zeros.clone(),
            speeds: zeros.clone(),
            since: zeros,
            growing: vec![false; tree.len()],
        }
    }

    /// Returns the path from `class` up to the link, both included.
    fn path(&self, class: ClassId) -> impl Iterator<Item = ClassId> + use<'a> {
        let tree = self.tree;
        std::iter::successors(Some(class), move |&class| tree.parent(class))
    }

    /// Maximum total rate through `class` while leaves below it are served at `level`.
    fn most(&self, class: ClassId, level: usize) -> f64 {
        let index = class.index();
        // So far, a lender's whole rate was lent by itself or below it.
        let lends = self.lenders.levels[index] == level;
        if lends { self.most[index].min(self.lenders.plan.assured[index].bps() as f64) } else { self.most[index] }
    }

    /// Returns the event at which `class` stops.
    fn stop(&self, class: ClassId, level: usize) -> Stop {
        let index = class.index();
        let room = (self.most(class, level) - self.rates[index]).max(0.0);
        Stop { at: self.since[index] + room / self.speeds[index], class }
    }

    /// Serves the leaves that are to be `served` and whose lender is at `level`.
    fn fill(&mut self, level: usize, served: impl Fn(ClassId) -> bool) {
        let mut moving = Vec::new();
        for &leaf in self.tree.leaves() {
            let open = served(leaf)
                && self.path(leaf).any(|at| self.lenders.levels[at.index()] == level)
                && self.path(leaf).all(|at| self.rates[at.index()] < self.most(at, level));
            if !open {
                continue;
            }
            let quantum = self.lenders.plan.quanta[leaf.index()] as f64;
            self.growing[leaf.index()] = true;
            for at in self.path(leaf) {
                if self.speeds[at.index()] == 0.0 {
                    moving.push(at);
                    self.since[at.index()] = 0.0;
                }
                self.speeds[at.index()] += quantum;
            }
        }
        let finite = |stop: &Stop| stop.at.is_finite();
        let mut stops: BinaryHeap<Stop> = moving.iter().map(|&class| self.stop(class, level)).filter(finite).collect();
        let mut left: usize = moving.iter().filter(|class| self.growing[class.index()]).count();
        let mut below = Vec::new();
        while let Some(Stop { at, class }) = stops.pop() {
            if left == 0 {
                break;
            }
            if self.speeds[class.index()] <= 0.0 {
                continue;
            }
            let due = self.stop(class, level);
            if due.at > at {
                stops.push(due);
                continue;
            }
            // All leaves below it stop.
            below.push(class);
            while let Some(class) = below.pop() {
                below.extend(self.tree.children(class).iter().filter(|child| self.speeds[child.index()] > 0.0));
                if std::mem::take(&mut self.growing[class.index()]) {
                    left -= 1;
                    self.stop_leaf(class, at);
                }
            }
            self.settle(class, at);
            self.rates[class.index()] = self.rates[class.index()].max(self.most(class, level));
        }
        for class in moving {
            (self.speeds[class.index()], self.since[class.index()]) = (0.0, 0.0);
            self.growing[class.index()] = false;
        }
    }

    /// Updates the total rate through `class` to the time `at`.
    fn settle(&mut self, class: ClassId, at: f64) {
        let index = class.index();
        self.rates[index] += self.speeds[index] * (at - self.since[index]).max(0.0);
        self.since[index] = at;
    }

    fn stop_leaf(&mut self, leaf: ClassId, at: f64) {
        let quantum = self.lenders.plan.quanta[leaf.index()] as f64;
        for class in self.path(leaf) {
            self.settle(class, at);
            // Sums of whole numbers below 2^53 are exact, so that the result is zero when all have stopped.
            self.speeds[class.index()] -= quantum;
        }
    }
}
