//! Memory that may be refused, and containers that never grow.
//!
//! A scheduler allocates all its memory when it is built, through the functions here, and gets [`OutOfMemory`] on
//! failure. A container whose length changes afterwards is a [`Stack`] or a [`Queue`] with capacity for the maximum. A
//! push beyond that is a bug and not a larger allocation.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::contract::memory::OutOfMemory;

/// Bytes that `len` entries take.
pub(crate) const fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

fn refused<T>(len: usize) -> OutOfMemory {
    OutOfMemory { bytes: bytes_of::<T>(len) }
}

/// Makes an empty vector with room for exactly `len` entries.
pub(crate) fn room<T>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| refused::<T>(len))?;
    Ok(all)
}

/// Steps of a long loop between two requests of [`pause`].
const PAUSE_EVERY: usize = 512;

/// Allocates and frees a byte, once in 512 steps of a loop over many classes during construction; `step` counts them.
/// An allocator may let other tasks run then. That of the kernel does, where such a loop would otherwise keep a
/// processor for milliseconds. A refusal is ignored.
pub fn pause(step: usize) {
    if step % PAUSE_EVERY == PAUSE_EVERY - 1 {
        let mut byte = Vec::<u8>::new();
        let _ = byte.try_reserve_exact(1);
        // Prevents the compiler from removing the allocation.
        core::hint::black_box(byte);
    }
}

/// Makes `len` entries, each from its index.
pub(crate) fn slice<T>(len: usize, mut make: impl FnMut(usize) -> T) -> Result<Box<[T]>, OutOfMemory> {
    let mut all = room(len)?;
    all.extend((0..len).map(|index| {
        pause(index);
        make(index)
    }));
    // Capacity equals length, so that nothing is reallocated.
    Ok(all.into_boxed_slice())
}

/// Makes `len` copies of `value`.
pub(crate) fn filled<T: Copy>(len: usize, value: T) -> Result<Box<[T]>, OutOfMemory> {
    let mut all = room(len)?;
    all.resize(len, value);
    Ok(all.into_boxed_slice())
}

/// Makes a box with a fallible allocation. Stable Rust has no `Box::try_new`, but a vector of one entry can fail.
pub(crate) fn one<T>(value: T) -> Result<Box<[T; 1]>, OutOfMemory> {
    let mut all = room(1)?;
    all.push(value);
    <Box<[T; 1]>>::try_from(all.into_boxed_slice()).map_err(|_| refused::<T>(1))
}

/// Entries that come and go at the end, at most as many as there is room for.
#[derive(Debug)]
pub(crate) struct Stack<T>(Vec<T>);

impl<T> Stack<T> {
    /// Makes an empty value with room for `room` entries.
    pub(crate) fn with_room(most: usize) -> Result<Self, OutOfMemory> {
        Ok(Self(room(most)?))
    }

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        if self.0.len() == self.0.capacity() {
            beyond_room();
        }
        self.0.push(value);
    }

    /// Returns true if there is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }

    /// Removes and returns all entries from the first on.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.0.drain(..)
    }

    /// Keeps the first `len` entries. Takes at least the room of `other`, which is empty. The remains in `other` are to
    /// be dropped.
    pub(crate) fn take_room(&mut self, other: &mut Self) {
        if other.0.capacity() > self.0.capacity() {
            other.0.append(&mut self.0);
            core::mem::swap(&mut self.0, &mut other.0);
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T: Ord> Stack<T> {
    /// Returns the entries in ascending order. Sorts in place and without recursion, because a kernel's stack is short
    /// and an adversary may choose the order of classes.
    pub(crate) fn into_sorted(self) -> Vec<T> {
        BinaryHeap::from(self.0).into_sorted_vec()
    }
}

impl<T> Deref for Stack<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Stack<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// First in, first out, at most as many as there is room for.
#[derive(Debug)]
pub(crate) struct Queue<T>(VecDeque<T>);

impl<T> Queue<T> {
    /// Makes an empty value with room for `room` entries.
    pub(crate) fn with_room(most: usize) -> Result<Self, OutOfMemory> {
        let mut all = VecDeque::new();
        all.try_reserve_exact(most).map_err(|_| refused::<T>(most))?;
        Ok(Self(all))
    }

    /// Appends an entry.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if self.0.len() == self.0.capacity() {
            beyond_room();
        }
        self.0.push_back(value);
    }

    /// Puts an entry before all others.
    #[cfg(feature = "shared")]
    pub(crate) fn push_front(&mut self, value: T) {
        if self.0.len() == self.0.capacity() {
            beyond_room();
        }
        self.0.push_front(value);
    }

    /// Returns the entries in their order.
    #[cfg(feature = "shared")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Removes and returns the first entry.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    /// Takes at least the room of `other`, which is empty. The remains in `other` are to be dropped.
    pub(crate) fn take_room(&mut self, other: &mut Self) {
        if other.0.capacity() > self.0.capacity() {
            other.0.append(&mut self.0);
            core::mem::swap(&mut self.0, &mut other.0);
        }
    }

    /// Entries in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the container is empty.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cold]
#[inline(never)]
fn beyond_room() -> ! {
    panic!("more entries than were counted at construction");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_had_is_an_error_with_its_bytes() {
        let huge = usize::MAX / 16;
        assert_eq!(filled(huge, 0u64).unwrap_err(), OutOfMemory { bytes: huge as u64 * 8 });
        assert_eq!(Stack::<[u8; 32]>::with_room(huge).unwrap_err(), OutOfMemory { bytes: u64::MAX });
        assert!(Queue::<u64>::with_room(huge).is_err());
    }

    #[test]
    fn entries_are_sorted_where_they_are() {
        let mut stack = Stack::with_room(1000).unwrap();
        (0..1000u64).for_each(|value| stack.push(value * 7919 % 1000));
        let sorted = stack.into_sorted();
        assert_eq!((sorted.capacity(), sorted.len()), (1000, 1000));
        assert!((0..1000).eq(sorted));
    }

    #[test]
    #[should_panic(expected = "more entries than were counted")]
    fn a_stack_does_not_grow() {
        let mut stack = Stack::with_room(2).unwrap();
        (0..3u64).for_each(|value| stack.push(value));
    }
}
