//! The queues of inner classes: who is next, and where those go that have sent.

use alloc::boxed::Box;

use super::lateness::Lateness;
use super::leaving::{Leaving, Sum};
use super::list::{Entry, Item};
use super::place::{LEAF, Place, State};
use super::scale::{Scale, parents};
use super::wheel::{self, Group};
use super::{ERA, Leaf, Member, NIL, Node, ROOT, SCANNED, urgent};
use crate::bases::batches::LOOK_AHEAD_FROM;
use crate::contract::{ClassId, Hierarchy, OutOfMemory};
use crate::parts::memory::{Stack, bytes_of, filled, pause};
use crate::parts::prefetch::prefetch;
use crate::parts::virtual_time;
use crate::queue::PacketSlab;

/// Starts and deadlines of classes in queues are less than this from the clock.
const NOT_YET: i64 = 1 << 62;

/// All classes and their queues.
#[derive(Debug)]
pub(super) struct Queues {
    /// By class.
    pub(super) leaves: Stack<Leaf>,
    pub(super) nodes: Stack<Node>,
    pub(super) entries: Stack<Entry>,
    /// The lists of all groups that are not of wheels.
    pub(super) items: Stack<Item>,
    /// The groups of wheels.
    pub(super) groups: Stack<Group>,
    /// By inner class, 2 to this power is more than a child's tag is ahead.
    pub(super) reaches: Box<[u8]>,
    /// By inner class.
    pub(super) sums: Stack<Sum>,
    pub(super) leaving: Leaving,
    /// The first free place for a child of a list that is not one of a list; [`NIL`] if none.
    pub(super) free_item: u32,
    pub(super) max_packet: u64,
    /// True if the tree is large enough for prefetching.
    pub(super) looks_ahead: bool,
    /// True if a leaf is latency-critical.
    is_critical: bool,
}

impl Queues {
    /// Makes all classes of `tree`, with their queues of packets in `slab`, and room for as many more leaves as `room`.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(super) fn new(
        tree: &Hierarchy,
        slab: &mut PacketSlab,
        lateness: &Lateness,
        room: usize,
    ) -> Result<Self, OutOfMemory> {
        let inner = tree.len() - tree.leaves().len();
        let max_packet = u64::from(tree.link().max_packet);
        // How much room they take.
        let (mut entries, mut items, mut groups) = (0, 0, 0);
        for class in parents(tree) {
            let scale = Scale::new(tree, class)?;
            let count = scale.groups(max_packet, 0).most().len();
            if scale.inverse.len() > SCANNED {
                entries += count;
                groups += count;
            } else {
                entries += count.saturating_sub(1);
                items += scale.inverse.len();
            }
        }
        let mut queues = Self {
            leaves: Stack::with_room(tree.len() + room)?,
            nodes: Stack::with_room(inner)?,
            entries: Stack::with_room(entries)?,
            items: Stack::with_room(items + room)?,
            groups: Stack::with_room(groups)?,
            reaches: filled(inner, 0)?,
            sums: Stack::with_room(inner)?,
            leaving: Leaving::with_room(inner)?,
            free_item: NIL,
            max_packet,
            looks_ahead: tree.len() >= LOOK_AHEAD_FROM,
            is_critical: urgent::leaves(tree).next().is_some(),
        };
        // Urgent packets may take a tag ahead by their bursts, too: this counts where no bound is known.
        let bursts: u128 = urgent::leaves(tree).map(|leaf| u128::from(urgent::burst(tree, leaf))).sum();
        let more = (1 + 8 * bursts / u128::from(max_packet.max(1))).ilog2();
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            pause(class.index());
            // Until an inner class has its node, its number is the link.
            let link = queues.nodes.len() as u32;
            let place = Place::new(0, 0, if tree.is_leaf(class) { 0 } else { Place::INNER });
            let member = Member { place, link, ..Member::NONE };
            queues.leaves.push(Leaf { queue: slab.queue_for(tree, class), member });
            if !tree.is_leaf(class) {
                queues.nodes.push(Node::EMPTY);
                queues.sums.push(Sum::of_class(class));
            }
        }
        for (number, class) in (0..).zip(parents(tree)) {
            let distance = queues.add_children(tree, class, (number, lateness.room(class)))?;
            let more = if lateness.late(class).is_none() { more } else { 0 };
            let reach = (distance.max(1).ilog2() + 2 + more).max(lateness.reach(class).max(1).ilog2() + 1);
            queues.reaches[number as usize] = reach.min(ERA + 2) as u8;
        }
        Ok(queues)
    }

    /// Sets the rate of an inner class whose children have changed.
    pub(super) fn set_rate(&mut self, node: u32) {
        let sum = &mut self.sums[node as usize];
        self.leaving.note(node, sum);
        self.nodes[node as usize].rate = sum.rate();
    }

    /// Starts a class anew, during a change: no child that is gone counts any more, if that is beyond its tag.
    pub(super) fn start_anew_now(&mut self, node: u32) {
        self.start_anew(node);
        self.sums[node as usize].forget(&self.nodes[node as usize]);
        self.set_rate(node);
    }

    /// Looks at one of the classes with children that are gone ([`Leaving::let_go`]).
    pub(super) fn let_go(&mut self) {
        self.leaving.let_go(&mut self.nodes, &mut self.sums);
    }

    /// Makes the members, and the queue, of the children of `class`. Returns their largest distance.
    fn add_children(
        &mut self,
        tree: &Hierarchy,
        class: ClassId,
        (number, late): (u32, u64),
    ) -> Result<u64, OutOfMemory> {
        let (scale, largest) = (Scale::new(tree, class)?, self.max_packet);
        let (children, groups) = (tree.children(class), scale.groups(largest, late));
        self.sums[number as usize].set(&scale);
        self.sums[number as usize].groups = groups.most().len() as u32;
        let node = &mut self.nodes[number as usize];
        (node.rate, node.entries) = (scale.rate, self.entries.len() as u32);
        node.is_wheel = children.len() > SCANNED;
        for (index, &most) in groups.most().iter().enumerate() {
            if node.is_wheel {
                let group = Group::new(most, late)?;
                self.entries.push(Entry::of_wheel(self.groups.len() as u32, group.distance));
                self.groups.push(group);
            } else {
                let of_weight = scale.inverse.iter().filter(|&inverse| inverse * largest == most).count();
                let list = Entry::of_list(&mut self.items, of_weight, most);
                if index == 0 {
                    node.list = list;
                } else {
                    self.entries.push(list);
                }
            }
        }
        let first = u32::from(node.is_wheel);
        for (&child, &inverse) in children.iter().zip(&scale.inverse) {
            let critical = if urgent::is_critical(tree, child) { Place::CRITICAL } else { 0 };
            let place = Place::new(number, first + groups.group_of(inverse * largest), critical);
            *self.member_mut(self.child_of(child)) = Member { tag: 0, inverse, place, link: 0 };
        }
        Ok(groups.most().iter().copied().max().unwrap_or(0))
    }

    /// Bytes that those of `tree` take, including construction.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        let inner = tree.len() - tree.leaves().len();
        let mut most = 0;
        let mut queues = 0;
        for children in parents(tree).map(|class| tree.children(class).len()) {
            most = most.max(children);
            queues += if children > SCANNED {
                bytes_of::<Entry>(wheel::most_groups(children)) + wheel::memory(children)
            } else {
                bytes_of::<(Entry, Item)>(children)
            };
        }
        bytes_of::<Leaf>(tree.len())
            + bytes_of::<Node>(inner)
            + queues
            + bytes_of::<u8>(inner)
            + bytes_of::<(Sum, u32)>(inner)
            + bytes_of::<u64>(most)
            + virtual_time::memory_of_weights(most)
    }

    /// Returns `class` as its parent knows it.
    pub(super) fn child_of(&self, class: ClassId) -> u32 {
        let member = &self.leaves[class.index()].member;
        if member.place.is_any(Place::INNER) { member.link } else { class.0 | LEAF }
    }

    /// Empties all queues. The packets are gone.
    pub(super) fn reset(&mut self) {
        for leaf in self.leaves.iter_mut().filter(|leaf| !leaf.member.place.is_any(Place::INNER)) {
            leaf.member.reset();
        }
        for node in self.nodes.iter_mut() {
            let mut on = if node.is_wheel { 0 } else { node.on };
            while on != 0 {
                Self::entry_mut(node, &mut self.entries, on.trailing_zeros()).clear(&mut self.items);
                on &= on - 1;
            }
            (node.v, node.on, node.high, node.waiting) = (0, 0, 0, 0);
            node.member.reset();
            node.member.place.clear(Place::OWES);
        }
        self.groups.iter_mut().for_each(|group| group.full = 0);
        // All classes start anew.
        self.leaving.let_all_go(&mut self.nodes, &mut self.sums);
    }
}

/// The queue of one class.
impl Queues {
    #[inline(always)]
    pub(super) fn member(&self, child: u32) -> &Member {
        if child & LEAF != 0 {
            &self.leaves[(child & !LEAF) as usize].member
        } else {
            &self.nodes[child as usize].member
        }
    }

    #[inline(always)]
    pub(super) fn member_mut(&mut self, child: u32) -> &mut Member {
        if child & LEAF != 0 {
            &mut self.leaves[(child & !LEAF) as usize].member
        } else {
            &mut self.nodes[child as usize].member
        }
    }

    /// Returns the entry of `group` of `node`.
    #[inline(always)]
    pub(super) fn entry<'a>(node: &'a Node, entries: &'a [Entry], group: u32) -> &'a Entry {
        if group == 0 { &node.list } else { &entries[(node.entries + group - 1) as usize] }
    }

    #[inline(always)]
    pub(super) fn entry_mut<'a>(node: &'a mut Node, entries: &'a mut [Entry], group: u32) -> &'a mut Entry {
        if group == 0 { &mut node.list } else { &mut entries[(node.entries + group - 1) as usize] }
    }

    /// Puts `child` into the queue of its parent, by its tag.
    #[inline(never)]
    pub(super) fn put(&mut self, child: u32) {
        let member = self.member_mut(child);
        member.link = NIL;
        let Member { tag, place, .. } = *member;
        self.put_at(child, tag, place);
    }

    /// Puts `child`, whose link is [`NIL`], into the queue of its parent, by its tag `tag` and its place `place`.
    #[inline(always)]
    fn put_at(&mut self, child: u32, tag: u64, place: Place) {
        let node = &mut self.nodes[place.parent() as usize];
        if node.is_wheel {
            return self.put_in_wheel(child, tag, place);
        }
        let bit = 1 << place.group();
        let was_on = node.on & bit != 0;
        node.on |= bit;
        let entry = Self::entry_mut(node, &mut self.entries, place.group());
        entry.put(&mut self.items, !was_on, (tag, child));
    }

    /// Puts `child`, whose link is [`NIL`], into the wheel of its parent.
    #[inline(never)]
    pub(super) fn put_in_wheel(&mut self, child: u32, tag: u64, place: Place) {
        let Self { nodes, entries, groups, .. } = self;
        let node = &mut nodes[place.parent() as usize];
        node.on |= 1 << place.group();
        let entry = &mut entries[(node.entries + place.group() - 1) as usize];
        let group = &mut groups[entry.base as usize];
        if let Some(last) = wheel::append(group, entry, (child, tag, node.v)) {
            self.member_mut(last).link = child;
        }
    }

    /// Returns the group of `node` that is eligible and has the earliest deadline. The clock moves to the first start if none is
    /// eligible.
    #[inline(always)]
    fn choose(node: &mut Node, entries: &[Entry]) -> Option<u32> {
        let (v, mut on) = (node.v, node.on);
        if on == 0 {
            return None;
        }
        let mut first = on.trailing_zeros();
        let entry = Self::entry(node, entries, first);
        let ahead = |entry: &Entry| entry.start.wrapping_sub(v) as i64;
        let mut least = ahead(entry);
        on &= on - 1;
        if on != 0 {
            // The deadline if it is eligible, and behind all these the start, both counted from the clock. The
            // distances of groups ascend, so that of equal starts the first one has the earliest deadline.
            let key = |entry: &Entry| {
                let ahead = ahead(entry);
                ahead + if ahead > 0 { NOT_YET } else { entry.distance as i64 }
            };
            let mut best = key(entry);
            while on != 0 {
                let at = on.trailing_zeros();
                on &= on - 1;
                // Only the first may be group 0.
                let key = key(&entries[(node.entries + at - 1) as usize]);
                if key < best {
                    (best, first) = (key, at);
                }
            }
            least = best - NOT_YET;
        }
        node.reach(least);
        Some(first)
    }

    /// Returns the next child of `at`. It leaves a wheel, and stays the first of a list.
    #[inline(always)]
    pub(super) fn pick(&mut self, at: u32) -> Option<u32> {
        let node = &mut self.nodes[at as usize];
        if node.on == 1 {
            node.reach(node.list.start.wrapping_sub(node.v) as i64);
            return Some(node.list.first);
        }
        let group = Self::choose(node, &self.entries)?;
        Some(if node.is_wheel {
            self.pick_from_wheel(at, group)
        } else {
            Self::entry(node, &self.entries, group).first
        })
    }

    /// Returns the leaf that is next in a tree without ceilings and latency-critical leaves. The clock of a class that
    /// has only its first list is moved when it is charged.
    #[inline(always)]
    pub(super) fn next_leaf(&mut self) -> Option<u32> {
        let mut at = ROOT;
        loop {
            let group;
            (at, group) = Self::descend(&mut self.nodes, &self.entries, at);
            if at & LEAF == 0 {
                at = self.pick_from_wheel(at, group?);
            }
            if at & LEAF != 0 {
                return Some(at & !LEAF);
            }
        }
    }

    /// Descends from `at` through lists. Returns the leaf that it reaches, as a child; or the class that has a wheel,
    /// with the group that is next in it; or the class that has no child in its queue.
    #[inline(always)]
    pub(super) fn descend(nodes: &mut [Node], entries: &[Entry], mut at: u32) -> (u32, Option<u32>) {
        while at & LEAF == 0 {
            let node = &mut nodes[at as usize];
            if node.on == 1 {
                at = node.list.first;
                continue;
            }
            let group = Self::choose(node, entries);
            let Some(list) = group.filter(|_| !node.is_wheel) else { return (at, group) };
            at = Self::entry(node, entries, list).first;
        }
        (at, None)
    }

    /// Removes and returns the first child of the group `index` of the wheel of `at`, which is next. Returns `at` if
    /// the child's tag was beyond the ring or has grown: it goes back, and another one may be next.
    #[inline(never)]
    fn pick_from_wheel(&mut self, at: u32, index: u32) -> u32 {
        let Self { leaves, nodes, entries, groups, .. } = self;
        let entry = &mut entries[(nodes[at as usize].entries + index - 1) as usize];
        let group = &mut groups[entry.base as usize];
        let (child, end) = (wheel::first(group, entry), entry.start.wrapping_add(group.width()));
        let member = if child & LEAF != 0 {
            &mut leaves[(child & !LEAF) as usize].member
        } else {
            &mut nodes[child as usize].member
        };
        let (tag, place, link) = (member.tag, member.place, core::mem::replace(&mut member.link, NIL));
        if self.looks_ahead && link & LEAF != 0 {
            prefetch(leaves, (link & !LEAF) as usize);
        }
        if !wheel::take_first(group, entry, link) {
            nodes[at as usize].on &= !(1 << index);
        }
        if (tag.wrapping_sub(end) as i64) < 0 {
            return child;
        }
        self.put_in_wheel(child, tag, place);
        at
    }

    /// Puts a picked child, whose tag has grown, into its new place.
    #[inline(always)]
    fn put_back(&mut self, child: u32, tag: u64, place: Place) {
        let node = &mut self.nodes[place.parent() as usize];
        if node.is_wheel {
            return self.put_in_wheel(child, tag, place);
        }
        Self::entry_mut(node, &mut self.entries, place.group()).rotate(&mut self.items, tag);
    }

    /// Takes a picked child out of a list, if it is in one.
    pub(super) fn take_out(&mut self, place: Place) {
        let node = &mut self.nodes[place.parent() as usize];
        if node.is_wheel {
            return;
        }
        if !Self::entry_mut(node, &mut self.entries, place.group()).take_first(&mut self.items) {
            node.on &= !(1 << place.group());
        }
    }
}

/// Classes that become backlogged or idle, or send.
impl Queues {
    /// Notes that `child` is not in the queue.
    #[inline]
    pub(super) fn leave(&mut self, child: u32, state: State) {
        let era = self.nodes[self.member(child).place.parent() as usize].era();
        let member = self.member_mut(child);
        member.place.set_state(state);
        member.link = era;
    }

    /// Notes that `child` is backlogged and not in the queue.
    pub(super) fn leave_waiting(&mut self, child: u32) {
        self.leave(child, State::Waiting);
        let parent = self.member(child).place.parent();
        self.nodes[parent as usize].waiting += 1;
    }

    /// Moves the clock of a class without a child in its queue beyond the tags of its children.
    pub(super) fn start_anew(&mut self, node: u32) {
        self.nodes[node as usize].advance(1 << self.reaches[node as usize]);
    }

    /// Called when `child` has something to send and is not in the queue. It and the classes above it come into their queues.
    #[inline]
    pub(super) fn rise(&mut self, mut child: u32) {
        loop {
            let member = *self.member(child);
            let (state, parent) = (member.place.state(), member.place.parent());
            if member.place.is_any(Place::BLOCKED) {
                return self.wait(child);
            }
            let node = &mut self.nodes[parent as usize];
            let was_ready = node.on != 0;
            if state == State::Waiting {
                node.waiting -= 1;
            }
            // Of latency-critical leaves, packets that were sent ahead are in it.
            let most = if self.is_critical { 1 << ERA } else { 2 * member.inverse * self.max_packet };
            let tag = if state == State::Held { member.tag } else { member.lifted(node, most) };
            let place = member.place;
            let member = self.member_mut(child);
            (member.tag, member.link) = (tag, NIL);
            member.place.set_state(State::Queued);
            self.put_at(child, tag, place);
            if parent == ROOT || was_ready {
                return;
            }
            child = parent;
        }
    }

    /// Called when `child` is backlogged and blocked: classes above it that were idle wait for it.
    #[cold]
    pub(super) fn wait(&mut self, mut child: u32) {
        loop {
            let place = self.member(child).place;
            if !matches!(place.state(), State::Off | State::Held) {
                return;
            }
            self.leave_waiting(child);
            // Held classes above it are settled when the packet in transmission has left.
            if place.parent() == ROOT || place.state() == State::Held {
                return;
            }
            child = place.parent();
        }
    }

    /// Ends the transmission of the last packet of `leaf`: the leaf, and the classes above it that have nothing else, are idle
    /// if no packet has come meanwhile. `is_plain`: no class has a ceiling.
    #[inline(always)]
    pub(super) fn settle(&mut self, leaf: u32, is_plain: bool) {
        let place = self.member(leaf).place;
        if place.state() == State::Held {
            // Without urgent packets no clock has moved since.
            if is_plain {
                self.member_mut(leaf).place.set_state(State::Off);
            } else {
                self.leave(leaf, State::Off);
            }
        }
        let mut at = place.parent();
        loop {
            let Node { on, waiting, member, .. } = self.nodes[at as usize];
            if at == ROOT {
                if on == 0 {
                    self.start_anew(ROOT);
                }
                return;
            }
            // Otherwise it has got packets meanwhile. Those above it have not if it is blocked.
            let state = member.place.state();
            if is_plain && state == State::Queued {
                return;
            }
            if state == State::Held {
                self.start_anew(at);
                if is_plain {
                    self.nodes[at as usize].member.place.set_state(State::Off);
                } else if waiting > 0 {
                    self.leave_waiting(at);
                } else {
                    self.leave(at, State::Off);
                }
            }
            at = member.place.parent();
        }
    }

    /// Charges `bytes` to a picked leaf, and to the classes above it, as [`Queues::charge`] does, where no class has a ceiling.
    #[inline(always)]
    pub(super) fn charge_plain(&mut self, leaf: u32, (mut tag, mut place): (u64, Place), bytes: u64, ready: bool) {
        let mut child = leaf | LEAF;
        if !ready {
            let Some(above) = self.charge_held(child, place, bytes) else { return };
            (child, tag, place) = above;
        }
        loop {
            let Self { nodes, entries, items, .. } = &mut *self;
            let below = Self::charge_lists(nodes, entries, items, (child, tag, place), bytes);
            let Some(below) = below else { return };
            (child, tag, place) = below;
            let parent = place.parent();
            let node = &mut self.nodes[parent as usize];
            node.advance(bytes * node.rate);
            self.put_in_wheel(child, tag, place);
            if parent == ROOT {
                return;
            }
            let node = &mut self.nodes[parent as usize];
            (child, tag, place) = (parent, node.charge(bytes), node.member.place);
        }
    }

    /// Charges `bytes` to the parents of `child` and of the classes above it, up to the link or to a wheel. Returns the
    /// child of the wheel, with its tag, in which the bytes are counted, and its place.
    #[inline(always)]
    pub(super) fn charge_lists(
        nodes: &mut [Node],
        entries: &mut [Entry],
        items: &mut [Item],
        (mut child, mut tag, mut place): (u32, u64, Place),
        bytes: u64,
    ) -> Option<(u32, u64, Place)> {
        loop {
            if place.group() == 0 {
                loop {
                    child = place.parent();
                    let node = &mut nodes[child as usize];
                    node.serve_first(bytes);
                    node.list.rotate(items, tag);
                    place = node.member.place;
                    // The loop need not ask for the link, which is in no group 0.
                    if place.group() != 0 {
                        break;
                    }
                    tag = node.charge(bytes);
                }
            } else {
                let parent = place.parent();
                let node = &mut nodes[parent as usize];
                if node.is_wheel {
                    return Some((child, tag, place));
                }
                node.advance(bytes * node.rate);
                Self::entry_mut(node, entries, place.group()).rotate(items, tag);
                (child, place) = (parent, node.member.place);
            }
            if child == ROOT {
                return None;
            }
            tag = nodes[child as usize].charge(bytes);
        }
    }

    /// Charges `bytes` to the parents of `child` and of the classes above it that have nothing else: all these are held. Returns
    /// the first that has, with its tag, in which the bytes are counted, and its place.
    #[inline(never)]
    fn charge_held(&mut self, mut child: u32, mut place: Place, bytes: u64) -> Option<(u32, u64, Place)> {
        loop {
            let parent = place.parent();
            let node = &mut self.nodes[parent as usize];
            if place.group() == 0 {
                node.serve_first(bytes);
            } else {
                node.advance(bytes * node.rate);
            }
            if !node.is_wheel && !Self::entry_mut(node, &mut self.entries, place.group()).take_first(&mut self.items) {
                node.on &= !(1 << place.group());
            }
            let (era, is_on, above) = (node.era(), node.on != 0, node.member.place);
            let tag = if parent == ROOT { 0 } else { node.charge(bytes) };
            let member = self.member_mut(child);
            member.place.set_state(State::Held);
            member.link = era;
            if parent == ROOT {
                return None;
            }
            if is_on {
                return Some((parent, tag, above));
            }
            (child, place) = (parent, above);
        }
    }

    /// Charges `bytes` to a picked leaf, and to the classes above it. Each goes back into its queue, or waits, or is held.
    /// `tag` and `place` are those of the leaf, in which the bytes are counted. `ready`: the leaf has another packet.
    #[inline(never)]
    pub(super) fn charge(&mut self, leaf: u32, (mut tag, mut place): (u64, Place), bytes: u64, mut ready: bool) {
        let (mut child, mut held) = (leaf | LEAF, !ready);
        loop {
            let parent = place.parent();
            let node = &mut self.nodes[parent as usize];
            node.advance(bytes * node.rate);
            if ready && !place.is_any(Place::BLOCKED) {
                self.put_back(child, tag, place);
            } else {
                held &= !ready;
                self.stay_out(child, ready, held);
            }
            if parent == ROOT {
                return;
            }
            let node = &mut self.nodes[parent as usize];
            (child, tag, place) = (parent, node.charge(bytes), node.member.place);
            ready = node.on != 0;
            held &= !ready;
        }
    }

    /// Gives `child` and the classes above it, none of which has anything else, the tags and states of classes in queues, but
    /// does not put them there.
    #[inline(always)]
    pub(super) fn lift(&mut self, mut child: u32) {
        loop {
            let member = *self.member(child);
            let parent = member.place.parent();
            let most = 2 * member.inverse * self.max_packet;
            let was_held = member.place.state() == State::Held;
            let tag = if was_held { member.tag } else { member.lifted(&self.nodes[parent as usize], most) };
            let member = self.member_mut(child);
            member.tag = tag;
            member.place.set_state(State::Queued);
            if parent == ROOT {
                return;
            }
            child = parent;
        }
    }

    /// Ends the transmission of the last packet of `leaf`, as [`Queues::settle`] does, where another leaf was lifted.
    pub(super) fn settle_beside(&mut self, leaf: u32) {
        self.leave(leaf, State::Off);
        let mut at = self.member(leaf).place.parent();
        while at != ROOT && self.nodes[at as usize].member.place.state() == State::Held {
            self.start_anew(at);
            self.leave(at, State::Off);
            at = self.nodes[at as usize].member.place.parent();
        }
    }

    /// Charges `bytes` to `child` and to the classes above it, which were lifted. They are held.
    #[inline(always)]
    pub(super) fn charge_alone(&mut self, mut child: u32, bytes: u64) {
        loop {
            let Member { tag, inverse, place, .. } = *self.member(child);
            let parent = place.parent();
            let node = &mut self.nodes[parent as usize];
            node.reach(tag.wrapping_sub(node.v) as i64);
            node.advance(bytes * node.rate);
            let era = node.era();
            let member = self.member_mut(child);
            (member.tag, member.link) = (tag.wrapping_add(bytes * inverse), era);
            member.place.set_state(State::Held);
            if parent == ROOT {
                return;
            }
            child = parent;
        }
    }

    /// Notes that a class that has sent a packet does not go back into its queue: it is held until the packet has left, or
    /// it waits.
    #[inline]
    fn stay_out(&mut self, child: u32, ready: bool, held: bool) {
        self.take_out(self.member(child).place);
        if held {
            return self.leave(child, State::Held);
        }
        self.leave_waiting(child);
        if !ready {
            self.start_anew(child);
        }
    }

    /// Notes that a picked child cannot be served.
    #[cold]
    #[inline(never)]
    pub(super) fn withdraw(&mut self, child: u32) {
        self.take_out(self.member(child).place);
        self.leave_waiting(child);
    }

    /// Handles a picked class none of whose children can be served: it waits, and the picked classes above it go back into their
    /// queues, or wait as well.
    #[cold]
    #[inline(never)]
    pub(super) fn retreat(&mut self, mut node: u32) {
        while node != ROOT {
            let Node { on, member, .. } = self.nodes[node as usize];
            if on == 0 {
                self.start_anew(node);
                self.withdraw(node);
            } else if self.nodes[member.place.parent() as usize].is_wheel {
                self.put(node);
            }
            node = member.place.parent();
        }
    }
}
