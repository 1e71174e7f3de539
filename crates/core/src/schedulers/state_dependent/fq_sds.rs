//! `fq-ldf`, `fq-lto`, `fq-lto-lb`, each also as `-second`: the FQ-SDS schedulers of \[sds\]. Flat. Over service curves in the place
//! of guarantees: [`over_sced`].
//!
//! Every class has its guarantee, as under fair queueing. The bandwidth beyond the guarantees is not shared by weight.
//! It goes to the class whose state needs it most. A shaper releases the packets of each class at its guarantee. A
//! rate-proportional server sends released packets. When none is released, the state-dependent scheduler takes a packet
//! out of a shaper.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | g_i | the guarantee; without one, the share of the link | bit/s |
//! | shaper, t_k: when packet k is released | `shaper`, `Class::next_release` | 2^-16 ns |
//! | RPS, v(t), F_i^k = max(F_i^(k-1), v(t)) + L / g_i | `released`, `Class::finish`; v(t) = t | 2^-16 ns |
//! | D_i, Q_i / g_i, beta_i, Delta B_i, P_i | `excess.rs` | |
//!
//! **The server.** Any potential function that grows at least as fast as time and is never above the potential of a
//! backlogged class gives the same bound (\[sds\] Section II-A). Here v(t) = t, as in Virtual Clock. Behind a shaper it
//! has none of Virtual Clock's unfairness: a class cannot get ahead of its rate in the server, and other service does
//! not count. As t_k >= F_i^(k-1), the finish tag is simply t_k + L / g_i.
//!
//! **The excess** does not change the state of the shaper (Section II-B): the packet behind one that was taken out is
//! released when that one would have been.
//!
//! | policy | serves |
//! | --- | --- |
//! | LDF | the largest Q_i / g_i |
//! | LTO | the least D_i - Q_i / g_i; D_i is `max_delay`, or the time in which the guarantee empties the full buffer |
//! | LTO.LB | among the classes whose free buffer is below Delta B_i, what their leaky buckets still let them send: the least (free buffer) / P_i |
//!
//! The `-second` form takes the second in that order, if there are two. So a class that fills its buffer on purpose
//! gains nothing.
//!
//! **Cost per packet.** O(log n). A call may release many packets, each once.
//! **Invariants.** A class with packets waiting in its shaper is in `shaper`; one with released packets is in `server`.
//! **Bounds** for guarantees that add up to the link's rate at most: Theorem 1, delay <= Q_i / g_i + L_max / r + L_i (1 / g_i - 1 / r);
//! Corollary 1, W_i >= g_i (t - tau - L_i / g_i - L_max / r) within a session busy period. Both hold for all policies.
//! **Overflow budget.** Times are below 2^80, a byte takes less than 2^69, the delay of a full queue is below 2^101. Tokens are
//! below 2^97, a refill below 2^104.
//! **Validation.** Both bounds, as property tests over random traffic and all six; each policy's choice on small examples.
//!
//! DIFFERENCE: equation (1) is read with max in place of min, (5) as "free buffer below the worst burst", (6) as "the
//! least (free buffer) / P_i", as in the prose. DIFFERENCE: LTO.LB does not define the case in which no class may
//! overflow. Then all are candidates here. DIFFERENCE: without a leaky bucket a class may send its whole buffer at the
//! link's rate. DIFFERENCE: with several leaky buckets, which the paper names and does not work out, B_i(tau, t) is the
//! least of them. Then (4) makes Delta B_i the remaining level of the emptiest, and P_i is the least of their peak
//! rates. DIFFERENCE: a share below 2^-20 bit/s, or 2^-40 of 1 Tbit/s, counts as that much. DIFFERENCE: under
//! [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its leaves.

use alloc::{boxed::Box, vec::Vec};
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Flows, backlog_of_flows};
use crate::contract::{
    Amount, Build, BuildError, ClassId, Delay, Dequeued, DropSink, Feature, Hierarchy, LatencyRate, LeakyBucket,
    NANOS_PER_SEC, Nanos, OutOfMemory, Packet, Promises, QueueLimits, Rate, Ratio, Scheduler, SchedulerInfo, Share,
    Sharing, WorkConserving, boxed, late_by,
};
use crate::parts::{
    heap::Heap,
    memory::slice,
    tags::{TagQueue, TagSlab},
    virtual_time::{Pace, Tag},
};

mod excess;
pub mod over_sced;
use excess::{Excess, Policy, Session};

#[cfg(test)]
mod tests;

const FRACTION_BITS: u32 = 16;
/// Time that a byte takes at 1 bit/s, in 2^-16 ns.
const TIME_PER_BIT_S: u128 = (8 * NANOS_PER_SEC as u128) << FRACTION_BITS;

/// The effective guarantee of a class, and the number of parts per bit/s, as a power of two. Parts are as small as
/// possible with the link's rate below 2^40 of them, but no smaller than 2^-20.
fn guarantee_in_parts(tree: &Hierarchy, class: ClassId) -> (u64, u32) {
    let link = tree.link().rate;
    let parts = ((1u64 << 40) / link.bps()).ilog2().min(20);
    let scaled = match tree.config(class).share {
        Some(Share::Guarantee(rate)) if tree.levels() == 1 => rate.bps() << parts,
        _ => ((u128::from(link.bps() << parts) * tree.share_all_busy(class)) >> 64).max(1) as u64,
    };
    (scaled, parts)
}

/// Returns the time of a byte at the guarantee of a class, and the guarantee in whole bit/s, at least one.
fn guarantee(tree: &Hierarchy, class: ClassId) -> (Pace, Rate) {
    let (scaled, parts) = guarantee_in_parts(tree, class);
    let rate = Rate::from_bps((scaled >> parts).max(1)).unwrap_or(tree.link().rate);
    (Pace::new(TIME_PER_BIT_S << parts, scaled), rate)
}

/// Returns the guarantee of a leaf by class id, in 2^-62 of the link's rate.
fn guarantees(tree: &Hierarchy) -> Result<Box<[u64]>, BuildError> {
    let guarantee = |class: ClassId| {
        let (scaled, parts) = guarantee_in_parts(tree, class);
        // Below 2^41 parts times 2^62.
        ((u128::from(scaled) << 62) / u128::from(tree.link().rate.bps() << parts)) as u64
    };
    let of = |class: ClassId| if tree.is_leaf(class) { guarantee(class) } else { 0 };
    Ok(slice(tree.len(), |class| of(ClassId(class as u32)))?)
}

/// Theorem 1 and Corollary 1. The rate is the guarantee and not the share of a full link: the policy distributes the
/// rest without any promise.
fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    let link = tree.link();
    let mut servers = late_by(tree, link.max_packet.into());
    for &leaf in tree.leaves() {
        let (guarantee, parts) = guarantee_in_parts(tree, leaf);
        let share = Ratio { numerator: guarantee.into(), denominator: u128::from(link.rate.bps() << parts) };
        servers[leaf.index()] = servers[leaf.index()].map(|server| LatencyRate::new(share, server.late));
    }
    servers
}

/// Makes the entry of a scheduler of this family whose guarantees are rates.
const fn info(name: &'static str, summary: &'static str, features: &'static [Feature], build: Build) -> SchedulerInfo {
    SchedulerInfo {
        name,
        aliases: &[],
        paper: "sds",
        summary,
        features,
        work_conserving: WorkConserving::Always,
        cost: "O(log leaves)",
        sharing: Sharing::SharesFirst(guarantees, "what guarantees leave goes by the lengths of queues"),
        promises: Promises { delay: Some(Delay::LatencyRate(delays)), ..Promises::NONE },
        memory: FqSds::memory::<false>,
        build,
    }
}

/// Registry entry of `fq-ldf`.
pub const LDF: SchedulerInfo = info("fq-ldf", "guarantees; the rest to the longest delay", &[], |tree, _| {
    build(tree, Policy::LongestDelay, false)
});
/// Registry entry of `fq-ldf-second`.
pub const LDF_SECOND: SchedulerInfo =
    info("fq-ldf-second", "guarantees; the rest to the second longest delay", &[], |tree, _| {
        build(tree, Policy::LongestDelay, true)
    });
/// Registry entry of `fq-lto`.
pub const LTO: SchedulerInfo =
    info("fq-lto", "guarantees; the rest to the least time to overflow", &[Feature::MaxDelay], |tree, _| {
        build(tree, Policy::LeastTimeToOverflow, false)
    });
/// Registry entry of `fq-lto-second`.
pub const LTO_SECOND: SchedulerInfo = info(
    "fq-lto-second",
    "guarantees; the rest to the second least time to overflow",
    &[Feature::MaxDelay],
    |tree, _| build(tree, Policy::LeastTimeToOverflow, true),
);
/// Registry entry of `fq-lto-lb`.
pub const LTO_LB: SchedulerInfo = SchedulerInfo {
    memory: FqSds::memory::<true>,
    ..info(
        "fq-lto-lb",
        "guarantees; the rest to the class that may overflow first",
        &[Feature::LeakyBucket],
        |tree, _| build(tree, Policy::LeakyBucket, false),
    )
};
/// Registry entry of `fq-lto-lb-second`.
pub const LTO_LB_SECOND: SchedulerInfo = SchedulerInfo {
    memory: FqSds::memory::<true>,
    ..info(
        "fq-lto-lb-second",
        "guarantees; the rest to the class that may overflow second",
        &[Feature::LeakyBucket],
        |tree, _| build(tree, Policy::LeakyBucket, true),
    )
};

fn build(tree: &Hierarchy, policy: Policy, second: bool) -> Result<Box<dyn Scheduler>, BuildError> {
    boxed(FqSds::new(tree, policy, second)?)
}

#[derive(Debug)]
struct Class {
    limits: QueueLimits,
    /// Lengths of the packets in the shaper, and finish tags of those in the server, which are before them.
    waiting: TagQueue,
    released: TagQueue,
    /// Time at which the shaper may release the next packet.
    next_release: Tag,
    session: Session,
}

/// Limits of the queue of a class; zero for one that is not a leaf.
fn limits(tree: &Hierarchy, class: ClassId) -> QueueLimits {
    if tree.is_leaf(class) { tree.config(class).limits } else { QueueLimits { packets: 0, bytes: 0 } }
}

/// Bytes that still fit into a queue of `backlog`.
fn free(backlog: Amount, limits: QueueLimits, max_packet: u32) -> u64 {
    let packets = u64::from(limits.packets) - backlog.packets;
    (u64::from(limits.bytes) - backlog.bytes).min(packets * u64::from(max_packet))
}

/// The state that decides on the excess, for a class whose queue has these limits.
fn session(tree: &Hierarchy, class: ClassId, limits: QueueLimits, excess: &mut Excess) -> Session {
    let (link, config) = (tree.link(), tree.config(class));
    let (pace, guarantee) = guarantee(tree, class);
    let buffer = u64::from(limits.bytes).min(u64::from(limits.packets) * u64::from(link.max_packet));
    let max_delay = config.max_delay.map_or(pace.distance(buffer), time);
    let whole = LeakyBucket { burst: buffer, peak: link.rate, rate: guarantee };
    let buckets = if config.leaky_buckets.is_empty() { whole.into() } else { config.leaky_buckets };
    excess.session(pace, max_delay, buckets)
}

fn time(now: Nanos) -> u128 {
    u128::from(now.0) << FRACTION_BITS
}

/// Returns the first time not before `tag`, in whole units.
fn reached(tag: Tag) -> u128 {
    tag.whole + u128::from(tag.fraction > 0)
}

/// Fair queueing with state-dependent redistribution over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct FqSds {
    flows: Flows<Class>,
    tags: TagSlab,
    /// Classes with packets in the shaper, by the time at which the first is released.
    shaper: Heap,
    /// Classes with packets in the server, by the finish tag of the first.
    server: Heap,
    excess: Excess,
    now: Nanos,
}

impl FqSds {
    /// Makes a scheduler for the leaves of `tree` whose excess is given by `policy`: to the first in its order, or to
    /// the second.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy, policy: Policy, second: bool) -> Result<Self, OutOfMemory> {
        let mut excess = Excess::new(policy, second, tree)?;
        let class = |class| {
            let limits = limits(tree, class);
            Class {
                limits,
                waiting: TagQueue::default(),
                released: TagQueue::default(),
                next_release: Tag::default(),
                session: session(tree, class, limits, &mut excess),
            }
        };
        Ok(Self {
            flows: Flows::of_fifos(tree, class)?,
            tags: TagSlab::new(tree.link().max_queued)?,
            shaper: Heap::new(tree.len())?,
            server: Heap::new(tree.len())?,
            excess,
            now: Nanos::ZERO,
        })
    }

    fn memory<const LEAKY_BUCKETS: bool>(tree: &Hierarchy) -> u64 {
        Flows::<Class>::fifo_memory(tree)
            + TagSlab::memory(tree.link().max_queued)
            + 2 * Heap::memory(tree.len())
            + Excess::memory::<LEAKY_BUCKETS>(tree)
    }

    /// Moves the packets that the shaper has released by `now` to the server.
    fn release(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some((index, at)) = self.shaper.first()
            && at <= time(self.now)
        {
            let class = self.flows.state_mut(index);
            let Some(len) = class.waiting.pop(&mut self.tags) else {
                unreachable!("class {index} is in the shaper without a packet");
            };
            class.next_release = class.session.pace.after(class.next_release, len as u32);
            let finish = reached(class.next_release);
            class.released.push(&mut self.tags, finish);
            if !self.server.contains(index) {
                self.server.set(index, finish);
            }
            self.shape(index);
        }
    }

    /// Inserts a class into the shaper's order, or removes it.
    fn shape(&mut self, index: u32) {
        let class = self.flows.state(index);
        if class.waiting.first(&self.tags).is_some() {
            self.shaper.set(index, reached(class.next_release));
        } else {
            self.shaper.remove(index);
        }
    }

    /// Updates the state after the queue of a class has changed.
    fn note(&mut self, index: u32) {
        let (class, backlog) = (self.flows.state(index), self.flows.backlog_of(index));
        let free = free(backlog, class.limits, self.flows.max_packet());
        self.excess.changed(index, &class.session, backlog, free);
    }
}

impl Scheduler for FqSds {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.release(now);
        let Packet { class: ClassId(index), len, .. } = packet;
        let takes = self.flows.takes(packet.class, len);
        if takes {
            // A packet that is dropped for lack of room has arrived, too.
            self.excess.arrived(&self.flows.state(index).session, self.now, len);
        }
        if self.flows.push(now, packet, drops).is_some() {
            let class = self.flows.state_mut(index);
            if class.waiting.first(&self.tags).is_none() && time(self.now) > class.next_release.whole {
                class.next_release = Tag { whole: time(self.now), fraction: 0 };
            }
            class.waiting.push(&mut self.tags, len.into());
            self.shape(index);
        }
        if takes {
            self.note(index);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.release(now);
        let index = if let Some((index, _)) = self.server.first() {
            let released = &mut self.flows.state_mut(index).released;
            released.pop(&mut self.tags);
            match released.first(&self.tags) {
                Some(finish) => self.server.set(index, finish),
                None => {
                    self.server.remove(index);
                }
            }
            index
        } else {
            let Some(index) = self.excess.choose(self.now) else { return Dequeued::Idle };
            self.flows.state_mut(index).waiting.pop(&mut self.tags);
            self.shape(index);
            index
        };
        let Some(packet) = self.flows.pop(index, now, drops) else {
            unreachable!("class {index} was chosen without a packet");
        };
        self.note(index);
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        self.flows.purge(now, drops);
        for class in self.flows.states_mut() {
            class.waiting.clear(&mut self.tags);
            class.released.clear(&mut self.tags);
            class.next_release = Tag::default();
        }
        self.shaper.clear();
        self.server.clear();
        self.excess.reset();
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        self.shaper.check()?;
        self.server.check()?;
        self.excess.check()?;
        let mut backlogged = 0;
        for index in self.flows.classes() {
            let (class, backlog) = (self.flows.state(index), self.flows.backlog_of(index));
            let waits = class.waiting.first(&self.tags).is_some();
            let finish = class.released.first(&self.tags);
            if self.shaper.contains(index) != waits || self.server.key(index) != finish {
                return Err(format!("class {index}: waits {waits}, in the server until {finish:?}, {backlog:?}"));
            }
            let queued = backlog.packets > 0;
            if queued != (waits || finish.is_some()) || queued != self.excess.contains(index) {
                return Err(format!("class {index} has {backlog:?}; waits {waits}, in the server until {finish:?}"));
            }
            backlogged += usize::from(queued);
        }
        self.flows.check([], backlogged)
    }
}
