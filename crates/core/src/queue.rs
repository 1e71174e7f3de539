//! Leaf queues: FIFOs with packet and byte limits whose packets live in one slab of bounded size.
//!
//! A [`LeafQueue`] is 40 bytes, so that a scheduler can keep it on one cache line together with its own state of the leaf.
//! It holds the head packet itself; only the packets behind the head are in the [`PacketSlab`]. A queue of one packet, which
//! is what most active classes of a large tree have, never touches the slab.

use alloc::vec::Vec;

use crate::hierarchy::QueueLimits;
use crate::packet::{ClassId, Packet};
use crate::scheduler::{Backlog, DropReason};

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
pub struct PacketSlab {
    nodes: Vec<Node>,
    free: u32,
    queued: u32,
    limit: u32,
}

impl PacketSlab {
    /// Room for `limit` packets in all queues together.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { nodes: Vec::with_capacity(limit as usize), free: NIL, queued: 0, limit }
    }

    /// Packets in all queues together, heads included.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// Whether no further packet can be queued.
    #[must_use]
    pub fn is_full(&self) -> bool {
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
}

/// One leaf's FIFO. Belongs to exactly one [`PacketSlab`], which every call is handed.
#[derive(Debug)]
pub struct LeafQueue {
    head_handle: u64,
    head_len: u32,
    packets: u32,
    bytes: u32,
    second: u32,
    tail: u32,
    limit_packets: u32,
    limit_bytes: u32,
}

impl LeafQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new(limits: QueueLimits) -> Self {
        Self {
            head_handle: 0,
            head_len: 0,
            packets: 0,
            bytes: 0,
            second: NIL,
            tail: NIL,
            limit_packets: limits.packets,
            limit_bytes: limits.bytes,
        }
    }

    /// Whether nothing is queued.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// What is queued.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: u64::from(self.packets), bytes: u64::from(self.bytes) }
    }

    /// Length of the packet that [`LeafQueue::pop`] returns next.
    #[must_use]
    #[inline]
    pub const fn head_len(&self) -> Option<u32> {
        if self.packets == 0 { None } else { Some(self.head_len) }
    }

    /// Handle of the packet that [`LeafQueue::pop`] returns next.
    #[must_use]
    #[inline]
    pub const fn head_handle(&self) -> Option<u64> {
        if self.packets == 0 { None } else { Some(self.head_handle) }
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// The packet itself and the limit that it would exceed; the queue is unchanged then.
    #[inline(always)]
    pub fn push(&mut self, slab: &mut PacketSlab, packet: Packet) -> Result<(), (Packet, DropReason)> {
        let (bytes, overflow) = self.bytes.overflowing_add(packet.len);
        if self.packets >= self.limit_packets || overflow || bytes > self.limit_bytes || slab.is_full() {
            let reason = self.refusal(slab, bytes, overflow);
            return Err((packet, reason));
        }
        slab.queued += 1;
        self.packets += 1;
        self.bytes = bytes;
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

    #[cold]
    fn refusal(&self, slab: &PacketSlab, bytes: u32, overflow: bool) -> DropReason {
        if self.packets >= self.limit_packets {
            DropReason::QueuePackets
        } else if overflow || bytes > self.limit_bytes {
            DropReason::QueueBytes
        } else {
            debug_assert!(slab.is_full());
            DropReason::TotalPackets
        }
    }

    /// Removes the head packet, which belongs to `class`.
    #[inline(always)]
    pub fn pop(&mut self, slab: &mut PacketSlab, class: ClassId) -> Option<Packet> {
        if self.packets == 0 {
            return None;
        }
        Some(self.take_head(slab, class))
    }

    /// As [`LeafQueue::pop`], but nothing where the head is longer than `max_len` bytes.
    #[inline(always)]
    pub fn pop_within(&mut self, slab: &mut PacketSlab, class: ClassId, max_len: u64) -> Option<Packet> {
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
        if self.packets > 0 {
            let index = self.second;
            let node = &mut slab.nodes[index as usize];
            self.head_handle = node.handle;
            self.head_len = node.len;
            self.second = node.next;
            node.next = slab.free;
            slab.free = index;
        }
        packet
    }
}

const _: () = assert!(size_of::<LeafQueue>() == 40);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    fn packet(handle: u64, len: u32) -> Packet {
        Packet { handle, len, class: ClassId(1) }
    }

    #[test]
    fn each_limit_is_named_when_it_is_hit() {
        let mut slab = PacketSlab::new(3);
        let mut queue = LeafQueue::new(QueueLimits { packets: 2, bytes: 100 });
        assert_eq!(queue.push(&mut slab, packet(1, 101)).unwrap_err().1, DropReason::QueueBytes);
        queue.push(&mut slab, packet(2, 60)).unwrap();
        assert_eq!(queue.push(&mut slab, packet(3, 41)).unwrap_err().1, DropReason::QueueBytes);
        queue.push(&mut slab, packet(4, 40)).unwrap();
        assert_eq!(queue.push(&mut slab, packet(5, 0)).unwrap_err().1, DropReason::QueuePackets);
        let mut other = LeafQueue::new(QueueLimits::default());
        other.push(&mut slab, packet(6, 1)).unwrap();
        assert_eq!(other.push(&mut slab, packet(7, 1)).unwrap_err().1, DropReason::TotalPackets);
        assert_eq!(queue.pop(&mut slab, ClassId(9)).unwrap(), Packet { handle: 2, len: 60, class: ClassId(9) });
        other.push(&mut slab, packet(8, u32::MAX - 1)).unwrap();
        assert_eq!(other.push(&mut slab, packet(9, 1)).unwrap_err().1, DropReason::QueueBytes);
    }

    proptest! {
        #[test]
        fn queues_over_one_slab_behave_as_separate_fifos(
            steps in proptest::collection::vec((0usize..3, any::<bool>(), 0u32..2000), 1..400)
        ) {
            let limits = QueueLimits { packets: 20, bytes: 15_000 };
            let mut slab = PacketSlab::new(40);
            let mut queues = [LeafQueue::new(limits), LeafQueue::new(limits), LeafQueue::new(limits)];
            let mut model: [VecDeque<(u64, u32)>; 3] = Default::default();
            for (handle, (which, push, len)) in steps.into_iter().enumerate() {
                let handle = handle as u64;
                if push {
                    let all: usize = model.iter().map(VecDeque::len).sum();
                    let bytes: u32 = model[which].iter().map(|p| p.1).sum();
                    let fits = model[which].len() < 20 && bytes + len <= 15_000 && all < 40;
                    prop_assert_eq!(queues[which].push(&mut slab, packet(handle, len)).is_ok(), fits);
                    if fits {
                        model[which].push_back((handle, len));
                    }
                } else {
                    let got = queues[which].pop(&mut slab, ClassId(1)).map(|p| (p.handle, p.len));
                    prop_assert_eq!(got, model[which].pop_front());
                }
                prop_assert_eq!(queues[which].head_len(), model[which].front().map(|p| p.1));
                prop_assert_eq!(queues[which].backlog().packets as usize, model[which].len());
                prop_assert_eq!(slab.queued() as usize, model.iter().map(VecDeque::len).sum::<usize>());
            }
            prop_assert!(slab.nodes.capacity() == 40);
        }
    }
}
