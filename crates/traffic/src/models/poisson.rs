//! Poisson arrivals.

use fairlink_core::Nanos;

use super::{Arrival, Pace, Process};
use crate::fine::Fine;
use crate::length::{Lengths, PacketSize};
use crate::random::Random;

/// Exponentially distributed times between packets.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    lengths: Lengths,
    at: Fine,
    mean_gap_s: f64,
}

impl Poisson {
    pub(super) fn new(pace: Pace, packet: &PacketSize, lengths: Lengths) -> Self {
        Self { lengths, at: Fine::default(), mean_gap_s: 1.0 / pace.packets_per_second(packet) }
    }

    fn step(&mut self, random: &mut Random) {
        self.at = self.at.after(Fine::from_secs(random.exponential() * self.mean_gap_s));
    }
}

impl Process for Poisson {
    fn start(&mut self, start: Nanos, random: &mut Random) {
        self.at = Fine::from_nanos(start);
        self.step(random);
    }

    #[inline]
    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let arrival = Arrival { at: self.at.ceil(), len: self.lengths.draw(random) };
        self.step(random);
        Some(arrival)
    }
}
