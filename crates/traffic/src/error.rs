//! Why a source cannot run.

use crate::curve::CurveError;
use crate::interval::Interval;

/// The reason for which a source cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SourceError {
    /// A packet of no bytes.
    #[error("a packet of 0 B; the shortest packet has 1 B")]
    EmptyPacket,
    /// A packet longer than any link carries.
    #[error("a packet of {len} B; the longest packet has {limit} B")]
    PacketTooLong {
        /// The requested longest packet, in bytes.
        len: u64,
        /// The longest packet taken, in bytes.
        limit: u32,
    },
    /// A range whose smallest value is above its largest.
    #[error("packets of {min} B to {max} B: the shortest is longer than the longest")]
    EmptyRange {
        /// The requested shortest, in bytes.
        min: u32,
        /// The requested longest, in bytes.
        max: u32,
    },
    /// No packets at all.
    #[error("0 packets per second; leave the source out instead")]
    NoPackets,
    /// More packets than [`MAX_PACKETS_PER_SECOND`](crate::MAX_PACKETS_PER_SECOND).
    #[error("{packets_per_second} packets per second; the limit is {limit}")]
    TooManyPackets {
        /// Asked for, rounded down.
        packets_per_second: u64,
        /// [`MAX_PACKETS_PER_SECOND`](crate::MAX_PACKETS_PER_SECOND).
        limit: u64,
    },
    /// No lengths of packets, or more than [`MAX_MIX`](crate::MAX_MIX).
    #[error("{count} lengths of packets; there can be 1 to {limit}")]
    Lengths {
        /// Actual number.
        count: usize,
        /// [`MAX_MIX`](crate::MAX_MIX).
        limit: usize,
    },
    /// A length that is never drawn.
    #[error("a length of weight 0; leave it out")]
    NoWeight,
    /// An exponential mean that no distribution between its limits has.
    #[error("an exponential mean of {mean} B; between its limits it can have {least} to {most} B")]
    Mean {
        /// The requested mean, in bytes.
        mean: u32,
        /// The least possible, in bytes.
        least: u32,
        /// The largest possible, in bytes.
        most: u32,
    },
    /// A lognormal distribution that lies outside its limits.
    #[error(
        "lognormal lengths of {mean} B with a deviation of {deviation} B hardly ever lie between {min} and {max} B"
    )]
    HardlyInside {
        /// Mean, in bytes.
        mean: u32,
        /// Standard deviation, in bytes.
        deviation: u32,
        /// Shortest, in bytes.
        min: u32,
        /// Longest, in bytes.
        max: u32,
    },
    /// A number outside its range.
    #[error("{what} of {}; it must be {must}", shown(*.value))]
    Parameter {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The valid range.
        must: &'static str,
    },
    /// A model without states, or with more than [`MAX_STATES`](crate::MAX_STATES).
    #[error("{count} states; there can be 1 to {limit}")]
    States {
        /// Actual number.
        count: usize,
        /// [`MAX_STATES`](crate::MAX_STATES).
        limit: usize,
    },
    /// Weights of next states that are not one for each state, or all zero.
    #[error("state {}: {count} weights of next states; write one for each of the {states}, not all zero", .state + 1)]
    NextStates {
        /// The state, from 0.
        state: usize,
        /// Its number of weights.
        count: usize,
        /// Number of states.
        states: usize,
    },
    /// A group without pictures, or with more than [`MAX_PICTURES`](crate::MAX_PICTURES).
    #[error("a group of {count} pictures; there can be 1 to {limit}")]
    Pictures {
        /// Actual number.
        count: usize,
        /// [`MAX_PICTURES`](crate::MAX_PICTURES).
        limit: usize,
    },
    /// A variance that no negative binomial distribution has.
    #[error(
        "a variance of {variance} packets^2 at a mean of {mean} packets a frame; that of a negative binomial distribution is \
         above its mean: write shorter packets, a larger deviation_to_mean, or marginal = \"gamma\""
    )]
    Variance {
        /// Mean number of packets of a frame.
        mean: f64,
        /// Variance of that number.
        variance: f64,
    },
    /// Frames of more packets than [`MAX_FRAME_PACKETS`](crate::MAX_FRAME_PACKETS).
    #[error("frames of up to {packets} packets; the limit is {limit}: write longer packets")]
    FramePackets {
        /// Packets of the longest frame.
        packets: u64,
        /// [`MAX_FRAME_PACKETS`](crate::MAX_FRAME_PACKETS).
        limit: u32,
    },
    /// A curve that no traffic conforms to.
    #[error("an arrival curve with {0}")]
    Curve(#[from] CurveError),
    /// Packets that never conform to the source's arrival curve.
    #[error(
        "packets of up to {len} B; the longest that conforms to its arrival curve has {limit} B: raise the curve's burst, or shorten the packets"
    )]
    NeverConforms {
        /// The longest packet, in bytes.
        len: u32,
        /// The longest that conforms, in bytes.
        limit: u64,
    },
    /// A greedy source behind a policer, which would be dropped without end.
    #[error("a greedy source cannot be policed: it offers dropped packets again at once; shape it, or give it a rate")]
    GreedyPoliced,
    /// A shaper whose queue holds no packet.
    #[error("packets of up to {len} B before a shaper whose queue holds {bytes} B; the least is the longest packet")]
    ShaperQueue {
        /// The longest packet, in bytes.
        len: u32,
        /// Limit of the queue, in bytes.
        bytes: u32,
    },
    /// A shaper behind a shaper.
    #[error("a source shaped twice; write both limits as one curve")]
    ShapedTwice,
    /// A source that needs feedback on its packets, where there is none.
    #[error(
        "a source of requests or with a window runs only in simulations, where it hears of its packets; on a real link, \
         `fairlink generate --tcp` sends by TCP of the kernel"
    )]
    Closed,
    /// A shaper or policer behind a closed source.
    #[error("a shaper or policer at a source of requests or a source with a window, which limits itself; leave it out")]
    ClosedShaped,
    /// A trace without packets.
    #[error("a trace without packets")]
    EmptyTrace,
    /// An interval that ends before it starts, or starts before the one before it has ended.
    #[error("active from {} to {}: intervals must be in order, disjoint and not empty", .interval.start, .interval.end)]
    Interval {
        /// The interval.
        interval: Interval,
    },
}

/// Formats a number: very large and very small ones with an exponent.
fn shown(value: f64) -> String {
    if value != 0.0 && !(1e-9..1e15).contains(&value.abs()) { format!("{value:e}") } else { value.to_string() }
}
