//! Number of packets of each class in the scheduler, counted by the data path. It shows which classes have long queues
//! without access to the scheduler, which the data path does not own.

use fairlink_core::{ClassId, Hierarchy, QueueLimits};
use fairlink_report::DropCause;

/// Minimum packets of a long queue, or half of its limit if that is less. A class that sends less than its share has a
/// few packets queued; one that sends more has as many as its queue holds.
const LONG: u32 = 1024;

#[derive(Clone, Copy, Debug)]
struct Length {
    /// Packets with the scheduler. One that is scheduled as one with others counts like any other.
    packets: u32,
    /// Packets among them that are not the first of a piece.
    further: u32,
    /// The length from which the queue is long.
    long: u32,
    /// The length at which it takes no super-frame, and the most bytes that it holds.
    full: u32,
    bytes: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct QueueLengths {
    /// By class.
    classes: Vec<Length>,
    /// Of all classes together.
    packets: u32,
    further: u32,
    full: u32,
}

impl QueueLengths {
    /// Creates empty queues for the leaves of `tree`, whose frames have at most `longest` accounted bytes.
    pub(crate) fn new(tree: &Hierarchy, longest: u32) -> Self {
        let other = Length { packets: 0, further: 0, long: LONG, full: u32::MAX, bytes: u32::MAX };
        let mut classes = vec![other; tree.len()];
        for &leaf in tree.leaves() {
            let QueueLimits { packets, bytes } = tree.config(leaf).limits;
            let full = packets.min(bytes / longest.max(1));
            classes[leaf.index()] = Length { long: LONG.min(full / 2).max(1), full: packets, bytes, ..other };
        }
        Self { classes, packets: 0, further: 0, full: tree.link().max_queued }
    }

    /// Takes over the packets of `old`; `class_map` maps old classes to new ones. Those of the other classes are left
    /// out.
    pub(crate) fn inherit(&mut self, old: &Self, class_map: &[Option<ClassId>]) {
        for (length, heir) in old.classes.iter().zip(class_map) {
            if let Some(heir) = heir {
                let own = &mut self.classes[heir.index()];
                own.packets += length.packets;
                own.further += length.further;
                self.packets += length.packets;
                self.further += length.further;
            }
        }
    }

    /// Counts `packets` of `class` that are given to the scheduler as one.
    #[inline]
    pub(crate) fn entered(&mut self, class: ClassId, packets: u32) {
        let length = &mut self.classes[class.index()];
        length.packets += packets;
        length.further += packets - 1;
        self.packets += packets;
        self.further += packets - 1;
    }

    /// Counts `packets` of `class` that have left the scheduler as one, to be sent or dropped.
    #[inline]
    pub(crate) fn left(&mut self, class: ClassId, packets: u32) {
        let length = &mut self.classes[class.index()];
        length.packets -= packets;
        length.further -= packets - 1;
        self.packets -= packets;
        self.further -= packets - 1;
    }

    /// Packets of `class` in the scheduler that are not the first of a piece.
    pub(crate) fn further(&self, class: ClassId) -> u32 {
        self.classes[class.index()].further
    }

    /// The same of all classes.
    pub(crate) fn all_further(&self) -> u32 {
        self.further
    }

    /// Returns true if the queue of `class` is long.
    #[inline]
    pub(crate) fn is_long(&self, class: ClassId) -> bool {
        let Length { packets, long, .. } = self.classes[class.index()];
        packets >= long
    }

    /// Returns true if the queue of `class` is at least half as long as a long one.
    pub(crate) fn is_half_long(&self, class: ClassId) -> bool {
        let Length { packets, long, .. } = self.classes[class.index()];
        packets > long / 2
    }

    /// Returns the cause for which a super-frame of `class` is dropped as a whole: its queue, or all together, hold as
    /// many packets as they may, or load is shed (`shedding`) and its queue is long. Whether a queue holds its limit of
    /// bytes is not known here.
    #[inline]
    pub(crate) fn refuses(&self, class: ClassId, shedding: bool) -> Option<DropCause> {
        let Length { packets, full, .. } = self.classes[class.index()];
        if shedding && self.is_long(class) {
            return Some(DropCause::Shed);
        }
        if packets >= full {
            return Some(DropCause::QueuePackets);
        }
        // Where no packets are scheduled together, the scheduler sees to this limit, and may push out others.
        (self.further > 0 && self.packets >= self.full).then_some(DropCause::TotalPackets)
    }

    /// Largest number of packets of `class`, of `each` accounted bytes, that the queue takes as one piece of at most
    /// `longest` bytes; at least 1.
    pub(crate) fn room(&self, class: ClassId, each: u32, longest: u32) -> usize {
        let Length { packets, full, bytes, .. } = self.classes[class.index()];
        let packets = full.saturating_sub(packets).min(self.full.saturating_sub(self.packets));
        (longest.min(bytes) / each.max(1)).min(packets).max(1) as usize
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<Length>()
    }

    /// Packets of `class` with the scheduler.
    #[cfg(test)]
    pub(crate) fn packets(&self, class: ClassId) -> u64 {
        u64::from(self.classes[class.index()].packets)
    }
}
