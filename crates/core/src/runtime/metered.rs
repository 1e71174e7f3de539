//! Counts the packets through a scheduler, per class, and checks the identity received = sent + dropped + queued, in
//! packets and in bytes, for every class and after every call.
//!
//! The counters are here so that no algorithm carries them. The caller measures delays: it knows when a handle was
//! received and when it was sent. Cost per packet: O(1) and one more cache line; the identity for one class or for all
//! classes together is O(1), for every class O(classes).

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::any::Any;
use core::ops::{AddAssign, Range};

use crate::contract::{
    Amount, BatchEnd, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Members, Nanos, OutOfMemory, Packet,
    Scheduler, same_kind,
};
use crate::parts::memory::{bytes_of, filled};
use crate::runtime::reconfigure::{Change, Prepared, ReconfigureError, Retired, prepare};

/// Counters of one class, or of several together. All of them only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed in by enqueue.
    pub received: Amount,
    /// Handed out by dequeue.
    pub sent: Amount,
    /// Dropped, by [`DropReason::index`].
    pub dropped: [Amount; DropReason::ALL.len()],
    /// Marked as having met congestion. These are also among those sent, or dropped after all.
    pub marked: Amount,
}

impl Counters {
    /// Returns the amount dropped for `reason`.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> Amount {
        self.dropped[reason.index()]
    }

    /// Returns the drops for all reasons.
    #[must_use]
    pub fn dropped_total(&self) -> Amount {
        self.dropped.iter().copied().sum()
    }

    /// Returns the amount that must be queued if no packet was lost or invented; `None` if more came out than went in.
    #[must_use]
    pub fn outstanding(&self) -> Option<Amount> {
        self.received.checked_sub(self.sent)?.checked_sub(self.dropped_total())
    }

    /// Checks received = sent + dropped + queued.
    #[cfg(feature = "invariants")]
    fn check(&self, queued: Amount) -> Result<(), String> {
        if self.outstanding() == Some(queued) {
            return Ok(());
        }
        Err(format!(
            "received {:?}, sent {:?}, dropped {:?}, {queued:?}",
            self.received,
            self.sent,
            self.dropped_total()
        ))
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.marked += other.marked;
        for (count, other) in self.dropped.iter_mut().zip(other.dropped) {
            *count += other;
        }
    }
}

/// A scheduler whose traffic is counted.
#[derive(Debug)]
pub struct Metered<S> {
    inner: S,
    meter: Meter,
}

#[derive(Debug)]
struct Meter {
    classes: Box<[Counters]>,
    /// Packets that named no class, and classes that a reconfiguration removed.
    elsewhere: Counters,
    total: Counters,
}

impl Meter {
    fn new(classes: usize) -> Result<Self, OutOfMemory> {
        let none = Counters::default();
        Ok(Self { classes: filled(classes, none)?, elsewhere: none, total: none })
    }

    fn class(&mut self, class: ClassId) -> &mut Counters {
        self.classes.get_mut(class.index()).unwrap_or(&mut self.elsewhere)
    }

    fn received(&mut self, packet: &Packet) {
        self.total.received.count(packet.len);
        self.class(packet.class).received.count(packet.len);
    }

    fn sent(&mut self, packet: &Packet) {
        self.total.sent.count(packet.len);
        self.class(packet.class).sent.count(packet.len);
    }
}

/// Counts drops and marks and passes them on.
struct CountingSink<'a> {
    meter: &'a mut Meter,
    drops: &'a mut dyn DropSink,
}

impl DropSink for CountingSink<'_> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        self.meter.total.dropped[reason.index()].count(packet.len);
        self.meter.class(packet.class).dropped[reason.index()].count(packet.len);
        self.drops.dropped(now, packet, reason);
    }

    fn marked(&mut self, now: Nanos, packet: &Packet) {
        self.meter.total.marked.count(packet.len);
        self.meter.class(packet.class).marked.count(packet.len);
        self.drops.marked(now, packet);
    }
}

impl Counters {
    /// Bytes that the counters of a [`Metered`] for `tree` take.
    #[must_use]
    pub const fn memory(tree: &Hierarchy) -> u64 {
        bytes_of::<Self>(tree.len())
    }
}

impl<S: Scheduler> Metered<S> {
    /// Counts the packets through `inner`, which is empty and was made for `tree`.
    ///
    /// # Errors
    /// Fails if there is no memory for the counters.
    pub fn new(inner: S, tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        Ok(Self { inner, meter: Meter::new(tree.len())? })
    }

    /// Returns the scheduler.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the counters of `class`. Packets of classes that do not exist, and of classes that were removed since,
    /// are in [`Metered::elsewhere`].
    #[must_use]
    pub fn counters(&self, class: ClassId) -> Counters {
        self.meter.classes.get(class.index()).copied().unwrap_or_default()
    }

    /// Returns the counters of packets whose class does not exist, and of classes that a reconfiguration removed.
    #[must_use]
    pub fn elsewhere(&self) -> Counters {
        self.meter.elsewhere
    }

    /// Returns the counters of all classes together, [`Metered::elsewhere`] included.
    #[must_use]
    pub fn total(&self) -> Counters {
        self.meter.total
    }

    /// Checks that no packet was lost or invented: in total, for each class, and elsewhere.
    ///
    /// # Errors
    /// The class and its numbers, in words.
    #[cfg(feature = "invariants")]
    pub fn check_conservation(&self) -> Result<(), String> {
        self.meter.total.check(self.inner.backlog()).map_err(|error| format!("all classes: {error}"))?;
        self.meter.elsewhere.check(Amount::default()).map_err(|error| format!("no class: {error}"))?;
        let mut sum = self.meter.elsewhere;
        for (index, counters) in self.meter.classes.iter().enumerate() {
            let queued = self.inner.class_backlog(ClassId(index as u32));
            counters.check(queued).map_err(|error| format!("class {index}: {error}"))?;
            sum += *counters;
        }
        if sum == self.meter.total {
            return Ok(());
        }
        Err(format!("the classes together {sum:?}, the total {:?}", self.meter.total))
    }
}

/// A change of a scheduler whose traffic is counted, ready to be committed.
#[derive(Debug)]
#[must_use]
pub struct MeteredChange {
    prepared: Prepared,
    meter: Meter,
}

/// The remains of a change, including the old counters; see [`Retired`].
#[derive(Debug)]
#[must_use]
pub struct MeteredRetired {
    _scheduler: Retired,
    _meter: Meter,
}

impl MeteredChange {
    /// Like [`prepare`], with counters for the new classes.
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn prepare(change: &Change<'_>, members: Members) -> Result<MeteredChange, ReconfigureError> {
        Ok(Self { prepared: prepare(change, members)?, meter: Meter::new(change.tree.len())? })
    }
}

impl Metered<Box<dyn Scheduler>> {
    /// [`Prepared::commit`], with the counters of a surviving class moved to its new id, and those of a removed one to
    /// [`Metered::elsewhere`]. The total is unaffected.
    pub fn commit(&mut self, change: MeteredChange, now: Nanos, drops: &mut dyn DropSink) -> MeteredRetired {
        let MeteredChange { prepared, mut meter } = change;
        meter.total += self.meter.total;
        meter.elsewhere += self.meter.elsewhere;
        for (index, &counters) in self.meter.classes.iter().enumerate() {
            match prepared.new_class(ClassId(index as u32)) {
                Some(class) => *meter.class(class) += counters,
                None => meter.elsewhere += counters,
            }
        }
        let retired = prepared.commit(&mut self.inner, now, &mut RemovalSink { meter: &mut meter, drops });
        MeteredRetired { _scheduler: retired, _meter: core::mem::replace(&mut self.meter, meter) }
    }
}

/// Counts the drops and marks of a change. Packets dropped with their class are counted elsewhere, like the class's own
/// counters.
struct RemovalSink<'a> {
    meter: &'a mut Meter,
    drops: &'a mut dyn DropSink,
}

impl DropSink for RemovalSink<'_> {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        if reason == DropReason::ClassRemoved {
            self.meter.total.dropped[reason.index()].count(packet.len);
            self.meter.elsewhere.dropped[reason.index()].count(packet.len);
            self.drops.dropped(now, packet, reason);
        } else {
            CountingSink { meter: self.meter, drops: self.drops }.dropped(now, packet, reason);
        }
    }

    fn marked(&mut self, now: Nanos, packet: &Packet) {
        CountingSink { meter: self.meter, drops: self.drops }.marked(now, packet);
    }

    fn moved(&mut self, packet: &mut Packet) {
        self.drops.moved(packet);
    }
}

impl<S: Scheduler> Scheduler for Metered<S> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.meter.received(&packet);
        self.inner.enqueue(now, packet, &mut CountingSink { meter: &mut self.meter, drops });
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        let dequeued = self.inner.dequeue(now, &mut CountingSink { meter: &mut self.meter, drops });
        if let Dequeued::Packet(packet) = &dequeued {
            self.meter.sent(packet);
        }
        dequeued
    }

    fn backlog(&self) -> Amount {
        self.inner.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.inner.class_backlog(class)
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.inner.purge(now, &mut CountingSink { meter: &mut self.meter, drops });
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        batch.iter().for_each(|packet| self.meter.received(packet));
        self.inner.enqueue_batch(now, batch, &mut CountingSink { meter: &mut self.meter, drops });
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        let before = out.len();
        let mut sink = CountingSink { meter: &mut self.meter, drops };
        let end = self.inner.dequeue_batch(now, max_packets, max_bytes, out, &mut sink);
        out.iter().skip(before).for_each(|packet| self.meter.sent(packet));
        end
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        same_kind::<Self>(with).is_some_and(|with| self.inner.retune(now, &mut with.inner))
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
        self.check_conservation()
    }
}
