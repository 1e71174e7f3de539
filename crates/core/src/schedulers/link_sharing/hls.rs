//! `hls`: Hierarchical Link Sharing, a round robin whose outcome is hierarchical max-min fair.
//!
//! Source: \[hls\] Section IV (the scheduler), V (the round size), VI and VII (the bounds). HLS is a flat round robin
//! over the active leaves. The quantum of a leaf, its *quota*, is recomputed in each round from the top of the tree.
//!
//! # Names
//!
//! | paper | here | meaning |
//! | --- | --- | --- |
//! | w_i | `weight` | weight, in credits ([`RunWeights`]) |
//! | B_i | `balance` | credits that the class (leaf) or its leaves (inner) may still send |
//! | R_i | `residual` | credits handed back by children that went idle; part of the balance from the next round on |
//! | F_i | `fair_quota` | credits per credit of weight that each child gets in this round, equation (4) |
//! | w_i^ac | `active_weight` | sum of the weights of the active children, equation (5) |
//! | L_i^max | `max_packet` | the link's largest packet, for every leaf |
//! | Q* | `round_size` | sum of all balances and residuals, equation (12), Theorem 2 |
//!
//! # Units
//!
//! Balances, residuals and weights are in *credits* of 2^-24 byte ([`CREDITS_PER_BYTE`]). So a weight may be a small
//! fraction of a byte, and the floor of equation (4) costs its quota nothing. If weights are whole bytes, the
//! arithmetic is the paper's, except that the credit is indivisible and not the byte.
//!
//! # Rounds
//!
//! A main round visits every active leaf once and distributes the root's credit. Surplus rounds follow as long as some
//! inner class holds at least one credit per credit of its children's weight. The set of active classes is fixed when a
//! round starts. A leaf that gets a packet in the middle of a round waits in `pending`. A leaf that empties is idle
//! until the next round. An inner class is updated once per round, when the first leaf below it needs its quota (Figure
//! 4).
//!
//! # Cost per packet
//!
//! O(1) amortised. There is a visit per leaf and round, one division per inner class and round, and a walk up to the
//! first active ancestor when a leaf becomes active or idle.
//!
//! # Invariants
//!
//! Equation (12): balances and residuals add up to Q* = sum of active weights + largest packets of active leaves, after every
//! call. 0 <= balance < largest packet for a leaf that is not being served (Lemma 4). Every main round sends at least one
//! packet (Theorem 2), or pays for one of a latency-critical leaf. All are checked by [`Scheduler::check_invariants`].
//!
//! # Overflow budget
//!
//! Q* is below 2^62 credits (2^38 bytes), which is checked at construction. Every balance and residual lies between -Q*
//! and Q*. A quota is at most the balance that it is taken from.
//!
//! # Differences from the paper
//!
//! * `DIFFERENCE` (weights): a weight carries the unit byte in Q*, so weights given as rates would make rounds of gigabytes.
//!   Each group of siblings is scaled by a power of ten; see [`RunWeights`].
//! * `DIFFERENCE` (surplus rounds): the paper visits every active leaf in a surplus round. A leaf without an ancestor
//!   that has credit to distribute gets no quota and cannot send. So only leaves below such ancestors are visited, and
//!   the cost of a surplus round is proportional to its service. The order of packets is the same. Packets of no length
//!   are an exception: they need no quota, and wait for the next main round here. Of these, plain leaves that cannot
//!   send with their quota get it when the round starts, and are not visited.
//! * `DIFFERENCE` (order of visits): the paper leaves it open. `hls/sorting.rs` defines it.
//! * `DIFFERENCE` (idle inner classes): equation (11) takes the balance of an inner class as soon as all its *active*
//!   leaves are idle, even if others below it received packets in this round and wait for the next. Such a class is
//!   backlogged all the time and yet loses its quota round after round. With two leaves that take turns, a single
//!   packet each, it falls behind its sibling without bound. That contradicts Theorem 3; its Lemma 2 takes "backlogged"
//!   for "active". Here an inner class is idle when no leaf below it is backlogged. Until then it keeps its balance,
//!   and the waiting leaves get it in the surplus round that follows. Test:
//!   `leaves_that_take_turns_do_not_cost_their_parent_its_share`.
//! * `DIFFERENCE` (start of a surplus round): all backlogged classes are active in a surplus round. The paper does not
//!   say if the condition for starting one counts new classes. Here it does: they are activated first, so that no
//!   surplus round starts with nothing to distribute.
//! * `DIFFERENCE` (latency-critical leaves): they are not in the paper. `hls/urgent.rs` has the rule and its bounds.
//! * `DIFFERENCE` (ceilings): the paper leaves them to the future. `hls/ceilings.rs` has the rule and its bound.
//!
//! # Which file does what
//!
//! `plain.rs` visits plain leaves and sends from them, and this file does so for all others. `rounds.rs` starts rounds
//! and distributes quotas. `siblings.rs` has the lists of active children, and `sorting.rs` the order of visits.
//! `ceilings.rs`, `urgent.rs` and the queue's own code are for leaves that are not plain. `weights.rs` scales weights.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use core::any::Any;

use crate::bases::batches::{LOOK_AHEAD_FROM, Served, fill, look_ahead, push_all, slots_within};
use crate::contract::{
    Amount, BatchEnd, BuildError, ClassId, Delay, Dequeued, DropReason, DropSink, Fairness, Feature, Hierarchy,
    Members, Nanos, Packet, Promises, Scheduler, SchedulerInfo, Sharing, TransmissionGap, WorkConserving, boxed,
    same_kind,
};
use crate::parts::memory::{Stack, bytes_of, filled, pause};
use crate::queue::{LeafQueue, PacketSlab};

mod ceilings;
#[cfg(feature = "invariants")]
mod check;
mod flags;
mod plain;
mod rounds;
mod siblings;
mod sorting;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "invariants"))]
mod two_phase;
mod urgent;
mod weights;

pub use ceilings::CeilingDepths;
use ceilings::{Blocked, Ceilings};
use flags::Flags;
use plain::Later;
use siblings::Siblings;
use sorting::Sorting;
#[cfg(any(test, feature = "invariants"))]
pub use two_phase::TwoPhase;
pub use urgent::Advances;
use urgent::Urgent;
pub use weights::{CREDITS_PER_BYTE, RunWeights};

/// Registry entry of `hls`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hls",
    aliases: &[],
    paper: "hls",
    summary: "hierarchical max-min fair round robin",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::CeilingBurst,
        Feature::LatencyCritical,
        Feature::LatencyBurst,
        Feature::ActiveQueue,
        Feature::PushOut,
        Feature::LongRounds,
        Feature::Pool,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(1)",
    sharing: Sharing::Siblings,
    promises: Promises {
        fairness: Some(Fairness::Rounds(urgent::round_terms)),
        transmission_gap: Some(TransmissionGap::TwoRounds),
        delay: Some(Delay::LatencyRate(urgent::delays)),
        delay_in_order: true,
        ..Promises::NONE
    },
    memory: Hls::memory,
    build: |tree, members| boxed(Hls::with_members(tree, members)?),
};

const CREDIT_SHIFT: u32 = CREDITS_PER_BYTE.trailing_zeros();
/// Index of the root among the inner classes.
const ROOT: u32 = 0;
const NIL: u32 = u32::MAX;
/// One class, on one cache line: all that a leaf needs when a packet arrives or leaves.
#[derive(Debug)]
#[repr(align(64))]
struct Leaf {
    queue: LeafQueue,
    balance: i64,
    weight: i64,
    parent: u32,
    flags: Flags,
}

const _: () = assert!(size_of::<Leaf>() == 64);

impl Leaf {
    /// Begins a visit: the leaf gets its quota from its parent, equation (8).
    #[inline(always)]
    fn visit(&mut self, parent: &mut Inner) {
        let quota = self.weight * parent.fair_quota;
        self.balance += quota;
        parent.balance -= quota;
    }

    /// Cost of the head packet of a nonempty queue, in credits.
    #[inline(always)]
    fn cost_of_head(&self) -> i64 {
        i64::from(self.queue.len_of_head()) << CREDIT_SHIFT
    }
}

/// An inner class, on one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Inner {
    balance: i64,
    residual: i64,
    fair_quota: i64,
    /// The round that `fair_quota` was computed in.
    round: u64,
    active_weight: i64,
    weight: i64,
    active_children: u32,
    /// Children that are active, or have a leaf below them that waits for the next round.
    backlogged_children: u32,
    parent: u32,
    /// True if it counts in this round: it has balances, and its weight is part of Q*.
    active: bool,
    /// True if it is in `Hls::touched`.
    touched: bool,
    /// Scratch of `Hls::start_surplus_round`: true if it has credit to distribute.
    surplus: bool,
}

const _: () = assert!(size_of::<Inner>() == 64);

/// The progress of prefetches in `Hls::order`.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    leaves: usize,
    packets: usize,
}

/// Counts of rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Main rounds started.
    pub main: u64,
    /// Surplus rounds started.
    pub surplus: u64,
    /// Main rounds that ended without a packet: zero by Theorem 2.
    pub main_without_packet: u64,
}

/// The HLS scheduler.
#[derive(Debug)]
pub struct Hls {
    /// Indexed by class; entries of inner classes only have their index.
    leaves: Stack<Leaf>,
    inners: Stack<Inner>,
    /// The class of each inner class.
    inner_classes: Stack<u32>,
    siblings: Siblings,
    slab: PacketSlab,
    /// Leaves of this round, and the progress of the round.
    order: Stack<u32>,
    cursor: usize,
    /// The leaves in `order[..kept]` were visited in this round and, in a main round, are still active: they are in the next one.
    kept: usize,
    /// In a surplus round: the leaves of the next main round.
    waiting: Stack<u32>,
    /// The leaf at the cursor has its quota.
    serving: bool,
    in_main_round: bool,
    sent_in_round: bool,
    round: u64,
    pending: Stack<u32>,
    /// Inner classes with a child that went idle since the last round started: only these can have a surplus.
    touched: Stack<u32>,
    ceilings: Ceilings,
    has_ceilings: bool,
    urgent: Urgent,
    /// The weights from the next round on, by class, if `are_weights_due`.
    next_weights: Box<[i64]>,
    are_weights_due: bool,
    now: Nanos,
    rounds: Rounds,
    max_packet: u32,
    /// True if the tree is large enough for prefetching.
    looks_ahead: bool,
    asked: Asked,
    later: Later,
    sorting: Sorting,
    #[cfg(test)]
    visits: alloc::vec::Vec<ClassId>,
}

impl Hls {
    /// Makes a scheduler for `tree`. The tree should have the features of [`INFO`] only. Others are ignored.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] if the number of leaves times the largest packet makes a round longer than 2^38 bytes.
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        Self::with_members(tree, Members::new())
    }

    /// Like [`Hls::new`]. The classes `members` borrow from their lenders: children of the root, with a ceiling.
    ///
    /// # Errors
    /// Like [`Hls::new`], and [`BuildError::Parameter`] for a member that is not a child of the root, is named twice,
    /// or has no ceiling.
    pub fn with_members(tree: &Hierarchy, members: Members) -> Result<Self, BuildError> {
        let link = tree.link();
        let leaves = tree.leaves().len();
        let longest_round = 2 * leaves as u64 * u64::from(link.max_packet) + tree.len() as u64;
        if longest_round >> 38 != 0 {
            let max = (1 << 37) / leaves as u64;
            let value = u64::from(link.max_packet);
            return Err(BuildError::Parameter { class: ClassId::ROOT, what: "the mtu in bytes", value, min: 1, max });
        }
        let weights = RunWeights::for_tree(tree)?;
        let mut hls = Self {
            leaves: Stack::with_room(tree.len())?,
            inners: Stack::with_room(tree.len() - leaves)?,
            inner_classes: Stack::with_room(tree.len() - leaves)?,
            siblings: Siblings::new(tree.len(), tree.len() - leaves)?,
            slab: PacketSlab::for_tree(tree)?,
            order: Stack::with_room(leaves)?,
            cursor: 0,
            kept: 0,
            waiting: Stack::with_room(leaves)?,
            serving: false,
            in_main_round: true,
            sent_in_round: true,
            round: 0,
            pending: Stack::with_room(leaves)?,
            touched: Stack::with_room(tree.len() - leaves)?,
            ceilings: Ceilings::new(tree, &weights, members)?,
            has_ceilings: tree.classes().any(|class| tree.config(class).ceiling.is_some()),
            urgent: Urgent::new(tree, &weights)?,
            next_weights: filled(tree.len(), 0)?,
            are_weights_due: false,
            now: Nanos::ZERO,
            rounds: Rounds::default(),
            max_packet: link.max_packet,
            looks_ahead: leaves >= LOOK_AHEAD_FROM,
            asked: Asked::default(),
            later: Later::NOTHING,
            sorting: Sorting::new(tree)?,
            #[cfg(test)]
            visits: alloc::vec::Vec::new(),
        };
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            pause(class.index());
            let parent = tree.parent(class).map_or(NIL, |parent| hls.leaves[parent.index()].parent);
            let weight = if class == ClassId::ROOT { 0 } else { weights.credits(class) as i64 };
            let is_leaf = tree.is_leaf(class);
            let queue = hls.slab.queue_for(tree, class);
            let limited = Flags::LIMITED.if_so(hls.ceilings.is_limited(class));
            let capped = Flags::CAPPED.if_so(tree.config(class).ceiling.is_some());
            let urgent = Flags::URGENT.if_so(tree.config(class).latency_critical);
            let managed = Flags::MANAGED.if_so(!queue.is_fifo());
            let (parent_or_self, flags) = if is_leaf {
                (parent, limited.union(capped).union(urgent).union(managed).union(Flags::IDLE))
            } else {
                (hls.inners.len() as u32, Flags::INNER)
            };
            hls.leaves.push(Leaf { queue, balance: 0, weight, parent: parent_or_self, flags });
            if !is_leaf {
                hls.inners.push(Inner {
                    balance: 0,
                    residual: 0,
                    fair_quota: 0,
                    round: 0,
                    active_weight: 0,
                    weight,
                    active_children: 0,
                    backlogged_children: 0,
                    parent,
                    active: class == ClassId::ROOT,
                    touched: false,
                    surplus: false,
                });
                hls.inner_classes.push(class.0);
            }
        }
        Ok(hls)
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let leaves = tree.leaves().len();
        bytes_of::<Leaf>(tree.len())
            + bytes_of::<Inner>(tree.len() - leaves)
            + 2 * bytes_of::<u32>(tree.len() - leaves)
            + Sorting::memory(tree)
            + Siblings::memory(tree.len(), tree.len() - leaves)
            + bytes_of::<i64>(tree.len())
            + PacketSlab::memory(tree)
            + 3 * bytes_of::<u32>(leaves)
            + Ceilings::memory(tree)
            + Urgent::memory(tree)
            + RunWeights::memory(tree)
    }

    /// Returns the number of rounds since construction or [`Scheduler::purge`].
    #[must_use]
    pub fn rounds(&self) -> Rounds {
        self.rounds
    }

    fn max_packet_credits(&self) -> i64 {
        i64::from(self.max_packet) << CREDIT_SHIFT
    }

    /// Serves the round robin until every slot has a packet or at least `max_bytes` bytes are sent. Every iteration visits a leaf or
    /// starts a round. By Theorem 2 a main round sends a packet, and a surplus round is followed by a main round unless a leaf went
    /// idle. So the loop ends.
    #[inline]
    fn serve(&mut self, slots: &mut [Packet], max_bytes: u64, drops: &mut dyn DropSink) -> Served {
        let mut served = Served { packets: 0, bytes: 0, more: true };
        while served.packets < slots.len() && served.bytes < max_bytes {
            if !self.urgent.any_ready() {
                if self.cursor >= self.order.len() {
                    if self.start_round() {
                        continue;
                    }
                    served.more = false;
                    break;
                }
                let few = slots_within(max_bytes - served.bytes, self.max_packet);
                let end = slots.len().min(served.packets.saturating_add(few));
                let (packets, bytes) = self.serve_plain(&mut slots[served.packets..end]);
                served.packets += packets;
                served.bytes += bytes;
                if packets > 0 {
                    continue;
                }
            }
            if let Some(packet) = self.serve_special(drops) {
                served.bytes += u64::from(packet.len);
                slots[served.packets] = packet;
                served.packets += 1;
            }
        }
        served
    }

    /// Sends a packet of a latency-critical leaf if one may be sent ahead. Otherwise the leaf at the cursor, if there is one that
    /// is not plain, is visited, or sends one packet at most.
    #[cold]
    #[inline(never)]
    fn serve_special(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        if self.urgent.any_ready() {
            return self.send_ahead(drops);
        }
        let &id = self.order.get(self.cursor)?;
        let leaf = &mut self.leaves[id as usize];
        if !leaf.flags.intersects(Flags::NOT_PLAIN) {
            return None;
        }
        if !self.serving {
            if !leaf.flags.intersects(Flags::ACTIVE) {
                // It has become idle since it was listed.
                leaf.flags.clear(Flags::LISTED);
                self.cursor += 1;
                return None;
            }
            // If no packet is queued, debt is paid without checking a ceiling.
            if leaf.flags.intersects(Flags::LIMITED)
                && self.slab.queued() > 0
                && let Some(blocked) = self.ceilings.blocks(id, self.rounds.main, self.now)
            {
                self.park(id, blocked);
                return None;
            }
            let parent = leaf.parent;
            if self.inners[parent as usize].round != self.round {
                self.replenish(parent);
            }
            self.leaves[id as usize].visit(&mut self.inners[parent as usize]);
            self.serving = true;
            #[cfg(test)]
            self.visits.push(ClassId(id));
        }
        self.send_special(id, drops)
    }

    /// Sends one packet at most from the leaf at the cursor, which is latency-critical, below a ceiling, or has an active queue.
    #[cold]
    fn send_special(&mut self, id: u32, drops: &mut dyn DropSink) -> Option<Packet> {
        let leaf = &mut self.leaves[id as usize];
        if leaf.flags.intersects(Flags::URGENT) {
            self.pay_debt(id);
            return None;
        }
        let affordable = (leaf.balance >> CREDIT_SHIFT) as u64;
        let packet = leaf.queue.dequeue_within(&mut self.slab, ClassId(id), affordable, self.now, drops);
        let empty = leaf.queue.is_empty();
        if let Some(packet) = &packet {
            let sent = i64::from(packet.len) << CREDIT_SHIFT;
            leaf.balance -= sent;
            self.inners[ROOT as usize].balance += sent;
            self.sent_in_round = true;
            if leaf.flags.intersects(Flags::LIMITED) {
                let more = !empty || self.has_siblings(id);
                self.ceilings.sent(id, packet.len, self.now, more);
            }
        }
        if empty {
            self.end_visit_idle(id);
        } else if packet.is_none() {
            self.end_visit(id);
        }
        packet
    }

    /// Returns true if others than the leaf wait below the child of the root that it is below.
    fn has_siblings(&self, id: u32) -> bool {
        let mut at = self.leaves[id as usize].parent;
        while at != ROOT {
            let inner = &self.inners[at as usize];
            if inner.backlogged_children > 1 {
                return true;
            }
            at = inner.parent;
        }
        false
    }

    /// Sends a packet of the latency-critical leaf whose turn it is, if no ceiling holds it back.
    #[cold]
    fn send_ahead(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        let id = self.urgent.pop_ready()?;
        let leaf = &mut self.leaves[id as usize];
        leaf.flags.clear(Flags::READY);
        if leaf.flags.intersects(Flags::LIMITED)
            && (leaf.flags.intersects(Flags::PARKED) || self.ceilings.blocks(id, self.rounds.main, self.now).is_some())
        {
            // It is or will be parked when it is visited.
            return None;
        }
        let packet = leaf.queue.dequeue(&mut self.slab, ClassId(id), self.now, drops)?;
        if leaf.flags.intersects(Flags::LIMITED) {
            let more = !leaf.queue.is_empty() || self.has_siblings(id);
            self.ceilings.sent(id, packet.len, self.now, more);
        }
        self.urgent.owe(id, packet.len);
        self.let_send_ahead(id);
        Some(packet)
    }

    /// Lists a latency-critical leaf as one that may send if its next packet is within its advance.
    fn let_send_ahead(&mut self, id: u32) {
        let leaf = &mut self.leaves[id as usize];
        if !leaf.flags.intersects(Flags::READY.union(Flags::PARKED))
            && leaf.queue.head_len().is_some_and(|len| self.urgent.is_within_advance(id, len))
        {
            leaf.flags.set(Flags::READY);
            self.urgent.push_ready(id);
        }
    }

    /// Pays the debt of the latency-critical leaf at the cursor out of its balance: equation (9) for packets that were
    /// sent ahead.
    #[cold]
    fn pay_debt(&mut self, id: u32) {
        let leaf = &mut self.leaves[id as usize];
        let paid = self.urgent.pay(id, leaf.balance);
        leaf.balance -= paid;
        self.inners[ROOT as usize].balance += paid;
        self.sent_in_round |= paid > 0;
        let (owes, empty) = (self.urgent.debt(id) > 0, leaf.queue.is_empty());
        self.let_send_ahead(id);
        if owes {
            self.end_visit(id);
        } else if empty {
            self.end_visit_idle(id);
        }
        // Otherwise it sends, and the visit continues: the remaining balance may pay for the next packet, too.
    }

    /// Pays all debt when no packet is queued, which takes rounds but no time.
    #[cold]
    fn settle(&mut self, drops: &mut dyn DropSink) {
        self.unpark(Nanos::MAX);
        let served = self.serve(&mut [Packet::BLANK], u64::MAX, drops);
        debug_assert!(!served.more && !self.urgent.any_debt(), "nothing was queued");
    }

    /// Ends the visit of the leaf at the cursor, which has used its quota and stays active.
    #[inline(always)]
    fn end_visit(&mut self, id: u32) {
        self.serving = false;
        self.cursor += 1;
        self.order[self.kept] = id;
        self.kept += 1;
    }

    /// Removes the leaf at the cursor from the active set until it is no longer `blocked`.
    #[cold]
    fn park(&mut self, id: u32, blocked: Blocked) {
        // Another leaf below these classes may wait for the next round: they would miss this one's quota.
        let above = self.leaves[blocked.above as usize].parent;
        if self.inners[above as usize].round != self.round {
            self.replenish(above);
        }
        // The balance is kept at the root, which it comes back from: to let the siblings have it would pay it out twice.
        let balance = mem::take(&mut self.leaves[id as usize].balance);
        self.inners[ROOT as usize].residual += balance;
        self.ceilings.park(id, balance, blocked);
        let mut parent = self.leaves[id as usize].parent;
        while self.ceilings.child_parked(self.inner_classes[parent as usize]) && parent != ROOT {
            parent = self.inners[parent as usize].parent;
        }
        self.end_visit_idle(id);
        self.leaves[id as usize].flags.set(Flags::PARKED.union(Flags::KEPT));
        // Progress without a packet: a round in which all leaves are parked is not covered by Theorem 2.
        self.sent_in_round = true;
    }

    /// Moves the leaves whose ceiling is out of debt by `now` to the round that starts next.
    fn unpark(&mut self, now: Nanos) {
        while let Some(first) = self.ceilings.wake(now) {
            let mut next = Some(first);
            while let Some(id) = next {
                next = self.ceilings.next_parked(id);
                let leaf = &mut self.leaves[id as usize];
                leaf.flags.clear(Flags::PARKED);
                leaf.flags.set(Flags::PENDING);
                let mut parent = leaf.parent;
                self.wait_for_next_round(id, parent);
                while self.ceilings.child_returned(self.inner_classes[parent as usize]) && parent != ROOT {
                    parent = self.inners[parent as usize].parent;
                }
            }
        }
    }

    /// Time at which the next ceiling opens, if packets are queued: a leaf that only has debt waits for nothing.
    fn next_wake(&self) -> Option<Nanos> {
        self.ceilings.next_wake().filter(|_| self.slab.queued() > 0)
    }

    #[cold]
    fn end_visit_idle(&mut self, id: u32) {
        self.serving = false;
        self.cursor += 1;
        let leaf = &mut self.leaves[id as usize];
        leaf.flags.idle();
        if self.in_main_round {
            leaf.flags.clear(Flags::LISTED);
        }
        self.deactivate(id);
    }

    #[inline(always)]
    fn enqueue_one(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        if self.urgent.any_debt() && self.slab.queued() == 0 {
            self.settle(drops);
        }
        let id = packet.class.0;
        let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| !leaf.flags.intersects(Flags::INNER)) else {
            drops.dropped(now, packet, DropReason::NotALeaf);
            return;
        };
        if packet.len > self.max_packet {
            drops.dropped(now, packet, DropReason::TooLong);
            return;
        }
        if leaf.queue.enqueue(&mut self.slab, now, packet, drops) {
            let (flags, parent) = (leaf.flags, leaf.parent);
            if !flags.intersects(Flags::BACKLOGGED) {
                leaf.flags.set(Flags::PENDING);
                self.wait_for_next_round(id, parent);
            }
            if flags.intersects(Flags::URGENT) {
                self.let_send_ahead(id);
            }
        }
    }
}

impl Scheduler for Hls {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue_one(now, packet, drops);
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let mut slot = [Packet::BLANK];
        let served = self.serve(&mut slot, u64::MAX, drops);
        let [packet] = slot;
        match self.next_wake() {
            _ if served.packets > 0 => Dequeued::Packet(packet),
            Some(wake) => Dequeued::WaitUntil(wake),
            None => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog(&self.slab))
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let place =
            |leaf: &Leaf| (leaf.parent, leaf.flags.intersects(Flags::INNER), leaf.flags.intersects(Flags::URGENT));
        let same = |(mine, theirs): (&Leaf, &Leaf)| place(mine) == place(theirs) && mine.queue.fits(&theirs.queue);
        let above = |inner: &Inner| inner.parent;
        if self.leaves.len() != with.leaves.len()
            || self.max_packet != with.max_packet
            || !self.slab.fits(&with.slab)
            || !self.leaves.iter().zip(with.leaves.iter()).all(same)
            || !self.inners.iter().map(above).eq(with.inners.iter().map(above))
            || self.inner_classes[..] != with.inner_classes[..]
            || !self.ceilings.fits(&with.ceilings)
            || self.leaves.iter().any(|leaf| leaf.flags.intersects(Flags::URGENT))
        {
            return false;
        }
        self.now = self.now.max(now);
        self.slab.retune(&mut with.slab);
        self.ceilings.retune(&mut with.ceilings, self.now);
        for ((mine, theirs), next) in self.leaves.iter_mut().zip(with.leaves.iter()).zip(&mut self.next_weights) {
            mine.queue.retune(&theirs.queue);
            *next = theirs.weight;
        }
        // Quotas of the current round use the previous weights.
        self.are_weights_due = true;
        true
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            leaf.flags.keep(Flags::CONSTANT);
            leaf.flags.idle();
            leaf.balance = 0;
        }
        for inner in self.inners.iter_mut() {
            (inner.balance, inner.residual, inner.fair_quota, inner.round) = (0, 0, 0, 0);
            (inner.active_weight, inner.active_children, inner.backlogged_children) = (0, 0, 0);
            (inner.active, inner.touched) = (inner.parent == NIL, false);
        }
        self.siblings.clear();
        self.sorting.reset();
        self.order.clear();
        self.waiting.clear();
        self.pending.clear();
        self.touched.clear();
        self.take_weights();
        self.ceilings.reset();
        self.urgent.reset();
        (self.cursor, self.kept, self.round) = (0, 0, 0);
        (self.serving, self.in_main_round, self.sent_in_round) = (false, true, true);
        self.rounds = Rounds::default();
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.looks_ahead {
            look_ahead(&self.leaves, |leaf| &leaf.queue, &self.slab, batch);
        }
        push_all(self, now, batch, drops);
    }

    fn dequeue_batch(
        &mut self,
        now: Nanos,
        max_packets: usize,
        max_bytes: u64,
        out: &mut Vec<Packet>,
        drops: &mut dyn DropSink,
    ) -> BatchEnd {
        self.now = self.now.max(now);
        let queued = self.slab.queued();
        let more = fill(out, (max_packets, max_bytes), queued, |slots, bytes| self.serve(slots, bytes, drops));
        match self.next_wake() {
            _ if more => BatchEnd::Full,
            Some(wake) => BatchEnd::WaitUntil(wake),
            None => BatchEnd::Idle,
        }
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.leaves.get(class.index()).is_some_and(|leaf| leaf.flags.intersects(Flags::URGENT))
    }

    fn for_each_counter(&self, classes: Range<usize>, visit: &mut dyn FnMut(ClassId, &'static str, u64)) {
        if classes.contains(&ClassId::ROOT.index()) {
            visit(ClassId::ROOT, "main_rounds", self.rounds.main);
            visit(ClassId::ROOT, "surplus_rounds", self.rounds.surplus);
        }
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), alloc::string::String> {
        check::all(self)
    }
}
