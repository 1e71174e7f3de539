//! The order of visits of a large tree: by class, if the list lasts.
//!
//! The paper visits the active leaves in an arbitrary order (Section IV), and its bounds hold for any: Theorem 5 adds
//! up two whole rounds. Small trees have the order in which leaves became active. In a large tree leaves are visited by
//! the numbers of their classes, so that those of one inner class are adjacent: the classes above them, and their
//! ceilings, are then in the cache. Leaves that come and go would have to be re-sorted in each round, which costs as
//! much as it gains. So the list of a main round is sorted only if few are new in it.
//!
//! **Cost.** About ten instructions for each leaf of a sorted list, all of which are visited next; none if no leaf is
//! new.

use alloc::boxed::Box;

use crate::contract::{Hierarchy, OutOfMemory};
use crate::parts::memory::{bytes_of, filled};

/// Minimum number of leaves for sorting to pay; smaller trees fit in the cache.
const FROM: usize = 1 << 11;
/// One leaf in this many may be new in a list that is sorted.
const NEW_ONE_IN: usize = 8;

/// The state for sorted lists of visits, if they are used.
#[derive(Debug)]
pub(super) struct Sorting {
    /// A bit per class, in a tree whose lists are sorted; all are clear between two calls.
    bits: Box<[u64]>,
    /// Leaves that were appended since the latest main round began.
    new: usize,
    /// True if any was appended since the list was sorted.
    due: bool,
}

/// Returns true if lists of `tree` are sorted.
pub(super) fn sorts(tree: &Hierarchy) -> bool {
    tree.leaves().len() >= FROM
}

fn words(classes: usize) -> usize {
    classes.div_ceil(64)
}

/// Returns true if sorting a list of `len` leaves, `new` of which are at its end, pays off.
pub(super) const fn is_worth(new: usize, len: usize) -> bool {
    new * NEW_ONE_IN <= len
}

impl Sorting {
    /// Makes the order for `tree`.
    pub(super) fn new(tree: &Hierarchy) -> Result<Self, OutOfMemory> {
        let bits = filled(if sorts(tree) { words(tree.len()) } else { 0 }, 0)?;
        Ok(Self { bits, new: 0, due: false })
    }

    /// Makes an order for a tree of `classes` classes, even for few classes.
    #[cfg(test)]
    pub(super) fn always(classes: usize) -> Self {
        Self { bits: alloc::vec![0; words(classes)].into_boxed_slice(), new: 0, due: false }
    }

    /// Bytes that one for `tree` takes.
    pub(super) fn memory(tree: &Hierarchy) -> u64 {
        if sorts(tree) { bytes_of::<u64>(words(tree.len())) } else { 0 }
    }

    /// Records that `leaves` were appended to the list.
    pub(super) fn appended(&mut self, leaves: usize) {
        self.new += leaves;
        self.due |= leaves > 0;
    }

    /// Begins a main round that visits the leaves of `list` in its order.
    #[inline]
    pub(super) fn begin_main_round(&mut self, list: &mut [u32]) {
        let new = core::mem::take(&mut self.new);
        if self.due && !self.bits.is_empty() && is_worth(new, list.len()) {
            self.sort(list);
        }
    }

    #[cold]
    fn sort(&mut self, list: &mut [u32]) {
        self.due = false;
        if list.len() < self.bits.len() {
            list.sort_unstable();
            return;
        }
        for &id in &*list {
            self.bits[id as usize / 64] |= 1 << (id % 64);
        }
        let mut places = list.iter_mut();
        for (at, word) in self.bits.iter_mut().enumerate() {
            let mut left = core::mem::take(word);
            while left != 0
                && let Some(place) = places.next()
            {
                *place = (at * 64) as u32 + left.trailing_zeros();
                left &= left - 1;
            }
        }
    }

    /// Resets to the initial state.
    pub(super) fn reset(&mut self) {
        (self.new, self.due) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_sorted_once_few_are_new_in_it(
            list in proptest::collection::btree_set(0u32..1000, 0..600).prop_map(alloc::vec::Vec::from_iter).prop_shuffle(),
            new in 0usize..100,
        ) {
            let mut sorting = Sorting::always(1000);
            sorting.appended(list.len());
            let mut seen = list.clone();
            sorting.begin_main_round(&mut seen);
            prop_assert_eq!(&seen, &list, "all are new");
            sorting.appended(new);
            sorting.begin_main_round(&mut seen);
            let mut sorted = list.clone();
            sorted.sort_unstable();
            prop_assert_eq!(seen, if new * NEW_ONE_IN <= list.len() { sorted } else { list });
            prop_assert!(sorting.bits.iter().all(|&word| word == 0));
        }
    }
}
