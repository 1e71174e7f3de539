//! `wfq` (also `pgps`): Weighted Fair Queueing of Demers, Keshav and Shenker, Packet-by-packet Generalized Processor Sharing of
//! Parekh and Gallager: \[pgps\], and \[drrpp\] Section 2.3.2. What \[sds\] compares itself with. Flat.
//!
//! A fluid system, GPS, is simulated beside the packets: in it every backlogged class is served at once, in proportion to the
//! weights. Packets are sent in the order in which the fluid system finishes them, as far as that is known when one is chosen.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | V(t), dV/dt = 1 / sum of phi_i over the classes backlogged in GPS | `Gps::v`, scaled by the sum over all classes | virtual time |
//! | phi_i | [`Pace::divisor`] | |
//! | S = max(F, V(a)), F = S + L / phi_i | `Class::last`, which is the F of the newest packet | virtual time |
//! | B(t), the classes backlogged in GPS | `Gps::backlogged`, sorted by the F of their newest packet | |
//!
//! **How exact the fluid system is.** Its clock is the caller's; the work of a link of r bit/s in t ns is r t units of an
//! eight-billionth of a byte, an integer. Finish tags are exact ([`crate::vtime`]). What is rounded is V where the set of
//! backlogged classes changes: an arrival at an idle class drops a fraction of a unit of work, a class that empties up to two
//! units, each time so that the fluid system is late. By losing work a fluid system puts no class further behind than that
//! work. So after n such events within a busy period of the fluid system no class in it lags behind the exact one by more than
//! 2 n units: a quarter of a byte after 10^9 events, and nothing once it has been idle. `v` itself has no error of its own.
//!
//! **Cost per packet.** O(log n) of the active leaves. A call may let many classes leave the fluid system, each once for each
//! time that it entered.
//! **Invariants.** A class with packets is in `heads` under the F of its first one. The weight of the classes in `backlogged`
//! is `Gps::active`.
//! **Bounds.** A packet leaves at most L_max / r after it does in GPS. A latency-rate server with Theta = L_i / rho_i + L_max / r.
//! **Overflow budget.** As in [`crate::vtime`]. Work that waits in GPS is below 2^32 packets of 2^20 bytes: 2^85 units, times
//! weights of 2^41; products saturate beyond that, which a caller can only reach who takes 2^32 packets out in no time.
//! **Validation.** GPS with rational numbers as an oracle; the bounds as property tests.
//!
//! DIFFERENCE: a caller that takes packets out faster than the link's rate gets them in the order of a fluid system that has
//! not got that far; nothing else can be said of it.
//! DIFFERENCE: under [`Leniency::Ignore`](crate::registry::Leniency) it takes a tree and shares among its leaves.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::heap::Heap;
use crate::hierarchy::{Hierarchy, QueueLimits};
use crate::packet::{ClassId, Packet};
use crate::queue::{LeafQueue, PacketSlab};
use crate::registry::{SchedulerInfo, WorkConserving};
use crate::scheduler::{Backlog, Dequeued, DropReason, DropSink, Scheduler};
use crate::tags::{TagQueue, TagSlab};
use crate::units::{Nanos, Rate};
use crate::vtime::{Pace, Tag, UNITS_PER_BYTE, leaf_weights, lower_by};

#[cfg(test)]
mod tests;

/// What `wfq` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "wfq",
    paper: "pgps",
    summary: "weighted fair queueing (pgps): the order in which an exact fluid system finishes",
    features: &[],
    work_conserving: WorkConserving::Always,
    cost: "O(log leaves)",
    bounds: &["delay"],
    build: |tree| Ok(Box::new(Wfq::new(tree))),
};

/// Generalized processor sharing: a fluid system with its own clock and queues, told of arrivals only.
#[derive(Debug)]
struct Gps {
    v: u128,
    /// What `v` leaves out, in units / `active`.
    remainder: u128,
    /// Weights of the classes backlogged in it, and of all classes.
    active: u64,
    all: u64,
    rate: Rate,
    now: Nanos,
    backlogged: Heap,
}

impl Gps {
    /// Serves until `now`, not before the last time. `weight` tells the weight of a class.
    fn advance(&mut self, now: Nanos, weight: impl Fn(u32) -> u64) {
        let mut work = u128::from(self.rate.bps()) * u128::from((now - self.now).0);
        self.now = now;
        let all = u128::from(self.all);
        while work > 0
            && let Some((class, finish)) = self.backlogged.first()
        {
            let active = u128::from(self.active);
            let parts = work.saturating_mul(all).saturating_add(self.remainder);
            let left = finish - self.v;
            if parts / active < left {
                self.v += parts / active;
                self.remainder = parts % active;
                return;
            }
            // `left * active` is at most `parts`.
            work -= (left * active).saturating_sub(self.remainder).div_ceil(all);
            self.v = finish;
            self.remainder = 0;
            self.active -= weight(class);
            self.backlogged.remove(class);
        }
    }

    /// Has another packet of a class of this weight, which it finishes by `finish`.
    fn arrive(&mut self, class: u32, weight: u64, finish: Tag) {
        if !self.backlogged.contains(class) {
            self.active += weight;
            self.remainder = 0;
        }
        self.backlogged.set(class, finish.whole + u128::from(finish.fraction > 0));
    }
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

/// Weighted fair queueing over the leaves of a hierarchy.
#[derive(Debug)]
pub struct Wfq {
    classes: Vec<Class>,
    slab: PacketSlab,
    tags: TagSlab,
    gps: Gps,
    /// Classes with packets by the finish tag of the first.
    heads: Heap,
    now: Nanos,
    bytes: u64,
    max_packet: u32,
}

impl Wfq {
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
        let gps = Gps {
            v: 0,
            remainder: 0,
            active: 0,
            all,
            rate: link.rate,
            now: Nanos::ZERO,
            backlogged: Heap::new(tree.len()),
        };
        Self {
            classes,
            slab: PacketSlab::new(link.max_queued),
            tags: TagSlab::new(link.max_queued),
            gps,
            heads: Heap::new(tree.len()),
            now: Nanos::ZERO,
            bytes: 0,
            max_packet: link.max_packet,
        }
    }

    #[cold]
    fn lower(&mut self, by: u128) {
        self.gps.v -= by;
        self.gps.backlogged.lower(by);
        self.heads.lower(by);
        self.tags.lower(by);
        for class in &mut self.classes {
            class.last.whole = class.last.whole.saturating_sub(by);
        }
    }
}

impl Scheduler for Wfq {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let index = packet.class.0;
        self.now = self.now.max(now);
        let (classes, gps) = (&mut self.classes, &mut self.gps);
        gps.advance(self.now, |class| classes[class as usize].pace.divisor());
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
        if gps.v > class.last.whole {
            class.last = Tag { whole: gps.v, fraction: 0 };
        }
        class.last = class.pace.after(class.last, len);
        class.tags.push(&mut self.tags, class.last.whole);
        gps.arrive(index, class.pace.divisor(), class.last);
        if was_empty {
            self.heads.set(index, class.last.whole);
        }
        let by = lower_by(self.gps.v, [self.gps.backlogged.first(), self.heads.first()]);
        if by > 0 {
            self.lower(by);
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut dyn DropSink) -> Dequeued {
        // The fluid system is looked at when packets arrive, and only then.
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

    fn backlog(&self) -> Backlog {
        Backlog { packets: u64::from(self.slab.queued()), bytes: self.bytes }
    }

    fn class_backlog(&self, class: ClassId) -> Backlog {
        self.classes.get(class.index()).map_or(Backlog::default(), |class| class.queue.backlog())
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
        let gps = &mut self.gps;
        self.now = self.now.max(now);
        (gps.v, gps.remainder, gps.active, gps.now) = (0, 0, 0, self.now);
        gps.backlogged.clear();
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.heads.check()?;
        self.gps.backlogged.check()?;
        let (mut bytes, mut active) = (0, 0);
        for (index, class) in self.classes.iter().enumerate() {
            let (index, tag) = (index as u32, class.tags.first(&self.tags));
            bytes += class.queue.backlog().bytes;
            if self.heads.key(index) != tag || class.queue.is_empty() != tag.is_none() {
                return Err(format!("class {index} has {:?} and the tag {tag:?}", class.queue.backlog()));
            }
            if let Some(finish) = self.gps.backlogged.key(index) {
                active += class.pace.divisor();
                if finish < self.gps.v {
                    return Err(format!("class {index} left the fluid system at {finish}, before {}", self.gps.v));
                }
            }
        }
        if (bytes, active) != (self.bytes, self.gps.active) {
            return Err(format!("{bytes} B and a weight of {active}, counted {} and {}", self.bytes, self.gps.active));
        }
        Ok(())
    }
}
