//! A priority queue for few ids, as one sorted list.
//!
//! For few ids, a sorted list is cheaper than a tournament: an id that comes back goes to the end of the list, or a few
//! bytes move.
//!
//! **Cost.** O(1) to remove the first and to insert an id at either end; else O(ids), one byte moved per passed id, at
//! most half of them. Nothing is allocated after construction.
//!
//! **Invariants.** The list is sorted by key and then by age, and has exactly the members.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::contract::OutOfMemory;
use crate::parts::{
    memory::{bytes_of, filled},
    work::Work,
};

/// Most ids of such a queue: a bit of a word for each, and a byte of one cache line.
pub(super) const MOST: usize = 64;
const MASK: u32 = MOST as u32 - 1;

/// Like [`Heap`](super::Heap), for at most [`MOST`] ids.
#[derive(Debug)]
pub(crate) struct Few<W = ()> {
    /// Keys by id.
    keys: Box<[u128]>,
    /// The ids in it, a bit each.
    members: u64,
    /// Position of the first id in `order`; the length is `len`.
    head: u32,
    len: u32,
    /// Members in order, as a ring buffer.
    order: [u8; MOST],
    /// Places of the list that were filled or passed.
    work: W,
}

impl Few {
    pub(super) const fn memory(ids: usize) -> u64 {
        bytes_of::<u128>(ids)
    }
}

impl<W: Work> Few<W> {
    pub(super) fn new(ids: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { keys: filled(ids, 0)?, members: 0, head: 0, len: 0, order: [0; MOST], work: W::default() })
    }

    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> u64 {
        self.work.steps()
    }

    pub(super) fn ids(&self) -> u32 {
        self.keys.len() as u32
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn contains(&self, id: u32) -> bool {
        id < MOST as u32 && self.members >> id & 1 != 0
    }

    #[inline(always)]
    pub(super) fn key(&self, id: u32) -> Option<u128> {
        if self.contains(id) { Some(self.keys[id as usize]) } else { None }
    }

    /// Returns the id at `place` of the list.
    #[inline(always)]
    fn at(&self, place: u32) -> u32 {
        u32::from(self.order[(self.head.wrapping_add(place) & MASK) as usize])
    }

    #[inline(always)]
    fn put(&mut self, place: u32, id: u32) {
        self.work.add(1);
        self.order[(self.head.wrapping_add(place) & MASK) as usize] = id as u8;
    }

    #[inline(always)]
    fn with_key(&self, id: u32) -> (u32, u128) {
        (id, self.keys[id as usize])
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<(u32, u128)> {
        if self.len == 0 { None } else { Some(self.with_key(self.at(0))) }
    }

    #[inline(always)]
    pub(super) fn second(&self) -> Option<(u32, u128)> {
        if self.len < 2 { None } else { Some(self.with_key(self.at(1))) }
    }

    #[inline(always)]
    pub(super) fn ahead(&self, by: u32) -> Option<u32> {
        if by < self.len { Some(self.at(by)) } else { None }
    }

    #[inline(always)]
    pub(super) fn last_key(&self) -> Option<u128> {
        if self.len == 0 { None } else { Some(self.keys[self.at(self.len - 1) as usize]) }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, id: u32, key: u128) {
        if self.contains(id) {
            self.unlink(id);
        }
        self.members |= 1 << id;
        self.keys[id as usize] = key;
        if self.len == 0 || self.keys[self.at(self.len - 1) as usize] <= key {
            self.put(self.len, id);
            self.len += 1;
        } else {
            self.insert(id, key);
        }
    }

    /// Inserts `id`, which comes before the last, into the list, from the nearer end.
    #[inline(never)]
    fn insert(&mut self, id: u32, key: u128) {
        let (mut place, middle) = (self.len, self.len / 2);
        self.len += 1;
        if self.keys[self.at(middle) as usize] <= key {
            while self.keys[self.at(place - 1) as usize] > key {
                self.put(place, self.at(place - 1));
                place -= 1;
            }
        } else {
            self.head = self.head.wrapping_sub(1);
            place = 0;
            while self.keys[self.at(place + 1) as usize] <= key {
                self.put(place, self.at(place + 1));
                place += 1;
            }
        }
        self.put(place, id);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(u32, u128)> {
        let first = self.first()?;
        self.members &= !(1 << first.0);
        self.drop_first();
        Some(first)
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, id: u32) -> Option<u128> {
        let key = self.key(id)?;
        self.members &= !(1 << id);
        self.unlink(id);
        Some(key)
    }

    #[inline(always)]
    fn drop_first(&mut self) {
        self.work.add(1);
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
    }

    /// Removes `id` from the list.
    #[inline(always)]
    fn unlink(&mut self, id: u32) {
        if self.at(0) == id {
            self.drop_first();
        } else {
            self.unlink_within(id);
        }
    }

    #[inline(never)]
    fn unlink_within(&mut self, id: u32) {
        let mut place = (1..self.len).find(|&place| self.at(place) == id).unwrap_or(0);
        self.work.add(u64::from(place));
        if place >= self.len / 2 {
            for place in place + 1..self.len {
                self.put(place - 1, self.at(place));
            }
            self.len -= 1;
            return;
        }
        while place > 0 {
            self.put(place, self.at(place - 1));
            place -= 1;
        }
        self.drop_first();
    }

    pub(super) fn clear(&mut self) {
        (self.members, self.head, self.len) = (0, 0, 0);
    }

    pub(super) fn lower(&mut self, amount: u128) -> u128 {
        let amount = self.first().map_or(amount, |(_, smallest)| smallest.min(amount));
        for place in 0..self.len {
            self.keys[self.at(place) as usize] -= amount;
        }
        amount
    }

    #[cfg(feature = "invariants")]
    pub(super) fn check(&self) -> Result<(), String> {
        let listed = (0..self.len).fold(0u64, |listed, place| listed | 1 << self.at(place));
        if listed != self.members || listed.count_ones() != self.len {
            return Err(format!("{} ids {listed:#x} in the list, members {:#x}", self.len, self.members));
        }
        let key = |place| self.keys[self.at(place) as usize];
        match (1..self.len).find(|&place| key(place - 1) > key(place)) {
            Some(place) => Err(format!("id {} under {} at place {place}", self.at(place), key(place))),
            None => Ok(()),
        }
    }
}
