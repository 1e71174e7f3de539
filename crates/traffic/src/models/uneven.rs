//! Packets at a mean rate, out of step with all others.

use fairlink_core::{Nanos, Rate};

use super::{Arrival, Process};
use crate::fine::Fine;
use crate::length::Lengths;
use crate::random::Random;

/// Each packet is followed by `len * per_byte` times a number between a half and one and a half.
#[derive(Clone, Debug)]
pub(crate) struct Uneven {
    lengths: Lengths,
    at: Fine,
    per_byte: Fine,
}

impl Uneven {
    pub(super) fn new(rate: Rate, lengths: Lengths) -> Self {
        Self { lengths, at: Fine::default(), per_byte: Fine::from_ratio(8, rate.bps().into()) }
    }
}

impl Process for Uneven {
    fn start(&mut self, start: Nanos, _: &mut Random) {
        self.at = Fine::from_nanos(start);
    }

    #[inline]
    fn next(&mut self, random: &mut Random) -> Option<Arrival> {
        let arrival = Arrival { at: self.at.ceil(), len: self.lengths.draw(random) };
        // Uniform, and one on average.
        let factor = (random.bits() >> 32) + (1 << 31);
        self.at = self.at.after(self.per_byte.times(arrival.len.into()).scaled(factor));
        Some(arrival)
    }
}
