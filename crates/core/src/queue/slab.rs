//! Storage for the packets of all leaf queues of one scheduler: a slab of bounded size, and how much of it is in use.

use super::NIL;
use crate::contract::{Amount, OutOfMemory};
use crate::parts::memory::{Stack, bytes_of};

/// A packet behind a head, and which one follows it in its queue.
#[derive(Debug)]
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
    /// Room for `limit` packets.
    pub(super) fn new(limit: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { nodes: Stack::with_room(limit as usize)?, free: NIL, queued: 0, limit, bytes: 0 })
    }

    /// Bytes that one with room for `limit` packets takes.
    pub(super) const fn memory(limit: u32) -> u64 {
        bytes_of::<Node>(limit as usize)
    }

    /// A packet of `len` bytes is queued.
    #[inline(always)]
    pub(super) fn enter(&mut self, len: u32) {
        self.queued += 1;
        self.bytes += u64::from(len);
    }

    /// A packet of `len` bytes is queued no longer.
    #[inline(always)]
    pub(super) fn leave(&mut self, len: u32) {
        self.queued -= 1;
        self.bytes -= u64::from(len);
    }

    /// Has the room of `with`, in which nothing was ever queued. What it leaves there is to be dropped.
    pub(super) fn retune(&mut self, with: &mut Self) {
        self.nodes.take_room(&mut with.nodes);
        self.limit = with.limit;
    }

    /// What is queued.
    pub(super) fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.queued), bytes: self.bytes }
    }

    /// Whether no further packet can be queued.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.queued >= self.limit
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

    /// Takes a node back.
    #[inline(always)]
    pub(super) fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}
