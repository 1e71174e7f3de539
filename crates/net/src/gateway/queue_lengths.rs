//! Number of packets of each class in the scheduler, counted by the data path. It shows which classes have long queues
//! without access to the scheduler, which the data path does not own.

use fairlink_core::{ClassId, Hierarchy, QueueLimits};

/// Minimum packets of a long queue, or half of its limit if that is less. A class that sends less than its share has a
/// few packets queued; one that sends more has as many as its queue holds.
const LONG: u32 = 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct QueueLengths {
    /// By class: packets in the scheduler, and the length from which a queue is long.
    classes: Vec<(u32, u32)>,
}

impl QueueLengths {
    /// Creates empty queues for the leaves of `tree`.
    pub(crate) fn new(tree: &Hierarchy) -> Self {
        let mut classes = vec![(0, LONG); tree.len()];
        for &leaf in tree.leaves() {
            let QueueLimits { packets, bytes } = tree.config(leaf).limits;
            let full = packets.min(bytes / tree.link().max_packet.max(1));
            classes[leaf.index()].1 = LONG.min(full / 2).max(1);
        }
        Self { classes }
    }

    /// Takes over the packets of `old`; `class_map` maps old classes to new ones. Those of the other classes are left
    /// out.
    pub(crate) fn inherit(&mut self, old: &Self, class_map: &[Option<ClassId>]) {
        for (&(packets, _), heir) in old.classes.iter().zip(class_map) {
            if let Some(heir) = heir {
                self.classes[heir.index()].0 += packets;
            }
        }
    }

    /// Counts a packet of `class` that is given to the scheduler.
    #[inline]
    pub(crate) fn entered(&mut self, class: ClassId) {
        self.classes[class.index()].0 += 1;
    }

    /// Counts a packet of `class` that has left the scheduler, to be sent or dropped.
    #[inline]
    pub(crate) fn left(&mut self, class: ClassId) {
        self.classes[class.index()].0 -= 1;
    }

    /// Returns true if the queue of `class` is long.
    #[inline]
    pub(crate) fn is_long(&self, class: ClassId) -> bool {
        let (packets, long) = self.classes[class.index()];
        packets >= long
    }

    /// Memory in bytes; it never grows.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<(u32, u32)>()
    }

    /// Packets of `class` with the scheduler.
    #[cfg(test)]
    pub(crate) fn packets(&self, class: ClassId) -> u64 {
        u64::from(self.classes[class.index()].0)
    }
}
