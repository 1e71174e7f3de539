//! Sets of small numbers in which the next member after any number is found in four steps at most.
//!
//! A set of the numbers below `size` lies in [`words`] words that the caller owns, so that many sets can share one
//! allocation. The lowest layer has a bit per number. Each layer above has a bit per word of the layer below, up to a
//! layer of one word.
//!
//! **Cost.** O(log n) to the base 64, for all operations. Nothing is allocated.
//!
//! **Invariants.** A bit of an upper layer is set exactly when its word in the layer below is not zero.

/// Layers of a set of up to 2^24 numbers.
const LAYERS: usize = 4;

/// Words of a set of the numbers below `size`, which is at most 2^24.
#[must_use]
pub(crate) fn words(size: usize) -> usize {
    let mut layer = size.div_ceil(64).max(1);
    let mut words = layer;
    while layer > 1 {
        layer = layer.div_ceil(64);
        words += layer;
    }
    words
}

/// Inserts `number`, which is below `size`. Returns true if the set was empty before.
#[inline]
pub(crate) fn insert(set: &mut [u64], size: usize, number: usize) -> bool {
    let (mut start, mut layer, mut at) = (0, size.div_ceil(64).max(1), number);
    loop {
        let word = &mut set[start + at / 64];
        let before = *word;
        *word |= 1 << (at % 64);
        if before != 0 || layer == 1 {
            return before == 0;
        }
        start += layer;
        layer = layer.div_ceil(64);
        at /= 64;
    }
}

/// Removes `number`, which is below `size`. Returns true if the set is now empty.
#[inline]
pub(crate) fn remove(set: &mut [u64], size: usize, number: usize) -> bool {
    let (mut start, mut layer, mut at) = (0, size.div_ceil(64).max(1), number);
    loop {
        let word = &mut set[start + at / 64];
        *word &= !(1 << (at % 64));
        if *word != 0 || layer == 1 {
            return *word == 0;
        }
        start += layer;
        layer = layer.div_ceil(64);
        at /= 64;
    }
}

/// Returns true if `number`, which is below `size`, is in the set.
#[must_use]
#[cfg(any(test, feature = "invariants"))]
pub(crate) fn contains(set: &[u64], number: usize) -> bool {
    set[number / 64] & (1 << (number % 64)) != 0
}

/// Returns true if the set is empty.
#[must_use]
#[inline]
pub(crate) fn is_empty(set: &[u64]) -> bool {
    // The top layer is the last word.
    set.last().is_none_or(|&top| top == 0)
}

/// Returns the smallest member that is at least `from`.
#[must_use]
#[inline(always)]
pub(crate) fn next(set: &[u64], size: usize, from: usize) -> Option<usize> {
    // Mostly it is in the same word: a few instructions at the place of the call, and no layers.
    if from < size {
        let word = set[from / 64] >> (from % 64);
        if word != 0 {
            return Some(from + word.trailing_zeros() as usize);
        }
    }
    next_beyond(set, size, from)
}

#[inline(never)]
fn next_beyond(set: &[u64], size: usize, from: usize) -> Option<usize> {
    let mut starts = [0; LAYERS];
    let (mut depth, mut layer, mut at) = (0, size.div_ceil(64).max(1), from);
    loop {
        // `at` may lie just beyond the layer's bits, and then beyond its words.
        let found = if at / 64 < layer { set[starts[depth] + at / 64] & (u64::MAX << (at % 64)) } else { 0 };
        if found != 0 {
            at = at / 64 * 64 + found.trailing_zeros() as usize;
            break;
        }
        if layer == 1 {
            return None;
        }
        starts[depth + 1] = starts[depth] + layer;
        depth += 1;
        layer = layer.div_ceil(64);
        at = at / 64 + 1;
    }
    for &start in starts[..depth].iter().rev() {
        at = at * 64 + set[start + at].trailing_zeros() as usize;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_finds_its_next_member_as_an_ordered_set_does(
            size in prop_oneof![1usize..200, Just(64), Just(4096), 4000usize..300_000],
            steps in proptest::collection::vec((any::<u32>(), any::<u32>(), 0u8..3), 1..200),
        ) {
            let mut set = alloc::vec![0; words(size)];
            let mut model = BTreeSet::new();
            for (number, spread, what) in steps {
                // Close together as often as far apart.
                let number = (number % (1 << (spread % 19))) as usize % size;
                if what == 0 {
                    model.remove(&number);
                    prop_assert_eq!(remove(&mut set, size, number), model.is_empty());
                } else {
                    let was_empty = model.is_empty();
                    model.insert(number);
                    prop_assert_eq!(insert(&mut set, size, number), was_empty);
                }
                prop_assert_eq!(contains(&set, number), model.contains(&number));
                prop_assert_eq!(is_empty(&set), model.is_empty());
                for from in [0, number.saturating_sub(1), number, number + 1, size - 1, size] {
                    prop_assert_eq!(next(&set, size, from), model.range(from..).next().copied());
                }
            }
        }
    }
}
