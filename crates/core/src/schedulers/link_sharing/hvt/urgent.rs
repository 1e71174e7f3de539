//! Latency-critical leaves: packets that precede all others, within a contract.
//!
//! # The rule
//!
//! A latency-critical leaf has a token bucket: the leaf's rate when all classes are busy, of its share as run, and its
//! burst, a largest packet where the file sets none. A packet that arrives while the bucket has tokens for all of it, and while no other packet of
//! the leaf waits for its turn, takes them and is *urgent*: urgent packets precede all others, in the order of their
//! arrival. Any other packet waits for its turn as that of a leaf that is not latency-critical, and so do those that come
//! behind it until the leaf is empty.
//!
//! An urgent packet counts at every class above it that has a child in its queue. A class that waits in the queue of
//! its parent cannot be moved there. It *owes*: its tag takes the debt when it is chosen, and it goes back into the queue.
//! A class without a child in its queue has nothing to share, and its children's tags do not change. It has started anew, so
//! that none of them is ahead of its clock.
//!
//! An urgent packet below a class whose ceiling is in debt waits for its turn, as those behind it do.
//!
//! # Bounds
//!
//! `docs/hvt.md` proves them: the delay of urgent packets, (L + sum of all sigma_j) / C, and what urgent packets add to the
//! fairness and the delays of others. Buckets enforce the contracts, so that none of them takes conforming traffic of others.
//! There is no such bound below a ceiling.

use alloc::boxed::Box;

use crate::contract::{ClassId, Hierarchy, Nanos, OutOfMemory, Rate};
use crate::parts::bucket::Bucket;
use crate::parts::memory::{Queue, bytes_of, filled, slice};

/// The contract of a latency-critical leaf.
#[derive(Clone, Copy, Debug)]
struct Contract {
    bucket: Bucket,
    /// Packets at the head of the leaf that are urgent.
    urgent: u32,
    /// The packets behind them wait for their turns.
    ordinary: bool,
}

/// All latency-critical leaves of a tree.
#[derive(Debug)]
pub(super) struct Urgent {
    /// By class; empty if no leaf is latency-critical.
    contracts: Box<[Contract]>,
    /// A leaf for each urgent packet, in the order of their arrival.
    order: Queue<u32>,
    room: usize,
    /// By inner class: what its tag has still to take.
    owed: Box<[u64]>,
}

/// Largest burst of a latency-critical leaf in bytes, 2^40; a larger one counts as this. No queue holds as much.
const MOST_BURST: u64 = 1 << 40;

/// Returns sigma of the latency-critical leaf `class`, in bytes.
pub(super) fn burst(tree: &Hierarchy, class: ClassId) -> u64 {
    let largest = u64::from(tree.link().max_packet);
    tree.config(class).burst.unwrap_or(largest).min(MOST_BURST)
}

/// Returns true for a latency-critical leaf. One whose rate when all are busy is below 1 bit/s is as any other.
pub(super) fn is_critical(tree: &Hierarchy, class: ClassId) -> bool {
    tree.is_leaf(class) && tree.config(class).latency_critical && tree.rate_all_busy(class) > 0
}

/// Latency-critical leaves.
pub(super) fn leaves(tree: &Hierarchy) -> impl Iterator<Item = ClassId> {
    tree.leaves().iter().copied().filter(|&leaf| is_critical(tree, leaf))
}

impl Urgent {
    /// Makes those of `tree`. `rate` is that of the contract of a latency-critical leaf, in bit/s.
    pub(super) fn new(tree: &Hierarchy, rate: impl Fn(ClassId) -> u64) -> Result<Self, OutOfMemory> {
        let any = leaves(tree).next().is_some();
        let classes = if any { tree.len() } else { 0 };
        let contract = |index: usize| {
            let class = ClassId(index as u32);
            let rate = Rate::from_bps(rate(class).max(1)).unwrap_or(tree.link().rate);
            Contract { bucket: Bucket::new(rate, burst(tree, class)), urgent: 0, ordinary: false }
        };
        let room = if any { tree.link().max_queued as usize } else { 0 };
        Ok(Self {
            contracts: slice(classes, contract)?,
            order: Queue::with_room(room)?,
            room,
            owed: filled(if any { tree.len() - tree.leaves().len() } else { 0 }, 0)?,
        })
    }

    /// Bytes that those of `tree` take.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        if leaves(tree).next().is_none() {
            return 0;
        }
        bytes_of::<Contract>(tree.len())
            + bytes_of::<u32>(tree.link().max_queued as usize)
            + bytes_of::<u64>(tree.len() - tree.leaves().len())
    }

    /// Returns true if the tree has latency-critical leaves.
    #[inline(always)]
    pub(super) fn is_for_any(&self) -> bool {
        !self.contracts.is_empty()
    }

    /// Returns true if an urgent packet may be queued.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        !self.order.is_empty()
    }

    /// Decides on a packet of `len` bytes that was queued at `leaf`, where it is now one of `packets`. Returns true if it
    /// is urgent.
    pub(super) fn arrived(&mut self, leaf: u32, (len, packets): (u32, u64), now: Nanos) -> bool {
        let contract = &mut self.contracts[leaf as usize];
        let in_turn = !contract.ordinary && u64::from(contract.urgent) < packets && self.order.len() < self.room;
        if in_turn && contract.bucket.take_within(len, now) {
            contract.urgent += 1;
            self.order.push(leaf);
            return true;
        }
        contract.ordinary = true;
        false
    }

    /// Removes the next urgent packet's leaf.
    pub(super) fn next(&mut self) -> Option<u32> {
        loop {
            let leaf = self.order.pop()?;
            let contract = &mut self.contracts[leaf as usize];
            // Otherwise its packets wait for their turns.
            if contract.urgent > 0 {
                contract.urgent -= 1;
                return Some(leaf);
            }
        }
    }

    /// Returns true if no packet of `leaf` is urgent any more.
    pub(super) fn are_all_sent(&self, leaf: u32) -> bool {
        self.contracts[leaf as usize].urgent == 0
    }

    /// Makes the packets of `leaf` wait for their turns.
    pub(super) fn defer(&mut self, leaf: u32) {
        let contract = &mut self.contracts[leaf as usize];
        (contract.urgent, contract.ordinary) = (0, true);
    }

    /// Called when `leaf` is empty.
    pub(super) fn emptied(&mut self, leaf: u32) {
        let contract = &mut self.contracts[leaf as usize];
        (contract.urgent, contract.ordinary) = (0, false);
    }

    /// Adds to what the inner class `node` owes, which stays below 2^60.
    pub(super) fn owe(&mut self, node: u32, units: u64) {
        let owed = &mut self.owed[node as usize];
        *owed = (*owed + units).min(1 << 60);
    }

    /// Returns what the inner class `node` owes.
    #[cfg(test)]
    pub(super) fn owed(&self, node: u32) -> u64 {
        self.owed.get(node as usize).copied().unwrap_or(0)
    }

    /// Removes what the inner class `node` owes.
    pub(super) fn settle(&mut self, node: u32) -> u64 {
        core::mem::take(&mut self.owed[node as usize])
    }

    pub(super) fn reset(&mut self) {
        self.order.clear();
        self.owed.fill(0);
        for contract in &mut self.contracts {
            contract.bucket.reset();
            (contract.urgent, contract.ordinary) = (0, false);
        }
    }
}
