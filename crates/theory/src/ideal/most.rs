//! The most that a class can get: its rate while the leaves below it always have packets and all others are idle, by
//! the rule of the scheduler.
//!
//! Most of it follows from limits alone: those of the class and of the classes above it, those of its children
//! together, the link's rate, and real-time rates, which pass all of these. [`highest`] is that number, for all classes
//! at once. Where a rule says more or refuses, [`Most`] solves it.
//!
//! Cost: O(n) for [`highest`]; a class that limits do not settle costs one allocation, or a run of the scheduler.

use fairlink_core::{ClassId, Hierarchy, Rate, SchedulerInfo};

use super::{Kind, NotComputed, Rule, Traffic};
use crate::limits::Limits;
use crate::request::{Demand, Request, leaves_below};

/// Maximum number of classes in all allocations of one tree.
const WORK: usize = 10_000_000;
/// Maximum number of classes for which the scheduler is run.
const RUNS: usize = 64;

/// Returns the most that limits leave to each class of `tree` under the scheduler `info`, in bit/s, by class id: what
/// a leaf gets alone, except where estimators or small bursts decide. The link's rate if the scheduler refuses the
/// tree.
#[must_use]
pub fn highest(info: &SchedulerInfo, tree: &Hierarchy) -> Vec<Rate> {
    let found = Rule::for_scheduler(info, tree, Traffic::unknown()).map(|rule| rule.highest());
    let link = tree.link().rate;
    found.map_or_else(
        |_| vec![link; tree.len()],
        |found| found.into_iter().map(|bps| Rate::from_bps(bps.max(1)).map_or(link, |rate| rate.min(link))).collect(),
    )
}

/// The most that each class of a tree can get.
#[derive(Clone, Debug)]
pub struct Most<'a> {
    rule: Rule<'a>,
    highest: Vec<u64>,
    /// True if limits settle what a leaf gets, and what a class with children gets.
    settled: [bool; 2],
    /// Number of classes in further allocations, and number of further runs.
    left: [usize; 2],
}

impl<'a> Most<'a> {
    /// Makes it for `tree` under the scheduler `info`.
    ///
    /// # Errors
    /// [`NotComputed`] if the scheduler cannot be built for the tree.
    pub fn new(info: &SchedulerInfo, tree: &'a Hierarchy) -> Result<Self, NotComputed> {
        let rule = Rule::for_scheduler(info, tree, Traffic::unknown())?;
        Ok(Self { highest: rule.highest(), settled: rule.settled(), rule, left: [WORK, RUNS] })
    }

    /// Returns the most that `class` can get in bit/s, rounded down.
    ///
    /// # Errors
    /// [`NotComputed`] if the rule gives no rates for that demand, and after too many classes that need an allocation or
    /// a run.
    ///
    /// # Panics
    /// When there is no such class.
    pub fn of(&mut self, class: ClassId) -> Result<u64, NotComputed> {
        let tree = self.rule.tree;
        if self.settled[usize::from(!tree.is_leaf(class))] && !self.rule.may_lose_alone(class) {
            return Ok(self.highest[class.index()]);
        }
        let mut demand = Demand::uniform(tree, Request::Rate(0));
        for leaf in leaves_below(tree, class) {
            // A leaf of this tree.
            let _ = demand.set(tree, leaf, Request::Unlimited);
        }
        self.spend(0, tree.len())?;
        if !self.rule.own.small_bursts && self.rule.may_miss(&demand).is_none() {
            match self.rule.clone().by_formula_only().solve(&demand) {
                Ok(ideal) => return Ok(ideal.floor_bps(class)),
                Err(why) if !self.rule.own.plays => return Err(why),
                Err(_) => {}
            }
        }
        self.spend(1, 1)?;
        Ok(self.rule.solve(&demand)?.floor_bps(class))
    }

    fn spend(&mut self, which: usize, work: usize) -> Result<(), NotComputed> {
        let Some(left) = self.left[which].checked_sub(work) else {
            return Err(NotComputed::because(match which {
                0 => {
                    format!("its limits do not settle it, and allocations of more than {WORK} classes are not computed")
                }
                _ => format!(
                    "its limits do not settle it, and {} is run for no more than {RUNS} classes",
                    self.rule.own.info.name
                ),
            }));
        };
        self.left[which] = left;
        Ok(())
    }
}

impl Rule<'_> {
    /// Returns what limits leave to each class, in bit/s, by class id.
    fn highest(&self) -> Vec<u64> {
        let tree = self.tree;
        let none = Limits::none(tree);
        let (terms, limits) = match &self.own.kind {
            Kind::Shares(terms) => (Some(terms), if terms.is_flat() { &none } else { terms.limits() }),
            Kind::Lenders(lenders) => (None, lenders.limits()),
            Kind::Allotted(allotted) => (None, allotted.limits()),
            Kind::Unknown { limits, .. } => (None, limits),
            _ => (None, &none),
        };
        let own_share = matches!(self.own.kind, Kind::OwnShare);
        let (mut claims, mut floors) = (vec![0u128; tree.len()], vec![0u128; tree.len()]);
        for class in tree.classes().rev() {
            let index = class.index();
            if tree.is_leaf(class) {
                claims[index] = if own_share { tree.rate_all_busy(class).into() } else { u64::MAX.into() };
                floors[index] = terms.map_or(0, |terms| terms.floor(class, u64::MAX.into()));
            }
            // Real-time rates pass limits.
            if let Some(limit) = limits.get(class) {
                claims[index] = claims[index].min(u128::from(limit.bps).max(floors[index]));
            }
            let above = tree.parent(class).unwrap_or(ClassId::ROOT).index();
            claims[above] += claims[index];
            floors[above] += floors[index];
        }
        let mut highest = vec![tree.link().rate.bps(); tree.len()];
        highest[0] = highest[0].min(u64::try_from(claims[0]).unwrap_or(u64::MAX));
        // Parents come before their children. A claim is at least the floor, and so is each one above it.
        for class in tree.classes() {
            let (index, above) = (class.index(), tree.parent(class).unwrap_or(ClassId::ROOT).index());
            let most = claims[index].min(highest[above].into());
            highest[index] = u64::try_from(most).unwrap_or(u64::MAX);
        }
        highest
    }

    /// Returns true if [`Rule::highest`] is the ideal of a leaf alone, and of a class with children alone, unless
    /// [`Rule::may_lose_alone`].
    fn settled(&self) -> [bool; 2] {
        let tree = self.tree;
        match &self.own.kind {
            Kind::Shares(terms) => {
                let limits = terms.limits();
                let weightless = |class: ClassId| terms.weight(class) == 0 && limits.get(class).is_none();
                let plain = if terms.is_flat() { limits.is_empty() } else { !limits.keeps() };
                let known = plain && !tree.classes().any(weightless);
                // Among its leaves one with a real-time curve may push others back.
                let curves = tree.leaves().iter().any(|&leaf| terms.floor(leaf, 1) > 0);
                [known, known && !curves]
            }
            Kind::SiblingVisits { .. } | Kind::OwnShare => [true, true],
            Kind::Lenders(_) | Kind::Visits { .. } | Kind::Contracts { .. } | Kind::SharesFirst { .. } => [true, false],
            Kind::Allotted(_) | Kind::Unknown { .. } | Kind::Never { .. } => [false, false],
        }
    }

    /// Returns true if small buckets may keep `class` from its limits even alone.
    fn may_lose_alone(&self, class: ClassId) -> bool {
        let tree = self.tree;
        let mut path = std::iter::successors(Some(class), |&at| tree.parent(at));
        match &self.own.kind {
            Kind::Lenders(lenders) => path.any(|at| lenders.may_interrupt(at, class)),
            _ if self.own.small_bursts => {
                let small = |at: ClassId| tree.config(at).ceiling_burst.is_some();
                path.any(small) || !tree.is_leaf(class)
            }
            _ => false,
        }
    }
}
