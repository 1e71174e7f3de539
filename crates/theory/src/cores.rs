//! Bounds of one class tree that several cores share: the theorems of `docs/cores.md`, exact.
//!
//! | docs/cores.md | here |
//! | --- | --- |
//! | Lambda_a | [`CoresBounds::debt`] |
//! | E_a | [`CoresBounds::credit`] |
//! | l_a | [`CoresBounds::lead`] |
//! | Theorem V | [`CoresBounds::between`], [`CoresBounds::fairness`] |
//! | Nmax | [`CoresBounds::interface`] |
//! | what the guarantee is short by | [`CoresBounds::guarantee_lag`] |
//! | delay | [`CoresBounds::delay`] |
//!
//! Weights are those of the tree. Bounds are for a link that is busy, and while no credit is dropped. Theorem V is for
//! classes that are on. Those of delay and guarantee are for every interval in which a leaf has packets on one core and
//! the classes above it are on, also one that begins amid a backlog.

use fairlink_core::{ClassId, Hierarchy, NANOS_PER_SEC, Nanos};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::bounds::WorstPair;

/// SharedLimits that share a tree, and the limits of `fairlink_core::SharedConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Number of workers.
    pub workers: u32,
    /// eps: the longest time between two passes of a worker.
    pub pass: Nanos,
    /// Most bytes that a worker sends in a call.
    pub batch: u64,
    /// `SharedConfig::mark`, in bytes.
    pub mark: u64,
    /// `SharedConfig::credit`, in bytes.
    pub credit: u64,
    /// `SharedConfig::ahead`, in bytes.
    pub ahead: u64,
    /// Y: the credit beyond `credit` that late cores hold, in bytes. 0 while all cores make their passes.
    pub late: u64,
}

/// The bounds for one tree.
#[derive(Clone, Debug)]
pub struct CoresBounds<'a> {
    tree: &'a Hierarchy,
    cores: SharedLimits,
    /// Lambda by class, in bytes.
    debt: Vec<u128>,
    /// By class, the sum of l over its children, in bytes.
    leads: Vec<u128>,
}

impl<'a> CoresBounds<'a> {
    /// Makes the bounds of `tree` on `cores`.
    #[must_use]
    pub fn new(tree: &'a Hierarchy, cores: SharedLimits) -> Self {
        let (mut debt, mut leads) = (vec![0; tree.len()], vec![0; tree.len()]);
        for class in (0..tree.len()).rev() {
            let at = ClassId(class as u32);
            debt[class] += u128::from(if tree.is_leaf(at) { tree.link().max_packet.into() } else { cores.ahead });
            if let Some(parent) = tree.parent(at) {
                debt[parent.index()] += debt[class];
                leads[parent.index()] += debt[class].max(cores.ahead.into());
            }
        }
        Self { tree, cores, debt, leads }
    }

    /// Returns Lambda: the most that can be owed from `class` down, in bytes.
    #[must_use]
    pub fn debt(&self, class: ClassId) -> u128 {
        self.debt[class.index()]
    }

    /// Returns E: the most credit that can be from `class` down, in bytes.
    #[must_use]
    pub fn credit(&self, class: ClassId) -> u128 {
        self.all_credit() + self.debt[0] - self.debt[class.index()]
    }

    /// Returns the bound of Theorem V for siblings `a` and `b` that are on together, in bytes per weight.
    #[must_use]
    pub fn between(&self, a: ClassId, b: ClassId) -> BigRational {
        self.apart(a) + self.apart(b)
    }

    /// Returns the pair of siblings with the largest bound, in bytes per weight; `None` without siblings.
    #[must_use]
    pub fn fairness(&self) -> Option<WorstPair> {
        let worst_below = |class: ClassId| {
            let mut children = self.tree.children(class).to_vec();
            // The bound of a class is one number over its weight.
            children.sort_by_key(|&child| self.tree.weight(child));
            let &[a, b, ..] = children.as_slice() else { return None };
            Some(WorstPair { classes: (a, b), value: self.between(a, b) })
        };
        let classes = std::iter::once(ClassId::ROOT).chain(self.tree.classes());
        classes.filter_map(worst_below).max_by(|a, b| a.value.cmp(&b.value))
    }

    /// Returns Nmax: the most bytes in the network interface. In any time the link gets no more than it carries, and
    /// this.
    #[must_use]
    pub fn interface(&self) -> u128 {
        let SharedLimits { workers, batch, mark, .. } = self.cores;
        u128::from(mark) + self.all_credit() + self.debt[0] + u128::from(workers) * u128::from(batch)
    }

    /// Returns l: the bytes by which `class` may be ahead of its parent's virtual time while it is off. It has sent them
    /// out of turn, or went off owing.
    #[must_use]
    pub fn lead(&self, class: ClassId) -> u128 {
        self.debt(class).max(self.cores.ahead.into())
    }

    /// Returns the bytes by which what the link carries of `leaf` may be below its guarantee, in any interval in which
    /// the leaf has packets and the classes above it are on.
    #[must_use]
    pub fn guarantee_lag(&self, leaf: ClassId) -> BigRational {
        let late = whole(2u8) * (self.link() * self.pass() + self.ahead_beside(leaf));
        whole(self.lead(leaf)) + self.share(leaf) * (late + whole(3 * self.interface()))
    }

    /// Returns the longest delay of a packet of `leaf` in seconds, with the interface. Its traffic is at most `burst`
    /// bytes beyond its guarantee.
    #[must_use]
    pub fn delay(&self, leaf: ClassId, burst: u64) -> BigRational {
        (whole(burst) + self.guarantee_lag(leaf)) / (self.share(leaf) * self.link())
    }

    /// The most credit of all classes.
    fn all_credit(&self) -> u128 {
        u128::from(self.cores.credit) + u128::from(self.cores.late)
    }

    /// (Lambda_a + E_a) / w_a.
    fn apart(&self, class: ClassId) -> BigRational {
        whole(self.debt(class) + self.credit(class)) / whole(self.tree.weight(class))
    }

    /// Sum of B_a / s_a over the classes above `leaf`, the link included: what their other children may get ahead.
    fn ahead_beside(&self, leaf: ClassId) -> BigRational {
        let (mut sum, mut below) = (BigRational::zero(), leaf);
        while let Some(class) = self.tree.parent(below) {
            sum += whole(self.leads[class.index()] - self.lead(below)) / self.share(class);
            below = class;
        }
        sum
    }

    /// s: the share of the link when all are busy.
    fn share(&self, class: ClassId) -> BigRational {
        let mut share = whole(1u8);
        let mut at = class;
        while let Some(parent) = self.tree.parent(at) {
            share *= BigRational::new(self.tree.weight(at).into(), self.tree.children_weight(parent).into());
            at = parent;
        }
        share
    }

    /// C, in bytes per second.
    fn link(&self) -> BigRational {
        BigRational::new(self.tree.link().rate.bps().into(), 8.into())
    }

    /// eps, in seconds.
    fn pass(&self) -> BigRational {
        BigRational::new(self.cores.pass.0.into(), NANOS_PER_SEC.into())
    }
}

fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};

    #[test]
    fn bounds_of_a_small_tree_are_those_computed_by_hand() {
        // 8 Mbit/s: a megabyte per second. A class of weight 1 with two leaves, and a leaf of weight 3.
        let mut tree = Hierarchy::builder(LinkConfig::new(Rate::from_bps(8_000_000).unwrap()));
        let weight = |weight| ClassConfig { share: Some(Share::Weight(weight)), ..ClassConfig::default() };
        let class = tree.add(ClassId::ROOT, weight(1)).unwrap();
        let leaf = tree.add(ClassId::ROOT, weight(3)).unwrap();
        let below = tree.add(class, weight(1)).unwrap();
        tree.add(class, weight(1)).unwrap();
        let tree = tree.build().unwrap();
        let pass = Nanos::from_millis(10);
        let cores = SharedLimits { workers: 2, pass, batch: 3000, mark: 10_000, credit: 20_000, ahead: 1000, late: 0 };
        let bounds = CoresBounds::new(&tree, cores);
        assert_eq!([0, 1, 2, 3].map(|class| bounds.debt(ClassId(class))), [6500, 4000, 1500, 1500]);
        assert_eq!(bounds.credit(class), 22_500);
        // 26,500 (1 / 1 + 1 / 3).
        assert_eq!(bounds.between(class, leaf), BigRational::new(106_000.into(), 3.into()));
        // 26,500 (1 / 1 + 1 / 1).
        assert_eq!(bounds.fairness().unwrap().value, whole(53_000));
        assert_eq!(bounds.interface(), 42_500);
        assert_eq!([1, 2, 3].map(|class| bounds.lead(ClassId(class))), [4000, 1500, 1500]);
        // 1500 + 3/4 (2 (10,000 + 4000) + 3 * 42,500).
        assert_eq!(bounds.guarantee_lag(leaf), whole(118_125));
        // 1500 + 1/8 (2 (10,000 + 4 * 1500 + 1500) + 127,500).
        assert_eq!(bounds.guarantee_lag(below), BigRational::new(174_500.into(), 8.into()));
        // 3/4 of a megabyte per second.
        assert_eq!(bounds.delay(leaf, 1500), whole(119_625) / whole(750_000));
        // More may leave out of turn than one packet.
        let more = CoresBounds::new(&tree, SharedLimits { ahead: 5000, ..cores });
        assert_eq!([1, 2, 3].map(|class| more.lead(ClassId(class))), [8000, 5000, 5000]);
    }
}
