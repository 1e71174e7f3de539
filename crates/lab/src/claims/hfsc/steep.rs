//! Convex curves with a first slope above zero: the text's own of Figures 2(b) and 3, which schedulers of two pieces refuse (Section 4), and Theorem 1
//! for curves of every kind.

use fairlink_core::{Leniency, Members, NANOS_PER_SEC, Nanos, Rate, ServiceCurve};
use fairlink_theory::pieces::{Pieces, service_of};
use fairlink_theory::required::Session;
use num_rational::Ratio;

use super::eligible::product;
use super::reference::{Arrival, Curves, Order, Played, Rule, at_once, bursts, play};
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

const MS: u64 = 1_000_000;
/// The link of Figure 3: a packet of 1000 B takes 1 ms.
const LINK: u64 = 8_000_000;
const THOUSAND: f64 = 1e-3;
/// Session 2 of Figure 3 comes then.
const JOINS: f64 = 1.0;

fn curve(m1: u64, ns: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1: Rate::from_bps(m1).ok(), d: Nanos(ns), m2: Rate::from_bps(m2).ok() }
}

fn both(curve: ServiceCurve) -> Curves {
    Curves { real_time: curve, share: curve }
}

/// Runs Figure 3: session 1 has packets from 0 on, session 2 from 1 s on. `first` is the curve of session 1, `second`
/// that of session 2.
fn figure_3(lab: &Lab<'_>, first: ServiceCurve, second: ServiceCurve, rule: Rule) -> Result<Played, ClaimError> {
    let until = 2 * NANOS_PER_SEC;
    play(lab, &[both(first), both(second)], LINK, &arrivals_of_figure_3(), (rule, Order::Virtual), until)
}

fn arrivals_of_figure_3() -> Vec<Arrival> {
    at_once(0, 0, 1000, 2_500).chain(at_once(NANOS_PER_SEC, 1, 1000, 2_500)).collect()
}

/// Returns the packets of Figure 3 with a flat start, which both accept, and the number of them that the reference
/// sends at another position than `hfsc`.
fn moved(lab: &Lab<'_>) -> Result<(usize, usize), ClaimError> {
    let curves = [both(curve(0, 60 * MS, 5_000_000)), both(curve(5_000_000, 100 * MS, 2_000_000))];
    let (arrivals, until) = (arrivals_of_figure_3(), 2 * NANOS_PER_SEC);
    let own = play(lab, &curves, LINK, &arrivals, (Rule::Estimate, Order::Virtual), until)?.sent;
    let its = product(&curves, LINK, &arrivals, until)?;
    let moved = own.iter().zip(&its).filter(|(own, its)| own != its).count();
    Ok((own.len(), own.len().abs_diff(its.len()) + moved))
}

/// Figures 2(b) and 3 with the text's own curves.
pub(super) fn own(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // (alpha, beta, T) of equations (5) and (6), as parts of the link and in seconds.
    const LETTERS: [(f64, f64, f64); 5] =
        [(0.25, 0.625, 0.1), (0.125, 0.625, 0.1), (0.375, 0.625, 0.1), (0.125, 0.75, 0.06), (0.25, 0.625, 0.2)];
    // t1 - t0: session 2 is alone until S_2 reaches the last deadline of session 1.
    let starves = |(alpha, beta, t): (f64, f64, f64)| {
        let ahead = t + (JOINS - alpha * t) / beta - JOINS;
        beta * ahead.min(t) + alpha * (ahead - t).max(0.0)
    };
    let curves = |(alpha, beta, t): (f64, f64, f64)| {
        let [alpha, beta] = [alpha, beta].map(|part| (part * LINK as f64) as u64);
        let ns = (t * 1e9) as u64;
        [curve(alpha, ns, beta), curve(beta, ns, alpha)]
    };
    let run = |letters, rule| {
        let [first, second] = curves(letters);
        figure_3(lab, first, second, rule)
    };
    let [sced, hfsc, shared] = [Rule::Sced, Rule::Estimate, Rule::Shared].map(|rule| run(LETTERS[0], rule));
    let (sced, hfsc, shared) = (sced?, hfsc?, shared?);
    let (packets, moved) = moved(lab)?;
    let gap = |run: &Played| run.longest_gap(0, JOINS, JOINS + 0.5);
    let miss = |run: &Played, session: usize| run.misses[session].unwrap_or(f64::NAN);
    // Figure 2(b): the download has the rest of 10 Mbit/s beside the video.
    let fig2 = [curve(6_600_000, 10 * MS, 2_000_000), curve(3_400_000, 10 * MS, 8_000_000)].map(both);
    let mut arrivals: Vec<Arrival> = at_once(0, 1, 8192, 100).collect();
    let frames: Vec<u64> = (0..15).map(|frame| frame * 33_333_333).collect();
    arrivals.extend(frames.iter().map(|&at| Arrival { at, session: 0, len: 8192 }));
    arrivals.sort_by_key(|arrival| arrival.at);
    let video = play(lab, &fig2, 10_000_000, &arrivals, (Rule::Sced, Order::Virtual), 500 * MS)?;
    let delays = video.sent.iter().filter(|packet| packet.session == 0).zip(&frames);
    let longest = delays.map(|(packet, &at)| (packet.done - at) as f64 / 1e9).fold(0.0, f64::max);
    let frame = 8.0 * 8192.0 / 10e6;
    let [_, _, t] = [LETTERS[0].0, LETTERS[0].1, LETTERS[0].2];
    let sent = 8.0 * shared.bytes(1, JOINS, JOINS + t) / (LINK as f64 * t);
    let rows = vec![
        Row::new(
            "sced: session 1 gets nothing for, beside t1 - t0 of the curves",
            Unit::Seconds,
            Expected::Within(starves(LETTERS[0]), 3.0 * THOUSAND),
            gap(&sced),
        ),
        Row::new("sced: worst miss of a deadline", Unit::Seconds, Expected::AtMost(THOUSAND), sced.worst())
            .judging("the SCED algorithm guarantees the service curves of both sessions."),
        Row::new(
            "virtual times alone: the part of the link that session 2 has in T after t0",
            Unit::Part,
            Expected::Within(0.5, 0.02),
            sent,
        )
        .judging("immediately after time t_0 their slopes are equal, each of them is served at a rate of 1/2, which is smaller than beta, the service rate required to satisfy S_2(.)."),
        Row::new(
            "virtual times alone: worst miss of a deadline of session 2",
            Unit::Seconds,
            Expected::AtLeast(5.0 * THOUSAND),
            miss(&shared, 1),
        )
        .judging("if fairness is to be provided, the service curve of session 2 will be violated"),
        Row::new(
            "hfsc: the longest that session 1 gets nothing",
            Unit::Seconds,
            Expected::AtMost(4.0 * THOUSAND),
            gap(&hfsc),
        ),
        Row::new("hfsc: worst miss of a deadline of either session", Unit::Seconds, Expected::AtMost(THOUSAND), hfsc.worst()),
        Row::new(
            "Figure 2(b) by sced: longest delay of video, 10 ms and a packet",
            Unit::Seconds,
            Expected::AtMost(0.010 + frame),
            longest,
        )
        .judging("As can be seen, the delay of any video packet is no more than 10 ms in this case."),
        Row::new("Figure 2(b) by sced: worst miss of a deadline", Unit::Seconds, Expected::AtMost(frame), video.worst()),
        Row::never("packets that the reference and hfsc send otherwise, with a flat start that both take", moved),
    ];
    let mut table = Table::new(
        "By the letters: the longest that session 1 gets nothing, and the worst miss of session 2, in ms",
        &["alpha, beta, T", "t1 - t0", "sced", "hfsc", "hfsc, miss", "virtual times alone, miss"],
    );
    for letters in LETTERS {
        let [sced, hfsc, shared] = [Rule::Sced, Rule::Estimate, Rule::Shared].map(|rule| run(letters, rule));
        let (sced, hfsc, shared) = (sced?, hfsc?, shared?);
        let cells = [starves(letters), gap(&sced), gap(&hfsc), miss(&hfsc, 1), miss(&shared, 1)];
        let (alpha, beta, t) = letters;
        let head = format!("{alpha}, {beta}, {:.0} ms", t * 1e3);
        table.row(std::iter::once(head).chain(cells.map(|cell| format!("{:.1}", cell * 1e3))));
    }
    let note = format!(
        "The curve of session 1 in Figure 3 has the slope alpha until T and beta from then on, that of FTP in Figure 2(b) 3.4 Mbit/s for 10 ms and 8 from then \
         on. No two-piece scheduler runs such curves, so a reference does, in exact fractions: SCED by equations (2) to (4), H-FSC by \
         (7), (10) and (11) as they stand, and virtual times alone. The reference sends {packets} packets as `hfsc` does where the curve of session 1 starts flat, and \
         `hfsc.eligible` tries the criterion of every packet. \
         8 Mbit/s, packets of 1000 B, t0 = 1 s; alpha = 1/4, beta = 5/8 of the link, T = 100 ms in the rows. `hfsc.fig3` has a curve that two pieces can have."
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// Tests Section 4: curves that stay two pieces.
pub(super) fn pieces(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const UPDATES: usize = 20;
    let cases: u64 = lab.by_effort(500, 10_000);
    let kinds = ["concave", "convex, flat at first", "convex, not flat at first"];
    let (mut most, mut beyond) = ([0; 3], [0u64; 3]);
    let mut table = Table::new(
        "Curves with more than two pieces after so many updates, of 100",
        &["kind", "1", "2", "5", "10", "20"],
    );
    for (kind, name) in kinds.into_iter().enumerate() {
        let mut by_updates = [0u64; UPDATES];
        for case in 0..cases {
            let mut dice = SeededRng::new(43 + kind as u64, case);
            let (low, high, ns) = (dice.between(1, 5_000), dice.between(5_001, 10_000), dice.between(1, 100_000));
            let (low, high) = (low * 1_000, high * 1_000);
            let shape = [curve(high, ns, low), curve(0, ns, high), curve(low, ns, high)][kind];
            let mut deadlines = Pieces::from_curve(&shape, 0, 0);
            let (mut now, mut served, mut had) = (0i128, 0i128, false);
            for more in &mut by_updates {
                now += i128::from(dice.below(200_000));
                served += service_of(1) * i128::from(dice.below(100));
                deadlines.lower_to(&Pieces::from_curve(&shape, now, served));
                let count = deadlines.count_above(served);
                most[kind] = most[kind].max(count);
                had |= count > 2;
                *more += u64::from(count > 2);
            }
            beyond[kind] += u64::from(had);
        }
        let cells =
            [1, 2, 5, 10, 20].map(|updates| format!("{:.0}", by_updates[updates - 1] as f64 * 100.0 / cases as f64));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    let text = include_str!("../../../../../scenarios/hfsc/fig3.toml");
    let steep =
        Workload::new("fig3-steep.toml", text.replace("m1 = \"0bit\", d = \"60ms\"", "m1 = \"2mbit\", d = \"100ms\""));
    let file = steep.read("hfsc")?;
    let refused = file.link.info().build(&file.link.tree, Leniency::Refuse, Members::new()).err();
    let refusal = refused.map(|error| file.link.explain(&error).lines()).unwrap_or_default();
    let named = ["fig3-steep.toml:18", "\"1\"", "2 Mbit/s", "100 ms", "5 Mbit/s"]
        .iter()
        .filter(|word| refusal.contains(**word));
    let rows = vec![
        Row::new("most pieces of a concave curve", Unit::Count, Expected::AtMost(2.0), most[0] as f64)
            .judging("any deadline curve that is initialized to a service curve of one of the two types discussed above remains a two-piece linear service curve after each updating operation."),
        Row::new("most pieces of a convex curve that is flat at first", Unit::Count, Expected::AtMost(2.0), most[1] as f64)
            .judging("any deadline curve that is initialized to a service curve of one of the two types discussed above remains a two-piece linear service curve after each updating operation."),
        Row::new("most pieces of any other convex curve", Unit::Count, Expected::AtLeast(3.0), most[2] as f64),
        Row::shown("part of these that have more than two at some time", Unit::Part, beyond[2] as f64 / cases as f64),
        Row::new("what the refusal of such a curve names, of five: the line, the class, both slopes and the time", Unit::Count, Expected::AtLeast(5.0), named.count() as f64),
    ];
    let note = format!(
        "{cases} random curves of each kind with {UPDATES} updates by equation (7) at random times, each in exact fractions. Counted are the pieces above c, which \
         later deadlines use. The schedulers keep two pieces, and refuse what does not stay so: {}",
        refusal.lines().map(str::trim).collect::<Vec<_>>().join(" ")
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// Counts of sessions whose packets leave by their deadlines, or late.
#[derive(Default)]
struct Guaranteed {
    packets: usize,
    shared: usize,
    /// Departures at which equation (1) does not hold.
    broken: usize,
}

/// Makes a session whose packets are sent at random, each by its deadline of equation (7), or later by up to `late`
/// nanoseconds.
fn guaranteed(dice: &mut SeededRng, late: u64) -> Guaranteed {
    let (low, high) = (dice.between(1, 500) * 1_000, dice.between(501, 5_000) * 1_000);
    let ns = dice.between(1, 20) * MS;
    let shape =
        [curve(high, ns, low), curve(0, ns, high), curve(low, ns, high), curve(high, 0, high)][dice.below(4) as usize];
    let mut arrivals = bursts(dice, 1, 400 * MS, 1500);
    arrivals.truncate(200);
    let mut session = Session::new(shape);
    let mut found = Guaranteed::default();
    // Starts of backlogged periods and the service by then, by either criterion.
    let (mut starts, mut served): (Vec<(i128, i128)>, i128) = (Vec::new(), 0);
    let mut now = 0i128;
    for (place, packet) in arrivals.iter().enumerate() {
        let len = service_of(u64::from(packet.len));
        // It comes to an empty queue if all others have left.
        if now < i128::from(packet.at) || place == 0 {
            now = i128::from(packet.at);
            session.activate(now);
            starts.push((now, served));
        }
        let whole = |more: i128| session.deadline(more).map(|due| due.floor().to_integer());
        let Some(due) = whole(len) else { break };
        let next = arrivals.get(place + 1).map_or(len, |next| service_of(u64::from(next.len)));
        // Service by link-sharing does not count: the next packet has to leave by its later deadline.
        let shared = dice.one_in(3) && whole(next).is_some_and(|due| due >= now);
        let last = if shared { due.min(whole(next).unwrap_or(due)) } else { due };
        let done = if dice.one_in(2) { last } else { now + i128::from(dice.below((last - now).max(0) as u64 + 1)) };
        now = now.max(done) + i128::from(dice.below(late + 1));
        if !shared {
            session.served += len;
        }
        served += len;
        found.packets += 1;
        found.shared += usize::from(shared);
        let at = Ratio::from_integer(now);
        let holds = |&(start, before): &(i128, i128)| Pieces::from_curve(&shape, start, before).scaled(&at) <= served;
        found.broken += usize::from(!starts.iter().any(holds));
    }
    found
}

/// Tests Theorem 1.
pub(super) fn theorem1(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases: u64 = lab.by_effort(1_000, 20_000);
    let mut all = [Guaranteed::default(), Guaranteed::default()];
    for (late, found) in [0, 10 * MS].into_iter().zip(&mut all) {
        for case in 0..cases {
            if case % 64 == 0 {
                lab.go_on()?;
            }
            let of = guaranteed(&mut SeededRng::new(48, case), late);
            found.packets += of.packets;
            found.shared += of.shared;
            found.broken += of.broken;
        }
    }
    let [by_deadline, late] = all;
    let rows = vec![
        Row::never(
            "departures at which the service curve is not guaranteed, all packets by their deadlines",
            by_deadline.broken,
        ),
        Row::new("the same, packets up to 10 ms late", Unit::Count, Expected::AtLeast(1.0), late.broken as f64),
        Row::shown(
            "part of the packets that link-sharing sends",
            Unit::Part,
            by_deadline.shared as f64 / by_deadline.packets as f64,
        ),
    ];
    let note = format!(
        "{cases} random sessions with a line, a concave curve, one that starts flat or one that starts less steep, and {} packets in bursts. Deadlines are those of equation (7), where c \
         counts real-time service alone. Each packet leaves at a random time up to its deadline, half of them at it, a third by link-sharing. Equation (1) is \
         tried at every departure over all starts of backlogged periods, with all that was served. It holds also where the packets are late by a scheduler's own \
         packet (Theorem 2, `hfsc.theorem2`), within that. The second row shows that the test can fail.",
        by_deadline.packets
    );
    Ok(Finding::new(note, rows))
}
