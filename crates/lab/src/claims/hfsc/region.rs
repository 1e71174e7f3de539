//! Section 7: which sets of sessions service curves admit, and which GPS can serve with any weights.

use fairlink_core::registry::find;
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, Leniency, LinkConfig, Members, NANOS_PER_SEC, Nanos, Packet,
    QueueLimits, Rate, ServiceCurve, Share,
};
use fairlink_theory::curves::first_excess;

use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// In bit/s; a byte takes 800 ns.
const LINK: f64 = 10e6;
const LEN: f64 = 12_000.0;
/// The time of a packet, in seconds.
const PACKET: f64 = LEN / LINK;
/// Below this two numbers are the same here.
const NOTHING: f64 = 1e-9;
/// Weights that are tried of one session, of 200.
const WEIGHTS: std::ops::Range<u64> = 1..200;

/// u, d, r of Section 4: burst in bits, seconds, bit/s. Arrivals are at most u + r t.
#[derive(Clone, Copy, Debug)]
struct Asks {
    burst: f64,
    delay: f64,
    rate: f64,
}

impl Asks {
    /// Makes the two-piece curve of Figure 8, slopes rounded up and times down.
    fn curve(self) -> ServiceCurve {
        let rate = |bps: f64| Rate::from_bps(bps.ceil() as u64).ok();
        let ns = |seconds: f64| Nanos((seconds * 1e9).floor() as u64);
        let first = self.burst / self.delay;
        if first > self.rate {
            ServiceCurve { m1: rate(first), d: ns(self.delay), m2: rate(self.rate) }
        } else {
            ServiceCurve { m1: None, d: ns(self.delay - self.burst / self.rate), m2: rate(self.rate) }
        }
    }
}

/// Returns true if earliest deadline first serves both in time: the bits due by any t, sum u_i + r_i (t - d_i) over
/// d_i <= t, are at most R t. These are service curves of any shape, and no scheduler serves more sets.
fn any_curves(set: &[Asks; 2]) -> bool {
    let asked = |t: f64| -> f64 {
        set.iter().filter(|of| of.delay <= t + NOTHING).map(|of| of.burst + of.rate * (t - of.delay).max(0.0)).sum()
    };
    set[0].rate + set[1].rate <= LINK && set.iter().all(|of| asked(of.delay) <= LINK * of.delay + NOTHING)
}

fn two_pieces(set: &[Asks; 2]) -> Result<bool, ClaimError> {
    let link = Rate::from_bps(LINK as u64).map_err(ClaimError::other)?;
    Ok(first_excess(&set.map(Asks::curve), link).is_none())
}

/// Returns the longest delays under GPS if the first session has `share` of the link while both have packets, and both
/// send the permitted maximum from 0 on: the worst case for sessions that are policed \[Parekh\]. Infinite if one is
/// never served in time.
fn gps(set: &[Asks; 2], share: f64) -> [f64; 2] {
    let rates = [share * LINK, (1.0 - share) * LINK];
    let clears = |at: usize| {
        if rates[at] > set[at].rate { set[at].burst / (rates[at] - set[at].rate) } else { f64::INFINITY }
    };
    let first = usize::from(clears(1) < clears(0));
    let other = 1 - first;
    let until = clears(first);
    let mut delays = [0.0; 2];
    delays[first] = if until.is_finite() { set[first].burst / rates[first] } else { f64::INFINITY };
    let own = &set[other];
    delays[other] = if until.is_infinite() {
        f64::INFINITY
    } else {
        // Served at its rate until the other one is empty, then with the rest of the link.
        let before = rates[other] * until;
        if own.burst >= before {
            until + (own.burst - before) / (LINK - set[first].rate)
        } else {
            // The burst leaves before; later arrivals wait longest where the rate changes.
            (own.burst / rates[other]).max(until - (before - own.burst) / own.rate)
        }
    };
    delays
}

/// Returns true if GPS serves both in time with some weights, each given `slack` seconds more. More weight of one makes
/// its delay shorter and the other's longer; `None` if the two sides are too close to decide.
fn any_weights(set: &[Asks; 2], slack: f64) -> Option<bool> {
    let late = |share: f64| {
        let delays = gps(set, share);
        [0, 1].map(|at| delays[at] > set[at].delay + slack)
    };
    // All of the link is not enough for one.
    if set.iter().any(|of| of.burst / LINK > of.delay + slack) {
        return Some(false);
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if late(middle)[0] { low = middle } else { high = middle }
    }
    match (late(high)[1], low > 0.0 && late(low)[1]) {
        (false, _) => Some(!late(high)[0]),
        // No more than `low` is enough for the first, and with `low` the second is late.
        (true, true) => Some(false),
        _ => None,
    }
}

fn random(dice: &mut SeededRng) -> [Asks; 2] {
    let total = dice.between(50, 95) as f64 / 100.0 * LINK;
    let part = dice.between(10, 90) as f64 / 100.0;
    [part, 1.0 - part].map(|part| Asks {
        burst: dice.between(1, 20) as f64 * LEN,
        delay: dice.between(2, 80) as f64 * 1e-3,
        rate: (total * part).floor(),
    })
}

/// Returns the longest delay of each session minus its target, in seconds: both send the permitted maximum, the second
/// from `later` on.
fn late(tree: &Hierarchy, scheduler: &str, set: &[Asks; 2], later: f64) -> Result<[f64; 2], ClaimError> {
    const SECONDS: f64 = 1.0;
    let info = find(scheduler).ok_or_else(|| ClaimError::other(scheduler))?;
    let mut scheduler = info.build(tree, Leniency::Ignore, Members::new()).map_err(ClaimError::other)?;
    let mut arrivals: Vec<(u64, usize)> = Vec::new();
    for (session, of) in set.iter().enumerate() {
        let from = if session == 1 { later } else { 0.0 };
        let burst = (of.burst / LEN).round() as u64;
        let times = (0..).map(|n: u64| from + (n + 1).saturating_sub(burst) as f64 * LEN / of.rate);
        arrivals.extend(times.take_while(|&at| at < SECONDS).map(|at| ((at * 1e9).ceil() as u64, session)));
    }
    arrivals.sort_unstable();
    let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
    let (mut now, mut coming) = (0, arrivals.iter().copied().peekable());
    let mut worst = [f64::NEG_INFINITY; 2];
    while now < NANOS_PER_SEC {
        while let Some((at, session)) = coming.next_if(|arrival| arrival.0 <= now) {
            let packet = Packet { handle: at, len: (LEN / 8.0) as u32, class: ClassId(session as u32 + 1) };
            scheduler.enqueue(Nanos(at), packet, &mut dropped);
        }
        now = match scheduler.dequeue(Nanos(now), &mut dropped) {
            Dequeued::Packet(packet) => {
                let done = now + (PACKET * 1e9) as u64;
                let session = packet.class.index() - 1;
                worst[session] = worst[session].max((done - packet.handle) as f64 / 1e9 - set[session].delay);
                done
            }
            Dequeued::WaitUntil(_) | Dequeued::Idle => {
                coming.peek().map_or(NANOS_PER_SEC, |arrival| arrival.0.max(now + 1))
            }
        };
    }
    Ok(worst)
}

fn tree(of: [(Share, Option<ServiceCurve>); 2]) -> Result<Hierarchy, ClaimError> {
    let link = LinkConfig::new(Rate::from_bps(LINK as u64).map_err(ClaimError::other)?);
    let mut tree = Hierarchy::builder(LinkConfig { max_packet: (LEN / 8.0) as u32, ..link });
    for (share, real_time) in of {
        let limits = QueueLimits { packets: 4_000, bytes: u32::MAX };
        let config = ClassConfig { share: Some(share), real_time, limits, ..ClassConfig::default() };
        tree.add(ClassId::ROOT, config).map_err(ClaimError::other)?;
    }
    tree.build().map_err(ClaimError::other)
}

/// Returns the worst delay minus the target under H-FSC with the set's curves, over start times of the second.
fn under_curves(set: &[Asks; 2]) -> Result<f64, ClaimError> {
    let tree = tree(set.map(|of| (Share::Weight(1), Some(of.curve()))))?;
    let mut worst = f64::NEG_INFINITY;
    for later in [0.0, 0.001, 0.003, 0.01, 0.03, 0.1] {
        worst = late(&tree, "hfsc", set, later)?.into_iter().fold(worst, f64::max);
    }
    Ok(worst)
}

/// Returns the same with the best of many weights, if both begin at once.
fn under_weights(set: &[Asks; 2], scheduler: &str) -> Result<f64, ClaimError> {
    let mut best = f64::INFINITY;
    for weight in WEIGHTS {
        let tree = tree([weight, WEIGHTS.end - weight].map(|weight| (Share::Weight(weight), None)))?;
        let worst = late(&tree, scheduler, set, 0.0)?.into_iter().fold(f64::NEG_INFINITY, f64::max);
        best = best.min(worst);
    }
    Ok(best)
}

/// Tests Section 7: the schedulability region.
pub(super) fn region(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const TRIED: usize = 8;
    let cases: u64 = lab.by_effort(4_000, 100_000);
    // Numbers of sets by success of curves of any shape, GPS, and curves of two pieces.
    let (mut curves, mut weights, mut two, mut outside, mut gained, mut lost, mut unknown) = (0, 0, 0, 0, 0, 0, 0);
    let mut found: Vec<[Asks; 2]> = Vec::new();
    for case in 0..cases {
        if case % 256 == 0 {
            lab.go_on()?;
        }
        let set = random(&mut SeededRng::new(46, case));
        let (by_curves, by_two) = (any_curves(&set), two_pieces(&set)?);
        let Some(by_weights) = any_weights(&set, 0.0) else {
            unknown += 1;
            continue;
        };
        curves += u64::from(by_curves);
        weights += u64::from(by_weights);
        two += u64::from(by_two);
        outside += usize::from(by_weights && !by_curves);
        gained += u64::from(by_two && !by_weights);
        lost += u64::from(by_weights && !by_two);
        // Three packets more would not be enough for GPS: a packet scheduler near it is late by more than packets.
        if found.len() < TRIED && by_two && any_weights(&set, 3.0 * PACKET) == Some(false) {
            found.push(set);
        }
    }
    let mut table = Table::new(
        "Sets that two-piece curves admit and GPS cannot serve: worst delay less what is asked, in ms",
        &["burst, delay, rate of both", "hfsc", "wfq, best weights", "wf2q+, best weights"],
    );
    let (mut kept, mut missed) = (f64::NEG_INFINITY, f64::INFINITY);
    for set in &found {
        lab.go_on()?;
        let [own, wfq, pfq] = [under_curves(set)?, under_weights(set, "wfq")?, under_weights(set, "wf2q+")?];
        kept = kept.max(own);
        missed = missed.min(wfq).min(pfq);
        let asks =
            set.map(|of| format!("{:.0} B, {:.0} ms, {:.2} Mbit/s", of.burst / 8.0, of.delay * 1e3, of.rate / 1e6));
        table.row(std::iter::once(asks.join("; ")).chain([own, wfq, pfq].map(|late| format!("{:.2}", late * 1e3))));
    }
    let part = |count: u64| count as f64 / cases as f64;
    let rows = vec![
        Row::never("sets that GPS serves with some weights and service curves do not", outside),
        Row::new(
            "sets that service curves serve, over those that GPS does",
            Unit::Times,
            Expected::AtLeast(1.0 + 1e-6),
            curves as f64 / weights as f64,
        ),
        Row::new(
            "sets tried by packets: worst delay under H-FSC less what is asked, a packet at most",
            Unit::Seconds,
            Expected::AtMost(PACKET),
            kept,
        ),
        Row::new(
            "the same sets: least that WFQ and WF2Q+ are late by with any of 199 weights",
            Unit::Seconds,
            Expected::AtLeast(PACKET),
            missed,
        ),
        Row::shown("part of the sets that service curves of any shape serve", Unit::Part, part(curves)),
        Row::shown("part that GPS serves", Unit::Part, part(weights)),
        Row::shown("part that curves of two pieces serve, which H-FSC has", Unit::Part, part(two)),
        Row::shown("part that these serve and GPS does not", Unit::Part, part(gained)),
        Row::shown("part that GPS serves and these do not", Unit::Part, part(lost)),
        Row::shown("sets that are too near to tell", Unit::Count, f64::from(unknown)),
    ];
    let note = format!(
        "{cases} random pairs of sessions on 10 Mbit/s. Each sends no more than u + r t in any t and asks for the delay d: u 1 to 20 packets of 1500 B, d 2 to 80 ms, both rates together 50 to 95 % of the \
         link. GPS: both send all that they may from 0 on, which is the worst case for policed sessions; more weight of one shortens its delay and lengthens the other's, so \
         that bisection finds whether any weights do. Service curves of any shape: earliest deadline first, u_i + r_i (t - d_i) from d_i on. The two-piece curves of Figure 8 ask for \
         more than that, a straight line to u in d, and so lose some sets that GPS serves with one session far ahead of the other. {} sets are tried by packets, in which GPS would be late even with three packet times more.",
        found.len()
    );
    Ok(Finding::new(note, rows).with_table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes fluid GPS in small steps, both sending all that they may.
    fn stepped(set: &[Asks; 2], share: f64) -> [f64; 2] {
        const STEP: f64 = 2e-5;
        let (mut served, mut delays) = ([0.0f64; 2], [0.0f64; 2]);
        for step in 0..200_000 {
            let now = f64::from(step) * STEP;
            let queued = [0, 1].map(|at| set[at].burst + set[at].rate * now - served[at]);
            let busy = queued.map(|bits| bits > 1.0);
            let shares = [if busy[1] { share } else { 1.0 }, if busy[0] { 1.0 - share } else { 1.0 }];
            let mut left = LINK * STEP;
            for at in [0, 1] {
                if busy[at] {
                    let more = (shares[at] * LINK * STEP).min(queued[at] + set[at].rate * STEP);
                    served[at] += more;
                    left -= more;
                }
            }
            // Unused bandwidth of one goes to the other.
            for at in [0, 1] {
                let more = left.min(set[at].burst + set[at].rate * (now + STEP) - served[at]).max(0.0);
                served[at] += more;
                left -= more;
            }
            for at in [0, 1] {
                let arrived = ((served[at] - set[at].burst) / set[at].rate).max(0.0);
                delays[at] = delays[at].max(now + STEP - arrived);
            }
            if !busy[0] && !busy[1] {
                break;
            }
        }
        delays
    }

    #[test]
    fn delays_under_gps_are_those_of_a_fluid_in_small_steps() {
        let mut checked = 0;
        for case in 0..200 {
            let mut dice = SeededRng::new(46, case);
            let set = random(&mut dice);
            let share = dice.between(5, 95) as f64 / 100.0;
            let exact = gps(&set, share);
            let stepped = stepped(&set, share);
            for (exact, stepped) in exact.into_iter().zip(stepped) {
                if exact < 0.5 {
                    checked += 1;
                    assert!((exact - stepped).abs() < 2e-3 + 0.01 * exact, "{set:?} {share}: {exact} and {stepped}");
                }
            }
        }
        assert!(checked > 200, "{checked}");
    }

    #[test]
    fn a_session_that_may_be_late_and_has_most_of_the_rate_is_served_by_curves_and_by_no_weights() {
        // 60 % of the link and 50 ms beside 40 % and a burst that needs most of 40 ms: any weight below its rate starves the first.
        let ask = |packets: f64, delay: f64, part: f64| Asks { burst: packets * LEN, delay, rate: part * LINK };
        let set = [ask(8.0, 0.05, 0.6), ask(28.0, 0.04, 0.4)];
        assert!(any_curves(&set) && two_pieces(&set).unwrap());
        assert_eq!(any_weights(&set, 0.0), Some(false));
        // With a priority it is served as well.
        assert_eq!(any_weights(&[ask(1.0, 0.01, 0.1), ask(10.0, 0.1, 0.5)], 0.0), Some(true));
    }
}
