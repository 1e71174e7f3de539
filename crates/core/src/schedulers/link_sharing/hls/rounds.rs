//! Rounds: the participants of the next one, the quotas of each inner class in it, and the surplus rounds that follow.

use core::mem;

use super::siblings::Next;
use super::{Asked, Flags, Hls, Inner, Leaf, ROOT};
use crate::parts::memory::Stack;
use crate::parts::prefetch::prefetch;

/// Prefetch distance in leaves that become active.
const LEAVES_AHEAD: usize = 16;

impl Hls {
    /// Like [`replenish`], in this round.
    pub(super) fn replenish(&mut self, index: u32) {
        replenish(&mut self.inners, index, self.round, self.in_main_round);
    }

    /// Starts the next round; returns false if no leaf is backlogged.
    #[cold]
    pub(super) fn start_round(&mut self) -> bool {
        if self.in_main_round && !self.sent_in_round && !self.order.is_empty() {
            self.rounds.main_without_packet += 1;
            debug_assert!(false, "Theorem 2: a main round sent nothing");
        }
        if self.in_main_round {
            self.order.truncate(self.kept);
        } else {
            mem::swap(&mut self.order, &mut self.waiting);
        }
        (self.cursor, self.kept, self.asked) = (0, 0, Asked::default());
        self.sent_in_round = false;
        self.take_weights();
        self.unpark(self.now);
        self.activate_pending();
        self.round += 1;
        if self.inners[ROOT as usize].active_children == 0 {
            for id in self.order.drain() {
                self.leaves[id as usize].flags.clear(Flags::LISTED);
            }
            self.sorting.reset();
        }
        self.in_main_round = !self.start_surplus_round();
        if self.order.is_empty() {
            return false;
        }
        if self.in_main_round {
            self.sorting.begin_main_round(&mut self.order);
            self.rounds.main += 1;
        } else {
            self.rounds.surplus += 1;
        }
        true
    }

    /// Adopts the weights from [`Scheduler::retune`](crate::contract::Scheduler::retune). Q* grows by the increase of
    /// the active classes' weights, through the root's residual.
    #[cold]
    pub(super) fn take_weights(&mut self) {
        if !mem::take(&mut self.are_weights_due) {
            return;
        }
        for (id, (mine, &weight)) in self.leaves.iter_mut().zip(&self.next_weights).enumerate() {
            let grown = weight - mem::replace(&mut mine.weight, weight);
            let (counts, parent) = if mine.flags.intersects(Flags::INNER) {
                let inner = &mut self.inners[mine.parent as usize];
                inner.weight = weight;
                (inner.active, inner.parent)
            } else {
                (mine.flags.intersects(Flags::ACTIVE), mine.parent)
            };
            if counts && id > 0 {
                self.inners[parent as usize].active_weight += grown;
                self.inners[ROOT as usize].residual += grown;
            }
        }
    }

    /// Begins a surplus round if an inner class can distribute credits that its children gave back. Puts the active
    /// leaves below such classes that can send in `order` and lets the leaves of the next main round wait. If no leaf
    /// can send, the surplus round is over.
    fn start_surplus_round(&mut self) -> bool {
        self.waiting.clear();
        let mut any = false;
        for &index in self.touched.iter() {
            let inner = &mut self.inners[index as usize];
            inner.surplus = inner.active_children > 0 && inner.balance + inner.residual >= inner.active_weight;
        }
        for at in 0..self.touched.len() {
            let index = self.touched[at];
            if self.inners[index as usize].surplus && !self.has_surplus_above(index) {
                self.hand_out_below(index);
                any = true;
            }
        }
        for index in self.touched.drain() {
            let inner = &mut self.inners[index as usize];
            inner.touched = false;
            inner.surplus = false;
        }
        if self.waiting.is_empty() {
            self.rounds.surplus += u64::from(any);
            self.round += u64::from(any);
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

    /// Appends the active leaves below an inner class to `waiting`, depth first. Plain leaves that cannot send with
    /// their quota get it at once and need not be visited. Quotas of a round do not depend on events in it, so that the
    /// result is the same (Lemma 1).
    fn hand_out_below(&mut self, top: u32) {
        let (round, cycle, special) = (self.round, self.rounds.main, self.special());
        let Self { leaves, inners, inner_classes, siblings, waiting, ceilings, .. } = self;
        let (leaves, inners) = (&mut leaves[..], &mut inners[..]);
        let (mut index, mut place) = (top, siblings.end_of(top));
        loop {
            // A class that a ceiling may block is checked in its turn, as are those below it.
            if inners[index as usize].round != round && ceilings.stay_open(inner_classes[index as usize], cycle) {
                replenish(inners, index, round, false);
            }
            let inner = &mut inners[index as usize];
            let reached = inner.round == round;
            let next = loop {
                let id = match siblings.after(place) {
                    Next::Leaf(id) => id,
                    other => break other,
                };
                place = id;
                if reached {
                    let leaf = &mut leaves[id as usize];
                    let quota = leaf.weight * inner.fair_quota;
                    if leaf.cost_of_head() > leaf.balance + quota
                        && !leaf.flags.intersects(special.union(Flags::IN_DEBT))
                    {
                        leaf.visit(inner);
                        #[cfg(test)]
                        self.visits.push(crate::contract::ClassId(id));
                        continue;
                    }
                }
                waiting.push(id);
            };
            (index, place) = match next {
                Next::Inner(below) => (below, siblings.end_of(below)),
                _ if index == top => return,
                _ => (inner.parent, siblings.place_of(index)),
            };
        }
    }

    fn activate_pending(&mut self) {
        let largest = self.max_packet_credits();
        let Self {
            leaves,
            inners,
            inner_classes,
            siblings,
            order,
            touched,
            ceilings,
            pending,
            looks_ahead,
            sorting,
            ..
        } = self;
        let (leaves, inners) = (&mut leaves[..], &mut inners[..]);
        let listed = order.len();
        // Q* grows as required by Theorem 2, through the root's residual (Section V-B).
        let mut grown = 0;
        for (at, &id) in pending.iter().enumerate() {
            if *looks_ahead && let Some(&ahead) = pending.get(at + LEAVES_AHEAD) {
                prefetch(leaves, ahead as usize);
                siblings.prefetch(ahead);
            }
            let leaf = &mut leaves[id as usize];
            if !leaf.flags.intersects(Flags::LISTED) {
                order.push(id);
            }
            if leaf.flags.intersects(Flags::KEPT) {
                leaf.balance = ceilings.take_balance(id);
            }
            leaf.flags.clear(Flags::PENDING.union(Flags::IDLE).union(Flags::KEPT));
            leaf.flags.set(Flags::ACTIVE.union(Flags::LISTED));
            grown += largest + leaf.weight - leaf.balance;
            let (mut weight, mut index, mut place) = (leaf.weight, leaf.parent, id);
            loop {
                let inner = &mut inners[index as usize];
                inner.active_weight += weight;
                inner.active_children += 1;
                if index == ROOT {
                    break;
                }
                siblings.append(index, place);
                if mem::replace(&mut inner.active, true) {
                    break;
                }
                grown += inner.weight;
                let kept = ceilings.take_balance(inner_classes[index as usize]);
                if kept > 0 {
                    // It may be more than the weight of those children that are active now.
                    inner.residual = kept;
                    grown -= kept;
                    if !mem::replace(&mut inner.touched, true) {
                        touched.push(index);
                    }
                }
                (weight, place, index) = (inner.weight, siblings.place_of(index), inner.parent);
            }
        }
        pending.clear();
        sorting.appended(order.len() - listed);
        inners[ROOT as usize].residual += grown;
    }

    /// Like [`wait_for_next_round`].
    pub(super) fn wait_for_next_round(&mut self, id: u32, parent: u32) {
        wait_for_next_round(&mut self.inners, &mut self.pending, id, parent);
    }

    /// Deactivates the leaf `id`, which has emptied or is parked.
    pub(super) fn deactivate(&mut self, id: u32) {
        self.later.idle[0] = id;
        self.deactivate_all(1);
    }

    /// Deactivates the first `count` leaves of `Later::idle`, which have emptied or are parked: equations (10), (11).
    /// Q* shrinks through the root's residual, by the largest packet among others. This does not change the quotas in
    /// the rest of the round, so that the leaves of a batch may be deactivated together.
    #[inline(never)]
    pub(super) fn deactivate_all(&mut self, count: usize) {
        let largest = self.max_packet_credits();
        let Self { leaves, inners, inner_classes, siblings, touched, ceilings, later, looks_ahead, .. } = self;
        let (leaves, inners) = (&mut leaves[..], &mut inners[..]);
        let idle = &later.idle[..count];
        if *looks_ahead {
            idle.iter().for_each(|&id| siblings.prefetch(id));
        }
        let mut shrunk = 0;
        for &id in idle {
            let Leaf { balance, weight, parent, .. } = &mut leaves[id as usize];
            shrunk += largest + *weight;
            let (mut given_back, mut weight, mut index, mut place) = (mem::take(balance), *weight, *parent, id);
            loop {
                let inner = &mut inners[index as usize];
                inner.residual += given_back;
                inner.active_weight -= weight;
                inner.active_children -= 1;
                inner.backlogged_children -= 1;
                if index == ROOT {
                    break;
                }
                siblings.remove(place);
                if inner.backlogged_children > 0 {
                    if !mem::replace(&mut inner.touched, true) {
                        touched.push(index);
                    }
                    break;
                }
                inner.active = false;
                let left = mem::take(&mut inner.balance) + mem::take(&mut inner.residual);
                let kept = ceilings.keep(inner_classes[index as usize], left);
                given_back = left - kept;
                shrunk += inner.weight - kept;
                (weight, place, index) = (inner.weight, siblings.place_of(index), inner.parent);
            }
        }
        inners[ROOT as usize].residual -= shrunk;
    }
}

/// Works out the fair quota of an inner class for this round, and of its ancestors first: equations (4), (6), (7) as
/// initiated by a leaf (Figure 4). Recursion is at most [`MAX_DEPTH`](crate::contract::MAX_DEPTH) deep.
#[inline(never)]
pub(super) fn replenish(inners: &mut [Inner], index: u32, round: u64, in_main_round: bool) {
    let parent = inners[index as usize].parent;
    let mut quota = 0;
    if index != ROOT {
        if inners[parent as usize].round != round {
            replenish(inners, parent, round, in_main_round);
        }
        quota = inners[index as usize].weight * inners[parent as usize].fair_quota;
        inners[parent as usize].balance -= quota;
    }
    let inner = &mut inners[index as usize];
    inner.round = round;
    if index == ROOT && !in_main_round {
        // The root distributes nothing in a surplus round; credits returned to it wait for the next main round.
        inner.fair_quota = 0;
        return;
    }
    inner.balance += mem::take(&mut inner.residual) + quota;
    // Q* shrinks when classes go idle, which can leave the root in debt: nothing is distributed then.
    inner.fair_quota = if inner.balance > 0 { (inner.balance as u64 / inner.active_weight as u64) as i64 } else { 0 };
}

/// Handles a packet that arrived at an idle leaf below `parent`.
pub(super) fn wait_for_next_round(inners: &mut [Inner], pending: &mut Stack<u32>, id: u32, mut parent: u32) {
    pending.push(id);
    loop {
        let inner = &mut inners[parent as usize];
        inner.backlogged_children += 1;
        if parent == ROOT || inner.backlogged_children > 1 {
            break;
        }
        parent = inner.parent;
    }
}
