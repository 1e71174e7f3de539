//! `lqf`: longest queue first, the baseline of \[sds\] Section II-C. Flat.
//!
//! The leaf with most bytes queued sends next. With finite buffers of one size, few packets are lost: the queue closest
//! to overflow is served first. No leaf has a guarantee: one with a short queue waits until the others are as short,
//! without a time limit.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | Q_i, the length of a queue | bytes queued at a leaf, those of the packet on the link left out | B |
//!
//! **Cost per packet.** O(log n). **Invariants.** Exactly the leaves with packets are in the order, by their queued
//! bytes. **Bounds.** None: a leaf may starve. **Overflow budget.** A queue is below 2^64 bytes; keys are 2^64 minus
//! that. **Validation.** The choice against the longest of all queues, packet by packet; the contract's suite.
//!
//! DIFFERENCE: the text does not define the length of a queue in packets or in bytes; its packets are cells of one
//! length. Bytes are used here. DIFFERENCE: of queues of one length the leaf with the smaller number is served; the
//! text leaves it open. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and serves
//! its leaves.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Dequeued, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Promises, Scheduler, SchedulerInfo,
    Sharing, WorkConserving, boxed,
};
use crate::parts::heap::Heap;

/// Registry entry of `lqf`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "lqf",
    aliases: &["longest-queue-first"],
    paper: "sds",
    summary: "the longest queue first: few losses, no guarantees",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    sharing: Sharing::Unknown("the longest queue is served first: rates follow from arrivals and buffers"),
    promises: Promises { starves: true, ..Promises::NONE },
    memory: Lqf::memory,
    build: |tree, _| boxed(Lqf::new(tree)?),
};

/// Larger than any queue in bytes.
const MOST: u128 = 1 << 64;

/// Longest queue first over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Lqf {
    flows: Flows<()>,
    /// Leaves with packets, the longest queue first.
    order: Heap,
}

impl Lqf {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Ok(Self { flows: Flows::of_fifos(tree, |_| ())?, order: Heap::new(tree.len())? })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<()>::fifo_memory(tree) + Heap::memory(tree.len())
    }

    /// Updates the state after the queue of a leaf has changed.
    fn note(&mut self, index: u32) {
        let backlog = self.flows.backlog_of(index);
        if backlog.packets > 0 {
            self.order.set(index, MOST - u128::from(backlog.bytes));
        } else {
            self.order.remove(index);
        }
    }
}

impl Scheduler for Lqf {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let ClassId(index) = packet.class;
        if self.flows.push(now, packet, drops).is_some() {
            self.note(index);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let Some((index, _)) = self.order.first() else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(index, now, drops) else {
            unreachable!("class {index} is in the order without a packet");
        };
        self.note(index);
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.order.clear();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.order.check()?;
        let mut backlogged = 0;
        for index in self.flows.classes() {
            let backlog = self.flows.backlog_of(index);
            let key = (backlog.packets > 0).then(|| MOST - u128::from(backlog.bytes));
            if self.order.key(index) != key {
                return Err(format!(
                    "class {index} has {backlog:?} and is in the order by {:?}",
                    self.order.key(index)
                ));
            }
            backlogged += usize::from(backlog.packets > 0);
        }
        self.flows.check([], backlogged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_link::{flat, never, weighted};

    #[test]
    fn the_longest_queue_is_served_in_bytes_and_the_first_of_equals() {
        let mut lqf = Lqf::new(&flat((0..3).map(|_| weighted(1)))).unwrap();
        // Three short packets, one long one, and two that are together as long as that.
        for (class, len) in [(1, 100), (1, 100), (1, 100), (2, 1000), (3, 500), (3, 500)] {
            lqf.enqueue(Nanos::ZERO, Packet { handle: 0, len, class: ClassId(class) }, &mut never);
        }
        let mut sent = alloc::vec::Vec::new();
        while let Dequeued::Packet(packet) = lqf.dequeue(Nanos::ZERO, &mut never) {
            sent.push(packet.class.0);
        }
        assert_eq!(sent, [2, 3, 3, 1, 1, 1]);
    }
}
