//! A priority queue of small ids: every id of `0..ids` is in it at most once, under a key that can be changed or taken back.
//!
//! Equal keys leave in the order in which they got that key, so that runs are reproducible. The storage depends on the
//! number of ids and never affects the order: one sorted list for few ids ([`Few`]), sorted lists under a tournament
//! for more ([`Lanes`]). The few children of a class in a deep tree are the first case, the leaves of a flat scheduler
//! the second.

#[cfg(feature = "invariants")]
use alloc::string::String;

use super::work::Work;
use crate::contract::OutOfMemory;

mod few;
mod lanes;
#[cfg(test)]
mod tests;

use few::Few;
use lanes::Lanes;

/// Optional queries of a queue beside its first id. They use memory if there are many ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Also {
    /// The largest key.
    pub(crate) last: bool,
    /// An id that probably becomes first soon after the current first.
    pub(crate) ahead: bool,
}

/// Only the `ahead` query.
pub(crate) const AHEAD: Also = Also { last: false, ahead: true };

/// A queue whose first id is the one with the smallest key, of these the one that got its key first.
#[derive(Debug)]
pub(crate) enum Heap<W = ()> {
    /// For at most [`few::MOST`] ids.
    Few(Few<W>),
    /// For any number.
    Lanes(Lanes<W>),
}

macro_rules! of_either {
    ($heap:expr, $queue:ident => $call:expr) => {
        match $heap {
            Heap::Few($queue) => $call,
            Heap::Lanes($queue) => $call,
        }
    };
}

impl Heap {
    /// Bytes that one for `ids` ids takes.
    pub(crate) const fn memory(ids: usize) -> u64 {
        Self::memory_knowing(ids, Also { last: false, ahead: false })
    }

    /// Bytes that such a one takes.
    pub(crate) const fn memory_knowing(ids: usize, also: Also) -> u64 {
        if ids <= few::MOST { Few::memory(ids) } else { Lanes::memory(ids, also) }
    }
}

impl<W: Work> Heap<W> {
    /// Makes an empty queue for the ids `0..ids`, below 2^31 - 1.
    pub(crate) fn new(ids: usize) -> Result<Self, OutOfMemory> {
        Self::knowing(ids, Also::default())
    }

    /// Makes a queue with additional queries.
    pub(crate) fn knowing(ids: usize, also: Also) -> Result<Self, OutOfMemory> {
        if ids <= few::MOST { Ok(Self::Few(Few::new(ids)?)) } else { Ok(Self::Lanes(Lanes::new(ids, also)?)) }
    }

    /// Steps of all calls so far, if they are counted: entries, lanes and nodes that were changed or compared.
    pub(crate) fn steps(&self) -> u64 {
        of_either!(self, queue => queue.steps())
    }

    /// Ids in it.
    #[must_use]
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn len(&self) -> usize {
        of_either!(self, queue => queue.len())
    }

    /// Number of ids that the queue was made for.
    #[must_use]
    pub(crate) fn ids(&self) -> u32 {
        of_either!(self, queue => queue.ids())
    }

    /// Returns true if the queue is empty.
    #[must_use]
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        of_either!(self, queue => queue.is_empty())
    }

    /// Returns true if `id` is in it.
    #[must_use]
    #[inline(always)]
    pub(crate) fn contains(&self, id: u32) -> bool {
        of_either!(self, queue => queue.contains(id))
    }

    /// Returns the key of `id`, if the queue contains it.
    #[must_use]
    #[inline(always)]
    pub(crate) fn key(&self, id: u32) -> Option<u128> {
        of_either!(self, queue => queue.key(id))
    }

    /// Returns the first id and its key.
    #[must_use]
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(u32, u128)> {
        of_either!(self, queue => queue.first())
    }

    /// Returns the second id and its key: the first one without the first.
    #[must_use]
    #[inline(always)]
    pub(crate) fn second(&self) -> Option<(u32, u128)> {
        of_either!(self, queue => queue.second())
    }

    /// Returns the largest key. For queues with two ends.
    #[must_use]
    #[inline(always)]
    pub(crate) fn last_key(&self) -> Option<u128> {
        of_either!(self, queue => queue.last_key())
    }

    /// Inserts `id` under `key`, or moves it there, behind the ids that have that key already.
    #[inline(always)]
    pub(crate) fn set(&mut self, id: u32, key: u128) {
        of_either!(self, queue => queue.set(id, key))
    }

    /// Like [`Heap::set`], for an id whose previous key does not predict the new one. Ids set with the same `step`
    /// arrive in the order of their keys, or nearly so. The step affects only the cost.
    #[inline(always)]
    pub(crate) fn set_by(&mut self, id: u32, key: u128, step: u128) {
        match self {
            Self::Few(queue) => queue.set(id, key),
            Self::Lanes(queue) => queue.set_by(id, key, step),
        }
    }

    /// Returns the id that probably leaves after `by` others, if the queue was made with this query. It may be any id.
    #[must_use]
    #[inline(always)]
    pub(crate) fn ahead(&self, by: u32) -> Option<u32> {
        of_either!(self, queue => queue.ahead(by))
    }

    /// Prefetches the cache line of `id`, if there are many ids.
    #[inline(always)]
    pub(crate) fn prefetch(&self, id: u32) {
        if let Self::Lanes(queue) = self {
            queue.prefetch(id);
        }
    }

    /// Removes and returns the first id with its key.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(u32, u128)> {
        of_either!(self, queue => queue.pop())
    }

    /// Removes and returns the first id with its key, if the key is at most `most`.
    #[inline(always)]
    pub(crate) fn pop_by(&mut self, most: u128) -> Option<(u32, u128)> {
        self.first().filter(|&(_, key)| key <= most)?;
        self.pop()
    }

    /// Removes `id`. Returns its key, if it was in the queue.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: u32) -> Option<u128> {
        of_either!(self, queue => queue.remove(id))
    }

    /// Removes everything, and resets the sequence numbers.
    pub(crate) fn clear(&mut self) {
        of_either!(self, queue => queue.clear())
    }

    /// Lowers every key by the lesser of `amount` and the smallest key; returns the amount.
    pub(crate) fn lower(&mut self, amount: u128) -> u128 {
        of_either!(self, queue => queue.lower(amount))
    }

    /// Checks the queue's invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self) -> Result<(), String> {
        of_either!(self, queue => queue.check())
    }
}
