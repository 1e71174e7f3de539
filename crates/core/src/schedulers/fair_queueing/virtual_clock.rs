//! `virtual-clock`: L. Zhang's Virtual Clock, as described in \[drrpp\] Section 2.3.2. Flat.
//!
//! Each arriving packet is stamped with its departure time on a private link of its class's rate: equation (2.1).
//! Packets leave in the order of their stamps. A class that sends ahead of its rate has its stamps run ahead of the
//! clock and is punished for it later. So Virtual Clock guarantees a rate and is not fair.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | AR_i: rate; Vtick_i = 1 / AR_i | slope of `Leaf::clock`, `lines` | 2^-16 bit/s |
//! | AT_i: arrival time | `now` | ns |
//! | auxVC_i | `Leaf::clock` at `Leaf::arrived` | 2^-12 ns |
//! | transmission time of a packet | `Stamp::time` | 2^-12 ns |
//!
//! **Rates.** A class's rate is its share of the link when all are busy (its guarantee if the guarantees add up).
//!
//! **Cost per packet.** O(log n) in the leaves with packets.
//!
//! **Invariants.** The heap holds exactly the leaves with packets, under the stamps of their heads. Stamps of a class increase.
//!
//! **Overflow budget.** That of `parts::curve`.
//!
//! **Validation.** The example of \[drrpp\] Figure 2.1; equation (2.1) in plain arithmetic as an oracle; the latency
//! L_i / rho_i + L_max / r of a latency-rate server.
//!
//! DIFFERENCE: Vtick counts for a byte and not for a packet, so that packets of any length get the class's rate.
//! DIFFERENCE: rates are rounded down to 2^-16 bit/s, and are at least that much. DIFFERENCE: while stamps run ahead of
//! the clock, each is computed from the point where they last met it, and not from the previous one. So rounding errors
//! do not accumulate. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares
//! among its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Delay, Dequeued, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Promises, Scheduler,
    SchedulerInfo, Sharing, WorkConserving, boxed, late_by, leaf_shares, same_kind,
};
use crate::parts::{
    curve::{Curve, Shape, lines, planning_memory, ticks},
    heap::Heap,
    tags::{TagQueue, TagSlab},
};

/// Registry entry of `virtual-clock`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "virtual-clock",
    aliases: &[],
    paper: "drrpp",
    summary: "virtual clock: flat, stamps of a link of one's own; keeps rates, is not fair",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        delay: Some(Delay::LatencyRate(|tree| late_by(tree, tree.link().max_packet.into()))),
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: VirtualClock::memory,
    build: |tree, _| boxed(VirtualClock::new(tree)?),
};

#[derive(Debug)]
struct Class {
    /// auxVC as a curve: the line of the class's rate from the point where auxVC last met the clock.
    clock: Curve,
    /// Bytes that have arrived in all.
    arrived: u64,
    /// Stamps of its packets, in their order.
    stamps: TagQueue,
}

/// Virtual Clock over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct VirtualClock {
    flows: Flows<Class>,
    stamps: TagSlab,
    /// Leaves with packets by the stamps of their heads.
    heads: Heap,
    now: Nanos,
}

impl VirtualClock {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let lines = lines(tree)?;
        let class = |class: ClassId| Class {
            clock: Curve::new(Shape::line(lines[class.index()])),
            arrived: 0,
            stamps: TagQueue::default(),
        };
        Ok(Self {
            flows: Flows::of_fifos(tree, class)?,
            stamps: TagSlab::new(tree.link().max_queued)?,
            heads: Heap::new(tree.len())?,
            now: Nanos::ZERO,
        })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Class>::fifo_memory(tree)
            + TagSlab::memory(tree.link().max_queued)
            + Heap::memory(tree.len())
            + planning_memory(tree)
    }
}

impl Scheduler for VirtualClock {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let (index, len) = (packet.class.0, packet.len);
        let Some(was_empty) = self.flows.push(now, packet, drops) else { return };
        let class = self.flows.state_mut(index);
        let now = ticks(self.now);
        if class.clock.time_of(class.arrived) < now {
            class.clock.start(now, class.arrived);
        }
        class.arrived = class.arrived.wrapping_add(u64::from(len));
        let stamp = class.clock.time_of(class.arrived);
        class.stamps.push(&mut self.stamps, stamp);
        if was_empty {
            self.heads.set(index, stamp);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let Some((index, _)) = self.heads.first() else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(index, now, drops) else {
            unreachable!("class {index} has a stamp and no packet");
        };
        let stamps = &mut self.flows.state_mut(index).stamps;
        stamps.pop(&mut self.stamps);
        match stamps.first(&self.stamps) {
            Some(stamp) => self.heads.set(index, stamp),
            None => {
                self.heads.remove(index);
            }
        }
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.flows.fits(&with.flows) {
            return false;
        }
        self.now = self.now.max(now);
        self.stamps.retune(&mut with.stamps);
        self.flows.retune(&mut with.flows, |mine, theirs| {
            mine.clock.retune(&theirs.clock, mine.clock.time_of(mine.arrived), mine.arrived);
        });
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.flows.purge(now, drops);
        for class in self.flows.states_mut() {
            class.stamps.clear(&mut self.stamps);
            (class.clock, class.arrived) = (Curve::new(class.clock.shape()), 0);
        }
        self.heads.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        for index in self.flows.classes() {
            let (stamp, listed) = (self.flows.state(index).stamps.first(&self.stamps), self.heads.key(index));
            if stamp != listed {
                return Err(format!("class {index}: its head is stamped {stamp:?}, {listed:?}"));
            }
        }
        self.flows.check([], self.heads.len())
    }
}

#[cfg(test)]
mod tests;
