//! All sources of a scenario, merged in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fairlink_core::{Amount, ClassId, Nanos};

use crate::error::SourceError;
use crate::source::Source;
use crate::spec::SourceSpec;

/// What happens at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A packet of `len` bytes arrives.
    Packet {
        /// Its length in bytes.
        len: u32,
    },
    /// A greedy source starts: from now on its class is to be kept backlogged with packets of the lengths that
    /// [`TrafficMix::greedy_len`] gives.
    GreedyStart,
    /// A greedy source stops.
    GreedyStop,
}

/// Something that happens at one of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// The index of the source.
    pub source: u32,
    /// The source's class.
    pub class: ClassId,
    /// What.
    pub what: What,
}

/// All sources of a scenario. As an iterator it yields their events in the order of time. Events of the same instant come in the
/// order of the sources.
#[derive(Clone, Debug)]
pub struct TrafficMix {
    sources: Vec<(ClassId, Source)>,
    /// What each source does next: when, its index, and what.
    next: BinaryHeap<Reverse<(Nanos, u32, What)>>,
}

/// A source that cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("source {index}: {error}")]
pub struct MixError {
    /// The index of the source, from 0.
    pub index: usize,
    /// Why.
    #[source]
    pub error: SourceError,
}

impl TrafficMix {
    /// Starts the sources of a run with this `seed` that lasts until `end`.
    ///
    /// # Errors
    /// The first source that cannot run. A mix has at most 2^32 sources; more are a mistake of the caller.
    pub fn new(specs: &[SourceSpec], seed: u64, end: Nanos) -> Result<Self, MixError> {
        let mut mix = Self { sources: Vec::with_capacity(specs.len()), next: BinaryHeap::with_capacity(specs.len()) };
        for (index, spec) in specs.iter().enumerate() {
            let mut source = Source::new(spec, seed, index as u32, end).map_err(|error| MixError { index, error })?;
            let first = if source.is_greedy() {
                source.interval().map(|interval| (interval.start, What::GreedyStart))
            } else {
                next_packet(&mut source)
            };
            mix.next.extend(first.map(|(at, next)| Reverse((at, index as u32, next))));
            mix.sources.push((spec.class, source));
        }
        Ok(mix)
    }

    /// When something happens next; `None` when all sources have ended.
    #[must_use]
    pub fn peek(&self) -> Option<Nanos> {
        self.next.peek().map(|Reverse((at, ..))| *at)
    }

    /// What the shaper or policer of source number `source` has lost so far.
    ///
    /// # Panics
    /// When there is no such source.
    #[must_use]
    pub fn lost(&self, source: u32) -> Amount {
        self.sources[source as usize].1.lost()
    }

    /// The length in bytes of the next packet of the greedy source number `source`.
    ///
    /// # Panics
    /// When there is no such source.
    pub fn greedy_len(&mut self, source: u32) -> u32 {
        self.sources[source as usize].1.next_len()
    }
}

impl Iterator for TrafficMix {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut top = self.next.peek_mut()?;
        let Reverse((at, index, what)) = *top;
        let (class, source) = &mut self.sources[index as usize];
        let then = match what {
            What::Packet { .. } => next_packet(source),
            What::GreedyStart => source.interval().map(|interval| (interval.end, What::GreedyStop)),
            What::GreedyStop => {
                source.start_interval();
                source.interval().map(|interval| (interval.start, What::GreedyStart))
            }
        };
        match then {
            Some((at, next)) => *top = Reverse((at, index, next)),
            None => drop(PeekMut::pop(top)),
        }
        Some(Event { at, source: index, class: *class, what })
    }
}

fn next_packet(source: &mut Source) -> Option<(Nanos, What)> {
    source.next().map(|arrival| (arrival.at, What::Packet { len: arrival.len }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use crate::length::PacketSize;
    use crate::models::Model;

    fn spec(class: u32, model: Model, active: &[(u64, u64)]) -> SourceSpec {
        let active =
            active.iter().map(|&(start, end)| Interval { start: Nanos::from_secs(start), end: Nanos::from_secs(end) });
        SourceSpec { class: ClassId(class), model, packet: PacketSize::Fixed(class * 100), active: active.collect() }
    }

    #[test]
    fn events_come_in_the_order_of_time_and_ties_in_the_order_of_sources() {
        let specs = [
            spec(2, Model::cbr_packets(1000), &[(1, 4)]),
            spec(1, Model::Greedy, &[(0, 2), (2, 3), (5, 7)]),
            spec(3, Model::cbr_packets(500), &[]),
        ];
        let mix = TrafficMix::new(&specs, 1, Nanos::from_secs(6)).unwrap();
        let seen: Vec<String> = mix
            .map(|event| {
                let what = match event.what {
                    What::Packet { len } => format!("{len}"),
                    What::GreedyStart => "start".into(),
                    What::GreedyStop => "stop".into(),
                };
                format!("{} s{} c{} {what}", event.at.0 / 1_000_000_000, event.source, event.class.0)
            })
            .collect();
        assert_eq!(
            seen,
            [
                "0 s1 c1 start",
                "0 s2 c3 300",
                "1 s0 c2 200",
                "2 s0 c2 200",
                "2 s1 c1 stop",
                "2 s1 c1 start",
                "2 s2 c3 300",
                "3 s0 c2 200",
                "3 s1 c1 stop",
                "4 s2 c3 300",
                "5 s1 c1 start",
                "6 s1 c1 stop",
            ]
        );
    }

    #[test]
    fn a_source_sends_the_same_alone_and_among_others() {
        let poisson = Model::poisson_packets(3_000_000);
        let specs: Vec<SourceSpec> = (1..6).map(|class| spec(class, poisson.clone(), &[(1, 2), (4, 5)])).collect();
        let end = Nanos::from_secs(9);
        let mut all = vec![Vec::new(); specs.len()];
        let mut last = Nanos::ZERO;
        for event in TrafficMix::new(&specs, 5, end).unwrap() {
            assert!(event.at >= last);
            last = event.at;
            all[event.source as usize].push(event.at);
        }
        for (index, spec) in specs.iter().enumerate() {
            let alone: Vec<Nanos> =
                Source::new(spec, 5, index as u32, end).unwrap().map(|arrival| arrival.at).collect();
            assert!(alone.len() > 5000);
            assert_eq!(all[index], alone);
        }
    }

    #[test]
    fn the_source_that_cannot_run_is_named() {
        let specs = [spec(1, Model::Greedy, &[]), spec(0, Model::Greedy, &[])];
        let error = TrafficMix::new(&specs, 1, Nanos::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "source 1: a packet of 0 B; the shortest packet has 1 B");
    }
}
