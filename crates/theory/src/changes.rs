//! Changes that would increase a class's rate: single changes, each solved by the rule of the scheduler
//! ([`crate::ideal`]), with their gains.
//!
//! Under hierarchical max-min fairness a class's rate depends on three things: the rate of the link; the weights,
//! limits and demand of the class and of those above it; and the weights and requests of their siblings. So these are
//! the changes that are tried. Changes among a sibling's descendants have no effect unless they change the sibling's
//! request.
//!
//! Each change is made in the tree or in the demand, and solved anew; no change stands for another. A class with
//! children asks for less if all its leaves do: together for the new rate, each in proportion to what it gets. A
//! guarantee for which the class above has no room is taken from the siblings' guarantees, in proportion to these and
//! to those below them, and from them at most half.
//!
//! A gain is the rate after the change minus the current rate. The gain per bit/s is that of the smallest change, 1
//! bit/s: gains are linear until a class becomes satisfied or ceases to be. If rates are not exact, it is that of a
//! change of a millionth of the link's rate, and gains of less than 10^-8 of it count as none. A rate that only a run of
//! the scheduler gives is too coarse for a gain, so that such a change is left out.
//!
//! Cost: two allocations for each change, and a run of the scheduler for a change where one has to confirm the formula.

use fairlink_core::{ClassId, Hierarchy, Rate, SchedulerInfo, Share, Sharing};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::explain::UnknownClass;
use crate::ideal::{Ideal, NotComputed, Rule, Traffic};
use crate::limits::LimitKind;
use crate::request::{Demand, Request, leaves_below};
use crate::variant::variant;

/// The parameter that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// The link's rate is raised.
    Link,
    /// The guarantee of the class or of one above it is raised.
    Guarantee,
    /// The same for its weight.
    Weight,
    /// A sibling of the class or of one above it asks for less than it gets.
    AsksLess,
    /// The limit of the class or of one above it is removed.
    Lift(LimitKind),
    /// The leaves of the class ask for all they can get.
    AsksMore,
}

/// One change and its gain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The parameter that is changed.
    pub lever: Lever,
    /// The changed class; the link for its rate.
    pub class: ClassId,
    /// Old value: bit/s, or a weight; `None` for no limit, and for a class above the leaves that send.
    pub from: Option<u64>,
    /// See `from`.
    pub to: Option<u64>,
    /// Gain of the class, in bit/s; negative for a loss.
    pub gain: BigRational,
    /// Gain for each bit/s of a small change, or for each unit of a changed weight; `None` if there is no such change.
    pub per_bps: Option<BigRational>,
    /// False if siblings give up guarantees for it, because the class above has no room.
    pub fits: bool,
}

/// Changes with and without a gain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes with a gain, the largest first.
    pub helpful: Vec<Change>,
    /// Changes without a gain.
    pub useless: Vec<Change>,
    /// Number of siblings of it and of the classes above it whose smaller request was not tried: those that get the
    /// least, if there are too many.
    pub untried: usize,
}

/// The reason for which changes could not be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChanges {
    /// The class does not exist.
    #[error(transparent)]
    UnknownClass(#[from] UnknownClass),
    /// The scheduler's rule gives no rates.
    #[error(transparent)]
    NotComputed(#[from] NotComputed),
}

/// Maximum number of leaf allocations that are computed, over all changes.
const WORK: usize = 1_000_000;
/// Maximum number of siblings tried in a small tree.
const MOST_SIBLINGS: usize = 256;
/// The same if a run of the scheduler has to confirm each formula.
const MOST_RUN: usize = 16;
/// Reason for no changes if no formula gives the rates.
const TOO_COARSE: &str = "rates from a simulation run are too coarse to show the effect of a change";

impl Changes {
    /// Returns the changes for `class` under `demand` by the rule of the scheduler `info`. Each is of `step` bit/s
    /// (weights: a tenth, at least 1).
    ///
    /// # Errors
    /// [`NoChanges`].
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn find(
        info: &SchedulerInfo,
        tree: &Hierarchy,
        demand: &Demand,
        class: ClassId,
        step: u64,
    ) -> Result<Self, NoChanges> {
        if class.index() >= tree.len() {
            return Err(UnknownClass { class, classes: tree.len() }.into());
        }
        let rule = Rule::for_scheduler(info, tree, Traffic::unknown())?;
        let now = rule.solve(demand)?;
        if now.run_because().is_some() {
            return Err(NotComputed::because(TOO_COARSE).into());
        }
        let search = Search { info, tree, demand, class, rate: now.rate(class), now, rule };
        let path: Vec<ClassId> = search.path();
        let mut all = vec![search.asks_more(), search.link(step)];
        for &at in &path {
            all.push(search.share(at, step));
            all.push(search.lift(at));
        }
        let siblings = path.iter().flat_map(|&at| {
            let parent = tree.parent(at).unwrap_or(ClassId::ROOT);
            tree.children(parent).iter().copied().filter(move |&sibling| sibling != at)
        });
        let mut siblings: Vec<(u64, ClassId)> =
            siblings.map(|sibling| (search.now.floor_bps(sibling), sibling)).filter(|&(bps, _)| bps > 0).collect();
        siblings.sort_by_key(|&(bps, sibling)| (std::cmp::Reverse(bps), sibling));
        let most = if search.rule.runs() { MOST_RUN } else { MOST_SIBLINGS };
        let most = (WORK / tree.len()).clamp(2, most);
        let untried = siblings.len().saturating_sub(most);
        all.extend(siblings.iter().take(most).map(|&(_, sibling)| search.asks_less(sibling, step)));
        let mut changes = Self { untried, ..Self::default() };
        for change in all.into_iter().flatten() {
            if change.gain > BigRational::zero() {
                changes.helpful.push(change);
            } else {
                changes.useless.push(change);
            }
        }
        // Stable, so that equal gains stay in the order of the path.
        changes.helpful.sort_by(|a, b| b.gain.cmp(&a.gain));
        Ok(changes)
    }
}

struct Search<'a> {
    info: &'a SchedulerInfo,
    tree: &'a Hierarchy,
    demand: &'a Demand,
    class: ClassId,
    rule: Rule<'a>,
    now: Ideal,
    /// Current rate of the class.
    rate: BigRational,
}

/// The size of a change.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// A printed one, of which a run of the scheduler confirms the rates where that is necessary.
    Whole,
    /// The smallest, for which runs are too coarse.
    Least,
}

impl Search<'_> {
    /// Returns the path from the class up to the child of the link.
    fn path(&self) -> Vec<ClassId> {
        let up = std::iter::successors(Some(self.class), |&class| self.tree.parent(class));
        up.filter(|&class| class != ClassId::ROOT).collect()
    }

    /// Returns the gain of the class by `rule` for `demand`; `None` if no formula has it.
    fn gain(&self, rule: Rule<'_>, demand: &Demand, size: Size) -> Option<BigRational> {
        let rule = if size == Size::Least || !rule.runs() { rule.by_formula_only() } else { rule };
        let changed = rule.solve(demand).ok().filter(|ideal| ideal.run_because().is_none())?;
        let gain = changed.rate(self.class) - &self.rate;
        let noise = BigRational::new(self.tree.link().rate.bps().into(), 100_000_000.into());
        Some(if !self.now.is_exact() && gain.abs() < noise { BigRational::zero() } else { gain })
    }

    /// The gain in another tree.
    fn gain_in(&self, tree: &Hierarchy, size: Size) -> Option<BigRational> {
        self.gain(Rule::for_scheduler(self.info, tree, Traffic::unknown()).ok()?, self.demand, size)
    }

    /// Smallest change with a measurable gain, in bit/s.
    fn least(&self) -> u64 {
        if self.now.is_exact() { 1 } else { (self.tree.link().rate.bps() / 1_000_000).max(1) }
    }

    /// Returns the gain for each bit/s of the smallest change.
    fn slope(&self, gain: impl Fn(u64, Size) -> Option<BigRational>) -> Option<BigRational> {
        let least = self.least();
        Some(gain(least, Size::Least)? / BigInt::from(least))
    }

    fn asks_more(&self) -> Option<Change> {
        let mut demand = self.demand.clone();
        for leaf in leaves_below(self.tree, self.class) {
            // A leaf of this tree.
            let _ = demand.set(self.tree, leaf, Request::Unlimited);
        }
        let from = match self.demand.get(self.class) {
            Some(Request::Rate(rate)) => Some(rate),
            _ => None,
        };
        let gain = self.gain(self.rule.clone(), &demand, Size::Whole)?;
        Some(Change { lever: Lever::AsksMore, class: self.class, from, to: None, gain, per_bps: None, fits: true })
    }

    fn link(&self, step: u64) -> Option<Change> {
        let from = self.tree.link().rate.bps();
        let faster = |step: u64, size: Size| {
            let mut link = self.tree.link();
            link.rate = Rate::from_bps(from.checked_add(step)?).ok()?;
            let tree = variant(self.tree, link, |_, _| ()).ok()?;
            self.gain_in(&tree, size)
        };
        let (gain, per_bps) = (faster(step, Size::Whole)?, self.slope(faster));
        let to = Some(from + step);
        Some(Change { lever: Lever::Link, class: ClassId::ROOT, from: Some(from), to, gain, per_bps, fits: true })
    }

    /// Makes a larger guarantee or weight of `at`.
    fn share(&self, at: ClassId, step: u64) -> Option<Change> {
        let from = self.tree.weight(at);
        if !matches!(self.tree.config(at).share, Some(Share::Guarantee(_))) {
            let to = from.checked_add((from / 10).max(1))?;
            let gain = self.with_weight(at, to)?;
            // A weight changes by whole units: the gain of one more.
            let per_bps = from.checked_add(1).and_then(|more| self.with_weight(at, more));
            let lever = Lever::Weight;
            return Some(Change { lever, class: at, from: Some(from), to: Some(to), gain, per_bps, fits: true });
        }
        let room = self.room(at);
        let siblings: u64 = self.siblings(at).map(|sibling| self.tree.weight(sibling)).sum();
        let to = from.checked_add(step.min(room.saturating_add(siblings / 2))).filter(|&to| to > from)?;
        let gain = self.with_guarantee(at, to, Size::Whole)?;
        // Guarantees become whole packets a round, which a bit/s more changes by a jump or not at all.
        let jumps = matches!(self.info.sharing, Sharing::LeavesByPackets(_));
        let slope = || self.slope(|more, size| self.with_guarantee(at, from.checked_add(more)?, size));
        let per_bps = if jumps { None } else { slope() };
        let (lever, fits) = (Lever::Guarantee, to - from <= room);
        Some(Change { lever, class: at, from: Some(from), to: Some(to), gain, per_bps, fits })
    }

    fn siblings(&self, at: ClassId) -> impl Iterator<Item = ClassId> + '_ {
        let parent = self.tree.parent(at).unwrap_or(ClassId::ROOT);
        self.tree.children(parent).iter().copied().filter(move |&sibling| sibling != at)
    }

    /// Returns what the class above `at` has left of its guarantee, in bit/s.
    fn room(&self, at: ClassId) -> u64 {
        let parent = self.tree.parent(at).unwrap_or(ClassId::ROOT);
        match self.tree.config(parent).share {
            Some(Share::Guarantee(has)) => has.bps().saturating_sub(self.tree.children_weight(parent)),
            _ => u64::MAX,
        }
    }

    /// Returns the gain if `at` has this guarantee.
    fn with_guarantee(&self, at: ClassId, to: u64, size: Size) -> Option<BigRational> {
        let mut guarantees: Vec<u64> =
            (0..self.tree.len()).map(|index| self.tree.weight(ClassId(index as u32))).collect();
        let lacks = (to - guarantees[at.index()]).saturating_sub(self.room(at));
        guarantees[at.index()] = to;
        if lacks > 0 {
            self.take(at, lacks, &mut guarantees)?;
        }
        let tree = variant(self.tree, self.tree.link(), |class, config| {
            if let (Some(Share::Guarantee(_)), Ok(rate)) = (config.share, Rate::from_bps(guarantees[class.index()])) {
                config.share = Some(Share::Guarantee(rate));
            }
        });
        self.gain_in(&tree.ok()?, size)
    }

    /// Takes `lacks` bit/s from the guarantees of the siblings of `at`, by class id, in proportion; from those below
    /// them the same part.
    fn take(&self, at: ClassId, lacks: u64, guarantees: &mut [u64]) -> Option<()> {
        let all: u64 = self.siblings(at).map(|sibling| self.tree.weight(sibling)).sum();
        let keep = all.checked_sub(lacks)?;
        let part = |bps: u64| (u128::from(bps) * u128::from(keep) / u128::from(all.max(1))) as u64;
        // Less than a bit/s for each sibling is lost in rounding.
        let mut lost = keep - self.siblings(at).map(|sibling| part(self.tree.weight(sibling))).sum::<u64>();
        let mut below: Vec<ClassId> = self.siblings(at).collect();
        for sibling in &below {
            guarantees[sibling.index()] = part(self.tree.weight(*sibling)) + u64::from(lost > 0);
            lost = lost.saturating_sub(1);
        }
        while let Some(class) = below.pop() {
            for &child in self.tree.children(class) {
                guarantees[child.index()] = part(self.tree.weight(child));
                below.push(child);
            }
        }
        Some(())
    }

    /// Returns the gain if `at` has this weight.
    fn with_weight(&self, at: ClassId, value: u64) -> Option<BigRational> {
        let parent = self.tree.parent(at);
        // Siblings without shares get equal ones. Beside curves a weight would be a curve of its own.
        let bare = |class: ClassId| self.tree.config(class).share.is_none();
        let curves = |class: ClassId| {
            let config = self.tree.config(class);
            config.link_share.is_some() || config.real_time.is_some()
        };
        if bare(at) && (curves(at) || self.siblings(at).any(curves)) {
            return None;
        }
        let tree = variant(self.tree, self.tree.link(), |class, config| {
            if self.tree.parent(class) == parent {
                config.share = Some(Share::Weight(if class == at { value } else { self.tree.weight(class) }));
            }
        });
        self.gain_in(&tree.ok()?, Size::Whole)
    }

    fn lift(&self, at: ClassId) -> Option<Change> {
        let limit = self.rule.limits().get(at)?;
        let tree = variant(self.tree, self.tree.link(), |class, config| {
            if class == at {
                match limit.kind {
                    LimitKind::Ceiling => config.ceiling = None,
                    LimitKind::UpperLimit => config.upper_limit = None,
                    LimitKind::Bounded => config.bounded = false,
                    LimitKind::Isolated => config.isolated = false,
                    LimitKind::RealTime => config.link_share = config.real_time,
                }
            }
        });
        let tree = tree.ok()?;
        let gain = self.gain_in(&tree, Size::Whole)?;
        let lever = Lever::Lift(limit.kind);
        Some(Change { lever, class: at, from: Some(limit.bps), to: None, gain, per_bps: None, fits: true })
    }

    fn asks_less(&self, sibling: ClassId, step: u64) -> Option<Change> {
        let gets = self.now.rate(sibling);
        let from = gets.floor().to_integer().to_u64()?;
        let with = |to: u64, size: Size| self.gain(self.rule.clone(), &self.asking(sibling, to), size);
        let to = from.saturating_sub(step);
        let slightly = from.checked_sub(self.least())?;
        // Its rate may be fractional.
        let per_bps =
            with(slightly, Size::Least).map(|gain| gain / (gets - BigRational::from_integer(slightly.into())));
        let gain = with(to, Size::Whole)?;
        Some(Change {
            lever: Lever::AsksLess,
            class: sibling,
            from: Some(from),
            to: Some(to),
            gain,
            per_bps,
            fits: true,
        })
    }

    /// Returns the demand in which the leaves below `sibling` ask together for `to` bit/s, no more than they get, each
    /// in proportion to what it gets.
    fn asking(&self, sibling: ClassId, to: u64) -> Demand {
        let leaves: Vec<ClassId> = leaves_below(self.tree, sibling).collect();
        let gets: Vec<BigRational> = leaves.iter().map(|&leaf| self.now.rate(leaf)).collect();
        let all: BigRational = gets.iter().sum();
        let part = |gets: &BigRational| (gets * BigInt::from(to) / &all).floor().to_integer().to_u64().unwrap_or(0);
        let mut asked: Vec<u64> = gets.iter().map(part).collect();
        // Less than a bit/s for each leaf is lost in rounding.
        let lost = to.saturating_sub(asked.iter().sum()) as usize;
        let some = asked.iter_mut().zip(&gets).filter(|(_, gets)| gets.is_positive());
        some.take(lost).for_each(|(asked, _)| *asked += 1);
        let mut demand = self.demand.clone();
        for (&leaf, asked) in leaves.iter().zip(asked) {
            // A leaf of this tree.
            let _ = demand.set(self.tree, leaf, Request::Rate(asked));
        }
        demand
    }
}

#[cfg(test)]
mod tests;
