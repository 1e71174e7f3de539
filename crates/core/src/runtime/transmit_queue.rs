//! A queue between a scheduler and its link, as the gateway of \[drrpp\] has one and as network interfaces do: a [`Scheduler`] around any
//! other.
//!
//! After each arrival and each departure packets move from the scheduler into the queue while there is room and the scheduler sends. The
//! link takes packets from the queue. So a packet's turn is decided when it enters the queue, up to n packets before it is sent.
//!
//! | \[drrpp\] Tables 3.1 to 3.4 | here |
//! | --- | --- |
//! | dequeuing module | `Transmitting::fill` |
//! | TxQueue, AppendToTxQueue | `Transmitting::plain` |
//! | PrioTxQueue, AppendToPrioTxQueue | `Transmitting::expedited`, for classes that are [`Scheduler::is_expedited`] |
//! | transmit module | `Transmitting::dequeue` |
//!
//! **Cost per packet.** That of the scheduler, and O(1).
//!
//! **Memory.** n packets in each of the queues, and an amount per class.
//!
//! **Invariants.** Both queues together hold at most n packets. They are full unless the scheduler has nothing to send.
//! Packets of a class leave in the order in which the scheduler sent them: when a class stops being expedited, its
//! earlier packets are in the queue that is sent first.
//!
//! **Bound.** Behind a scheduler whose bound on delay has
//! [`Promises::delay_in_order`](crate::Promises::delay_in_order), the delay grows by at most n largest packets on the
//! link. Let the bound follow from the order of packets: of all that the link has sent since a time s, at most b bytes
//! went before the packet, and the link is busy until then. With the queue the same holds for the order in which
//! packets enter it. At s the queue holds at most n L bytes, and the link sends only those and the b bytes before the
//! packet. So the packet leaves at most n L / r later. With `priority` a packet of an expedited class is sent before
//! some of these, and after no others. For packets of other classes the only promise is then that the one at the head
//! of its queue is overtaken at most n times.
//!
//! DIFFERENCE: the text gives no sizes for its queues. With unlimited queues, a scheduler would hand over all its
//! packets at once, and a FIFO would decide the order. Here the room is n packets, for both queues together.
//! DIFFERENCE: at most n expedited packets in a row overtake the first plain one. In the text a best-effort packet in
//! `TxQueue` waits while there are others, forever if latency-critical classes send more than the link carries. The
//! scheduler's service to best-effort classes would then not reach the link. DIFFERENCE: packets in the queues do not
//! count towards the limits of classes and of the link's buffer. The queues have their own room.

use alloc::boxed::Box;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::ops::Range;

use core::any::Any;

use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Scheduler, TransmitQueue,
    same_kind,
};
use crate::parts::memory::{bytes_of, filled, slice};

#[cfg(test)]
mod tests;

/// A ring of packets with room for a number of them.
#[derive(Debug)]
struct Fifo {
    /// Slots outside of the ring have no meaning.
    slots: Box<[Slot]>,
    first: usize,
    len: usize,
}

/// A packet, and the number of packets that had entered the queue before it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    handle: u64,
    len: u32,
    class: ClassId,
    number: u64,
}

impl Fifo {
    fn new(room: usize) -> Result<Self, OutOfMemory> {
        let none = Slot { handle: 0, len: 0, class: ClassId::ROOT, number: 0 };
        Ok(Self { slots: filled(room, none)?, first: 0, len: 0 })
    }

    /// Returns the slot at `place` behind the first, both below the room.
    fn slot(&self, place: usize) -> usize {
        let slot = self.first + place;
        if slot < self.slots.len() { slot } else { slot - self.slots.len() }
    }

    /// Appends a packet; there is room.
    fn push(&mut self, Packet { handle, len, class }: Packet, number: u64) {
        let slot = self.slot(self.len);
        self.slots[slot] = Slot { handle, len, class, number };
        self.len += 1;
    }

    /// Returns the number of the first packet.
    fn number(&self) -> Option<u64> {
        (self.len > 0).then(|| self.slots[self.first].number)
    }

    fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        let Slot { handle, len, class, .. } = self.slots[self.first];
        self.first = self.slot(1);
        self.len -= 1;
        Some(Packet { handle, len, class })
    }
}

/// A scheduler with a transmit queue behind it.
#[derive(Debug)]
pub(crate) struct Transmitting<S> {
    inner: S,
    room: usize,
    plain: Fifo,
    /// Sent first; without room unless there is a priority queue.
    expedited: Fifo,
    /// Amount in both queues, by class.
    held: Box<[Amount]>,
    total: Amount,
    /// Number of packets that have entered.
    entered: u64,
    /// Number of consecutive expedited packets that were sent although they entered after the first plain one.
    passed: usize,
    /// Time until which the scheduler has nothing to send unless something arrives.
    waits: Option<Nanos>,
    now: Nanos,
}

impl<S: Scheduler> Transmitting<S> {
    /// Makes `queue` behind `inner`, which is empty and was made for `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(inner: S, queue: TransmitQueue, tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let room = queue.packets as usize;
        Ok(Self {
            inner,
            room,
            plain: Fifo::new(room)?,
            expedited: Fifo::new(if queue.priority { room } else { 0 })?,
            held: slice(tree.len(), |_| Amount::default())?,
            total: Amount::default(),
            entered: 0,
            passed: 0,
            waits: None,
            now: Nanos::ZERO,
        })
    }

    /// Moves packets from the scheduler into the queue while there is room.
    fn fill(&mut self, drops: &mut dyn DropSink) {
        self.waits = None;
        while self.plain.len + self.expedited.len < self.room {
            match self.inner.dequeue(self.now, drops) {
                Dequeued::Packet(packet) => {
                    self.held[packet.class.index()].count(packet.len);
                    self.total.count(packet.len);
                    let has_priority = !self.expedited.slots.is_empty() && self.inner.is_expedited(packet.class);
                    let queue = if has_priority { &mut self.expedited } else { &mut self.plain };
                    queue.push(packet, self.entered);
                    self.entered += 1;
                }
                Dequeued::WaitUntil(at) => {
                    self.waits = Some(at);
                    return;
                }
                Dequeued::Idle => return,
            }
        }
    }

    /// Removes and returns the next packet of the link.
    fn take(&mut self) -> Option<Packet> {
        let overtakes =
            self.plain.number().is_some_and(|plain| self.expedited.number().is_some_and(|number| plain < number));
        let packet = if overtakes && self.passed < self.room {
            self.passed += 1;
            self.expedited.pop()?
        } else if overtakes || self.expedited.len == 0 {
            self.passed = 0;
            self.plain.pop()?
        } else {
            self.expedited.pop()?
        };
        for amount in [&mut self.held[packet.class.index()], &mut self.total] {
            amount.packets -= 1;
            amount.bytes -= u64::from(packet.len);
        }
        Some(packet)
    }
}

impl Transmitting<Box<dyn Scheduler>> {
    /// Memory of the transmit queue of `tree`, in bytes; 0 if there is none.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        tree.link().transmit_queue.map_or(0, |TransmitQueue { packets, priority }| {
            // The scheduler's own box is not counted.
            bytes_of::<Slot>(packets as usize * if priority { 2 } else { 1 }) + bytes_of::<Amount>(tree.len())
        })
    }
}

impl<S: Scheduler> Scheduler for Transmitting<S> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.inner.enqueue(now, packet, drops);
        self.fill(drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        // There is room if the scheduler had nothing to send before.
        self.fill(drops);
        match (self.take(), self.waits) {
            (Some(packet), _) => {
                self.fill(drops);
                Dequeued::Packet(packet)
            }
            (None, Some(at)) => Dequeued::WaitUntil(at),
            (None, None) => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Amount {
        let mut backlog = self.inner.backlog();
        backlog += self.total;
        backlog
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        let mut backlog = self.inner.class_backlog(class);
        backlog += self.held.get(class.index()).copied().unwrap_or_default();
        backlog
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let same = (self.room, self.expedited.slots.len(), self.held.len())
            == (with.room, with.expedited.slots.len(), with.held.len());
        let retuned = same && self.inner.retune(now, &mut with.inner);
        if retuned {
            // The scheduler's packets may be due earlier than it said.
            self.waits = self.waits.map(|until| until.min(now));
        }
        retuned
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        while let Some(packet) = self.take() {
            drops.dropped(now, packet, DropReason::Purged);
        }
        (self.waits, self.passed) = (None, 0);
        self.inner.purge(now, drops);
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.inner.is_expedited(class)
    }

    fn class_state(&self, class: ClassId) -> Option<&'static str> {
        self.inner.class_state(class)
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        self.inner.for_each_counter(classes, visit);
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.inner.check_invariants()?;
        let all: Amount = self.held.iter().copied().sum();
        let queued = self.plain.len + self.expedited.len;
        if all != self.total || self.total.packets != queued as u64 || queued > self.room {
            return Err(format!("{queued} packets in a transmit queue for {}, {all:?} by class", self.room));
        }
        if queued < self.room && self.waits.is_none() && self.inner.backlog().packets > 0 {
            return Err(format!(
                "{queued} packets in a transmit queue for {}, and the scheduler could send",
                self.room
            ));
        }
        Ok(())
    }
}
