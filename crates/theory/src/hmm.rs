//! Hierarchical max-min (HMM) fair sharing, \[hls\] Section III-B, Theorem 1 and Algorithm 2, with a ceiling at any class; exact.
//!
//! | paper | here |
//! | --- | --- |
//! | r_i | [`ClassAllocation::request`] |
//! | a_i | [`ClassAllocation::allocation`] |
//! | f_k, equation (3) | [`ClassAllocation::fair_share`] |
//! | C | the link's rate |
//!
//! DIFFERENCE: ceilings, the paper's future work, and other limits ([`crate::limits`]). A class's request is the lesser
//! of its demand (for an inner class the sum of its children's requests) and its limit. A parent shares its allocation
//! max-min fairly among its children whenever their total request exceeds it, whether because of its own parent or
//! because of its limit. So the rules of the paper read:
//!
//! * (R1) If a_i < r_i, then a_i / w_i >= a_j / w_j for every sibling j.
//! * (R2) a_root = min(r_root, C), and at every inner class the children's allocations add up to the class's own.
//!
//! DIFFERENCE: a class that is isolated (\[cbq\]) does not lend. Its parent, and every class above, shares as if it
//! requested its own rate all the time. The unused rest of its part is lost. Both rules hold for the parts that are
//! reserved in this way; allocations are the used parts.
//!
//! Cost: O(n log n) in machine integers, and a few operations on rationals for each class that has children. Their size grows with
//! the depth. [`crate::fast`] is for use while packets flow. Memory: about 60 bytes for each class.

use fairlink_core::{ClassId, Hierarchy};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::limits::{Limit, Limits};
use crate::maxmin::{UNLIMITED, fair_share_of, fair_share_over_floors};
use crate::request::{Demand, Request};
use crate::terms::Terms;

/// Demand and allocation of one class. Rates are in bit/s; `None` is unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassAllocation {
    /// Demand without a limit of its own: a leaf's demand, the sum of the children's requests otherwise.
    pub wanted: Option<u128>,
    /// Request to its parent: its demand, at most its limit. The link has no parent and no limit here.
    pub request: Option<u128>,
    /// Its allocated rate; at most its request.
    pub allocation: BigRational,
    /// Rate of each unsatisfied child per unit of its weight; `None` (infinity) if all are satisfied, and at leaves.
    pub fair_share: Option<BigRational>,
    /// True if its request is met. A class limited by its own limit is satisfied; one with unlimited demand and no
    /// limit never is.
    pub satisfied: bool,
    /// The nearest reason for unmet demand: the class itself if its own limit (at the root: the link's rate) equals its
    /// rate; otherwise its parent, whose allocation is used up. `None` if the demand is met. For the reason behind it,
    /// see the `limited_by` of that class and [`Allocation::limiting_chain`].
    pub limited_by: Option<ClassId>,
}

/// The allocation of every class of a tree.
///
/// Only the fair shares are stored. The rate of a class is computed on demand from that of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    classes: Vec<Node>,
    terms: Terms,
    /// Used part of each class's rate by class id, if a class is isolated or all leaves share among themselves. Empty
    /// otherwise, when the whole is used.
    used: Vec<BigRational>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    /// Demand, and the claim that its parent shares by: the request, or the reservation for isolated classes.
    wanted: u128,
    claim: u128,
    /// Rate before any share; at most the claim.
    floor: u128,
    /// The class of which it has a share.
    parent: u32,
    /// Fair share of its children.
    fair_share: Option<Box<BigRational>>,
}

impl Allocation {
    /// Computes the HMM fair allocation of the link's rate for `demand`, within the limits of the classes of `tree`.
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    #[must_use]
    pub fn solve(tree: &Hierarchy, demand: &Demand) -> Self {
        Self::within(Limits::for_tree(tree), tree, demand)
    }

    /// Like [`Allocation::solve`], within other limits, such as those that a certain scheduler supports.
    ///
    /// # Panics
    /// When `limits` or `demand` were made for a tree of another size.
    #[must_use]
    pub fn within(limits: Limits, tree: &Hierarchy, demand: &Demand) -> Self {
        limits.assert_for(tree.len());
        Self::by(Terms::siblings(tree, limits), tree, demand)
    }

    /// Like [`Allocation::solve`], for classes that share by other terms.
    pub(crate) fn by(terms: Terms, tree: &Hierarchy, demand: &Demand) -> Self {
        demand.assert_for(tree.len());
        let mut solved = Self { classes: Self::claims(tree, &terms, demand), terms, used: Vec::new() };
        let mut finite = Vec::new();
        // Parents come before children, so that a class's part depends only on earlier results.
        for index in 0..tree.len() {
            let class = ClassId(index as u32);
            let sharers = solved.terms.sharers(tree, class);
            if sharers.is_empty() {
                continue;
            }
            let part = if class == ClassId::ROOT {
                let capacity = u128::from(tree.link().rate.bps());
                let part = solved.classes[0].claim.min(capacity);
                // The root has no fair share to compute its part from.
                solved.classes[0].claim = part;
                whole(part)
            } else {
                solved.part(class)
            };
            let claim = |class: &ClassId| (solved.classes[class.index()].claim, solved.terms.weight(*class));
            let fair_share = if solved.terms.has_floors() {
                let floor = |class: &ClassId| solved.classes[class.index()].floor;
                let claims = sharers.iter().map(|class| (claim(class).0, claim(class).1, floor(class)));
                fair_share_over_floors(&part, claims)
            } else {
                fair_share_of(&part, sharers.iter().map(claim), &mut finite)
            };
            solved.classes[index].fair_share = fair_share.map(Box::new);
        }
        if solved.terms.limits().keeps() || solved.terms.is_flat() {
            solved.used = solved.used(tree);
        }
        solved
    }

    /// Computes the demand and claim of every class, from the leaves up.
    fn claims(tree: &Hierarchy, terms: &Terms, demand: &Demand) -> Vec<Node> {
        let node = |index: usize| {
            let class = ClassId(index as u32);
            let wanted = match demand.get(class) {
                Some(Request::Rate(rate)) => u128::from(rate),
                Some(Request::Unlimited) => UNLIMITED,
                None => 0,
            };
            let parent = terms.shares_in(tree, class).unwrap_or(ClassId::ROOT).0;
            Node { wanted, claim: wanted, floor: terms.floor(class, wanted), parent, fair_share: None }
        };
        let mut classes: Vec<Node> = (0..tree.len()).map(node).collect();
        for class in tree.classes().rev() {
            let Node { wanted, claim, floor, .. } = classes[class.index()];
            let limit = terms.limits().get(class).map_or(UNLIMITED, |limit| u128::from(limit.bps)).max(floor);
            let request = wanted.min(limit);
            let claim = terms.limits().kept(class).map_or_else(|| claim.min(limit), u128::from);
            classes[class.index()].claim = claim;
            // At most 2 * 10^6 classes of less than 2^64 each, or unlimited.
            let above = &mut classes[tree.parent(class).unwrap_or(ClassId::ROOT).index()];
            above.wanted = above.wanted.saturating_add(request);
            above.claim = above.claim.saturating_add(claim);
            above.floor += floor;
        }
        classes
    }

    /// Returns the rate available to a class: its claim, or its share by weight.
    fn part(&self, class: ClassId) -> BigRational {
        let Node { claim, floor, parent, .. } = self.classes[class.index()];
        let weight = self.terms.weight(class);
        let by_weight = if class == ClassId::ROOT { None } else { self.classes[parent as usize].fair_share.as_ref() };
        match by_weight {
            // Compared before it is reduced, which takes longer.
            Some(share) if floor > 0 && share.numer() * weight <= share.denom() * BigInt::from(floor) => whole(floor),
            Some(share) if share.numer() * weight < share.denom() * BigInt::from(claim) => {
                share.as_ref() * BigInt::from(weight)
            }
            _ => whole(claim),
        }
    }

    /// Returns the used rate of each class, by class id.
    fn used(&self, tree: &Hierarchy) -> Vec<BigRational> {
        let mut used = vec![BigRational::zero(); tree.len()];
        for index in (0..tree.len()).rev() {
            let class = ClassId(index as u32);
            if tree.is_leaf(class) {
                let part = self.part(class);
                used[index] = match self.request(class) {
                    Some(request) => part.min(whole(request)),
                    None => part,
                };
            }
            if let Some(parent) = tree.parent(class) {
                let own = used[index].clone();
                used[parent.index()] += own;
            }
        }
        used
    }

    /// Returns the allocation of `class`; the root (the link) included.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn class(&self, class: ClassId) -> ClassAllocation {
        let allocation = self.rate(class);
        let (wanted, request) = (known(self.classes[class.index()].wanted), self.request(class));
        let satisfied = request.is_some_and(|rate| whole(rate) == allocation);
        let fair_share = self.classes[class.index()].fair_share.as_deref().cloned();
        ClassAllocation { wanted, request, allocation, fair_share, satisfied, limited_by: self.limited_by(class) }
    }

    /// Returns the allocations of all classes, by class id, the root first.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = ClassAllocation> + '_ {
        (0..self.classes.len()).map(|index| self.class(ClassId(index as u32)))
    }

    /// Returns the rate of `class`, in bit/s.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn rate(&self, class: ClassId) -> BigRational {
        self.used.get(class.index()).cloned().unwrap_or_else(|| self.part(class))
    }

    /// Returns the rate of `class`, in whole bit/s rounded down.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn floor_bps(&self, class: ClassId) -> u64 {
        let Node { claim, floor, parent, .. } = self.classes[class.index()];
        let whole = match (&self.used[..], &self.classes[parent as usize].fair_share) {
            ([], Some(share)) if class != ClassId::ROOT => {
                let by_weight = share.numer() * self.terms.weight(class) / share.denom();
                by_weight.to_u128().map_or(claim, |by_weight| by_weight.min(claim).max(floor))
            }
            ([], _) => claim,
            _ => return crate::floor_bps(&self.rate(class)),
        };
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// Returns the limit of `class` that does not depend on the rates of others; `None` at the link.
    #[must_use]
    pub fn limit(&self, class: ClassId) -> Option<Limit> {
        self.terms.limits().get(class)
    }

    /// Returns the terms by which the classes share.
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    fn request(&self, class: ClassId) -> Option<u128> {
        let Node { wanted, floor, .. } = self.classes[class.index()];
        let limit = self.limit(class).map_or(UNLIMITED, |limit| u128::from(limit.bps));
        known(wanted.min(limit.max(floor)))
    }

    /// Returns [`ClassAllocation::limited_by`].
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn limited_by(&self, class: ClassId) -> Option<ClassId> {
        let Node { wanted, claim, parent, .. } = self.classes[class.index()];
        if known(wanted).is_some_and(|wanted| whole(wanted) == self.rate(class)) {
            None
        } else if self.sums_up(class) {
            Some(ClassId::ROOT)
        } else if class == ClassId::ROOT || whole(claim) == self.part(class) {
            Some(class)
        } else {
            Some(ClassId(parent))
        }
    }

    /// Returns true if a class has no share of its own: its leaves share the link with all others.
    fn sums_up(&self, class: ClassId) -> bool {
        self.terms.is_flat() && class != ClassId::ROOT && self.terms.weight(class) == 0
    }

    /// Returns the chain of reasons for unmet demand of `class`: the class that limits it, the one that limits that
    /// one, and so on up to the class whose own limit binds, or the link ([`ClassId::ROOT`]). Empty if the demand is
    /// met.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn limiting_chain(&self, class: ClassId) -> Vec<ClassId> {
        chain(class, |class| self.limited_by(class))
    }
}

/// Follows `limited_by` from `class` up to the limit that binds.
pub(crate) fn chain(class: ClassId, limited_by: impl Fn(ClassId) -> Option<ClassId>) -> Vec<ClassId> {
    let mut chain = Vec::new();
    let mut at = class;
    while let Some(by) = limited_by(at) {
        chain.push(by);
        if by == at {
            break;
        }
        at = by;
    }
    // A class that limits the one below it and is held by its own limit appears once.
    chain.dedup();
    chain
}

fn known(rate: u128) -> Option<u128> {
    (rate != UNLIMITED).then_some(rate)
}

fn whole(rate: u128) -> BigRational {
    BigRational::from_integer(BigInt::from(rate))
}
