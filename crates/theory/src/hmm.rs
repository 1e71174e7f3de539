//! Hierarchical max-min (HMM) fair sharing, \[hls\] Section III-B, Theorem 1 and Algorithm 2, with a ceiling at any class; exact.
//!
//! | paper | here |
//! | --- | --- |
//! | r_i | [`ClassAllocation::request`] |
//! | a_i | [`ClassAllocation::allocation`] |
//! | f_k, equation (3) | [`ClassAllocation::fair_share`] |
//! | C | the link's rate |
//!
//! DIFFERENCE: ceilings, the paper's future work. A class's request is what it wants (a leaf its demand, an inner class the
//! sum of its children's requests) or its ceiling, whichever is less. A parent shares its allocation max-min fairly among
//! its children whenever their requests together exceed it, be it that the parent's own parent or its ceiling allows no
//! more. So the rules of the paper read:
//!
//! * (R1) If a_i < r_i, then a_i / w_i >= a_j / w_j for every sibling j.
//! * (R2) a_root = min(r_root, C), and at every inner class the children's allocations add up to the class's own.
//!
//! Cost: O(n log n) operations on rationals whose size grows with the depth; [`crate::fast`] is for use while packets flow.

use fairlink_core::{ClassId, Hierarchy};
use num_bigint::BigInt;
use num_rational::BigRational;

use crate::maxmin::{self, Claim};
use crate::request::{Demand, Request};

/// What one class wants and gets. Rates are in bit/s; `None` is unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassAllocation {
    /// What it would take without a ceiling of its own: a leaf's demand, the sum of the children's requests otherwise.
    pub wanted: Option<u128>,
    /// What it asks its parent for: what it wants, at most its ceiling. The link asks nobody and has no ceiling here.
    pub request: Option<u128>,
    /// What it gets; at most its request.
    pub allocation: BigRational,
    /// What each child that is not satisfied gets per unit of its weight; `None` (infinity) where all are, and at leaves.
    pub fair_share: Option<BigRational>,
    /// Whether it gets what it asks for. A class held by its own ceiling is satisfied; an unlimited one without ceiling
    /// never is.
    pub satisfied: bool,
    /// The nearest reason why it does not get what it wants: itself where its own ceiling (at the root: the link's rate) is
    /// what it gets; otherwise its parent, whose allocation is used up. `None` where it gets all it wants. The reason
    /// behind the reason is the `limited_by` of that class, see [`Allocation::limiting_chain`].
    pub limited_by: Option<ClassId>,
}

/// What every class of a tree gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    classes: Vec<ClassAllocation>,
}

impl Allocation {
    /// The HMM fair allocation of the link's rate for `demand`.
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    #[must_use]
    pub fn solve(tree: &Hierarchy, demand: &Demand) -> Self {
        demand.assert_for(tree.len());
        let wanted = wants(tree, demand);
        let capacity = u128::from(tree.link().rate.bps());
        let mut allocations = vec![BigRational::default(); tree.len()];
        let mut classes = Vec::with_capacity(tree.len());
        let root = &wanted[ClassId::ROOT.index()];
        allocations[0] = whole(root.map_or(capacity, |wanted| wanted.min(capacity)));
        // Parents come before children, so that a class's allocation is known when it is reached.
        for index in 0..tree.len() {
            let class = ClassId(index as u32);
            let allocation = std::mem::take(&mut allocations[index]);
            let children = tree.children(class);
            let claims: Vec<Claim> = children
                .iter()
                .map(|&child| Claim { request: request(tree, child, &wanted), weight: tree.weight(child) })
                .collect();
            let fair_share = maxmin::fair_share(&allocation, &claims);
            for (child, claim) in children.iter().zip(&claims) {
                allocations[child.index()] = maxmin::share_of(claim, fair_share.as_ref());
            }
            let wanted = wanted[index];
            let request = limited(wanted, ceiling(tree, class));
            let gets = |rate: Option<u128>| rate.is_some_and(|rate| whole(rate) == allocation);
            let limited_by = if gets(wanted) {
                None
            } else if class == ClassId::ROOT || gets(request) {
                Some(class)
            } else {
                tree.parent(class)
            };
            let satisfied = gets(request);
            classes.push(ClassAllocation { wanted, request, allocation, fair_share, satisfied, limited_by });
        }
        Self { classes }
    }

    /// What `class` gets; the root (the link) included.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn class(&self, class: ClassId) -> &ClassAllocation {
        &self.classes[class.index()]
    }

    /// What each class gets, by class id, the root first.
    #[must_use]
    pub fn classes(&self) -> &[ClassAllocation] {
        &self.classes
    }

    /// Why `class` does not get what it wants: the class that limits it, the one that limits that one, and so on up to the
    /// class whose own ceiling binds, or the link ([`ClassId::ROOT`]). Empty where the class gets what it wants.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn limiting_chain(&self, class: ClassId) -> Vec<ClassId> {
        let mut chain = Vec::new();
        let mut at = class;
        while let Some(by) = self.class(at).limited_by {
            chain.push(by);
            if by == at {
                break;
            }
            at = by;
        }
        // A class that limits the one below it and is held by its own ceiling appears once.
        chain.dedup();
        chain
    }
}

/// What every class wants, by class id.
fn wants(tree: &Hierarchy, demand: &Demand) -> Vec<Option<u128>> {
    let mut wanted = vec![Some(0u128); tree.len()];
    for class in tree.classes().rev() {
        match demand.get(class) {
            Some(Request::Rate(rate)) => wanted[class.index()] = Some(u128::from(rate)),
            Some(Request::Unlimited) => wanted[class.index()] = None,
            None => {}
        }
        let request = request(tree, class, &wanted);
        if let Some(parent) = tree.parent(class) {
            let sum = &mut wanted[parent.index()];
            // At most 10^6 leaves of less than 2^64 each.
            *sum = sum.zip(request).map(|(sum, request)| sum + request);
        }
    }
    wanted
}

fn request(tree: &Hierarchy, class: ClassId, wanted: &[Option<u128>]) -> Option<u128> {
    limited(wanted[class.index()], ceiling(tree, class))
}

/// The smaller of the two, where `None` is unlimited.
fn limited(wanted: Option<u128>, ceiling: Option<u128>) -> Option<u128> {
    match (wanted, ceiling) {
        (Some(wanted), Some(ceiling)) => Some(wanted.min(ceiling)),
        (wanted, ceiling) => wanted.or(ceiling),
    }
}

fn ceiling(tree: &Hierarchy, class: ClassId) -> Option<u128> {
    tree.config(class).ceiling.map(|rate| u128::from(rate.bps()))
}

fn whole(rate: u128) -> BigRational {
    BigRational::from_integer(BigInt::from(rate))
}
