//! Storage for the packets of all leaf queues of one scheduler: a slab of bounded size.

use super::NIL;
use crate::contract::{Amount, OutOfMemory};
use crate::parts::memory::{Stack, bytes_of};

/// A packet behind a head, and which one follows it in its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) handle: u64,
    pub(super) len: u32,
    pub(super) next: u32,
}

/// Storage whose bound is set at construction; memory is reserved then and touched as it is used.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) nodes: Stack<Node>,
    free: u32,
    /// Packets in all queues together, heads included.
    pub(super) queued: u32,
    limit: u32,
    /// Accounted bytes in all queues together.
    pub(super) bytes: u64,
}

impl Slab {
    /// Makes room for `limit` packets.
    pub(super) fn new(limit: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { nodes: Stack::with_room(limit as usize)?, free: NIL, queued: 0, limit, bytes: 0 })
    }

    /// Bytes that one with room for `limit` packets takes.
    pub(super) const fn memory(limit: u32) -> u64 {
        bytes_of::<Node>(limit as usize)
    }

    /// Counts a packet of `len` bytes that joins the queue.
    #[inline(always)]
    pub(super) fn enter(&mut self, len: u32) {
        self.queued += 1;
        self.bytes += u64::from(len);
    }

    /// Counts a packet of `len` bytes that leaves the queue.
    #[inline(always)]
    pub(super) fn leave(&mut self, len: u32) {
        self.queued -= 1;
        self.bytes -= u64::from(len);
    }

    /// Takes the room of `with`, which was never used. The remains in `with` are to be dropped.
    pub(super) fn retune(&mut self, with: &mut Self) {
        self.nodes.take_room(&mut with.nodes);
        self.limit = with.limit;
    }

    /// Takes the packets of `old`, and at least its own room. It was never used. The remains in `old` are to be
    /// dropped.
    pub(super) fn take_over(&mut self, old: &mut Self) {
        old.retune(self);
        core::mem::swap(self, old);
    }

    /// Returns the amount queued.
    pub(super) fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.queued), bytes: self.bytes }
    }

    /// Returns true if no further packet can be queued.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.queued >= self.limit
    }

    /// Number of packets that can still be queued.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.limit.saturating_sub(self.queued)
    }

    /// Stores a packet that is not the head of its queue; its node.
    #[inline(always)]
    pub(super) fn insert(&mut self, handle: u64, len: u32) -> u32 {
        let node = Node { handle, len, next: NIL };
        if self.free == NIL {
            // Never beyond the room: `queued < limit` was checked by the caller.
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let index = self.free;
            let slot = &mut self.nodes[index as usize];
            self.free = slot.next;
            *slot = node;
            index
        }
    }

    /// Opens it for a run of packets, of which `arriving` are queued. There must be room for these.
    #[inline(always)]
    pub(super) fn open(&mut self, arriving: u32) -> OpenSlab<'_> {
        // If there are as many nodes as packets, enough are free: a loop over packets need not ask for each of them.
        let needed = (self.queued + arriving) as usize;
        if arriving > 0 && self.nodes.len() < needed {
            self.grow(needed);
        }
        let Self { nodes, free, queued, bytes, .. } = self;
        OpenSlab { nodes, free: *free, home: (free, queued, bytes) }
    }

    /// Extends to at least `needed` nodes; new ones are free.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) {
        let first = self.nodes.len() as u32;
        for next in first + 1..needed as u32 {
            self.nodes.push(Node { handle: 0, len: 0, next });
        }
        self.nodes.push(Node { handle: 0, len: 0, next: self.free });
        self.free = first;
    }

    /// Takes a node back.
    #[inline(always)]
    pub(super) fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}

/// A slab that is open for a run of packets: its nodes as a slice, and the free head in a register. The loops over plain leaves
/// take half the instructions so. [`OpenSlab::enter`] or [`OpenSlab::leave`] closes it.
pub(crate) struct OpenSlab<'a> {
    pub(super) nodes: &'a mut [Node],
    free: u32,
    /// The slab's free head, packets and bytes.
    home: (&'a mut u32, &'a mut u32, &'a mut u64),
}

impl OpenSlab<'_> {
    /// Like [`Slab::insert`].
    #[inline(always)]
    pub(super) fn insert(&mut self, handle: u64, len: u32) -> u32 {
        let index = self.free;
        let slot = &mut self.nodes[index as usize];
        self.free = slot.next;
        *slot = Node { handle, len, next: NIL };
        index
    }

    /// Removes a node and moves it to `place`.
    #[inline(always)]
    pub(super) fn remove(&mut self, index: u32, place: &mut Node) {
        let slot = &mut self.nodes[index as usize];
        *place = *slot;
        slot.next = self.free;
        self.free = index;
    }

    /// Closes it: `packets` of `bytes` bytes were queued.
    #[inline(always)]
    pub(crate) fn enter(self, packets: u32, bytes: u64) {
        *self.home.0 = self.free;
        *self.home.1 += packets;
        *self.home.2 += bytes;
    }

    /// Closes it: `packets` of `bytes` bytes are queued no longer.
    #[inline(always)]
    pub(crate) fn leave(self, packets: u32, bytes: u64) {
        *self.home.0 = self.free;
        *self.home.1 -= packets;
        *self.home.2 -= bytes;
    }
}
