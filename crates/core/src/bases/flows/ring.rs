//! Rings of leaves to visit in turn.

use alloc::boxed::Box;

use super::Flows;
use crate::contract::{Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled};
use crate::parts::prefetch::prefetch;
use crate::queue::PacketSlab;

/// Prefetch distance for leaves, in visits ...
const LEAVES_AHEAD: u32 = 64;
/// ... and the packets behind their heads half as far ahead, when the leaves are there.
const PACKETS_AHEAD: u32 = 32;

/// Leaves in the order in which they are visited. It has contiguous room for all leaves, so that coming visits are
/// known long in advance.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Its length is a power of two.
    places: Box<[u32]>,
    /// Position of the first and number of leaves; positions count on and are taken modulo the length.
    head: u32,
    len: u32,
    /// Positions up to which leaves and packets were prefetched.
    asked: [u32; 2],
}

/// Places of a ring for the leaves of `tree`.
fn room(tree: &Hierarchy) -> usize {
    tree.leaves().len().next_power_of_two()
}

impl Ring {
    /// Makes a ring without leaves, with room for all of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Ok(Self { places: filled(room(tree), 0)?, head: 0, len: 0, asked: [0; 2] })
    }

    /// Bytes that one for the leaves of `tree` takes.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<u32>(room(tree))
    }

    /// Leaves in it.
    #[must_use]
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if the ring is empty.
    #[must_use]
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index of the leaf `by` places behind the first.
    #[inline(always)]
    fn place(&self, by: u32) -> usize {
        self.head.wrapping_add(by) as usize & (self.places.len() - 1)
    }

    /// Returns the leaf of the next visit.
    #[must_use]
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        if self.len == 0 { None } else { Some(self.places[self.place(0)]) }
    }

    /// Appends a leaf that is in no ring.
    #[inline(always)]
    pub(crate) fn push(&mut self, flow: u32) {
        debug_assert!((self.len as usize) < self.places.len(), "class {flow} is in a ring already");
        let end = self.place(self.len);
        self.places[end] = flow;
        self.len += 1;
    }

    /// Makes the first the last.
    #[inline(always)]
    pub(crate) fn rotate(&mut self) {
        if let Some(first) = self.pop() {
            self.push(first);
        }
    }

    /// Removes and returns the first leaf.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some(first)
    }

    /// Removes a leaf at any position. Returns true if it was in the ring. O(n).
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let Some(at) = (0..self.len).find(|&at| self.places[self.place(at)] == flow) else { return false };
        for at in at + 1..self.len {
            let (from, to) = (self.place(at), self.place(at - 1));
            self.places[to] = self.places[from];
        }
        self.len -= 1;
        true
    }

    /// Removes all leaves.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the leaves of the ring, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len).map(|at| self.places[self.place(at)])
    }

    /// Calls `visit` with each leaf in it, its state and its head packet's length, from the first on.
    #[inline]
    pub(crate) fn for_each<S>(&self, flows: &mut Flows<S>, mut visit: impl FnMut(u32, &mut S, u32)) {
        for at in self.iter() {
            let flow = &mut flows.flows[at as usize];
            visit(at, &mut flow.state, flow.queue.head_len().unwrap_or(0));
        }
    }

    /// Opens it for a run of visits.
    #[inline(always)]
    pub(super) fn open(&mut self) -> OpenRing<'_> {
        let Self { places, head, len, .. } = self;
        OpenRing { places, head: *head, len: *len, home: (head, len) }
    }

    /// Prefetches for the next visits, as far as not yet done.
    #[inline]
    pub(super) fn look_ahead<S>(&mut self, flows: &[super::Flow<S>], slab: &PacketSlab) {
        let [leaves, packets] = [LEAVES_AHEAD, PACKETS_AHEAD].map(|most| most.min(self.len));
        let [leaves_asked, packets_asked] = self.asked.map(|asked| asked.wrapping_sub(self.head));
        // Prefetches for places that are gone no longer count.
        let from = |asked: u32, most| if asked > most { 0 } else { asked };
        for at in from(leaves_asked, leaves)..leaves {
            prefetch(flows, self.places[self.place(at)] as usize);
        }
        for at in from(packets_asked, packets)..packets {
            slab.prefetch_second(&flows[self.places[self.place(at)] as usize].queue);
        }
        self.asked = [leaves, packets].map(|end| self.head.wrapping_add(end));
    }
}

/// A ring that is open for a run of visits: its places as a slice, and its start and end in registers.
/// [`OpenRing::close`] closes it.
pub(super) struct OpenRing<'a> {
    places: &'a mut [u32],
    head: u32,
    len: u32,
    home: (&'a mut u32, &'a mut u32),
}

impl OpenRing<'_> {
    #[inline(always)]
    fn place(&mut self, at: u32) -> Option<&mut u32> {
        let last = self.places.len().wrapping_sub(1);
        self.places.get_mut(at as usize & last)
    }

    /// Like [`Ring::first`].
    #[inline(always)]
    pub(super) fn first(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.place(self.head).copied()
    }

    /// Makes `first`, which is the first, the last.
    #[inline(always)]
    pub(super) fn rotate(&mut self, first: u32) {
        if let Some(end) = self.place(self.head.wrapping_add(self.len)) {
            *end = first;
        }
        self.head = self.head.wrapping_add(1);
    }

    /// Removes the first leaf.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
    }

    /// Closes it.
    #[inline(always)]
    pub(super) fn close(self) {
        (*self.home.0, *self.home.1) = (self.head, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bases::flows::tests::flows;
    use crate::test_link::{flat, weighted};
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rings_are_lists_wherever_they_begin(
            start in prop_oneof![Just(0u32), any::<u32>(), Just(u32::MAX - 2)],
            steps in prop::collection::vec((0u8..6, 1u32..=6), 1..200),
        ) {
            let mut flows = flows(6);
            let mut ring = Ring::new(&flat((0..6).map(|_| weighted(1)))).unwrap();
            ring.head = start;
            let mut model = VecDeque::new();
            for (what, flow) in steps {
                match what {
                    0 | 1 if !model.contains(&flow) => {
                        ring.push(flow);
                        model.push_back(flow);
                    }
                    0..=2 => prop_assert_eq!(ring.pop(), model.pop_front()),
                    3 => {
                        ring.rotate();
                        if !model.is_empty() {
                            model.rotate_left(1);
                        }
                    }
                    4 => {
                        let place = model.iter().position(|&listed| listed == flow);
                        prop_assert_eq!(ring.remove(flow), place.is_some());
                        place.and_then(|place| model.remove(place));
                    }
                    _ => ring.look_ahead(&flows.flows, &flows.slab),
                }
                prop_assert!(ring.iter().eq(model.iter().copied()), "{:?}, {:?}", ring, model);
                prop_assert_eq!((ring.len() as usize, ring.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(ring.first(), model.front().copied());
                let mut visited = VecDeque::new();
                ring.for_each(&mut flows, |flow, (), len| visited.push_back((flow, len)));
                prop_assert!(visited.into_iter().eq(model.iter().map(|&flow| (flow, 1))));
                #[cfg(feature = "invariants")]
                prop_assert_eq!(flows.check(ring.iter(), 0).is_ok(), model.len() == 6);
            }
        }
    }
}
