//! The sum of the weights of siblings, when some of them are gone.
//!
//! A child that leaves while its tag is ahead of the clock has had more than its share. Its weight counts until the
//! clock has reached the tag, as that of an idle child would. A child whose tag is not ahead leaves at once.
//! `docs/hvt.md`, "Classes that come and go", has the proof.

use super::scale::{Scale, rate};
use super::{NIL, Node};
use crate::contract::{ClassId, OutOfMemory};
use crate::parts::memory::Stack;

/// Bits of the clock of an inner class.
const CLOCK: u32 = 96;

/// State of an inner class for its children, beside the path of packets.
#[derive(Debug)]
pub(super) struct Sum {
    /// k: 2 to this power units are a byte per weight.
    pub(super) bits: u32,
    /// W: the sum of the weights of the children.
    pub(super) weight: u64,
    pub(super) class: ClassId,
    pub(super) children: u32,
    /// Lists, or groups of the wheel.
    pub(super) groups: u32,
    /// True if weights are not those of the tree, but smaller ones.
    pub(super) is_scaled: bool,
    /// During a change: the same class after it, or before it; [`NIL`] if there is none.
    pub(super) twin: u32,
    /// During a change: all children are as if they came at once.
    pub(super) is_restarted: bool,
    /// Weights of children that are gone, until the clock is at `until`.
    gone: u64,
    until: u128,
    /// True if it is among [`Leaving`].
    is_listed: bool,
    /// The least virtual time of a byte so far.
    #[cfg(feature = "invariants")]
    pub(super) least: u64,
}

impl Sum {
    pub(super) const fn of_class(class: ClassId) -> Self {
        Self {
            bits: 0,
            weight: 0,
            class,
            children: 0,
            groups: 0,
            is_scaled: false,
            twin: NIL,
            is_restarted: false,
            gone: 0,
            until: 0,
            is_listed: false,
            #[cfg(feature = "invariants")]
            least: 0,
        }
    }

    /// Takes the sum and the units of `scale`.
    pub(super) fn set(&mut self, scale: &Scale) {
        (self.bits, self.weight, self.is_scaled) = (scale.bits, scale.weight, scale.is_scaled);
        self.children = scale.inverse.len() as u32;
        #[cfg(feature = "invariants")]
        (self.least = scale.rate);
    }

    /// Takes the sum and the units of `with`. No child that is gone counts any more.
    pub(super) fn retune(&mut self, with: &Self) {
        (self.bits, self.weight, self.is_scaled, self.gone) = (with.bits, with.weight, with.is_scaled, 0);
        self.groups = with.groups;
        #[cfg(feature = "invariants")]
        (self.least = with.least);
    }

    /// Returns v, the virtual time of a byte.
    pub(super) fn rate(&self) -> u64 {
        rate(self.bits, self.weight + self.gone)
    }

    /// Returns v with one more child, of `weight`.
    pub(super) fn rate_with(&self, weight: u64) -> u64 {
        rate(self.bits, self.weight + self.gone + weight)
    }

    /// Counts one more child, of `weight`.
    pub(super) fn add(&mut self, weight: u64) {
        self.weight += weight;
        self.children += 1;
        #[cfg(feature = "invariants")]
        (self.least = self.least.min(self.rate()));
    }

    /// No longer counts a child with the inverse weight `inverse`. The sum stays too large by the error of the
    /// reciprocal, at most one part in 2^16 of the weight.
    pub(super) fn sub(&mut self, inverse: u64) {
        self.weight -= (1u128 << self.bits).div_ceil(inverse.into()) as u64;
        self.children -= 1;
    }

    /// Counts a child with the inverse weight `inverse` that has left while its tag was `ahead` of the clock of `node`.
    pub(super) fn leave(&mut self, node: &Node, inverse: u64, ahead: u64) {
        let until = node.clock().wrapping_add(ahead.into());
        if self.gone == 0 || is_reached(until, self.until) {
            self.until = until;
        }
        self.gone += (1u128 << self.bits).div_ceil(inverse.into()) as u64;
    }

    /// Counts the children that had left `old` when its clock was that of `node`.
    pub(super) fn inherit(&mut self, old: &Self, node: &Node) {
        if old.gone > 0 && !is_reached(node.clock(), old.until) {
            (self.gone, self.until) = (old.gone, old.until);
        }
    }

    /// No longer counts children that are gone, if the clock of `node` has reached their tags.
    pub(super) fn forget(&mut self, node: &Node) {
        if is_reached(node.clock(), self.until) {
            self.gone = 0;
        }
    }

    /// Returns true if children that are gone count.
    pub(super) const fn is_leaving(&self) -> bool {
        self.gone > 0
    }
}

/// Returns true if the clock `at` has reached `until`. Both count in [`CLOCK`] bits.
const fn is_reached(at: u128, until: u128) -> bool {
    at.wrapping_sub(until) << (u128::BITS - CLOCK) >> (u128::BITS - 1) == 0
}

/// The inner classes with children that are gone and still count.
#[derive(Debug)]
pub(super) struct Leaving {
    nodes: Stack<u32>,
    /// The one that is looked at next.
    next: usize,
}

impl Leaving {
    pub(super) fn with_room(inner: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { nodes: Stack::with_room(inner)?, next: 0 })
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Counts the class `at` among them if children of it that are gone count.
    pub(super) fn note(&mut self, at: u32, sum: &mut Sum) {
        if sum.is_leaving() && !core::mem::replace(&mut sum.is_listed, true) {
            self.nodes.push(at);
        }
    }

    /// Looks at one of them, and no longer counts the children that are gone if its clock has reached their tags. Later is
    /// early enough.
    pub(super) fn let_go(&mut self, nodes: &mut [Node], sums: &mut [Sum]) {
        if self.nodes.is_empty() {
            return;
        }
        self.next = (self.next + 1) % self.nodes.len();
        let at = self.nodes[self.next] as usize;
        let (node, sum) = (&mut nodes[at], &mut sums[at]);
        sum.forget(node);
        if sum.is_leaving() {
            return;
        }
        sum.is_listed = false;
        node.rate = sum.rate();
        let last = self.nodes.len() - 1;
        self.nodes.swap(self.next, last);
        self.nodes.truncate(last);
    }

    /// No longer counts any child that is gone.
    pub(super) fn let_all_go(&mut self, nodes: &mut [Node], sums: &mut [Sum]) {
        for &at in &*self.nodes {
            let sum = &mut sums[at as usize];
            (sum.gone, sum.is_listed) = (0, false);
            nodes[at as usize].rate = sum.rate();
        }
        self.nodes.clear();
    }
}
