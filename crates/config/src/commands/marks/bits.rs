//! Marks as bits, of which some may be unknown.

/// A mark of a frame or of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Mask of the known bits.
    known: u32,
    /// Values of the known bits; zero for unknown ones.
    value: u32,
}

impl Mark {
    /// The mark that a frame has before any rule.
    pub(super) const ZERO: Self = Self { known: u32::MAX, value: 0 };
    /// A mark of which nothing is known.
    pub(super) const UNKNOWN: Self = Self { known: 0, value: 0 };

    /// The bits under a mask; the others are zero.
    pub(super) fn under(self, mask: u32) -> Self {
        Self { known: self.known | !mask, value: self.value & mask }
    }

    /// Returns the exclusive or; a bit is known if it is known in both.
    pub(super) fn xor(self, other: Self) -> Self {
        let known = self.known & other.known;
        Self { known, value: (self.value ^ other.value) & known }
    }

    /// Returns true if the bits under `mask` equal `value`; `None` if that is unknown.
    pub(super) fn is(self, value: u32, mask: u32) -> Option<bool> {
        if value & !mask != 0 || (self.value ^ value) & self.known & mask != 0 {
            return Some(false);
        }
        (mask & !self.known == 0).then_some(true)
    }
}

/// A change of a mark: `(mark & !mask) ^ value`, as the kernel has it (xt_mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Change {
    /// Sets the whole mark.
    pub(super) fn to(value: u32) -> Self {
        Self { mask: u32::MAX, value }
    }

    /// Keeps the bits of `and`, and sets those of `or` behind that.
    pub(super) fn and_or(and: u32, or: u32) -> Self {
        Self { mask: !and | or, value: or }
    }

    pub(super) fn of(self, mark: Mark) -> Mark {
        mark.under(!self.mask).xor(Mark { known: u32::MAX, value: self.value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_tests_agree_with_arithmetic_on_every_mark_of_four_bits() {
        let all = || 0..16u32;
        for (mark, known) in all().flat_map(|mark| all().map(move |known| (mark, known))) {
            let seen = Mark { known: known | !15, value: mark & known };
            // Possible values of the mark, over its unknown bits.
            let can: Vec<u32> = all().filter(|other| other & known == mark & known).collect();
            for (mask, value) in all().flat_map(|mask| all().map(move |value| (mask, value))) {
                let results: Vec<bool> = can.iter().map(|can| can & mask == value).collect();
                let expected = results.iter().all(|&is| is == results[0]).then_some(results[0]);
                assert_eq!(seen.is(value, mask), expected, "{seen:?} {value} {mask}");
                let made = Change { mask, value }.of(seen);
                let made_of: Vec<u32> = can.iter().map(|can| (can & !mask) ^ value).collect();
                assert!(made_of.iter().all(|result| made.is(result & made.known, made.known) == Some(true)));
                let differ = made_of.iter().fold(0, |bits, result| bits | (result ^ made_of[0]));
                assert_eq!(!made.known, differ, "{seen:?} {value} {mask}");
            }
        }
    }
}
