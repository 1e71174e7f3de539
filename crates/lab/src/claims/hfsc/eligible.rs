//! E(t) of Section 3.2: the service required by deadlines, exact by equation (8), beside the sum of equation (10) that
//! H-FSC uses.

use fairlink_core::schedulers::hfsc::Hfsc;
use fairlink_core::{ClassId, Dequeued, DropReason, NANOS_PER_SEC, Nanos, Packet, Rate, Scheduler, ServiceCurve};
use fairlink_theory::required::Below;

use super::reference::{Arrival, Curves, Model, Order, Played, Rule, Sent, at_once, bursts, flat, in_time, play};
use super::theorems::{Pieces, fitting};
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// The link of random sets and of Figure 10: a byte takes 800 ns.
const LINK: u64 = 10_000_000;
/// Largest packet of random sets, in bytes.
const LARGEST: u64 = 1500;
/// Its duration on the link, in seconds.
const PACKET: f64 = 8.0 * LARGEST as f64 / LINK as f64;
/// Length of the runs of random sets, in nanoseconds.
const UNTIL: u64 = 300_000_000;
const MS: u64 = 1_000_000;

/// The link of the example: a packet of 1000 B takes 1 ms.
const EXAMPLE_LINK: u64 = 8_000_000;
const THOUSAND: f64 = 1e-3;

fn curve(m1: u64, us: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos(us * 1000), m2: Rate::from_bps(m2).ok() }
}

fn line(bps: u64) -> ServiceCurve {
    curve(bps, 0, bps)
}

/// Packets that the scheduler of the registry sends.
pub(super) fn product(curves: &[Curves], link: u64, arrivals: &[Arrival], until: u64) -> Result<Vec<Sent>, ClaimError> {
    let tree = flat(curves, link, arrivals.len() as u32)?;
    let mut hfsc = Hfsc::new(&tree).map_err(ClaimError::other)?;
    let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
    let (mut now, mut coming, mut sent) = (0, arrivals.iter().copied().peekable(), Vec::new());
    let leaves: Vec<ClassId> = (0..curves.len()).map(|session| ClassId(session as u32 + 1)).collect();
    while now < until {
        while let Some(Arrival { at, session, len }) = coming.next_if(|arrival| arrival.at <= now) {
            hfsc.enqueue(Nanos(at), Packet { handle: 0, len, class: leaves[session] }, &mut dropped);
        }
        let before: Vec<Option<u64>> = leaves.iter().map(|&leaf| hfsc.served_in_time(leaf)).collect();
        now = match hfsc.dequeue(Nanos(now), &mut dropped) {
            Dequeued::Packet(packet) => {
                let session = packet.class.index() - 1;
                let in_time = hfsc.served_in_time(packet.class) != before[session];
                let done = now + u64::from(packet.len) * 8 * NANOS_PER_SEC / link;
                sent.push(Sent { session, start: now, done, len: packet.len, in_time });
                done
            }
            Dequeued::WaitUntil(_) | Dequeued::Idle => coming.peek().map_or(until, |arrival| arrival.at.max(now + 1)),
        };
    }
    Ok(sent)
}

/// E(t) and its estimate at the start of every packet of a recorded run of H-FSC.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    packets: usize,
    /// Packets at whose start the sum of E_i is below E.
    below: usize,
    /// Packets for which H-FSC's criterion differs from that by equation (10).
    otherwise: usize,
    /// Sums of E_i less E, in bytes: of all, and the largest.
    over: f64,
    most: f64,
    /// Packets sent by the real-time criterion, and those of them that E did not ask for.
    in_time: usize,
    early: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.below += other.below;
        self.otherwise += other.otherwise;
        self.over += other.over;
        self.most = self.most.max(other.most);
        self.in_time += other.in_time;
        self.early += other.early;
    }

    fn mean(&self) -> f64 {
        self.over / self.packets.max(1) as f64
    }

    fn early_part(&self) -> f64 {
        self.early as f64 / self.in_time.max(1) as f64
    }
}

/// Replays a recorded run on an independent model.
fn look(lab: &Lab<'_>, curves: &[Curves], link: u64, arrivals: &[Arrival], sent: &[Sent]) -> Result<Seen, ClaimError> {
    lab.go_on()?;
    let mut model = Model::new(curves);
    let mut coming = arrivals.iter().copied().peekable();
    let mut seen = Seen::default();
    for packet in sent {
        while let Some(arrival) = coming.next_if(|arrival| arrival.at <= packet.start) {
            model.arrive(arrival);
        }
        let now = i128::from(packet.start);
        let eligible = model.active().any(|session| model.is_eligible(session, now));
        let over = model.over(link, now).ok_or_else(|| ClaimError::other("curves above the link"))?;
        seen.packets += 1;
        seen.below += usize::from(over < 0.0);
        seen.otherwise += usize::from(eligible != packet.in_time);
        seen.over += over;
        seen.most = seen.most.max(over);
        seen.in_time += usize::from(packet.in_time);
        seen.early += usize::from(packet.in_time && !model.is_asked(link, now, Below::Served, 0));
        model.leave(packet.session, packet.in_time);
    }
    Ok(seen)
}

/// Makes the leaves of Figure 10, which share by their rates.
fn figure_10() -> (Vec<Curves>, Vec<Arrival>) {
    const SECONDS: u64 = 2;
    // FTP: 4 KB within 16.25 ms at 5 Mbit/s.
    let ftp = 16_250 - 4096 * 8 / 5;
    let curves = [
        (curve(256_000, 5_000, 64_000), 64_000),
        (curve(6_553_600, 10_000, 2_000_000), 2_000_000),
        (line(1_800_000), 1_800_000),
        (line(636_000), 636_000),
        (curve(0, ftp, 5_000_000), 5_000_000),
        (line(500_000), 500_000),
    ];
    let curves = curves.map(|(real_time, bps)| Curves { real_time, share: line(bps) }).to_vec();
    let mut arrivals = Vec::new();
    for (session, len, every) in [(0, 160, 20 * MS), (1, 8192, 33 * MS), (3, 4096, 51_522_012), (5, 4096, 65_536_000)] {
        let times = (0..).map(|n| n * every).take_while(|&at| at < SECONDS * NANOS_PER_SEC);
        arrivals.extend(times.map(|at| Arrival { at, session, len }));
    }
    arrivals.extend(at_once(0, 4, 4096, 700));
    arrivals.extend(at_once(SECONDS * NANOS_PER_SEC / 2, 2, 4096, 350));
    arrivals.sort_by_key(|arrival| arrival.at);
    (curves, arrivals)
}

/// Three sessions: the first is always active, the second comes at 1 s, and the third with it if `all`.
fn example(all: bool) -> (Vec<Curves>, Vec<Arrival>) {
    let curves = [curve(0, 100_000, 4_000_000), curve(7_200_000, 100_000, 0), curve(0, 80_000, 4_000_000)];
    let curves = curves.map(|real_time| Curves { real_time, share: line(1_000_000) }).to_vec();
    let mut arrivals: Vec<Arrival> = at_once(0, 0, 1000, 3000).collect();
    arrivals.extend(at_once(NANOS_PER_SEC, 1, 1000, 90));
    if all {
        arrivals.extend(at_once(NANOS_PER_SEC, 2, 1000, 600));
    }
    (curves, arrivals)
}

/// Makes a set that fills the link, in which all curves are concave or lines if `concave`.
fn random_set(case: u64, concave: bool) -> Result<(Vec<Curves>, Vec<Arrival>, SeededRng), ClaimError> {
    let mut dice = SeededRng::new(if concave { 41 } else { 40 }, case);
    let count = dice.between(2, 6) as usize;
    let mut random: Vec<Pieces> = Vec::new();
    while random.len() < count {
        let pieces = Pieces::random(&mut dice, LINK / 2);
        if !concave || !pieces.is_convex() {
            random.push(pieces);
        }
    }
    let shares: Vec<u64> = (0..count).map(|_| dice.between(1, 20) * 100_000).collect();
    let fitted = fitting(&random)?.into_iter().zip(shares);
    let curves = fitted.map(|(pieces, bps)| Curves { real_time: pieces.curve(), share: line(bps) }).collect();
    let arrivals = bursts(&mut dice, count, UNTIL, LARGEST);
    Ok((curves, arrivals, dice))
}

/// The results of random sets.
#[derive(Default)]
struct Sets {
    seen: Seen,
    sessions: usize,
    /// Sessions that miss a deadline by more than a packet when exactly E(t) is served in time.
    missed: usize,
    worst: f64,
    /// Parts of the bytes by the real-time criterion, of sets: with the estimate, and with E(t).
    parts: [f64; 2],
}

fn sets(lab: &Lab<'_>, cases: u64, concave: bool) -> Result<Sets, ClaimError> {
    let mut found = Sets::default();
    for case in 0..cases {
        let (curves, arrivals, mut dice) = random_set(case, concave)?;
        let sent = product(&curves, LINK, &arrivals, UNTIL)?;
        found.seen.add(look(lab, &curves, LINK, &arrivals, &sent)?);
        let order = match dice.below(curves.len() as u64 + 1) as usize {
            none if none == curves.len() => Order::Virtual,
            session => Order::Favour(session),
        };
        let exact = play(lab, &curves, LINK, &arrivals, (Rule::Exact(Below::Served, 0), order), UNTIL)?;
        found.sessions += exact.misses.iter().flatten().count();
        found.missed += exact.misses.iter().flatten().filter(|&&miss| miss > PACKET).count();
        found.worst = found.worst.max(exact.worst() / PACKET);
        let alike = play(lab, &curves, LINK, &arrivals, (Rule::Exact(Below::Served, 0), Order::Virtual), UNTIL)?;
        for (part, own) in found.parts.iter_mut().zip([in_time(&sent), alike.in_time()]) {
            *part += own / cases as f64;
        }
    }
    Ok(found)
}

/// Tests Section 3.2: E(t) and its estimate.
pub(super) fn eligible(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const UNTIL_2S: u64 = 2 * NANOS_PER_SEC;
    let cases: u64 = lab.by_effort(100, 2_000);
    let any = sets(lab, cases, false)?;
    let concave = sets(lab, cases, true)?;
    let (fig10, arrivals) = figure_10();
    let sent = product(&fig10, LINK, &arrivals, UNTIL_2S)?;
    let seen = look(lab, &fig10, LINK, &arrivals, &sent)?;
    let exact = play(lab, &fig10, LINK, &arrivals, (Rule::Exact(Below::Served, 0), Order::Virtual), UNTIL_2S)?;
    let favoured = |all: bool, rule: Rule| -> Result<Played, ClaimError> {
        let (curves, arrivals) = example(all);
        play(lab, &curves, EXAMPLE_LINK, &arrivals, (rule, Order::Favour(0)), 3 * NANOS_PER_SEC / 2)
    };
    let mut over = Vec::new();
    for all in [false, true] {
        let (curves, arrivals) = example(all);
        let until = 3 * NANOS_PER_SEC / 2;
        let sent = product(&curves, EXAMPLE_LINK, &arrivals, until)?;
        let rule = (Rule::Exact(Below::Served, 0), Order::Virtual);
        let exact = play(lab, &curves, EXAMPLE_LINK, &arrivals, rule, until)?.in_time();
        over.push((look(lab, &curves, EXAMPLE_LINK, &arrivals, &sent)?, [in_time(&sent), exact]));
    }
    let kept = [false, true].map(|all| favoured(all, Rule::Exact(Below::Served, 0)));
    let [kept, kept_all] = kept;
    let (kept, kept_all) = (kept?, kept_all?);
    let short = favoured(true, Rule::Exact(Below::Served, 20_000))?;
    let literal = favoured(false, Rule::Exact(Below::Curve, 0))?;
    let packet_10 = 8.0 * 8192.0 / LINK as f64;
    let rows = vec![
        Row::never(
            "packets of recorded runs at whose start the sum of E_i(t) is below E(t)",
            any.seen.below + concave.seen.below + seen.below + over.iter().map(|of| of.0.below).sum::<usize>(),
        )
        .judging("Since sum E_i(t) >= E(t), we have a sufficient but [not] necessary condition."),
        Row::never(
            "packets that hfsc chose by the other criterion than equation (10) asks for",
            any.seen.otherwise + concave.seen.otherwise + seen.otherwise,
        )
        .judging("The eligible curve E_i(.) determines the maximum amount of service received by session i at time t by the real-time criteria."),
        Row::new(
            "concave curves and lines: the largest sum of E_i(t) less E(t)",
            Unit::Bytes,
            Expected::AtMost(0.0),
            concave.seen.most,
        )
        .judging("for sessions with concave service curves the eligibility curve is the same as the deadline curve."),
        Row::never(
            "random sets, exactly E(t) by SCED: sessions that miss a deadline by more than a packet",
            any.missed + concave.missed,
        ),
        Row::new(
            "Figure 10, exactly E(t) by SCED: worst miss of a deadline, over a packet",
            Unit::Part,
            Expected::AtMost(1.0),
            exact.worst() / packet_10,
        ),
        Row::new(
            "the example, exactly E(t) by SCED: worst miss of a deadline, over a packet",
            Unit::Part,
            Expected::AtMost(1.0),
            kept.worst().max(kept_all.worst()) / THOUSAND,
        ),
        Row::new(
            "the example, 20 packets less than E(t): worst miss of a deadline, in packets",
            Unit::Number,
            Expected::Within(20.0, 1.0),
            short.worst() / THOUSAND,
        )
        .judging("if the active sessions do not receive at least E(t) service by time t, then there exists a scenario in which the service curve of at least one session will be violated in the future."),
        Row::shown(
            "the example, E(t) with D_i also where c_i is above it: worst miss of a deadline, in packets",
            Unit::Number,
            literal.worst() / THOUSAND,
        ),
        Row::shown("random sets: the sum of E_i(t) less E(t), mean", Unit::Bytes, any.seen.mean()),
        Row::shown("random sets: the same at most", Unit::Bytes, any.seen.most),
        Row::shown(
            "random sets: part of what hfsc sent by the real-time criterion that E(t) did not ask for",
            Unit::Part,
            any.seen.early_part(),
        ),
        Row::shown("Figure 10: the sum of E_i(t) less E(t), mean", Unit::Bytes, seen.mean()),
        Row::shown("Figure 10: the same at most", Unit::Bytes, seen.most),
        Row::shown(
            "Figure 10: part of what hfsc sent by the real-time criterion that E(t) did not ask for",
            Unit::Part,
            seen.early_part(),
        ),
    ];
    let mut table = Table::new(
        "What the estimate costs link-sharing, which goes by virtual times: part of the bytes by deadlines",
        &[
            "sets",
            "hfsc, %",
            "exactly E(t), %",
            "sum of E_i less E, mean B",
            "at most, B",
            "in time and not asked for, %",
        ],
    );
    let mut row = |name: String, parts: [f64; 2], seen: &Seen| {
        let cells = [parts[0] * 100.0, parts[1] * 100.0, seen.mean(), seen.most, seen.early_part() * 100.0];
        table.row(std::iter::once(name).chain(cells.map(|cell| format!("{cell:.1}"))));
    };
    row(format!("{cases} random"), any.parts, &any.seen);
    row(format!("{cases} random, none convex"), concave.parts, &concave.seen);
    row("Figure 10".into(), [in_time(&sent), exact.in_time()], &seen);
    for (name, of) in ["the example", "the example, all active"].into_iter().zip(&over) {
        row(name.into(), of.1, &of.0);
    }
    let note = format!(
        "E(t) is computed in exact fractions from the deadline curves of recorded runs, at the start of every packet ({} in all), by a model that shares nothing \
         with the scheduler. Random sets: {cases} of 2 to 6 sessions with lines, concave curves and ones that start flat, which just fit 10 Mbit/s, \
         and as many without convex ones. \"Exactly E(t)\": SCED chooses where active sessions would else have less than E(t) together a nanosecond later, else link-sharing, which favours one session \
         in all it can, or goes by virtual times. The example: 8 Mbit/s, packets of 1000 B. Session 1 (flat for 100 ms, then 4 Mbit/s) has packets \
         from 0 on and the favour of link-sharing; session 2 (7.2 Mbit/s for 100 ms, then nothing) comes at 1 s; session 3 (flat for 80 ms, then 4 Mbit/s) \
         comes then, or never. The text has D_i(t) for t after D_i^-1(c_i) alone, so before that it is c_i here. With the curve as it was before, what session 1 was served in advance \
         hides what session 2 lacks, and session 2 misses its curve although E(t) was served.",
        any.seen.packets + concave.seen.packets + seen.packets
    );
    Ok(Finding::new(note, rows).with_table(table))
}
