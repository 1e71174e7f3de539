//! The contract between a scheduler and its caller.
//!
//! * The caller owns time. `now` must not decrease from call to call. If it does, a scheduler continues with the latest
//!   time that it has seen.
//! * The caller owns packets. A scheduler sees a handle, a length and a class. It returns every packet exactly once: from
//!   [`Scheduler::dequeue`], or to the [`DropSink`] with a reason.
//! * Nothing is allocated after construction. Every loop is bounded. No packet causes a panic.
//!
//! # The contract suite
//! `crates/core/tests/contract` checks each scheduler of the registry over random trees and calls:
//!
//! | requirement | exception, stated in its `INFO` |
//! | --- | --- |
//! | received = sent + dropped + queued after every call, for each class in packets and bytes; packets of a class keep their order | |
//! | the same calls give the same packets; a batch does what single calls do | |
//! | with backlog a packet is sent at once | [`WorkConserving`](crate::WorkConserving): `UnlessLimited`, `Never` |
//! | a backlogged leaf is served in bounded time, whatever the others send | [`Promises::starves`](crate::Promises::starves), priorities |
//! | after a change of weights, leaves with equal packets share by the new weights | a [`Sharing`](crate::Sharing) that has no weights |
//! | no allocation after construction, and no more memory than [`SchedulerInfo::memory`](crate::SchedulerInfo::memory) | |
//! | `purge` leaves a scheduler as if just constructed; a refused change leaves it as it was | |
//! | unknown classes, inner classes, packets longer than the link's largest: dropped with their reason | |
//! | the invariants of `check_invariants` hold after every call | |
//!
//! # Example
//! A scheduler with all that the trait asks for: one queue for each leaf, one packet of each in turn.
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use fairlink_core::{
//!     Amount, ClassConfig, ClassId, Dequeued, Driver, DropReason, DropSink, Hierarchy, LinkConfig, Nanos, Next, Pacer, Packet, Rate,
//!     Scheduler,
//! };
//!
//! /// Serves the leaves in turn, a packet each.
//! struct RoundRobin {
//!     /// By class id; `None` for a class that is not a leaf.
//!     queues: Vec<Option<VecDeque<Packet>>>,
//!     /// Packets that a queue holds at most.
//!     limit: usize,
//!     max_packet: u32,
//!     /// The class that is asked first.
//!     next: usize,
//! }
//!
//! impl RoundRobin {
//!     fn new(tree: &Hierarchy, limit: usize) -> Self {
//!         // All memory is allocated here.
//!         let queue = |class: usize| tree.is_leaf(ClassId(class as u32)).then(|| VecDeque::with_capacity(limit));
//!         Self { queues: (0..tree.len()).map(queue).collect(), limit, max_packet: tree.link().max_packet, next: 0 }
//!     }
//! }
//!
//! fn amount<'a>(packets: impl Iterator<Item = &'a Packet>) -> Amount {
//!     let mut amount = Amount::default();
//!     packets.for_each(|packet| amount.count(packet.len));
//!     amount
//! }
//!
//! impl Scheduler for RoundRobin {
//!     fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
//!         let reason = match self.queues.get_mut(packet.class.index()) {
//!             Some(Some(_)) if packet.len > self.max_packet => DropReason::TooLong,
//!             Some(Some(queue)) if queue.len() == self.limit => DropReason::QueuePackets,
//!             Some(Some(queue)) => return queue.push_back(packet),
//!             _ => DropReason::NotALeaf,
//!         };
//!         drops.dropped(now, packet, reason);
//!     }
//!
//!     fn dequeue(&mut self, _: Nanos, _: &mut dyn DropSink) -> Dequeued {
//!         let classes = self.queues.len();
//!         for class in (self.next..classes).chain(0..self.next) {
//!             if let Some(packet) = self.queues[class].as_mut().and_then(VecDeque::pop_front) {
//!                 self.next = (class + 1) % classes;
//!                 return Dequeued::Packet(packet);
//!             }
//!         }
//!         Dequeued::Idle
//!     }
//!
//!     fn backlog(&self) -> Amount {
//!         amount(self.queues.iter().flatten().flatten())
//!     }
//!
//!     fn class_backlog(&self, class: ClassId) -> Amount {
//!         amount(self.queues.get(class.index()).into_iter().flatten().flatten())
//!     }
//!
//!     fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
//!         for queue in self.queues.iter_mut().flatten() {
//!             queue.drain(..).for_each(|packet| drops.dropped(now, packet, DropReason::Purged));
//!         }
//!         self.next = 0;
//!     }
//! }
//!
//! // Two leaves of a link of 8 Mbit/s, on which a packet of 1000 B takes a millisecond.
//! let link = LinkConfig::new(Rate::from_bps(8_000_000)?);
//! let mut tree = Hierarchy::builder(link);
//! let leaves = [tree.add(ClassId::ROOT, ClassConfig::default())?, tree.add(ClassId::ROOT, ClassConfig::default())?];
//! let tree = tree.build()?;
//! let mut driver = Driver::new(RoundRobin::new(&tree, 100), Pacer::new(link.rate, Nanos::ZERO))?;
//! let mut drops = |_, packet: Packet, reason: DropReason| panic!("{packet:?}: {}", reason.as_str());
//! for handle in 0..4 {
//!     // Two packets of the first leaf come before those of the second.
//!     let class = leaves[handle as usize / 2];
//!     driver.enqueue(Nanos::ZERO, Packet { handle, len: 1000, class }, &mut drops);
//! }
//! let mut order = Vec::new();
//! let mut now = Nanos::ZERO;
//! while let Next::Packet { packet, done } = driver.next(now, &mut drops) {
//!     order.push(packet.handle);
//!     now = done;
//! }
//! assert_eq!(order, [0, 2, 1, 3]);
//! assert_eq!(now, Nanos::from_millis(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Schedulers of this crate build on `bases` and `parts` instead, whose allocations can fail and which need no pass
//! over all classes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;

use super::amount::Amount;
use super::packet::{ClassId, Packet};
use super::units::Nanos;

/// Most counters that a scheduler keeps of one class, the link included; see [`Scheduler::for_each_counter`].
pub const MAX_COUNTERS: usize = 2;

/// The result of [`Scheduler::dequeue`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Dequeued {
    /// The packet to send now.
    Packet(Packet),
    /// There is backlog, but nothing can be sent before `t`, which is later than `now`. Only an arrival, a change of
    /// configuration, or a return from another member of a shared pool can make it earlier. Earlier calls are allowed
    /// but useless.
    WaitUntil(Nanos),
    /// There is no backlog.
    Idle,
}

/// The reason for the end of a [`Scheduler::dequeue_batch`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// The budget is used up; there may be more.
    Full,
    /// Like [`Dequeued::WaitUntil`].
    WaitUntil(Nanos),
    /// Like [`Dequeued::Idle`].
    Idle,
}

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The class's queue holds its limit of packets.
    QueuePackets,
    /// The class's queue holds its limit of bytes.
    QueueBytes,
    /// All queues together hold the scheduler's limit of packets.
    TotalPackets,
    /// All queues together hold the scheduler's limit of packets, this is of the longest queue, and another has arrived.
    PushedOut,
    /// The packet is longer than the link's largest packet.
    TooLong,
    /// The packet names a class that does not exist or is not a leaf.
    NotALeaf,
    /// The class's queue discipline dropped it to signal congestion.
    Congestion,
    /// [`Scheduler::purge`] emptied the queues.
    Purged,
    /// A reconfiguration removed the class.
    ClassRemoved,
}

impl DropReason {
    /// All reasons, in the order of [`DropReason::index`].
    pub const ALL: [Self; 9] = [
        Self::QueuePackets,
        Self::QueueBytes,
        Self::TotalPackets,
        Self::PushedOut,
        Self::TooLong,
        Self::NotALeaf,
        Self::Congestion,
        Self::Purged,
        Self::ClassRemoved,
    ];

    /// Returns the position in [`DropReason::ALL`], for arrays of counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the reason as text for users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueuePackets => "queue full (packets)",
            Self::QueueBytes => "queue full (bytes)",
            Self::TotalPackets => "all queues full",
            Self::PushedOut => "pushed out of the longest queue",
            Self::TooLong => "longer than the mtu",
            Self::NotALeaf => "not a leaf class",
            Self::Congestion => "congestion",
            Self::Purged => "purged",
            Self::ClassRemoved => "class removed",
        }
    }
}

/// Takes back the packets that a scheduler drops. The dropped packet need not be the arriving one: AQM and
/// longest-queue policies drop others.
///
/// A closure is a sink that ignores marks:
///
/// ```
/// use fairlink_core::{ClassId, DropReason, DropSink, Nanos, Packet};
///
/// let mut lost = 0;
/// let mut sink = |_: Nanos, packet: Packet, _: DropReason| lost += packet.len;
/// let sink: &mut dyn DropSink = &mut sink;
/// sink.dropped(Nanos::ZERO, Packet { handle: 7, len: 1500, class: ClassId(1) }, DropReason::QueuePackets);
/// assert_eq!(lost, 1500);
/// ```
pub trait DropSink {
    /// Reports that `packet` was dropped at `now` because of `reason`.
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason);

    /// Called for `packet` if it is the next of its class to be dequeued and must be marked as having met congestion
    /// (CE, RFC 3168). It would have been dropped if it were not [`ECN_CAPABLE`](crate::contract::ECN_CAPABLE). A
    /// packet is marked at most once, and only if it is ECN-capable. The sink writes the mark into the packet. A sink
    /// that does nothing loses the signal.
    fn marked(&mut self, now: Nanos, packet: &Packet) {
        let _ = (now, packet);
    }

    /// Called for `packet`, already of its new class, before a [change](crate::Prepared::commit) queues it again. The
    /// sink may replace the upper half of its handle by the value that the new queue uses. A sink that does nothing
    /// keeps the value of the old queue.
    fn moved(&mut self, packet: &mut Packet) {
        let _ = packet;
    }
}

impl<F: FnMut(Nanos, Packet, DropReason)> DropSink for F {
    fn dropped(&mut self, now: Nanos, packet: Packet, reason: DropReason) {
        self(now, packet, reason);
    }
}

/// Decides which packet a link sends next. One scheduler serves one link.
pub trait Scheduler: Any + Send {
    /// Queues `packet` at its class, or drops it (or another) into `drops`.
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink);

    /// Removes and returns the packet to send now, if any.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued;

    /// Returns the amount queued in all classes together.
    fn backlog(&self) -> Amount;

    /// Returns the amount queued at one leaf; zero for a class that is not a leaf.
    fn class_backlog(&self, class: ClassId) -> Amount;

    /// Gives every queued packet to `drops` with [`DropReason::Purged`], in order within each class, and forgets all
    /// credit and debt, as if just constructed.
    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink);

    /// Calls [`Scheduler::enqueue`] for each packet of `batch`, in order. `batch` is empty afterwards.
    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        for packet in batch.drain(..) {
            self.enqueue(now, packet, drops);
        }
    }

    /// Calls [`Scheduler::dequeue`] and appends the packets to `out`. Stops after `max_packets` packets, after at least
    /// `max_bytes` bytes, when `out` would have to grow, or when nothing more can be sent now. The order is that of
    /// single calls.
    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        let mut bytes = 0u64;
        for _ in 0..max_packets.min(room_in(out)) {
            if bytes >= max_bytes {
                break;
            }
            match self.dequeue(now, drops) {
                Dequeued::Packet(packet) => {
                    bytes += u64::from(packet.len);
                    out.push(packet);
                }
                Dequeued::WaitUntil(t) => return BatchEnd::WaitUntil(t),
                Dequeued::Idle => return BatchEnd::Idle,
            }
        }
        BatchEnd::Full
    }

    /// Adopts the configuration of `with`: rates, weights, quanta, curves, limits of queues. `with` is an unused
    /// scheduler of the same kind for the same classes in the same places; its remains are to be dropped. The queued
    /// packets and the credit or debt of each class stay: tokens, deficits, places in the round, tags, curves. Classes
    /// borrow from the lenders of `with`. If a limit is lowered, a queue may hold more than the new limit; no packet is
    /// dropped.
    ///
    /// Returns false, without any change, if the scheduler would have to be built anew. Allocates nothing.
    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let _ = (now, with);
        false
    }

    /// Becomes `with`, an unused scheduler of the same kind for other classes: some were added or removed, or have
    /// other ids, parents or parameters. `survivors` has by old id the leaf that takes over. The queued packets of
    /// these leaves, and their credit and debt, stay. Packets of other leaves go to `drops` as
    /// [`DropReason::ClassRemoved`], under their old class. If a limit is lowered, a queue may hold more than the new
    /// limit. The remains in `with` are to be dropped.
    ///
    /// Returns false, without any change, if the scheduler cannot do that; then the packets are to be queued in `with`.
    /// Allocates nothing.
    fn adopt(
        &mut self,
        now: Nanos,
        with: &mut dyn Any,
        survivors: &[Option<ClassId>],
        drops: &mut dyn DropSink,
    ) -> bool {
        let _ = (now, with, survivors, drops);
        false
    }

    /// Returns true if the head packet of `class` would now go into the priority queue of a [transmit
    /// queue](crate::contract::TransmitQueue): a latency-critical class that is served as one. A class may lose this
    /// property. It does not gain it while it has packets.
    fn is_expedited(&self, class: ClassId) -> bool {
        let _ = class;
        false
    }

    /// Returns the state of a class that decides if it may send, in the paper's words, at the time of the last call:
    /// `"green"`, `"yellow"` or `"red"` for HTB. `None` if the scheduler has no such states, and for a class that does
    /// not exist.
    fn class_state(&self, class: ClassId) -> Option<&'static str> {
        let _ = class;
        None
    }

    /// Calls `visit` with each counter that the scheduler keeps since it was made or purged: the class,
    /// [`ClassId::ROOT`] for the link, the counter's name and its value. Visits only the classes whose ids are in
    /// `classes`, in time proportional to these, so that a data path can read a few at a time. All their counters are
    /// visited, also zero ones, in a fixed order; a class has at most [`MAX_COUNTERS`]. A name that ends with `_bps` is
    /// a meter reading, not a count. `docs/papers.md` explains each counter.
    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        let _ = (classes, visit);
    }

    /// Checks the scheduler's invariants. Tests call it after every step. It exists with the feature `invariants` only,
    /// because it brings text formatting with it.
    ///
    /// # Errors
    /// The broken invariant, in words.
    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), alloc::string::String> {
        Ok(())
    }
}

/// Number of packets that `out` can take without growing.
#[inline]
pub(crate) fn room_in(out: &Vec<Packet>) -> usize {
    out.capacity() - out.len()
}

/// Downcasts `scheduler`, boxed or not, to the kind `S`.
pub(crate) fn same_kind<S: 'static>(scheduler: &mut dyn Any) -> Option<&mut S> {
    if scheduler.is::<Box<dyn Scheduler>>() && !scheduler.is::<S>() {
        let boxed = scheduler.downcast_mut::<Box<dyn Scheduler>>()?;
        same_kind(&mut **boxed)
    } else if scheduler.is::<[S; 1]>() {
        scheduler.downcast_mut::<[S; 1]>().map(|[scheduler]| scheduler)
    } else {
        scheduler.downcast_mut::<S>()
    }
}

/// Forwards every method to the scheduler inside.
macro_rules! forward {
    ($self:ident => $inner:expr) => {
        fn enqueue(&mut $self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
            $inner.enqueue(now, packet, drops);
        }

        fn dequeue(&mut $self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
            $inner.dequeue(now, drops)
        }

        fn backlog(&$self) -> Amount {
            $inner.backlog()
        }

        fn class_backlog(&$self, class: ClassId) -> Amount {
            $inner.class_backlog(class)
        }

        fn purge(&mut $self, now: Nanos, drops: &mut dyn DropSink) {
            $inner.purge(now, drops);
        }

        fn enqueue_batch(&mut $self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
            $inner.enqueue_batch(now, batch, drops);
        }

        fn dequeue_batch(
            &mut $self,
            now: Nanos,
            max_packets: usize,
            max_bytes: u64,
            out: &mut Vec<Packet>,
            drops: &mut dyn DropSink,
        ) -> BatchEnd {
            $inner.dequeue_batch(now, max_packets, max_bytes, out, drops)
        }

        fn retune(&mut $self, now: Nanos, with: &mut dyn Any) -> bool {
            $inner.retune(now, with)
        }

        fn adopt(
            &mut $self,
            now: Nanos,
            with: &mut dyn Any,
            survivors: &[Option<ClassId>],
            drops: &mut dyn DropSink,
        ) -> bool {
            $inner.adopt(now, with, survivors, drops)
        }



        fn is_expedited(&$self, class: ClassId) -> bool {
            $inner.is_expedited(class)
        }

        fn class_state(&$self, class: ClassId) -> Option<&'static str> {
            $inner.class_state(class)
        }

        fn for_each_counter(
            &$self,
            classes: core::ops::Range<usize>,
            visit: &mut dyn FnMut(ClassId, &'static str, u64),
        ) {
            $inner.for_each_counter(classes, visit);
        }

        #[cfg(feature = "invariants")]
        fn check_invariants(&$self) -> Result<(), alloc::string::String> {
            $inner.check_invariants()
        }
    };
}

/// A boxed scheduler is a scheduler, so that a driver can run one that was selected by name.
impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    forward!(self => (**self));
}

/// An array of one scheduler is a scheduler. A box with a fallible allocation is made from it.
impl<S: Scheduler> Scheduler for [S; 1] {
    forward!(self => self[0]);
}
