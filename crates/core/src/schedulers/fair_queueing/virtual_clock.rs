//! `virtual-clock`: L. Zhang's Virtual Clock, as \[drrpp\] Section 2.3.2 tells it. Flat.
//!
//! Each arriving packet is stamped with when it would leave if its class had a link of its own rate to itself, equation (2.1);
//! packets leave in the order of their stamps. A class that sends ahead of its rate has its stamps run ahead of the clock and
//! is punished for it later: Virtual Clock guarantees a rate and is not fair.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | AR_i: rate; Vtick_i = 1 / AR_i | slope of `Leaf::clock`, [`lines`] | 2^-16 bit/s |
//! | AT_i: arrival time | `now` | ns |
//! | auxVC_i | `Leaf::clock` at `Leaf::arrived` | 2^-12 ns |
//! | transmission time of a packet | `Stamp::time` | 2^-12 ns |
//!
//! **Rates.** A class's rate is its share of the link when all are busy (its guarantee where the guarantees add up).
//!
//! **Cost per packet.** O(log n) in the leaves with packets.
//!
//! **Invariants.** The heap holds exactly the leaves with packets, under the stamps of their heads. Stamps of a class increase.
//!
//! **Overflow budget.** That of [`curve`](crate::parts::curve).
//!
//! **Validation.** The example of \[drrpp\] Figure 2.1; equation (2.1) in plain arithmetic as an oracle; the latency
//! L_i / rho_i + L_max / r of a latency-rate server.
//!
//! DIFFERENCE: while stamps run ahead of the clock they are computed from where they last met it, not each from the one before,
//! so that rounding does not add up.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, Packet, QueueLimits, Scheduler, SchedulerInfo,
    WorkConserving,
};
use crate::parts::{
    curve::{Curve, Shape, lines, ticks},
    heap::Heap,
};
use crate::queue::{LeafQueue, PacketSlab};

/// What `virtual-clock` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "virtual-clock",
    paper: "drrpp",
    summary: "virtual clock: flat, stamps of a link of one's own; keeps rates, is not fair",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    bounds: &["delay"],
    build: |tree| Ok(Box::new(VirtualClock::new(tree))),
};

const NONE: u64 = u64::MAX;

#[derive(Debug)]
struct Leaf {
    queue: LeafQueue,
    /// auxVC as a curve: the line of the class's rate from where auxVC last met the clock.
    clock: Curve,
    /// Bytes that have arrived in all.
    arrived: u64,
    is_leaf: bool,
}

/// A queued packet's handle and its stamp; the handle is a free entry's successor in the list of free ones.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    handle: u64,
    time: u128,
}

/// Storage for the stamps of queued packets. The queues hold an entry's index in place of the packet's handle.
#[derive(Debug)]
struct Stamps {
    entries: Vec<Stamp>,
    free: u64,
    limit: usize,
}

impl Stamps {
    /// An entry for a packet; [`NONE`] where as many are queued as may be.
    fn insert(&mut self, handle: u64, time: u128) -> u64 {
        let stamp = Stamp { handle, time };
        if self.free != NONE {
            let index = self.free;
            self.free = core::mem::replace(&mut self.entries[index as usize], stamp).handle;
            index
        } else if self.entries.len() < self.limit {
            self.entries.push(stamp);
            self.entries.len() as u64 - 1
        } else {
            NONE
        }
    }

    /// Frees an entry and returns the handle in it.
    fn remove(&mut self, index: u64) -> u64 {
        let handle = core::mem::replace(&mut self.entries[index as usize].handle, self.free);
        self.free = index;
        handle
    }
}

/// Virtual Clock over the leaves of a hierarchy.
#[derive(Debug)]
pub struct VirtualClock {
    leaves: Vec<Leaf>,
    slab: PacketSlab,
    stamps: Stamps,
    /// Leaves with packets by the stamps of their heads.
    heads: Heap,
    bytes: u64,
    max_packet: u32,
    now: Nanos,
}

impl VirtualClock {
    /// A scheduler for the leaves of `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let leaf = |(index, slope): (usize, u64)| {
            let class = ClassId(index as u32);
            let is_leaf = tree.is_leaf(class);
            let limits = if is_leaf { tree.config(class).limits } else { QueueLimits { packets: 0, bytes: 0 } };
            Leaf { queue: LeafQueue::new(limits), clock: Curve::new(Shape::line(slope)), arrived: 0, is_leaf }
        };
        let link = tree.link();
        let limit = link.max_queued as usize;
        Self {
            leaves: lines(tree).into_iter().enumerate().map(leaf).collect(),
            slab: PacketSlab::new(link.max_queued),
            stamps: Stamps { entries: Vec::with_capacity(limit), free: NONE, limit },
            heads: Heap::new(tree.len()),
            bytes: 0,
            max_packet: link.max_packet,
            now: Nanos::ZERO,
        }
    }

    /// Takes the head of a leaf that has packets out of its queue.
    fn pop(&mut self, index: u32) -> Option<Packet> {
        let leaf = &mut self.leaves[index as usize];
        let queued = leaf.queue.pop(&mut self.slab, ClassId(index))?;
        let packet = Packet { handle: self.stamps.remove(queued.handle), ..queued };
        self.bytes -= u64::from(packet.len);
        match leaf.queue.head_handle() {
            Some(head) => self.heads.set(index, self.stamps.entries[head as usize].time),
            None => {
                self.heads.remove(index);
            }
        }
        Some(packet)
    }
}

impl Scheduler for VirtualClock {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let index = packet.class.0;
        let Some(leaf) = self.leaves.get_mut(packet.class.index()).filter(|leaf| leaf.is_leaf) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let Packet { handle, len, class } = packet;
        let now_ticks = ticks(self.now);
        let mut clock = leaf.clock;
        if clock.time_of(leaf.arrived) < now_ticks {
            clock.start(now_ticks, leaf.arrived);
        }
        let arrived = leaf.arrived.wrapping_add(u64::from(len));
        let time = clock.time_of(arrived);
        let entry = self.stamps.insert(handle, time);
        if let Err((_, reason)) = leaf.queue.push(&mut self.slab, Packet { handle: entry, len, class }) {
            if entry != NONE {
                self.stamps.remove(entry);
            }
            return drops.dropped(now, Packet { handle, len, class }, reason);
        }
        (leaf.clock, leaf.arrived) = (clock, arrived);
        self.bytes += u64::from(len);
        if !self.heads.contains(index) {
            self.heads.set(index, time);
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let first = self.heads.first();
        first.and_then(|(index, _)| self.pop(index)).map_or(Dequeued::Idle, Dequeued::Packet)
    }

    fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.slab.queued()), bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        while let Some((index, _)) = self.heads.first() {
            while let Some(packet) = self.pop(index) {
                drops.dropped(now, packet, DropReason::Purged);
            }
        }
        self.heads.clear();
        for leaf in &mut self.leaves {
            (leaf.clock, leaf.arrived) = (Curve::new(leaf.clock.shape()), 0);
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        let mut bytes = 0;
        for (index, leaf) in self.leaves.iter().enumerate() {
            let stamp = leaf.queue.head_handle().map(|head| self.stamps.entries[head as usize].time);
            if stamp != self.heads.key(index as u32) {
                return Err(format!(
                    "class {index}: its head is stamped {stamp:?}, {:?}",
                    self.heads.key(index as u32)
                ));
            }
            bytes += leaf.queue.backlog().bytes;
        }
        if bytes != self.bytes {
            return Err(format!("{bytes} B are queued, {} B are counted", self.bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
