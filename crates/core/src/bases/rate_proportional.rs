//! Rate-proportional servers, \[drrpp\] Section 2.3.4: one server, [`Rps`], for all schedulers that differ in their system
//! potential only.
//!
//! Every class has a potential, which grows by the service that the class gets over its rate. The server has one, too:
//! [`Potential`]. A class that was idle starts at the server's potential if its own is behind. Packets are stamped on
//! arrival with the potential that their class will have reached with them. They leave in the order of their stamps.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | P(t), system potential | [`Potential::value`] | virtual time |
//! | P_i(t) = max(P_i, P) when a class becomes backlogged; P_i + W_i / rho_i from then on | stamps: `Class::last` | virtual time |
//! | the potential is r t | `RealTime` in the tests: Virtual Clock | |
//! | the potential is that of all backlogged classes of a fluid system | [`wfq::Gps`](crate::schedulers::wfq::Gps): weighted fair queueing | |
//!
//! **Conditions.** While there are packets to send, the potential grows at least at rate 1, that of the link. It does
//! not exceed the potential of any class that is backlogged in the fluid server. A server that meets both conditions
//! has a latency of L_i / rho_i + L_max / r, for any potential. Its fairness depends on how far its potential may fall
//! below those of the classes.
//!
//! **Cost per packet.** O(log n) of the active leaves, plus the cost of the potential. **Invariants.** A class with
//! packets is in `heads` under the stamp of its first one. **Overflow budget.** As in [`crate::parts::virtual_time`].
//! **Validation.** The conditions and the latency as property tests for both potentials;
//! [`virtual_clock`](crate::schedulers::virtual_clock), which computes its stamps in time and not in virtual time, as
//! an oracle for it in real time.

#[cfg(feature = "invariants")]
use alloc::{format, string::String};
use core::any::Any;
use core::fmt::Debug;

use super::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Dequeued, DropSink, Hierarchy, Nanos, OutOfMemory, Packet, Rate, Scheduler, same_kind,
};
use crate::parts::{
    heap::Heap,
    tags::{TagQueue, TagSlab},
    virtual_time::{Pace, Tag, UNITS_PER_BYTE, leaf_weights, lower_by, memory_of_weights},
};

#[cfg(test)]
mod tests;

/// The system potential of a rate-proportional server.
pub(crate) trait Potential: Debug + Send + 'static {
    /// The potential for a link of `rate` with `classes` classes, whose weights add up to `all`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    fn new(rate: Rate, all: u64, classes: usize) -> Result<Self, OutOfMemory>
    where
        Self: Sized;

    /// Bytes that one for `classes` classes takes.
    fn memory(classes: usize) -> u64;

    /// Advances the potential to `now`, which is not before the last time. `weight` returns the weight of a class.
    fn advance(&mut self, now: Nanos, weight: impl Fn(u32) -> u64);

    /// Returns P(now), in virtual time.
    fn value(&self) -> u128;

    /// Adds a packet of a class of this weight with the stamp `stamp`.
    fn arrive(&mut self, class: u32, weight: u64, stamp: Tag);

    /// Returns the smallest stamp in the system and its class.
    fn first(&self) -> Option<(u32, u128)>;

    /// Lowers it and all stamps that it keeps.
    fn lower(&mut self, by: u128);

    /// Adopts the link and weights of `with`. `weight` returns the new weight of a class.
    fn retune(&mut self, with: &Self, weight: impl Fn(u32) -> u64)
    where
        Self: Sized;

    /// Resets the system to its initial state at `now`.
    fn reset(&mut self, now: Nanos);

    /// Checks its invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    #[cfg(feature = "invariants")]
    fn check(&self, weight: impl Fn(u32) -> u64) -> Result<(), String>;
}

/// The server's state of a class.
#[derive(Debug)]
pub(crate) struct Session {
    tags: TagQueue,
    /// Finish tag of its newest packet.
    pub(crate) last: Tag,
    pub(crate) pace: Pace,
}

/// A rate-proportional server over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Rps<P> {
    pub(crate) flows: Flows<Session>,
    tags: TagSlab,
    pub(crate) potential: P,
    /// Classes with packets by the finish tag of the first.
    heads: Heap,
    rate: Rate,
    now: Nanos,
}

impl<P: Potential> Rps<P> {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let weights = leaf_weights(tree)?;
        let all: u64 = weights.iter().sum();
        let units = u128::from(all) * u128::from(UNITS_PER_BYTE);
        let session = |pace| Session { tags: TagQueue::default(), last: Tag::default(), pace };
        let mut flows = Flows::of_fifos(tree, |_| session(Pace::new(0, 1)))?;
        for (leaf, &weight) in tree.leaves().iter().zip(&weights) {
            *flows.state_mut(leaf.0) = session(Pace::new(units, weight));
        }
        let link = tree.link();
        Ok(Self {
            flows,
            tags: TagSlab::new(link.max_queued)?,
            potential: P::new(link.rate, all, tree.len())?,
            heads: Heap::new(tree.len())?,
            rate: link.rate,
            now: Nanos::ZERO,
        })
    }

    /// Memory of an instance for `tree`, in bytes, including construction.
    pub(crate) fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Session>::fifo_memory(tree)
            + TagSlab::memory(tree.link().max_queued)
            + Heap::memory(tree.len())
            + P::memory(tree.len())
            + memory_of_weights(tree.leaves().len())
    }

    #[cold]
    fn lower(&mut self, by: u128) {
        self.potential.lower(by);
        self.heads.lower(by);
        self.tags.lower(by);
        for session in self.flows.states_mut() {
            session.last.whole = session.last.whole.saturating_sub(by);
        }
    }
}

impl<P: Potential> Scheduler for Rps<P> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let (index, len) = (packet.class.0, packet.len);
        self.now = self.now.max(now);
        let (flows, potential) = (&mut self.flows, &mut self.potential);
        potential.advance(self.now, |class| flows.state(class).pace.divisor());
        let Some(was_empty) = flows.push(now, packet, drops) else { return };
        let session = flows.state_mut(index);
        if potential.value() > session.last.whole {
            session.last = Tag { whole: potential.value(), fraction: 0 };
        }
        session.last = session.pace.after(session.last, len);
        session.tags.push(&mut self.tags, session.last.whole);
        potential.arrive(index, session.pace.divisor(), session.last);
        if was_empty {
            self.heads.set(index, session.last.whole);
        }
        let by = lower_by(self.potential.value(), [self.potential.first(), self.heads.first()]);
        if by > 0 {
            self.lower(by);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        // The potential is only read when packets arrive.
        self.now = self.now.max(now);
        let Some((index, _)) = self.heads.first() else { return Dequeued::Idle };
        let Some(packet) = self.flows.pop(index, now, drops) else {
            unreachable!("class {index} has a tag and no packet");
        };
        let tags = &mut self.flows.state_mut(index).tags;
        tags.pop(&mut self.tags);
        match tags.first(&self.tags) {
            Some(tag) => self.heads.set(index, tag),
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
        let flows = &self.flows;
        let weights = |flows: &Flows<Session>, class: u32| flows.state(class).pace.divisor();
        if self.rate != with.rate || (0..flows.len()).any(|class| weights(flows, class) != weights(&with.flows, class))
        {
            // Until now it had the previous weights and rate; between arrivals it advances only when these change.
            self.potential.advance(self.now, |class| weights(flows, class));
        }
        self.rate = with.rate;
        self.tags.retune(&mut with.tags);
        self.flows.retune(&mut with.flows, |mine, theirs| mine.pace.retune(theirs.pace, &mut mine.last));
        let flows = &self.flows;
        self.potential.retune(&with.potential, |class| flows.state(class).pace.divisor());
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        for session in self.flows.states_mut() {
            session.tags.clear(&mut self.tags);
            session.last = Tag::default();
        }
        self.heads.clear();
        self.now = self.now.max(now);
        self.potential.reset(self.now);
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        self.potential.check(|class| self.flows.state(class).pace.divisor())?;
        for index in self.flows.classes() {
            let tag = self.flows.state(index).tags.first(&self.tags);
            if self.heads.key(index) != tag || self.flows.is_empty(index) != tag.is_none() {
                return Err(format!("class {index} has {:?} and the tag {tag:?}", self.flows.backlog_of(index)));
            }
        }
        self.flows.check([], self.heads.len())
    }
}
