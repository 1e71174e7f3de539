//! Quantities and the only conversions between them.
//!
//! Arithmetic is integer: 64-bit quantities, 128-bit intermediates. Times are rounded up and credit is rounded down. So
//! no rounding ever lets a class send earlier or more than allowed.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Nanoseconds in one second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time or a span of time, in whole nanoseconds. The caller of a scheduler owns the clock; its zero is the
/// caller's choice. `u64` nanoseconds last 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The largest time, used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Converts from whole microseconds. Saturates at [`Nanos::MAX`].
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Converts from whole milliseconds. Saturates at [`Nanos::MAX`].
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Converts from whole seconds. Saturates at [`Nanos::MAX`].
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(NANOS_PER_SEC))
    }

    /// Returns the sum, or [`Nanos::MAX`] if it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// A rate in whole bit/s, from 1 bit/s to [`Rate::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A rate that fairlink does not take: zero, or above [`Rate::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateOutOfRange {
    /// The value given, in bit/s.
    pub bps: u64,
}

impl fmt::Display for RateOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a rate of {} bit/s is outside 1 bit/s .. 1 Tbit/s", self.bps)
    }
}

impl core::error::Error for RateOutOfRange {}

impl Rate {
    /// One bit per second.
    pub const MIN: Self = Self(1);
    /// One terabit per second.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// Makes a rate of `bps` bit/s.
    ///
    /// # Errors
    /// When `bps` is zero or above 10^12.
    pub const fn from_bps(bps: u64) -> Result<Self, RateOutOfRange> {
        if bps == 0 || bps > Self::MAX.0 { Err(RateOutOfRange { bps }) } else { Ok(Self(bps)) }
    }

    /// Returns the rate in bit/s.
    #[must_use]
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the time to send a packet of `len` bytes at this rate, rounded up.
    #[must_use]
    pub const fn time_for(self, len: u32) -> Nanos {
        self.time_for_bytes(len as u64)
    }

    /// Time to send `bytes` at this rate, rounded up; [`Nanos::MAX`] if it does not fit.
    #[must_use]
    pub const fn time_for_bytes(self, bytes: u64) -> Nanos {
        let bit_ns = bytes as u128 * 8 * NANOS_PER_SEC as u128;
        if bit_ns <= u64::MAX as u128 {
            return Nanos((bit_ns as u64).div_ceil(self.0));
        }
        let ns = bit_ns.div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 { Nanos::MAX } else { Nanos(ns as u64) }
    }

    /// Whole bytes that this rate carries in `span`, rounded down; `u64::MAX` if they do not fit.
    #[must_use]
    pub const fn bytes_in(self, span: Nanos) -> u64 {
        let bit_ns = self.0 as u128 * span.0 as u128;
        // 128-bit division is a call of some hundred instructions, and spans are short on hot paths.
        if bit_ns <= u64::MAX as u128 {
            return bit_ns as u64 / (8 * NANOS_PER_SEC);
        }
        let bytes = bit_ns / (8 * NANOS_PER_SEC as u128);
        if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_rounded_up_and_bytes_are_rounded_down() {
        let rate = Rate::from_bps(3).unwrap();
        assert_eq!(rate.time_for(1), Nanos(2_666_666_667));
        assert_eq!(rate.bytes_in(Nanos(2_666_666_666)), 0);
        assert_eq!(rate.bytes_in(Nanos(2_666_666_667)), 1);
    }

    #[test]
    fn what_fits_into_64_bits_is_divided_as_what_does_not() {
        let exact = |rate: Rate, value: u64| {
            let (bps, value) = (u128::from(rate.bps()), u128::from(value));
            ((value * 8_000_000_000).div_ceil(bps), bps * value / 8_000_000_000)
        };
        // Both sides of the point where the products exceed 64 bits.
        let edge = u64::MAX / 8_000_000_000;
        for bps in [1, 3, 1_000, 999_999_937, 1_000_000_000_000] {
            let rate = Rate::from_bps(bps).unwrap();
            let edges = [edge, u64::MAX / bps].into_iter().flat_map(|edge| [edge - 1, edge, edge.saturating_add(1)]);
            for value in [0, 1, 64, 1514, 1 << 20].into_iter().chain(edges) {
                let (ns, bytes) = exact(rate, value);
                assert_eq!(u128::from(rate.time_for_bytes(value).0), ns.min(u64::MAX.into()), "{bps} {value}");
                assert_eq!(u128::from(rate.bytes_in(Nanos(value))), bytes.min(u64::MAX.into()), "{bps} {value}");
            }
        }
    }

    #[test]
    fn extremes_saturate_and_do_not_wrap() {
        assert_eq!(Rate::MIN.time_for_bytes(u64::MAX), Nanos::MAX);
        assert_eq!(Rate::MAX.bytes_in(Nanos::MAX), u64::MAX);
        assert_eq!(Rate::MAX.time_for(u32::MAX), Nanos(34_359_739));
        assert!(Rate::from_bps(0).is_err());
        assert!(Rate::from_bps(Rate::MAX.bps() + 1).is_err());
    }
}
