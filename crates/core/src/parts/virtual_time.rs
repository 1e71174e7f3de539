//! Virtual time and the tags of packets, as the packet fair queueing schedulers share them.
//!
//! A class has the share phi_i of a link or of its parent. It finishes a packet of L bytes L / phi_i virtual bytes
//! after it started it. These are the bytes that the whole link carries in the duration of the packet at the class's
//! own rate (\[drrpp\] Section 2.3, \[sds\] equation (1) with `max` in place of its `min`).
//!
//! | papers | here | unit |
//! | --- | --- | --- |
//! | phi_i, g_i / r, rho_i / r | `divisor` / sum of the siblings' | |
//! | v(t), system virtual time (potential) | `Sessions::v` | 1 / [`UNITS_PER_BYTE`] virtual byte |
//! | S_i, start tag | what `Sessions::begin` and `Sessions::next` return | the same |
//! | F_i, finish tag | [`Tag`] | the same, and a fraction |
//!
//! **No drift.** A tag carries the exact remainder of its divisions in `Tag::fraction`. So the tag of a class that
//! stays backlogged is exact after any number of packets. Comparisons use the whole part, whose error is less than one
//! unit, an eight-billionth of a byte.
//!
//! **Overflow budget.** Weights are scaled to add up to less than 2^41 ([`weights`]). So no class counts for less than
//! 2^-40 of its parent, which is 1 bit/s of 1 Tbit/s. A byte is then below 2^74 units, a packet below 2^94, and a full
//! queue of 2^32 bytes below 2^106. A virtual time that reaches [`HIGH`] is lowered together with all tags.

use alloc::boxed::Box;

use super::memory::{bytes_of, slice};
use super::prefetch::prefetch;
use crate::contract::{ClassId, Hierarchy, NANOS_PER_SEC, OutOfMemory};

/// Units of virtual time in a virtual byte. A link of r bit/s does r units of work in a nanosecond.
pub(crate) const UNITS_PER_BYTE: u64 = 8 * NANOS_PER_SEC;

/// Virtual times are lowered when they reach this; see [`lower_by`].
pub(crate) const HIGH: u128 = 1 << 126;

/// Minimum virtual time after lowering: more than a backlogged class can lag behind it.
const KEPT: u128 = 1 << 120;

/// Returns the amount by which to lower virtual time and all tags: zero unless `v` is at least [`HIGH`]. It never
/// exceeds a tag in `firsts`, the smallest ones in use.
#[must_use]
pub(crate) fn lower_by(v: u128, firsts: impl IntoIterator<Item = Option<(u32, u128)>>) -> u128 {
    if v < HIGH {
        return 0;
    }
    firsts.into_iter().flatten().map(|(_, tag)| tag).fold(v - KEPT, u128::min)
}

/// Scales `count` weights to add up to less than 2^41, none of them zero. `raw` is called twice for each. Weights that
/// add up to 2^40 or less are unchanged, as are the guarantees of classes on any link.
///
/// # Errors
/// [`OutOfMemory`] if the weights do not fit.
pub(crate) fn weights(count: usize, raw: impl Fn(usize) -> u128) -> Result<Box<[u64]>, OutOfMemory> {
    const WHOLE: u128 = 1 << 40;
    // At most 10^6 weights of at most 2^64.
    let total: u128 = (0..count).map(&raw).sum();
    let scaled = |raw: u128| if total <= WHOLE { raw } else { (raw * WHOLE + total / 2) / total };
    slice(count, |at| scaled(raw(at)).max(1) as u64)
}

/// Bytes that the weights of `count` children take.
pub(crate) const fn memory_of_weights(count: usize) -> u64 {
    bytes_of::<u64>(count)
}

/// Returns the weights of the leaves of `tree`: their own if they are all siblings, otherwise by their share of the
/// link.
///
/// # Errors
/// [`OutOfMemory`] if the weights do not fit.
pub(crate) fn leaf_weights(tree: &Hierarchy) -> Result<Box<[u64]>, OutOfMemory> {
    let flat = tree.levels() == 1;
    let raw = |leaf: ClassId| if flat { u128::from(tree.weight(leaf)) } else { tree.share_all_busy(leaf) };
    weights(tree.leaves().len(), |at| raw(tree.leaves()[at]))
}

/// Returns the weights of the children of `class`.
///
/// # Errors
/// [`OutOfMemory`] if the weights do not fit.
pub(crate) fn child_weights(tree: &Hierarchy, class: ClassId) -> Result<Box<[u64]>, OutOfMemory> {
    let children = tree.children(class);
    weights(children.len(), |at| u128::from(tree.weight(children[at])))
}

/// A point in virtual time that is reached by steps of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Whole units.
    pub whole: u128,
    /// Remainder below `whole`, in units divided by the divisor of the class's [`Pace`].
    pub fraction: u64,
}

/// The advance of a class's tag per byte: a fraction, kept exact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_byte: u128,
    remainder: u64,
    divisor: u64,
}

impl Pace {
    /// Makes a pace of `units / divisor` per byte. `divisor` is not 0 and below 2^41, `units` below 2^74.
    #[must_use]
    pub(crate) const fn new(units: u128, divisor: u64) -> Self {
        let by = divisor as u128;
        Self { per_byte: units / by, remainder: (units % by) as u64, divisor }
    }

    /// Becomes `with`; `tag` is the last that it was used for.
    pub(crate) fn retune(&mut self, with: Self, tag: &mut Tag) {
        if self.divisor != with.divisor {
            // In units of the divisor; less than one of virtual time.
            tag.fraction = 0;
        }
        *self = with;
    }

    /// Divisor: the weight of the class, for virtual time.
    #[must_use]
    pub(crate) const fn divisor(&self) -> u64 {
        self.divisor
    }

    /// Returns `tag` plus the time of `bytes` bytes, below 2^21.
    #[must_use]
    #[inline]
    pub(crate) fn after(&self, tag: Tag, bytes: u32) -> Tag {
        // Below 2^41 * 2^21 + 2^41.
        let parts = self.remainder * u64::from(bytes) + tag.fraction;
        let whole = tag.whole + self.per_byte * u128::from(bytes);
        if parts < self.divisor {
            // The common case: a share divides without a remainder. A division takes as long as the rest of a tag.
            return Tag { whole, fraction: parts };
        }
        let whole = whole + u128::from(parts / self.divisor);
        Tag { whole, fraction: parts % self.divisor }
    }

    /// Advance of a tag for `bytes`, rounded down to whole units; saturates.
    #[must_use]
    pub(crate) fn distance(&self, bytes: u64) -> u128 {
        let parts = u128::from(self.remainder) * u128::from(bytes) / u128::from(self.divisor);
        self.per_byte.saturating_mul(u128::from(bytes)).saturating_add(parts)
    }
}

/// The tags of the packet at the head of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    pub(crate) start: u128,
    /// Rounded down.
    pub(crate) finish: u128,
}

/// One cache line. It omits the start tag; callers that need it keep it as a key.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Session {
    finish: Tag,
    pace: Pace,
}

const _: () = assert!(size_of::<Session>() == 64);

/// The tags of the packets at the heads of the children of one server, and its virtual time.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The virtual time, in units.
    pub v: u128,
    sessions: Box<[Session]>,
    last_finish: u128,
}

impl Sessions {
    /// Makes one session for each of `weights`, in the form of [`weights`].
    pub(crate) fn new(weights: &[u64]) -> Result<Self, OutOfMemory> {
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let units = total * u128::from(UNITS_PER_BYTE);
        let session = |at: usize| Session { finish: Tag::default(), pace: Pace::new(units, weights[at]) };
        Ok(Self { v: 0, sessions: slice(weights.len(), session)?, last_finish: 0 })
    }

    /// Bytes that one for `sessions` sessions takes.
    pub(crate) const fn memory(sessions: usize) -> u64 {
        bytes_of::<Session>(sessions)
    }

    /// Prefetches the state of `child`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, child: u32) {
        prefetch(&self.sessions, child as usize);
    }

    /// Returns the finish tag of the packet at the head of `child`, rounded down.
    #[must_use]
    #[inline]
    pub(crate) fn finish(&self, child: u32) -> u128 {
        self.sessions[child as usize].finish.whole
    }

    /// Returns the largest finish tag of all packets so far.
    #[must_use]
    pub(crate) fn last_finish(&self) -> u128 {
        self.last_finish
    }

    /// Handles a packet of `len` bytes that becomes the head of an empty child at virtual time `v`: S = max(F, v).
    #[inline]
    pub(crate) fn begin(&mut self, child: u32, len: u32, v: u128) -> Tags {
        let finish = &mut self.sessions[child as usize].finish;
        if v > finish.whole {
            *finish = Tag { whole: v, fraction: 0 };
        }
        self.next(child, len)
    }

    /// Tags the packet behind a sent one when it becomes the head of `child`: S = F.
    #[inline]
    pub(crate) fn next(&mut self, child: u32, len: u32) -> Tags {
        let session = &mut self.sessions[child as usize];
        let start = session.finish.whole;
        session.finish = session.pace.after(session.finish, len);
        let finish = session.finish.whole;
        self.last_finish = self.last_finish.max(finish);
        Tags { start, finish }
    }

    /// Adopts the weights of `with`, which has as many sessions. Existing tags stay.
    pub(crate) fn retune(&mut self, with: &Self) {
        for (mine, theirs) in self.sessions.iter_mut().zip(&with.sessions) {
            mine.pace.retune(theirs.pace, &mut mine.finish);
        }
    }

    /// Resets to the initial state.
    pub(crate) fn reset(&mut self) {
        self.v = 0;
        self.last_finish = 0;
        for session in &mut self.sessions {
            session.finish = Tag::default();
        }
    }

    /// Lowers the virtual time and all tags, those of idle children to no less than zero.
    #[cold]
    pub(crate) fn lower(&mut self, by: u128) {
        self.v -= by;
        self.last_finish -= by;
        for session in &mut self.sessions {
            session.finish.whole = session.finish.whole.saturating_sub(by);
        }
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, v: u128) {
        self.v = v;
        self.last_finish = v;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_that_fit_stay_and_others_keep_their_shares() {
        let of = |raw: [u128; 3]| weights(3, |at| raw[at]).unwrap();
        assert_eq!(*of([3, 1, 1_000_000_000_000 >> 1]), [3, 1, 500_000_000_000]);
        assert_eq!(*of([1 << 64, 3 << 64, 1]), [1 << 38, 3 << 38, 1]);
        let many = weights(1_000_000, |_| 1 << 64).unwrap();
        assert!(many.iter().sum::<u64>() < 1 << 41 && many[0] > 1 << 20);
    }

    proptest! {
        #[test]
        fn a_tag_is_exact_after_any_number_of_packets(
            divisor in 1u64..1 << 41, units in 0u128..1 << 74, lens in proptest::collection::vec(0u32..1 << 21, 1..60)
        ) {
            let pace = Pace::new(units, divisor);
            let tag = lens.iter().fold(Tag::default(), |tag, &len| pace.after(tag, len));
            let bytes: u64 = lens.iter().map(|&len| u64::from(len)).sum();
            // units = q * divisor + r, so that bytes * units / divisor = bytes * q + bytes * r / divisor.
            let (q, r) = (units / u128::from(divisor), units % u128::from(divisor));
            let parts = u128::from(bytes) * r;
            prop_assert_eq!(tag.whole, u128::from(bytes) * q + parts / u128::from(divisor));
            prop_assert_eq!(u128::from(tag.fraction), parts % u128::from(divisor));
            prop_assert_eq!(pace.distance(bytes), tag.whole);
        }
    }
}
