//! Two clocks, estimated from the one-way delays between them.
//!
//! A packet is stamped by one clock when it is sent and by another when it is received. The difference of the stamps is the delay
//! plus the *offset* of the receiver's clock from the sender's. Delays are never below the shortest one, so the lower envelope of
//! the differences against time shows how the offset moves: its slope is the *skew*, the slope of that is the *drift* (RFC 2330,
//! Section 10; Paxson, On calibrating measurements of packet transit times, SIGMETRICS 1998). A step of the envelope is a *jump*: one of the
//! clocks was set.
//!
//! # What can be told
//! Skew, drift and jumps. The offset itself is not measurable: the envelope is the offset plus the shortest delay, and
//! one direction does not separate them. So corrected delays are those beyond the shortest one, unless a caller knows
//! that.
//!
//! # Method
//! [`OneWay`] keeps, for up to 1024 equal spans of time, the lower convex hulls of their points. The first pass joins
//! the spans to blocks and cuts the run into parts with the best straight envelopes (dynamic programming over all cuts;
//! the distances of the blocks' minima from the envelope are assumed exponential). Parts are then joined if one
//! parabola fits both as well. The parabola of a part is the highest one below all its points, the linear program of
//! Moon, Skelly and Towsley (INFOCOM 1999) with a term for the drift. A rise that falls back onto the same envelope is
//! a queue and not a clock.
//!
//! # Uncertainty
//! Eight envelopes, each of every eighth span, are compared with the one of all spans. The result is the half-width of
//! their 95 % interval (Student's t, seven degrees of freedom) plus their bias. It holds if each span has packets that
//! met short queues independently of other spans. A queue that lasts for the whole run cannot be distinguished from an
//! offset.

mod envelope;
mod fit;
mod hull;
mod sample;
mod stamps;
pub mod synthetic;

pub use envelope::OneWay;
pub use sample::{Corrected, SAMPLE, Sample};
pub use stamps::{Reference, StampError, read_stamps, write_stamp, write_stamps, write_stamps_head};

/// A value and the half-width of its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// The value.
    pub value: f64,
    /// Maximum distance from the true value, in 95 % of all cases.
    pub within: f64,
}

/// A part of a run in which the offset moves smoothly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it starts, in seconds after the first packet.
    pub start_s: f64,
    /// End, in seconds after the first packet.
    pub end_s: f64,
    /// Packets in it.
    pub packets: u64,
    /// Offset plus shortest delay at its start, in seconds.
    pub offset_s: Known,
    /// Offset plus shortest delay at its end.
    pub end_offset_s: Known,
    /// First derivative of the offset in the middle, in seconds per second.
    pub skew: Known,
    /// Second derivative of the offset, in 1/s.
    pub drift: Known,
}

impl Stretch {
    /// Returns the offset plus shortest delay, `at` seconds after the first packet.
    #[must_use]
    pub fn offset_at(&self, at: f64) -> f64 {
        let half = (self.end_s - self.start_s) / 2.0;
        let from_middle = at - self.start_s - half;
        let middle = (self.offset_s.value + self.end_offset_s.value) / 2.0 - self.drift.value / 2.0 * half * half;
        middle + self.skew.value * from_middle + self.drift.value / 2.0 * from_middle * from_middle
    }

    /// Maximum error of [`Stretch::offset_at`] in the stretch, in seconds.
    #[must_use]
    pub fn within(&self) -> f64 {
        self.offset_s.within.max(self.end_offset_s.within)
    }
}

/// An instant at which the offset, or its skew, changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When, in seconds after the first packet.
    pub at_s: Known,
    /// Jump of the offset, in seconds.
    pub jump_s: Known,
    /// True if the jump is more than its uncertainty; otherwise only the skew changes.
    pub is_jump: bool,
}

/// The relation of the two clocks, estimated from the one-way delays.
#[derive(Clone, Debug, PartialEq)]
pub struct Clocks {
    /// Parts in which the offset moves smoothly, in order of time, without gaps.
    pub stretches: Vec<Stretch>,
    /// Changes between consecutive stretches.
    pub changes: Vec<Change>,
    /// Mean distance of the blocks' shortest delays from the envelope, in seconds: a measure of its clarity.
    pub roughness_s: f64,
    /// Points that make up the envelope, at most one for each span of time: seconds after the first packet, and difference of the stamps in seconds.
    pub points: Vec<(f64, f64)>,
}

impl Clocks {
    /// Offset plus shortest delay, `at` seconds after the first packet. Before and after the run, the first and last
    /// stretch are extrapolated.
    #[must_use]
    pub fn offset_at(&self, at: f64) -> f64 {
        self.stretch_at(at).map_or(0.0, |stretch| stretch.offset_at(at))
    }

    /// Returns the stretch that is valid `at` seconds after the first packet.
    #[must_use]
    pub fn stretch_at(&self, at: f64) -> Option<&Stretch> {
        let behind = self.stretches.partition_point(|stretch| stretch.start_s <= at);
        self.stretches.get(behind.saturating_sub(1))
    }

    /// Returns the jumps, in order of time.
    pub fn jumps(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.is_jump)
    }
}

#[cfg(test)]
mod tests;
