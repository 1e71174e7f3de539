//! `wrr`: weighted round robin, as described in \[drrpp\] Section 2.4.1. Flat.
//!
//! Each class with packets is visited once per round. It sends as many packets as its weight, or its whole backlog if
//! that is less. A visit ends when its last packet has been sent, as in [`drr`](crate::schedulers::drr).
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | weight of a queue: packets served in every round | `Weight::packets` | packets |
//!
//! **Weights.** Those of the classes without their common divisor. If the smallest is then more than `SMALLEST`, all
//! are divided further until it equals `SMALLEST`, and rounded. The relative error of a share is then at most 1 / (2
//! `SMALLEST`).
//!
//! **Cost per packet.** O(1). **Invariants.** The ring holds exactly the classes with packets, and the one whose packet
//! is in transmission. Only the first may have sent a part of its weight, or all of it. **Bounds.** In packets, |n_i /
//! w_i - n_j / w_j| <= 1 while both classes have packets. In bytes there is none: as the text says, a class of large
//! packets gets more than its weight. **Overflow budget.** Weights saturate at 2^64 packets. **Validation.** Property
//! tests of the bound and of the text's statements on packets of different lengths.
//!
//! DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::bases::batches::{PlainIn, PlainOut, fill, pop_all, push_all};
use crate::bases::flows::{Flows, Ring, Turn, backlog_of_flows, batches_of_flows};
use crate::contract::{
    Amount, BatchEnd, BuildError, ClassId, Dequeued, DropSink, Feature, Hierarchy, Nanos, OutOfMemory, Packet,
    Promises, Scheduler, SchedulerInfo, Sharing, Visit, WorkConserving, boxed, same_kind,
};
use crate::parts::memory::{bytes_of, filled, slice};

/// Registry entry of `wrr`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "wrr",
    aliases: &[],
    paper: "drrpp",
    summary: "weighted round robin: flat, a number of packets per class and round",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1)",
    sharing: Sharing::LeavesByPackets(packets),
    promises: Promises { visit: Some(Visit::Packets(packets)), ..Promises::NONE },
    memory: Wrr::memory,
    build: |tree, _| boxed(Wrr::new(tree)?),
};

/// Maximum of the smallest weight.
pub(crate) const SMALLEST: u64 = 100;

fn common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Packets per visit of each leaf of `tree`, in the order of [`Hierarchy::leaves`]. See the module's documentation for
/// the choice.
///
/// # Errors
/// Fails if there is not enough memory.
pub(crate) fn weights(tree: &Hierarchy) -> Result<Box<[u64]>, OutOfMemory> {
    let flat = tree.levels() == 1;
    let raw = |leaf: ClassId| if flat { tree.weight(leaf).into() } else { tree.share_all_busy(leaf).max(1) };
    let raw: Box<[u128]> = slice(tree.leaves().len(), |at| raw(tree.leaves()[at]))?;
    let divisor = raw.iter().copied().fold(0, common_divisor).max(1);
    let smallest = raw.iter().min().map_or(1, |smallest| smallest / divisor);
    let whole = u128::from(SMALLEST);
    let weight = |raw: &u128| {
        let weight = raw / divisor;
        let weight = if smallest > whole { (weight * whole + smallest / 2) / smallest } else { weight };
        u64::try_from(weight).unwrap_or(u64::MAX)
    };
    slice(raw.len(), |at| weight(&raw[at]))
}

/// Returns the packets per visit, by class id.
fn packets(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
    let mut packets = filled(tree.len(), 0)?;
    for (leaf, &weight) in tree.leaves().iter().zip(&weights(tree)?) {
        packets[leaf.index()] = weight;
    }
    Ok(packets)
}

#[derive(Debug)]
struct Weight {
    packets: u64,
    /// Packets sent in the current visit; 0 between visits.
    sent: u64,
}

impl Turn for Weight {
    #[inline(always)]
    fn begin(&mut self, _: u32) -> bool {
        true
    }

    #[inline(always)]
    fn covers(&self, _: u32) -> bool {
        self.sent < self.packets
    }

    #[inline(always)]
    fn pay(&mut self, _: u32) {
        self.sent += 1;
    }

    #[inline(always)]
    fn end(&mut self, _: bool) {
        self.sent = 0;
    }
}

/// Weighted round robin over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Wrr {
    flows: Flows<Weight>,
    ring: Ring,
}

impl Wrr {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut flows = Flows::new(tree, |_| Weight { packets: 0, sent: 0 })?;
        for (leaf, packets) in tree.leaves().iter().zip(weights(tree)?) {
            flows.state_mut(leaf.0).packets = packets;
        }
        Ok(Self { flows, ring: Ring::new(tree)? })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Weight>::memory(tree) + Ring::memory(tree) + bytes_of::<(u128, u64)>(tree.leaves().len())
    }

    /// Returns the class that is being visited.
    #[inline]
    fn visited(&self) -> Option<u32> {
        self.ring.first().filter(|&flow| self.flows.state(flow).sent > 0)
    }

    /// Ends the transmission. Also ends the visit in progress if it was its last packet.
    #[inline]
    fn settle(&mut self) {
        let Some(flow) = self.visited() else { return };
        let empty = self.flows.is_empty(flow);
        let weight = self.flows.state_mut(flow);
        if empty || weight.sent == weight.packets {
            weight.sent = 0;
            if empty {
                self.ring.pop();
            } else {
                self.ring.rotate();
            }
        }
    }
}

impl PlainIn for Wrr {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        let visited = self.visited();
        self.flows.push_plain(&mut self.ring, visited, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl PlainOut for Wrr {
    #[inline(always)]
    fn pop_plain(&mut self, slots: &mut [Packet]) -> (usize, u64) {
        let mut under_way = self.visited().is_some();
        self.flows.serve_plain(&mut self.ring, &mut under_way, slots)
    }

    #[inline(always)]
    fn pop_any(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Option<Packet> {
        match self.dequeue(now, drops) {
            Dequeued::Packet(packet) => Some(packet),
            Dequeued::WaitUntil(_) | Dequeued::Idle => None,
        }
    }
}

impl Scheduler for Wrr {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let flow = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true) && self.visited() != Some(flow) {
            self.ring.push(flow);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.settle();
        let Some(flow) = self.ring.first() else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(flow, now, drops) else { unreachable!("class {flow} is listed and empty") };
        self.flows.state_mut(flow).sent += 1;
        Dequeued::Packet(packet)
    }

    batches_of_flows!();

    backlog_of_flows!();

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        if !self.flows.fits(&with.flows) {
            return false;
        }
        self.flows.retune(&mut with.flows, |mine, theirs| {
            mine.packets = theirs.packets;
            mine.sent = mine.sent.min(mine.packets);
        });
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|weight| weight.sent = 0);
        self.ring.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.flows.check_with(self.ring.iter(), 0, self.visited())?;
        let first = self.ring.first();
        for flow in self.flows.leaves() {
            let Weight { packets, sent } = *self.flows.state(flow);
            if sent > packets || sent > 0 && first != Some(flow) {
                return Err(format!("class {flow} has sent {sent} of {packets} packets"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_link::{flat, flat_traffic, order, run, weighted};
    use proptest::prelude::*;

    fn tree(weights: &[u64]) -> Hierarchy {
        flat(weights.iter().map(|&weight| weighted(weight)))
    }

    #[test]
    fn each_visit_sends_as_many_packets_as_the_weight_says() {
        let packets: Vec<_> = (0..6).flat_map(|_| [(1, 100), (2, 1500), (3, 40)]).collect();
        let sent = order(&mut Wrr::new(&tree(&[30, 10, 20])).unwrap(), &packets);
        assert_eq!(sent, [1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3, 2, 3, 3, 2, 2, 2]);
    }

    #[test]
    fn weights_in_any_unit_give_short_rounds() {
        assert_eq!(*weights(&tree(&[300_000_000, 100_000_000])).unwrap(), [3, 1]);
        assert_eq!(*weights(&tree(&[1_000_000_007, 333_333_333])).unwrap(), [300, 100]);
        assert_eq!(*weights(&tree(&[1_000_000_000_000, 1])).unwrap(), [1_000_000_000_000, 1]);
        let sum: f64 =
            weights(&tree(&[1_000_003, 1_234_577, 7_654_321])).unwrap().iter().map(|&weight| weight as f64).sum();
        assert!((sum / 100.0 - 9.888_901 / 1.000_003).abs() < 0.01, "{sum}");
    }

    proptest! {
        #[test]
        fn packets_are_shared_by_the_weights_within_a_visit_and_bytes_are_not((weights, mut arrivals) in flat_traffic(300)) {
            // All are there from the start. |n_i / w_i - n_j / w_j| <= 1 while both have packets.
            arrivals.iter_mut().for_each(|arrival| arrival.at = 0);
            let served = run(&mut Wrr::new(&tree(&weights)).unwrap(), &arrivals);
            let runs = super::weights(&tree(&weights)).unwrap();
            let last = |class: usize| served.iter().rposition(|packet| packet.class as usize == class + 1).unwrap_or(0);
            for (i, j) in (0..weights.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (mut ahead, mut least, mut most) = (0i64, 0, 0);
                for packet in &served[..last(i).min(last(j))] {
                    ahead += if packet.class as usize == i + 1 { runs[j] as i64 } else { 0 };
                    ahead -= if packet.class as usize == j + 1 { runs[i] as i64 } else { 0 };
                    (least, most) = (least.min(ahead), most.max(ahead));
                }
                prop_assert!(most - least <= (runs[i] * runs[j]) as i64, "{i}, {j}: {least} .. {most}");
            }
        }

        #[test]
        fn a_class_of_larger_packets_gets_as_much_more_than_its_weight(weight in 1u64..9, len in 41u32..=1500) {
            let packets: Vec<_> = (0..100).flat_map(|_| [(1, 40), (2, len)]).collect();
            let sent = order(&mut Wrr::new(&tree(&[weight, 1])).unwrap(), &packets);
            let rounds = &sent[..(weight as usize + 1) * (100 / weight as usize)];
            let bytes = |class, len| rounds.iter().filter(|&&sent| sent == class).count() as u64 * u64::from(len);
            prop_assert_eq!(bytes(2, len) * 40 * weight, bytes(1, 40) * u64::from(len));
        }
    }
}
