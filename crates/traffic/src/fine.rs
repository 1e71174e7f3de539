//! Times finer than a nanosecond, so that rounding does not slow a source down.

use fairlink_core::{NANOS_PER_SEC, Nanos};

/// Fractional bits.
const BITS: u32 = 32;

/// Converts a time to seconds.
pub(crate) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / NANOS_PER_SEC as f64
}

/// A time, or a span of time, in 2^-32 ns. It saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fine(u128);

impl Fine {
    /// Converts `at` exactly.
    pub(crate) fn from_nanos(at: Nanos) -> Self {
        Self(u128::from(at.0) << BITS)
    }

    /// Converts seconds; negative values become zero.
    pub(crate) fn from_secs(seconds: f64) -> Self {
        Self((seconds * NANOS_PER_SEC as f64 * (1u64 << BITS) as f64) as u128)
    }

    /// Returns `numerator / denominator` seconds, rounded. The numerator is at most 2^64.
    pub(crate) fn from_ratio(numerator: u128, denominator: u128) -> Self {
        // Below 2^64 * 2^30 * 2^32.
        let fine = (numerator * u128::from(NANOS_PER_SEC)) << BITS;
        Self((fine + denominator / 2) / denominator.max(1))
    }

    /// Returns the first nanosecond that is not before it.
    pub(crate) fn ceil(self) -> Nanos {
        Nanos(u64::try_from(self.0.div_ceil(1 << BITS)).unwrap_or(u64::MAX))
    }

    /// Returns the time later by `span`.
    #[must_use]
    pub(crate) fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Time since `earlier`; zero if that is later.
    #[must_use]
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Scales by `factor` / 2^32. For spans of up to 2^30 s and factors of up to 2^33.
    #[must_use]
    pub(crate) fn scaled(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(factor)) >> 32)
    }

    /// Multiplies by `count`.
    #[must_use]
    pub(crate) fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(count)))
    }

    /// Returns a random part, uniform.
    pub(crate) fn part(self, unit: f64) -> Self {
        Self((self.0 as f64 * unit) as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_nanosecond_is_kept() {
        let third = Fine::from_ratio(1, 3 * u128::from(NANOS_PER_SEC));
        let mut at = Fine::from_nanos(Nanos(10));
        for k in 1..=3_000_000u64 {
            at = at.after(third);
            // Off by at most half a unit of 2^-32 ns for each step.
            let exact = Nanos(10 + k.div_ceil(3));
            assert!(at.ceil() == exact || at.ceil().0 == exact.0 + u64::from(k.is_multiple_of(3)), "{k}");
        }
        assert_eq!(Fine::from_nanos(Nanos(7)).ceil(), Nanos(7));
        assert_eq!(Fine::from_nanos(Nanos::MAX).after(Fine::from_secs(1e30)).ceil(), Nanos::MAX);
    }

    #[test]
    fn scaling_is_by_parts_of_two_to_the_32() {
        let second = Fine::from_secs(1.0);
        assert_eq!(second.scaled(1 << 31).ceil(), Nanos(NANOS_PER_SEC / 2));
        assert_eq!(second.scaled(3 << 31).ceil(), Nanos(NANOS_PER_SEC / 2 * 3));
        assert_eq!(second.times(5).since(second).ceil(), Nanos(4 * NANOS_PER_SEC));
        assert_eq!(Fine::from_secs(1e40).times(u64::MAX).ceil(), Nanos::MAX);
    }
}
