//! One running source.
//!
//! Invariants: arrivals never decrease in time and lie inside an active interval. A source restarts at each interval;
//! one of constant rate and a saturating one start with a packet at its first instant. Packets in a shaper when an
//! interval ends still arrive, until the run ends.

use std::vec::IntoIter;

use fairlink_core::{Amount, Nanos};

use crate::error::SourceError;
use crate::interval::Interval;
use crate::models::{Arrival, Excess, Model, Running};
use crate::random::Random;
use crate::shaping::{Policer, Shaper};
use crate::spec::SourceSpec;

/// A running source. As an iterator it yields the arrivals of a timed source. A greedy source yields none: whenever its
/// class wants another packet, the caller takes a length from [`Source::next_len`].
#[derive(Clone, Debug)]
pub struct Source {
    running: Running,
    held: Option<Box<Held>>,
    end: Nanos,
    random: Random,
    active: Option<Interval>,
    later: IntoIter<Interval>,
}

/// The shaper or policer of a source.
#[derive(Clone, Debug)]
enum Held {
    Shaped(Shaper),
    Policed(Policer),
}

impl Held {
    /// Returns the time at which a packet sent at `at` arrives; `None` if it is lost.
    fn arrive(&mut self, at: Nanos, len: u32) -> Option<Nanos> {
        match self {
            Self::Shaped(shaper) => shaper.arrive(at, len).ok(),
            Self::Policed(policer) => policer.arrive(at, len),
        }
    }
}

impl Source {
    /// Starts source number `index` of a run with this `seed` that lasts until `end`.
    ///
    /// # Errors
    /// As [`SourceSpec::validate`].
    pub fn new(spec: &SourceSpec, seed: u64, index: u32, end: Nanos) -> Result<Self, SourceError> {
        let running = spec.running()?.ok_or(SourceError::Closed)?;
        let later = spec.active_until(end).into_iter();
        let held = match &spec.model {
            Model::Shaped(shaped) => Some(Box::new(match shaped.excess {
                Excess::Waits(limits) => Held::Shaped(Shaper::new(&shaped.curve, limits)?),
                Excess::Drops => Held::Policed(Policer::new(&shaped.curve)?),
            })),
            _ => None,
        };
        let mut source = Self { running, held, end, random: Random::new(seed, index), active: None, later };
        source.start_interval();
        Ok(source)
    }

    /// Returns true if the source is greedy. Behind a shaper it is not: it sends as fast as that lets it.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        matches!(self.running, Running::Greedy(_)) && self.held.is_none()
    }

    /// Amount that the source's own shaper or policer has dropped so far.
    #[must_use]
    pub fn lost(&self) -> Amount {
        match self.held.as_deref() {
            None => Amount::default(),
            Some(Held::Shaped(shaper)) => shaper.lost(),
            Some(Held::Policed(policer)) => policer.dropped(),
        }
    }

    /// Returns the current or next interval of the source; `None` when it has ended.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        self.active
    }

    /// Returns the length in bytes of the next packet of a greedy source.
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

impl Source {
    /// Returns the next packet before any shaper.
    fn send(&mut self) -> Option<Arrival> {
        loop {
            let interval = self.active?;
            // A greedy source is silent here, and so is a trace that has ended: the next interval restarts it.
            let next = match (&self.running, self.held.as_deref()) {
                (Running::Greedy(lengths), Some(Held::Shaped(shaper))) => {
                    let at = interval.start.max(shaper.free_at());
                    (at < interval.end).then(|| Arrival { at, len: lengths.draw(&mut self.random) })
                }
                (Running::Greedy(_), _) => return None,
                _ => self.running.next(&mut self.random),
            };
            match next {
                Some(arrival) if arrival.at < interval.end => return Some(arrival),
                _ => self.start_interval(),
            }
        }
    }
}

impl Iterator for Source {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let sent = self.send()?;
            let Some(held) = &mut self.held else { return Some(sent) };
            if let Some(at) = held.arrive(sent.at, sent.len) {
                return (at < self.end).then_some(Arrival { at, ..sent });
            }
        }
    }
}

#[cfg(test)]
mod tests;
