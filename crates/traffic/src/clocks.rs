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
//! that. A queue that is hardly ever empty hides the clocks: such times are [`Undecided`], and no number is given.
//!
//! # Method
//! [`OneWay`] keeps, for up to 1024 equal spans of time, the lower convex hulls of their points. The first pass joins
//! the spans to blocks and cuts the run into parts with the best straight envelopes (dynamic programming over all cuts;
//! the distances of the blocks' minima from the envelope are assumed exponential). No envelope is steeper than
//! [`MAX_SKEW`]. Parts are then joined if one parabola fits both as well. The parabola of a part is the highest one below
//! all its points, the linear program of Moon, Skelly and Towsley (INFOCOM 1999) with a term for the drift. A rise that
//! falls back onto the same envelope is a queue and not a clock. Then each part has to prove that it is one of clocks:
//! its delays come back to the envelope at least [`RETURNS`] times (`decide.rs`), and clocks can move so.
//!
//! DIFFERENCE: Section 4.5 of \[drrpp\] takes every change of the delays for one of the clocks, at loads up to 98.4 %.
//! Ours says that it cannot tell where the data do not decide.
//!
//! # Uncertainty
//! Envelopes of eight or four groups of cycles, from one return to the next, are compared with the one of all. The result
//! is the half-width of their 95 % interval (Student's t) plus their bias. Where the delays come back as often as
//! independent ones do, each span is a cycle. A queue that lasts for the whole run cannot be distinguished from an
//! offset, and neither can a jump that is smaller than the noise of the shortest delays from none.

use std::fmt;

mod decide;
mod envelope;
mod fit;
mod hull;
mod sample;
mod stamps;
pub mod synthetic;

pub use envelope::OneWay;
pub use sample::{Corrected, SAMPLE, Sample};
pub use stamps::{Reference, StampError, read_stamps, write_stamp, write_stamps, write_stamps_head};

/// The largest skew of two clocks that work, in seconds per second. NTP accepts and corrects 500 ppm, and slews a clock by
/// no more (RFC 5905, Sections 11.3 and 12); a quartz is off by less than a tenth of that.
pub const MAX_SKEW: f64 = 5e-4;
/// The largest drift of two clocks that work, in 1/s: the rate of a quartz changes by about 1 ppm with a degree, and it is
/// not warmed by more than two degrees in a second.
pub const MAX_DRIFT: f64 = 2e-6;
/// How often delays come back to the shortest at least where clocks are told from queues.
pub const RETURNS: usize = 12;
/// The largest part of a run whose packets are left out of corrected delays. What is left out is not like the rest.
pub const MOST_LEFT_OUT: f64 = 0.05;

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

/// A part of a run in which clocks and queues cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undecided {
    /// When it starts, in seconds after the first packet.
    pub start_s: f64,
    /// End, in seconds after the first packet.
    pub end_s: f64,
    /// Reason.
    pub because: Because,
}

/// The reason why clocks and queues cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The delays came back to the shortest less often than [`RETURNS`] times: the queue was empty too seldom.
    FewReturns {
        /// Number of times.
        returns: usize,
    },
    /// The shortest delays move faster than clocks can: by [`MAX_SKEW`] or [`MAX_DRIFT`].
    TooFast,
    /// The uncertainty of the skew is more than [`MAX_SKEW`].
    Vague,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewReturns { returns } => {
                write!(
                    f,
                    "delays came back to the shortest {returns} times, and {RETURNS} are needed; measure for longer, or with less load"
                )
            }
            Self::Vague => write!(f, "every skew that clocks can have ({:.0} ppm) fits", MAX_SKEW * 1e6),
            Self::TooFast => {
                write!(
                    f,
                    "the shortest delays move faster than clocks can ({:.0} ppm): a queue, or a clock that is broken",
                    MAX_SKEW * 1e6
                )
            }
        }
    }
}

/// The relation of the two clocks, estimated from the one-way delays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clocks {
    /// Parts in which the offset moves smoothly, in order of time. What is between them is undecided.
    pub stretches: Vec<Stretch>,
    /// Parts in which clocks and queues cannot be told apart, in order of time.
    pub undecided: Vec<Undecided>,
    /// Changes between consecutive stretches.
    pub changes: Vec<Change>,
    /// Mean distance of the blocks' shortest delays from the envelope, in seconds: a measure of its clarity.
    pub roughness_s: f64,
    /// Points that make up the envelope, at most one for each span of time: seconds after the first packet, and difference of the stamps in seconds.
    pub points: Vec<(f64, f64)>,
}

impl Clocks {
    /// Returns the offset plus shortest delay, `at` seconds after the first packet; `None` where it is undecided. Before
    /// and after the run, the first and last stretch are extrapolated.
    #[must_use]
    pub fn offset_at(&self, at: f64) -> Option<f64> {
        self.stretch_at(at).map(|stretch| stretch.offset_at(at))
    }

    /// Returns the stretch that is valid `at` seconds after the first packet; `None` where it is undecided.
    #[must_use]
    pub fn stretch_at(&self, at: f64) -> Option<&Stretch> {
        let at = at.clamp(0.0, self.end_s());
        if self.undecided.iter().any(|part| (part.start_s..=part.end_s).contains(&at)) {
            return None;
        }
        let behind = self.stretches.partition_point(|stretch| stretch.start_s <= at);
        self.stretches.get(behind.saturating_sub(1))
    }

    /// Returns the time of the last packet, in seconds after the first.
    #[must_use]
    pub fn end_s(&self) -> f64 {
        let ends = self.stretches.iter().map(|stretch| stretch.end_s);
        ends.chain(self.undecided.iter().map(|part| part.end_s)).fold(0.0, f64::max)
    }

    /// Returns the part of the run whose packets cannot be corrected: it is undecided, or a jump may be on either side.
    #[must_use]
    pub fn left_out(&self) -> f64 {
        let undecided = self.undecided.iter().map(|part| part.end_s - part.start_s);
        let doubtful = self.jumps().map(|jump| 2.0 * jump.at_s.within);
        undecided.chain(doubtful).fold(0.0, |sum, time| sum + time) / self.end_s().max(f64::MIN_POSITIVE)
    }

    /// Returns the jumps, in order of time.
    pub fn jumps(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.is_jump)
    }
}

#[cfg(test)]
mod tests;
