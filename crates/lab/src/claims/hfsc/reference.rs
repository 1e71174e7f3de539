//! A reference of H-FSC, SCED and intermediate rules for one level of sessions: service curves of any slopes, times
//! exact, no search trees. It is slow. It runs curves that the schedulers refuse (convex curves with a first slope
//! above zero) and computes E(t) of equation (8), which they do not.

use std::collections::VecDeque;

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, LinkConfig, NANOS_PER_SEC, Nanos, QueueLimits, Rate, ServiceCurve,
};
use fairlink_theory::deadlines::DeadlineMeter;
use fairlink_theory::pieces::{Exact, Pieces, service_of};
use fairlink_theory::required::{Below, Session, estimated, required, served};
use num_rational::Ratio;

use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Lab};

/// A packet that comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// In nanoseconds.
    pub at: u64,
    pub session: usize,
    /// In bytes.
    pub len: u32,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub session: usize,
    /// When its first bit left, in nanoseconds.
    pub start: u64,
    /// When its last bit left, in nanoseconds.
    pub done: u64,
    /// In bytes.
    pub len: u32,
    /// True if the real-time criterion chose it.
    pub in_time: bool,
}

/// A session: its guarantee, and its link-sharing curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curves {
    pub real_time: ServiceCurve,
    pub share: ServiceCurve,
}

/// The rule for the use of the real-time criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Always, and all service counts: SCED.
    Sced,
    /// While a session has had no more than its E_i(t): H-FSC.
    Estimate,
    /// While active sessions would else have less than E(t) together, less this many bytes.
    Exact(Below, u64),
    /// Never: virtual times alone.
    Shared,
}

/// The choice of link-sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The least virtual time.
    Virtual,
    /// This session while it has packets: as unfair as can be to all others.
    Favour(usize),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub sent: Vec<Sent>,
    /// The worst miss of a deadline of each session's curve in seconds, by an independent meter; `None` without
    /// packets.
    pub misses: Vec<Option<f64>>,
}

impl Played {
    /// Returns the worst miss of all, in seconds.
    pub(super) fn worst(&self) -> f64 {
        self.misses.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Returns the part of the bytes that the real-time criterion chose.
    pub(super) fn in_time(&self) -> f64 {
        in_time(&self.sent)
    }

    /// Longest time without service of a session in (from, to], in seconds.
    pub(super) fn longest_gap(&self, session: usize, from: f64, to: f64) -> f64 {
        let (mut last, mut gap) = (from, 0.0f64);
        for packet in self.sent.iter().filter(|packet| packet.session == session) {
            let [start, done] = [packet.start, packet.done].map(|ns| ns as f64 / 1e9);
            if done > from && done <= to {
                gap = gap.max(start - last);
                last = done;
            }
        }
        gap.max(to - last)
    }

    /// Bytes of a session whose last bit left in (from, to], in seconds.
    pub(super) fn bytes(&self, session: usize, from: f64, to: f64) -> f64 {
        let within = |packet: &&Sent| {
            let done = packet.done as f64 / 1e9;
            packet.session == session && done > from && done <= to
        };
        self.sent.iter().filter(within).map(|packet| f64::from(packet.len)).sum()
    }
}

/// Returns the part of the bytes that the real-time criterion chose.
pub(super) fn in_time(sent: &[Sent]) -> f64 {
    let bytes = |packets: &mut dyn Iterator<Item = &Sent>| packets.map(|packet| f64::from(packet.len)).sum::<f64>();
    bytes(&mut sent.iter().filter(|packet| packet.in_time)) / bytes(&mut sent.iter())
}

/// Makes a tree of one level with these sessions, class 1 and up. The meter of deadlines accepts it; the schedulers may
/// refuse its curves.
pub(super) fn flat(curves: &[Curves], link: u64, packets: u32) -> Result<Hierarchy, ClaimError> {
    let rate = Rate::from_bps(link).map_err(ClaimError::other)?;
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: 8192, ..LinkConfig::new(rate) });
    for of in curves {
        let limits = QueueLimits { packets, bytes: u32::MAX };
        let config =
            ClassConfig { real_time: Some(of.real_time), link_share: Some(of.share), limits, ..ClassConfig::default() };
        tree.add(ClassId::ROOT, config).map_err(ClaimError::other)?;
    }
    tree.build().map_err(ClaimError::other)
}

/// The state of the real-time criterion, kept beside a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub sessions: Vec<Session>,
    pub queues: Vec<VecDeque<Arrival>>,
}

impl Model {
    pub(super) fn new(curves: &[Curves]) -> Self {
        Self {
            sessions: curves.iter().map(|of| Session::new(of.real_time)).collect(),
            queues: vec![VecDeque::new(); curves.len()],
        }
    }

    /// Handles an arrival. Returns true if its session becomes active.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> bool {
        let session = arrival.session;
        self.queues[session].push_back(arrival);
        let first = self.queues[session].len() == 1;
        if first {
            self.sessions[session].activate(i128::from(arrival.at));
        }
        first
    }

    /// Removes the head of a session's queue.
    pub(super) fn leave(&mut self, session: usize, counts: bool) -> Option<Arrival> {
        let packet = self.queues[session].pop_front()?;
        let of = &mut self.sessions[session];
        if counts {
            of.served += service_of(u64::from(packet.len));
        }
        of.active = !self.queues[session].is_empty();
        Some(packet)
    }

    /// Sessions with packets.
    pub(super) fn active(&self) -> impl Iterator<Item = usize> {
        (0..self.queues.len()).filter(|&session| !self.queues[session].is_empty())
    }

    /// Returns true if it had no more than its E_i: equation (10).
    pub(super) fn is_eligible(&self, session: usize, now: i128) -> bool {
        let of = &self.sessions[session];
        of.eligible(now) >= Ratio::from_integer(of.served)
    }

    /// Excess of the sum of E_i over E, in bytes; `None` if E has no bound. Neither depends here on the past service.
    pub(super) fn over(&self, link: u64, now: i128) -> Option<f64> {
        let exact = required(&self.sessions, link, now, Below::Curve)?;
        let over = estimated(&self.sessions, now, Below::Curve) - exact;
        Some(*over.numer() as f64 / *over.denom() as f64 / service_of(1) as f64)
    }

    /// Returns true if E would exceed the total service of active sessions plus `less` bytes, if none were served for a
    /// nanosecond: equation (8).
    pub(super) fn is_asked(&self, link: u64, now: i128, below: Below, less: u64) -> bool {
        let had = Ratio::from_integer(served(&self.sessions) + service_of(less));
        required(&self.sessions, link, now + 1, below).is_none_or(|exact| exact > had)
    }

    /// Returns the session with the earliest deadline of those that `of` allows.
    fn earliest(&self, of: impl Fn(usize) -> bool) -> Option<usize> {
        let deadline = |session: usize| {
            let head = self.queues[session].front()?;
            self.sessions[session].deadline(service_of(u64::from(head.len)))
        };
        let allowed = self.active().filter(|&session| of(session));
        allowed.filter_map(|session| Some((deadline(session)?, session))).min().map(|(_, session)| session)
    }
}

/// Virtual times, equation (11), with v^s = (v_min + v_max) / 2 in whole nanoseconds.
struct Sharing {
    curves: Vec<Pieces>,
    shapes: Vec<ServiceCurve>,
    served: Vec<i128>,
    times: Vec<Exact>,
    level: Exact,
}

impl Sharing {
    fn new(curves: &[Curves]) -> Self {
        Self {
            curves: curves.iter().map(|of| Pieces::from_curve(&of.share, 0, 0)).collect(),
            shapes: curves.iter().map(|of| of.share).collect(),
            served: vec![0; curves.len()],
            times: vec![Ratio::from_integer(0); curves.len()],
            level: Ratio::from_integer(0),
        }
    }

    fn join(&mut self, session: usize, others: impl Iterator<Item = usize>) {
        let times: Vec<Exact> = others.filter(|&other| other != session).map(|other| self.times[other]).collect();
        let system = match (times.iter().min(), times.iter().max()) {
            (Some(least), Some(most)) => (least + most) / 2,
            _ => self.level,
        };
        let system = system.floor();
        let curve = Pieces::from_curve(&self.shapes[session], system.to_integer(), self.served[session]);
        self.curves[session].lower_to(&curve);
        self.times[session] = self.time(session).max(system);
    }

    fn time(&self, session: usize) -> Exact {
        self.curves[session].time_of(self.served[session]).unwrap_or(Ratio::from_integer(i128::MAX))
    }

    fn charge(&mut self, session: usize, len: u32, stays: bool) {
        self.served[session] += service_of(u64::from(len));
        self.times[session] = self.time(session);
        if !stays {
            self.level = self.level.max(self.times[session]);
        }
    }
}

/// Runs the arrivals in time order, until `until` in nanoseconds.
pub(super) fn play(
    lab: &Lab<'_>,
    curves: &[Curves],
    link: u64,
    arrivals: &[Arrival],
    (rule, order): (Rule, Order),
    until: u64,
) -> Result<Played, ClaimError> {
    let mut meter = DeadlineMeter::new(&flat(curves, link, 1)?, false);
    let class = |session: usize| ClassId(session as u32 + 1);
    let mut model = Model::new(curves);
    let mut sharing = Sharing::new(curves);
    let mut played = Played { sent: Vec::new(), misses: Vec::new() };
    let (mut now, mut coming) = (0, arrivals.iter().copied().peekable());
    while now < until {
        if played.sent.len().is_multiple_of(256) {
            lab.go_on()?;
        }
        while let Some(arrival) = coming.next_if(|arrival| arrival.at <= now) {
            meter.arrived(Nanos(arrival.at), class(arrival.session));
            if model.arrive(arrival) {
                sharing.join(arrival.session, model.active());
            }
        }
        if model.active().next().is_none() {
            now = coming.peek().map_or(until, |arrival| arrival.at);
            continue;
        }
        let at = i128::from(now);
        let in_time = match rule {
            Rule::Sced => model.earliest(|_| true),
            Rule::Shared => None,
            Rule::Estimate => model.earliest(|session| model.is_eligible(session, at)),
            Rule::Exact(below, less) if model.is_asked(link, at, below, less) => model.earliest(|_| true),
            Rule::Exact(..) => None,
        };
        let shared = || match order {
            Order::Favour(session) if !model.queues[session].is_empty() => Some(session),
            _ => model.active().min_by_key(|&session| (sharing.times[session], session)),
        };
        let Some(session) = in_time.or_else(shared) else { break };
        let Some(packet) = model.leave(session, in_time.is_some()) else { break };
        sharing.charge(session, packet.len, model.sessions[session].active);
        let done = now + u64::from(packet.len) * 8 * NANOS_PER_SEC / link;
        meter.sent(Nanos(done), class(session), packet.len);
        played.sent.push(Sent { session, start: now, done, len: packet.len, in_time: in_time.is_some() });
        now = done;
    }
    let misses = (0..curves.len()).map(|session| meter.worst(class(session)).map(|miss| miss.0 as f64 / 1e9));
    played.misses = misses.collect();
    Ok(played)
}

/// Bursts of packets at random times: each session has its own pace and largest packet.
pub(super) fn bursts(dice: &mut SeededRng, sessions: usize, until: u64, largest: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for session in 0..sessions {
        let (mut at, gap) = (dice.below(until / 4), dice.between(until / 64, until / 4));
        while at < until {
            for _ in 0..1u64 << dice.below(6) {
                let len = if dice.one_in(2) { largest } else { dice.between(40, largest) };
                arrivals.push(Arrival { at, session, len: len as u32 });
            }
            at += dice.between(1, gap);
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// `packets` packets of one length at once.
pub(super) fn at_once(at: u64, session: usize, len: u32, packets: u64) -> impl Iterator<Item = Arrival> {
    (0..packets).map(move |_| Arrival { at, session, len })
}
