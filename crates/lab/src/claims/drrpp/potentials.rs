//! Section 2.3.4: the potentials of rate-proportional servers, beside the virtual time of SCFQ.
//!
//! The fluid server serves those of its backlogged sessions with the least potentials, at rates in proportion to their
//! own. Its potentials are in nanoseconds of link time over a session's part of the link. Written from the text,
//! independently of the schedulers.

use std::collections::VecDeque;

use fairlink_core::{ClassId, DropReason, Nanos, Packet, Rate, Share};

use crate::claims::plain_link::{LARGEST, LINK, NS_PER_BYTE, build, flat, next};
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::human;

/// Sums of many parts are exact to this, in nanoseconds of virtual time.
const EXACT: f64 = 1e-3;
/// Schedulers keep whole nanoseconds: stamps that are this near may change places.
const NEAR: f64 = 20.0;
/// Packets of a case.
const PACKETS: usize = 400;

/// P(t), the system potential.
#[derive(Clone, Copy, Debug)]
enum System {
    /// That of PGPS: it grows by the time over the parts of all backlogged sessions.
    Gps,
    /// That of Virtual Clock: the time.
    RealTime,
}

/// A session of the fluid server.
#[derive(Clone, Copy, Debug)]
struct Session {
    /// Its part of the link.
    part: f64,
    /// P_i(t).
    potential: f64,
    /// Link time of the backlog, in nanoseconds.
    backlog: f64,
}

/// The fluid server.
#[derive(Debug)]
struct Fluid {
    system: System,
    sessions: Vec<Session>,
    /// P(t).
    potential: f64,
    now: f64,
    /// Counts of checks of backlogged sessions, and of those that found P(t) above P_i(t); and the maximum lag of P(t)
    /// behind P_i(t).
    looks: usize,
    above: usize,
    below: f64,
}

impl Fluid {
    fn new(system: System, rates: &[u64]) -> Self {
        let session = |session| Session { part: part(rates, session), potential: 0.0, backlog: 0.0 };
        Self {
            system,
            sessions: (0..rates.len()).map(session).collect(),
            potential: 0.0,
            now: 0.0,
            looks: 0,
            above: 0,
            below: 0.0,
        }
    }

    fn backlogged(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().filter(|session| session.backlog > 0.0)
    }

    /// Growth rate of P(t).
    fn slope(&self) -> f64 {
        match self.system {
            System::RealTime => 1.0,
            System::Gps => self.backlogged().map(|session| session.part).sum::<f64>().recip(),
        }
    }

    /// Advances to `to`, from one change of the served sessions to the next.
    fn advance(&mut self, to: f64) {
        while self.now < to {
            let least = self.backlogged().map(|session| session.potential).fold(f64::INFINITY, f64::min);
            if least.is_infinite() {
                if matches!(self.system, System::RealTime) {
                    self.potential = to;
                }
                self.now = to;
                return;
            }
            let served = |session: &Session| session.backlog > 0.0 && session.potential <= least + EXACT / 10.0;
            let parts: f64 = self.sessions.iter().filter(|session| served(session)).map(|session| session.part).sum();
            // In virtual time: until one of those served is empty, until they reach the next, until `to`.
            let empty = self.sessions.iter().filter(|session| served(session));
            let empty = empty.map(|session| session.backlog / session.part).fold(f64::INFINITY, f64::min);
            let beyond = self.backlogged().filter(|session| !served(session));
            let reach = beyond.map(|session| session.potential - least).fold(f64::INFINITY, f64::min);
            let grown = empty.min(reach).min((to - self.now) / parts);
            self.potential += self.slope() * grown * parts;
            self.now = if grown * parts >= to - self.now { to } else { self.now + grown * parts };
            for session in &mut self.sessions {
                if served(session) {
                    session.potential += grown;
                    let left = session.backlog - grown * session.part;
                    session.backlog = if left > EXACT { left } else { 0.0 };
                }
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let lags: Vec<f64> = self.backlogged().map(|session| session.potential - self.potential).collect();
        self.looks += lags.len();
        self.above += lags.iter().filter(|&&lag| lag < -EXACT).count();
        self.below = lags.into_iter().fold(self.below, f64::max);
    }

    /// Adds a packet of `len` bytes now.
    fn arrive(&mut self, session: usize, len: u64) {
        let session = &mut self.sessions[session];
        if session.backlog <= 0.0 {
            session.potential = session.potential.max(self.potential);
        }
        session.backlog += (len * NS_PER_BYTE) as f64;
        self.look();
    }

    /// Returns the potential after the last queued packet has been sent: its stamp.
    fn stamp(&self, session: usize) -> f64 {
        let session = &self.sessions[session];
        session.potential + session.backlog / session.part
    }
}

/// A packet that comes.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: u64,
    session: usize,
    len: u64,
}

/// Parts of the link in bit/s that fill it, and packets of sessions that come and go.
fn case(number: u64) -> (Vec<u64>, Vec<Arrival>) {
    let mut dice = SeededRng::new(71, number);
    let weights: Vec<u64> = (0..dice.between(2, 8)).map(|_| dice.between(1, 9)).collect();
    let all: u64 = weights.iter().sum();
    let mut rates: Vec<u64> = weights.iter().map(|weight| LINK / all * weight).collect();
    rates[0] += LINK - rates.iter().sum::<u64>();
    let mut at = 0;
    let arrivals = (0..PACKETS).map(|_| {
        // Mostly a little faster than the link, with pauses.
        at += if dice.one_in(25) { dice.below(40_000_000) } else { dice.below(LARGEST * NS_PER_BYTE) };
        Arrival { at, session: dice.below(rates.len() as u64) as usize, len: dice.between(40, LARGEST) }
    });
    let arrivals = arrivals.collect();
    (rates, arrivals)
}

/// Returns a session's part of the link.
fn part(rates: &[u64], session: usize) -> f64 {
    rates[session] as f64 / LINK as f64
}

/// Packets of a session that are queued, by place among the arrivals.
type Queue = VecDeque<usize>;

/// An event of a scheduler.
enum Event<'a> {
    /// A packet comes, the one at this place among the arrivals.
    Comes(usize),
    /// The first of this session's packets leaves.
    Goes(usize, &'a [Queue]),
}

/// Runs a scheduler over the arrivals and calls `watch` for each packet.
fn drive(
    scheduler: &str,
    rates: &[u64],
    arrivals: &[Arrival],
    mut watch: impl FnMut(Event<'_>),
) -> Result<(), ClaimError> {
    let shares = rates.iter().map(|&rate| Rate::from_bps(rate).map(Share::Guarantee).map_err(ClaimError::other));
    let tree = flat(&shares.collect::<Result<Vec<_>, _>>()?)?;
    let mut scheduler = build(scheduler, &tree)?;
    let mut queued = vec![Queue::new(); rates.len()];
    let (mut now, mut coming) = (0, arrivals.iter().enumerate().peekable());
    loop {
        while let Some((place, arrival)) = coming.next_if(|(_, arrival)| arrival.at <= now) {
            watch(Event::Comes(place));
            queued[arrival.session].push_back(place);
            let class = ClassId(arrival.session as u32 + 1);
            let packet = Packet { handle: place as u64, len: arrival.len as u32, class };
            scheduler.enqueue(Nanos(arrival.at), packet, &mut |_: Nanos, _: Packet, _: DropReason| {});
        }
        match (next(&mut *scheduler, now), coming.peek()) {
            (Some(packet), _) => {
                let session = packet.class.index() - 1;
                watch(Event::Goes(session, &queued));
                queued[session].pop_front();
                now += u64::from(packet.len) * NS_PER_BYTE;
            }
            (None, Some((_, arrival))) => now = arrival.at,
            (None, None) => return Ok(()),
        }
    }
}

/// Packets, and those that went before one with a smaller stamp.
#[derive(Debug, Default)]
struct Order {
    packets: usize,
    before: usize,
}

impl Order {
    fn add(&mut self, stamps: &[f64], queued: &[Queue], goes: usize) {
        let stamp = |queue: &Queue| queue.front().map(|&place| stamps[place]);
        let least = queued.iter().filter_map(stamp).fold(f64::INFINITY, f64::min);
        self.packets += 1;
        self.before += usize::from(stamp(&queued[goes]).is_none_or(|stamp| stamp > least + NEAR));
    }
}

/// A rate-proportional server.
#[derive(Debug, Default)]
struct Proportional {
    order: Order,
    looks: usize,
    above: usize,
    below: f64,
}

impl Proportional {
    fn add(&mut self, scheduler: &str, system: System, rates: &[u64], arrivals: &[Arrival]) -> Result<(), ClaimError> {
        let mut fluid = Fluid::new(system, rates);
        let mut stamps = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            fluid.advance(arrival.at as f64);
            fluid.arrive(arrival.session, arrival.len);
            stamps.push(fluid.stamp(arrival.session));
        }
        fluid.advance(f64::MAX);
        drive(scheduler, rates, arrivals, |event| {
            if let Event::Goes(session, queued) = event {
                self.order.add(&stamps, queued, session);
            }
        })?;
        self.looks += fluid.looks;
        self.above += fluid.above;
        self.below = self.below.max(fluid.below);
        Ok(())
    }
}

/// SCFQ.
#[derive(Debug, Default)]
struct SelfClocked {
    order: Order,
    looks: usize,
    above: usize,
    /// Maximum lead of the system's virtual time over a backlogged session's potential, in units of that session's next
    /// packet over its part.
    most: f64,
}

impl SelfClocked {
    fn add(&mut self, rates: &[u64], arrivals: &[Arrival]) -> Result<(), ClaimError> {
        let (mut time, mut last) = (0.0f64, vec![0.0f64; rates.len()]);
        let mut tags = vec![0.0; arrivals.len()];
        let step = |place: usize| {
            let Arrival { session, len, .. } = arrivals[place];
            (len * NS_PER_BYTE) as f64 / part(rates, session)
        };
        drive("scfq", rates, arrivals, |event| match event {
            Event::Comes(place) => {
                let last = &mut last[arrivals[place].session];
                *last = last.max(time) + step(place);
                tags[place] = *last;
            }
            Event::Goes(session, queued) => {
                self.order.add(&tags, queued, session);
                time = queued[session].front().map_or(f64::NAN, |&place| tags[place]);
                let others = queued.iter().enumerate().filter(|&(other, _)| other != session);
                for &place in others.filter_map(|(_, queue)| queue.front()) {
                    // With the next packet its potential will be the tag.
                    let excess = (time - (tags[place] - step(place))) / step(place);
                    self.looks += 1;
                    self.above += usize::from(excess > EXACT);
                    self.most = self.most.max(excess);
                }
            }
        })
    }
}

/// Tests Section 2.3.4: P(t) and the potentials of sessions.
pub(super) fn system(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const EARLIER: &str = "P(t) is a non-decreasing function that protects the sessions with lower session potential since those sessions will get service earlier.";
    const ITSELF: &str = "But v̂(t) only reflects the state of the session receiving service, which may serve the session with a large service tag value.";
    let cases = lab.by_effort(60, 1000);
    let (mut gps, mut real_time) = (Proportional::default(), Proportional::default());
    let mut scfq = SelfClocked::default();
    for number in 0..cases {
        lab.go_on()?;
        let (rates, arrivals) = case(number);
        gps.add("wfq", System::Gps, &rates, &arrivals)?;
        real_time.add("virtual-clock", System::RealTime, &rates, &arrivals)?;
        scfq.add(&rates, &arrivals)?;
    }
    let mut table = Table::new(
        "Backlogged sessions whose potential is below the system's",
        &["server", "looks", "below the system's", "packets before one of a smaller stamp"],
    );
    for (name, looks, above, order) in [
        ("PGPS (wfq)", gps.looks, gps.above, &gps.order),
        ("Virtual Clock", real_time.looks, real_time.above, &real_time.order),
        ("SCFQ", scfq.looks, scfq.above, &scfq.order),
    ] {
        let before = format!("{} of {}", order.before, order.packets);
        table.row([name.to_owned(), looks.to_string(), human::percent(above as f64 / looks as f64), before]);
    }
    let rows = vec![
        Row::never("PGPS: looks at a backlogged session that found P(t) above its potential", gps.above),
        Row::never("Virtual Clock, with P(t) = t: the same", real_time.above),
        Row::shown("Virtual Clock: the most by which P(t) was below it", Unit::Seconds, real_time.below / 1e9),
        Row::never("packets of wfq that went before one with a smaller stamp", gps.order.before).judging(EARLIER),
        Row::never("packets of virtual-clock that went before one with a smaller stamp", real_time.order.before)
            .judging(EARLIER),
        Row::new(
            "SCFQ: part of the looks that found its virtual time above a backlogged session's potential",
            Unit::Part,
            Expected::AtLeast(0.01),
            scfq.above as f64 / scfq.looks as f64,
        )
        .judging(ITSELF),
        Row::new(
            "SCFQ: the most by which it was above, in packets of that session",
            Unit::Packets,
            Expected::Between(0.5, 1.0 + EXACT),
            scfq.most,
        )
        .judging(ITSELF),
    ];
    let note = format!(
        "{cases} random sets of sessions that come and go on a link that they fill, {PACKETS} packets each. The fluid server of the text serves those whose potentials are least; potentials are looked at at each arrival and whenever the \
         sessions that it serves change. Stamps are potentials that sessions will have reached with a packet; those of our schedulers are not used."
    );
    Ok(Finding::new(note, rows).with_table(table))
}
