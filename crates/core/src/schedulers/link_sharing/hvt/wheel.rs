//! The queue of a class with many children: groups of children that have about the same distance to their deadlines,
//! and in a group a ring of slots of tags.
//!
//! A child is put into the slot of its tag, rounded down, and leaves it in order of arrival. The tag itself stays exact.
//! All that a group tells its parent is the start of its first slot and its distance. A distance is at least a slot
//! more than that of each child, so that the rounded tags still are those of jobs that can be done in time.

use alloc::boxed::Box;

use super::NIL;
use super::list::Entry;
use crate::contract::OutOfMemory;
use crate::parts::memory::{bytes_of, filled};

const SLOTS: u32 = 64;
/// A slot is at most this part of the distance of its group.
const SLOTS_PER_DISTANCE: u64 = 16;
/// Most groups of a wheel: half octaves. The shortest distances share a group if there are more. A word has bits for the groups
/// and for one more, that of a list.
const MOST_GROUPS: usize = 63;
/// The square root of two, times 2^63.
const ROOT_OF_TWO: u64 = 0xb504_f333_f9de_6484;

/// Number of the half octave of `distance`, which is not 0.
pub(super) fn key(distance: u64) -> u32 {
    let octave = distance.ilog2();
    2 * octave + u32::from(distance > ROOT_OF_TWO >> (63 - octave))
}

/// First and last child of a slot; undefined while it is empty.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

/// Children with distances within half an octave.
#[derive(Debug)]
pub(super) struct Group {
    /// The slots that are not empty, by their numbers modulo 64.
    pub(super) full: u64,
    /// Slots are 2 to this power wide.
    pub(super) shift: u32,
    /// Distance from the start of a slot to the deadline of its children, none of which is farther behind the virtual time.
    pub(super) distance: u64,
    /// No child is put into it that is farther behind the virtual time: urgent packets may delay it beyond its deadline.
    behind: u64,
    slots: Box<[Slot; SLOTS as usize]>,
}

impl Group {
    /// Makes one for children whose largest distance is `most`, `late` behind their deadlines at most.
    pub(super) fn new(most: u64, late: u64) -> Result<Self, OutOfMemory> {
        let (shift, distance) = shape(most, late);
        let slots = filled(SLOTS as usize, Slot { first: NIL, last: NIL })?;
        let Ok(slots) = slots.try_into() else { unreachable!("as many slots were made") };
        Ok(Self { full: 0, shift, distance, behind: distance + late, slots })
    }

    /// Width of a slot.
    pub(super) fn width(&self) -> u64 {
        1 << self.shift
    }

    #[inline(always)]
    fn bit(&self, start: u64) -> u32 {
        (start >> self.shift) as u32 % SLOTS
    }

    /// Returns the start of the slot for `tag`, at the virtual time `v`. `first` is the start of the first slot that is not
    /// empty.
    #[inline(always)]
    fn slot_of(&self, tag: u64, v: u64, first: u64) -> u64 {
        let mut base = v.wrapping_sub(self.behind) & !(self.width() - 1);
        if self.full != 0 && (first.wrapping_sub(base) as i64) < 0 {
            base = first;
        }
        let offset = (tag.wrapping_sub(base) as i64).max(0) as u64 >> self.shift;
        base.wrapping_add(offset.min(u64::from(SLOTS) - 1) << self.shift)
    }

    /// Empties a slot, and returns the first of its children. The order of the slots is lost.
    pub(super) fn take_any(&mut self) -> Option<u32> {
        let bit = self.full.trailing_zeros();
        self.full &= self.full.wrapping_sub(1);
        self.slots.get(bit as usize).map(|slot| slot.first)
    }

    /// Returns the start and the first child of each slot that is not empty, in their order. `first` is the start of
    /// the first.
    pub(super) fn firsts_from(&self, first: u64) -> impl Iterator<Item = (u64, u32)> {
        let ahead = move |bit: u32| u64::from(bit.wrapping_sub(self.bit(first)) % SLOTS) << self.shift;
        self.firsts_from_slot_of(first).map(move |(bit, child)| (first.wrapping_add(ahead(bit)), child))
    }

    /// Returns the slots that are not empty, that of `tag` first, with their first children.
    pub(super) fn firsts_from_slot_of(&self, tag: u64) -> impl Iterator<Item = (u32, u32)> {
        let first = self.bit(tag);
        let full = self.full;
        let bits = (first..first + SLOTS).map(|bit| bit % SLOTS).filter(move |bit| full >> bit & 1 != 0);
        bits.map(|bit| (bit, self.slots[bit as usize].first))
    }

    /// Returns the first child of each slot that is not empty, in the order of the slots' numbers, with that number.
    #[cfg(feature = "invariants")]
    pub(super) fn firsts(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.slots.iter()).filter(|(bit, _)| self.full >> bit & 1 != 0).map(|(bit, slot)| (bit, slot.first))
    }
}

/// Groups of siblings by the distances of their deadlines.
#[derive(Debug)]
pub(super) struct Groups {
    /// The largest distance of each group, ascending.
    most: [u64; MOST_GROUPS],
    count: usize,
    /// Of a wheel: the first half octave, and the group of each. Shorter distances are in the group of the first.
    octaves: Option<(u32, [u8; MOST_GROUPS])>,
    /// Most units by which a child may be behind its deadline.
    late: u64,
}

impl Groups {
    /// Makes a group for each distance, of at most 64.
    pub(super) fn of_lists(distances: impl Iterator<Item = u64>) -> Self {
        let mut groups = Self { most: [0; MOST_GROUPS], count: 0, octaves: None, late: 0 };
        for distance in distances {
            let at = groups.most().partition_point(|&other| other < distance);
            if groups.most().get(at) != Some(&distance) {
                groups.most.copy_within(at..groups.count, at + 1);
                groups.most[at] = distance;
                groups.count += 1;
            }
        }
        groups
    }

    /// Makes a group for each half octave of distances, of children that are `late` behind their deadlines at most.
    pub(super) fn of_wheel(distances: impl Iterator<Item = u64> + Clone, late: u64) -> Self {
        let last = distances.clone().map(key).max().unwrap_or(0);
        let first = last.saturating_sub(MOST_GROUPS as u32 - 1);
        let mut most = [0; MOST_GROUPS];
        for distance in distances {
            let most = &mut most[place(distance, first)];
            *most = distance.max(*most);
        }
        let (mut group, mut count) = ([0; MOST_GROUPS], 0);
        for at in 0..MOST_GROUPS {
            if most[at] > 0 {
                group[at] = count as u8;
                most[count] = most[at];
                count += 1;
            }
        }
        Self { most, count, octaves: Some((first, group)), late }
    }

    /// Returns the index of the group for `distance`.
    pub(super) fn group_of(&self, distance: u64) -> u32 {
        match &self.octaves {
            Some((first, group)) => group[place(distance, *first)].into(),
            None => self.most().partition_point(|&other| other < distance) as u32,
        }
    }

    /// Returns the largest distance of each group.
    pub(super) fn most(&self) -> &[u64] {
        &self.most[..self.count]
    }

    /// Returns the width of the slots, and the distance, of the group for `distance`.
    pub(super) fn of(&self, distance: u64) -> (u64, u64) {
        if self.octaves.is_none() {
            return (0, distance);
        }
        let (shift, of_group) = shape(self.most[self.group_of(distance) as usize], self.late);
        (1 << shift, of_group)
    }
}

/// Returns the place of the half octave of `distance` behind the half octave `first`.
fn place(distance: u64, first: u32) -> usize {
    key(distance).saturating_sub(first) as usize % MOST_GROUPS
}

/// Returns the width of slots as a power of two, and the distance, of a group whose children have a distance of at most `most`
/// and are `late` behind their deadlines at most. So far back the ring has slots, and for half a distance ahead: a ring that ended
/// behind the virtual time would put a child ahead of it into the same slot again and again.
fn shape(most: u64, late: u64) -> (u32, u64) {
    let mut shift = (most / SLOTS_PER_DISTANCE).max(1).ilog2();
    // Of 64 slots one is the width in the distance, and one is lost to rounding down.
    while (u128::from(SLOTS - 3) << shift) < u128::from(most) * 3 / 2 + u128::from(late) && late > 0 {
        shift += 1;
    }
    (shift, most + (1 << shift))
}

/// Upper bound, in bytes, of the memory of the groups of a wheel with `children` children.
pub(super) fn memory(children: usize) -> u64 {
    (bytes_of::<Group>(1) + bytes_of::<Slot>(SLOTS as usize)) * most_groups(children) as u64
}

/// Upper bound of the number of groups of a wheel with `children` children.
pub(super) fn most_groups(children: usize) -> usize {
    children.min(MOST_GROUPS)
}

/// Appends `child`, with the tag `tag`, to its slot of `group`, whose entry at its parent is `entry`, at the virtual time
/// `v`. Returns the child that it is behind, if there is one in the slot.
#[inline(always)]
pub(super) fn append(group: &mut Group, entry: &mut Entry, (child, tag, v): (u32, u64, u64)) -> Option<u32> {
    let start = group.slot_of(tag, v, entry.start);
    let bit = group.bit(start);
    let slot = &mut group.slots[bit as usize];
    let last = (group.full >> bit & 1 != 0).then_some(slot.last);
    if last.is_none() {
        slot.first = child;
    }
    slot.last = child;
    if group.full == 0 || (start.wrapping_sub(entry.start) as i64) < 0 {
        entry.start = start;
    }
    group.full |= 1 << bit;
    last
}

/// Returns the first child of `group`.
#[inline(always)]
pub(super) fn first(group: &Group, entry: &Entry) -> u32 {
    group.slots[group.bit(entry.start) as usize].first
}

/// Takes out `child`, which is behind `before` in the slot `bit`, and before `next`.
pub(super) fn take_behind(group: &mut Group, bit: u32, (before, child): (u32, u32), next: u32) {
    let slot = &mut group.slots[bit as usize];
    debug_assert!(next != NIL || slot.last == child);
    if next == NIL {
        slot.last = before;
    }
}

/// Takes out the first child of the slot `bit`, behind which `next` is the next one. Returns true if others are left in
/// the group.
pub(super) fn take_from(group: &mut Group, entry: &mut Entry, bit: u32, next: u32) -> bool {
    if bit == group.bit(entry.start) {
        return take_first(group, entry, next);
    }
    group.slots[bit as usize].first = next;
    if next == NIL {
        group.full &= !(1 << bit);
    }
    true
}

/// Takes out the first child of `group`, behind which `next` is the next one. Returns true if others are left.
#[inline(always)]
pub(super) fn take_first(group: &mut Group, entry: &mut Entry, next: u32) -> bool {
    let bit = group.bit(entry.start);
    let slot = &mut group.slots[bit as usize];
    slot.first = next;
    if next != NIL {
        return true;
    }
    group.full &= !(1 << bit);
    if group.full == 0 {
        return false;
    }
    let ahead = group.full.rotate_right(bit).trailing_zeros();
    entry.start = entry.start.wrapping_add(u64::from(ahead) << group.shift);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_half_octaves() {
        for (distance, number) in [(1, 0), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (7, 5), (8, 6), (1 << 40, 80)] {
            assert_eq!(key(distance), number, "{distance}");
        }
        // 2^40.5 is 1554944255987.8.
        assert_eq!((key(1_554_944_255_987), key(1_554_944_255_988)), (80, 81));
    }

    #[test]
    fn children_of_one_weight_have_a_group_with_a_sixteenth_more_than_their_distance() {
        let groups = Groups::of_wheel([1u64 << 30; 30].into_iter(), 0);
        assert_eq!((groups.most().len(), groups.of(1 << 30)), (1, (1 << 26, (1 << 30) + (1 << 26))));
    }

    #[test]
    fn a_ring_has_slots_as_far_back_as_children_may_be_late_and_half_a_distance_ahead() {
        let most = 1u64 << 30;
        for late in (0..4000).map(|part| part * (most / 16)) {
            let group = Group::new(most, late).unwrap();
            let v = 1u64 << 50;
            for ahead in [-((group.distance + late) as i64), -(most as i64), -1, 0, (most / 2) as i64] {
                let tag = v.wrapping_add_signed(ahead);
                let start = group.slot_of(tag, v, 0);
                assert!(start <= tag && tag - start < group.width(), "{late}, {ahead}: {start}");
            }
        }
    }
}
