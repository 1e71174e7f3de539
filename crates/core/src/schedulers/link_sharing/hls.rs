//! `hls`: Hierarchical Link Sharing, a round robin whose outcome is hierarchical max-min fair.
//!
//! Source: \[hls\] Section IV (the scheduler), V (the round size), VI and VII (the bounds). HLS is a flat round robin over the
//! active leaves in which the quantum of a leaf, its *quota*, is worked out anew in each round from the top of the tree.
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
//! Balances, residuals and weights are in *credits* of 2^-24 byte ([`CREDITS_PER_BYTE`]), so that a weight may be a small
//! fraction of a byte and its quota loses nothing to the floor of equation (4). With whole bytes for weights the arithmetic
//! is the paper's except that the credit, not the byte, is what is indivisible.
//!
//! # Rounds
//!
//! A main round visits every active leaf once and hands out what the root has; surplus rounds follow as long as some inner
//! class holds at least one credit per credit of its children's weight. The set of active classes is fixed when a round
//! starts: a leaf that a packet arrives at in the middle of a round waits in `pending`, and one that empties is idle until
//! the next round. An inner class is touched once per round, when the first leaf below it asks for its quota (Figure 4).
//!
//! # Cost per packet
//!
//! O(1) amortised: a visit per leaf and round, one division per inner class and round, and a walk up to the first active
//! ancestor when a leaf becomes active or idle.
//!
//! # Invariants
//!
//! Equation (12): balances and residuals add up to Q* = sum of active weights + largest packets of active leaves, after every
//! call. 0 <= balance < largest packet for a leaf that is not being served (Lemma 4). Every main round sends at least one
//! packet (Theorem 2), or pays for one of a latency-critical leaf. All are checked by [`Scheduler::check_invariants`].
//!
//! # Overflow budget
//!
//! Q* is below 2^62 credits (2^38 bytes), checked at construction; every balance and residual lies between -Q* and Q*; a quota
//! is at most the balance that it is taken from.
//!
//! # Differences from the paper
//!
//! * `DIFFERENCE` (weights): a weight carries the unit byte in Q*, so weights given as rates would make rounds of gigabytes.
//!   Each group of siblings is scaled by a power of ten; see [`RunWeights`].
//! * `DIFFERENCE` (surplus rounds): the paper visits every active leaf in a surplus round. A leaf that has no ancestor with
//!   something to hand out gets no quota and cannot send, so only leaves below such ancestors are visited. The order of
//!   packets is the same (but for packets of no length, which need no quota and wait for the next main round here), and the cost of a surplus round is in proportion to what it can serve.
//! * `DIFFERENCE` (when an inner class is idle): equation (11) takes the balance of an inner class as soon as all its *active*
//!   leaves are idle, even if others below it received packets in this round and wait for the next. Such a class is
//!   backlogged all the time and yet loses its quota round after round: with two leaves that take turns, a single packet
//!   each, it falls behind its sibling without bound, against Theorem 3 (whose Lemma 2 takes "backlogged" for "active"). Here
//!   an inner class is idle when no leaf below it is backlogged; until then it keeps its balance, and the waiting leaves get
//!   it in the surplus round that follows. Test: `leaves_that_take_turns_do_not_cost_their_parent_its_share`.
//! * `DIFFERENCE` (latency-critical leaves): not in the paper; see `hls/urgent.rs` for the rule and its bounds.
//! * `DIFFERENCE` (ceilings): the paper leaves them to the future; see `hls/ceilings.rs` for the rule and its bound.
//! * `DIFFERENCE` (start of a surplus round): the paper says which classes are active in a surplus round (all backlogged ones),
//!   not whether the condition for starting it counts those that are new. Here it does: they are activated first, so that no
//!   surplus round starts in which nothing can be handed out.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use crate::contract::{
    Amount, BatchEnd, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet,
    Scheduler, SchedulerInfo, WorkConserving,
};
use crate::queue::{LeafQueue, PacketSlab};

mod ceilings;
mod urgent;
mod weights;
use ceilings::Ceilings;
pub use urgent::Advances;
use urgent::Urgent;
pub use weights::{CREDITS_PER_BYTE, RunWeights};

#[cfg(test)]
mod tests;

/// What `hls` is and supports.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hls",
    paper: "hls",
    summary: "hierarchical max-min fair round robin",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::CeilingBurst,
        Feature::LatencyCritical,
        Feature::LatencyBurst,
        Feature::ActiveQueue,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(1)",
    bounds: &["fairness", "transmission_gap", "delay"],
    build: |tree| Ok(Box::new(Hls::new(tree)?)),
};

const CREDIT_SHIFT: u32 = CREDITS_PER_BYTE.trailing_zeros();
/// Index of the root among the inner classes.
const ROOT: u32 = 0;
const NIL: u32 = u32::MAX;
/// Leaves above which the next ones in the round are touched ahead of time; below, everything is in the cache anyway.
const LOOK_AHEAD_FROM: usize = 1 << 11;
const LOOK_AHEAD: usize = 6;

/// The leaf counts in this round.
const ACTIVE: u16 = 1;
/// The leaf became backlogged in this round and will be active from the next.
const PENDING: u16 = 2;
/// The leaf is in the list of leaves for the next main round.
const LISTED: u16 = 4;
/// There is a ceiling at the leaf or above it.
const LIMITED: u16 = 16;
/// The leaf is backlogged and waits until a ceiling is out of debt.
const PARKED: u16 = 32;
/// Not a leaf: `parent` is the class's own index among the inner classes.
const INNER: u16 = 8;
/// The leaf is latency-critical.
const URGENT: u16 = 64;
/// The leaf is latency-critical and listed as one that may send ahead of its turn.
const READY: u16 = 128;
/// The leaf's queue is an active one.
const MANAGED: u16 = 256;
/// The leaf needs more than its balance and a FIFO to be served.
const SPECIAL: u16 = LIMITED | URGENT | MANAGED;

/// One class, on one cache line: all that a leaf needs when a packet arrives or leaves.
#[derive(Debug)]
#[repr(align(64))]
struct Leaf {
    queue: LeafQueue,
    balance: i64,
    weight: i64,
    parent: u32,
    flags: u16,
}

const _: () = assert!(size_of::<Leaf>() == 64);

#[derive(Debug)]
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
    class: u32,
    first_child: u32,
    last_child: u32,
    /// Whether it counts in this round: it has balances, and its weight is part of Q*.
    active: bool,
    /// Whether it is in `Hls::touched`.
    touched: bool,
    /// Scratch of `start_surplus_round`: it has something to hand out.
    surplus: bool,
}

/// Neighbours in the list of a class's active siblings.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// How many rounds there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Main rounds started.
    pub main: u64,
    /// Surplus rounds started.
    pub surplus: u64,
    /// Main rounds that ended without a packet: none, says Theorem 2.
    pub main_without_packet: u64,
}

/// The HLS scheduler.
#[derive(Debug)]
pub struct Hls {
    /// Indexed by class; entries of inner classes only say where to find them.
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    links: Vec<Link>,
    slab: PacketSlab,
    /// Leaves of this round, and how far it has come.
    order: Vec<u32>,
    cursor: usize,
    /// In a main round: the leaves in `order[..kept]` were visited and are still active, so that they are in the next one.
    kept: usize,
    /// In a surplus round: the leaves of the next main round.
    waiting: Vec<u32>,
    /// The leaf at the cursor has its quota.
    serving: bool,
    in_main_round: bool,
    sent_in_round: bool,
    round: u64,
    pending: Vec<u32>,
    /// Inner classes of which a child went idle since the last round started: only these can have a surplus.
    touched: Vec<u32>,
    ceilings: Ceilings,
    urgent: Urgent,
    now: Nanos,
    rounds: Rounds,
    max_packet: u32,
    look_ahead: usize,
    #[cfg(test)]
    visits: Vec<ClassId>,
}

impl Hls {
    /// A scheduler for `tree`, which must have the features of [`INFO`] only; others are ignored.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] where the number of leaves times the largest packet makes a round longer than 2^38 bytes.
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let link = tree.link();
        let leaves = tree.leaves().len();
        let longest_round = 2 * leaves as u64 * u64::from(link.max_packet) + tree.len() as u64;
        if longest_round >> 38 != 0 {
            let max = (1 << 37) / leaves as u64;
            let value = u64::from(link.max_packet);
            return Err(BuildError::Parameter { class: ClassId::ROOT, what: "the mtu in bytes", value, min: 1, max });
        }
        let weights = RunWeights::of(tree);
        let mut hls = Self {
            leaves: Vec::with_capacity(tree.len()),
            inners: Vec::with_capacity(tree.len() - leaves),
            links: alloc::vec![Link { prev: NIL, next: NIL }; tree.len()],
            slab: PacketSlab::for_tree(tree),
            order: Vec::with_capacity(leaves),
            cursor: 0,
            kept: 0,
            waiting: Vec::with_capacity(leaves),
            serving: false,
            in_main_round: true,
            sent_in_round: true,
            round: 0,
            pending: Vec::with_capacity(leaves),
            touched: Vec::with_capacity(tree.len() - leaves),
            ceilings: Ceilings::new(tree, &weights),
            urgent: Urgent::new(tree, &weights),
            now: Nanos::ZERO,
            rounds: Rounds::default(),
            max_packet: link.max_packet,
            look_ahead: if leaves >= LOOK_AHEAD_FROM { LOOK_AHEAD } else { usize::MAX / 2 },
            #[cfg(test)]
            visits: Vec::new(),
        };
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            let parent = tree.parent(class).map_or(NIL, |parent| hls.leaves[parent.index()].parent);
            let weight = if class == ClassId::ROOT { 0 } else { weights.credits(class) as i64 };
            let is_leaf = tree.is_leaf(class);
            let limited = if hls.ceilings.is_limited(class) { LIMITED } else { 0 };
            let urgent = if tree.config(class).latency_critical { URGENT } else { 0 };
            let queue = hls.slab.queue_for(tree, class);
            let managed = if queue.is_fifo() { 0 } else { MANAGED };
            let (parent_or_self, flags) =
                if is_leaf { (parent, limited | urgent | managed) } else { (hls.inners.len() as u32, INNER) };
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
                    class: class.0,
                    first_child: NIL,
                    last_child: NIL,
                    active: class == ClassId::ROOT,
                    touched: false,
                    surplus: false,
                });
            }
        }
        Ok(hls)
    }

    /// How many rounds there were since construction or [`Scheduler::purge`].
    #[must_use]
    pub fn rounds(&self) -> Rounds {
        self.rounds
    }

    fn max_packet_credits(&self) -> i64 {
        i64::from(self.max_packet) << CREDIT_SHIFT
    }

    /// Serves the round robin until `max_packets` packets or at least `max_bytes` bytes were given to `out`; false if it ran
    /// out of backlog before. Every iteration visits a leaf or starts a round; by Theorem 2 a main round sends a packet, and a
    /// surplus round is followed by a main round unless a leaf went idle, so the loop ends.
    #[inline(always)]
    fn serve(
        &mut self,
        max_packets: usize,
        max_bytes: u64,
        drops: &mut dyn DropSink,
        mut out: impl FnMut(Packet),
    ) -> bool {
        let (mut packets, mut bytes, mut more) = (0, 0, true);
        while packets < max_packets && bytes < max_bytes {
            if self.urgent.any_ready() {
                if let Some(packet) = self.send_ahead(drops) {
                    packets += 1;
                    bytes += u64::from(packet.len);
                    out(packet);
                }
                continue;
            }
            let Some(&id) = self.order.get(self.cursor) else {
                if self.start_round() {
                    continue;
                }
                more = false;
                break;
            };
            if let Some(&ahead) = self.order.get(self.cursor + self.look_ahead) {
                // A load whose value nobody waits for: the next leaves come into the cache while this one is served.
                core::hint::black_box(self.leaves[ahead as usize].flags);
            }
            let leaf = &mut self.leaves[id as usize];
            if !self.serving {
                if leaf.flags & ACTIVE == 0 {
                    // It has gone idle since it was listed.
                    leaf.flags &= !LISTED;
                    self.cursor += 1;
                    continue;
                }
                // A leaf without packets, which may still owe for some, does not wait for a ceiling.
                if leaf.flags & LIMITED != 0
                    && !leaf.queue.is_empty()
                    && let Some(limiter) = self.ceilings.blocks(id, self.round, self.now)
                {
                    self.park(id, limiter);
                    continue;
                }
                let parent = leaf.parent;
                let inner = &mut self.inners[parent as usize];
                if inner.round != self.round {
                    self.replenish(parent);
                    continue;
                }
                // Equation (8).
                let quota = leaf.weight * inner.fair_quota;
                leaf.balance += quota;
                inner.balance -= quota;
                self.serving = true;
                #[cfg(test)]
                self.visits.push(ClassId(id));
            }
            if leaf.flags & SPECIAL != 0 {
                if let Some(packet) = self.serve_special(id, drops) {
                    packets += 1;
                    bytes += u64::from(packet.len);
                    out(packet);
                }
                continue;
            }
            // A balance is never negative.
            let affordable = (leaf.balance >> CREDIT_SHIFT) as u64;
            let (mut left, mut exhausted) = (affordable, false);
            loop {
                let Some(packet) = leaf.queue.pop_within(&mut self.slab, ClassId(id), left) else {
                    exhausted = true;
                    break;
                };
                left -= u64::from(packet.len);
                packets += 1;
                bytes += u64::from(packet.len);
                self.sent_in_round = true;
                out(packet);
                if packets >= max_packets || bytes >= max_bytes {
                    break;
                }
            }
            // Equation (9) for all packets of the visit.
            let sent = ((affordable - left) as i64) << CREDIT_SHIFT;
            leaf.balance -= sent;
            self.inners[ROOT as usize].balance += sent;
            if leaf.queue.is_empty() {
                self.end_visit_idle(id);
            } else if exhausted {
                self.end_visit(id);
            }
        }
        more
    }

    /// What `serve` does for the leaf at the cursor where it is latency-critical, below a ceiling, or has an active queue: one packet
    /// at most.
    #[cold]
    fn serve_special(&mut self, id: u32, drops: &mut dyn DropSink) -> Option<Packet> {
        let leaf = &mut self.leaves[id as usize];
        if leaf.flags & URGENT != 0 {
            self.visit_urgent(id);
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
            if leaf.flags & LIMITED != 0 {
                self.ceilings.sent(id, packet.len, self.now);
            }
        }
        if empty {
            self.end_visit_idle(id);
        } else if packet.is_none() {
            self.end_visit(id);
        }
        packet
    }

    /// Sends a packet of the latency-critical leaf whose turn it is, if no ceiling holds it back.
    #[cold]
    fn send_ahead(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        let id = self.urgent.pop_ready()?;
        let leaf = &mut self.leaves[id as usize];
        leaf.flags &= !READY;
        if leaf.flags & LIMITED != 0
            && (leaf.flags & PARKED != 0 || self.ceilings.blocks(id, self.round, self.now).is_some())
        {
            // It is or will be parked when it is visited.
            return None;
        }
        let packet = leaf.queue.dequeue(&mut self.slab, ClassId(id), self.now, drops)?;
        if leaf.flags & LIMITED != 0 {
            self.ceilings.sent(id, packet.len, self.now);
        }
        self.urgent.owe(id, packet.len);
        self.let_send_ahead(id);
        Some(packet)
    }

    /// Lists a latency-critical leaf as one that may send if its next packet is within its advance.
    fn let_send_ahead(&mut self, id: u32) {
        let leaf = &mut self.leaves[id as usize];
        if leaf.flags & (READY | PARKED) == 0
            && leaf.queue.head_len().is_some_and(|len| self.urgent.is_within_advance(id, len))
        {
            leaf.flags |= READY;
            self.urgent.push_ready(id);
        }
    }

    /// Pays what the latency-critical leaf at the cursor owes out of its balance: equation (9) for packets that were sent ahead.
    #[cold]
    fn visit_urgent(&mut self, id: u32) {
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
        // Otherwise it sends, and the visit goes on: the balance that is left may pay for that, too.
    }

    /// Has all debt paid when nothing is queued, which takes rounds but no time.
    #[cold]
    fn settle(&mut self, drops: &mut dyn DropSink) {
        let more = self.serve(1, u64::MAX, drops, |_| {});
        debug_assert!(!more && !self.urgent.any_debt(), "nothing was queued");
    }

    /// The leaf at the cursor has used its quota and stays active.
    #[inline(always)]
    fn end_visit(&mut self, id: u32) {
        self.serving = false;
        self.cursor += 1;
        if self.in_main_round {
            self.order[self.kept] = id;
            self.kept += 1;
        }
    }

    /// The leaf at the cursor leaves the active set until the ceiling `limiter` is out of debt.
    #[cold]
    fn park(&mut self, id: u32, limiter: u32) {
        // The balance is kept at the root, which it comes back from: to let the siblings have it would pay it out twice.
        let balance = mem::take(&mut self.leaves[id as usize].balance);
        self.inners[ROOT as usize].residual += balance;
        self.ceilings.park(id, balance, limiter);
        self.end_visit_idle(id);
        self.leaves[id as usize].flags |= PARKED;
        // Not a packet, but progress: a round in which all leaves are parked is none of Theorem 2's.
        self.sent_in_round = true;
    }

    /// The leaves whose ceiling is out of debt wait for the round that starts now.
    fn unpark(&mut self) {
        while let Some(first) = self.ceilings.wake(self.now) {
            let mut next = Some(first);
            while let Some(id) = next {
                next = self.ceilings.next_parked(id);
                let leaf = &mut self.leaves[id as usize];
                leaf.flags = (leaf.flags & !PARKED) | PENDING;
                let parent = leaf.parent;
                self.wait_for_next_round(id, parent);
            }
        }
    }

    #[cold]
    fn end_visit_idle(&mut self, id: u32) {
        self.serving = false;
        self.cursor += 1;
        let leaf = &mut self.leaves[id as usize];
        leaf.flags &= !ACTIVE;
        if self.in_main_round {
            leaf.flags &= !LISTED;
        }
        self.deactivate(id);
    }

    /// Works out the fair quota of an inner class for this round, and of its ancestors first: equations (4), (6), (7) as
    /// initiated by a leaf (Figure 4). Recursion is at most [`crate::contract::MAX_DEPTH`] deep.
    #[cold]
    fn replenish(&mut self, index: u32) {
        let (parent, weight) = {
            let inner = &self.inners[index as usize];
            (inner.parent, inner.weight)
        };
        let mut quota = 0;
        if index != ROOT {
            if self.inners[parent as usize].round != self.round {
                self.replenish(parent);
            }
            let parent = &mut self.inners[parent as usize];
            quota = weight * parent.fair_quota;
            parent.balance -= quota;
        }
        let (round, in_main_round) = (self.round, self.in_main_round);
        let inner = &mut self.inners[index as usize];
        inner.round = round;
        if index == ROOT && !in_main_round {
            // The root hands out nothing in a surplus round; what came back to it waits for the next main round.
            inner.fair_quota = 0;
            return;
        }
        inner.balance += inner.residual + quota;
        inner.residual = 0;
        // Q* shrinks when classes go idle, which can leave the root in debt: nothing is handed out then.
        inner.fair_quota = if inner.balance > 0 { inner.balance / inner.active_weight } else { 0 };
    }

    /// Starts the next round; false if no leaf is backlogged.
    #[cold]
    fn start_round(&mut self) -> bool {
        if self.in_main_round && !self.sent_in_round && !self.order.is_empty() {
            self.rounds.main_without_packet += 1;
            debug_assert!(false, "Theorem 2: a main round sent nothing");
        }
        if self.in_main_round {
            self.order.truncate(self.kept);
        } else {
            mem::swap(&mut self.order, &mut self.waiting);
        }
        self.cursor = 0;
        self.kept = 0;
        self.sent_in_round = false;
        self.unpark();
        self.activate_pending();
        self.round += 1;
        if self.inners[ROOT as usize].active_children == 0 {
            for id in self.order.drain(..) {
                self.leaves[id as usize].flags &= !LISTED;
            }
        }
        self.in_main_round = !self.start_surplus_round();
        if self.order.is_empty() {
            return false;
        }
        if self.in_main_round {
            self.rounds.main += 1;
        } else {
            self.rounds.surplus += 1;
        }
        true
    }

    /// If an inner class can hand out what its children gave back, puts the active leaves below such classes in `order` and
    /// lets the leaves of the next main round wait.
    fn start_surplus_round(&mut self) -> bool {
        self.waiting.clear();
        for &index in &self.touched {
            let inner = &mut self.inners[index as usize];
            inner.surplus = inner.active_children > 0 && inner.balance + inner.residual >= inner.active_weight;
        }
        for at in 0..self.touched.len() {
            let index = self.touched[at];
            if self.inners[index as usize].surplus && !self.has_surplus_above(index) {
                self.list_leaves_below(index);
            }
        }
        for index in self.touched.drain(..) {
            let inner = &mut self.inners[index as usize];
            inner.touched = false;
            inner.surplus = false;
        }
        if self.waiting.is_empty() {
            return false;
        }
        mem::swap(&mut self.order, &mut self.waiting);
        true
    }

    fn has_surplus_above(&self, index: u32) -> bool {
        let mut at = self.inners[index as usize].parent;
        while at != ROOT {
            if self.inners[at as usize].surplus {
                return true;
            }
            at = self.inners[at as usize].parent;
        }
        false
    }

    /// Appends the active leaves below an inner class to `waiting`, depth first.
    fn list_leaves_below(&mut self, top: u32) {
        let mut index = top;
        let mut child = self.inners[top as usize].first_child;
        loop {
            while child == NIL {
                if index == top {
                    return;
                }
                child = self.links[self.inners[index as usize].class as usize].next;
                index = self.inners[index as usize].parent;
            }
            let entry = &self.leaves[child as usize];
            if entry.flags & INNER != 0 {
                index = entry.parent;
                child = self.inners[index as usize].first_child;
            } else {
                self.waiting.push(child);
                child = self.links[child as usize].next;
            }
        }
    }

    fn activate_pending(&mut self) {
        let largest = self.max_packet_credits();
        for at in 0..self.pending.len() {
            let id = self.pending[at];
            let leaf = &mut self.leaves[id as usize];
            if leaf.flags & LISTED == 0 {
                self.order.push(id);
            }
            leaf.flags = (leaf.flags & !PENDING) | ACTIVE | LISTED;
            leaf.balance = self.ceilings.take_balance(id);
            let (mut weight, mut parent, mut child) = (leaf.weight, leaf.parent, id);
            let mut grown = largest + weight - leaf.balance;
            loop {
                if parent != ROOT {
                    self.link_child(parent, child);
                }
                let inner = &mut self.inners[parent as usize];
                inner.active_weight += weight;
                inner.active_children += 1;
                if mem::replace(&mut inner.active, true) {
                    break;
                }
                (weight, child, parent) = (inner.weight, inner.class, inner.parent);
                grown += weight;
            }
            // Q* grows by what Theorem 2 asks for, through the root's residual (Section V-B).
            self.inners[ROOT as usize].residual += grown;
        }
        self.pending.clear();
    }

    /// A packet arrived at an idle leaf below `parent`.
    #[cold]
    fn wait_for_next_round(&mut self, id: u32, mut parent: u32) {
        self.pending.push(id);
        loop {
            let inner = &mut self.inners[parent as usize];
            inner.backlogged_children += 1;
            if parent == ROOT || inner.backlogged_children > 1 {
                break;
            }
            parent = inner.parent;
        }
    }

    /// A leaf has emptied: equations (10), (11), and Q* shrinks through the root's residual.
    fn deactivate(&mut self, id: u32) {
        let leaf = &mut self.leaves[id as usize];
        let (mut weight, mut parent, mut child) = (leaf.weight, leaf.parent, id);
        let mut given_back = mem::take(&mut leaf.balance);
        let mut shrunk = self.max_packet_credits() + weight;
        loop {
            if parent != ROOT {
                self.unlink_child(parent, child);
            }
            let inner = &mut self.inners[parent as usize];
            inner.residual += given_back;
            inner.active_weight -= weight;
            inner.active_children -= 1;
            inner.backlogged_children -= 1;
            if parent == ROOT {
                break;
            }
            if inner.backlogged_children > 0 {
                if !mem::replace(&mut inner.touched, true) {
                    self.touched.push(parent);
                }
                break;
            }
            inner.active = false;
            given_back = mem::take(&mut inner.balance) + mem::take(&mut inner.residual);
            (weight, child, parent) = (inner.weight, inner.class, inner.parent);
            shrunk += weight;
        }
        self.inners[ROOT as usize].residual -= shrunk;
    }

    fn link_child(&mut self, parent: u32, child: u32) {
        let inner = &mut self.inners[parent as usize];
        let last = mem::replace(&mut inner.last_child, child);
        self.links[child as usize] = Link { prev: last, next: NIL };
        if last == NIL {
            inner.first_child = child;
        } else {
            self.links[last as usize].next = child;
        }
    }

    fn unlink_child(&mut self, parent: u32, child: u32) {
        let Link { prev, next } = self.links[child as usize];
        let inner = &mut self.inners[parent as usize];
        if prev == NIL {
            inner.first_child = next;
        } else {
            self.links[prev as usize].next = next;
        }
        if next == NIL {
            inner.last_child = prev;
        } else {
            self.links[next as usize].prev = prev;
        }
    }

    #[inline(always)]
    fn enqueue_one(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        if self.urgent.any_debt() && self.slab.queued() == 0 {
            self.settle(drops);
        }
        let id = packet.class.0;
        let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.flags & INNER == 0) else {
            drops.dropped(now, packet, DropReason::NotALeaf);
            return;
        };
        if packet.len > self.max_packet {
            drops.dropped(now, packet, DropReason::TooLong);
            return;
        }
        if leaf.queue.enqueue(&mut self.slab, now, packet, drops) {
            let (flags, parent) = (leaf.flags, leaf.parent);
            if flags & (ACTIVE | PENDING | PARKED) == 0 {
                leaf.flags |= PENDING;
                self.wait_for_next_round(id, parent);
            }
            if flags & URGENT != 0 {
                self.let_send_ahead(id);
            }
        }
    }

    /// Q* of Theorem 2 for the classes that are active now, in credits.
    fn round_size(&self) -> i128 {
        let leaves = self.leaves.iter().filter(|leaf| leaf.flags & (INNER | ACTIVE) == ACTIVE);
        let leaf_part: i128 = leaves.map(|leaf| i128::from(leaf.weight + self.max_packet_credits())).sum();
        let inners = self.inners.iter().skip(1).filter(|inner| inner.active);
        leaf_part + inners.map(|inner| i128::from(inner.weight)).sum::<i128>()
    }
}

impl Scheduler for Hls {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue_one(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        let mut next = None;
        let more = self.serve(1, u64::MAX, drops, |packet| next = Some(packet));
        match (next, self.ceilings.next_wake()) {
            (Some(packet), _) => Dequeued::Packet(packet),
            (None, Some(wake)) if !more => Dequeued::WaitUntil(wake),
            _ => Dequeued::Idle,
        }
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog())
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            leaf.flags &= INNER | SPECIAL;
            leaf.balance = 0;
        }
        for inner in &mut self.inners {
            (inner.balance, inner.residual, inner.fair_quota, inner.round) = (0, 0, 0, 0);
            (inner.active_weight, inner.active_children, inner.backlogged_children) = (0, 0, 0);
            (inner.active, inner.touched) = (inner.parent == NIL, false);
            (inner.first_child, inner.last_child) = (NIL, NIL);
        }
        self.order.clear();
        self.waiting.clear();
        self.pending.clear();
        self.touched.clear();
        self.ceilings.reset();
        self.urgent.reset();
        (self.cursor, self.kept, self.round) = (0, 0, 0);
        (self.serving, self.in_main_round, self.sent_in_round) = (false, true, true);
        self.rounds = Rounds::default();
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.look_ahead == LOOK_AHEAD {
            // The leaves of the batch come into the cache side by side instead of one after the other.
            for packet in batch.iter() {
                if let Some(leaf) = self.leaves.get(packet.class.index()) {
                    core::hint::black_box(leaf.flags);
                }
            }
        }
        for packet in batch.drain(..) {
            self.enqueue_one(now, packet, drops);
        }
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
        let more = self.serve(max_packets, max_bytes, drops, |packet| out.push(packet));
        match self.ceilings.next_wake() {
            _ if more => BatchEnd::Full,
            Some(wake) => BatchEnd::WaitUntil(wake),
            None => BatchEnd::Idle,
        }
    }

    fn check_invariants(&self) -> Result<(), String> {
        let balances: i128 = self.leaves.iter().map(|leaf| i128::from(leaf.balance)).sum();
        let inner: i128 = self.inners.iter().map(|inner| i128::from(inner.balance) + i128::from(inner.residual)).sum();
        if balances + inner != self.round_size() {
            return Err(format!("equation (12): {} credits, Q* is {}", balances + inner, self.round_size()));
        }
        if self.rounds.main_without_packet > 0 {
            return Err(format!("Theorem 2: {} main rounds sent nothing", self.rounds.main_without_packet));
        }
        let served = if self.serving { self.order.get(self.cursor).copied() } else { None };
        for (id, leaf) in self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.flags & INNER == 0) {
            let waits = leaf.flags & (ACTIVE | PENDING | PARKED) != 0;
            let owes = self.urgent.debt(id as u32) > 0;
            if (leaf.queue.is_empty() && !owes) == waits {
                return Err(format!("leaf {id}: flags {:#x} with backlog {:?}", leaf.flags, leaf.queue.backlog()));
            }
            if leaf.balance < 0 || (served != Some(id as u32) && leaf.balance >= self.max_packet_credits()) {
                return Err(format!("Lemma 4: leaf {id} has a balance of {} credits", leaf.balance));
            }
            if leaf.flags & ACTIVE == 0 && leaf.balance != 0 {
                return Err(format!("idle leaf {id} has a balance of {} credits", leaf.balance));
            }
        }
        self.urgent.check(self.max_packet_credits()).map_err(String::from)?;
        for inner in &self.inners[1..] {
            if inner.balance < 0 || inner.residual < 0 {
                return Err(format!("class {}: balance {}, residual {}", inner.class, inner.balance, inner.residual));
            }
            if inner.active_children > inner.backlogged_children || (inner.active && inner.backlogged_children == 0) {
                return Err(format!(
                    "class {}: {} active, {} backlogged children",
                    inner.class, inner.active_children, inner.backlogged_children
                ));
            }
            if !inner.active && (inner.balance, inner.residual, inner.active_weight) != (0, 0, 0) {
                return Err(format!("idle class {} holds credit", inner.class));
            }
        }
        Ok(())
    }
}
