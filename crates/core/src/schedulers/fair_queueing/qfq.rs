//! `qfq`: Quick Fair Queueing of Checconi, Rizzo and Valente, \[qfq\]: worst-case fair at a cost that depends neither on the number
//! of classes nor on the length of a packet. Flat.
//!
//! WF2Q+ sends, of the packets that have started in the virtual fluid system, the one that finishes there first, and keeps sorted
//! heaps for it. Here classes whose largest packets take about as long at their rates form a *group*, to the next power of two.
//! Tags are rounded to that *slot*, so that a group needs a few buckets and no sorting, and there are so few groups that a set of
//! them is a word. A group starts with its earliest class and finishes two slots later. Of the groups that have started, the
//! one that finishes first sends the packet of its earliest class.
//!
//! | paper | here | unit |
//! | --- | --- | --- |
//! | phi_k, share of class k; they add up to 1 | `Pace::divisor` / the sum of all weights | |
//! | L, largest packet of the link | `Flows::max_packet` | byte |
//! | V(t), virtual time | `Qfq::v`, as of the last packet that has left | virtual byte |
//! | S_k, start tag of the head of k; F_k = S_k + l / phi_k, of a class that is idle | `Session::tag`, exact | virtual byte |
//! | sigma_i = 2^i, slot of group i = ceil(log2(L / phi_k)) | `Groups::slot`; groups count from the i of phi = 1 | virtual byte |
//! | S^_k = floor(S_k / sigma_i) sigma_i | `Groups::round` | virtual byte |
//! | S_i, the smallest S^_k of group i; F_i = S_i + 2 sigma_i | `Group::start`, `Groups::finish` | virtual byte |
//! | bucket list of group i | `Group::buckets`, `Group::full` | |
//! | eligible: S_i <= V; blocked: F_j < F_i of an eligible j > i | `Groups::eligible`, `Groups::blocked` | a bit per group |
//! | ER | `Groups::ready`; its first has the smallest F_i of all that are eligible | |
//!
//! A class that becomes backlogged starts at S_k = max(F_k, V).
//!
//! **Cost per packet.** O(1), without any loop. Masks move many groups between sets at once.
//!
//! **Invariants**, from which the masks follow. Shares are at most 1, so that no packet takes V further than a slot of any group.
//! 1. S^_k <= floor(V / sigma_i) sigma_i + sigma_i: a class is served with S_i <= V, and then advances by a slot at most. A group
//!    that is not eligible starts at the next multiple of its slot, and becomes eligible when bit i of V or one above it changes.
//! 2. A group j that becomes eligible blocks no other group. A group i < j finishes by S_j + 2 sigma_i <= S_j +
//!    sigma_j < F_j.
//! 3. V <= F_i + L, by the argument under Bounds. With 1, a group uses at most five slots at a time.
//! 4. S^_k <= F_j for each eligible j above the group i of k, also while k is idle. If k starts at V, it is below F_j +
//!    sigma_i by 3, and F_j is a multiple of sigma_i. So a group that is blocked by the one that is served, x, has
//!    F_i <= F_x + 2 sigma_i. When x moves on, by a slot or more, all below it become ready at once, unless the next of
//!    ER above x finishes just when x did: that still blocks them.
//!
//! **Bounds.** Let a class wait with the tag S, and S^ + 2 sigma = d. Let V0 be the virtual time at which a packet with
//! F_i > d was last chosen, or V last jumped. Everything sent since then, except that packet, started at V0 or later.
//! It was to finish by d, also by its exact tags, as S + l / phi < S^ + 2 sigma; the service of the class itself
//! finished by S. As the shares add up to 1, V <= V0 + L + (1 - phi)(d - V0) + phi (S - V0) = d + L - phi (d - S), so
//! that V - S <= 2 (1 - phi) sigma + L. On the other hand a class is never more than sigma + (1 - phi) L / phi ahead of
//! V, just after a packet of its own. Together:
//!
//! > W_k(t1, t2) >= phi W(t1, t2) - (3 - 2 phi) phi sigma - L
//!
//! while the class is backlogged, for any t1 and t2, counting the sent part of a packet in transmission. As L <= phi
//! sigma < 2 L, the index is between 2 L and 7 L. From the first alone, a packet leaves within (2 (1 - phi) sigma + L)
//! / r of its departure from a private link of the class's rate: a latency-rate server.
//!
//! **Overflow budget.** Shares are above 2^-41 (`weights`) and L is at most 2^20, so that a slot is at most 2^61 and
//! there are `GROUPS` groups. V advances by less than 2^64 per packet, also when it jumps: 2^128 is beyond 2^64
//! packets, which are centuries. Tags are never lowered.
//!
//! **Validation.** Comparison with a model that walks over all classes, with rational numbers; both bounds as property
//! tests; traffic that comes within a sixteenth of the index.
//!
//! DIFFERENCE: the bounds are our own, as above. The index quoted for \[qfq\], 3 phi sigma + 2 phi L, does not hold for
//! a class of a small share: it may lag by nearly 4 phi sigma, as a test shows. DIFFERENCE: a packet is in transmission
//! until the next `dequeue`, and V and its class's tag advance then. So a class that gets its next packet meanwhile has
//! been backlogged all the time. DIFFERENCE: the authors' code starts a class that becomes backlogged at F_b of the
//! first of ER above its group if V is beyond that, to keep the order of blocked groups. Here V is never a slot beyond
//! it. DIFFERENCE: when the link becomes idle, V moves beyond all tags to a multiple of all slots, which is equivalent
//! to a restart. DIFFERENCE: under [`Leniency::Ignore`](crate::contract::Leniency) it takes a tree and shares among its
//! leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "invariants")]
use alloc::{format, string::String};

use crate::bases::flows::{Chain, Flows, backlog_of_flows};
use crate::contract::{
    Amount, ClassId, Delay, Dequeued, DropSink, Fairness, Feature, Hierarchy, LatencyRate, MAX_PACKET, Nanos,
    OutOfMemory, Packet, Promises, Ratio, Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed, leaf_shares,
};
use crate::parts::{
    memory::{bytes_of, slice},
    virtual_time::{Pace, Tag, leaf_weights},
};

/// Registry entry of `qfq`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "qfq",
    aliases: &[],
    paper: "qfq",
    summary: "quick fair queueing: worst-case fair with rounded tags, in constant time",
    features: &[Feature::ActiveQueue, Feature::PushOut],
    work_conserving: WorkConserving::Always,
    cost: "O(1)",
    sharing: Sharing::Leaves(leaf_shares),
    promises: Promises {
        fairness: Some(Fairness::WorstCase(worst_case_fairness)),
        delay: Some(Delay::LatencyRate(delays)),
        ..Promises::NONE
    },
    memory: Qfq::memory,
    build: |tree, _| boxed(Qfq::new(tree)?),
};

/// Groups of a link: shares from 1 down to 2^-41.
const GROUPS: usize = 42;

/// Buckets of a group: a power of two above the five slots that are used at a time.
const BUCKETS: u32 = 8;

/// Twice the longest slot is this power of two.
const ERA: u32 = MAX_PACKET.ilog2() + GROUPS as u32;

/// The inputs of a class's bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// phi = weight / all.
    weight: u128,
    all: u128,
    /// sigma.
    slot: u128,
    /// L.
    largest: u128,
}

impl Bounds {
    /// Computes `bound` for all leaves, by class id. `None` for all if there is not enough memory.
    fn for_leaves<T: Copy>(tree: &Hierarchy, bound: impl Fn(Self) -> T) -> Vec<Option<T>> {
        let mut bounds = alloc::vec![None; tree.len()];
        let Ok(weights) = leaf_weights(tree) else { return bounds };
        let all: u64 = weights.iter().sum();
        for (leaf, &weight) in tree.leaves().iter().zip(&weights) {
            let largest = tree.link().max_packet;
            let slot = 1 << slot_bits(largest, weight, all);
            let class = Self { weight: weight.into(), all: all.into(), slot, largest: largest.into() };
            bounds[leaf.index()] = Some(bound(class));
        }
        bounds
    }

    /// Returns L + (3 - 2 phi) phi sigma, below 2^107 / 2^82.
    fn index(self) -> Ratio {
        let Self { weight, all, slot, largest } = self;
        Ratio { numerator: largest * all * all + (3 * all - 2 * weight) * (weight * slot), denominator: all * all }
    }

    /// Returns L + 2 (1 - phi) sigma behind a link of the rate phi r.
    fn latency(self) -> LatencyRate {
        let Self { weight, all, slot, largest } = self;
        LatencyRate::new(
            Ratio { numerator: weight, denominator: all },
            Ratio { numerator: largest * all + 2 * (all - weight) * slot, denominator: all },
        )
    }
}

fn worst_case_fairness(tree: &Hierarchy) -> Vec<Option<Ratio>> {
    Bounds::for_leaves(tree, Bounds::index)
}

fn delays(tree: &Hierarchy) -> Vec<Option<LatencyRate>> {
    Bounds::for_leaves(tree, Bounds::latency)
}

/// Returns ceil(log2(L / phi)).
fn slot_bits(largest: u32, weight: u64, all: u64) -> u32 {
    (u128::from(largest) * u128::from(all)).div_ceil(u128::from(weight)).next_power_of_two().ilog2()
}

/// Returns the groups above `group`.
#[inline]
const fn above(group: u32) -> u64 {
    !1 << group
}

/// Returns the groups below `group`.
#[inline]
const fn below(group: u32) -> u64 {
    (1 << group) - 1
}

/// The state of a class.
#[derive(Debug)]
struct Session {
    /// S_k of a class that is backlogged or sending, F_k of any other.
    tag: Tag,
    pace: Pace,
    group: u32,
}

/// The classes of a group that have packets, except the one that is sending.
#[derive(Debug, Default)]
struct Group {
    /// S_i, of all and the one that is sending; stale if the group has neither.
    start: u128,
    /// Classes in the order in which they came to the slot. That of a tag lies at its number modulo [`BUCKETS`].
    buckets: [Chain; BUCKETS as usize],
    /// The buckets with classes in them, and that of the class that is sending.
    full: u8,
}

/// The groups, and the sets that each is in.
#[derive(Debug)]
struct Groups {
    groups: Box<[Group]>,
    /// Group 0 has slots of this power of two, and each next one has slots twice as long.
    bits: u32,
    /// Groups with a class that is backlogged or sending.
    backlogged: u64,
    /// Backlogged groups with S_i <= V.
    eligible: u64,
    /// Backlogged groups that finish after an eligible group above them.
    blocked: u64,
}

impl Groups {
    fn new(largest: u32) -> Result<Self, OutOfMemory> {
        let bits = largest.next_power_of_two().ilog2();
        Ok(Self { groups: slice(GROUPS, |_| Group::default())?, bits, backlogged: 0, eligible: 0, blocked: 0 })
    }

    fn reset(&mut self) {
        self.groups.fill_with(Group::default);
        (self.backlogged, self.eligible, self.blocked) = (0, 0, 0);
    }

    /// Returns ER: the eligible groups that are not blocked, in the order of their finish tags.
    #[inline]
    fn ready(&self) -> u64 {
        self.eligible & !self.blocked
    }

    /// Returns sigma_i.
    #[inline]
    fn slot(&self, group: u32) -> u128 {
        1 << (self.bits + group)
    }

    /// Rounds `tag` down to a slot of `group`.
    #[inline]
    fn round(&self, group: u32, tag: u128) -> u128 {
        tag & !(self.slot(group) - 1)
    }

    /// Index of the bucket of `tag` in `group`.
    #[inline]
    fn bucket(&self, group: u32, tag: u128) -> u32 {
        (tag as u64 >> (self.bits + group)) as u32 % BUCKETS
    }

    /// Returns F_i.
    #[inline]
    fn finish(&self, group: u32) -> u128 {
        self.groups[group as usize].start + 2 * self.slot(group)
    }

    /// Returns the finish tag of the first group of ER above `group`. It is the smallest of all eligible ones there.
    #[inline]
    fn first_finish_above(&self, group: u32) -> Option<u128> {
        let above = self.ready() & above(group);
        (above != 0).then(|| self.finish(above.trailing_zeros()))
    }

    /// Inserts `group`, which is in no set, into the sets given by its start.
    #[inline]
    fn classify(&mut self, group: u32, v: u128) {
        let bit = 1 << group;
        self.backlogged |= bit;
        if self.first_finish_above(group).is_some_and(|finish| finish < self.finish(group)) {
            self.blocked |= bit;
        }
        if self.groups[group as usize].start <= v {
            self.eligible |= bit;
        }
    }

    /// Removes `group` from all sets.
    #[inline]
    fn remove(&mut self, group: u32) {
        let others = !(1 << group);
        self.backlogged &= others;
        self.eligible &= others;
        self.blocked &= others;
    }

    /// Unblocks the groups that `group` blocked, which finished at `finish` and has been removed from ER; it comes back
    /// with a later finish.
    #[inline]
    fn unblock(&mut self, group: u32, finish: u128) {
        if self.first_finish_above(group) != Some(finish) {
            self.blocked &= !below(group);
        }
    }

    /// Moves virtual time from `v` to `to`. Groups whose next slot begins in between become eligible.
    #[inline]
    fn advance(&mut self, v: u128, to: u128) {
        let changed = (v ^ to) >> self.bits;
        if changed != 0 {
            let last = changed.ilog2().min(GROUPS as u32 - 1);
            self.eligible |= self.backlogged & !above(last);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    class: u32,
    len: u32,
}

/// Quick Fair Queueing over the leaves of a hierarchy.
#[derive(Debug)]
pub(crate) struct Qfq {
    flows: Flows<Session>,
    groups: Groups,
    v: u128,
    /// The packet that the last dequeue returned. Its class is in no bucket and keeps its group in place.
    under_way: Option<UnderWay>,
}

impl Qfq {
    /// Makes a scheduler for the leaves of `tree`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let largest = tree.link().max_packet;
        let groups = Groups::new(largest)?;
        let weights = leaf_weights(tree)?;
        let all: u64 = weights.iter().sum();
        let mut flows = Flows::new(tree, |_| Session { tag: Tag::default(), pace: Pace::new(0, 1), group: 0 })?;
        for (leaf, &weight) in tree.leaves().iter().zip(&weights) {
            let group = slot_bits(largest, weight, all) - groups.bits;
            *flows.state_mut(leaf.0) = Session { tag: Tag::default(), pace: Pace::new(all.into(), weight), group };
        }
        Ok(Self { flows, groups, v: 0, under_way: None })
    }

    /// Memory of an instance for `tree`, in bytes, including construction.
    fn memory(tree: &Hierarchy) -> u64 {
        Flows::<Session>::memory(tree) + bytes_of::<Group>(GROUPS) + bytes_of::<u64>(tree.leaves().len())
    }

    /// Called when an idle class gets a packet.
    #[inline]
    fn activate(&mut self, class: u32) {
        let session = self.flows.state_mut(class);
        let group = session.group;
        if self.v > session.tag.whole {
            session.tag = Tag { whole: self.v, fraction: 0 };
        }
        let start = self.groups.round(group, session.tag.whole);
        self.insert(class, group, start);
        let is_new = self.groups.backlogged & (1 << group) == 0;
        if is_new || start < self.groups.groups[group as usize].start {
            // A group that starts later than this is not eligible and blocks no other.
            self.groups.remove(group);
            self.groups.groups[group as usize].start = start;
            self.groups.classify(group, self.v);
        }
    }

    /// Appends a class to the bucket of `start`.
    #[inline]
    fn insert(&mut self, class: u32, group: u32, start: u128) {
        let bucket = self.groups.bucket(group, start);
        let group = &mut self.groups.groups[group as usize];
        group.buckets[bucket as usize].push(&mut self.flows, class);
        group.full |= 1 << bucket;
    }

    /// Ends the transmission.
    #[inline]
    fn complete(&mut self) {
        let Some(UnderWay { class, len }) = self.under_way.take() else { return };
        let session = self.flows.state_mut(class);
        session.tag = session.pace.after(session.tag, len);
        let (group, tag) = (session.group, session.tag.whole);
        let before = self.groups.groups[group as usize].start;
        let first = self.groups.bucket(group, before);
        if !self.flows.is_empty(class) {
            self.insert(class, group, self.groups.round(group, tag));
        }
        let (slot, finish) = (self.groups.slot(group), self.groups.finish(group));
        let sent = &mut self.groups.groups[group as usize];
        if sent.buckets[first as usize].is_empty() {
            sent.full &= !(1 << first);
        }
        let to = self.v + u128::from(len);
        let is_backlogged = sent.full != 0;
        let slots = sent.full.rotate_right(first).trailing_zeros();
        if slots == 0 {
            self.groups.advance(self.v, to);
        } else {
            self.groups.remove(group);
            self.groups.unblock(group, finish);
            self.groups.advance(self.v, to);
            if is_backlogged {
                self.groups.groups[group as usize].start = before + u128::from(slots) * slot;
                self.groups.classify(group, to);
            }
        }
        // No tag is more than two slots ahead, which are at most 2^ERA.
        let idle = self.groups.backlogged == 0;
        self.v = if idle { ((to >> ERA) + 2) << ERA } else { to };
    }

    /// Returns the next group to send.
    #[inline]
    fn select(&mut self) -> Option<u32> {
        if self.groups.backlogged == 0 {
            return None;
        }
        if self.groups.eligible == 0 {
            // All start at the next multiple of their slots, and the first group's comes first.
            let to = self.groups.groups[self.groups.backlogged.trailing_zeros() as usize].start;
            self.groups.advance(self.v, to);
            self.v = to;
        }
        Some(self.groups.ready().trailing_zeros())
    }
}

impl Scheduler for Qfq {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        let class = packet.class.0;
        if self.flows.push(now, packet, drops) == Some(true)
            && self.under_way.is_none_or(|packet| packet.class != class)
        {
            self.activate(class);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.complete();
        let Some(group) = self.select() else { return Dequeued::Idle };
        let first = self.groups.bucket(group, self.groups.groups[group as usize].start);
        let bucket = &mut self.groups.groups[group as usize].buckets[first as usize];
        let class = bucket.pop(&mut self.flows);
        let Some((class, packet)) = class.and_then(|class| Some((class, self.flows.pop(class, now, drops)?))) else {
            unreachable!("group {group} is ready and has no packet");
        };
        self.under_way = Some(UnderWay { class, len: packet.len });
        Dequeued::Packet(packet)
    }

    backlog_of_flows!();

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.flows.purge(now, drops);
        self.flows.states_mut().for_each(|session| session.tag = Tag::default());
        self.groups.reset();
        self.v = 0;
        self.under_way = None;
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), String> {
        let Self { flows, groups, v, .. } = self;
        let sending = self.under_way.map(|packet| packet.class);
        // Expected start and buckets of the groups, from the tags of their classes.
        let mut known = [(u128::MAX, 0u8); GROUPS];
        for class in flows.leaves().filter(|&class| !flows.is_empty(class) || sending == Some(class)) {
            let Session { tag, group, .. } = flows.state(class);
            let start = groups.round(*group, tag.whole);
            let (first, full) = &mut known[*group as usize];
            (*first, *full) = (start.min(*first), *full | 1 << groups.bucket(*group, start));
            if start > groups.round(*group, *v) + groups.slot(*group) {
                return Err(format!("class {class} starts at {start}, beyond the next slot after {v}"));
            }
        }
        for (number, (group, &(start, full))) in (0u32..).zip(groups.groups.iter().zip(&known)) {
            let bit = |set: u64| set >> number & 1 != 0;
            if full != group.full || bit(groups.backlogged) != (full != 0) || full != 0 && start != group.start {
                return Err(format!("group {number} starts at {start} with {full:b}; it has {group:?}"));
            }
            for (bucket, ring) in (0u32..).zip(&group.buckets) {
                let strange = |class| {
                    let session: &Session = flows.state(class);
                    session.group != number || groups.bucket(number, session.tag.whole) != bucket
                };
                if let Some(class) = ring.iter(flows).find(|&class| strange(class) || sending == Some(class)) {
                    return Err(format!("class {class} is in bucket {bucket} of group {number}"));
                }
            }
            if full == 0 {
                if bit(groups.eligible) || bit(groups.blocked) {
                    return Err(format!("group {number} is empty and in a set"));
                }
                continue;
            }
            let finish = |start: u128, number| start + 2 * groups.slot(number);
            let blocked = (number + 1..).zip(&known[number as usize + 1..]).any(|(other, &(begins, full))| {
                full != 0 && begins <= *v && finish(begins, other) < finish(start, number)
            });
            if bit(groups.eligible) != (start <= *v) || bit(groups.blocked) != blocked {
                let sets = (bit(groups.eligible), bit(groups.blocked));
                return Err(format!(
                    "group {number} from {start} at {v}, blocked: {blocked}; eligible, blocked: {sets:?}"
                ));
            }
            if *v > finish(start, number) + u128::from(flows.max_packet()) {
                return Err(format!("group {number} finishes at {}, and it is {v}", finish(start, number)));
            }
        }
        let listed = groups.groups.iter().flat_map(|group| &group.buckets).flat_map(|bucket| bucket.iter(flows));
        flows.check(listed, usize::from(sending.is_some_and(|class| !flows.is_empty(class))))
    }
}

#[cfg(test)]
impl Qfq {
    /// Moves the start of everything to the virtual time `v`, a multiple of 2^[`ERA`], instead of 0.
    fn skip_to(&mut self, v: u128) {
        self.v = v;
    }
}

#[cfg(test)]
mod tests;
