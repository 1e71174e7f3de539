//! Changes that would increase a class's rate: single changes, each solved by the rule of the scheduler
//! ([`crate::ideal`]), with their gains.
//!
//! Under hierarchical max-min fairness a class's rate depends on three things: the rate of the link; the weights,
//! limits and demand of the class and of those above it; and the weights and requests of their siblings. So these are
//! the changes that are tried. Changes among a sibling's descendants have no effect unless they change the sibling's
//! request.
//!
//! A gain is the rate after the change minus the current rate. The gain per bit/s is that of the smallest change, 1
//! bit/s: gains are linear until a class becomes satisfied or ceases to be. If rates are not exact, it is that of a
//! change of a millionth of the link's rate, and gains of less than 10^-8 of it count as none.
//!
//! Cost: two allocations for each change.

use fairlink_core::{ClassId, Hierarchy, HierarchyError, Rate, SchedulerInfo, Share, Sharing};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::explain::UnknownClass;
use crate::ideal::{Ideal, NotComputed, Rule, Traffic};
use crate::limits::{LimitKind, Limits};
use crate::request::{Demand, Request};
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
    /// True if the file would still be sound: a guarantee may be more than the one above it has left. Then siblings have to give up as
    /// much.
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
        let rule = Rule::for_scheduler(info, tree, Traffic::unknown())?.by_formula_only();
        let now = rule.solve(demand)?;
        let search = Search { info, tree, demand, class, limits: rule.limits(), rate: now.rate(class), now, rule };
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
        let most = (WORK / tree.len()).clamp(2, MOST_SIBLINGS);
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
    limits: Limits,
    now: Ideal,
    /// Current rate of the class.
    rate: BigRational,
}

impl Search<'_> {
    /// Returns the path from the class up to the child of the link.
    fn path(&self) -> Vec<ClassId> {
        let up = std::iter::successors(Some(self.class), |&class| self.tree.parent(class));
        up.filter(|&class| class != ClassId::ROOT).collect()
    }

    /// Returns the gain of the class by `rule` for `demand`; `None` if it is unknown.
    fn gain(&self, rule: &Rule<'_>, demand: &Demand) -> Option<BigRational> {
        let gain = rule.solve(demand).ok()?.rate(self.class) - &self.rate;
        let noise = BigRational::new(self.tree.link().rate.bps().into(), 100_000_000.into());
        Some(if !self.now.is_exact() && gain.abs() < noise { BigRational::zero() } else { gain })
    }

    /// The gain in another tree.
    fn gain_in(&self, tree: &Hierarchy, limits: Option<Limits>) -> Option<BigRational> {
        let rule = Rule::for_scheduler(self.info, tree, Traffic::unknown()).ok()?.by_formula_only();
        let rule = match limits {
            Some(limits) => rule.within(limits),
            None => rule,
        };
        self.gain(&rule, self.demand)
    }

    /// Smallest change with a measurable gain, in bit/s.
    fn least(&self) -> u64 {
        if self.now.is_exact() { 1 } else { (self.tree.link().rate.bps() / 1_000_000).max(1) }
    }

    /// Returns the gain for each bit/s of the smallest change.
    fn slope(&self, gain: impl Fn(u64) -> Option<BigRational>) -> Option<BigRational> {
        let least = self.least();
        Some(gain(least)? / BigInt::from(least))
    }

    fn asks_more(&self) -> Option<Change> {
        let mut demand = self.demand.clone();
        let below = |leaf: ClassId| {
            std::iter::successors(Some(leaf), |&class| self.tree.parent(class)).any(|class| class == self.class)
        };
        for &leaf in self.tree.leaves().iter().filter(|&&leaf| below(leaf)) {
            // A leaf of this tree.
            let _ = demand.set(self.tree, leaf, Request::Unlimited);
        }
        let from = match self.demand.get(self.class) {
            Some(Request::Rate(rate)) => Some(rate),
            _ => None,
        };
        let gain = self.gain(&self.rule, &demand)?;
        Some(Change { lever: Lever::AsksMore, class: self.class, from, to: None, gain, per_bps: None, fits: true })
    }

    fn link(&self, step: u64) -> Option<Change> {
        let from = self.tree.link().rate.bps();
        let faster = |step: u64| {
            let mut link = self.tree.link();
            link.rate = Rate::from_bps(from.checked_add(step)?).ok()?;
            let tree = variant(self.tree, link, |_, _| ()).ok()?;
            self.gain_in(&tree, None)
        };
        let (gain, per_bps) = (faster(step)?, self.slope(faster));
        let to = Some(from + step);
        Some(Change { lever: Lever::Link, class: ClassId::ROOT, from: Some(from), to, gain, per_bps, fits: true })
    }

    /// Makes a larger guarantee or weight of `at`.
    fn share(&self, at: ClassId, step: u64) -> Option<Change> {
        let from = self.tree.weight(at);
        let is_guarantee = matches!(self.tree.config(at).share, Some(Share::Guarantee(_)));
        let step = if is_guarantee { step } else { (from / 10).max(1) };
        let to = from.checked_add(step)?;
        let (gain, fits) = self.with_share(at, to)?;
        // Guarantees become whole packets a round, which a bit/s more changes by a jump or not at all.
        let jumps = matches!(self.info.sharing, Sharing::LeavesByPackets(_));
        let (lever, per_bps) = match is_guarantee {
            true if jumps => (Lever::Guarantee, None),
            true => (Lever::Guarantee, self.slope(|more| Some(self.with_share(at, from + more)?.0))),
            // A weight changes by whole units: the gain of one more.
            false => (Lever::Weight, self.with_share(at, from.checked_add(1)?).map(|(gain, _)| gain)),
        };
        Some(Change { lever, class: at, from: Some(from), to: Some(to), gain, per_bps, fits })
    }

    /// Returns the gain if `at` has this guarantee or weight, and true if there is room for it.
    fn with_share(&self, at: ClassId, value: u64) -> Option<(BigRational, bool)> {
        let guarantee =
            Rate::from_bps(value).ok().filter(|_| matches!(self.tree.config(at).share, Some(Share::Guarantee(_))));
        if let Some(rate) = guarantee {
            let with = variant(self.tree, self.tree.link(), |class, config| {
                if class == at {
                    config.share = Some(Share::Guarantee(rate));
                }
            });
            match with {
                Ok(tree) => return Some((self.gain_in(&tree, None)?, true)),
                Err(HierarchyError::GuaranteesExceedParent { .. }) => {}
                Err(_) => return None,
            }
        }
        // As weights, with any sum. Unborrowed rates follow from guarantees, so that limits stay.
        let parent = self.tree.parent(at);
        let tree = variant(self.tree, self.tree.link(), |class, config| {
            if self.tree.parent(class) == parent {
                config.share = Some(Share::Weight(if class == at { value } else { self.tree.weight(class) }));
            }
        });
        Some((self.gain_in(&tree.ok()?, Some(self.limits.clone()))?, guarantee.is_none()))
    }

    fn lift(&self, at: ClassId) -> Option<Change> {
        let limit = self.limits.get(at)?;
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
        let gain = self.gain_in(&tree, None)?;
        let lever = Lever::Lift(limit.kind);
        Some(Change { lever, class: at, from: Some(limit.bps), to: None, gain, per_bps: None, fits: true })
    }

    fn asks_less(&self, sibling: ClassId, step: u64) -> Option<Change> {
        let gets = self.now.rate(sibling);
        let from = gets.floor().to_integer().to_u64()?;
        let with = |to: u64| self.gain(&self.rule.lowered(sibling, to)?, self.demand);
        let to = from.saturating_sub(step);
        let slightly = from.checked_sub(self.least())?;
        // Its rate may be fractional.
        let per_bps = with(slightly).map(|gain| gain / (gets - BigRational::from_integer(slightly.into())));
        let gain = with(to)?;
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
}

#[cfg(test)]
mod tests;
