//! Rate-proportional servers, \[drrpp\] Section 2.3.4: one server, [`Rps`], for all schedulers that differ in their system
//! potential only.
//!
//! Every class has a potential, which grows by what it is served over its rate, and the server has one, [`Potential`]. A class
//! that was idle starts at the server's if its own is behind. Packets are stamped on arrival with the potential that their class
//! will have reached with them, and leave in the order of their stamps.
//!
//! | text | here | unit |
//! | --- | --- | --- |
//! | P(t), system potential | [`Potential::value`] | virtual time |
//! | P_i(t) = max(P_i, P) when a class becomes backlogged; P_i + W_i / rho_i from then on | stamps: `Class::last` | virtual time |
//! | the potential is r t | `RealTime` in the tests: Virtual Clock | |
//! | the potential is that of all backlogged classes of a fluid system | [`wfq::Gps`](crate::schedulers::wfq::Gps): weighted fair queueing | |
//!
//! **Conditions.** The potential grows at least at rate 1 (as fast as the link sends) while there is something to send, and does not
//! exceed that of any class that is backlogged in the fluid server. Both hold of a server that has a latency of L_i / rho_i + L_max /
//! r, whatever else its potential does; how fair it is depends on how far below the classes' it may fall.
//!
//! **Cost per packet.** O(log n) of the active leaves, and what the potential costs.
//! **Invariants.** A class with packets is in `heads` under the stamp of its first one.
//! **Overflow budget.** As in [`crate::parts::virtual_time`].
//! **Validation.** The conditions and the latency as property tests for both potentials; [`virtual_clock`](crate::schedulers::virtual_clock), which
//! computes its stamps in time and not in virtual time, as an oracle for it in real time.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::contract::{
    Amount, ClassId, Dequeued, DropReason, DropSink, Hierarchy, Nanos, Packet, QueueLimits, Rate, Scheduler,
};
use crate::parts::{
    heap::Heap,
    tags::{TagQueue, TagSlab},
    virtual_time::{Pace, Tag, UNITS_PER_BYTE, leaf_weights, lower_by},
};
use crate::queue::{LeafQueue, PacketSlab};

#[cfg(test)]
mod tests;

/// The system potential of a rate-proportional server.
pub trait Potential: Debug + Send {
    /// That of a link of `rate` with `classes` classes, whose weights add up to `all`.
    fn new(rate: Rate, all: u64, classes: usize) -> Self;

    /// Brings it up to `now`, not before the last time. `weight` tells the weight of a class.
    fn advance(&mut self, now: Nanos, weight: impl Fn(u32) -> u64);

    /// P(now), in virtual time.
    fn value(&self) -> u128;

    /// There is another packet of a class of this weight, stamped `stamp`.
    fn arrive(&mut self, class: u32, weight: u64, stamp: Tag);

    /// The smallest stamp that it keeps, and its class.
    fn first(&self) -> Option<(u32, u128)>;

    /// Lowers it and all stamps that it keeps.
    fn lower(&mut self, by: u128);

    /// As just made, at `now`.
    fn reset(&mut self, now: Nanos);

    /// Checks its invariants.
    ///
    /// # Errors
    /// The broken one, in words.
    fn check(&self, weight: impl Fn(u32) -> u64) -> Result<(), String>;
}

#[derive(Debug)]
struct Class {
    queue: LeafQueue,
    tags: TagQueue,
    /// Finish tag of its newest packet.
    last: Tag,
    pace: Pace,
    leaf: bool,
}

/// A rate-proportional server over the leaves of a hierarchy.
#[derive(Debug)]
pub struct Rps<P> {
    classes: Vec<Class>,
    slab: PacketSlab,
    tags: TagSlab,
    pub(crate) potential: P,
    /// Classes with packets by the finish tag of the first.
    heads: Heap,
    now: Nanos,
    bytes: u64,
    max_packet: u32,
}

impl<P: Potential> Rps<P> {
    /// A scheduler for the leaves of `tree`.
    #[must_use]
    pub fn new(tree: &Hierarchy) -> Self {
        let weights = leaf_weights(tree);
        let all: u64 = weights.iter().sum();
        let units = u128::from(all) * u128::from(UNITS_PER_BYTE);
        let closed = QueueLimits { packets: 0, bytes: 0 };
        let class = |limits, pace, leaf| Class {
            queue: LeafQueue::new(limits),
            tags: TagQueue::default(),
            last: Tag::default(),
            pace,
            leaf,
        };
        let mut classes: Vec<Class> = (0..tree.len()).map(|_| class(closed, Pace::new(0, 1), false)).collect();
        for (&leaf, &weight) in tree.leaves().iter().zip(&weights) {
            classes[leaf.index()] = class(tree.config(leaf).limits, Pace::new(units, weight), true);
        }
        let link = tree.link();
        let potential = P::new(link.rate, all, tree.len());
        Self {
            classes,
            slab: PacketSlab::new(link.max_queued),
            tags: TagSlab::new(link.max_queued),
            potential,
            heads: Heap::new(tree.len()),
            now: Nanos::ZERO,
            bytes: 0,
            max_packet: link.max_packet,
        }
    }

    #[cold]
    fn lower(&mut self, by: u128) {
        self.potential.lower(by);
        self.heads.lower(by);
        self.tags.lower(by);
        for class in &mut self.classes {
            class.last.whole = class.last.whole.saturating_sub(by);
        }
    }
}

impl<P: Potential> Scheduler for Rps<P> {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let index = packet.class.0;
        self.now = self.now.max(now);
        let (classes, potential) = (&mut self.classes, &mut self.potential);
        potential.advance(self.now, |class| classes[class as usize].pace.divisor());
        let Some(class) = classes.get_mut(packet.class.index()).filter(|class| class.leaf) else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if packet.len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        let len = packet.len;
        let was_empty = class.queue.is_empty();
        if let Err((packet, reason)) = class.queue.push(&mut self.slab, packet) {
            return drops.dropped(now, packet, reason);
        }
        self.bytes += u64::from(len);
        if potential.value() > class.last.whole {
            class.last = Tag { whole: potential.value(), fraction: 0 };
        }
        class.last = class.pace.after(class.last, len);
        class.tags.push(&mut self.tags, class.last.whole);
        potential.arrive(index, class.pace.divisor(), class.last);
        if was_empty {
            self.heads.set(index, class.last.whole);
        }
        let by = lower_by(self.potential.value(), [self.potential.first(), self.heads.first()]);
        if by > 0 {
            self.lower(by);
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        // The potential is looked at when packets arrive, and only then.
        self.now = self.now.max(now);
        let Some((index, _)) = self.heads.first() else { return Dequeued::Idle };
        let class = &mut self.classes[index as usize];
        let Some(packet) = class.queue.pop(&mut self.slab, ClassId(index)) else {
            unreachable!("class {index} has a tag and no packet");
        };
        class.tags.pop(&mut self.tags);
        self.bytes -= u64::from(packet.len);
        match class.tags.first(&self.tags) {
            Some(tag) => self.heads.set(index, tag),
            None => {
                self.heads.remove(index);
            }
        }
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        Amount { packets: u64::from(self.slab.queued()), bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.classes.get(class.index()).map_or(Amount::default(), |class| class.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        for (index, class) in self.classes.iter_mut().enumerate() {
            while let Some(packet) = class.queue.pop(&mut self.slab, ClassId(index as u32)) {
                class.tags.pop(&mut self.tags);
                drops.dropped(now, packet, DropReason::Purged);
            }
            class.last = Tag::default();
        }
        self.bytes = 0;
        self.heads.clear();
        self.now = self.now.max(now);
        self.potential.reset(self.now);
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        self.potential.check(|class| self.classes[class as usize].pace.divisor())?;
        let mut bytes = 0;
        for (index, class) in self.classes.iter().enumerate() {
            let (index, tag) = (index as u32, class.tags.first(&self.tags));
            bytes += class.queue.backlog().bytes;
            if self.heads.key(index) != tag || class.queue.is_empty() != tag.is_none() {
                return Err(format!("class {index} has {:?} and the tag {tag:?}", class.queue.backlog()));
            }
        }
        if bytes != self.bytes {
            return Err(format!("{bytes} B queued, {} B counted", self.bytes));
        }
        Ok(())
    }
}
