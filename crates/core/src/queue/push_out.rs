//! FIFOs that share the room of their slab: when it is full, a packet of the longest of them is dropped and the arriving one taken in.
//!
//! This module holds the packets behind the heads of these queues, because an arrival at one queue can change another.
//! The head stays in place: it is promised, and a queue becomes empty only by being served. The dropped packet is the
//! one right behind the head, which a singly linked list finds at once.
//!
//! The longest queue is the one with most packets, because the room is counted in packets. Among equals, it is the one
//! that has had its length for longest. A packet that arrives at one of the longest queues is itself dropped: pushing
//! out another packet of the same queue gains nothing.
//!
//! **Cost.** O(log n) for each arrival, departure or drop. Nothing is allocated after construction.

use alloc::boxed::Box;

use super::NIL;
use super::slab::Slab;
use crate::contract::{Amount, ClassId, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, WhenFull};
use crate::parts::heap::Heap;
use crate::parts::memory::{bytes_of, filled};

/// A queue, including the head, except the head's contents.
#[derive(Clone, Copy, Debug)]
struct Queue {
    second: u32,
    tail: u32,
    packets: u32,
    bytes: u32,
}

/// The queues of one scheduler, by class id.
#[derive(Debug)]
pub(super) struct Shared {
    queues: Box<[Queue]>,
    /// The queues with packets, the longest first.
    longest: Heap,
}

impl Shared {
    /// Makes the queues for the leaves of `tree`; `None` unless its link has [`WhenFull::PushOut`].
    ///
    /// There is room for as many more leaves as `room`.
    pub(super) fn new(tree: &Hierarchy, room: usize) -> Result<Option<Self>, OutOfMemory> {
        if tree.link().when_full != WhenFull::PushOut {
            return Ok(None);
        }
        let empty = Queue { second: NIL, tail: NIL, packets: 0, bytes: 0 };
        Ok(Some(Self { queues: filled(tree.len() + room, empty)?, longest: Heap::new(tree.len() + room)? }))
    }

    /// Bytes that one for `tree` takes.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        if tree.link().when_full != WhenFull::PushOut {
            return 0;
        }
        bytes_of::<Self>(1) + bytes_of::<Queue>(tree.len()) + Heap::memory(tree.len())
    }

    /// Returns the amount in the queue of `class`.
    pub(super) fn backlog(&self, class: u32) -> Amount {
        let queue = &self.queues[class as usize];
        Amount { packets: queue.packets.into(), bytes: queue.bytes.into() }
    }

    /// Takes the queues of `old`, each for the class that `survivor` returns. All others are empty. The lengths keep
    /// their order.
    pub(super) fn take_over(&mut self, old: &mut Self, survivor: impl Fn(ClassId) -> Option<ClassId>) {
        while let Some((class, key)) = old.longest.pop() {
            let Some(heir) = survivor(ClassId(class)) else { continue };
            self.queues[heir.index()] = old.queues[class as usize];
            self.longest.set(heir.0, key);
        }
    }

    /// Notes the length of a queue.
    fn rank(&mut self, class: u32) {
        match self.queues[class as usize].packets {
            0 => drop(self.longest.remove(class)),
            packets => self.longest.set(class, u128::from(u32::MAX - packets)),
        }
    }

    /// Makes room in `slab`, which is full, for a packet of `class`; returns false if no queue is longer than that one
    /// and has a packet behind its head.
    pub(super) fn make_room(&mut self, slab: &mut Slab, class: u32, now: Nanos, drops: &mut dyn DropSink) -> bool {
        let own = self.queues[class as usize].packets;
        let Some((victim, _)) = self.longest.first() else { return false };
        let queue = &mut self.queues[victim as usize];
        if queue.packets <= own.max(1) {
            return false;
        }
        let node = queue.second;
        let (handle, len, next) = {
            let node = &slab.nodes[node as usize];
            (node.handle, node.len, node.next)
        };
        queue.second = next;
        queue.packets -= 1;
        queue.bytes -= len;
        slab.release(node);
        slab.leave(len);
        self.rank(victim);
        drops.dropped(now, Packet { handle, len, class: ClassId(victim) }, DropReason::PushedOut);
        true
    }

    /// Appends a packet, for which there is room, to the queue of `class`; returns true if it is the head, which the
    /// caller keeps.
    pub(super) fn push(&mut self, slab: &mut Slab, class: u32, handle: u64, len: u32) -> bool {
        slab.enter(len);
        let queue = &mut self.queues[class as usize];
        queue.packets += 1;
        queue.bytes += len;
        let packets = queue.packets;
        if packets > 1 {
            let node = slab.insert(handle, len);
            if packets == 2 {
                queue.second = node;
            } else {
                slab.nodes[queue.tail as usize].next = node;
            }
            queue.tail = node;
        }
        self.rank(class);
        packets == 1
    }

    /// Removes the head of `class`, of `len` bytes; returns the next packet.
    pub(super) fn pop(&mut self, slab: &mut Slab, class: u32, len: u32) -> Option<(u64, u32)> {
        slab.leave(len);
        let queue = &mut self.queues[class as usize];
        queue.packets -= 1;
        queue.bytes -= len;
        let mut next = None;
        if queue.packets > 0 {
            let index = queue.second;
            let node = &slab.nodes[index as usize];
            next = Some((node.handle, node.len));
            queue.second = node.next;
            slab.release(index);
        }
        self.rank(class);
        next
    }
}
