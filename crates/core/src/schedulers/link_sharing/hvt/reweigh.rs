//! Other weights for the same classes, in the middle of everything.
//!
//! The tags of siblings stay if none of their weights changes. Otherwise their units may change, too. Then a tag ahead of
//! the clock stays ahead by as many bytes of the parent, but at most as it may be with its new weight. A tag behind the clock comes up to
//! it: its class loses a packet of its share at most. So all siblings are as if they came into the queue at once, and the
//! bounds hold from then on.

use core::mem::swap;

use super::list::Item;
use super::place::{Place, State};
use super::queues::Queues;
use super::{ERA, Leaf, Member, NIL, Node};

impl Queues {
    /// Returns true if [`Queues::reweigh`] can be done: the same classes are in the same places.
    pub(super) fn fits(&self, with: &Self) -> bool {
        let place = |member: &Member| (member.place.parent(), member.place.is_any(Place::INNER));
        let same = |(mine, theirs): (&Leaf, &Leaf)| {
            place(&mine.member) == place(&theirs.member) && mine.queue.fits(&theirs.queue)
        };
        let alike = |(mine, theirs): (&Node, &Node)| {
            place(&mine.member) == place(&theirs.member) && mine.is_wheel == theirs.is_wheel
        };
        self.leaves.len() == with.leaves.len()
            && self.nodes.len() == with.nodes.len()
            && self.max_packet == with.max_packet
            && self.leaves.iter().zip(with.leaves.iter()).all(same)
            && self.nodes.iter().zip(with.nodes.iter()).all(alike)
    }

    /// Adopts the weights of `with`, which was made for the same classes and never used. Allocates nothing.
    pub(super) fn reweigh(&mut self, with: &mut Self) {
        for (mine, theirs) in self.leaves.iter_mut().zip(with.leaves.iter()) {
            mine.queue.retune(&theirs.queue);
        }
        let leaves = |queues: &Self, at: usize| queues.leaves[at].member;
        let nodes = |queues: &Self, at: usize| queues.nodes[at].member;
        // A class counts no waiting children before it is used: 1 marks those whose children have other tags.
        for at in 0..self.nodes.len() {
            let (mine, theirs) = (&self.sums[at], &with.sums[at]);
            with.nodes[at].waiting = u32::from((mine.bits, mine.weight) != (theirs.bits, theirs.weight));
        }
        for at in 0..self.leaves.len() {
            mark(with, leaves(self, at), leaves(with, at));
        }
        for at in 1..self.nodes.len() {
            mark(with, nodes(self, at), nodes(with, at));
        }
        // Now `with` has what was, except the inverse weights of members.
        swap(&mut self.entries, &mut with.entries);
        swap(&mut self.items, &mut with.items);
        swap(&mut self.groups, &mut with.groups);
        swap(&mut self.reaches, &mut with.reaches);
        for (mine, theirs) in self.nodes.iter_mut().zip(with.nodes.iter_mut()) {
            swap(&mut mine.entries, &mut theirs.entries);
            swap(&mut mine.list, &mut theirs.list);
            // Where nothing changes, children that are gone may count.
            if theirs.waiting > 0 {
                swap(&mut mine.rate, &mut theirs.rate);
            }
        }
        for at in 0..self.nodes.len() {
            if with.nodes[at].waiting > 0 {
                self.sums[at].retune(&with.sums[at]);
            }
        }
        for at in 0..self.leaves.len() {
            if !leaves(self, at).place.is_any(Place::INNER) {
                self.leaves[at].member = self.converted(with, leaves(self, at), leaves(with, at));
            }
        }
        for at in 1..self.nodes.len() {
            self.nodes[at].member = self.converted(with, nodes(self, at), nodes(with, at));
        }
        for at in 0..self.nodes.len() {
            if with.nodes[at].waiting == 0 {
                self.take_queue(with, at);
            } else {
                self.put_all_again(with, at);
            }
        }
    }

    /// Returns `member` with the weight and the group of `with`, if its parent is marked in `was`.
    fn converted(&self, was: &Self, mut member: Member, with: Member) -> Member {
        let at = member.place.parent() as usize;
        if was.nodes[at].waiting == 0 {
            return member;
        }
        let Member { tag, inverse, link, .. } =
            converted(&self.nodes[at], &was.nodes[at], self.max_packet, member, with);
        member.place.set_group(with.place);
        Member { tag, inverse, link, ..member }
    }

    /// Takes the queue that inner class `at` had.
    fn take_queue(&mut self, was: &mut Self, at: usize) {
        let is_wheel = self.nodes[at].is_wheel;
        if !is_wheel {
            self.take_list(was, at, 0);
        }
        let (mine, theirs) = (range(&self.nodes, at, self.entries.len()), range(&was.nodes, at, was.entries.len()));
        for (group, (mine, theirs)) in (1..).zip(mine.zip(theirs)) {
            if is_wheel {
                let (base, entry) = (self.entries[mine].base, was.entries[theirs]);
                swap(&mut self.groups[base as usize], &mut was.groups[entry.base as usize]);
                self.entries[mine] = entry.moved_to(base);
            } else {
                self.take_list(was, at, group);
            }
        }
    }

    /// Takes the list of `group` that inner class `at` had.
    fn take_list(&mut self, was: &Self, at: usize, group: u32) {
        if self.nodes[at].on >> group & 1 == 0 {
            return;
        }
        let mine = Self::entry_mut(&mut self.nodes[at], &mut self.entries, group);
        let mut is_empty = true;
        for Item { tag, child, .. } in Self::entry(&was.nodes[at], &was.entries, group).list(&was.items) {
            mine.put(&mut self.items, is_empty, (tag, child));
            is_empty = false;
        }
    }

    /// Puts each child that was in the queue of `at` into the new one.
    fn put_all_again(&mut self, was: &mut Self, at: usize) {
        let Node { mut on, is_wheel, .. } = self.nodes[at];
        self.nodes[at].on = 0;
        while on != 0 {
            let entry = *Self::entry(&was.nodes[at], &was.entries, on.trailing_zeros());
            on &= on - 1;
            if !is_wheel {
                entry.list(&was.items).for_each(|item| self.put(item.child));
                continue;
            }
            while let Some(first) = was.groups[entry.base as usize].take_any() {
                self.put_list(first);
            }
        }
    }

    fn put_list(&mut self, mut child: u32) {
        while child != NIL {
            let next = self.member(child).link;
            self.put(child);
            child = next;
        }
    }
}

/// Returns `with`, a child of `node`, with the tag of `member`, which it was while the parent was `before`. The clock
/// is the same.
pub(super) fn converted(node: &Node, before: &Node, max_packet: u64, member: Member, with: Member) -> Member {
    let is_queued = member.place.state() == State::Queued;
    let tag = if is_queued { member.tag } else { member.lifted(node, 1 << ERA) };
    let ahead = (tag.wrapping_sub(node.v) as i64).max(0) as u64;
    // As after a largest packet.
    let most = (with.inverse - node.rate) * max_packet;
    let ahead = u128::from(ahead) * u128::from(node.rate) / u128::from(before.rate.max(1));
    let tag = node.v.wrapping_add(ahead.min(most.into()) as u64);
    Member { tag, link: if is_queued { member.link } else { node.era() }, ..with }
}

/// Marks the parent of a member in `with` if its weight changes.
fn mark(with: &mut Queues, mine: Member, theirs: Member) {
    if mine.inverse != theirs.inverse {
        with.nodes[mine.place.parent() as usize].waiting = 1;
    }
}

/// Returns the places of the entries, from group 1 on, of inner class `at`, of `entries` in all.
fn range(nodes: &[Node], at: usize, entries: usize) -> core::ops::Range<usize> {
    let end = nodes.get(at + 1).map_or(entries, |next| next.entries as usize);
    nodes[at].entries as usize..end
}
