//! All sources of a scenario, merged in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fairlink_core::{Amount, ClassId, Nanos};

use crate::closed::{Closed, ClosedReport, Sent};
use crate::error::SourceError;
use crate::models::Model;
use crate::random::Random;
use crate::source::Source;
use crate::spec::SourceSpec;

/// An event at a source.
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
    /// A closed source was polled and does nothing.
    Nothing,
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
    /// The event.
    pub what: What,
    /// Identifies the packet to a closed source ([`TrafficMix::arrived`]); absent for others.
    pub tag: Option<u32>,
}

/// The next action of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Packet(u32),
    GreedyStart,
    GreedyStop,
    /// Polls a closed source.
    Look,
}

#[derive(Clone, Debug)]
enum Sender {
    Open(Box<Source>),
    Closed(Box<Closed>),
}

/// All sources of a scenario. As an iterator it yields their events in the order of time. Events of the same instant come in the
/// order of the sources.
#[derive(Clone, Debug)]
pub struct TrafficMix {
    sources: Vec<(ClassId, Sender)>,
    /// The next action of each source: time, index, action. A closed source may have stale entries; none of them is on
    /// top.
    next: BinaryHeap<Reverse<(Nanos, u32, Next)>>,
    /// The time of the last event. No event is scheduled before it.
    now: Nanos,
}

/// A source that cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("source {index}: {error}")]
pub struct MixError {
    /// The index of the source, from 0.
    pub index: usize,
    /// Reason of the failure.
    #[source]
    pub error: SourceError,
}

impl TrafficMix {
    /// Starts the sources of a run with this `seed` that lasts until `end`.
    ///
    /// # Errors
    /// The first source that cannot run. A mix has at most 2^32 sources; more are a mistake of the caller.
    pub fn new(specs: &[SourceSpec], seed: u64, end: Nanos) -> Result<Self, MixError> {
        let mut mix = Self {
            sources: Vec::with_capacity(specs.len()),
            next: BinaryHeap::with_capacity(specs.len()),
            now: Nanos::ZERO,
        };
        for (index, spec) in specs.iter().enumerate() {
            let refused = |error| MixError { index, error };
            let active = || spec.active_until(end);
            let random = Random::new(seed, index as u32);
            let closed = match spec.model.sender() {
                Model::Tcp(tcp) => Some(Closed::tcp(*tcp, &spec.packet, active(), random)),
                Model::RequestResponse(requests) => Some(Closed::requests(*requests, &spec.packet, active(), random)),
                _ => None,
            };
            if let Some(closed) = closed {
                spec.validate().map_err(refused)?;
                mix.sources.push((spec.class, Sender::Closed(Box::new(closed.map_err(refused)?))));
                mix.schedule(index as u32);
                continue;
            }
            let mut source = Source::new(spec, seed, index as u32, end).map_err(refused)?;
            let first = if source.is_greedy() {
                source.interval().map(|interval| (interval.start, Next::GreedyStart))
            } else {
                next_packet(&mut source)
            };
            mix.next.extend(first.map(|(at, next)| Reverse((at, index as u32, next))));
            mix.sources.push((spec.class, Sender::Open(Box::new(source))));
        }
        Ok(mix)
    }

    /// Reports that a packet with this `tag` of source number `source` reaches its receiver at `at`, which may be later
    /// than the last event; a time before the last event counts as the time of that event. `marked` is true if the
    /// packet has met congestion. A packet that is never reported is lost.
    ///
    /// # Panics
    /// When there is no such source.
    pub fn arrived(&mut self, source: u32, tag: u32, at: Nanos, marked: bool) {
        if let Sender::Closed(closed) = &mut self.sources[source as usize].1 {
            closed.arrived(at.max(self.now), tag, marked);
            self.schedule(source);
        }
    }

    /// Returns the results of a closed source so far; `None` for others.
    ///
    /// # Panics
    /// When there is no such source.
    #[must_use]
    pub fn closed(&self, source: u32) -> Option<ClosedReport> {
        match &self.sources[source as usize].1 {
            Sender::Open(_) => None,
            Sender::Closed(closed) => Some(closed.report()),
        }
    }

    /// Enters a closed source for when it does something next, which is not before the last event.
    fn schedule(&mut self, index: u32) {
        let now = self.now;
        let Sender::Closed(closed) = &mut self.sources[index as usize].1 else { return };
        let next = closed.next_time().map(|at| at.max(now));
        // A later time is found when the earlier one comes.
        if let Some(at) = next
            && closed.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            closed.scheduled = Some(at);
            self.next.push(Reverse((at, index, Next::Look)));
        }
        self.forget_the_untrue();
    }

    /// Removes entries from the top that an earlier one has replaced.
    fn forget_the_untrue(&mut self) {
        while let Some(&Reverse((at, index, Next::Look))) = self.next.peek() {
            match &self.sources[index as usize].1 {
                Sender::Closed(closed) if closed.scheduled == Some(at) => return,
                _ => drop(self.next.pop()),
            }
        }
    }

    /// Polls a closed source at `at`.
    fn look(&mut self, index: u32, at: Nanos) -> Option<Sent> {
        self.next.pop();
        let Sender::Closed(closed) = &mut self.sources[index as usize].1 else { return None };
        closed.scheduled = None;
        let sent = closed.poll(at);
        self.schedule(index);
        sent
    }

    /// Time of the next event; `None` when all sources have ended.
    #[must_use]
    pub fn peek(&self) -> Option<Nanos> {
        self.next.peek().map(|Reverse((at, ..))| *at)
    }

    /// Amount that the shaper or policer of source number `source` has dropped so far.
    ///
    /// # Panics
    /// When there is no such source.
    #[must_use]
    pub fn lost(&self, source: u32) -> Amount {
        match &self.sources[source as usize].1 {
            Sender::Open(source) => source.lost(),
            Sender::Closed(_) => Amount::default(),
        }
    }

    /// Returns the length in bytes of the next packet of the greedy source number `source`.
    ///
    /// # Panics
    /// When there is no such source, or it is not greedy.
    pub fn greedy_len(&mut self, source: u32) -> u32 {
        match &mut self.sources[source as usize].1 {
            Sender::Open(source) => source.next_len(),
            Sender::Closed(_) => panic!("only a greedy source is asked for lengths"),
        }
    }
}

impl Iterator for TrafficMix {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((at, index, next)) = *self.next.peek()?;
        self.now = at;
        if next == Next::Look {
            let sent = self.look(index, at);
            let what = sent.map_or(What::Nothing, |sent| What::Packet { len: sent.len });
            let class = self.sources[index as usize].0;
            return Some(Event { at, source: index, class, what, tag: sent.map(|sent| sent.tag) });
        }
        let mut top = self.next.peek_mut()?;
        let (class, sender) = &mut self.sources[index as usize];
        let Sender::Open(source) = sender else { return None };
        let (what, then) = match next {
            Next::Packet(len) => (What::Packet { len }, next_packet(source)),
            Next::GreedyStart => {
                (What::GreedyStart, source.interval().map(|interval| (interval.end, Next::GreedyStop)))
            }
            Next::GreedyStop => {
                source.start_interval();
                (What::GreedyStop, source.interval().map(|interval| (interval.start, Next::GreedyStart)))
            }
            Next::Look => (What::Nothing, None),
        };
        match then {
            Some((at, next)) => {
                *top = Reverse((at, index, next));
                drop(top);
            }
            None => drop(PeekMut::pop(top)),
        }
        let event = Event { at, source: index, class: *class, what, tag: None };
        self.forget_the_untrue();
        Some(event)
    }
}

fn next_packet(source: &mut Source) -> Option<(Nanos, Next)> {
    source.next().map(|arrival| (arrival.at, Next::Packet(arrival.len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::{CongestionControl, RequestResponse, Tcp};
    use crate::interval::Interval;
    use crate::length::PacketSize;

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
                    What::Nothing => unreachable!("all sources are open"),
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

    /// Closed sources: windows of both kinds, and requests.
    fn closed_specs(rtt: Nanos) -> Vec<SourceSpec> {
        let tcp = |congestion_control| Model::Tcp(Tcp { congestion_control, rtt });
        let requests =
            RequestResponse { request: 5_000, response: 1_000, think: Nanos::from_millis(1), rtt, return_rate: None };
        let models = [tcp(CongestionControl::Reno), tcp(CongestionControl::Cubic), Model::RequestResponse(requests)];
        (1..).zip(models).map(|(class, model)| spec(class, model, &[(0, 1), (2, 4)])).collect()
    }

    /// Plays `events` events and reports each packet at once as arrived at the time that `at` computes from the time of sending, except
    /// each seventh, which is lost. Returns the times of the events.
    fn play(mix: &mut TrafficMix, events: usize, at: impl Fn(Nanos) -> Nanos) -> Vec<Nanos> {
        let mut times = Vec::new();
        while times.len() < events {
            let Some(event) = mix.next() else { break };
            times.push(event.at);
            if let Some(tag) = event.tag.filter(|tag| tag % 7 != 3) {
                mix.arrived(event.source, tag, at(event.at), tag % 5 == 0);
            }
        }
        times
    }

    #[test]
    fn a_packet_that_arrives_at_once_moves_no_event_into_the_past() {
        for rtt in [1, 5, 20].map(Nanos::from_millis) {
            let mut mix = TrafficMix::new(&closed_specs(rtt), 1, Nanos::from_secs(5)).unwrap();
            let times = play(&mut mix, 100_000, |sent| sent);
            assert!(times.is_sorted(), "{:?}", times.windows(2).find(|pair| pair[1] < pair[0]));
            // The windows stay small under this loss. The run has reached its second interval nevertheless.
            assert!(times.len() > 100 && times.last() > Some(&Nanos::from_secs(2)), "{} events", times.len());
        }
    }

    #[test]
    fn a_packet_that_arrives_before_it_was_sent_arrives_when_it_is_reported() {
        let run = |at: fn(Nanos) -> Nanos| {
            let mut mix = TrafficMix::new(&closed_specs(Nanos::from_millis(20)), 1, Nanos::from_secs(5)).unwrap();
            let times = play(&mut mix, 100_000, at);
            (times, [0, 1, 2].map(|source| mix.closed(source)))
        };
        let right = run(|sent| sent);
        assert!(run(|_| Nanos::ZERO) == right && run(|sent| Nanos(sent.0 / 2)) == right);
    }

    #[test]
    fn the_source_that_cannot_run_is_named() {
        let specs = [spec(1, Model::Greedy, &[]), spec(0, Model::Greedy, &[])];
        let error = TrafficMix::new(&specs, 1, Nanos::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "source 1: a packet of 0 B; the shortest packet has 1 B");
    }
}
