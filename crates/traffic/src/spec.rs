//! What a source does, as plain data.

use fairlink_core::packet::ClassId;
use fairlink_core::units::{Nanos, Rate};

/// A span of time in which a source is active: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First active instant.
    pub start: Nanos,
    /// First inactive instant; later than `start`.
    pub end: Nanos,
}

/// How long packets are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// Always the same.
    Fixed(u32),
    /// Uniform between `min` and `max`, both included, plus a fixed `header`.
    Uniform {
        /// Shortest payload.
        min: u32,
        /// Longest payload.
        max: u32,
        /// Added to every payload.
        header: u32,
    },
}

/// When packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Always has another packet: the class stays backlogged while the source is active.
    Greedy,
    /// Evenly spaced packets at this rate; of packets of varying size, each is followed by the time it takes at the rate.
    CbrRate(Rate),
    /// Evenly spaced packets, this many in 1000 s.
    CbrPackets {
        /// Packets per 1000 s.
        per_1000_s: u64,
    },
    /// Poisson arrivals whose mean rate in bit/s is this.
    PoissonRate(Rate),
    /// Poisson arrivals, this many in 1000 s on average.
    PoissonPackets {
        /// Packets per 1000 s.
        per_1000_s: u64,
    },
}

/// One source of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// The leaf that its packets belong to.
    pub class: ClassId,
    /// When packets arrive.
    pub model: Model,
    /// How long they are.
    pub packet: PacketSize,
    /// When the source is active, in order and disjoint; the whole run when empty.
    pub active: Vec<Interval>,
}
