//! When packets arrive: a file for each model.
//!
//! Each file has the model's parameters, which are plain data, and its `Process`, which generates times and lengths
//! from random numbers that are passed in. It is independent of intervals of activity, shapers, and other sources.

mod dar1;
mod even;
mod mmpp;
mod mpeg;
mod on_off;
mod pace;
mod poisson;
mod trace;
mod uneven;

use fairlink_core::{NANOS_PER_SEC, Nanos, QueueLimits, Rate};

pub use self::dar1::{Dar1, MAX_FRAME_PACKETS, Marginal};
pub use self::even::MAX_BURST;
pub use self::mmpp::{MAX_STATES, MmppState};
pub use self::mpeg::{MAX_PICTURES, Mpeg, Picture};
pub use self::on_off::OnTime;
pub use self::pace::Pace;
pub use self::trace::Trace;

use self::dar1::Dar1Frames;
use self::even::Even;
use self::mmpp::Mmpp;
pub(crate) use self::mmpp::packets_per_second;
use self::mpeg::Pictures;
use self::on_off::OnOff;
use self::pace::Gap;
use self::poisson::Poisson;
use self::trace::Replay;
use self::uneven::Uneven;
use crate::closed::{RequestResponse, Tcp};
use crate::curve::ArrivalCurve;
use crate::error::SourceError;
use crate::length::{Lengths, PacketSize};
use crate::random::Random;

/// A packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// Its length in bytes.
    pub len: u32,
}

/// The arrival times of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Always has another packet: the class stays backlogged while the source is active.
    Greedy,
    /// Packets at this mean rate, timed independently of deliveries: meant to be above the class's rate. The time after
    /// each is between half and one and a half of its duration at the rate, at random, so that sources of one rate do
    /// not synchronize.
    Saturating(Rate),
    /// Evenly spaced packets, or evenly spaced bursts.
    Cbr {
        /// Rate.
        pace: Pace,
        /// Packets that arrive together, back to back; 1 is usual.
        burst: u32,
    },
    /// Poisson arrivals: exponentially distributed times between packets.
    Poisson(Pace),
    /// Evenly spaced packets in random on times, and silence in exponentially distributed off times.
    OnOff {
        /// Rate while on.
        pace: Pace,
        /// Distribution of on times.
        on: OnTime,
        /// Mean off time.
        off: Nanos,
    },
    /// A Poisson process whose rate depends on a state that changes at random (MMPP).
    Mmpp(Vec<MmppState>),
    /// Pictures of MPEG video.
    Mpeg(Mpeg),
    /// Frames of video conferences, whose lengths are a discrete autoregressive process of the first order (DAR(1)).
    Dar1(Dar1),
    /// The packets of a capture or a trace file.
    Trace(Trace),
    /// A window of packets in flight, as in TCP. It runs in simulations.
    Tcp(Tcp),
    /// Requests that wait for their responses. It runs in simulations.
    RequestResponse(RequestResponse),
    /// The traffic of another model, held to an arrival curve.
    Shaped(Box<Shaped>),
}

/// A model behind a shaper or a policer.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    /// The sender; not itself shaped.
    pub model: Model,
    /// The curve to conform to.
    pub curve: ArrivalCurve,
    /// Treatment of excess packets.
    pub excess: Excess,
}

/// The treatment of packets that do not conform to a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Packets wait in a queue of these limits, or in one that is never full.
    Waits(Option<QueueLimits>),
    /// Packets are dropped.
    Drops,
}

impl Model {
    /// Makes evenly spaced packets at this `rate`.
    #[must_use]
    pub const fn cbr(rate: Rate) -> Self {
        Self::Cbr { pace: Pace::Rate(rate), burst: 1 }
    }

    /// Makes evenly spaced packets, this many in 1000 s.
    #[must_use]
    pub const fn cbr_packets(per_1000_s: u64) -> Self {
        Self::Cbr { pace: Pace::Packets { per_1000_s }, burst: 1 }
    }

    /// Makes Poisson arrivals of this mean `rate`.
    #[must_use]
    pub const fn poisson(rate: Rate) -> Self {
        Self::Poisson(Pace::Rate(rate))
    }

    /// Its name in scenario files; of a shaped source, the sender's.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Saturating(_) => "saturating",
            Self::Cbr { .. } => "cbr",
            Self::Poisson(_) => "poisson",
            Self::OnOff { on: OnTime::Exponential { .. }, .. } => "on_off",
            Self::OnOff { on: OnTime::Pareto { .. }, .. } => "pareto_on_off",
            Self::Mmpp(_) => "mmpp",
            Self::Mpeg(_) => "mpeg",
            Self::Dar1(_) => "dar1",
            Self::Trace(_) => "trace",
            Self::Tcp(_) => "tcp",
            Self::RequestResponse(_) => "request_response",
            Self::Shaped(shaped) => shaped.model.name(),
        }
    }

    /// Duration of a group of pictures, for video with groups; rounded down.
    #[must_use]
    pub fn group(&self) -> Option<Nanos> {
        match self.sender() {
            Self::Mpeg(mpeg) => Some(Nanos(1000 * NANOS_PER_SEC / mpeg.groups_per_1000_s.max(1))),
            _ => None,
        }
    }

    /// Returns true if the source needs feedback on its packets, and so runs in simulations only.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.sender(), Self::Tcp(_) | Self::RequestResponse(_))
    }

    /// Returns the model before any shaper.
    #[must_use]
    pub fn sender(&self) -> &Self {
        match self {
            Self::Shaped(shaped) => &shaped.model,
            sender => sender,
        }
    }

    /// Makes Poisson arrivals, this many in 1000 s on average.
    #[must_use]
    pub const fn poisson_packets(per_1000_s: u64) -> Self {
        Self::Poisson(Pace::Packets { per_1000_s })
    }
}

/// A generator of a source's arrivals.
trait Process {
    /// Activates the source at `start`.
    fn start(&mut self, start: Nanos, random: &mut Random);

    /// Returns the next packet, not before the previous one; `None` after the last.
    fn next(&mut self, random: &mut Random) -> Option<Arrival>;
}

/// A running model.
#[derive(Clone, Debug)]
pub(crate) enum Running {
    /// A model without times.
    Greedy(Lengths),
    Even(Even),
    Uneven(Uneven),
    Poisson(Poisson),
    OnOff(Box<OnOff>),
    Mmpp(Box<Mmpp>),
    Pictures(Box<Pictures>),
    Dar1(Box<Dar1Frames>),
    Replay(Replay),
}

impl Running {
    /// Runs `model` with packets of these lengths, which were checked.
    pub(crate) fn new(model: &Model, packet: &PacketSize) -> Result<Self, SourceError> {
        let lengths = Lengths::new(packet)?;
        Ok(match model {
            Model::Greedy => Self::Greedy(lengths),
            Model::Saturating(rate) => Self::Uneven(Uneven::new(*rate, lengths)),
            Model::Cbr { pace, burst } => Self::Even(Even::new(*pace, *burst, lengths)?),
            Model::Poisson(pace) => Self::Poisson(Poisson::new(*pace, packet, lengths)),
            Model::OnOff { pace, on, off } => Self::OnOff(Box::new(OnOff::new(*pace, *on, *off, packet, lengths)?)),
            Model::Mmpp(states) => Self::Mmpp(Box::new(Mmpp::new(states, lengths)?)),
            Model::Mpeg(mpeg) => Self::Pictures(Box::new(Pictures::new(mpeg, packet)?)),
            Model::Dar1(dar1) => Self::Dar1(Box::new(Dar1Frames::new(dar1, packet)?)),
            Model::Trace(trace) => Self::Replay(Replay::new(trace)),
            Model::Tcp(_) | Model::RequestResponse(_) => return Err(SourceError::Closed),
            // The source holds the shaper, whose queue outlives intervals of activity.
            Model::Shaped(shaped) => return Self::new(&shaped.model, packet),
        })
    }

    /// Activates the source at `start`.
    pub(crate) fn start(&mut self, start: Nanos, random: &mut Random) {
        match self {
            Self::Greedy(_) => {}
            Self::Even(process) => process.start(start, random),
            Self::Uneven(process) => process.start(start, random),
            Self::Poisson(process) => process.start(start, random),
            Self::OnOff(process) => process.start(start, random),
            Self::Mmpp(process) => process.start(start, random),
            Self::Pictures(process) => process.start(start, random),
            Self::Dar1(process) => process.start(start, random),
            Self::Replay(process) => process.start(start, random),
        }
    }

    /// Returns the next packet; `None` after the last, or if the model generates none by itself.
    pub(crate) fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        match self {
            Self::Greedy(_) => None,
            Self::Even(process) => process.next(random),
            Self::Uneven(process) => process.next(random),
            Self::Poisson(process) => process.next(random),
            Self::OnOff(process) => process.next(random),
            Self::Mmpp(process) => process.next(random),
            Self::Pictures(process) => process.next(random),
            Self::Dar1(process) => process.next(random),
            Self::Replay(process) => process.next(random),
        }
    }
}

#[cfg(test)]
mod tests;
