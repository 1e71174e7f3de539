//! `fifo`: one queue for all classes, first in, first out: what a link does without a scheduler.
//!
//! Each class's own queue limits still hold, so that no class can fill the queue alone.
//! Cost per packet: O(1). Invariants: the order of departure is the order of arrival.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{collections::VecDeque, format};

use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, Packet, QueueLimits, Scheduler, SchedulerInfo,
    WorkConserving,
};

/// What `fifo` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "fifo",
    paper: "",
    summary: "one queue, first in, first out",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(1)",
    bounds: &[],
    build: |tree| Ok(Box::new(Fifo::new(tree))),
};

#[derive(Clone, Copy, Debug)]
struct Class {
    limits: Option<QueueLimits>,
    backlog: Amount,
}

/// One queue for all classes.
#[derive(Debug)]
pub struct Fifo {
    queue: VecDeque<Packet>,
    classes: Vec<Class>,
    bytes: u64,
    max_packet: u32,
    max_queued: usize,
}

impl Fifo {
    /// A queue for the leaves of `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let mut classes = alloc::vec![Class { limits: None, backlog: Amount::default() }; tree.len()];
        for &leaf in tree.leaves() {
            classes[leaf.index()].limits = Some(tree.config(leaf).limits);
        }
        let link = tree.link();
        let max_queued = link.max_queued as usize;
        Self { queue: VecDeque::with_capacity(max_queued), classes, bytes: 0, max_packet: link.max_packet, max_queued }
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
        let packet = self.queue.pop_front()?;
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
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        self.pop().map_or(Dequeued::Idle, Dequeued::Packet)
    }

    fn backlog(&self) -> Amount {
        Amount { packets: self.queue.len() as u64, bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.backlog)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        while let Some(packet) = self.pop() {
            drops.dropped(now, packet, DropReason::Purged);
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        let packets: u64 = self.classes.iter().map(|class| class.backlog.packets).sum();
        if packets != self.queue.len() as u64 {
            return Err(format!("{packets} packets counted by class, {} queued", self.queue.len()));
        }
        Ok(())
    }
}
