//! One class more or less, in O(levels) and comparisons within the queue of its parent.
//!
//! A leaf that is added joins the list of the siblings of its weight, or in a wheel the group of its half octave. One
//! that is removed leaves them. Tags, tokens and packets of all other classes stay, and no other class is visited.
//! Nothing is allocated: [`Hvt::with_room`] reserves the room. What does not fit is an error, and changes nothing. Then
//! the classes can be [changed at once](crate::Change), in one pass over all of them.
//!
//! Cost of an addition: a comparison with each list or group of the parent, at most 63, and a step for each level. Of a
//! removal: a step for each sibling in the leaf's list, 23 at most, or in its slot of a wheel, and a step for each
//! packet that is dropped. If the parent has nothing else in its queue, the same once more for the parent, and so on
//! up.

use core::fmt;

use super::ceilings::Ceilings;
use super::place::{LEAF, Place, State};
use super::queues::Queues;
use super::scale::{LEAST_BITS, REACH};
use super::wheel::{self, Group};
use super::{Hvt, Member, NIL, ROOT, SCANNED};
use crate::contract::{
    ClassConfig, ClassId, DropReason, DropSink, Hierarchy, MAX_DEPTH, Nanos, OutOfMemory, Packet, Share,
};

/// The reason why a class cannot be added or removed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleError {
    /// The room that was reserved is used up.
    NoRoom,
    /// The parent is not an inner class, or already has [`MAX_DEPTH`] levels above it.
    Parent(ClassId),
    /// There is no such class, or it is the link, or it has children.
    Class(ClassId),
    /// The leaf has an active queue or hosts, or is latency-critical, or the tree has such a leaf that is.
    Feature,
    /// No sibling has the same weight, or in a class with many children one within half an octave and not lighter; or
    /// the class has 24 children, so that a different queue is needed for more.
    Group,
    /// The sum of the weights would leave the range of the units of tags.
    Units,
}

impl fmt::Display for SingleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("the room that was reserved for classes is used up"),
            Self::Parent(class) => write!(f, "class {} cannot have a child", class.0),
            Self::Class(class) => write!(f, "class {} cannot be removed", class.0),
            Self::Feature => f.write_str("an active queue or a latency-critical leaf cannot be added in place"),
            Self::Group => f.write_str("the parent has no queue for a child of this weight"),
            Self::Units => f.write_str("the weights of the siblings do not fit the units of tags"),
        }
    }
}

impl core::error::Error for SingleError {}

/// Single classes.
impl Hvt {
    /// Like [`Hvt::new`], with room for `leaves` more leaves, each with or without a ceiling.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn with_room(tree: &Hierarchy, leaves: usize) -> Result<Self, OutOfMemory> {
        Self::build(tree, leaves)
    }

    /// Adds a leaf below `parent`, the link or an inner class. Returns its id: that of a removed leaf, or the next one.
    /// It is as a leaf that has been idle for long.
    ///
    /// The caller sees to it that siblings have shares of one kind and no more guarantees than their parent.
    ///
    /// # Errors
    /// [`SingleError`]; nothing has changed then.
    pub fn add_leaf(&mut self, parent: ClassId, config: &ClassConfig) -> Result<ClassId, SingleError> {
        let node = self.inner_class(parent).ok_or(SingleError::Parent(parent))?;
        let depth = self.queues.depth(node) + 1;
        if depth > MAX_DEPTH {
            return Err(SingleError::Parent(parent));
        }
        if self.urgent.is_for_any() || config.latency_critical || config.has_active_queue() {
            return Err(SingleError::Feature);
        }
        let spare = self.spare;
        if spare == NIL && self.queues.leaves.is_full()
            || config.ceiling.is_some() && !self.ceilings.has_room()
            || !self.queues.nodes[node as usize].is_wheel && !self.queues.has_free_item()
        {
            return Err(SingleError::NoRoom);
        }
        let (inverse, weight) = self.queues.units_of(node, config)?;
        let group = self.queues.group_for(node, inverse)?;
        if self.alone != NIL {
            self.join();
        }
        let id = if spare == NIL { self.queues.leaves.len() as u32 } else { spare };
        let queue = self.slab.queue_of(ClassId(id), config.limits);
        let member = Member { tag: 0, inverse, place: Place::new(node, group, 0), link: 0 };
        if spare == NIL {
            self.queues.leaves.push(super::Leaf { queue, member });
        } else {
            let leaf = &mut self.queues.leaves[id as usize];
            self.spare = leaf.member.tag as u32;
            (leaf.queue, leaf.member) = (queue, member);
        }
        self.queues.come(id | LEAF);
        self.queues.grow(node, (group, inverse), weight);
        let depth_of_bucket = u64::from(self.queues.max_packet as u32) * Ceilings::packets_of(depth);
        self.ceilings.add((id, self.queues.sums[node as usize].class), config, depth_of_bucket);
        self.choose_path();
        Ok(ClassId(id))
    }

    /// Removes a leaf, or an inner class with nothing below it. The packets of the leaf go to `drops` as
    /// [`DropReason::ClassRemoved`]. Its id names nothing until a leaf is added.
    ///
    /// # Errors
    /// [`SingleError`]; nothing has changed then.
    pub fn remove(&mut self, now: Nanos, class: ClassId, drops: &mut dyn DropSink) -> Result<(), SingleError> {
        let inner = self.inner_class(class);
        let is_there = class != ClassId::ROOT
            && match inner {
                Some(node) => self.queues.sums[node as usize].children == 0,
                None => {
                    self.queues.leaves.get(class.index()).is_some_and(|leaf| !leaf.member.place.is_any(Place::INNER))
                }
            };
        if !is_there {
            return Err(SingleError::Class(class));
        }
        if self.urgent.is_for_any() || self.queues.leaves[class.index()].queue.table().is_some() {
            return Err(SingleError::Feature);
        }
        self.now = self.now.max(now);
        if self.alone != NIL {
            self.join();
        }
        if self.last == class.0 {
            self.queues.settle(class.0 | LEAF, false);
            self.last = NIL;
        }
        let mut removed =
            |now: Nanos, packet: Packet, _: DropReason| drops.dropped(now, packet, DropReason::ClassRemoved);
        self.queues.leaves[class.index()].queue.purge(&mut self.slab, class, self.now, &mut removed);
        let child = inner.unwrap_or(class.0 | LEAF);
        self.ceilings.remove(class, child);
        self.withdraw_removed(child);
        self.queues.shrink(child);
        let leaf = &mut self.queues.leaves[class.index()].member;
        (leaf.place, leaf.link) = (Place::new(0, 0, Place::INNER), NIL);
        if inner.is_none() {
            leaf.tag = self.spare.into();
            self.spare = class.0;
        }
        self.choose_path();
        Ok(())
    }

    /// Returns the number of an inner class.
    fn inner_class(&self, class: ClassId) -> Option<u32> {
        let member = &self.queues.leaves.get(class.index())?.member;
        (member.place.is_any(Place::INNER) && member.link != NIL).then_some(member.link)
    }

    /// Takes a class that has nothing to send any more out of the queue of its parent, and so those above it.
    fn withdraw_removed(&mut self, mut child: u32) {
        loop {
            let place = self.queues.member(child).place;
            let parent = place.parent();
            match place.state() {
                State::Queued => self.queues.unlink(child),
                State::Waiting => self.queues.nodes[parent as usize].waiting -= 1,
                State::Off | State::Held => return,
            }
            let is_held = self.last != NIL && self.is_held_below(child);
            let waits = child & LEAF == 0 && self.queues.nodes[child as usize].waiting > 0;
            if child & LEAF == 0 && !is_held && place.state() == State::Queued {
                self.queues.start_anew(child);
            }
            if is_held {
                self.queues.leave(child, State::Held);
            } else if waits {
                self.queues.leave_waiting(child);
            } else {
                self.queues.leave(child, State::Off);
            }
            let node = &self.queues.nodes[parent as usize];
            if parent == ROOT {
                self.is_anew = node.on == 0 && self.last == NIL;
                if self.is_anew {
                    self.queues.start_anew(ROOT);
                }
                return;
            }
            let was = node.member.place.state();
            if node.on != 0 || was == State::Waiting && node.waiting > 0 {
                return;
            }
            child = parent;
        }
    }

    /// Returns true if the packet in transmission holds a child of `node`.
    fn is_held_below(&self, node: u32) -> bool {
        let mut child = self.last | LEAF;
        loop {
            let place = self.queues.member(child).place;
            if place.state() != State::Held || place.parent() == ROOT {
                return false;
            }
            child = place.parent();
            if child == node {
                return true;
            }
        }
    }
}

impl Queues {
    /// Returns the number of levels above the children of `node`.
    fn depth(&self, mut node: u32) -> usize {
        let mut depth = 0;
        while node != ROOT {
            node = self.nodes[node as usize].member.place.parent();
            depth += 1;
        }
        depth
    }

    /// Returns the inverse weight of a new child of `node`, and the weight as it runs.
    fn units_of(&self, node: u32, config: &ClassConfig) -> Result<(u64, u64), SingleError> {
        let sum = &self.sums[node as usize];
        let raw = match config.share {
            None => 1,
            Some(Share::Guarantee(rate)) => rate.bps(),
            Some(Share::Weight(weight)) => weight,
        };
        let least = (u128::from(self.max_packet) << sum.bits).div_ceil(1 << REACH) as u64;
        let weight = raw.max(least).max(1);
        // Heavier ones would have been scaled.
        if sum.is_scaled || sum.weight + weight > 1 << 40 || sum.rate_with(weight) >> LEAST_BITS == 0 {
            return Err(SingleError::Units);
        }
        Ok(((1u128 << sum.bits).div_ceil(weight.into()) as u64, weight))
    }

    /// Returns the group of `node` for a child of the inverse weight `inverse`.
    fn group_for(&self, node: u32, inverse: u64) -> Result<u32, SingleError> {
        let (sum, distance) = (&self.sums[node as usize], inverse * self.max_packet);
        let node = &self.nodes[node as usize];
        let fits = |&group: &u32| {
            let entry = Self::entry(node, &self.entries, group);
            if node.is_wheel {
                self.groups[entry.base as usize].has_room_for(distance)
            } else {
                entry.distance == distance
            }
        };
        if !node.is_wheel && sum.children as usize >= SCANNED {
            return Err(SingleError::Group);
        }
        let first = u32::from(node.is_wheel);
        (first..first + sum.groups).find(fits).ok_or(SingleError::Group)
    }

    fn has_free_item(&self) -> bool {
        self.free_item != NIL || !self.items.is_full()
    }

    /// Counts a new child in a group of `node`.
    fn grow(&mut self, node: u32, (group, inverse): (u32, u64), weight: u64) {
        let own = &mut self.nodes[node as usize];
        if !own.is_wheel {
            Self::entry_mut(own, &mut self.entries, group).grow(&mut self.items, &mut self.free_item);
        }
        let sum = &mut self.sums[node as usize];
        sum.forget(own);
        sum.add(weight);
        self.set_rate(node);
        let reach = (inverse * self.max_packet).max(1).ilog2() + 2;
        let known = &mut self.reaches[node as usize];
        *known = (*known).max(reach.min(super::ERA + 2) as u8);
    }

    /// No longer counts `child`, which is in no queue and has left.
    fn shrink(&mut self, child: u32) {
        let member = *self.member(child);
        let node = member.place.parent();
        let own = &mut self.nodes[node as usize];
        let tag = member.lifted(own, 2 * member.inverse * self.max_packet);
        let ahead = tag.wrapping_sub(own.v);
        let sum = &mut self.sums[node as usize];
        sum.forget(own);
        sum.sub(member.inverse);
        if ahead > 0 {
            sum.leave(own, member.inverse, ahead);
        }
        if !own.is_wheel {
            let entry = Self::entry_mut(own, &mut self.entries, member.place.group());
            entry.shrink(&mut self.items, &mut self.free_item);
        }
        self.set_rate(node);
        // An inner class that is gone is never ahead.
        self.come(child);
    }

    /// Takes `child` out of the queue of its parent.
    fn unlink(&mut self, child: u32) {
        let Member { tag, place, link, .. } = *self.member(child);
        let node = &mut self.nodes[place.parent() as usize];
        let (bit, is_wheel) = (1 << place.group(), node.is_wheel);
        let entry = Self::entry_mut(node, &mut self.entries, place.group());
        if !is_wheel {
            if !entry.take(&mut self.items, child) {
                node.on &= !bit;
            }
            return;
        }
        let base = entry.base as usize;
        let (slot, before) = self.find_in_wheel(base, tag, child);
        let entry = &mut self.entries[(self.nodes[place.parent() as usize].entries + place.group() - 1) as usize];
        if before != NIL {
            wheel::take_behind(&mut self.groups[base], slot, (before, child), link);
            self.member_mut(before).link = link;
        } else if !wheel::take_from(&mut self.groups[base], entry, slot, link) {
            self.nodes[place.parent() as usize].on &= !bit;
        }
    }

    /// Returns the slot of `child` in a group of a wheel, and the child before it there. That of its tag is looked at
    /// first.
    fn find_in_wheel(&self, group: usize, tag: u64, child: u32) -> (u32, u32) {
        for (slot, first) in self.groups[group].firsts_from_slot_of(tag) {
            let (mut before, mut at) = (NIL, first);
            while at != NIL {
                if at == child {
                    return (slot, before);
                }
                (before, at) = (at, self.member(at).link);
            }
        }
        unreachable!("a queued child is in a slot of its group")
    }
}

impl Group {
    /// Returns true if a child with `distance` fits: it is within the half octave, and not farther than the others.
    fn has_room_for(&self, distance: u64) -> bool {
        let most = self.distance - self.width();
        distance <= most && wheel::key(distance) == wheel::key(most)
    }
}
