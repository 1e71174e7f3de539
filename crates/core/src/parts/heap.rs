//! A priority queue of small ids: every id of `0..ids` is in it at most once, under a key that can be changed or taken back.
//!
//! Equal keys leave in the order in which they got that key, so that a run is the same each time.
//! A heap of arity four: as deep as half a binary one, and the children of a node lie on two cache lines.
//!
//! **Cost.** O(log n) for each change, O(1) for looking at the first and the second. Nothing is allocated after construction.
//!
//! **Invariants.** No entry comes before its parent; `place[id]` is where the entry of `id` is.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use super::memory::{Stack, bytes_of, filled};
use crate::contract::OutOfMemory;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u128,
    sequence: u64,
    id: u32,
}

impl Entry {
    fn before(&self, other: &Self) -> bool {
        (self.key, self.sequence) < (other.key, other.sequence)
    }
}

/// A heap whose first entry is the one with the smallest key, of these the one that got its key first.
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Stack<Entry>,
    place: Box<[u32]>,
    sequence: u64,
}

impl Heap {
    /// An empty heap for the ids `0..ids`, at most 2^32 - 1.
    pub(crate) fn new(ids: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { entries: Stack::with_room(ids)?, place: filled(ids, ABSENT)?, sequence: 0 })
    }

    /// Bytes that one for `ids` ids takes.
    pub(crate) const fn memory(ids: usize) -> u64 {
        bytes_of::<Entry>(ids) + bytes_of::<u32>(ids)
    }

    /// Ids in it.
    #[must_use]
    #[cfg(feature = "invariants")]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many ids it is for.
    #[must_use]
    pub(crate) fn ids(&self) -> u32 {
        self.place.len() as u32
    }

    /// Whether nothing is in it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `id` is in it.
    #[must_use]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.place.get(id as usize).is_some_and(|&place| place != ABSENT)
    }

    /// The key of `id`, if it is in it.
    #[must_use]
    pub(crate) fn key(&self, id: u32) -> Option<u128> {
        self.entries.get(*self.place.get(id as usize)? as usize).map(|entry| entry.key)
    }

    /// The first id and its key.
    #[must_use]
    #[inline]
    pub(crate) fn first(&self) -> Option<(u32, u128)> {
        self.entries.first().map(|entry| (entry.id, entry.key))
    }

    /// The id that would be first if the first were not in it, and its key.
    #[must_use]
    pub(crate) fn second(&self) -> Option<(u32, u128)> {
        let children = self.entries.get(1..self.entries.len().min(1 + ARITY))?;
        let second = children.iter().min_by_key(|entry| (entry.key, entry.sequence))?;
        Some((second.id, second.key))
    }

    /// Puts `id` in under `key`, or moves it there, behind those that have that key already.
    pub(crate) fn set(&mut self, id: u32, key: u128) {
        let entry = Entry { key, sequence: self.sequence, id };
        self.sequence += 1;
        let place = self.place[id as usize];
        if place == ABSENT {
            self.entries.push(entry);
            self.up(self.entries.len() - 1, entry);
        } else {
            self.settle(place as usize, entry);
        }
    }

    /// Takes out the first id, with its key.
    pub(crate) fn pop(&mut self) -> Option<(u32, u128)> {
        let first = self.first()?;
        self.remove(first.0);
        Some(first)
    }

    /// Takes `id` out; its key, if it was in.
    pub(crate) fn remove(&mut self, id: u32) -> Option<u128> {
        let place = core::mem::replace(self.place.get_mut(id as usize)?, ABSENT);
        if place == ABSENT {
            return None;
        }
        let place = place as usize;
        let key = self.entries[place].key;
        if let Some(last) = self.entries.pop()
            && place < self.entries.len()
        {
            self.settle(place, last);
        }
        Some(key)
    }

    /// Takes everything out, and forgets how many there were.
    pub(crate) fn clear(&mut self) {
        for entry in self.entries.iter() {
            self.place[entry.id as usize] = ABSENT;
        }
        self.entries.clear();
        self.sequence = 0;
    }

    /// Lowers every key by `amount`, or by the smallest key where that is less; returns by how much.
    pub(crate) fn lower(&mut self, amount: u128) -> u128 {
        let amount = self.first().map_or(amount, |(_, smallest)| smallest.min(amount));
        for entry in self.entries.iter_mut() {
            entry.key -= amount;
        }
        amount
    }

    /// Finds the place of `entry`, which replaces what is at `place`.
    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry.before(&self.entries[(place - 1) / ARITY]) {
            self.up(place, entry);
        } else {
            self.down(place, entry);
        }
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.place[entry.id as usize] = place as u32;
    }

    fn up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = ARITY * place + 1;
            let mut least = first;
            let Some(children) = self.entries.get(first..self.entries.len().min(first + ARITY)) else { break };
            let Some(mut smallest) = children.first() else { break };
            for (offset, child) in children.iter().enumerate().skip(1) {
                if child.before(smallest) {
                    smallest = child;
                    least = first + offset;
                }
            }
            if !smallest.before(&entry) {
                break;
            }
            self.put(place, *smallest);
            place = least;
        }
        self.put(place, entry);
    }

    /// Checks the heap's invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    #[cfg(feature = "invariants")]
    pub(crate) fn check(&self) -> Result<(), String> {
        for (place, entry) in self.entries.iter().enumerate() {
            if self.place[entry.id as usize] as usize != place {
                return Err(format!("id {} is at {place}, not at {}", entry.id, self.place[entry.id as usize]));
            }
            if place > 0 && entry.before(&self.entries[(place - 1) / ARITY]) {
                return Err(format!("id {} under {} comes before its parent", entry.id, entry.key));
            }
        }
        let present = self.place.iter().filter(|&&place| place != ABSENT).count();
        if present != self.entries.len() {
            return Err(format!("{present} ids have a place, {} entries", self.entries.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_leave_by_key_and_equal_keys_in_the_order_in_which_they_came(
            steps in proptest::collection::vec((0u32..40, 0u8..6, 0u128..8), 1..300)
        ) {
            let mut heap = Heap::new(40).unwrap();
            // The same as a sorted list of (key, number of the change, id).
            let mut model: Vec<(u128, usize, u32)> = Vec::new();
            for (number, (id, what, key)) in steps.into_iter().enumerate() {
                let known = model.iter().position(|entry| entry.2 == id);
                prop_assert_eq!(heap.key(id), known.map(|at| model[at].0));
                prop_assert_eq!(heap.contains(id), known.is_some());
                if what < 4 {
                    heap.set(id, key);
                    if let Some(at) = known {
                        model.remove(at);
                    }
                    model.push((key, number, id));
                    model.sort_unstable();
                } else if what == 4 {
                    prop_assert_eq!(heap.remove(id), known.map(|at| model.remove(at).0));
                } else {
                    let popped = if model.is_empty() { None } else { Some(model.remove(0)) };
                    prop_assert_eq!(heap.pop(), popped.map(|entry| (entry.2, entry.0)));
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.first(), model.first().map(|entry| (entry.2, entry.0)));
                prop_assert_eq!(heap.second(), model.get(1).map(|entry| (entry.2, entry.0)));
                prop_assert_eq!(heap.check(), Ok(()));
            }
        }
    }

    #[test]
    fn lowered_keys_keep_their_order_and_a_cleared_heap_is_empty() {
        let mut heap = Heap::new(3).unwrap();
        heap.set(2, 12);
        heap.set(0, 10);
        heap.set(1, 12);
        assert_eq!(heap.lower(99), 10);
        assert_eq!((heap.first(), heap.key(1)), (Some((0, 0)), Some(2)));
        assert_eq!((heap.pop(), heap.pop()), (Some((0, 0)), Some((2, 2))));
        heap.clear();
        assert!(heap.is_empty() && !heap.contains(1) && heap.second().is_none());
        assert_eq!((heap.remove(1), heap.remove(99), heap.key(99)), (None, None, None));
    }
}
