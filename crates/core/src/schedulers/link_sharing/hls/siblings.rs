//! Active siblings: of each inner class a list of its children that are active, in the order in which they became so.
//!
//! The lists are rings. So a class is linked in and taken out without an unpredictable branch for the first and the
//! last. Children of the root are in no list: the root distributes nothing in a surplus round.

use alloc::boxed::Box;

use crate::contract::OutOfMemory;
use crate::parts::memory::{bytes_of, slice};
use crate::parts::prefetch::prefetch;

/// Neighbours in a ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// The next element of a list.
pub(super) enum Next {
    /// A leaf.
    Leaf(u32),
    /// An inner class, by its index.
    Inner(u32),
    /// The end of the list.
    End,
}

/// The lists of all inner classes.
#[derive(Debug)]
pub(super) struct Siblings {
    /// By place: that of a leaf is its class, and each inner class has one for the ends of its list and one as a child.
    links: Box<[Link]>,
    /// Index of the first list end.
    ends: u32,
    /// Index of the first inner class as a child.
    inners: u32,
}

impl Siblings {
    /// Makes empty lists for a tree of `classes` classes, `inners` of them inner ones.
    pub(super) fn new(classes: usize, inners: usize) -> Result<Self, OutOfMemory> {
        let alone = |place: usize| Link { prev: place as u32, next: place as u32 };
        let links = slice(classes + 2 * inners, alone)?;
        Ok(Self { links, ends: classes as u32, inners: (classes + inners) as u32 })
    }

    /// Bytes that those of such a tree take.
    pub(super) fn memory(classes: usize, inners: usize) -> u64 {
        bytes_of::<Link>(classes + 2 * inners)
    }

    /// Place of the inner class `index` in its parent's list.
    #[inline(always)]
    pub(super) const fn place_of(&self, index: u32) -> u32 {
        self.inners + index
    }

    /// Appends the child at `place`, a leaf or [`Siblings::place_of`] an inner class, to the list of the inner class `parent`.
    #[inline(always)]
    pub(super) fn append(&mut self, parent: u32, place: u32) {
        let (links, end) = (&mut self.links[..], self.ends + parent);
        let last = core::mem::replace(&mut links[end as usize].prev, place);
        links[last as usize].next = place;
        links[place as usize] = Link { prev: last, next: end };
    }

    /// Removes the child at `place` from its list.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u32) {
        let links = &mut self.links[..];
        let Link { prev, next } = links[place as usize];
        links[prev as usize].next = next;
        links[next as usize].prev = prev;
    }

    /// Place of the end of the list of the inner class `index`: its first child comes after.
    #[inline(always)]
    pub(super) const fn end_of(&self, index: u32) -> u32 {
        self.ends + index
    }

    /// Returns the element after `place`.
    #[inline(always)]
    pub(super) fn after(&self, place: u32) -> Next {
        let next = self.links[place as usize].next;
        if next < self.ends {
            Next::Leaf(next)
        } else if next < self.inners {
            Next::End
        } else {
            Next::Inner(next - self.inners)
        }
    }

    /// Prefetches the neighbours of the child at `place`.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: u32) {
        prefetch(&self.links, place as usize);
    }

    /// Empties all lists.
    pub(super) fn clear(&mut self) {
        for (place, link) in (0u32..).zip(&mut self.links) {
            *link = Link { prev: place, next: place };
        }
    }
}
