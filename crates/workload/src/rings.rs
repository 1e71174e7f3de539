//! Bare rings: one for each leaf and one for the order of arrival. This is the minimal work of queues: it shows the
//! cost of memory.

use fairlink_core::{Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, Packet, Scheduler};

/// The accessed data of a leaf: the numbers of packets that came and went.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    came: u32,
    went: u32,
}

/// The stored data of a queued packet; the class is in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    handle: u64,
    len: u32,
}

/// A ring of `size` packets for each class, and the classes in the order of their packets' arrival.
#[derive(Debug)]
pub(crate) struct Rings {
    ends: Vec<Ends>,
    slots: Vec<Slot>,
    /// Slots of each ring, a power of two.
    size: u32,
    order: Vec<u32>,
    came: usize,
    went: usize,
    bytes: u64,
}

impl Rings {
    /// Rings for the classes of `tree`, `each` packets at most at each leaf.
    pub(crate) fn new(tree: &Hierarchy, each: usize) -> Self {
        let size = each.next_power_of_two() as u32;
        // Inner classes get rings as well: an index is then a class, and untouched rings cost no time.
        let classes = tree.len() + 1;
        let total = (tree.link().max_queued as usize).next_power_of_two();
        Self {
            ends: vec![Ends::default(); classes],
            slots: vec![Slot::default(); classes * size as usize],
            size,
            order: vec![0; total],
            came: 0,
            went: 0,
            bytes: 0,
        }
    }
}

impl Scheduler for Rings {
    #[inline]
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let class = packet.class.0;
        let Some(ends) = self.ends.get_mut(class as usize) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if ends.came.wrapping_sub(ends.went) == self.size {
            return drops.dropped(now, packet, DropReason::QueuePackets);
        }
        let mask = self.order.len() - 1;
        self.bytes += u64::from(packet.len);
        let slot = class as usize * self.size as usize + (ends.came & (self.size - 1)) as usize;
        self.slots[slot] = Slot { handle: packet.handle, len: packet.len };
        ends.came = ends.came.wrapping_add(1);
        self.order[self.came & mask] = class;
        self.came = self.came.wrapping_add(1);
    }

    #[inline]
    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        if self.came == self.went {
            return Dequeued::Idle;
        }
        let mask = self.order.len() - 1;
        let class = self.order[self.went & mask];
        self.went = self.went.wrapping_add(1);
        let ends = &mut self.ends[class as usize];
        let slot = self.slots[class as usize * self.size as usize + (ends.went & (self.size - 1)) as usize];
        ends.went = ends.went.wrapping_add(1);
        self.bytes -= u64::from(slot.len);
        Dequeued::Packet(Packet { handle: slot.handle, len: slot.len, class: ClassId(class) })
    }

    fn backlog(&self) -> Amount {
        Amount { packets: self.came.wrapping_sub(self.went) as u64, bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let ends = self.ends.get(class.0 as usize).copied().unwrap_or_default();
        Amount { packets: u64::from(ends.came.wrapping_sub(ends.went)), bytes: 0 }
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        while let Dequeued::Packet(packet) = self.dequeue(now, drops) {
            drops.dropped(now, packet, DropReason::Purged);
        }
    }
}
