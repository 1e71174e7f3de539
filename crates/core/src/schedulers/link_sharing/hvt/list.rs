//! Children of one weight: a list in the order of their tags.

use super::NIL;

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
    /// The first place of a list; of a wheel, the number of the group.
    pub(super) base: u32,
    /// A list is in a ring of one place more than this, a power of two.
    mask: u32,
    /// The place of the first child, and the place behind the last, modulo the places of the ring.
    head: u32,
    tail: u32,
}

/// Most places of lists for each child: their numbers are powers of two.
pub(super) const MOST_ITEMS: usize = 2;

/// A place in the list of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) tag: u64,
    pub(super) child: u32,
}

impl Item {
    pub(super) const NONE: Self = Self { tag: 0, child: NIL };
}

impl Entry {
    /// Makes an entry for the list of `children` with its places from `base` on; for a wheel, of the group `base`.
    pub(super) const fn new(base: u32, children: usize, distance: u64) -> Self {
        let mask = Self::room(children) as u32 - 1;
        Self { start: 0, distance, last: 0, first: NIL, base, mask, head: 0, tail: 0 }
    }

    /// Places for `children`.
    pub(super) const fn room(children: usize) -> usize {
        children.next_power_of_two()
    }

    /// Returns the places of its list.
    pub(super) fn places(&self) -> core::ops::Range<usize> {
        self.base as usize..(self.base + self.mask) as usize + 1
    }

    /// Returns it with its places from `base` on, or of a wheel with the group `base`.
    pub(super) const fn moved_to(self, base: u32) -> Self {
        Self { base, ..self }
    }

    /// Returns the children of its list, in order, which is in `items`.
    pub(super) fn list(self, items: &[Item]) -> impl Iterator<Item = Item> {
        (0..self.tail.wrapping_sub(self.head)).map(move |at| items[self.at(self.head.wrapping_add(at))])
    }

    /// Returns the tag of the last child of a list.
    #[cfg(feature = "invariants")]
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the index of a place.
    #[inline(always)]
    const fn at(&self, place: u32) -> usize {
        (self.base + (place & self.mask)) as usize
    }

    /// Begins a list with `item`.
    #[inline(always)]
    pub(super) fn begin(&mut self, items: &mut [Item], item: Item) {
        self.head = self.tail;
        self.append(items, item);
        (self.start, self.first) = (item.tag, item.child);
    }

    /// Puts `item` into a list that is not empty, in the order of tags, behind equal ones.
    #[inline(always)]
    pub(super) fn insert(&mut self, items: &mut [Item], item: Item) {
        if is_before(item.tag, self.last) {
            return self.insert_between(items, item);
        }
        self.append(items, item);
    }

    #[inline(always)]
    fn append(&mut self, items: &mut [Item], item: Item) {
        items[self.at(self.tail)] = item;
        self.tail = self.tail.wrapping_add(1);
        self.last = item.tag;
    }

    /// Puts `item` before the last.
    #[inline(never)]
    fn insert_between(&mut self, items: &mut [Item], item: Item) {
        if is_before(item.tag, self.start) {
            self.head = self.head.wrapping_sub(1);
            items[self.at(self.head)] = item;
            (self.start, self.first) = (item.tag, item.child);
            return;
        }
        let mut place = self.tail;
        self.tail = self.tail.wrapping_add(1);
        loop {
            let before = items[self.at(place.wrapping_sub(1))];
            if !is_before(item.tag, before.tag) {
                break;
            }
            items[self.at(place)] = before;
            place = place.wrapping_sub(1);
        }
        items[self.at(place)] = item;
    }

    /// Puts the first child, whose tag is now `tag`, in its new place.
    #[inline(always)]
    pub(super) fn rotate(&mut self, items: &mut [Item], tag: u64) {
        let item = Item { tag, child: self.first };
        if is_before(tag, self.last) {
            self.take_first(items);
            return self.insert_between(items, item);
        }
        // The place behind the last may be that of the first.
        self.append(items, item);
        self.take_first(items);
    }

    /// Takes out the first child. Returns false if it was the only one.
    #[inline(always)]
    pub(super) fn take_first(&mut self, items: &[Item]) -> bool {
        self.head = self.head.wrapping_add(1);
        let next = items[self.at(self.head)];
        (self.start, self.first) = (next.tag, next.child);
        self.head != self.tail
    }
}

/// Returns true if `tag` is before `other`.
#[inline(always)]
const fn is_before(tag: u64, other: u64) -> bool {
    (tag.wrapping_sub(other) as i64) < 0
}
