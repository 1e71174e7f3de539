//! Other classes in the middle of everything: some come, some go, and the others may have other ids and parents.
//!
//! The new scheduler was built beside. Here it takes the packets and the state of each class that stays, in one pass
//! over the classes. Packets are not touched.
//!
//! An inner class stays if a leaf below it stays below it; its clock goes on. A child *stays in place* if its parent is
//! the same. Its tag stays, as clocks and tags count bytes per weight, whatever the sum of the weights is. A child that
//! comes has the tag of a child that was idle for long. One that goes may count until the clock has reached its tag
//! (`hvt/leaving.rs`).
//!
//! The units of tags, weights of siblings, or the deadlines of a wheel's group may change in a way that earlier choices
//! do not fit. Then the class is *restarted*: all its children are as if they came into its queue at once
//! (`hvt/reweigh.rs`).
//!
//! Trees with latency-critical leaves are refused: that urgent packets sent before the change count within the bounds
//! of the new tree is not proved.

use super::place::{LEAF, Place, State};
use super::queues::Queues;
use super::reweigh::converted;
use super::wheel::Group;
use super::{Hvt, Member, NIL, Node, ROOT};
use crate::contract::{ClassId, DropReason, DropSink, Nanos, Packet};

/// By old class id, the leaf that takes over.
type Survivors<'a> = &'a [Option<ClassId>];

fn survivor(survivors: Survivors<'_>, class: ClassId) -> Option<ClassId> {
    survivors.get(class.index()).copied().flatten()
}

impl Hvt {
    /// Becomes `with`, which was never used, with the packets and the state of the classes that stay. Returns false,
    /// without a change, if that is not possible.
    pub(super) fn change(
        &mut self,
        now: Nanos,
        with: &mut Self,
        survivors: Survivors<'_>,
        drops: &mut dyn DropSink,
    ) -> bool {
        if self.urgent.is_for_any() || with.urgent.is_for_any() || !self.can_become(with, survivors) {
            return false;
        }
        self.now = self.now.max(now);
        self.queues.find_twins(&mut with.queues, survivors);
        if self.alone != NIL {
            self.join();
        }
        if self.last != NIL && !self.queues.stays_on_path(&with.queues, self.last | LEAF, survivors) {
            self.queues.settle(self.last | LEAF, false);
            self.last = NIL;
        }
        self.drop_removed(survivors, drops);
        with.take_over(self, survivors);
        core::mem::swap(self, with);
        true
    }

    /// Returns true if each leaf that stays has one heir, whose queue can take its packets.
    fn can_become(&self, with: &mut Self, survivors: Survivors<'_>) -> bool {
        if self.queues.max_packet != with.queues.max_packet {
            return false;
        }
        let mut can = true;
        // The tag of an unused leaf is 0: 1 marks those that are heirs.
        for (leaf, heir) in self.queues.leaves.iter().zip(survivors).filter_map(|(leaf, heir)| Some((leaf, (*heir)?))) {
            let heir = &mut with.queues.leaves[heir.index()];
            can &= heir.member.tag == 0 && self.slab.is_alike(&leaf.queue, &with.slab, &heir.queue);
            heir.member.tag = 1;
        }
        for heir in survivors.iter().flatten() {
            with.queues.leaves[heir.index()].member.tag = 0;
        }
        can
    }

    /// Drops the packets of leaves that do not stay.
    fn drop_removed(&mut self, survivors: Survivors<'_>, drops: &mut dyn DropSink) {
        let removed = |class: &ClassId| survivor(survivors, *class).is_none();
        for class in (0..self.queues.leaves.len() as u32).map(ClassId).filter(removed) {
            let mut drops =
                |now: Nanos, packet: Packet, _: DropReason| drops.dropped(now, packet, DropReason::ClassRemoved);
            self.queues.leaves[class.index()].queue.purge(&mut self.slab, class, self.now, &mut drops);
        }
    }

    /// Takes the packets and the state of `old`.
    fn take_over(&mut self, old: &mut Self, survivors: Survivors<'_>) {
        self.now = old.now;
        self.slab.take_over(&mut old.slab, |class| survivor(survivors, class));
        for (leaf, heir) in old.queues.leaves.iter_mut().zip(survivors) {
            let Some(heir) = heir else { continue };
            let own = &mut self.queues.leaves[heir.index()].queue;
            self.slab.take_queue(own, &old.slab, &mut leaf.queue);
        }
        self.queues.take_classes(&old.queues, survivors);
        let Self { ceilings, queues, now, .. } = self;
        let heir = |child: u32| {
            let heir = old.queues.heir(child, survivors)?;
            Some((heir, queues.class_of(heir)))
        };
        ceilings.take_over(&old.ceilings, *now, heir);
        ceilings.for_each_waiting(|child| queues.member_mut(child).place.set(Place::BLOCKED));
        if old.last != NIL
            && let Some(last) = survivor(survivors, ClassId(old.last))
        {
            self.last = last.0;
        }
        self.queues.take_children(&old.queues, survivors, self.last);
        self.let_all_rise();
        self.is_anew = self.last == NIL && self.queues.nodes[ROOT as usize].on == 0;
        if self.is_anew {
            self.queues.start_anew_now(ROOT);
        }
        self.choose_path();
    }

    /// Puts into the queues what has packets and is not there: leaves with another parent, and classes whose ceiling is
    /// gone.
    fn let_all_rise(&mut self) {
        let leaves = (0..self.queues.leaves.len() as u32).map(|id| id | LEAF);
        for child in leaves.chain((1..self.queues.nodes.len() as u32).rev()) {
            let place = self.queues.member(child).place;
            let ready = if child & LEAF == 0 {
                self.queues.nodes[child as usize].on != 0
            } else {
                !place.is_any(Place::INNER) && !self.queues.leaves[(child & !LEAF) as usize].queue.is_empty()
            };
            let waits = child & LEAF == 0 && self.queues.nodes[child as usize].waiting > 0;
            match place.state() {
                State::Off if ready => self.queues.rise(child),
                State::Off if waits => self.queues.wait(child),
                State::Waiting if ready && !place.is_any(Place::BLOCKED) => self.queues.rise(child),
                _ => {}
            }
        }
    }
}

/// The classes before and after the change.
impl Queues {
    /// Returns the class that `child` is after the change, as its parent knows it.
    fn heir(&self, child: u32, survivors: Survivors<'_>) -> Option<u32> {
        if child & LEAF != 0 {
            return survivor(survivors, ClassId(child & !LEAF)).map(|class| class.0 | LEAF);
        }
        Some(self.sums[child as usize].twin).filter(|&twin| twin != NIL)
    }

    /// Returns the class that `child`, which is not the link, is after the change in `new`, if its parent is the same.
    fn heir_in_place(&self, new: &Self, child: u32, survivors: Survivors<'_>) -> Option<u32> {
        let parent = self.member(child).place.parent();
        let heir = self.heir(child, survivors)?;
        (new.member(heir).place.parent() == self.sums[parent as usize].twin).then_some(heir)
    }

    fn class_of(&self, child: u32) -> ClassId {
        if child & LEAF != 0 { ClassId(child & !LEAF) } else { self.sums[child as usize].class }
    }

    /// Finds the inner classes that stay. The first leaf that stays decides.
    fn find_twins(&mut self, new: &mut Self, survivors: Survivors<'_>) {
        for sum in self.sums.iter_mut().chain(new.sums.iter_mut()) {
            sum.twin = NIL;
        }
        (self.sums[ROOT as usize].twin, new.sums[ROOT as usize].twin) = (ROOT, ROOT);
        for (leaf, heir) in self.leaves.iter().zip(survivors) {
            let Some(heir) = heir else { continue };
            let (before, after) = (leaf.member.place.parent(), new.leaves[heir.index()].member.place.parent());
            pair((&mut self.sums[before as usize].twin, &mut new.sums[after as usize].twin), before, after);
        }
        // Children have larger numbers than their parents.
        for node in (1..new.nodes.len()).rev() {
            let twin = new.sums[node].twin;
            if twin != NIL {
                let before = self.nodes[twin as usize].member.place.parent();
                let after = new.nodes[node].member.place.parent();
                pair((&mut self.sums[before as usize].twin, &mut new.sums[after as usize].twin), before, after);
            }
        }
    }

    /// Returns true if `child` and all classes above it stay in place.
    fn stays_on_path(&self, new: &Self, mut child: u32, survivors: Survivors<'_>) -> bool {
        while self.heir_in_place(new, child, survivors).is_some() {
            child = self.member(child).place.parent();
            if child == ROOT {
                return true;
            }
        }
        false
    }

    /// Returns all children of inner classes.
    fn all_children(&self) -> impl Iterator<Item = (u32, Member)> {
        let leaves = (0..).zip(self.leaves.iter()).filter(|(_, leaf)| !leaf.member.place.is_any(Place::INNER));
        let nodes = (0..).zip(self.nodes.iter()).skip(1).map(|(at, node)| (at, node.member));
        leaves.map(|(id, leaf)| (id | LEAF, leaf.member)).chain(nodes)
    }

    /// Takes the clocks and the tags of `old`.
    fn take_classes(&mut self, old: &Self, survivors: Survivors<'_>) {
        // A class counts no waiting children yet: 1 marks those that are restarted.
        for at in 0..self.nodes.len() {
            let twin = self.sums[at].twin;
            if twin == NIL {
                continue;
            }
            let from = &old.nodes[twin as usize];
            (self.nodes[at].v, self.nodes[at].high) = (from.v, from.high);
            self.nodes[at].waiting = u32::from(self.sums[at].bits != old.sums[twin as usize].bits);
        }
        for (child, member) in old.all_children() {
            if let Some(heir) = old.heir_in_place(self, child, survivors) {
                let to = *self.member(heir);
                let restarts = member.inverse != to.inverse || !self.keeps_deadlines(old, member, to);
                self.nodes[to.place.parent() as usize].waiting |= u32::from(restarts);
            }
        }
        for at in 0..self.leaves.len() as u32 {
            if !self.leaves[at as usize].member.place.is_any(Place::INNER) {
                self.come(at | LEAF);
            }
        }
        (1..self.nodes.len() as u32).for_each(|node| self.come(node));
        for at in 0..self.nodes.len() {
            let twin = self.sums[at].twin;
            if twin != NIL && self.nodes[at].waiting == 0 {
                self.sums[at].inherit(&old.sums[twin as usize], &self.nodes[at]);
            }
        }
        for (child, member) in old.all_children() {
            self.take_member(old, survivors, (child, member));
        }
        for at in 0..self.nodes.len() {
            let (restarts, twin) = (core::mem::take(&mut self.nodes[at].waiting) > 0, self.sums[at].twin);
            self.sums[at].is_restarted = restarts;
            if restarts || twin == NIL {
                continue;
            }
            self.set_rate(at as u32);
            #[cfg(feature = "invariants")]
            (self.sums[at].least = old.sums[twin as usize].least.min(self.nodes[at].rate));
        }
    }

    /// Returns true if a child that had the deadlines of `from` has the same ones, or later ones, with `to`.
    fn keeps_deadlines(&self, old: &Self, from: Member, to: Member) -> bool {
        let group = |queues: &'_ Self, member: Member| {
            let node = &queues.nodes[member.place.parent() as usize];
            node.is_wheel.then(|| Self::entry(node, &queues.entries, member.place.group()).base as usize)
        };
        let shape = |group: &Group| (group.shift, group.distance);
        match (group(old, from), group(self, to)) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(from), Some(to)) => {
                let (from, to) = (shape(&old.groups[from]), shape(&self.groups[to]));
                from.0 == to.0 && from.1 <= to.1
            }
        }
    }

    /// Gives a child the tag of one that was idle for long.
    pub(super) fn come(&mut self, child: u32) {
        let Node { v, high, .. } = self.nodes[self.member(child).place.parent() as usize];
        let era = Node { v, high, ..Node::EMPTY }.era();
        let member = self.member_mut(child);
        (member.tag, member.link) = (v, era);
    }

    /// Gives the heir of a child the tag and the state of it, or counts a child that has left.
    fn take_member(&mut self, old: &Self, survivors: Survivors<'_>, (child, member): (u32, Member)) {
        let parent = member.place.parent();
        let (before, twin) = (&old.nodes[parent as usize], old.sums[parent as usize].twin);
        if let Some(heir) = old.heir_in_place(self, child, survivors) {
            let node = &self.nodes[twin as usize];
            let mut to = *self.member(heir);
            if node.waiting > 0 {
                to = converted(node, before, self.max_packet, member, to);
            } else {
                (to.tag, to.link) = (member.tag, member.link);
            }
            to.place.set_state(member.place.state());
            *self.member_mut(heir) = to;
            return;
        }
        if twin == NIL || self.nodes[twin as usize].waiting > 0 {
            return;
        }
        let is_queued = member.place.state() == State::Queued;
        let tag = if is_queued { member.tag } else { member.lifted(before, 2 * member.inverse * self.max_packet) };
        let ahead = tag.wrapping_sub(before.v) as i64;
        if ahead > 0 {
            self.sums[twin as usize].leave(before, member.inverse, ahead as u64);
        }
    }

    /// Puts the children that stay in place into the queues, in the order of `old`. `last` is the leaf of the packet in
    /// transmission, if that was its last; all above it stay in place.
    fn take_children(&mut self, old: &Self, survivors: Survivors<'_>, last: u32) {
        let mut held = if last == NIL { NIL } else { last | LEAF };
        for at in 0..self.leaves.len() {
            let place = self.leaves[at].member.place;
            if place.state() == State::Waiting && !place.is_any(Place::INNER) {
                self.nodes[place.parent() as usize].waiting += 1;
            }
        }
        for node in (0..self.nodes.len() as u32).rev() {
            let twin = self.sums[node as usize].twin;
            if twin != NIL {
                // Of a wheel that goes on, a child stays in its slot, even if that is before its tag.
                let stays = !self.sums[node as usize].is_restarted
                    && [old.nodes[twin as usize], self.nodes[node as usize]].iter().all(|node| node.is_wheel);
                old.for_each_queued(twin, |child, start| {
                    let Some(heir) = old.heir_in_place(self, child, survivors) else { return };
                    let place = self.member(heir).place;
                    if place.state() == State::Queued && stays {
                        self.member_mut(heir).link = NIL;
                        self.put_in_wheel(heir, start, place);
                    } else if place.state() == State::Queued {
                        self.put(heir);
                    }
                });
            }
            if node != ROOT {
                let is_held = held != NIL && {
                    let place = self.member(held).place;
                    place.parent() == node && place.state() == State::Held
                };
                self.take_standing(node, is_held);
                if is_held {
                    held = node;
                }
            }
        }
    }

    /// Decides on the state of an inner class whose children have theirs. `is_held`: one of them is held.
    fn take_standing(&mut self, node: u32, is_held: bool) {
        let Node { on, waiting, member, .. } = self.nodes[node as usize];
        let was = member.place.state();
        let is = match was {
            State::Off => State::Off,
            State::Queued if on != 0 => State::Queued,
            State::Waiting if on != 0 || waiting > 0 => State::Waiting,
            _ if is_held => State::Held,
            _ if waiting > 0 => State::Waiting,
            _ => State::Off,
        };
        if is != was {
            if was == State::Queued && is != State::Held {
                self.start_anew_now(node);
            }
            self.leave(node, is);
        }
        if is == State::Waiting {
            self.nodes[member.place.parent() as usize].waiting += 1;
        }
    }

    /// Calls `visit` with each child in the queue of `node`, in the order in which children of one group leave, and
    /// with the start of its slot or its tag.
    fn for_each_queued(&self, node: u32, mut visit: impl FnMut(u32, u64)) {
        let Node { mut on, is_wheel, .. } = self.nodes[node as usize];
        while on != 0 {
            let entry = *Self::entry(&self.nodes[node as usize], &self.entries, on.trailing_zeros());
            on &= on - 1;
            if !is_wheel {
                entry.list(&self.items).for_each(|item| visit(item.child, item.tag));
                continue;
            }
            for (start, mut child) in self.groups[entry.base as usize].firsts_from(entry.start) {
                while child != NIL {
                    visit(child, start);
                    child = self.member(child).link;
                }
            }
        }
    }
}

/// Notes that `before` and `after` are the same inner class, if both are without a twin, and not the link.
fn pair(twins: (&mut u32, &mut u32), before: u32, after: u32) {
    if before != ROOT && after != ROOT && (*twins.0, *twins.1) == (NIL, NIL) {
        (*twins.0, *twins.1) = (after, before);
    }
}
