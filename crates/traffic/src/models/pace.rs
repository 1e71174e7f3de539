//! The pace of a source, and the time between its packets.

use fairlink_core::Rate;

use crate::fine::Fine;
use crate::length::PacketSize;

/// The mean pace of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This rate. Each packet is followed by the time it takes at the rate.
    Rate(Rate),
    /// This many packets in 1000 s, of any length.
    Packets {
        /// Packets per 1000 s.
        per_1000_s: u64,
    },
}

impl Pace {
    /// Returns the mean number of packets of this size per second.
    pub(crate) fn packets_per_second(self, packet: &PacketSize) -> f64 {
        match self {
            Self::Rate(rate) => rate.bps() as f64 / 8.0 / packet.mean(),
            Self::Packets { per_1000_s } => per_1000_s as f64 / 1000.0,
        }
    }
}

/// The time that belongs to each packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    per_byte: Fine,
    per_packet: Fine,
}

impl Gap {
    /// Makes a spacing at `pace`.
    pub(super) fn new(pace: Pace) -> Self {
        match pace {
            Pace::Rate(rate) => Self { per_byte: Fine::from_ratio(8, rate.bps().into()), per_packet: Fine::default() },
            Pace::Packets { per_1000_s } => {
                Self { per_byte: Fine::default(), per_packet: Fine::from_ratio(1000, per_1000_s.into()) }
            }
        }
    }

    /// Returns the time of a packet of `len` bytes.
    pub(super) fn of(self, len: u32) -> Fine {
        self.per_byte.times(len.into()).after(self.per_packet)
    }
}
