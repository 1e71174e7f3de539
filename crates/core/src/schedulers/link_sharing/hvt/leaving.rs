//! The sum of the weights of siblings, when some of them are gone.
//!
//! A child that leaves while its tag is ahead of the clock has had more than its share. Its weight counts until the clock
//! has reached the tag, as that of an idle child would. A child whose tag is not ahead leaves at once. `docs/hvt.md`,
//! "Classes that come and go", has the proof.

use super::queues::Queues;
use super::scale::{Scale, rate};
use super::{NIL, Node};
use crate::contract::{ClassId, OutOfMemory};
use crate::parts::memory::Stack;

/// Bits of the clock of an inner class.
const CLOCK: u32 = 96;

/// What an inner class keeps of its children beside the path of packets.
#[derive(Debug)]
pub(super) struct Sum {
    /// k: 2 to this power units are a byte per weight.
    pub(super) bits: u32,
    /// W: the sum of the weights of the children.
    pub(super) weight: u64,
    pub(super) class: ClassId,
    /// During a change: the same class after it, or before it; [`NIL`] if there is none.
    pub(super) twin: u32,
    /// Weights of children that are gone, until the clock is at `until`.
    gone: u64,
    until: u128,
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
            twin: NIL,
            gone: 0,
            until: 0,
            #[cfg(feature = "invariants")]
            least: 0,
        }
    }

    /// Takes the sum and the units of `scale`.
    pub(super) fn set(&mut self, scale: &Scale) {
        (self.bits, self.weight) = (scale.bits, scale.weight);
        #[cfg(feature = "invariants")]
        (self.least = scale.rate);
    }

    /// Takes the sum and the units of `with`. No child that is gone counts any more.
    pub(super) fn retune(&mut self, with: &Self) {
        (self.bits, self.weight, self.gone) = (with.bits, with.weight, 0);
        #[cfg(feature = "invariants")]
        (self.least = with.least);
    }

    /// Returns v, the virtual time of a byte.
    pub(super) fn rate(&self) -> u64 {
        rate(self.bits, self.weight + self.gone)
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

    pub(super) fn push(&mut self, node: u32) {
        self.nodes.push(node);
    }
}

impl Queues {
    /// Looks at one of the classes with children that are gone, and no longer counts them if its clock has reached their
    /// tags. Later is early enough.
    pub(super) fn let_go(&mut self) {
        let Leaving { nodes, next } = &mut self.leaving;
        if nodes.is_empty() {
            return;
        }
        *next = (*next + 1) % nodes.len();
        let at = nodes[*next] as usize;
        let (node, sum) = (&mut self.nodes[at], &mut self.sums[at]);
        if sum.is_leaving() && !is_reached(node.clock(), sum.until) {
            return;
        }
        sum.gone = 0;
        node.rate = sum.rate();
        let last = nodes.len() - 1;
        nodes.swap(*next, last);
        nodes.truncate(last);
    }

    /// No longer counts any child that is gone. All classes start anew.
    pub(super) fn let_all_go(&mut self) {
        for &at in &*self.leaving.nodes {
            let sum = &mut self.sums[at as usize];
            sum.gone = 0;
            self.nodes[at as usize].rate = sum.rate();
        }
        self.leaving.nodes.clear();
    }
}
