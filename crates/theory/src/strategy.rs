//! Gains of a class from misreporting the demand of its leaves, or from rearranging guarantees among its own
//! descendants, found by search.
//!
//! Under hierarchical max-min fairness there is no gain (\[hls\] Sections III and VIII-B): the classes outside depend
//! only on its weight and the total request of its leaves. Requesting more does not help a class whose request is not
//! met. Under HTB the link's bandwidth is lent by the quanta of leaves, so that guarantees in the leaf that sends are
//! worth more. The search assumes neither. It tries a family of misreports or arrangements, solves each by the rule
//! exactly, and reports the best. For HTB that is a lower bound of the possible gain.
//!
//! **Misreports.** Each leaf below the class (or the class itself) requests nothing, half of its demand, its demand,
//! twice that, or an unlimited rate. All combinations are tried if there are no more than half of the budget, else
//! changes of one leaf at a time while they help. The objective is the rate of the class, at most its true demand: more
//! would not be used.
//!
//! **Arrangements.** Guarantees (or weights) move between siblings below the class, and from the unassigned part of
//! their parent. Each keeps at least 1 bit/s, and children get no more than their parent has. The search starts from
//! the current arrangement and, for each leaf, from the one that bundles everything in it. It continues while a move of
//! a sixteenth, a quarter or all of a share helps.

use fairlink_core::{BuildError, ClassId, Hierarchy, HierarchyError, Rate, Share};
use num_rational::BigRational;
use num_traits::Zero;

use crate::hmm::Allocation;
use crate::htb_fluid::HtbFluid;
use crate::request::{Demand, Request};
use crate::variant::variant;

/// Trees of more classes are not searched.
pub const MOST_CLASSES: usize = 128;
/// Maximum number of allocations that one search computes; fewer for trees of more than 30 classes.
pub const MOST_TRIES: usize = 2_000;
/// Weights that are not guarantees are counted in this fraction while they are rearranged.
const FINE: u64 = 1_000;

/// The sharing rule of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Hierarchical max-min fairness, [`Allocation`].
    Hmm,
    /// HTB's rule, [`HtbFluid`].
    Htb,
}

/// The reason why no search was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// The tree is too large.
    #[error("{classes} classes; trees of more than {MOST_CLASSES} are not searched")]
    TooLarge {
        /// The link included.
        classes: usize,
    },
    /// The class does not exist, or is the link.
    #[error("class {} does not exist or is the link; there are {classes} classes, including the link", class.0)]
    NoSuchClass {
        /// The class named.
        class: ClassId,
        /// Number of classes in the tree, the root included.
        classes: usize,
    },
    /// HTB would refuse the tree.
    #[error(transparent)]
    Refused(#[from] BuildError),
    /// A rearranged tree could not be made.
    #[error(transparent)]
    Tree(#[from] HierarchyError),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search<T> {
    /// Current rate of the class, in bit/s.
    pub truthful: BigRational,
    /// The best result, if it exceeds the current rate.
    pub better: Option<Better<T>>,
    /// Number of computed allocations.
    pub tried: usize,
}

impl<T> Search<T> {
    /// Gain over the current rate, in bit/s; zero if nothing better was found.
    #[must_use]
    pub fn gain(&self) -> BigRational {
        self.better.as_ref().map_or_else(BigRational::zero, |better| &better.rate - &self.truthful)
    }
}

/// A strategy with a gain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Better<T> {
    /// Rate of the class with it, in bit/s.
    pub rate: BigRational,
    /// Changed values: requests of leaves, or guarantees in bit/s (weights, in thousandths of the configured ones).
    pub with: Vec<(ClassId, T)>,
}

impl Rule {
    /// Returns the rate of `class` by this rule, in bit/s.
    ///
    /// # Errors
    /// [`BuildError`] if HTB would refuse the tree.
    ///
    /// # Panics
    /// When there is no such class, or `demand` was made for a tree of another size.
    pub fn rate(self, tree: &Hierarchy, demand: &Demand, class: ClassId) -> Result<BigRational, BuildError> {
        match self {
            Self::Hmm => Ok(Allocation::solve(tree, demand).rate(class)),
            Self::Htb => Ok(HtbFluid::solve(tree, demand)?.rate(class).clone()),
        }
    }

    /// Searches for the best misreport of demand by `class`, [see above](self).
    ///
    /// # Errors
    /// [`StrategyError`].
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn misreports(
        self,
        tree: &Hierarchy,
        demand: &Demand,
        class: ClassId,
    ) -> Result<Search<Request>, StrategyError> {
        misreports(tree, demand, class, |tree, demand| self.rate(tree, demand, class))
    }

    /// Searches for the best arrangement of guarantees below `class`, [see above](self).
    ///
    /// # Errors
    /// [`StrategyError`].
    ///
    /// # Panics
    /// When `demand` was made for a tree of another size.
    pub fn rearrangements(
        self,
        tree: &Hierarchy,
        demand: &Demand,
        class: ClassId,
    ) -> Result<Search<u64>, StrategyError> {
        rearrangements(tree, class, |tree| self.rate(tree, demand, class))
    }
}

/// Like [`Rule::misreports`], for any rule that returns the class's rate.
///
/// # Errors
/// [`StrategyError`], and errors of the rule.
pub fn misreports<E: Into<StrategyError>>(
    tree: &Hierarchy,
    demand: &Demand,
    class: ClassId,
    rule: impl Fn(&Hierarchy, &Demand) -> Result<BigRational, E>,
) -> Result<Search<Request>, StrategyError> {
    let budget = budget(tree, class)?;
    let leaves: Vec<ClassId> = tree.leaves().iter().copied().filter(|&leaf| is_below(tree, leaf, class)).collect();
    let truth: Vec<Request> = leaves.iter().map(|&leaf| demand.get(leaf).unwrap_or(Request::Rate(0))).collect();
    let wanted = Allocation::solve(tree, demand).class(class).request;
    let rate = |requests: &[Request]| -> Result<BigRational, StrategyError> {
        let mut lie = demand.clone();
        for (&leaf, &request) in leaves.iter().zip(requests) {
            // Leaves of the tree at hand.
            let _ = lie.set(tree, leaf, request);
        }
        let rate = rule(tree, &lie).map_err(Into::into)?;
        Ok(wanted.map_or_else(|| rate.clone(), |wanted| rate.clone().min(BigRational::from_integer(wanted.into()))))
    };
    let choices: Vec<Vec<Request>> = truth.iter().map(|&request| lies(request, tree)).collect();
    let all = choices.iter().try_fold(1usize, |all, choices| all.checked_mul(choices.len()));
    let mut best = Best::new(truth.clone(), rate(&truth)?, budget);
    match all.filter(|&all| all <= budget / 2) {
        Some(all) => {
            for number in 0..all {
                let mut left = number;
                let pick = |choices: &Vec<Request>| {
                    let choice = choices[left % choices.len()];
                    left /= choices.len();
                    choice
                };
                let requests: Vec<Request> = choices.iter().map(pick).collect();
                best.offer(rate(&requests)?, requests);
            }
        }
        None => best.climb(&rate, |at| {
            let changed = |(leaf, choices): (usize, &Vec<Request>)| {
                let change = move |&request: &Request| (leaf, request);
                choices.iter().map(change).collect::<Vec<_>>()
            };
            let changes = choices.iter().enumerate().flat_map(changed);
            changes
                .map(|(leaf, request)| {
                    let mut lie = at.to_vec();
                    lie[leaf] = request;
                    lie
                })
                .collect()
        })?,
    }
    Ok(best.found(|requests| {
        let changed = leaves.iter().zip(requests).zip(&truth).filter(|((_, told), truth)| told != truth);
        changed.map(|((&leaf, &told), _)| (leaf, told)).collect()
    }))
}

/// Like [`Rule::rearrangements`], for any rule that returns the class's rate.
///
/// # Errors
/// [`StrategyError`], and errors of the rule.
pub fn rearrangements<E: Into<StrategyError>>(
    tree: &Hierarchy,
    class: ClassId,
    rule: impl Fn(&Hierarchy) -> Result<BigRational, E>,
) -> Result<Search<u64>, StrategyError> {
    let budget = budget(tree, class)?;
    let shares = Shares::below(tree, class);
    let rate = |parts: &[u64]| -> Result<BigRational, StrategyError> { rule(&shares.tree(parts)?).map_err(Into::into) };
    let as_is = shares.as_is.clone();
    let mut best = Best::new(as_is.clone(), rate(&as_is)?, budget);
    let leaves = tree.leaves().iter().copied().filter(|&leaf| leaf != class && is_below(tree, leaf, class));
    let mut starts: Vec<Vec<u64>> = leaves.map(|leaf| shares.bundled(leaf)).collect();
    starts.insert(0, as_is.clone());
    for start in starts {
        let from = rate(&start)?;
        let mut climb = Best { value: start, rate: from, ..best.empty() };
        climb.climb(&rate, |at| shares.moves(at))?;
        best.tried += climb.tried;
        best.offer(climb.rate, climb.value);
    }
    Ok(best.found(|parts| {
        let changed = tree.classes().filter(|class| parts[class.index()] != as_is[class.index()]);
        changed.map(|class| (class, parts[class.index()])).collect()
    }))
}

/// Returns the possible reports of a leaf, including its true demand.
fn lies(truth: Request, tree: &Hierarchy) -> Vec<Request> {
    let link = tree.link().rate.bps();
    let mut lies = vec![truth, Request::Rate(0), Request::Unlimited];
    let wanted = match truth {
        Request::Rate(rate) => rate,
        Request::Unlimited => link / 4,
    };
    lies.extend([Request::Rate(wanted / 2), Request::Rate(wanted.saturating_mul(2))]);
    let mut unique: Vec<Request> = Vec::with_capacity(lies.len());
    lies.into_iter().for_each(|lie| {
        if !unique.contains(&lie) {
            unique.push(lie);
        }
    });
    unique
}

/// Returns the number of allocations that may be computed.
fn budget(tree: &Hierarchy, class: ClassId) -> Result<usize, StrategyError> {
    let classes = tree.len();
    if class == ClassId::ROOT || class.index() >= classes {
        return Err(StrategyError::NoSuchClass { class, classes });
    }
    if classes > MOST_CLASSES {
        return Err(StrategyError::TooLarge { classes });
    }
    Ok((MOST_TRIES * 900 / (classes * classes)).min(MOST_TRIES))
}

/// Returns true if `at` is `class` or below it.
fn is_below(tree: &Hierarchy, at: ClassId, class: ClassId) -> bool {
    std::iter::successors(Some(at), |&at| tree.parent(at)).any(|at| at == class)
}

/// The best result so far, with the data needed to beat it.
struct Best<T> {
    first: BigRational,
    rate: BigRational,
    value: T,
    tried: usize,
    budget: usize,
}

impl<T: Clone> Best<Vec<T>> {
    fn new(value: Vec<T>, rate: BigRational, budget: usize) -> Self {
        Self { first: rate.clone(), rate, value, tried: 1, budget }
    }

    /// A copy with no tries and the rest of the budget.
    fn empty(&self) -> Self {
        let (first, rate, value) = (self.first.clone(), self.rate.clone(), self.value.clone());
        Self { first, rate, value, tried: 0, budget: self.budget.saturating_sub(self.tried) }
    }

    fn offer(&mut self, rate: BigRational, value: Vec<T>) -> bool {
        self.tried += 1;
        let is_better = rate > self.rate;
        if is_better {
            (self.rate, self.value) = (rate, value);
        }
        is_better
    }

    /// Takes the best of the neighbours while that is better.
    fn climb(
        &mut self,
        rate: &impl Fn(&[T]) -> Result<BigRational, StrategyError>,
        neighbours: impl Fn(&[T]) -> Vec<Vec<T>>,
    ) -> Result<(), StrategyError> {
        loop {
            let mut improved = false;
            for neighbour in neighbours(&self.value.clone()) {
                if self.tried >= self.budget {
                    return Ok(());
                }
                improved |= self.offer(rate(&neighbour)?, neighbour);
            }
            if !improved {
                return Ok(());
            }
        }
    }

    fn found<C>(self, changes: impl Fn(&[T]) -> Vec<(ClassId, C)>) -> Search<C> {
        let better = (self.rate > self.first).then(|| Better { with: changes(&self.value), rate: self.rate });
        Search { truthful: self.first, better, tried: self.tried }
    }
}

/// The shares below a class, which it may rearrange.
struct Shares<'a> {
    tree: &'a Hierarchy,
    /// The classes whose children's shares may change, parents before children.
    parents: Vec<ClassId>,
    /// By class id: guarantees in bit/s; weights in units of 1 / [`FINE`] below the class, and as written elsewhere.
    as_is: Vec<u64>,
    /// By class id, its minimum: 1, or the sum of its children's minimums.
    least: Vec<u64>,
}

impl<'a> Shares<'a> {
    fn below(tree: &'a Hierarchy, class: ClassId) -> Self {
        let parents: Vec<ClassId> =
            tree.classes().filter(|&at| !tree.is_leaf(at) && is_below(tree, at, class)).collect();
        let mut as_is: Vec<u64> = (0..tree.len()).map(|index| tree.weight(ClassId(index as u32))).collect();
        for &parent in &parents {
            for &child in tree.children(parent) {
                if !has_guarantee(tree, child) {
                    as_is[child.index()] = as_is[child.index()].saturating_mul(FINE).min(10u64.pow(12));
                }
            }
        }
        let mut least = vec![1u64; tree.len()];
        for &parent in parents.iter().rev() {
            let needed: u64 = tree.children(parent).iter().map(|child| least[child.index()]).sum();
            if has_guarantee(tree, parent) {
                least[parent.index()] = needed;
            }
        }
        Self { tree, parents, as_is, least }
    }

    /// Limit on the sum of the children of `parent`: its guarantee if it has one, else their current sum.
    fn whole(&self, parts: &[u64], parent: ClassId) -> u64 {
        let children = self.tree.children(parent);
        let together = children.iter().map(|child| self.as_is[child.index()]).fold(0u64, u64::saturating_add);
        let guaranteed =
            has_guarantee(self.tree, parent) && children.iter().all(|&child| has_guarantee(self.tree, child));
        if guaranteed { parts[parent.index()] } else { together }
    }

    /// Moves all shares into the classes on the path to `leaf`.
    fn bundled(&self, leaf: ClassId) -> Vec<u64> {
        let mut parts = self.as_is.clone();
        for &parent in &self.parents {
            let children = self.tree.children(parent);
            if let Some(&heir) = children.iter().find(|&&child| is_below(self.tree, leaf, child)) {
                let whole = self.whole(&parts, parent);
                children.iter().for_each(|child| parts[child.index()] = self.least[child.index()]);
                let others: u64 =
                    children.iter().filter(|&&child| child != heir).map(|at| self.least[at.index()]).sum();
                parts[heir.index()] = whole.saturating_sub(others).max(self.least[heir.index()]);
            }
        }
        self.fitted(parts)
    }

    /// Returns every move of a part of a share to a sibling, or of the unassigned rest to a child.
    fn moves(&self, at: &[u64]) -> Vec<Vec<u64>> {
        let mut moves = Vec::new();
        for &parent in &self.parents {
            let children = self.tree.children(parent);
            let given: u64 = children.iter().map(|child| at[child.index()]).fold(0, u64::saturating_add);
            let spare = self.whole(at, parent).saturating_sub(given);
            for &to in children {
                if spare > 0 {
                    let mut parts = at.to_vec();
                    parts[to.index()] += spare;
                    moves.push(parts);
                }
                for &from in children.iter().filter(|&&from| from != to) {
                    let most = at[from.index()].saturating_sub(self.least[from.index()]);
                    for amount in [most / 16, most / 4, most].into_iter().filter(|&amount| amount > 0) {
                        let mut parts = at.to_vec();
                        parts[from.index()] -= amount;
                        parts[to.index()] += amount;
                        moves.push(self.fitted(parts));
                    }
                }
            }
        }
        moves
    }

    /// Scales down the children that have more than their parent.
    fn fitted(&self, mut parts: Vec<u64>) -> Vec<u64> {
        for &parent in &self.parents {
            let children = self.tree.children(parent);
            let sum = |of: &[u64]| children.iter().map(|child| u128::from(of[child.index()])).sum::<u128>();
            let (whole, given, least) = (u128::from(self.whole(&parts, parent)), sum(&parts), sum(&self.least));
            if given > whole && given > least {
                // Each keeps its minimum, and the excess is scaled down; rounded down, so that it fits.
                let room = whole.saturating_sub(least);
                for child in children {
                    let least_of = self.least[child.index()];
                    let more = u128::from(parts[child.index()].saturating_sub(least_of));
                    parts[child.index()] = least_of + (more * room / (given - least)) as u64;
                }
            }
        }
        parts
    }

    /// Makes the tree with these shares.
    fn tree(&self, parts: &[u64]) -> Result<Hierarchy, HierarchyError> {
        variant(self.tree, self.tree.link(), |class, config| {
            if self.tree.parent(class).is_some_and(|parent| self.parents.contains(&parent)) {
                let part = parts[class.index()];
                config.share = Some(match Rate::from_bps(part) {
                    Ok(rate) if has_guarantee(self.tree, class) => Share::Guarantee(rate),
                    _ => Share::Weight(part),
                });
            }
        })
    }
}

fn has_guarantee(tree: &Hierarchy, class: ClassId) -> bool {
    matches!(tree.config(class).share, Some(Share::Guarantee(_)))
}

#[cfg(test)]
mod tests;
