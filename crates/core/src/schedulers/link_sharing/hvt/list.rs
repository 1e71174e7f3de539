//! Children of one weight: a list in the order of their tags.

use super::NIL;

/// A group of children of one class: those of one weight, or of a group of its wheel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Of the first child: the start, and the deadline.
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The tag of the last child of a list.
    pub(super) last: u64,
    /// The first child of a list.
    pub(super) first: u32,
    /// The first place for the others; of a wheel, the number of the group.
    pub(super) base: u32,
    /// The others are in a ring of one place more than this, a power of two.
    mask: u32,
    head: u32,
    pub(super) others: u32,
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
    pub(super) const fn new(base: u32, children: usize) -> Self {
        let mask = Self::room(children) as u32 - 1;
        Self { start: 0, finish: 0, last: 0, first: NIL, base, mask, head: 0, others: 0 }
    }

    /// Places for the others of `children`.
    pub(super) const fn room(children: usize) -> usize {
        children.next_power_of_two()
    }

    /// Returns the places of its list.
    pub(super) fn places(&self) -> core::ops::Range<usize> {
        self.base as usize..(self.base + self.mask) as usize + 1
    }

    /// Returns the index of the place `place` of the others.
    #[inline(always)]
    pub(super) const fn at(&self, place: u32) -> usize {
        (self.base + (self.head.wrapping_add(place) & self.mask)) as usize
    }

    /// Begins a list with `item`.
    #[inline(always)]
    pub(super) const fn begin(&mut self, Item { tag, child }: Item, distance: u64) {
        (self.start, self.finish, self.last) = (tag, tag.wrapping_add(distance), tag);
        (self.first, self.others) = (child, 0);
    }

    /// Puts `item` into a list that is not empty, in the order of tags, behind equal ones.
    #[inline(always)]
    pub(super) fn insert(&mut self, items: &mut [Item], item: Item) {
        if is_before(item.tag, self.last) {
            return self.insert_between(items, item);
        }
        items[self.at(self.others)] = item;
        self.others += 1;
        self.last = item.tag;
    }

    /// Puts `item` before the last.
    #[inline(never)]
    fn insert_between(&mut self, items: &mut [Item], item: Item) {
        if is_before(item.tag, self.start) {
            self.head = self.head.wrapping_sub(1);
            items[self.at(0)] = Item { tag: self.start, child: self.first };
            self.others += 1;
            return self.lead(item);
        }
        let mut place = self.others;
        while place > 0 && is_before(item.tag, items[self.at(place - 1)].tag) {
            items[self.at(place)] = items[self.at(place - 1)];
            place -= 1;
        }
        items[self.at(place)] = item;
        self.others += 1;
    }

    /// Puts the first child, whose tag is now `tag`, in its new place.
    #[inline(always)]
    pub(super) fn rotate(&mut self, items: &mut [Item], tag: u64) {
        let item = Item { tag, child: self.first };
        if self.others == 0 {
            self.last = tag;
            return self.lead(item);
        }
        let next = items[self.at(0)];
        self.head = self.head.wrapping_add(1);
        self.others -= 1;
        self.lead(next);
        self.insert(items, item);
    }

    /// Takes out the first child. Returns false if it was the only one.
    #[inline]
    pub(super) fn take_first(&mut self, items: &[Item]) -> bool {
        if self.others == 0 {
            return false;
        }
        let next = items[self.at(0)];
        self.head = self.head.wrapping_add(1);
        self.others -= 1;
        self.lead(next);
        true
    }

    /// Makes `item` the first.
    #[inline(always)]
    const fn lead(&mut self, Item { tag, child }: Item) {
        self.finish = self.finish.wrapping_add(tag.wrapping_sub(self.start));
        (self.start, self.first) = (tag, child);
    }
}

/// Returns true if `tag` is before `other`.
#[inline(always)]
const fn is_before(tag: u64, other: u64) -> bool {
    (tag.wrapping_sub(other) as i64) < 0
}
