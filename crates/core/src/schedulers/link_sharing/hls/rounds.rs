//! Rounds: who takes part in the next one, what each inner class hands out in it, and which surplus rounds follow.

use core::mem;

use super::{Asked, Ceilings, Flags, Hls, Inner, Leaf, Link, NIL, ROOT};
use crate::parts::memory::Stack;

impl Hls {
    /// [`replenish`] in this round.
    pub(super) fn replenish(&mut self, index: u32) {
        replenish(&mut self.inners, index, self.round, self.in_main_round);
    }

    /// Starts the next round; false if no leaf is backlogged.
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

    /// Takes the weights that [`Scheduler::retune`](crate::contract::Scheduler::retune) has brought. Q* grows by what those of the active classes
    /// have grown by, through the root's residual.
    #[cold]
    pub(super) fn take_weights(&mut self) {
        if !mem::take(&mut self.are_weights_due) {
            return;
        }
        for (id, (mine, &weight)) in self.leaves.iter_mut().zip(&self.next_weights).enumerate() {
            let grown = weight - mem::replace(&mut mine.weight, weight);
            let (counts, parent) = if mine.flags.has(Flags::INNER) {
                let inner = &mut self.inners[mine.parent as usize];
                inner.weight = weight;
                (inner.active, inner.parent)
            } else {
                (mine.flags.has(Flags::ACTIVE), mine.parent)
            };
            if counts && id > 0 {
                self.inners[parent as usize].active_weight += grown;
                self.inners[ROOT as usize].residual += grown;
            }
        }
    }

    /// If an inner class can hand out what its children gave back, puts the active leaves below such classes in `order` and
    /// lets the leaves of the next main round wait.
    fn start_surplus_round(&mut self) -> bool {
        self.waiting.clear();
        for &index in self.touched.iter() {
            let inner = &mut self.inners[index as usize];
            inner.surplus = inner.active_children > 0 && inner.balance + inner.residual >= inner.active_weight;
        }
        for at in 0..self.touched.len() {
            let index = self.touched[at];
            if self.inners[index as usize].surplus && !self.has_surplus_above(index) {
                self.list_leaves_below(index);
            }
        }
        for index in self.touched.drain() {
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
            if entry.flags.has(Flags::INNER) {
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
            if !leaf.flags.has(Flags::LISTED) {
                self.order.push(id);
            }
            leaf.flags.clear(Flags::PENDING);
            leaf.flags.activate();
            leaf.flags.set(Flags::LISTED);
            leaf.balance = self.ceilings.take_balance(id);
            let (mut weight, mut parent, mut child) = (leaf.weight, leaf.parent, id);
            let mut grown = largest + weight - leaf.balance;
            loop {
                let index = parent;
                let inner = &mut self.inners[index as usize];
                if parent != ROOT {
                    link_child(inner, &mut self.links, child);
                }
                inner.active_weight += weight;
                inner.active_children += 1;
                if mem::replace(&mut inner.active, true) {
                    break;
                }
                (weight, child, parent) = (inner.weight, inner.class, inner.parent);
                grown += weight;
                let kept = self.ceilings.take_balance(child);
                if kept > 0 {
                    // It may be more than the weight of those children that are active now.
                    inner.residual = kept;
                    grown -= kept;
                    if !mem::replace(&mut inner.touched, true) {
                        self.touched.push(index);
                    }
                }
            }
            // Q* grows by what Theorem 2 asks for, through the root's residual (Section V-B).
            self.inners[ROOT as usize].residual += grown;
        }
        self.pending.clear();
    }

    /// [`wait_for_next_round`].
    pub(super) fn wait_for_next_round(&mut self, id: u32, parent: u32) {
        wait_for_next_round(&mut self.inners, &mut self.pending, id, parent);
    }

    /// [`deactivate`] of the leaf `id`.
    pub(super) fn deactivate(&mut self, id: u32) {
        let largest = self.max_packet_credits();
        let Self { leaves, inners, links, touched, ceilings, .. } = self;
        deactivate(&mut leaves[id as usize], id, (inners, links), touched, ceilings, largest);
    }
}

/// Works out the fair quota of an inner class for this round, and of its ancestors first: equations (4), (6), (7) as
/// initiated by a leaf (Figure 4). Recursion is at most [`MAX_DEPTH`](crate::contract::MAX_DEPTH) deep.
#[cold]
pub(super) fn replenish(inners: &mut [Inner], index: u32, round: u64, in_main_round: bool) {
    let Inner { parent, weight, .. } = inners[index as usize];
    let mut quota = 0;
    if index != ROOT {
        if inners[parent as usize].round != round {
            replenish(inners, parent, round, in_main_round);
        }
        let parent = &mut inners[parent as usize];
        quota = weight * parent.fair_quota;
        parent.balance -= quota;
    }
    let inner = &mut inners[index as usize];
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

/// A packet arrived at an idle leaf below `parent`.
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

/// The leaf `id` has emptied or is parked: equations (10), (11), and Q* shrinks through the root's residual, by the `largest` packet
/// among others.
// Not inlined and off the straight path: the loop over plain leaves keeps its registers.
#[cold]
#[inline(never)]
pub(super) fn deactivate(
    leaf: &mut Leaf,
    id: u32,
    (inners, links): (&mut [Inner], &mut [Link]),
    touched: &mut Stack<u32>,
    ceilings: &mut Ceilings,
    largest: i64,
) {
    let (mut weight, mut parent, mut child) = (leaf.weight, leaf.parent, id);
    let mut given_back = mem::take(&mut leaf.balance);
    let mut shrunk = largest + weight;
    loop {
        let inner = &mut inners[parent as usize];
        if parent != ROOT {
            unlink_child(inner, links, child);
        }
        inner.residual += given_back;
        inner.active_weight -= weight;
        inner.active_children -= 1;
        inner.backlogged_children -= 1;
        if parent == ROOT {
            break;
        }
        if inner.backlogged_children > 0 {
            if !mem::replace(&mut inner.touched, true) {
                touched.push(parent);
            }
            break;
        }
        inner.active = false;
        given_back = mem::take(&mut inner.balance) + mem::take(&mut inner.residual);
        (weight, child, parent) = (inner.weight, inner.class, inner.parent);
        let kept = ceilings.keep(child, given_back);
        given_back -= kept;
        shrunk += weight - kept;
    }
    inners[ROOT as usize].residual -= shrunk;
}

fn link_child(inner: &mut Inner, links: &mut [Link], child: u32) {
    let last = mem::replace(&mut inner.last_child, child);
    links[child as usize] = Link { prev: last, next: NIL };
    if last == NIL {
        inner.first_child = child;
    } else {
        links[last as usize].next = child;
    }
}

fn unlink_child(inner: &mut Inner, links: &mut [Link], child: u32) {
    let Link { prev, next } = links[child as usize];
    if prev == NIL {
        inner.first_child = next;
    } else {
        links[prev as usize].next = next;
    }
    if next == NIL {
        inner.last_child = prev;
    } else {
        links[next as usize].prev = prev;
    }
}
