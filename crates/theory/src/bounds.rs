//! Deviation of HLS and HDRR from the fluid ideal: \[hls\] Theorems 3, 4, 5 and 6, exact.
//!
//! | paper | here |
//! | --- | --- |
//! | w_i | [`Weights`] |
//! | L_i^max | `max_packet` |
//! | A~_i, before Lemma 6 | [`HlsBounds::aggregate_at_round_start`] |
//! | A-bar_i, equation (23) | [`HlsBounds::aggregate`] |
//! | alpha_ij, alpha (Theorem 3) | [`HlsBounds::alpha_between`], [`HlsBounds::alpha`] |
//! | gamma (Theorem 5) | [`HlsBounds::transmission_gap`] |
//! | alpha, beta_i, gamma of HDRR (Theorem 4, Lemma 9, Theorem 6) | [`HdrrBounds`] |
//!
//! alpha is in bytes of service per byte of weight, which the paper calls bytes; it depends on the unit of weights. In
//! seconds at the guarantee it does not: alpha * 8 w_i / g_i, the same for all siblings i, where g_i is the rate of the
//! class when all are busy. Both are given.
//!
//! DIFFERENCE: one *credit* is indivisible. In the paper it is one byte, so that a leaf's balance at the end of a round
//! is at most L^max - 1 byte; a scheduler that counts in fractions of a byte has L^max - one fraction.
//! [`HlsBounds::new`] takes the number of credits in a byte; 1 gives the paper's figures.
//!
//! Cost: O(n) operations, not one per pair of siblings: the worst pair below a parent are the two classes with the largest
//! A-bar / w.

use fairlink_core::{ClassId, Hierarchy, Rate};
use num_bigint::BigInt;
use num_rational::BigRational;

use crate::to_f64;
use crate::weights::Weights;

/// The reason for which bounds could not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// A leaf whose largest packet has no bytes.
    #[error("the largest packet of class {} has 0 bytes; the smallest is 1", class.0)]
    EmptyPacket {
        /// The leaf.
        class: ClassId,
    },
    /// A byte of zero credits.
    #[error("a byte of 0 credits; the smallest number is 1")]
    NoCredits,
    /// A quantum of zero.
    #[error("a quantum of 0 bytes; the smallest is 1")]
    NoQuantum,
}

/// Two siblings and a bound (or a measurement) that holds for them and that no other pair exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstPair {
    /// The two siblings.
    pub classes: (ClassId, ClassId),
    /// The value; its unit is documented at the function that returns it.
    pub value: BigRational,
}

/// Maximum deviation of a class from its part of a sibling's service, while both stay backlogged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassFairness {
    /// Deviation in bytes of the class.
    pub bytes: f64,
    /// The same at the rate that it has when all are busy.
    pub seconds: f64,
}

/// The bounds of HLS for one tree; Q* as in Theorem 2.
#[derive(Clone, Debug)]
pub struct HlsBounds<'a> {
    tree: &'a Hierarchy,
    weights: &'a Weights,
    credits_per_byte: u64,
    below: Below,
    /// By class: the ancestor (or the class itself) that is a child of the root, rc(i).
    top: Vec<ClassId>,
    /// By class: the sum of the advances of its latency-critical leaves, in bytes.
    ahead: Vec<u64>,
    /// The largest (w_j + A~_j) / w_j among the children of the root: the largest fair quota of the root.
    largest_quota: BigRational,
}

/// Sums over the subtree of each class, by class id.
#[derive(Clone, Debug)]
struct Below {
    /// Weights of the descendants, in units of [`Weights`]; the class's own is not in it.
    weights: Vec<u128>,
    /// Largest packets of the leaves, in bytes.
    packets: Vec<u64>,
}

impl Below {
    fn for_tree(tree: &Hierarchy, weights: &Weights, max_packet: impl Fn(ClassId) -> u32) -> Result<Self, BoundsError> {
        weights.assert_for(tree);
        let mut below = Self { weights: vec![0; tree.len()], packets: vec![0; tree.len()] };
        for class in tree.classes().rev() {
            let index = class.index();
            if tree.is_leaf(class) {
                below.packets[index] = u64::from(max_packet(class));
                if below.packets[index] == 0 {
                    return Err(BoundsError::EmptyPacket { class });
                }
            }
            if let Some(parent) = tree.parent(class) {
                below.weights[parent.index()] += below.weights[index] + u128::from(weights.units(class));
                below.packets[parent.index()] += below.packets[index];
            }
        }
        Ok(below)
    }

    fn packets(&self, class: ClassId) -> BigRational {
        whole(self.packets[class.index()])
    }
}

impl<'a> HlsBounds<'a> {
    /// Makes the bounds for leaves with largest packets of `max_packet` bytes, and `credits_per_byte` credits in a
    /// byte.
    ///
    /// # Errors
    /// [`BoundsError::EmptyPacket`], [`BoundsError::NoCredits`].
    ///
    /// # Panics
    /// When `weights` were made for a tree of another size.
    pub fn new(
        tree: &'a Hierarchy,
        weights: &'a Weights,
        credits_per_byte: u64,
        max_packet: impl Fn(ClassId) -> u32,
    ) -> Result<Self, BoundsError> {
        if credits_per_byte == 0 {
            return Err(BoundsError::NoCredits);
        }
        let below = Below::for_tree(tree, weights, max_packet)?;
        let mut top = vec![ClassId::ROOT; tree.len()];
        for class in tree.classes() {
            top[class.index()] = match tree.parent(class) {
                Some(parent) if parent != ClassId::ROOT => top[parent.index()],
                _ => class,
            };
        }
        let ahead = vec![0; tree.len()];
        let mut bounds =
            Self { tree, weights, credits_per_byte, below, top, ahead, largest_quota: BigRational::default() };
        let starts = tree.children(ClassId::ROOT).iter().map(|&class| bounds.start_per_weight(class));
        let largest = starts.max().unwrap_or_default();
        bounds.largest_quota = whole(1u8) + BigRational::new(largest.numer().clone(), largest.denom().clone());
        Ok(bounds)
    }

    /// Extends the bounds to leaves that may send ahead of their turn, by `advance` bytes each. Theorem 3 grows by the
    /// advances of the leaves below both siblings, over their weights, and Theorem 5 by those of all leaves. Not in
    /// \[hls\]; see `fairlink_core::schedulers::hls::Advances`.
    #[must_use]
    pub fn with_advances(mut self, advance: impl Fn(ClassId) -> u64) -> Self {
        self.ahead = vec![0; self.tree.len()];
        for &leaf in self.tree.leaves() {
            self.ahead[leaf.index()] = advance(leaf);
        }
        for class in self.tree.classes().rev() {
            let parent = self.tree.parent(class).unwrap_or(ClassId::ROOT);
            self.ahead[parent.index()] += self.ahead[class.index()];
        }
        self
    }

    /// A~_i in bytes: the maximum sum of balances and residuals in the subtree of a class (not the root) when a main
    /// round starts, before its quotas (Lemma 5).
    ///
    /// # Panics
    /// For the root, which has no such bound, and for a class that does not exist.
    #[must_use]
    pub fn aggregate_at_round_start(&self, class: ClassId) -> BigRational {
        self.start_per_weight(class) * self.weights.bytes(class)
    }

    /// Returns A-bar_i in bytes. It is the same at any time (Lemma 7): that of the child of the root above the class.
    ///
    /// # Panics
    /// For the root, which has no such bound, and for a class that does not exist.
    #[must_use]
    pub fn aggregate(&self, class: ClassId) -> BigRational {
        let top = self.top[class.index()];
        (self.start_per_weight(top) + &self.largest_quota) * self.weights.bytes(top)
    }

    /// Returns the bound of Theorem 3 for two siblings, in bytes per byte of weight; `None` for classes that are not
    /// siblings.
    #[must_use]
    pub fn alpha_between(&self, i: ClassId, j: ClassId) -> Option<BigRational> {
        let siblings = i != j && self.tree.parent(i).is_some() && self.tree.parent(i) == self.tree.parent(j);
        siblings.then(|| self.half(i) + self.half(j))
    }

    /// Returns the largest bound of Theorem 3 over all siblings, in bytes per byte of weight; `None` if no class has a
    /// sibling.
    #[must_use]
    pub fn alpha(&self) -> Option<WorstPair> {
        worst(inner(self.tree).filter_map(|parent| self.worst_below(parent)))
    }

    /// Returns Theorem 3 as time at the guarantee, in seconds, on a link of rate `link`. It is the largest of any two
    /// siblings, which may differ from those of [`HlsBounds::alpha`].
    #[must_use]
    pub fn fairness_seconds(&self, link: Rate) -> Option<WorstPair> {
        let seconds = self.weights.seconds_per_weight(self.tree, link);
        worst(inner(self.tree).filter_map(|parent| {
            let WorstPair { classes, value } = self.worst_below(parent)?;
            Some(WorstPair { classes, value: value * &seconds[parent.index()] })
        }))
    }

    /// Returns the maximum deviation of each class from its part of any sibling's service while both stay backlogged,
    /// by class id: bytes, and seconds at its rate when all are busy, on a link of rate `link`. It is the class's
    /// largest bound of Theorem 3 times its weight, in floating point, as there may be a million classes. `None` for a
    /// class without siblings.
    #[must_use]
    pub fn fairness_of_classes(&self, link: Rate) -> Vec<Option<ClassFairness>> {
        let units_per_byte = self.weights.units_per_byte() as f64;
        let credit = 1.0 / self.credits_per_byte as f64;
        let quota = to_f64(&self.largest_quota);
        let below = |class: ClassId| {
            let own =
                self.below.packets[class.index()] as f64 + self.below.weights[class.index()] as f64 / units_per_byte;
            if self.tree.is_leaf(class) { own - credit } else { own }
        };
        let weight = |class: ClassId| self.weights.units(class) as f64 / units_per_byte;
        let half = |class: ClassId| {
            let top = self.top[class.index()];
            (below(top) + quota * weight(top) + self.ahead[class.index()] as f64) / weight(class)
        };
        let rates = self.weights.seconds_per_weight_in_floats(self.tree, link);
        let mut fairness = vec![None; self.tree.len()];
        for parent in inner(self.tree) {
            let halves: Vec<(ClassId, f64)> =
                self.tree.children(parent).iter().map(|&child| (child, half(child))).collect();
            let most = |without: Option<ClassId>| {
                let others = halves.iter().filter(|(class, _)| Some(*class) != without);
                others.copied().reduce(|most, other| if other.1 > most.1 { other } else { most })
            };
            let Some((largest, value)) = most(None) else { continue };
            let Some((_, second)) = most(Some(largest)) else { continue };
            for &(class, half) in &halves {
                let apart = half + if class == largest { second } else { value };
                let bytes = apart * weight(class);
                fairness[class.index()] = Some(ClassFairness { bytes, seconds: apart * rates[parent.index()] });
            }
        }
        fairness
    }

    /// Theorem 5 in seconds: the longest time from the end of a visit to a leaf that stays backlogged to the next one;
    /// two rounds. Valid for leaves without a ceiling at them or above them; ceilings of others do not matter.
    #[must_use]
    pub fn transmission_gap(&self, link: Rate) -> BigRational {
        self.longest_round(link) * BigInt::from(2) + seconds(whole(self.ahead[0]), link)
    }

    /// The same by class id, in seconds, for leaves with ceilings at them or above them; `None` for all others. Such a
    /// leaf waits for each of its ceilings once, from the nearest to the farthest. It waits until the debt is paid that
    /// the class may incur in one cycle of rounds, and then for its turn. Not in \[hls\]. In floating point, as there
    /// may be a million classes.
    #[must_use]
    pub fn transmission_gaps_below_ceilings(&self, link: Rate) -> Vec<Option<f64>> {
        let turn = to_f64(&self.transmission_gap(link));
        let mut waits = vec![None; self.tree.len()];
        for class in self.tree.classes() {
            let above = self.tree.parent(class).and_then(|parent| waits[parent.index()]);
            let own = self.tree.config(class).ceiling.map(|ceiling| {
                let debt = to_f64(&self.aggregate(class)) + self.ahead[class.index()] as f64;
                turn + debt * 8.0 / ceiling.bps() as f64
            });
            waits[class.index()] = match (above, own) {
                (None, None) => None,
                (above, own) => Some(above.unwrap_or(turn) + own.unwrap_or(0.0)),
            };
        }
        for class in self.tree.classes().filter(|&class| !self.tree.is_leaf(class)) {
            waits[class.index()] = None;
        }
        waits
    }

    /// Returns the longest time in seconds from any instant at which a leaf is backlogged until its next packet has
    /// left, by class id, on a link of rate `link`; `None` for inner classes and for leaves with a ceiling at them or
    /// above them. Not in \[hls\]: the proof is in `docs/hls.md`. A leaf of the share s needs a largest packet of
    /// credit, for that packet or for one that it owes, and gets s of what is spent, less 2 Q and what the classes above
    /// it may keep. It holds amid a backlog, and for latency-critical leaves that send more than their contracts. In
    /// floating point, as there may be a million classes.
    #[must_use]
    pub fn next_packets(&self, link: Rate) -> Vec<Option<f64>> {
        let in_bytes = |units: u128| units as f64 / self.weights.units_per_byte() as f64;
        let leaves = self.tree.leaves().iter();
        let largest = leaves.map(|&leaf| self.below.packets[leaf.index()]).max().unwrap_or(0) as f64;
        let round = in_bytes(self.below.weights[0]) + self.below.packets[0] as f64;
        let late = 2.0 * round + 2.0 * largest + self.ahead[0] as f64;
        // By class: its share of the link, and the sum of W_a / s_a from it up, without the link.
        let mut paths = vec![None; self.tree.len()];
        let mut next = vec![None; self.tree.len()];
        paths[0] = Some((1.0, 0.0));
        for class in inner(self.tree) {
            let Some((share, kept)) = paths[class.index()] else { continue };
            let all = in_bytes(self.weights.of_children(self.tree, class));
            let kept = if class == ClassId::ROOT { kept } else { kept + all / share };
            for &child in self.tree.children(class) {
                if self.tree.config(child).ceiling.is_some() {
                    continue;
                }
                let share = share * in_bytes(self.weights.units(child).into()) / all;
                paths[child.index()] = Some((share, kept));
                if self.tree.is_leaf(child) {
                    let own = self.below.packets[child.index()] as f64 / share;
                    let bytes = own + kept + late - self.ahead[child.index()] as f64;
                    next[child.index()] = Some(bytes * 8.0 / link.bps() as f64);
                }
            }
        }
        next
    }

    /// Returns the longest round in seconds, equation (25): (sum of weights + sum of largest packets) / C. Table II of
    /// \[hls\] prints this as the transmission gap.
    #[must_use]
    pub fn longest_round(&self, link: Rate) -> BigRational {
        let weights = self.weights.in_bytes(self.below.weights[0]);
        seconds(weights + self.below.packets(ClassId::ROOT), link)
    }

    /// Returns A~_i / w_i. It is not reduced, because most values are only compared.
    fn start_per_weight(&self, class: ClassId) -> BigRational {
        assert_ne!(class, ClassId::ROOT, "the root has no weight");
        let credits = BigInt::from(self.credits_per_byte);
        let units = BigInt::from(self.weights.units_per_byte());
        let index = class.index();
        // Over `credits * units` bytes; a leaf has one credit less than its largest packet.
        let bytes = (self.below.packets[index] * &units + self.below.weights[index]) * &credits;
        let start = if self.tree.is_leaf(class) { bytes - units } else { bytes };
        BigRational::new_raw(start, self.weights.units(class) * credits)
    }

    /// The term of a class in the bound of Theorem 3 with each of its siblings.
    fn half(&self, class: ClassId) -> BigRational {
        (self.aggregate(class) + whole(self.ahead[class.index()])) / self.weights.bytes(class)
    }

    /// The part of [`HlsBounds::half`] that differs among children of the root; not reduced.
    fn start_and_ahead(&self, class: ClassId) -> BigRational {
        let start = self.start_per_weight(class);
        if self.ahead[class.index()] == 0 {
            return start;
        }
        start + whole(self.ahead[class.index()]) / self.weights.bytes(class)
    }

    fn worst_below(&self, parent: ClassId) -> Option<WorstPair> {
        let children = self.tree.children(parent);
        // The largest quota of the root is in A-bar / w of all its children, so A~ / w determines the worst. Below one
        // child of the root A-bar is the same, so the smallest weights are, unless leaves may be ahead of their turn.
        let (i, j) = if parent == ClassId::ROOT {
            two_largest(children.iter().map(|&child| (child, self.start_and_ahead(child))))?
        } else if self.ahead[parent.index()] > 0 {
            two_largest(children.iter().map(|&child| (child, self.half(child))))?
        } else {
            two_lightest(self.weights, children)?
        };
        Some(WorstPair { classes: (i, j), value: self.half(i) + self.half(j) })
    }
}

/// The bounds of HDRR for one tree, as \[hls\] states them; weights count visits and are usually whole numbers.
#[derive(Clone, Debug)]
pub struct HdrrBounds<'a> {
    tree: &'a Hierarchy,
    weights: &'a Weights,
    quantum: u64,
    below: Below,
    /// L^max of the whole scheduler.
    largest_packet: u32,
}

impl<'a> HdrrBounds<'a> {
    /// Makes the bounds for leaves with largest packets of `max_packet` bytes and a quantum of `quantum` bytes.
    ///
    /// # Errors
    /// [`BoundsError::EmptyPacket`], [`BoundsError::NoQuantum`].
    ///
    /// # Panics
    /// When `weights` were made for a tree of another size.
    pub fn new(
        tree: &'a Hierarchy,
        weights: &'a Weights,
        quantum: u64,
        max_packet: impl Fn(ClassId) -> u32,
    ) -> Result<Self, BoundsError> {
        if quantum == 0 {
            return Err(BoundsError::NoQuantum);
        }
        let largest_packet = tree.leaves().iter().map(|&leaf| max_packet(leaf)).max().unwrap_or(0);
        let below = Below::for_tree(tree, weights, max_packet)?;
        Ok(Self { tree, weights, quantum, below, largest_packet })
    }

    /// Returns the bound of Theorem 4 for two siblings, in bytes per byte of weight; `None` for classes that are not
    /// siblings.
    #[must_use]
    pub fn alpha_between(&self, i: ClassId, j: ClassId) -> Option<BigRational> {
        let siblings = i != j && self.tree.parent(i).is_some() && self.tree.parent(i) == self.tree.parent(j);
        siblings.then(|| self.alpha_of(i, j))
    }

    /// Returns the largest bound of Theorem 4 over all siblings, in bytes per byte of weight; `None` if no class has a
    /// sibling.
    #[must_use]
    pub fn alpha(&self) -> Option<WorstPair> {
        worst(inner(self.tree).filter_map(|parent| {
            let (i, j) = two_lightest(self.weights, self.tree.children(parent))?;
            Some(WorstPair { classes: (i, j), value: self.alpha_of(i, j) })
        }))
    }

    /// Returns the largest bound of Theorem 4 over siblings that are leaves, the only ones for which it holds (see
    /// `fairlink_core::hdrr`), with [`HdrrBounds::visits_between`] in place of 1. First as time at the guarantee in
    /// seconds on a link of rate `link`, second in bytes per byte of weight; the largest of each. `None` if no leaf has
    /// a leaf for a sibling.
    #[must_use]
    pub fn alpha_of_leaves(&self, link: Rate) -> Option<(WorstPair, WorstPair)> {
        let seconds = self.weights.seconds_per_weight(self.tree, link);
        let mut pairs = Vec::new();
        for parent in inner(self.tree) {
            let leaves: Vec<ClassId> =
                self.tree.children(parent).iter().copied().filter(|&child| self.tree.is_leaf(child)).collect();
            if let Some((i, j)) = two_lightest(self.weights, &leaves) {
                let packets = self.alpha_of(i, j) - whole(self.quantum);
                let value = packets + self.visits_between(i, j) * whole(self.quantum);
                let late = WorstPair { classes: (i, j), value: &value * &seconds[parent.index()] };
                pairs.push((late, WorstPair { classes: (i, j), value }));
            }
        }
        let time = worst(pairs.iter().map(|(time, _)| time.clone()))?;
        Some((time, worst(pairs.into_iter().map(|(_, bytes)| bytes))?))
    }

    /// Bound on |n_i / w_i - n_j / w_j| for the numbers of visits to two siblings while both have packets: 1 / w_i + 1
    /// / w_j, as for any self-clocked fair queueing of visits.
    ///
    /// DIFFERENCE: Theorem 4 has 1. A class that comes back is served behind the visit in progress, so that for weights
    /// of 1 and x the difference is up to 1 + 1 / x.
    #[must_use]
    pub fn visits_between(&self, i: ClassId, j: ClassId) -> BigRational {
        whole(1u8) / self.weights.bytes(i) + whole(1u8) / self.weights.bytes(j)
    }

    /// Returns Lemma 9: a backlogged leaf is visited at least once in this many visits.
    #[must_use]
    pub fn visits(&self, leaf: ClassId) -> BigRational {
        let mut product = whole(1u8);
        let mut at = leaf;
        while let Some(parent) = self.tree.parent(at) {
            product *= self.weights.in_bytes(self.weights.of_children(self.tree, parent));
            at = parent;
        }
        product
    }

    /// Returns Theorem 6 in seconds.
    #[must_use]
    pub fn transmission_gap(&self, link: Rate) -> BigRational {
        // Lemma 9's product depends on the parent alone: one product per inner class, parents before children.
        let mut visits = vec![BigRational::default(); self.tree.len()];
        for class in inner(self.tree) {
            let above = self.tree.parent(class).map_or_else(|| whole(1u8), |parent| visits[parent.index()].clone());
            visits[class.index()] = above * self.weights.in_bytes(self.weights.of_children(self.tree, class));
        }
        let most = self.tree.leaves().iter().filter_map(|&leaf| self.tree.parent(leaf));
        let most = most.map(|parent| &visits[parent.index()]).max().cloned().unwrap_or_default();
        seconds((most - whole(1u8)) * whole(self.quantum) + self.below.packets(ClassId::ROOT), link)
    }

    fn alpha_of(&self, i: ClassId, j: ClassId) -> BigRational {
        let packet = whole(self.largest_packet);
        &packet / self.weights.bytes(i) + &packet / self.weights.bytes(j) + whole(self.quantum)
    }
}

/// Returns the root and all other classes with children, parents before children.
fn inner(tree: &Hierarchy) -> impl Iterator<Item = ClassId> + '_ {
    (0..tree.len()).map(|index| ClassId(index as u32)).filter(|&class| !tree.children(class).is_empty())
}

/// Returns the largest value, or the first of several.
pub(crate) fn worst(pairs: impl Iterator<Item = WorstPair>) -> Option<WorstPair> {
    pairs.reduce(|worst, pair| if pair.value > worst.value { pair } else { worst })
}

/// Returns the two classes of the largest value; `None` if there are fewer than two.
fn two_largest(values: impl Iterator<Item = (ClassId, BigRational)>) -> Option<(ClassId, ClassId)> {
    let mut first: Option<(ClassId, BigRational)> = None;
    let mut second: Option<(ClassId, BigRational)> = None;
    for value in values {
        if first.as_ref().is_none_or(|first| value.1 > first.1) {
            second = first.replace(value);
        } else if second.as_ref().is_none_or(|second| value.1 > second.1) {
            second = Some(value);
        }
    }
    Some((first?.0, second?.0))
}

/// Returns the two classes of the smallest weight; `None` if there are fewer than two.
fn two_lightest(weights: &Weights, classes: &[ClassId]) -> Option<(ClassId, ClassId)> {
    let first = *classes.iter().min_by_key(|&&class| weights.units(class))?;
    let others = classes.iter().filter(|&&class| class != first);
    Some((first, *others.min_by_key(|&&class| weights.units(class))?))
}

fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

/// Time in seconds to send `bytes`.
fn seconds(bytes: BigRational, link: Rate) -> BigRational {
    bytes * BigInt::from(8) / BigInt::from(link.bps())
}
