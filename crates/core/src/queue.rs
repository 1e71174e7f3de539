//! Leaf queues with packet and byte limits whose packets live in one slab of bounded size.
//!
//! A [`LeafQueue`] is 40 bytes, so that a scheduler can keep it on one cache line together with its own state of the leaf.
//! It holds the head packet itself; only the packets behind the head are in the [`PacketSlab`]. A queue of one packet, which
//! is what most active classes of a large tree have, never touches the slab.
//!
//! Behind the head there may be an active queue instead of a FIFO: CoDel or FQ-CoDel. It decides what becomes the head, so
//! that the head is a promise all the same; what it needs beyond that is in a table that exists only where a class asks for one.
//! A scheduler that hands over time and drops ([`LeafQueue::enqueue`], [`LeafQueue::dequeue`]) need not know which it is.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::contract::{Amount, ClassId, DropReason, DropSink, Hierarchy, Nanos, Packet, QueueLimits};

mod active;
#[cfg(test)]
mod active_tests;
mod codel;
#[cfg(test)]
mod tests;

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Node {
    handle: u64,
    len: u32,
    next: u32,
}

/// Storage for the packets of all leaf queues of one scheduler. Its bound is set at construction; memory is reserved then
/// and touched as it is used.
#[derive(Debug)]
pub(crate) struct PacketSlab {
    nodes: Vec<Node>,
    free: u32,
    queued: u32,
    limit: u32,
    bytes: u64,
    /// Only where a class asks for an active queue.
    active: Option<Box<active::Table>>,
}

impl PacketSlab {
    /// Room for `limit` packets in all queues together, which are FIFOs.
    #[must_use]
    pub(crate) fn new(limit: u32) -> Self {
        Self { nodes: Vec::with_capacity(limit as usize), free: NIL, queued: 0, limit, bytes: 0, active: None }
    }

    /// Room for the queues of a scheduler for `tree`, which are as its leaves ask for them; see [`PacketSlab::queue_for`].
    #[must_use]
    pub(crate) fn for_tree(tree: &Hierarchy) -> Self {
        Self { active: active::Table::new(tree), ..Self::new(tree.link().max_queued) }
    }

    /// The queue of `class` of `tree`, for which the slab was made. That of a class that is not a leaf takes nothing.
    #[must_use]
    pub(crate) fn queue_for(&mut self, tree: &Hierarchy, class: ClassId) -> LeafQueue {
        if !tree.is_leaf(class) {
            return LeafQueue::new(QueueLimits { packets: 0, bytes: 0 });
        }
        let config = tree.config(class);
        let active = self.active.as_mut().map_or(NIL, |table| table.add(config));
        LeafQueue { active, ..LeafQueue::new(config.limits) }
    }

    /// Packets in all queues together, heads included.
    #[must_use]
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    /// Accounted bytes in all queues together.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is queued in all queues together.
    #[must_use]
    pub(crate) fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.queued), bytes: self.bytes }
    }

    /// Whether no further packet can be queued.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.queued >= self.limit
    }

    #[inline(always)]
    fn insert(&mut self, handle: u64, len: u32) -> u32 {
        let node = Node { handle, len, next: NIL };
        if self.free == NIL {
            // Never beyond the capacity reserved: `queued < limit` was checked by the caller.
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

    #[inline(always)]
    fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}

/// One leaf's queue. Belongs to exactly one [`PacketSlab`], which every call is handed.
#[derive(Debug)]
pub(crate) struct LeafQueue {
    head_handle: u64,
    head_len: u32,
    packets: u32,
    bytes: u32,
    second: u32,
    tail: u32,
    limit_packets: u32,
    limit_bytes: u32,
    /// Its number in the slab's table of active queues; [`NIL`] for a FIFO.
    active: u32,
}

impl LeafQueue {
    /// An empty FIFO.
    #[must_use]
    pub(crate) const fn new(limits: QueueLimits) -> Self {
        Self {
            head_handle: 0,
            head_len: 0,
            packets: 0,
            bytes: 0,
            second: NIL,
            tail: NIL,
            limit_packets: limits.packets,
            limit_bytes: limits.bytes,
            active: NIL,
        }
    }

    /// Whether it is a FIFO, and not an active queue.
    #[must_use]
    #[inline]
    pub(crate) const fn is_fifo(&self) -> bool {
        self.active == NIL
    }

    /// Whether nothing is queued.
    #[must_use]
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// What is queued.
    #[must_use]
    pub(crate) fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.packets), bytes: u64::from(self.bytes) }
    }

    /// Length of the packet that [`LeafQueue::dequeue`] returns next, whatever is queued meanwhile.
    #[must_use]
    #[inline]
    pub(crate) const fn head_len(&self) -> Option<u32> {
        if self.packets == 0 { None } else { Some(self.head_len) }
    }

    /// Handle of the packet that [`LeafQueue::dequeue`] returns next, whatever is queued meanwhile.
    #[must_use]
    #[inline]
    pub(crate) const fn head_handle(&self) -> Option<u64> {
        if self.packets == 0 { None } else { Some(self.head_handle) }
    }

    /// Takes a packet in, or drops it; an active queue may drop others to make room. Whether it was taken in: only then can a queue
    /// that was empty have become one that is not.
    #[inline(always)]
    pub(crate) fn enqueue(
        &mut self,
        slab: &mut PacketSlab,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink,
    ) -> bool {
        if self.active != NIL {
            return self.enqueue_active(slab, now, packet, drops);
        }
        match self.push(slab, packet) {
            Ok(()) => true,
            Err((packet, reason)) => {
                drops.dropped(now, packet, reason);
                false
            }
        }
    }

    /// Takes out the head packet, which belongs to `class`. An active queue may then drop others on its way to the next head; that
    /// never empties it.
    #[inline(always)]
    pub(crate) fn dequeue(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        now: Nanos,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        self.dequeue_within(slab, class, u64::MAX, now, drops)
    }

    /// As [`LeafQueue::dequeue`], but nothing where the head is longer than `max_len` bytes.
    #[inline(always)]
    pub(crate) fn dequeue_within(
        &mut self,
        slab: &mut PacketSlab,
        class: ClassId,
        max_len: u64,
        now: Nanos,
        drops: &mut dyn DropSink,
    ) -> Option<Packet> {
        if self.packets == 0 || u64::from(self.head_len) > max_len {
            return None;
        }
        if self.active != NIL {
            return Some(self.dequeue_active(slab, class, Some(now), drops));
        }
        Some(self.take_head(slab, class))
    }

    /// Drops all packets, which belong to `class`, in the order in which they would have left.
    pub(crate) fn purge(&mut self, slab: &mut PacketSlab, class: ClassId, now: Nanos, drops: &mut dyn DropSink) {
        while self.packets > 0 {
            let packet = if self.active == NIL {
                self.take_head(slab, class)
            } else {
                self.dequeue_active(slab, class, None, drops)
            };
            drops.dropped(now, packet, DropReason::Purged);
        }
        if self.active != NIL {
            self.reset_active(slab);
        }
    }

    /// Appends a packet to a FIFO.
    ///
    /// # Errors
    /// The packet itself and the limit that it would exceed; the queue is unchanged then.
    #[inline(always)]
    pub(crate) fn push(&mut self, slab: &mut PacketSlab, packet: Packet) -> Result<(), (Packet, DropReason)> {
        let bytes = u64::from(self.bytes) + u64::from(packet.len);
        if self.is_over(slab, bytes) {
            let reason = self.refusal(slab, bytes);
            return Err((packet, reason));
        }
        slab.queued += 1;
        slab.bytes += u64::from(packet.len);
        self.packets += 1;
        // Not above the limit.
        self.bytes = bytes as u32;
        if self.packets == 1 {
            self.head_handle = packet.handle;
            self.head_len = packet.len;
            return Ok(());
        }
        let node = slab.insert(packet.handle, packet.len);
        if self.packets == 2 {
            self.second = node;
        } else {
            slab.nodes[self.tail as usize].next = node;
        }
        self.tail = node;
        Ok(())
    }

    /// Whether one more packet, with which there are `bytes`, would exceed a limit.
    #[inline(always)]
    fn is_over(&self, slab: &PacketSlab, bytes: u64) -> bool {
        self.packets >= self.limit_packets || bytes > u64::from(self.limit_bytes) || slab.is_full()
    }

    #[cold]
    fn refusal(&self, slab: &PacketSlab, bytes: u64) -> DropReason {
        if self.packets >= self.limit_packets {
            DropReason::QueuePackets
        } else if bytes > u64::from(self.limit_bytes) {
            DropReason::QueueBytes
        } else {
            debug_assert!(slab.is_full());
            DropReason::TotalPackets
        }
    }

    /// Removes the head packet of a FIFO, which belongs to `class`.
    #[inline(always)]
    pub(crate) fn pop(&mut self, slab: &mut PacketSlab, class: ClassId) -> Option<Packet> {
        if self.packets == 0 {
            return None;
        }
        Some(self.take_head(slab, class))
    }

    /// As [`LeafQueue::pop`], but nothing where the head is longer than `max_len` bytes.
    #[inline(always)]
    pub(crate) fn pop_within(&mut self, slab: &mut PacketSlab, class: ClassId, max_len: u64) -> Option<Packet> {
        if self.packets == 0 || u64::from(self.head_len) > max_len {
            return None;
        }
        Some(self.take_head(slab, class))
    }

    #[inline(always)]
    fn take_head(&mut self, slab: &mut PacketSlab, class: ClassId) -> Packet {
        let packet = Packet { handle: self.head_handle, len: self.head_len, class };
        self.packets -= 1;
        self.bytes -= packet.len;
        slab.queued -= 1;
        slab.bytes -= u64::from(packet.len);
        if self.packets > 0 {
            let index = self.second;
            let node = &slab.nodes[index as usize];
            self.head_handle = node.handle;
            self.head_len = node.len;
            self.second = node.next;
            slab.release(index);
        }
        packet
    }
}

const _: () = assert!(size_of::<LeafQueue>() == 40);
