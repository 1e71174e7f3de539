//! Sources that are on and off at random: voice with exponential times ([drrpp] section 4.4.4, [sds] section IV), data with Pareto
//! times ([sds] equation (9)).
//!
//! Packets are evenly spaced in the time that the source is on. The rest of a gap when it goes off is continued when it
//! is on again. So the mean rate is exactly the pace times the share of on time.
//!
//! A source starts on with the stationary probability, and with a whole on time or off time. DIFFERENCE: that is
//! stationary for exponential times. The stationary rest of a Pareto on time has no mean if the variance is infinite.

use fairlink_core::Nanos;

use super::{Arrival, Gap, Pace, Process};
use crate::error::SourceError;
use crate::fine::{Fine, seconds};
use crate::length::{Lengths, PacketSize};
use crate::random::Random;

/// Fewest packets of a mean on time: drawing one packet takes as many on times as its inverse.
const MIN_PACKETS_ON: f64 = 1e-3;

/// Fewest packets of the shortest Pareto on time. With k just above 2 nearly all on times are about as short as that,
/// and a few very rare ones determine the mean.
const MIN_PACKETS_SHORTEST: f64 = 1e-6;

/// The distribution of on times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnTime {
    /// Exponentially distributed.
    Exponential {
        /// Mean.
        mean: Nanos,
    },
    /// Pareto distributed, with the density (k - 1) a^(k-1) / x^k from a = mean (k - 2) / (k - 1) on.
    ///
    // DIFFERENCE: equation (9) of [sds] lacks the factor (k - 1), without which it is not a density.
    Pareto {
        /// Mean.
        mean: Nanos,
        /// The exponent of the density; above 2. The variance is finite above 3.
        k: f64,
    },
}

impl OnTime {
    /// Returns the mean.
    #[must_use]
    pub const fn mean(self) -> Nanos {
        match self {
            Self::Exponential { mean } | Self::Pareto { mean, .. } => mean,
        }
    }
}

/// A source that is on and off.
#[derive(Clone, Debug)]
pub(crate) struct OnOff {
    lengths: Lengths,
    gap: Gap,
    on: OnTime,
    off_s: f64,
    at: Fine,
    /// Rest of the on time at `at`.
    on_left: Fine,
}

impl OnOff {
    pub(super) fn new(
        pace: Pace,
        on: OnTime,
        off: Nanos,
        packet: &PacketSize,
        lengths: Lengths,
    ) -> Result<Self, SourceError> {
        if let OnTime::Pareto { k, .. } = on
            && !(k > 2.0 && k <= 1000.0)
        {
            return Err(SourceError::Parameter { what: "a Pareto k", value: k, must: "above 2 and at most 1000" });
        }
        let on_s = seconds(on.mean());
        let packets = on_s * pace.packets_per_second(packet);
        if let OnTime::Pareto { k, .. } = on
            && packets * (k - 2.0) / (k - 1.0) < MIN_PACKETS_SHORTEST
        {
            let must = "so far above 2 that the shortest on time has a millionth of a packet at least";
            return Err(SourceError::Parameter { what: "a Pareto k", value: k, must });
        }
        if packets < MIN_PACKETS_ON {
            let must = "such that it has a thousandth of a packet at least";
            return Err(SourceError::Parameter { what: "a mean on time in seconds", value: on_s, must });
        }
        Ok(Self {
            lengths,
            gap: Gap::new(pace),
            on,
            off_s: seconds(off),
            at: Fine::default(),
            on_left: Fine::default(),
        })
    }

    fn draw_on(&self, random: &mut Random) -> Fine {
        let mean = seconds(self.on.mean());
        Fine::from_secs(match self.on {
            OnTime::Exponential { .. } => mean * random.exponential(),
            OnTime::Pareto { k, .. } => mean * random.pareto(k - 1.0),
        })
    }

    fn draw_off(&self, random: &mut Random) -> Fine {
        Fine::from_secs(self.off_s * random.exponential())
    }

    /// Advances by `gap` of on time.
    fn advance(&mut self, mut gap: Fine, random: &mut Random) {
        while gap > self.on_left {
            gap = gap.since(self.on_left);
            self.at = self.at.after(self.on_left).after(self.draw_off(random));
            self.on_left = self.draw_on(random);
        }
        self.at = self.at.after(gap);
        self.on_left = self.on_left.since(gap);
    }
}

impl Process for OnOff {
    fn start(&mut self, start: Nanos, random: &mut Random) {
        self.at = Fine::from_nanos(start);
        let on_s = seconds(self.on.mean());
        if random.unit() * (on_s + self.off_s) > on_s {
            self.at = self.at.after(self.draw_off(random));
        }
        self.on_left = self.draw_on(random);
        // Sources of one pace are out of step.
        let first = self.gap.of(self.lengths.draw(random)).part(random.unit());
        self.advance(first, random);
    }

    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let arrival = Arrival { at: self.at.ceil(), len: self.lengths.draw(random) };
        self.advance(self.gap.of(arrival.len), random);
        Some(arrival)
    }
}
