//! One running source.
//!
//! Invariants: arrivals never decrease in time and lie inside an active interval. A source starts anew at each interval; one of
//! constant rate and a saturating one start with a packet at its first instant.

use std::vec::IntoIter;

use fairlink_core::Nanos;

use crate::error::SourceError;
use crate::interval::Interval;
use crate::models::{Arrival, Running};
use crate::random::Random;
use crate::spec::SourceSpec;

/// A running source. As an iterator it yields the arrivals of a timed source. A greedy source yields none: whenever its class wants
/// another packet, it is asked for a length ([`Source::next_len`]).
#[derive(Clone, Debug)]
pub struct Source {
    running: Running,
    random: Random,
    active: Option<Interval>,
    later: IntoIter<Interval>,
}

impl Source {
    /// Starts source number `index` of a run with this `seed` that lasts until `end`.
    ///
    /// # Errors
    /// As [`SourceSpec::validate`].
    pub fn new(spec: &SourceSpec, seed: u64, index: u32, end: Nanos) -> Result<Self, SourceError> {
        spec.validate()?;
        let running = Running::new(&spec.model, &spec.packet)?;
        let later = spec.active_until(end).into_iter();
        let mut source = Self { running, random: Random::new(seed, index), active: None, later };
        source.start_interval();
        Ok(source)
    }

    /// Whether the source is greedy.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        matches!(self.running, Running::Greedy(_))
    }

    /// The interval that the source is in or waits for; `None` when it has ended.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        self.active
    }

    /// The length in bytes of the next packet of a greedy source.
    ///
    /// # Panics
    /// When the source is not greedy.
    pub fn next_len(&mut self) -> u32 {
        match &self.running {
            Running::Greedy(lengths) => lengths.draw(&mut self.random),
            _ => panic!("only a greedy source is asked for lengths"),
        }
    }

    /// Leaves the interval that the source is in for the next, if there is one.
    pub fn start_interval(&mut self) {
        self.active = self.later.next();
        if let Some(Interval { start, .. }) = self.active {
            self.running.start(start, &mut self.random);
        }
    }
}

impl Iterator for Source {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let interval = self.active?;
            // A greedy source is silent here, and so is a trace that has ended: the next interval starts it anew.
            if self.is_greedy() {
                return None;
            }
            match self.running.next(&mut self.random) {
                Some(arrival) if arrival.at < interval.end => return Some(arrival),
                _ => self.start_interval(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
