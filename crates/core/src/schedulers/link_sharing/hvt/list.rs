//! Children of one weight: a list in the order of their tags.

use super::NIL;
use crate::parts::memory::Stack;

/// A group of children of one class: those of one weight, or of a group of its wheel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The start of the first child.
    pub(super) start: u64,
    /// From a start to its deadline.
    pub(super) distance: u64,
    /// The tag of the last child of a list.
    last: u64,
    /// The first child of a list.
    pub(super) first: u32,
    /// Of a wheel, the number of the group.
    pub(super) base: u32,
    /// The places of the first and of the last child of a list.
    head: u32,
    end: u32,
    /// The first free place of a list; [`NIL`] if none.
    free: u32,
}

/// A place for a child in the list of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) tag: u64,
    pub(super) child: u32,
    /// The next place; behind the last child, that of the first. So a first child that becomes the last stays where it
    /// is. Of a free place, the next free one.
    next: u32,
}

impl Entry {
    /// Makes an entry for the group `base` of a wheel.
    pub(super) const fn of_wheel(base: u32, distance: u64) -> Self {
        Self { start: 0, distance, last: 0, first: NIL, base, head: NIL, end: NIL, free: NIL }
    }

    /// Makes an entry for the list of `children`, one or more, with new places in `items`.
    pub(super) fn of_list(items: &mut Stack<Item>, children: usize, distance: u64) -> Self {
        let free = items.len() as u32;
        let last = free + children as u32 - 1;
        for next in free + 1..=last {
            items.push(Item { tag: 0, child: NIL, next });
        }
        items.push(Item { tag: 0, child: NIL, next: NIL });
        Self { free, ..Self::of_wheel(NIL, distance) }
    }

    /// Returns the entry of a wheel, with the group `base`.
    pub(super) const fn moved_to(self, base: u32) -> Self {
        Self { base, ..self }
    }

    /// Returns the children of a list that is not empty, in order.
    pub(super) fn list(self, items: &[Item]) -> impl Iterator<Item = Item> {
        let mut next = Some(self.head);
        core::iter::from_fn(move || {
            let place = next?;
            let item = items[place as usize];
            next = (place != self.end).then_some(item.next);
            Some(item)
        })
    }

    /// Returns the tag of the last child of a list.
    #[cfg(feature = "invariants")]
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Empties a list that is not empty.
    pub(super) fn clear(&mut self, items: &mut [Item]) {
        items[self.end as usize].next = self.free;
        self.free = self.head;
    }

    /// Gets a place for one more child: that at `free`, the first of others, or a new one.
    pub(super) fn grow(&mut self, items: &mut Stack<Item>, free: &mut u32) {
        let place = if *free == NIL {
            items.push(Item { tag: 0, child: NIL, next: NIL });
            items.len() as u32 - 1
        } else {
            core::mem::replace(free, items[*free as usize].next)
        };
        items[place as usize].next = self.free;
        self.free = place;
    }

    /// Gives the place of a child that is gone back to the places at `free`.
    pub(super) fn shrink(&mut self, items: &mut [Item], free: &mut u32) {
        let place = self.free;
        self.free = core::mem::replace(&mut items[place as usize].next, *free);
        *free = place;
    }

    /// Takes `child` out of a list. Returns false if it was the only one.
    pub(super) fn take(&mut self, items: &mut [Item], child: u32) -> bool {
        if self.first == child {
            return self.take_first(items);
        }
        let mut before = self.head;
        loop {
            let place = items[before as usize].next;
            if items[place as usize].child == child {
                items[before as usize].next = core::mem::replace(&mut items[place as usize].next, self.free);
                self.free = place;
                if place == self.end {
                    (self.end, self.last) = (before, items[before as usize].tag);
                }
                return true;
            }
            before = place;
        }
    }

    /// Puts `child`, with the tag `tag`, into a free place, before the place `next`. Returns the place.
    #[inline(always)]
    fn fill(&mut self, items: &mut [Item], (tag, child): (u64, u32), next: u32) -> u32 {
        let place = self.free;
        let item = &mut items[place as usize];
        self.free = item.next;
        *item = Item { tag, child, next };
        place
    }

    /// Puts `child`, with the tag `tag`, into a list, in the order of tags, behind equal ones.
    #[inline(always)]
    pub(super) fn put(&mut self, items: &mut [Item], is_empty: bool, (tag, child): (u64, u32)) {
        if is_empty { self.begin(items, (tag, child)) } else { self.insert(items, (tag, child)) }
    }

    #[inline(always)]
    fn begin(&mut self, items: &mut [Item], (tag, child): (u64, u32)) {
        let place = self.free;
        self.fill(items, (tag, child), place);
        (self.head, self.end) = (place, place);
        (self.start, self.first, self.last) = (tag, child, tag);
    }

    #[inline(always)]
    fn insert(&mut self, items: &mut [Item], (tag, child): (u64, u32)) {
        let place = self.fill(items, (tag, child), self.head);
        if is_before(tag, self.last) {
            return self.link(items, place, tag);
        }
        items[self.end as usize].next = place;
        (self.end, self.last) = (place, tag);
    }

    /// Links the item at `place`, whose tag `tag` is before the last one of the list, in the order of tags.
    #[inline(never)]
    fn link(&mut self, items: &mut [Item], place: u32, tag: u64) {
        if is_before(tag, self.start) {
            let item = &mut items[place as usize];
            item.next = self.head;
            (self.start, self.first) = (tag, item.child);
            self.head = place;
            items[self.end as usize].next = place;
            return;
        }
        let mut before = self.head;
        let next = loop {
            let next = items[before as usize].next;
            if is_before(tag, items[next as usize].tag) {
                break next;
            }
            before = next;
        };
        items[place as usize].next = next;
        items[before as usize].next = place;
    }

    /// Puts the first child, whose tag has grown to `tag`, in its new place.
    #[inline(always)]
    pub(super) fn rotate(&mut self, items: &mut [Item], tag: u64) {
        let place = self.head;
        let item = &mut items[place as usize];
        item.tag = tag;
        let next = item.next;
        if is_before(tag, self.last) {
            items[self.end as usize].next = next;
            self.begin_at(items, next);
            return self.link(items, place, tag);
        }
        (self.end, self.last) = (place, tag);
        self.begin_at(items, next);
    }

    /// Makes the item at `place` the first.
    #[inline(always)]
    fn begin_at(&mut self, items: &[Item], place: u32) {
        let item = &items[place as usize];
        (self.start, self.first, self.head) = (item.tag, item.child, place);
    }

    /// Takes out the first child. Returns false if it was the only one.
    #[inline(always)]
    pub(super) fn take_first(&mut self, items: &mut [Item]) -> bool {
        let place = self.head;
        let next = core::mem::replace(&mut items[place as usize].next, self.free);
        self.free = place;
        if place == self.end {
            return false;
        }
        items[self.end as usize].next = next;
        self.begin_at(items, next);
        true
    }
}

/// Returns true if `tag` is before `other`.
#[inline(always)]
const fn is_before(tag: u64, other: u64) -> bool {
    (tag.wrapping_sub(other) as i64) < 0
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The tags and children of a list, in order, and the number of its free places.
    fn contents(entry: &Entry, items: &[Item], is_empty: bool) -> (Vec<(u64, u32)>, usize) {
        let listed = if is_empty { Vec::new() } else { entry.list(items).map(|item| (item.tag, item.child)).collect() };
        let mut free = Vec::new();
        let mut next = entry.free;
        while next != NIL {
            free.push(next);
            next = items[next as usize].next;
        }
        (listed, free.len())
    }

    proptest! {
        #[test]
        fn a_list_is_in_the_order_of_tags_and_of_arrival_and_loses_no_place(
            calls in proptest::collection::vec((0u8..8, 0u64..6), 1..200),
            // Tags may wrap.
            from in prop_oneof![Just(0u64), Just(u64::MAX - 20)],
        ) {
            let mut items = Stack::with_room(3 + 5).unwrap();
            let other = Entry::of_list(&mut items, 3, 0);
            let mut entry = Entry::of_list(&mut items, 5, 0);
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut clock = from;
            for (child, (call, ahead)) in (0u32..).zip(calls) {
                let tag = clock.wrapping_add(ahead);
                let insert = |model: &mut Vec<(u64, u32)>, (tag, child)| {
                    let at = model.partition_point(|&(other, _)| !is_before(tag, other));
                    model.insert(at, (tag, child));
                };
                match call {
                    0..=2 if model.len() < 5 => {
                        entry.put(&mut items, model.is_empty(), (tag, child));
                        insert(&mut model, (tag, child));
                    }
                    3..=5 if !model.is_empty() => {
                        let (was, first) = model.remove(0);
                        entry.rotate(&mut items, was.wrapping_add(ahead));
                        insert(&mut model, (was.wrapping_add(ahead), first));
                    }
                    6 if !model.is_empty() => {
                        model.remove(0);
                        prop_assert_eq!(entry.take_first(&mut items), !model.is_empty());
                    }
                    7 if ahead == 0 && !model.is_empty() => {
                        entry.clear(&mut items);
                        model.clear();
                    }
                    _ => clock = clock.wrapping_add(1),
                }
                let free = 5 - model.len();
                prop_assert_eq!(contents(&entry, &items, model.is_empty()), (model.clone(), free));
                if let Some(&first) = model.first() {
                    prop_assert_eq!((entry.start, entry.first), first);
                    prop_assert_eq!(entry.last, model[model.len() - 1].0);
                }
                prop_assert_eq!(contents(&other, &items, true), (Vec::new(), 3));
            }
        }
    }
}
