//! Long-run rates of all classes under HTB, as a fluid: the rule of \[htb\] and the appendix of \[hls\] with packets of
//! zero length, exact.
//!
//! A leaf sends at the expense of its lender: itself while it is below its assured rate, else the nearest class above
//! it that is. Lenders of a lower level go first, and of leaves at one level those of the smallest number of priority.
//! Leaves that are served at one level share by their quanta. The link lends the rest. So at each level the leaves'
//! rates grow in proportion to their quanta. A leaf stops at its demand, at a ceiling, or when its lender has no more
//! to lend.
//!
//! | paper | here |
//! | --- | --- |
//! | AR_i, quantum, prio | [`Plan`] of the scheduler itself, so that both run with the same numbers |
//! | CR_i | the ceiling of a class |
//! | level(i) | 0 for a leaf, else 1 + the children's largest |
//!
//! DIFFERENCE: \[htb\] and \[hls\] describe packets and have no such fluid. It leaves out bursts, and the time for
//! which a class that turns green now and then leaves the turns of the level above it. `tests/claims/htb.rs` compares
//! it with the scheduler.
//!
//! Cost: O(n^2 levels) operations on rationals in the worst case, for n classes. It is for plans of some hundred classes.

use fairlink_core::schedulers::htb::Plan;
use fairlink_core::{BuildError, ClassId, Hierarchy};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::request::{Demand, Request};

/// The rates of all classes of a tree under HTB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtbFluid {
    /// Rates by class id, in bit/s.
    rates: Vec<BigRational>,
}

impl HtbFluid {
    /// Computes the rates for `demand`, within the ceilings of `tree`.
    ///
    /// # Errors
    /// [`BuildError`] if HTB could not be built: for a priority that is too large and for a quantum of zero.
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn solve(tree: &Hierarchy, demand: &Demand) -> Result<Self, BuildError> {
        demand.assert_for(tree.len());
        let mut filling = Filling::new(tree, demand, Plan::for_tree(tree)?);
        let mut priorities: Vec<u8> = tree.leaves().iter().map(|leaf| filling.plan.priorities[leaf.index()]).collect();
        priorities.sort_unstable();
        priorities.dedup();
        for level in 0..=filling.levels[0] {
            for &priority in &priorities {
                filling.fill(level, priority);
            }
        }
        Ok(Self { rates: filling.rates })
    }

    /// Returns the rate of `class`, in bit/s; the root (the link) included.
    ///
    /// # Panics
    /// When there is no such class.
    #[must_use]
    pub fn rate(&self, class: ClassId) -> &BigRational {
        &self.rates[class.index()]
    }
}

/// The rates while they grow.
struct Filling<'a> {
    tree: &'a Hierarchy,
    plan: Plan,
    /// Levels by class id.
    levels: Vec<usize>,
    /// Upper limit of its rate by class id: a leaf's demand or a ceiling; `None` for no limit.
    most: Vec<Option<BigRational>>,
    rates: Vec<BigRational>,
}

impl<'a> Filling<'a> {
    fn new(tree: &'a Hierarchy, demand: &Demand, plan: Plan) -> Self {
        let mut levels = vec![0; tree.len()];
        for class in tree.classes().rev() {
            let parent = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            levels[parent] = levels[parent].max(levels[class.index()] + 1);
        }
        let most = |index: usize| {
            let class = ClassId(index as u32);
            let demand = match demand.get(class) {
                Some(Request::Rate(rate)) => Some(rate),
                _ => None,
            };
            let ceiling = tree.config(class).ceiling.filter(|_| class != ClassId::ROOT).map(|rate| rate.bps());
            let link = (class == ClassId::ROOT).then(|| tree.link().rate.bps());
            [demand, ceiling, link].into_iter().flatten().min().map(whole)
        };
        let most = (0..tree.len()).map(most).collect();
        Self { tree, plan, levels, most, rates: vec![BigRational::zero(); tree.len()] }
    }

    /// Returns the path from `class` up to the link, both included.
    fn path(&self, class: ClassId) -> impl Iterator<Item = ClassId> + use<'a> {
        let tree = self.tree;
        std::iter::successors(Some(class), |&class| tree.parent(class))
    }

    /// Returns the possible increase of the rate of `class` while leaves below it are served at `level`; `None` if it
    /// is unlimited.
    fn room(&self, class: ClassId, level: usize) -> Option<BigRational> {
        let index = class.index();
        let most = self.most[index].clone();
        // So far, a lender's whole rate was lent by itself or below it.
        let lends = (self.levels[index] == level).then(|| whole(self.plan.assured[index].bps()));
        let limit = match (most, lends) {
            (Some(most), Some(lends)) => Some(most.min(lends)),
            (most, lends) => most.or(lends),
        };
        limit.map(|limit| (limit - &self.rates[index]).max(BigRational::zero()))
    }

    /// Serves the leaves of `priority` whose lender is at `level`.
    fn fill(&mut self, level: usize, priority: u8) {
        let served = |leaf: &ClassId| {
            self.plan.priorities[leaf.index()] == priority
                && self.path(*leaf).any(|at| self.levels[at.index()] == level)
        };
        let mut growing: Vec<ClassId> = self.tree.leaves().iter().copied().filter(served).collect();
        // Each turn stops one leaf at least.
        loop {
            let stopped = |class: ClassId| self.room(class, level).is_some_and(|room| room.is_zero());
            growing.retain(|&leaf| !self.path(leaf).any(stopped));
            if growing.is_empty() {
                return;
            }
            // Growth rate by class id while a leaf grows by a byte per byte of its quantum.
            let mut speeds = vec![BigInt::zero(); self.tree.len()];
            for &leaf in &growing {
                self.path(leaf).for_each(|class| speeds[class.index()] += self.plan.quanta[leaf.index()]);
            }
            let moving = || (0..speeds.len()).filter(|&index| !speeds[index].is_zero());
            let until =
                moving().filter_map(|index| Some(self.room(ClassId(index as u32), level)? / &speeds[index])).min();
            // The link has a rate, so that there is always a limit.
            let Some(until) = until else { return };
            moving().for_each(|index| self.rates[index] += &until * &speeds[index]);
        }
    }
}

fn whole(bps: u64) -> BigRational {
    BigRational::from_integer(bps.into())
}

#[cfg(test)]
mod tests;
