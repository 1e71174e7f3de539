//! Number of packets of each class in the scheduler, counted by the data path. It shows which classes have long queues
//! without access to the scheduler, which the data path does not own.

use fairlink_core::{ClassId, Hierarchy, QueueLimits};
use fairlink_report::DropCause;

/// Minimum packets of a long queue, or half of its limit if that is less. A class that sends less than its share has a
/// few packets queued; one that sends more has as many as its queue holds.
const LONG: u32 = 1024;

#[derive(Clone, Copy, Debug)]
struct Length {
    /// Packets in the scheduler.
    packets: u32,
    /// The length from which the queue is long.
    long: u32,
    /// The length at which it takes no packet.
    full: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct QueueLengths {
    /// By class.
    classes: Vec<Length>,
}

impl QueueLengths {
    /// Creates empty queues for the leaves of `tree`.
    pub(crate) fn new(tree: &Hierarchy) -> Self {
        let mut classes = vec![Length { packets: 0, long: LONG, full: u32::MAX }; tree.len()];
        for &leaf in tree.leaves() {
            let QueueLimits { packets, bytes } = tree.config(leaf).limits;
            let full = packets.min(bytes / tree.link().max_packet.max(1));
            classes[leaf.index()] = Length { packets: 0, long: LONG.min(full / 2).max(1), full: packets };
        }
        Self { classes }
    }

    /// Takes over the packets of `old`; `class_map` maps old classes to new ones. Those of the other classes are left
    /// out.
    pub(crate) fn inherit(&mut self, old: &Self, class_map: &[Option<ClassId>]) {
        for (length, heir) in old.classes.iter().zip(class_map) {
            if let Some(heir) = heir {
                self.classes[heir.index()].packets += length.packets;
            }
        }
    }

    /// Counts a packet of `class` that is given to the scheduler.
    #[inline]
    pub(crate) fn entered(&mut self, class: ClassId) {
        self.classes[class.index()].packets += 1;
    }

    /// Counts a packet of `class` that has left the scheduler, to be sent or dropped.
    #[inline]
    pub(crate) fn left(&mut self, class: ClassId) {
        self.classes[class.index()].packets -= 1;
    }

    /// Returns true if the queue of `class` is long.
    #[inline]
    pub(crate) fn is_long(&self, class: ClassId) -> bool {
        let Length { packets, long, .. } = self.classes[class.index()];
        packets >= long
    }

    /// Returns the cause for which a super-frame of `class` is dropped as a whole: its queue holds as many packets as it
    /// may, or load is shed (`shedding`) and it is long. Whether a queue holds its limit of bytes is not known here.
    #[inline]
    pub(crate) fn refuses(&self, class: ClassId, shedding: bool) -> Option<DropCause> {
        let Length { packets, full, .. } = self.classes[class.index()];
        match shedding && self.is_long(class) {
            true => Some(DropCause::Shed),
            false => (packets >= full).then_some(DropCause::QueuePackets),
        }
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
