//! `hvt`: hierarchical virtual time, a scheduler of our own: the shares of [`hls`](crate::schedulers::hls) with the delay of
//! WF2Q+.
//!
//! Each inner class has a virtual clock of the bytes that it sends. A child is eligible when its start tag is not ahead of
//! the clock of its parent. At each dequeue, from the root down, every class chooses the eligible child with the earliest
//! deadline. Nothing is committed before: the packet is that of the leaf at the end of the way, and its length is charged
//! to all classes above it. `docs/hvt.md` has the proofs.
//!
//! # Names
//!
//! | docs/hvt.md | here | unit |
//! | --- | --- | --- |
//! | w_c, W_p | `virtual_time::child_weights`, and their sum | |
//! | k_p | `Scale::shift` | |
//! | inv_c = ceil(2^k / w_c) | `Member::inverse` | 2^-k byte per weight, for each byte |
//! | v_p = floor(2^k / W_p) | `Node::rate` | the same |
//! | S_c, start tag | `Member::tag` | 2^-k byte per weight |
//! | V_p, virtual time | `Node::v` | the same |
//! | D_c = L inv_c | `Member::distance` | the same |
//! | D_g, h_g of a wheel | `Group::distance`, `Group::width` | the same |
//!
//! # The queue of a class
//!
//! Up to [`SCANNED`] children are entries that are scanned: the choice is exact. More are groups of a wheel
//! (`hvt/wheel.rs`), and the groups are scanned in the same way.
//!
//! # A packet in transmission
//!
//! A leaf whose last packet was dequeued counts as backlogged until the next dequeue, and with it the classes above it that
//! have nothing else: they are *held*. A packet that arrives meanwhile continues their backlog, so that their tags stay.
//! A class that becomes idle starts anew: its clock moves beyond the tags of all its children.
//!
//! # Cost per packet
//!
//! O(levels) scans of at most [`SCANNED`] children, or of the groups of a wheel: one where weights are equal, 64 at most.
//!
//! # Invariants
//!
//! The tag of a child in the queue is at most D_c (in a wheel: and h_g) ahead of V_p, and at most D_c (D_g) and the virtual
//! time of a largest packet behind it, unless latency-critical packets were sent. An inner class is in the queue of its
//! parent exactly if one of its children is in its own and it is not blocked.
//!
//! # Overflow budget
//!
//! D_c is at most 2^60 (`hvt/scale.rs`), so that tags of 64 bits may wrap: the tag of a backlogged class is within 2^62 of
//! the clock. A class that is not in the queue has the count of 2^60 units (`era`) in which it left; if two have begun since,
//! its tag is in the past. The count itself wraps after 2^92 units.
//!
//! # Differences
//!
//! `DIFFERENCE`: weights are as run, w' = 2^k / inv and W' = 2^k / v, so that shares of siblings add up to 1 at most.
//! They differ from the weights of the tree by less than 2^-16, mostly by 2^-24. A weight that is too small beside those of
//! its siblings for tags of 64 bits runs as the least that fits: L 2^-43 of all, which is 2^-32 for packets of 1500 B.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

use crate::bases::batches::{LOOK_AHEAD_FROM, PlainIn, look_ahead, push_behind, push_runs};
use crate::contract::{
    Amount, BatchEnd, BuildError, ClassId, Dequeued, DropReason, DropSink, Feature, Hierarchy, Nanos, Packet, Promises,
    Scheduler, SchedulerInfo, Sharing, WorkConserving, boxed, room_in, same_kind,
};
use crate::parts::memory::{Stack, bytes_of, filled, pause};
use crate::parts::virtual_time;
use crate::queue::{LeafQueue, PacketSlab};

mod ceilings;
#[cfg(feature = "invariants")]
mod check;
mod place;
mod reweigh;
mod scale;
#[cfg(test)]
mod tests;
mod urgent;
mod wheel;

use ceilings::Ceilings;
use place::{LEAF, Place, State};
use scale::Scale;
use urgent::Urgent;
use wheel::Wheels;

/// Registry entry of `hvt`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "hvt",
    aliases: &[],
    paper: "hvt",
    summary: "hierarchical virtual time: max-min fair, each packet by virtual deadlines",
    features: &[
        Feature::Hierarchy,
        Feature::Ceiling,
        Feature::CeilingBurst,
        Feature::LatencyCritical,
        Feature::LatencyBurst,
        Feature::ActiveQueue,
        Feature::PushOut,
    ],
    work_conserving: WorkConserving::UnlessLimited,
    cost: "O(levels)",
    sharing: Sharing::Siblings,
    promises: Promises::NONE,
    memory: Hvt::memory,
    build: |tree, _| boxed(Hvt::new(tree)?),
};

/// Largest number of children that are scanned.
const SCANNED: usize = 24;
const ROOT: u32 = 0;
const NIL: u32 = u32::MAX;
/// A count of these many units of virtual time, 2 to this power, is an era.
const ERA: u32 = 60;

/// A class as a child of its parent.
#[derive(Clone, Copy, Debug)]
struct Member {
    tag: u64,
    inverse: u64,
    place: Place,
    /// In a slot of a wheel: the next child in it. While the class is not in the queue: the era in which it left.
    link: u32,
}

impl Member {
    const NONE: Self = Self { tag: 0, inverse: 0, place: Place::new(0, 0, Place::INNER), link: 0 };

    /// As it was made.
    const fn reset(&mut self) {
        (self.tag, self.link) = (0, 0);
        self.place.reset();
    }

    /// Returns the distance of a deadline from a start tag.
    #[cfg(feature = "invariants")]
    #[inline(always)]
    const fn distance(&self, max_packet: u64) -> u64 {
        self.inverse * max_packet
    }

    /// Returns its tag if it comes into the queue of `node` now: in no case behind its clock.
    #[inline(always)]
    const fn lifted(&self, node: &Node) -> u64 {
        let is_past = node.era.wrapping_sub(self.link) >= 2 || node.v.wrapping_sub(self.tag) as i64 > 0;
        if is_past { node.v } else { self.tag }
    }
}

/// A class, on one cache line. Of an inner class only the place is used, which says so.
#[derive(Debug)]
#[repr(align(64))]
struct Leaf {
    queue: LeafQueue,
    member: Member,
}

const _: () = assert!(size_of::<Leaf>() == 64);

/// An inner class, on one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    v: u64,
    rate: u64,
    /// The entries that can be chosen: children, or groups of a wheel that are not empty.
    on: u64,
    era: u32,
    /// Children that are backlogged and not in the queue.
    waiting: u32,
    /// The first of its entries.
    entries: u32,
    /// [`NIL`] if its entries are children.
    wheel: u32,
    member: Member,
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    /// Moves the clock by `units`.
    #[inline(always)]
    const fn advance(&mut self, units: u64) {
        let v = self.v.wrapping_add(units);
        let eras = (v >> ERA).wrapping_sub(self.v >> ERA) & 15;
        self.era = self.era.wrapping_add(eras as u32);
        self.v = v;
    }
}

/// The start and the deadline of a child, or of a group.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    finish: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct Hvt {
    /// By class.
    leaves: Stack<Leaf>,
    nodes: Stack<Node>,
    /// The entries of all inner classes, each with its child or its group.
    entries: Stack<Entry>,
    behind: Stack<u32>,
    wheels: Wheels,
    /// By inner class, 2 to this power is at least the distance of each child.
    reaches: Box<[u8]>,
    slab: PacketSlab,
    /// The leaf of the packet in transmission, if that was its last; [`NIL`] if not.
    last: u32,
    ceilings: Ceilings,
    urgent: Urgent,
    now: Nanos,
    max_packet: u32,
    /// True if the tree is large enough for prefetching.
    looks_ahead: bool,
}

impl Hvt {
    /// Makes a scheduler for `tree`. The tree should have the features of [`INFO`] only. Others are ignored.
    ///
    /// # Errors
    /// [`BuildError::Parameter`] for more than four million inner classes; [`BuildError::OutOfMemory`].
    pub fn new(tree: &Hierarchy) -> Result<Self, BuildError> {
        let inner = tree.len() - tree.leaves().len();
        if inner > Place::MOST_PARENTS {
            let (what, max) = ("the number of inner classes", Place::MOST_PARENTS as u64);
            return Err(BuildError::Parameter { class: ClassId::ROOT, what, value: inner as u64, min: 1, max });
        }
        let largest = u64::from(tree.link().max_packet);
        let mut numbers = filled(tree.len(), NIL)?;
        let parents = || core::iter::once(ClassId::ROOT).chain(tree.classes()).filter(|&class| !tree.is_leaf(class));
        for (number, class) in (0..).zip(parents()) {
            numbers[class.index()] = number;
        }
        let child_of = |class: ClassId| if tree.is_leaf(class) { class.0 | LEAF } else { numbers[class.index()] };
        // Wheels first, to know how much room they take.
        let (mut entries, mut wheels, mut groups) = (0, 0, 0);
        for class in parents() {
            let children = tree.children(class).len();
            if children <= SCANNED {
                entries += children;
                continue;
            }
            let scale = Scale::new(tree, class)?;
            let count = Wheels::groups_for(scale.inverse.iter().map(|inverse| inverse * largest));
            (entries, wheels, groups) = (entries + count, wheels + 1, groups + count);
        }
        let mut slab = PacketSlab::for_tree(tree)?;
        let mut leaves = Stack::with_room(tree.len())?;
        for class in core::iter::once(ClassId::ROOT).chain(tree.classes()) {
            pause(class.index());
            leaves.push(Leaf { queue: slab.queue_for(tree, class), member: Member::NONE });
        }
        let mut hvt = Self {
            leaves,
            nodes: Stack::with_room(inner)?,
            entries: Stack::with_room(entries)?,
            behind: Stack::with_room(entries)?,
            wheels: Wheels::new(wheels, groups)?,
            reaches: filled(inner, 0)?,
            slab,
            last: NIL,
            ceilings: Ceilings::new(tree, child_of)?,
            urgent: Urgent::new(tree)?,
            now: Nanos::ZERO,
            max_packet: tree.link().max_packet,
            looks_ahead: tree.len() >= LOOK_AHEAD_FROM,
        };
        for _ in 0..inner {
            let node = Node { v: 0, rate: 0, on: 0, era: 0, waiting: 0, entries: 0, wheel: NIL, member: Member::NONE };
            hvt.nodes.push(node);
        }
        for (number, class) in (0u32..).zip(parents()) {
            hvt.add_children(tree, class, number, &Scale::new(tree, class)?, child_of)?;
        }
        Ok(hvt)
    }

    /// Makes the members, and the queue, of the children of `class`.
    fn add_children(
        &mut self,
        tree: &Hierarchy,
        class: ClassId,
        number: u32,
        scale: &Scale,
        child_of: impl Fn(ClassId) -> u32,
    ) -> Result<(), BuildError> {
        let largest = u64::from(self.max_packet);
        let children = tree.children(class);
        let distances = scale.inverse.iter().map(|inverse| inverse * largest);
        let node = &mut self.nodes[number as usize];
        (node.rate, node.entries) = (scale.rate, self.entries.len() as u32);
        let is_wheel = children.len() > SCANNED;
        let blank = Entry { start: 0, finish: 0 };
        if is_wheel {
            let (entries, behind) = (&mut self.entries, &mut self.behind);
            node.wheel = self.wheels.add(distances.clone(), largest * scale.rate, |group| {
                entries.push(blank);
                behind.push(group);
            })?;
        } else {
            for &child in children {
                self.entries.push(blank);
                self.behind.push(child_of(child));
            }
        }
        self.reaches[number as usize] = distances.max().map_or(0, |most| most.ilog2() + 2) as u8;
        for (slot, (&child, &inverse)) in (0u32..).zip(children.iter().zip(&scale.inverse)) {
            let critical = if tree.is_leaf(child) && tree.config(child).latency_critical { Place::CRITICAL } else { 0 };
            let place = Place::new(number, if is_wheel { 0 } else { slot }, critical);
            *self.member_mut(child_of(child)) = Member { tag: 0, inverse, place, link: 0 };
        }
        Ok(())
    }

    fn memory(tree: &Hierarchy) -> u64 {
        let inner = tree.len() - tree.leaves().len();
        let parents = core::iter::once(ClassId::ROOT).chain(tree.classes()).map(|class| tree.children(class).len());
        let mut most = 0;
        let queues: u64 = parents
            .filter(|&children| children > 0)
            .map(|children| {
                most = most.max(children);
                let (entries, wheel) = if children > SCANNED {
                    (Wheels::most_groups(children), Wheels::memory(children))
                } else {
                    (children, 0)
                };
                bytes_of::<(Entry, u32)>(entries) + wheel
            })
            .sum();
        bytes_of::<Leaf>(tree.len())
            + bytes_of::<Node>(inner)
            + queues
            + bytes_of::<u8>(inner)
            + bytes_of::<u32>(tree.len())
            + bytes_of::<u64>(most)
            + virtual_time::memory_of_weights(most)
            + PacketSlab::memory(tree)
            + Ceilings::memory(tree)
            + Urgent::memory(tree)
    }

    #[inline(always)]
    fn member(&self, child: u32) -> &Member {
        if child & LEAF != 0 {
            &self.leaves[(child & !LEAF) as usize].member
        } else {
            &self.nodes[child as usize].member
        }
    }

    #[inline(always)]
    fn member_mut(&mut self, child: u32) -> &mut Member {
        if child & LEAF != 0 {
            &mut self.leaves[(child & !LEAF) as usize].member
        } else {
            &mut self.nodes[child as usize].member
        }
    }
}

/// The queues of inner classes.
impl Hvt {
    /// Puts `child` into the queue of its parent, by its tag.
    #[inline(always)]
    fn put(&mut self, child: u32) {
        let Member { tag, inverse, place, .. } = *self.member(child);
        let node = &mut self.nodes[place.parent() as usize];
        if node.wheel == NIL {
            let finish = tag.wrapping_add(inverse * u64::from(self.max_packet));
            self.entries[(node.entries + place.slot()) as usize] = Entry { start: tag, finish };
            node.on |= 1 << place.slot();
        } else {
            self.put_in_wheel(child);
        }
    }

    #[inline]
    fn put_in_wheel(&mut self, child: u32) {
        let Member { tag, inverse, place, .. } = *self.member(child);
        self.member_mut(child).link = NIL;
        let Self { leaves, nodes, entries, behind, wheels, .. } = self;
        let node = &mut nodes[place.parent() as usize];
        let index = wheels.group_of(node.wheel, inverse * u64::from(self.max_packet));
        let at = (node.entries + index) as usize;
        node.on |= 1 << index;
        let v = node.v;
        let group = &mut wheels.groups[behind[at] as usize];
        if let Some(last) = wheel::append(group, &mut entries[at], (child, tag, v)) {
            if last & LEAF != 0 {
                leaves[(last & !LEAF) as usize].member.link = child;
            } else {
                nodes[last as usize].member.link = child;
            }
        }
    }

    /// Takes `child` out of the scanned queue of its parent. A child of a wheel is out of it when it is chosen.
    #[inline(always)]
    fn take_out(&mut self, place: Place) {
        let node = &mut self.nodes[place.parent() as usize];
        if node.wheel == NIL {
            node.on &= !(1 << place.slot());
        }
    }

    /// Returns the entry of `node` that is eligible and has the earliest deadline. The clock moves to the first start if
    /// none is eligible.
    #[inline(always)]
    fn choose(&mut self, node: u32) -> Option<u32> {
        let node = &mut self.nodes[node as usize];
        let (v, mut on) = (node.v, node.on);
        if on == 0 {
            return None;
        }
        let entries = &self.entries[node.entries as usize..];
        // The start, counted from the clock, and the deadline behind it: of two eligible ones the deadline decides.
        let (mut best, mut first) = (u128::MAX, 0);
        while on != 0 {
            let at = on.trailing_zeros();
            on &= on - 1;
            let Entry { start, finish } = entries[at as usize];
            let ahead = (start.wrapping_sub(v) as i64).max(0) as u64;
            let key = u128::from(ahead) << 64 | u128::from(finish.wrapping_sub(v) ^ 1 << 63);
            if key < best {
                (best, first) = (key, at);
            }
        }
        let ahead = (best >> 64) as u64;
        if ahead > 0 {
            node.advance(ahead);
        }
        Some(first)
    }

    /// Returns the child of `node` that is next. It stays in a scanned queue, and leaves a wheel.
    #[inline(always)]
    fn pick(&mut self, at: u32) -> Option<u32> {
        let index = self.choose(at)?;
        let node = &self.nodes[at as usize];
        let entry = node.entries + index;
        if node.wheel == NIL { Some(self.behind[entry as usize]) } else { Some(self.pick_from_wheel(at, index)) }
    }

    #[inline]
    fn pick_from_wheel(&mut self, at: u32, mut index: u32) -> u32 {
        loop {
            let entry = (self.nodes[at as usize].entries + index) as usize;
            let group = self.behind[entry] as usize;
            let child = wheel::first(&self.wheels.groups[group], &self.entries[entry]);
            let Member { tag, link, .. } = *self.member(child);
            let (start, width) = (self.entries[entry].start, self.wheels.groups[group].width());
            if !wheel::take_first(&mut self.wheels.groups[group], &mut self.entries[entry], link) {
                self.nodes[at as usize].on &= !(1 << index);
            }
            if (tag.wrapping_sub(start) as i64) < width as i64 {
                return child;
            }
            // Its tag was beyond the ring, or has grown.
            self.put_in_wheel(child);
            let Some(next) = self.choose(at) else { return child };
            index = next;
        }
    }

    /// Returns the leaf whose turn it is.
    #[inline(always)]
    fn descend(&mut self) -> Option<u32> {
        let mut at = ROOT;
        loop {
            let Some(child) = self.pick(at) else {
                if at == ROOT {
                    return None;
                }
                self.withdraw(at);
                at = ROOT;
                continue;
            };
            if self.member(child).place.is_any(Place::BLOCKED | Place::OWES) {
                self.detour(child);
            } else if child & LEAF != 0 {
                return Some(child & !LEAF);
            } else {
                at = child;
            }
        }
    }

    /// Handles a chosen child that has been blocked since it was put into the queue, or that owes.
    #[cold]
    #[inline(never)]
    fn detour(&mut self, child: u32) {
        let place = self.member(child).place;
        if place.is_any(Place::BLOCKED) {
            self.withdraw(child);
        } else {
            let owed = self.urgent.settle(child);
            let member = self.member_mut(child);
            member.place.clear(Place::OWES);
            member.tag = member.tag.wrapping_add(owed);
            self.put(child);
        }
    }

    /// Takes a chosen child that cannot be served out of the queue.
    #[cold]
    #[inline(never)]
    fn withdraw(&mut self, child: u32) {
        let place = self.member(child).place;
        self.take_out(place);
        self.leave(child, State::Waiting);
        self.nodes[place.parent() as usize].waiting += 1;
    }

    /// Notes that `child` is not in the queue.
    #[inline(always)]
    fn leave(&mut self, child: u32, state: State) {
        let era = self.nodes[self.member(child).place.parent() as usize].era;
        let member = self.member_mut(child);
        member.place.set_state(state);
        member.link = era;
    }
}

/// Classes that become backlogged or idle.
impl Hvt {
    /// Returns true if a class of its own could be chosen: a packet waits for its turn, or a child does.
    fn is_ready(&self, child: u32) -> bool {
        if child & LEAF == 0 {
            return self.nodes[child as usize].on != 0;
        }
        let id = child & !LEAF;
        let leaf = &self.leaves[id as usize];
        !leaf.queue.is_empty() && !(leaf.member.place.is_any(Place::CRITICAL) && !self.urgent.are_all_sent(id))
    }

    /// Called when `child` has something to send and is not in the queue. It and the classes above it come into their queues.
    #[inline]
    fn rise(&mut self, mut child: u32) {
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
            let tag = if state == State::Held { member.tag } else { member.lifted(node) };
            let member = self.member_mut(child);
            member.tag = tag;
            member.place.set_state(State::Queued);
            self.put(child);
            if parent == ROOT || was_ready {
                return;
            }
            child = parent;
        }
    }

    /// Called when `child` is backlogged and blocked: classes above it that were idle wait for it.
    #[cold]
    fn wait(&mut self, mut child: u32) {
        loop {
            let place = self.member(child).place;
            if !matches!(place.state(), State::Off | State::Held) {
                return;
            }
            let was_held = place.state() == State::Held;
            self.leave(child, State::Waiting);
            let parent = place.parent();
            self.nodes[parent as usize].waiting += 1;
            // Held classes above it are settled when the packet in transmission has left.
            if parent == ROOT || was_held {
                return;
            }
            child = parent;
        }
    }

    /// Ends the transmission of the last packet of a leaf: the leaf, and the classes above it that have nothing else, are
    /// idle if no packet has come meanwhile.
    #[inline]
    fn settle(&mut self) {
        let leaf = core::mem::replace(&mut self.last, NIL) | LEAF;
        let place = self.member(leaf).place;
        if place.state() == State::Held {
            self.leave(leaf, State::Off);
        }
        let mut at = place.parent();
        loop {
            let Node { on, waiting, member, .. } = self.nodes[at as usize];
            if at == ROOT {
                if on == 0 && waiting == 0 {
                    self.start_anew(ROOT);
                }
                return;
            }
            let parent = member.place.parent();
            match member.place.state() {
                State::Held if waiting > 0 => {
                    self.leave(at, State::Waiting);
                    self.nodes[parent as usize].waiting += 1;
                }
                State::Held => {
                    self.start_anew(at);
                    self.leave(at, State::Off);
                }
                // It is blocked, and has got packets meanwhile.
                State::Waiting => {}
                State::Queued | State::Off => return,
            }
            at = parent;
        }
    }

    /// Moves the clock of an idle class beyond the tags of its children.
    fn start_anew(&mut self, node: u32) {
        self.nodes[node as usize].advance(1 << self.reaches[node as usize]);
    }

    /// Lets classes return whose ceilings are out of debt.
    #[cold]
    fn release(&mut self) {
        while let Some(child) = self.ceilings.release(self.now) {
            let place = &mut self.member_mut(child).place;
            place.clear(Place::BLOCKED);
            if place.state() == State::Waiting && self.is_ready(child) {
                self.rise(child);
            }
        }
    }
}

/// Packets that leave.
impl Hvt {
    /// Charges a packet of `len` bytes to the leaf `id`, which was chosen, and to the classes above it. Each goes back into
    /// its queue, or waits, or is held.
    #[inline(always)]
    fn charge(&mut self, id: u32, len: u32) {
        if !self.ceilings.is_empty() {
            self.charge_ceilings(id, len);
        }
        let bytes = u64::from(len);
        let leaf = &self.leaves[id as usize];
        let mut ready = !leaf.queue.is_empty();
        if !ready {
            self.last = id;
            if leaf.member.place.is_any(Place::CRITICAL) {
                self.urgent.emptied(id);
            }
        }
        let (mut child, mut held) = (id | LEAF, !ready);
        loop {
            let member = self.member_mut(child);
            member.tag = member.tag.wrapping_add(bytes * member.inverse);
            let place = member.place;
            let node = &mut self.nodes[place.parent() as usize];
            node.advance(bytes * node.rate);
            if ready && !place.is_any(Place::BLOCKED) {
                self.put(child);
            } else {
                self.take_out(place);
                if ready || !held {
                    held = false;
                    self.leave(child, State::Waiting);
                    self.nodes[place.parent() as usize].waiting += 1;
                } else {
                    self.leave(child, State::Held);
                }
            }
            child = place.parent();
            if child == ROOT {
                return;
            }
            ready = self.nodes[child as usize].on != 0;
            held &= !ready;
        }
    }

    #[cold]
    fn charge_ceilings(&mut self, id: u32, len: u32) {
        let Self { ceilings, leaves, nodes, now, .. } = self;
        ceilings.charge(id, len, *now, |child| {
            let member = if child & LEAF != 0 {
                &mut leaves[(child & !LEAF) as usize].member
            } else {
                &mut nodes[child as usize].member
            };
            member.place.set(Place::BLOCKED);
        });
    }

    /// Sends the first urgent packet that no ceiling holds back.
    #[cold]
    #[inline(never)]
    fn send_ahead(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        while let Some(id) = self.urgent.next() {
            let child = id | LEAF;
            if self.ceilings.above(id).any(|above| self.member(above).place.is_any(Place::BLOCKED)) {
                self.urgent.defer(id);
                self.return_to_turns(child);
                continue;
            }
            let Some(packet) = self.leaves[id as usize].queue.dequeue(&mut self.slab, ClassId(id), self.now, drops)
            else {
                self.urgent.emptied(id);
                continue;
            };
            self.charge_ahead(id, packet.len);
            if self.leaves[id as usize].queue.is_empty() {
                self.urgent.emptied(id);
            } else if self.urgent.are_all_sent(id) {
                self.urgent.defer(id);
                self.return_to_turns(child);
            }
            return Some(packet);
        }
        None
    }

    /// Puts a leaf with packets that are not urgent into its queue, unless it is there or waits.
    fn return_to_turns(&mut self, child: u32) {
        if self.is_ready(child) && matches!(self.member(child).place.state(), State::Off | State::Held) {
            self.rise(child);
        }
    }

    /// Charges an urgent packet of the leaf `id` to every class above it that has others to serve.
    fn charge_ahead(&mut self, id: u32, len: u32) {
        if !self.ceilings.is_empty() {
            self.charge_ceilings(id, len);
        }
        let bytes = u64::from(len);
        let mut child = id | LEAF;
        loop {
            let member = *self.member(child);
            let parent = member.place.parent();
            let node = &mut self.nodes[parent as usize];
            if node.on != 0 || node.waiting > 0 {
                let units = bytes * member.inverse;
                if member.place.state() == State::Queued {
                    self.urgent.owe(child, units);
                    self.member_mut(child).place.set(Place::OWES);
                } else {
                    let (v, era) = (node.v, node.era);
                    let ahead = member.lifted(node).wrapping_sub(v).saturating_add(units).min(1 << ERA);
                    let member = self.member_mut(child);
                    (member.tag, member.link) = (v.wrapping_add(ahead), era);
                }
                let node = &mut self.nodes[parent as usize];
                node.advance(bytes * node.rate);
            }
            if parent == ROOT {
                return;
            }
            child = parent;
        }
    }

    /// Removes and returns the next packet.
    #[inline(always)]
    fn next(&mut self, drops: &mut dyn DropSink) -> Option<Packet> {
        if self.last != NIL {
            self.settle();
        }
        if self.ceilings.next().is_some_and(|at| at <= self.now) {
            self.release();
        }
        if self.urgent.any()
            && let Some(packet) = self.send_ahead(drops)
        {
            return Some(packet);
        }
        let id = self.descend()?;
        let Some(packet) = self.leaves[id as usize].queue.dequeue(&mut self.slab, ClassId(id), self.now, drops) else {
            unreachable!("leaf {id} has its turn and no packet");
        };
        self.charge(id, packet.len);
        Some(packet)
    }

    /// Time at which the next ceiling is out of debt, if packets are queued.
    fn next_release(&self) -> Option<Nanos> {
        self.ceilings.next().filter(|_| self.slab.queued() > 0)
    }
}

impl PlainIn for Hvt {
    #[inline(always)]
    fn push_plain(&mut self, batch: &[Packet]) -> usize {
        if self.urgent.is_for_any() {
            return 0;
        }
        push_behind(&mut self.leaves, |leaf| &mut leaf.queue, &mut self.slab, self.max_packet, batch)
    }

    #[inline(always)]
    fn push_any(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.enqueue(now, packet, drops);
    }
}

impl Scheduler for Hvt {
    #[inline]
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        let (id, len) = (packet.class.0, packet.len);
        let leaf = self.leaves.get_mut(id as usize).filter(|leaf| !leaf.member.place.is_any(Place::INNER));
        let Some(leaf) = leaf else {
            return drops.dropped(now, packet, DropReason::NotALeaf);
        };
        if len > self.max_packet {
            return drops.dropped(now, packet, DropReason::TooLong);
        }
        if !leaf.queue.enqueue(&mut self.slab, now, packet, drops) {
            return;
        }
        let place = leaf.member.place;
        if place.is_any(Place::CRITICAL) {
            let packets = leaf.queue.backlog(&self.slab).packets;
            if !self.urgent.arrived(id, (len, packets), self.now) {
                self.return_to_turns(id | LEAF);
            }
        } else if matches!(place.state(), State::Off | State::Held) {
            self.rise(id | LEAF);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink) -> Dequeued {
        self.now = self.now.max(now);
        match self.next(drops) {
            Some(packet) => Dequeued::Packet(packet),
            None => self.next_release().map_or(Dequeued::Idle, Dequeued::WaitUntil),
        }
    }

    fn backlog(&self) -> Amount {
        self.slab.backlog()
    }

    fn class_backlog(&self, class: ClassId) -> Amount {
        self.leaves.get(class.index()).map_or(Amount::default(), |leaf| leaf.queue.backlog(&self.slab))
    }

    fn purge(&mut self, now: Nanos, drops: &mut dyn DropSink) {
        self.now = self.now.max(now);
        for (id, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.queue.purge(&mut self.slab, ClassId(id as u32), now, drops);
            leaf.member.reset();
        }
        for node in self.nodes.iter_mut() {
            (node.v, node.on, node.era, node.waiting) = (0, 0, 0, 0);
            node.member.reset();
        }
        self.wheels.groups.iter_mut().for_each(|group| group.full = 0);
        self.last = NIL;
        self.ceilings.reset();
        self.urgent.reset();
    }

    fn enqueue_batch(&mut self, now: Nanos, batch: &mut Vec<Packet>, drops: &mut dyn DropSink) {
        if self.looks_ahead {
            look_ahead(&self.leaves, |leaf| &leaf.queue, &self.slab, batch);
        }
        push_runs(self, now, batch, drops);
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
        let mut bytes = 0;
        for _ in 0..max_packets.min(room_in(out)) {
            if bytes >= max_bytes {
                break;
            }
            let Some(packet) = self.next(drops) else {
                return self.next_release().map_or(BatchEnd::Idle, BatchEnd::WaitUntil);
            };
            bytes += u64::from(packet.len);
            out.push(packet);
        }
        BatchEnd::Full
    }

    fn retune(&mut self, now: Nanos, with: &mut dyn Any) -> bool {
        let Some(with) = same_kind::<Self>(with) else { return false };
        let place = |member: &Member| (member.place.constant(), member.place.is_any(Place::CRITICAL));
        let same = |(mine, theirs): (&Leaf, &Leaf)| {
            place(&mine.member) == place(&theirs.member)
                && mine.queue.fits(&theirs.queue)
                && !mine.member.place.is_any(Place::CRITICAL)
        };
        let alike = |(mine, theirs): (&Node, &Node)| {
            place(&mine.member) == place(&theirs.member) && (mine.wheel == NIL) == (theirs.wheel == NIL)
        };
        if self.leaves.len() != with.leaves.len()
            || self.nodes.len() != with.nodes.len()
            || self.max_packet != with.max_packet
            || !self.slab.fits(&with.slab)
            || !self.leaves.iter().zip(with.leaves.iter()).all(same)
            || !self.nodes.iter().zip(with.nodes.iter()).all(alike)
            || !self.ceilings.fits(&with.ceilings)
        {
            return false;
        }
        self.now = self.now.max(now);
        self.slab.retune(&mut with.slab);
        self.ceilings.retune(&with.ceilings, self.now);
        for (mine, theirs) in self.leaves.iter_mut().zip(with.leaves.iter()) {
            mine.queue.retune(&theirs.queue);
        }
        self.reweigh(with);
        true
    }

    fn is_expedited(&self, class: ClassId) -> bool {
        self.leaves.get(class.index()).is_some_and(|leaf| leaf.member.place.is_any(Place::CRITICAL))
    }

    #[cfg(feature = "invariants")]
    fn check_invariants(&self) -> Result<(), alloc::string::String> {
        check::all(self)
    }
}
