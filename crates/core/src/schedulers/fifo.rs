//! `fifo`: one queue for all classes, first in, first out: a link without a scheduler.
//!
//! Each class's own queue limits still hold, so that no class can fill the queue alone.
//! Cost per packet: O(1). Invariants: the order of departure is the order of arrival.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use core::any::Any;

use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Promises, QueueLimits,
    Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed, same_kind,
};
use crate::parts::memory::{Queue, bytes_of, filled};

/// Registry entry of `fifo`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "fifo",
    aliases: &[],
    paper: "",
    summary: "one queue, first in, first out",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(1)",
    sharing: Sharing::Unknown("a first-in-first-out queue has no shares: rates follow from the order of arrivals"),
    promises: Promises::NONE,
    memory: Fifo::memory,
    build: |tree, _| boxed(Fifo::new(tree)?),
};

#[derive(Clone, Copy, Debug)]
struct Class {
    limits: Option<QueueLimits>,
    backlog: Amount,
}

/// One queue for all classes.
#[derive(Debug)]
pub(crate) struct Fifo {
    queue: Queue<Packet>,
    classes: Box<[Class]>,
    bytes: u64,
    max_packet: u32,
    max_queued: usize,
}

impl Fifo {
    /// Makes a queue for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let mut classes = filled(tree.len(), Class { limits: None, backlog: Amount::default() })?;
        for &leaf in tree.leaves() {
            classes[leaf.index()].limits = Some(tree.config(leaf).limits);
        }
        let link = tree.link();
        let max_queued = link.max_queued as usize;
        Ok(Self { queue: Queue::with_room(max_queued)?, classes, bytes: 0, max_packet: link.max_packet, max_queued })
    }

    fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<Packet>(tree.link().max_queued as usize) + bytes_of::<Class>(tree.len())
    }

    fn refusal(&self, packet: &Packet) -> Option<DropReason> {
        let Some(&Class { limits: Some(limits), backlog }) = self.classes.get(packet.class.index()) else {
            return Some(DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            Some(DropReason::TooLong)
        } else if backlog.packets >= u64::from(limits.packets) {
            Some(DropReason::QueuePackets)
        } else if backlog.bytes + u64::from(packet.len) > u64::from(limits.bytes) {
            Some(DropReason::QueueBytes)
        } else if self.queue.len() >= self.max_queued {
            Some(DropReason::TotalPackets)
        } else {
            None
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop()?;
        self.bytes -= u64::from(packet.len);
        let backlog = &mut self.classes[packet.class.index()].backlog;
        backlog.packets -= 1;
        backlog.bytes -= u64::from(packet.len);
        Some(packet)
    }
}

impl Scheduler for Fifo {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        if let Some(reason) = self.refusal(&packet) {
            drops.dropped(now, packet, reason);
            return;
        }
        self.bytes += u64::from(packet.len);
        let backlog = &mut self.classes[packet.class.index()].backlog;
        backlog.packets += 1;
        backlog.bytes += u64::from(packet.len);
        self.queue.push(packet);
    }

    #[inline]
    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        self.pop().map_or(Dequeued::Idle, Dequeued::Packet)
    }

    fn backlog(&self) -> Amount {
        Amount { packets: self.queue.len() as u64, bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.backlog)
    }

    fn retune(&mut self, _now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let same = |(mine, theirs): (&Class, &Class)| mine.limits.is_some() == theirs.limits.is_some();
        if self.classes.len() != with.classes.len()
            || self.max_packet != with.max_packet
            || !self.classes.iter().zip(&with.classes).all(same)
        {
            return false;
        }
        self.queue.take_room(&mut with.queue);
        self.max_queued = with.max_queued;
        for (mine, theirs) in self.classes.iter_mut().zip(&with.classes) {
            mine.limits = theirs.limits;
        }
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        while let Some(packet) = self.pop() {
            drops.dropped(now, packet, DropReason::Purged);
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let packets: u64 = self.classes.iter().map(|class| class.backlog.packets).sum();
        if packets != self.queue.len() as u64 {
            return Err(format!("{packets} packets counted by class, {} queued", self.queue.len()));
        }
        Ok(())
    }
}
