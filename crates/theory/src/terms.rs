//! The parameters by which the classes of a tree share: groups, weights, rates served before any share, and limits.

use fairlink_core::{ClassId, Hierarchy};

use crate::floats::{SAME, add_up};
use crate::limits::{Limit, LimitKind, Limits};
use crate::request::Demand;

/// The parameters of sharing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Weights by class id. A class of weight 0 gets its floor alone.
    weights: Vec<u64>,
    /// Rate of a leaf before any share, by class id, in bit/s; empty if there is none.
    first: Vec<u64>,
    /// True if all leaves share the link among themselves, regardless of the classes above them.
    flat: bool,
    limits: Limits,
}

impl Terms {
    /// Siblings share by [`Hierarchy::weight`] within `limits`.
    pub(crate) fn siblings(tree: &Hierarchy, limits: Limits) -> Self {
        let weights = (0..tree.len()).map(|index| tree.weight(ClassId(index as u32))).collect();
        Self { weights, first: Vec::new(), flat: false, limits }
    }

    /// Makes the terms by which all leaves share the link: `weights`, by class id.
    pub(crate) fn leaves(weights: Vec<u64>, limits: Limits) -> Self {
        Self { weights, first: Vec::new(), flat: true, limits }
    }

    /// Makes the terms by which each leaf gets its real-time rate first. Siblings share by `slopes`, by class id; a
    /// leaf without a slope gets no more than that rate.
    pub(crate) fn curves(tree: &Hierarchy, slopes: &[Option<u64>], limits: Limits) -> Self {
        let first = (0..tree.len()).map(|index| real_time(tree, ClassId(index as u32)).unwrap_or(0)).collect();
        let alone = tree.leaves().iter().filter(|leaf| slopes[leaf.index()].is_none());
        let limits = alone.fold(limits, |limits, &leaf| {
            let bps = real_time(tree, leaf).unwrap_or(0);
            limits.lowered(leaf, Limit { bps, kind: LimitKind::RealTime })
        });
        let weights = slopes.iter().map(|slope| slope.unwrap_or(0)).collect();
        Self { weights, first, flat: false, limits }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn weight(&self, class: ClassId) -> u64 {
        self.weights[class.index()]
    }

    /// Returns true if something is served before any share.
    pub(crate) fn has_floors(&self) -> bool {
        !self.first.is_empty()
    }

    /// Returns the rate of a leaf that requests `wanted` before any share, in bit/s.
    pub(crate) fn floor(&self, leaf: ClassId, wanted: u128) -> u128 {
        self.first.get(leaf.index()).map_or(0, |&first| wanted.min(first.into()))
    }

    /// Returns true if all leaves share the link among themselves.
    pub(crate) fn is_flat(&self) -> bool {
        self.flat
    }

    /// Returns the classes that share the rate of `class`.
    pub(crate) fn sharers<'a>(&self, tree: &'a Hierarchy, class: ClassId) -> &'a [ClassId] {
        match (self.flat, class) {
            (false, _) => tree.children(class),
            (true, ClassId::ROOT) => tree.leaves(),
            (true, _) => &[],
        }
    }

    /// Returns the class among whose sharers `class` is; `None` for the link, and for a class that only sums up the
    /// leaves below it.
    pub(crate) fn shares_in(&self, tree: &Hierarchy, class: ClassId) -> Option<ClassId> {
        match (self.flat, tree.parent(class)) {
            (true, Some(_)) => tree.is_leaf(class).then_some(ClassId::ROOT),
            (_, parent) => parent,
        }
    }

    /// Computes the rate of each class for `demand` in bit/s, by class id, the root first; with the errors of `f64`.
    /// `None` if among some siblings one gets more before any share than its share, one gets less than its request, and
    /// one gets its whole request as its share.
    ///
    /// Cost: O(n log n).
    pub(crate) fn rates(&self, tree: &Hierarchy, demand: &Demand) -> Option<Vec<f64>> {
        let capacity = tree.link().rate.bps() as f64;
        let mut wanted: Vec<f64> = (0..tree.len()).map(|index| demand.bps(ClassId(index as u32))).collect();
        let mut claimed = vec![0.0; tree.len()];
        let mut floors = vec![0.0; tree.len()];
        for class in tree.classes().rev() {
            let index = class.index();
            if tree.is_leaf(class) {
                floors[index] = self.first.get(index).map_or(0.0, |&first| wanted[index].min(first as f64));
            }
            let limit = self.limits.get(class).map_or(f64::INFINITY, |limit| limit.bps as f64);
            claimed[index] = wanted[index].min(limit.max(floors[index]));
            let above = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            wanted[above] += claimed[index];
            floors[above] += floors[index];
        }
        claimed[0] = wanted[0];
        let rates = self.given(tree, capacity, &claimed, &floors);
        let pushes_back = self.has_floors() && self.pushes_back(tree, &rates, [&wanted, &claimed, &floors]);
        (!pushes_back).then_some(rates)
    }

    fn pushes_back(&self, tree: &Hierarchy, rates: &[f64], [wanted, claimed, floors]: [&[f64]; 3]) -> bool {
        let mut begins = Vec::new();
        std::iter::once(ClassId::ROOT).chain(tree.classes()).any(|parent| {
            let children = tree.children(parent);
            let claims = children.iter().map(|child| self.claim(*child, claimed, floors));
            let share = share_of(rates[parent.index()], claims, &mut begins);
            let (mut ahead, mut hungry, mut comes) = (false, false, false);
            for child in children.iter().filter(|child| self.weight(**child) > 0) {
                let (at, rate) = (child.index(), rates[child.index()]);
                let is_ahead = rate > share * self.weights[at] as f64 * (1.0 + SAME);
                ahead |= is_ahead;
                hungry |= rate < claimed[at] * (1.0 - SAME);
                comes |= rate > 0.0 && rate >= wanted[at] * (1.0 - SAME) && !is_ahead;
            }
            ahead && hungry && comes
        })
    }

    /// Returns request, weight and floor.
    fn claim(&self, class: ClassId, claimed: &[f64], floors: &[f64]) -> (f64, f64, f64) {
        let at = class.index();
        (claimed[at], self.weights[at] as f64, floors[at])
    }

    /// Like [`Terms::rates`], with a given capacity and demand of the leaves, without limits and floors.
    pub(crate) fn shared(&self, tree: &Hierarchy, capacity: f64, leaves: &[f64]) -> Vec<f64> {
        let mut wanted = leaves.to_vec();
        add_up(tree, &mut wanted);
        self.given(tree, capacity, &wanted, &vec![0.0; tree.len()])
    }

    fn given(&self, tree: &Hierarchy, capacity: f64, wanted: &[f64], floors: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; tree.len()];
        rates[0] = wanted[0].min(capacity);
        let mut begins = Vec::new();
        for index in 0..tree.len() {
            let class = ClassId(index as u32);
            let sharers = self.sharers(tree, class);
            if sharers.is_empty() {
                continue;
            }
            let claims = sharers.iter().map(|sharer| self.claim(*sharer, wanted, floors));
            let share = share_of(rates[index], claims, &mut begins);
            for sharer in sharers {
                let at = sharer.index();
                rates[at] = wanted[at].min(self.weights[at] as f64 * share).max(floors[at]);
            }
        }
        if self.flat {
            // The link has its rate.
            let whole = std::mem::replace(&mut rates[0], 0.0);
            add_up(tree, &mut rates);
            rates[0] = whole;
        }
        rates
    }
}

/// Returns the long-term slope of the real-time curve of `class`, in bit/s.
fn real_time(tree: &Hierarchy, class: ClassId) -> Option<u64> {
    tree.config(class).real_time.map(|curve| curve.m2.map_or(0, fairlink_core::Rate::bps))
}

/// Returns the fair share at which `claims` (request, weight, floor) use up `capacity`: infinite if they all fit.
pub(crate) fn share_of(
    capacity: f64,
    claims: impl Iterator<Item = (f64, f64, f64)>,
    begins: &mut Vec<(f64, f64)>,
) -> f64 {
    begins.clear();
    let (mut fixed, mut requests) = (0.0, 0.0);
    for (request, weight, floor) in claims {
        fixed += floor;
        requests += request;
        if weight > 0.0 && request > floor {
            begins.push((floor / weight, weight));
            if request < f64::INFINITY {
                begins.push((request / weight, -weight));
            }
        }
    }
    if requests <= capacity {
        return f64::INFINITY;
    }
    begins.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let mut growing = 0.0;
    let mut given = fixed;
    let mut at = 0.0;
    for &(begin, weight) in begins.iter() {
        let next = given + growing * (begin - at);
        if next > capacity {
            break;
        }
        (given, at) = (next, begin);
        growing += weight;
    }
    if growing > 0.0 { at + (capacity - given).max(0.0) / growing } else { at }
}
