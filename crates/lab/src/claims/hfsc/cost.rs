//! Section 6.3: cost of a packet, by enqueue and dequeue under each criterion. Figure 13.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use fairlink_core::schedulers::hfsc::{Hfsc, Work};
use fairlink_core::{
    ClassConfig, ClassId, Dequeued, DropReason, Hierarchy, LinkConfig, Nanos, Packet, QueueLimits, Rate, Scheduler,
    ServiceCurve, Share,
};

use crate::bench::machine;
use crate::claims::random::SeededRng;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// The link; the text gives neither its rate nor the packets' length.
const LINK: u64 = 1_000_000_000;
pub(super) const BYTES: u32 = 1000;
/// Mean times of the two states of a source, in nanoseconds; not given either.
const STATE_NS: u64 = 20_000_000;
/// Mean rate over the reserved one.
const UTILISATION: f64 = 0.95;
/// Averages are over the packets from the first to the second.
pub(super) const FROM: u64 = 10_000;
pub(super) const TO: u64 = 20_000;
/// Flat hierarchies: numbers of sessions.
pub(super) const FLAT: [usize; 11] = [1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
/// Hierarchies of 1000 sessions.
pub(super) const DEEP: [&[usize]; 3] = [&[1000], &[10, 100], &[10, 10, 10]];
/// Hierarchies of levels of one size: each level adds the same work.
const EVEN: [&[usize]; 3] = [&[10], &[10, 10], &[10, 10, 10]];

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    enqueue: f64,
    /// Dequeue by the real-time criterion; NaN if it chose no packet.
    real_time: f64,
    /// By the link-sharing criterion.
    sharing: f64,
    /// All of it over the packets sent.
    total: f64,
    /// The part of packets that were chosen by the real-time criterion.
    in_time: f64,
}

/// One of the figures.
type Reading = fn(&Costs) -> f64;

/// Makes a tree of equal sessions with lines for both criteria, with the given number of children per class at each
/// level, from the link down.
pub(super) fn tree(fanouts: &[usize]) -> Result<Hierarchy, ClaimError> {
    tree_of(fanouts, |_| 1000)
}

/// Makes the same tree, with `part(n)` thousandths of an equal part of the link for the `n`th session.
pub(super) fn tree_of(fanouts: &[usize], part: impl Fn(usize) -> u64) -> Result<Hierarchy, ClaimError> {
    let rate = |bps: u64| Rate::from_bps(bps).map_err(ClaimError::other);
    let link = LinkConfig { max_packet: BYTES, max_queued: 1 << 17, ..LinkConfig::new(rate(LINK)?) };
    let mut builder = Hierarchy::builder(link);
    let (mut parents, mut count, mut sessions) = (vec![ClassId::ROOT], 1u64, 0..);
    for (level, &fanout) in fanouts.iter().enumerate() {
        count *= fanout as u64;
        let leaf = level + 1 == fanouts.len();
        let limits = QueueLimits { packets: 1 << 17, bytes: u32::MAX };
        let mut children = Vec::new();
        for parent in parents {
            for _ in 0..fanout {
                let part = if leaf { sessions.next().map_or(1000, &part) } else { 1000 };
                let own = rate(LINK / count * part / 1000)?;
                let line = ServiceCurve { m1: Some(own), d: Nanos::ZERO, m2: Some(own) };
                let config = ClassConfig {
                    share: Some(Share::Guarantee(own)),
                    real_time: leaf.then_some(line),
                    limits,
                    ..ClassConfig::default()
                };
                children.push(builder.add(parent, config).map_err(ClaimError::other)?);
            }
        }
        parents = children;
    }
    builder.build().map_err(ClaimError::other)
}

/// Draws an exponentially distributed time.
fn exponential(dice: &mut SeededRng, mean: u64) -> u64 {
    let uniform = (dice.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
    (-uniform.ln() * mean as f64) as u64
}

/// Arrivals of two-state Markov sources, one for each leaf, in the order of time: nanoseconds and class.
pub(super) fn arrivals(tree: &Hierarchy, packets: u64) -> Vec<(u64, ClassId)> {
    let leaves = tree.leaves();
    let gap = |class: ClassId| {
        // The weight of a class with a guarantee is its rate in bit/s.
        (f64::from(BYTES) * 8e9 / tree.weight(class) as f64 / (2.0 * UTILISATION)) as u64
    };
    let gaps: Vec<u64> = leaves.iter().map(|&class| gap(class)).collect();
    let mut dice = SeededRng::new(27, leaves.len() as u64);
    // By source: its next packet, and when it stops.
    let mut next = BinaryHeap::new();
    let begin = |dice: &mut SeededRng, gap: u64, at: u64| (at, at + exponential(dice, STATE_NS.max(4 * gap)));
    let mut ends = Vec::new();
    for (place, &gap) in gaps.iter().enumerate() {
        let start = dice.below(2 * gap);
        let (at, end) = begin(&mut dice, gap, start);
        next.push(Reverse((at, place)));
        ends.push(end);
    }
    let mut all = Vec::new();
    while let Some(Reverse((at, place))) = next.pop() {
        if all.len() as u64 >= packets {
            break;
        }
        all.push((at, leaves[place]));
        let gap = gaps[place];
        let mut then = at + gap;
        if then > ends[place] {
            let off = exponential(&mut dice, STATE_NS.max(4 * gap));
            (then, ends[place]) = begin(&mut dice, gap, ends[place] + off);
        }
        next.push(Reverse((then, place)));
    }
    all
}

/// Packets that keep all sessions of equal rates busy, at the start.
pub(super) fn backlog(tree: &Hierarchy, packets: u64) -> Vec<(u64, ClassId)> {
    let leaves = tree.leaves();
    let rounds = 4 + packets as usize / leaves.len() * 2;
    (0..rounds * leaves.len()).map(|n| (0, leaves[n % leaves.len()])).collect()
}

/// A call that takes longer was interrupted: something else ran on the processor. It is left out.
const INTERRUPTED: Duration = Duration::from_micros(20);

/// Duration of two clock readings in nanoseconds, by the median.
fn clock() -> f64 {
    let mut times: Vec<u128> = (0..2001)
        .map(|_| {
            let start = Instant::now();
            black_box(&start);
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[1000] as f64
}

/// Sums of the measurements.
#[derive(Default)]
struct Sums {
    packets: u64,
    time: Duration,
    count: u64,
}

impl Sums {
    fn add(&mut self, time: Duration) {
        self.packets += 1;
        if time < INTERRUPTED {
            self.time += time;
            self.count += 1;
        }
    }

    fn mean(&self, clock: f64) -> f64 {
        self.time.as_nanos() as f64 / self.count as f64 - clock
    }
}

/// Calls of a scheduler, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A packet for a session without packets.
    First,
    /// A packet for one that has some.
    Behind,
    /// The next packet, by the real-time criterion.
    RealTime,
    /// By the link-sharing criterion.
    Sharing,
}

/// A call that was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) call: Call,
    /// The session of the packet.
    pub(super) class: ClassId,
    /// The scheduler's time, in nanoseconds.
    pub(super) now: u64,
    /// True if it falls into the span that is measured.
    pub(super) measured: bool,
}

/// Measures calls of a scheduler one by one.
pub(super) trait Meter<W> {
    /// The reading before a call.
    type Mark;
    /// The cost of a call.
    type Took;

    fn begin(&self, hfsc: &Hfsc<W>) -> Self::Mark;
    fn took(&self, mark: Self::Mark, hfsc: &Hfsc<W>) -> Self::Took;
    fn add(&mut self, made: Made, took: Self::Took);
}

/// Runs through the arrivals; `meter` measures the calls between the transmission of the first and the last packet of
/// `span`.
pub(super) fn run<W: Work, M: Meter<W>>(
    tree: &Hierarchy,
    arrivals: &[(u64, ClassId)],
    span: Range<u64>,
    meter: &mut M,
) -> Result<(), ClaimError> {
    let mut hfsc = Hfsc::<W>::working(tree).map_err(ClaimError::other)?;
    let packet_ns = u64::from(BYTES) * 8_000_000_000 / LINK;
    let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
    let (mut now, mut sent) = (0u64, 0u64);
    // Service by the real-time criterion by class: it shows which criterion chose a packet.
    let mut in_time = vec![0u64; tree.len()];
    let mut queued = vec![0u32; tree.len()];
    let mut arrivals = arrivals.iter().copied().peekable();
    while sent < span.end {
        while let Some((at, class)) = arrivals.next_if(|arrival| arrival.0 <= now) {
            let packet = Packet { handle: 0, len: BYTES, class };
            let mark = meter.begin(&hfsc);
            hfsc.enqueue(Nanos(at), black_box(packet), &mut dropped);
            let took = meter.took(mark, &hfsc);
            let queued = &mut queued[class.index()];
            let call = if *queued == 0 { Call::First } else { Call::Behind };
            meter.add(Made { call, class, now: at, measured: sent >= span.start }, took);
            *queued += 1;
        }
        let mark = meter.begin(&hfsc);
        let packet = black_box(hfsc.dequeue(Nanos(now), &mut dropped));
        let took = meter.took(mark, &hfsc);
        match packet {
            Dequeued::Packet(packet) => {
                sent += 1;
                queued[packet.class.index()] -= 1;
                let known = &mut in_time[packet.class.index()];
                let before = std::mem::replace(known, hfsc.served_in_time(packet.class).unwrap_or(0));
                let call = if *known > before { Call::RealTime } else { Call::Sharing };
                meter.add(Made { call, class: packet.class, now, measured: sent > span.start }, took);
                now += packet_ns;
            }
            Dequeued::WaitUntil(_) | Dequeued::Idle => match arrivals.peek() {
                Some(arrival) => now = arrival.0,
                None => return Err(ClaimError::other("no arrivals are left")),
            },
        }
    }
    Ok(())
}

/// Times of calls.
#[derive(Default)]
struct Times {
    enqueue: Sums,
    real_time: Sums,
    sharing: Sums,
}

impl Meter<()> for Times {
    type Mark = Instant;
    type Took = Duration;

    fn begin(&self, _: &Hfsc) -> Instant {
        Instant::now()
    }

    fn took(&self, mark: Instant, _: &Hfsc) -> Duration {
        mark.elapsed()
    }

    fn add(&mut self, made: Made, took: Duration) {
        let sums = match made.call {
            Call::First | Call::Behind => &mut self.enqueue,
            Call::RealTime => &mut self.real_time,
            Call::Sharing => &mut self.sharing,
        };
        if made.measured {
            sums.add(took);
        }
    }
}

/// One run through the arrivals, each call timed separately.
fn pass(tree: &Hierarchy, arrivals: &[(u64, ClassId)], clock: f64) -> Result<Costs, ClaimError> {
    let mut times = Times::default();
    run(tree, arrivals, FROM..TO, &mut times)?;
    let packets = (TO - FROM) as f64;
    let Times { enqueue, real_time, sharing } = times;
    let spent = |sums: &Sums| if sums.count == 0 { 0.0 } else { sums.mean(clock) * sums.packets as f64 };
    Ok(Costs {
        enqueue: enqueue.mean(clock),
        real_time: real_time.mean(clock),
        sharing: sharing.mean(clock),
        total: (spent(&enqueue) + spent(&real_time) + spent(&sharing)) / packets,
        in_time: real_time.packets as f64 / packets,
    })
}

/// Returns the median of each figure over the passes.
fn median(passes: &[Costs]) -> Costs {
    let of = |value: &dyn Fn(&Costs) -> f64| {
        let mut values: Vec<f64> = passes.iter().map(value).filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Costs {
        enqueue: of(&|costs| costs.enqueue),
        real_time: of(&|costs| costs.real_time),
        sharing: of(&|costs| costs.sharing),
        total: of(&|costs| costs.total),
        in_time: of(&|costs| costs.in_time),
    }
}

/// Costs by hierarchy. Passes take turns, so that a disturbance of the machine does not fall on one hierarchy alone.
fn measure(
    lab: &Lab<'_>,
    hierarchies: &[Vec<usize>],
    backlogged: bool,
    passes: usize,
) -> Result<Vec<Costs>, ClaimError> {
    let mut made = Vec::new();
    for fanouts in hierarchies {
        let tree = tree(fanouts)?;
        let comes = if backlogged { backlog(&tree, TO) } else { arrivals(&tree, 2 * TO) };
        made.push((tree, comes));
    }
    let clock = clock();
    let mut found = vec![Vec::new(); made.len()];
    for _ in 0..passes {
        for ((tree, comes), found) in made.iter().zip(&mut found) {
            lab.go_on()?;
            found.push(pass(tree, comes, clock)?);
        }
    }
    Ok(found.iter().map(|passes| median(passes)).collect())
}

/// Nanoseconds for an enqueue to sessions that have packets, of a thousand, by the median of passes.
fn behind(lab: &Lab<'_>, passes: usize) -> Result<f64, ClaimError> {
    let tree = tree(&[1000])?;
    let comes = backlog(&tree, TO);
    let clock = clock();
    let mut found = Vec::new();
    for _ in 0..passes {
        lab.go_on()?;
        let mut hfsc = Hfsc::new(&tree).map_err(ClaimError::other)?;
        let mut dropped = |_: Nanos, _: Packet, _: DropReason| {};
        let mut sums = Sums::default();
        for (place, &(at, class)) in comes.iter().enumerate() {
            let start = Instant::now();
            hfsc.enqueue(Nanos(at), black_box(Packet { handle: 0, len: BYTES, class }), &mut dropped);
            if place >= tree.leaves().len() {
                sums.add(start.elapsed());
            }
        }
        found.push(sums.mean(clock));
    }
    found.sort_by(f64::total_cmp);
    Ok(found[found.len() / 2])
}

/// Nanoseconds for a packet of a flat hierarchy with two-state sources, all calls.
pub(super) fn total(lab: &Lab<'_>, sessions: usize, passes: usize) -> Result<f64, ClaimError> {
    Ok(measure(lab, &[vec![sessions]], false, passes)?[0].total)
}

/// Reason for which a level of ten classes costs less than one of a hundred.
const LINEAR: &str = "families of up to 64 classes are sorted lists here and larger ones tournaments: the third level of the text's hierarchy has ten classes \
                      a parent, the second had a hundred in the hierarchy of two levels";

/// Deviation of the figure of two levels from the straight line through those of one and of three, as a part of the
/// latter.
fn off_line(name: &'static str, costs: &[Costs], value: Reading) -> Row {
    let [one, two, three] = [0, 1, 2].map(|at| value(&costs[at]));
    let off = (two - f64::midpoint(one, three)).abs() / three;
    Row::new(name, Unit::Part, Expected::AtMost(0.1), off).departing(0.1, 0.4, LINEAR)
}

/// Tests Figure 13. `structures` are times of the text's own structures, shown beside it.
pub(super) fn fig13(lab: &Lab<'_>, structures: Vec<Row>) -> Result<Finding, ClaimError> {
    let passes = lab.by_effort(7, 31);
    let flat: Vec<Vec<usize>> = FLAT.iter().map(|&count| vec![count]).collect();
    let deep: Vec<Vec<usize>> = DEEP.iter().map(|fanouts| fanouts.to_vec()).collect();
    let by_sessions = measure(lab, &flat, false, passes)?;
    let even: Vec<Vec<usize>> = EVEN.iter().map(|fanouts| fanouts.to_vec()).collect();
    let by_levels = measure(lab, &deep, false, passes)?;
    let busy = measure(lab, &deep, true, passes)?;
    let by_even = measure(lab, &even, false, passes)?;
    let busy_even = measure(lab, &even, true, passes)?;
    let (hundred, thousand) = (by_sessions[1].total, by_sessions[10].total);
    let grows = |costs: &[Costs]| (costs[1].total - costs[0].total, costs[2].total - costs[1].total);
    let (second, third) = grows(&by_levels);
    let (busy_second, busy_third) = grows(&busy);
    let (even_second, even_third) = grows(&by_even);
    let (busy_even_second, busy_even_third) = grows(&busy_even);
    let mut rows = vec![
        Row::new(
            "1000 sessions over 100, total: log 1000 / log 100 is 1.5, 1000 / 100 is 10",
            Unit::Times,
            Expected::AtMost(2.5),
            thousand / hundred,
        )
        .judging("enqueue and dequeue times increase little between as the number of sessions increase from 100 to 1000 sessions"),
        Row::new(
            "1000 sessions, all backlogged: three levels over one, total (11.54 over 8.79 us)",
            Unit::Times,
            Expected::Near(11.54 / 8.79, 0.2),
            busy[2].total / busy[0].total,
        )
        .or_weaker(1.0, 3.0, "a level costs another part of a packet here than on the text's machine")
        .judging(
            "For the flat hierarchy with 1000 sessions, the average per packet overhead is 8.79 μs, while for the three-level hierarchy it is 11.54 μs.",
        ),
        off_line("1000 sessions in 1, 2, 3 levels: enqueue in two levels, off the line from one to three", &by_levels, |costs| costs.enqueue),
        off_line("the same: dequeue by the real-time criterion", &by_levels, |costs| costs.real_time),
        off_line("the same: dequeue by the link-sharing criterion", &by_levels, |costs| costs.sharing),
        off_line("the same: total", &by_levels, |costs| costs.total),
        off_line("the same: total, all backlogged", &busy, |costs| costs.total),
        Row::shown("three levels over one, total, two-state sources", Unit::Times, by_levels[2].total / by_levels[0].total),
        Row::shown(
            "what the third level adds over what the second adds, levels of ten classes, both loads together",
            Unit::Times,
            (even_third + busy_even_third) / (even_second + busy_even_second),
        ),
        Row::shown("what the second level adds, all backlogged", Unit::Seconds, busy_second / 1e9),
        Row::shown("what the third level adds", Unit::Seconds, busy_third / 1e9),
        Row::shown("what the second level adds, two-state sources", Unit::Seconds, second / 1e9),
        Row::shown("what the third level adds, two-state sources", Unit::Seconds, third / 1e9),
        Row::shown("a flat hierarchy of 1000 sessions, all backlogged, total", Unit::Seconds, busy[0].total / 1e9),
        Row::new(
            "1000 sessions, a packet behind others: enqueue",
            Unit::Seconds,
            Expected::Beside(0.3e-6),
            behind(lab, passes)? / 1e9,
        ),
    ];
    rows.extend(structures);
    let mut table = Table::new(
        "Nanoseconds, medians of all passes",
        &[
            "hierarchy",
            "enqueue",
            "dequeue, real-time",
            "dequeue, link-sharing",
            "total a packet",
            "chosen by real-time",
        ],
    );
    let mut lines = |name: &dyn Fn(&[usize]) -> String, hierarchies: &[Vec<usize>], costs: &[Costs]| {
        for (fanouts, costs) in hierarchies.iter().zip(costs) {
            let cells = [costs.enqueue, costs.real_time, costs.sharing, costs.total];
            let cells = cells.map(|ns| if ns.is_finite() { format!("{ns:.0}") } else { "-".to_owned() });
            let part = format!("{:.0} %", 100.0 * costs.in_time);
            table.row(std::iter::once(name(fanouts)).chain(cells).chain([part]));
        }
    };
    let levels = |fanouts: &[usize]| fanouts.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    lines(&|fanouts| format!("flat, {}", fanouts[0]), &flat, &by_sessions);
    lines(&|fanouts| format!("levels, {}", levels(fanouts)), &deep, &by_levels);
    lines(&|fanouts| format!("all backlogged, {}", levels(fanouts)), &deep, &busy);
    lines(&|fanouts| format!("levels of ten, {}", levels(fanouts)), &even, &by_even);
    lines(&|fanouts| format!("all backlogged, levels of ten, {}", levels(fanouts)), &even, &busy_even);
    let top =
        by_sessions.iter().chain(&by_levels).map(|costs| costs.total.max(costs.enqueue)).fold(0.0, f64::max) * 1.3;
    let series = |at: &[f64], costs: &[Costs]| -> Vec<Series> {
        let values: [(&str, Reading); 4] = [
            ("enqueue", |costs| costs.enqueue),
            ("dequeue, link-sharing", |costs| costs.sharing),
            ("dequeue, real-time", |costs| costs.real_time),
            ("total a packet", |costs| costs.total),
        ];
        let one = |(place, (name, value)): (usize, (&str, Reading))| {
            Series::line(name, at.iter().copied().zip(costs.iter().map(value)).collect(), SeriesStyle::nth(place))
        };
        values.into_iter().enumerate().map(one).collect()
    };
    let mut of_sessions =
        Panel::new("(a)", Axis::linear("sessions", 0.0, 1000.0), Axis::linear("time in ns", 0.0, top)).high(280.0);
    of_sessions.series = series(&FLAT.map(|count| count as f64), &by_sessions);
    let mut of_levels =
        Panel::new("(b) 1000 sessions", Axis::linear("levels", 0.5, 3.5), Axis::linear("time in ns", 0.0, top))
            .high(280.0);
    of_levels.series = series(&[1.0, 2.0, 3.0], &by_levels);
    let note = format!(
        "Averages over the packets from the {FROM}th to the {TO}th, as in the text; medians of {passes} passes on {}, each call timed \
         by itself, less what reading the clock takes ({:.0} ns). Equal sessions, lines for both criteria, sources of two \
         states with 0.95 of what is reserved. Not given and chosen: a link of 1 Gbit/s, packets of {BYTES} B, states of {} ms \
         or four packets in the mean. Calls of more than {} us were interrupted and are left out; times still vary by half on \
         a busy machine, which is why ratios are judged. What a level adds is judged where all have ten classes: families of up to 64 are sorted \
         lists here and larger ones tournaments, so that a level of ten costs less than one of a hundred. The paper's 8.79 us (flat) and 11.54 us (three levels) are of 1997.",
        machine(),
        clock(),
        STATE_NS / 1_000_000,
        INTERRUPTED.as_micros()
    );
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 13: what a packet costs", vec![of_sessions, of_levels]))
        .with_table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_two_states_offer_their_part_of_the_link_and_both_criteria_choose() {
        let tree = tree(&[10, 10]).unwrap();
        let comes = arrivals(&tree, 2 * TO);
        assert!(comes.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let bits = comes.len() as f64 * f64::from(BYTES) * 8.0;
        let offered = bits / (comes[comes.len() - 1].0 as f64 / 1e9) / LINK as f64;
        assert!((0.8..1.05).contains(&offered), "{offered}");
        let costs = pass(&tree, &comes, 0.0).unwrap();
        assert!(costs.in_time > 0.01 && costs.in_time < 0.99, "{}", costs.in_time);
        assert!(costs.total > 0.0 && costs.enqueue > 0.0);
    }
}
