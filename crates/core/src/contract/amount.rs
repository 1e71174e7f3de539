//! Numbers of packets and their bytes.

use core::iter::Sum;
use core::ops::{Add, AddAssign};

/// Packets and their accounted bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Their accounted bytes.
    pub bytes: u64,
}

impl Amount {
    /// The zero amount.
    pub const ZERO: Self = Self { packets: 0, bytes: 0 };

    /// Counts one packet of `len` bytes more.
    #[inline]
    pub fn count(&mut self, len: impl Into<u64>) {
        self.packets += 1;
        self.bytes += len.into();
    }

    /// Returns the difference, or `None` if `other` has more packets or more bytes.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self { packets: self.packets.checked_sub(other.packets)?, bytes: self.bytes.checked_sub(other.bytes)? })
    }
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}
