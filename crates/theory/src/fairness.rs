//! Fairness of a scheduler: Definition 1 of \[hls\], measured online on a trace, exactly.
//!
//! For two siblings i, j and an interval (t1, t2) throughout which both are backlogged, Definition 1 considers
//! |D_i / w_i - D_j / w_j|, where D is what each (or its leaves) was served in the interval. While both stay backlogged, let
//! X be that difference counted from the moment when both became so. Every interval within then has |X(t2) - X(t1)|, and
//! the largest of all is the largest minus the smallest value of X. So each pair needs three numbers, not a history.
//!
//! # What an event means
//!
//! * A service counts for the intervals that end with it or later, and begin before it. It must be reported while the
//!   leaf is backlogged: [`FairnessMeter::served`] first, then [`FairnessMeter::idle`] if that was the leaf's last
//!   packet. So the last packet of a backlogged period counts.
//! * An inner class is backlogged while any leaf below it is. Events at one instant count in the order of the calls.
//! * A scheduler that fixes the participants at the start of a round can have an inner class whose packets all arrived
//!   in the middle of the round: backlogged to an observer, idle to the scheduler. Equation (11) of the paper takes its
//!   balance then, which breaks Theorem 3. Our HLS does not, and is measured from outside. For a scheduler that does,
//!   call [`FairnessMeter::backlogged`] when it takes the leaf up, not when the packet arrives.
//!
//! Cost: per service, one update for each sibling that is compared with the leaf or an ancestor of it.

use std::borrow::Cow;

use fairlink_core::{ClassId, Hierarchy, Rate};
use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};

use crate::bounds::{WorstPair, worst};
use crate::to_f64;
use crate::weights::Weights;

/// Two siblings and the lead of one over the other.
#[derive(Clone, Debug)]
struct Pair {
    classes: [ClassId; 2],
    /// Their weights in units, divided by their greatest common divisor, and that divisor.
    weights: [u64; 2],
    divisor: u64,
    /// D_0 w_1 - D_1 w_0 since both became backlogged, with the weights above. Fits for 2^62 bytes.
    lead: i128,
    lowest: i128,
    highest: i128,
    /// The largest `highest - lowest` of all periods.
    widest: i128,
}

impl Pair {
    fn new(weights: &Weights, i: ClassId, j: ClassId) -> Self {
        let reduced = Ratio::new(weights.units(i), weights.units(j));
        let divisor = weights.units(i) / reduced.numer();
        let weights = [*reduced.numer(), *reduced.denom()];
        Self { classes: [i, j], weights, divisor, lead: 0, lowest: 0, highest: 0, widest: 0 }
    }

    fn restart(&mut self) {
        (self.lead, self.lowest, self.highest) = (0, 0, 0);
    }

    fn serve(&mut self, side: usize, bytes: u64) {
        let gain = i128::from(bytes) * i128::from(self.weights[1 - side]);
        self.lead += if side == 0 { gain } else { -gain };
        self.lowest = self.lowest.min(self.lead);
        self.highest = self.highest.max(self.lead);
        self.widest = self.widest.max(self.highest - self.lowest);
    }

    /// Returns |D_i / w_i - D_j / w_j| in bytes per byte of weight.
    fn unfairness(&self, weights: &Weights) -> BigRational {
        let bytes = BigInt::from(self.widest) * weights.units_per_byte();
        BigRational::new(bytes, BigInt::from(self.weights[0]) * self.weights[1] * self.divisor)
    }

    fn other(&self, side: usize) -> ClassId {
        self.classes[1 - side]
    }
}

/// The pair of a class, and its side.
#[derive(Clone, Copy, Debug)]
struct Place {
    pair: u32,
    side: u8,
}

/// Measures Definition 1 over a trace of one tree.
#[derive(Clone, Debug)]
pub struct FairnessMeter<'a> {
    tree: Cow<'a, Hierarchy>,
    weights: Cow<'a, Weights>,
    pairs: Vec<Pair>,
    /// Places by class.
    places: Vec<Vec<Place>>,
    /// By class: backlogged children; 1 for a backlogged leaf.
    backlogged: Vec<u32>,
    exact: bool,
}

impl<'a> FairnessMeter<'a> {
    /// Compares every pair of siblings up to this many of them, 130,816 pairs (16 MB) per parent.
    pub const ALL_PAIRS_UP_TO: usize = 512;

    /// Pairs of all parents together in [`FairnessMeter::within_memory`].
    const MOST_PAIRS: usize = 1 << 17;

    /// Makes a meter of a tree without backlog. Up to [`FairnessMeter::ALL_PAIRS_UP_TO`] siblings are all compared with
    /// one another. Among more, each is compared with those 1, 2, 4, 8 ... places further on, and the result is a lower
    /// bound ([`FairnessMeter::is_exact`]).
    ///
    /// # Panics
    /// When `weights` were made for a tree of another size.
    #[must_use]
    pub fn new(tree: &'a Hierarchy, weights: &'a Weights) -> Self {
        Self::with_all_pairs_up_to(tree, weights, Self::ALL_PAIRS_UP_TO)
    }

    /// Like [`FairnessMeter::new`], with another limit on the number of siblings of which all pairs are compared.
    ///
    /// # Panics
    /// When `weights` were made for a tree of another size.
    #[must_use]
    pub fn with_all_pairs_up_to(tree: &'a Hierarchy, weights: &'a Weights, limit: usize) -> Self {
        Self::among(Cow::Borrowed(tree), Cow::Borrowed(weights), limit, |_| true)
    }

    /// Like `new`, among the classes that are `compared`, with as many pairs as fit into 16 MB.
    ///
    /// # Panics
    /// When `weights` were made for a tree of another size.
    #[must_use]
    pub fn within_memory(tree: Hierarchy, weights: Weights, compared: impl Fn(ClassId) -> bool) -> Self {
        let mut limit = Self::ALL_PAIRS_UP_TO;
        let parents = || (0..tree.len()).map(|index| tree.children(ClassId(index as u32)).len());
        let pairs = |limit| parents().filter(move |&children| children <= limit).map(|n| n * n.saturating_sub(1) / 2);
        while limit > 2 && pairs(limit).sum::<usize>() > Self::MOST_PAIRS {
            limit /= 2;
        }
        Self::among(Cow::Owned(tree), Cow::Owned(weights), limit, compared)
    }

    fn among(
        tree: Cow<'a, Hierarchy>,
        weights: Cow<'a, Weights>,
        limit: usize,
        compared: impl Fn(ClassId) -> bool,
    ) -> Self {
        weights.assert_for(&tree);
        let places = vec![Vec::new(); tree.len()];
        let backlogged = vec![0; tree.len()];
        let mut meter = Self { tree, weights, pairs: Vec::new(), places, backlogged, exact: true };
        for index in 0..meter.tree.len() {
            let of_parent = meter.tree.children(ClassId(index as u32)).iter().copied();
            let children: Vec<ClassId> = of_parent.filter(|&child| compared(child)).collect();
            if children.len() <= limit {
                for (at, &i) in children.iter().enumerate() {
                    children[at + 1..].iter().for_each(|&j| meter.compare(i, j));
                }
            } else {
                meter.exact = false;
                for (at, &i) in children.iter().enumerate() {
                    let steps = (0..usize::BITS).map(|exponent| 1 << exponent);
                    let others = steps.take_while(|step| at + step < children.len());
                    others.for_each(|step| meter.compare(i, children[at + step]));
                }
            }
        }
        meter
    }

    /// Returns the tree of the compared classes.
    #[must_use]
    pub fn tree(&self) -> &Hierarchy {
        &self.tree
    }

    fn compare(&mut self, i: ClassId, j: ClassId) {
        let pair = self.pairs.len() as u32;
        self.pairs.push(Pair::new(&self.weights, i, j));
        self.places[i.index()].push(Place { pair, side: 0 });
        self.places[j.index()].push(Place { pair, side: 1 });
    }

    /// Records that `leaf` becomes backlogged; no effect if it already is.
    ///
    /// # Panics
    /// When there is no such leaf.
    pub fn backlogged(&mut self, leaf: ClassId) {
        assert!(self.tree.is_leaf(leaf), "class {} is not a leaf", leaf.0);
        if self.backlogged[leaf.index()] > 0 {
            return;
        }
        let mut at = Some(leaf);
        while let Some(class) = at {
            self.backlogged[class.index()] += 1;
            if self.backlogged[class.index()] > 1 {
                break;
            }
            for place in &self.places[class.index()] {
                // If the other is not backlogged, the difference restarts when it is.
                self.pairs[place.pair as usize].restart();
            }
            at = self.tree.parent(class);
        }
    }

    /// Records `bytes` of service for `leaf`, which is backlogged.
    ///
    /// # Panics
    /// When `leaf` is not backlogged.
    pub fn served(&mut self, leaf: ClassId, bytes: u64) {
        assert!(self.tree.is_leaf(leaf) && self.backlogged[leaf.index()] > 0, "class {} is not backlogged", leaf.0);
        let mut at = Some(leaf);
        while let Some(class) = at {
            for place in &self.places[class.index()] {
                let pair = &mut self.pairs[place.pair as usize];
                if self.backlogged[pair.other(place.side.into()).index()] > 0 {
                    pair.serve(place.side.into(), bytes);
                }
            }
            at = self.tree.parent(class);
        }
    }

    /// Records `bytes` of service for `leaf`, whose packets are sent ahead of others and do not make it backlogged. They count for
    /// classes above it that are backlogged.
    ///
    /// # Panics
    /// When there is no such leaf.
    pub fn served_ahead(&mut self, leaf: ClassId, bytes: u64) {
        assert!(self.tree.is_leaf(leaf), "class {} is not a leaf", leaf.0);
        let mut at = Some(leaf);
        while let Some(class) = at {
            for place in self.places[class.index()].iter().filter(|_| self.backlogged[class.index()] > 0) {
                let pair = &mut self.pairs[place.pair as usize];
                if self.backlogged[pair.other(place.side.into()).index()] > 0 {
                    pair.serve(place.side.into(), bytes);
                }
            }
            at = self.tree.parent(class);
        }
    }

    /// Records that `leaf` is empty, or that the scheduler takes it out; no effect if it was idle.
    ///
    /// # Panics
    /// When there is no such leaf.
    pub fn idle(&mut self, leaf: ClassId) {
        assert!(self.tree.is_leaf(leaf), "class {} is not a leaf", leaf.0);
        let mut at = (self.backlogged[leaf.index()] > 0).then_some(leaf);
        while let Some(class) = at {
            self.backlogged[class.index()] -= 1;
            at = self.tree.parent(class).filter(|_| self.backlogged[class.index()] == 0);
        }
    }

    /// Returns true if all pairs of siblings are compared.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns the largest unfairness of any pair so far, in bytes per byte of weight, to be compared with
    /// [`HlsBounds::alpha`](crate::bounds::HlsBounds::alpha); `None` if no two siblings are compared.
    #[must_use]
    pub fn alpha(&self) -> Option<WorstPair> {
        worst(self.measured())
    }

    /// Returns the fairness as time at the guarantee, in seconds, on a link of rate `link`. See
    /// [`HlsBounds::fairness_seconds`](crate::bounds::HlsBounds::fairness_seconds).
    #[must_use]
    pub fn fairness_seconds(&self, link: Rate) -> Option<WorstPair> {
        let seconds = self.weights.seconds_per_weight(&self.tree, link);
        worst(self.measured().map(|WorstPair { classes, value }| {
            let parent = self.tree.parent(classes.0).unwrap_or(ClassId::ROOT);
            WorstPair { classes, value: value * &seconds[parent.index()] }
        }))
    }

    /// Returns the largest unfairness of two siblings so far, in bytes per byte of weight; `None` for two classes that
    /// are not compared.
    #[must_use]
    pub fn alpha_between(&self, i: ClassId, j: ClassId) -> Option<BigRational> {
        let place = |place: &&Place| self.pairs[place.pair as usize].other(place.side.into()) == j;
        let place = self.places.get(i.index())?.iter().find(place)?;
        Some(self.pairs[place.pair as usize].unfairness(&self.weights))
    }

    /// Returns the maximum deviation of each class from its part of a sibling's service, in bytes; `None` for classes
    /// that are not compared.
    #[must_use]
    pub fn bytes_of_classes(&self) -> Vec<Option<f64>> {
        let mut bytes: Vec<Option<f64>> = vec![None; self.tree.len()];
        for pair in &self.pairs {
            let apart = to_f64(&pair.unfairness(&self.weights));
            for class in pair.classes {
                let own = apart * to_f64(&self.weights.bytes(class));
                let most = &mut bytes[class.index()];
                *most = Some(most.map_or(own, |most| most.max(own)));
            }
        }
        bytes
    }

    fn measured(&self) -> impl Iterator<Item = WorstPair> {
        self.pairs.iter().map(|pair| WorstPair { classes: pair.classes.into(), value: pair.unfairness(&self.weights) })
    }
}
