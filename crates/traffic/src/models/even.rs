//! Packets, or bursts of packets, at equal distances.

use fairlink_core::{NANOS_PER_SEC, Nanos};

use super::{Arrival, Pace, Process};
use crate::error::SourceError;
use crate::length::Lengths;
use crate::random::Random;

/// Most packets of a burst.
pub const MAX_BURST: u32 = 1024;

/// A burst is exactly `(bytes * per_byte + packets * per_packet) / units` nanoseconds after the burst before.
/// Remainders of whole nanoseconds are carried over, so that no packet is ever more than one nanosecond late.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    lengths: Lengths,
    at: Nanos,
    /// Remainder of the due time below `at`, in parts of a nanosecond; below `units`.
    fraction: u64,
    /// Duration of the packets of this burst, in the same parts.
    burst_takes: u64,
    per_byte: u64,
    per_packet: u64,
    units: u64,
    burst: u32,
    /// Packets of this burst that have yet to come.
    left: u32,
}

impl Even {
    pub(super) fn new(pace: Pace, burst: u32, lengths: Lengths) -> Result<Self, SourceError> {
        if burst == 0 || burst > MAX_BURST {
            let (value, must) = (f64::from(burst), "1 to 1024 packets");
            return Err(SourceError::Parameter { what: "a burst", value, must });
        }
        let (per_byte, per_packet, units) = match pace {
            Pace::Rate(rate) => (8 * NANOS_PER_SEC, 0, rate.bps()),
            Pace::Packets { per_1000_s } => (0, 1000 * NANOS_PER_SEC, per_1000_s.max(1)),
        };
        Ok(Self {
            lengths,
            at: Nanos::ZERO,
            fraction: 0,
            burst_takes: 0,
            per_byte,
            per_packet,
            units,
            burst,
            left: burst,
        })
    }
}

impl Process for Even {
    fn start(&mut self, start: Nanos, _: &mut Random) {
        (self.at, self.fraction, self.burst_takes, self.left) = (start, 0, 0, self.burst);
    }

    #[inline]
    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let at = self.at.saturating_add(Nanos(u64::from(self.fraction > 0)));
        let len = self.lengths.draw(random);
        // At most 1024 * 2^20 * 8 * 10^9, and less than 10^12 carried over.
        self.burst_takes += u64::from(len) * self.per_byte + self.per_packet;
        self.left -= 1;
        if self.left == 0 {
            let sum = self.burst_takes + self.fraction;
            self.at = self.at.saturating_add(Nanos(sum / self.units));
            (self.fraction, self.burst_takes, self.left) = (sum % self.units, 0, self.burst);
        }
        Some(Arrival { at, len })
    }
}
