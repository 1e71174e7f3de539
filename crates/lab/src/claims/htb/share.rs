//! The measurements on one device: shares of two flows under HTB and CBQ, priorities, bursts, deficits, ceilings.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Nanos};
use fairlink_sim::{Observer, Options, Run};

use super::measured::{
    CBQ, CBQ_PRIO, HTB, HTB_PRIO, KB, ONE_DEVICE, SLOTS, TWO_DEVICES, delay, mean, of_pairs, play, plot, rate, scenario,
};
use crate::claims::words::{MUCH, VERY};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};
use fairlink_figures::measure::OPTIONS;

/// Classes of flows 0 and 1.
pub(super) const FLOWS: [(&str, &str); 2] = [("1:2", "flow 0 (1:2)"), ("1:3", "flow 1 (1:3)")];
/// Spans in seconds in which one flow or both send, without the half second after a change.
const FIRST: (f64, f64) = (0.6, 4.0);
pub(super) const BOTH: (f64, f64) = (4.6, 9.0);
const SECOND: (f64, f64) = (9.6, 14.0);
/// The tolerance of rates.
const PART: f64 = 0.05;
/// The text's expectation of CBQ's weights.
const TWICE: &str =
    "According to weights the class A should get two times more than B: rA = … ~= 67 kBps rB = … ~= 33 kBps";
pub(super) const AGAIN: &str = "--window 200ms --out plots";

pub(super) fn of(run: &Run, flow: usize, span: (f64, f64)) -> f64 {
    rate(run, FLOWS[flow].0, span)
}

fn total(run: &Run, span: (f64, f64)) -> f64 {
    of(run, 0, span) + of(run, 1, span)
}

fn near(what: &str, kilobytes: f64, ours: Value) -> Row {
    Row::new(what, Unit::Rate, Expected::Near(kilobytes * KB, PART), ours)
}

/// Tests the first measurement of HTB.
pub(super) fn share(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = scenario("share.toml", HTB, ONE_DEVICE)?;
    let runs = play(lab, &workload, "htb")?;
    let rate = |flow, span| mean(&runs, |run| of(run, flow, span));
    let both = mean(&runs, |run| total(run, BOTH));
    let rows = vec![
        near("flow 0 beside flow 1 (67 kB/s)", 200.0 / 3.0, rate(0, BOTH)),
        near("flow 1 beside flow 0 (33 kB/s)", 100.0 / 3.0, rate(1, BOTH)),
        Row::new("both together (100 kB/s)", Unit::Rate, Expected::Near(100.0 * KB, 0.01), both),
        near("flow 0 alone: its ceil (80 kB/s)", 80.0, rate(0, FIRST))
            .judging("Then the flow is limited to 80 kBps mandated by ceil."),
        Row::shown("flow 1 alone, which sends 50 kB/s", Unit::Rate, rate(1, SECOND)),
    ];
    let note = "The text's tc lines and its script, both unchanged, on a link of 10 Mbit/s. Flow 0 sends 90 kB/s from 0 to 9 s, flow 1 sends 50 kB/s from 4 s on. \
                Rates are averages without the first 0.6 s after a change, of runs in which each flow begins at a random instant of its period.";
    let figure = plot("HTB: rate and delay of two flows", &workload, &[("htb", &runs)], &FLOWS)?;
    Ok(Finding::new(note, rows).with_figure(figure).with_rerun(workload.rerun(AGAIN)))
}

/// Tests the first measurement through CBQ.
pub(super) fn share_cbq(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = scenario("share-cbq.toml", CBQ, ONE_DEVICE)?;
    let runs = play(lab, &workload, "cbq-top-level")?;
    let htb = play(lab, &scenario("share.toml", HTB, ONE_DEVICE)?, "htb")?;
    let over = |run: &Run| total(run, BOTH) / (100.0 * KB) - 1.0;
    let rate = |flow, span| mean(&runs, |run| of(run, flow, span));
    let more = of_pairs(&runs, &htb, |cbq, htb| over(cbq) - over(htb));
    let rows = vec![
        near("flow 0 beside flow 1 (67 kB/s)", 200.0 / 3.0, rate(0, BOTH)).judging(TWICE),
        near("flow 1 beside flow 0 (33 kB/s)", 100.0 / 3.0, rate(1, BOTH)).judging(TWICE),
        // A thousandth is a packet in ten seconds.
        Row::new("both together, above 100 kB/s by", Unit::Part, Expected::Between(0.001, PART), mean(&runs, over)),
        Row::new("the same less that of HTB", Unit::Part, Expected::AtLeast(0.001), more)
            .judging("… the bandwidth is divided correctly but the 100 kBps limit is more precise."),
        Row::shown("flow 0 alone", Unit::Rate, rate(0, FIRST)),
        Row::shown("flow 1 alone, which sends 50 kB/s", Unit::Rate, rate(1, SECOND)),
    ];
    let note = "The text's tc lines for CBQ and its script, both unchanged. The weights 4 and 2 become quanta in proportion. Alone, flow 0 gets the 90 kB/s that it \
                sends: the class above it is bounded at 100, and CBQ has no ceil. The text says that the total is above 100 kB/s and not by how much.";
    let figure = plot("CBQ: rate and delay of two flows", &workload, &[("cbq-top-level", &runs)], &FLOWS)?;
    Ok(Finding::new(note, rows).with_figure(figure).with_rerun(workload.rerun(AGAIN)))
}

/// Tests priorities.
pub(super) fn prio(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let raised = scenario("prio.toml", HTB_PRIO, ONE_DEVICE)?;
    let htb = play(lab, &raised, "htb")?;
    let equal = play(lab, &scenario("share.toml", HTB, ONE_DEVICE)?, "htb")?;
    let cbq = play(lab, &scenario("prio-cbq.toml", CBQ_PRIO, ONE_DEVICE)?, "cbq-top-level")?;
    let cbq_equal = play(lab, &scenario("share-cbq.toml", CBQ, ONE_DEVICE)?, "cbq-top-level")?;
    let delays = |run: &Run| delay(run, FLOWS[1].0, BOTH);
    let mut table = Table::new(
        "Flow 1 while both send, by the prio of its class; that of 1:2 is 1",
        &["scheduler", "prio", "rate in kB/s", "mean delay in ms", "longest in ms", "rate of flow 0"],
    );
    for (name, prio, runs) in
        [("htb", "1", &equal), ("htb", "0", &htb), ("cbq-top-level", "1", &cbq_equal), ("cbq-top-level", "0", &cbq)]
    {
        let all = runs.iter().map(|run| delays(run).0 * 1e3);
        let (least, most) = all.fold((f64::MAX, 0.0f64), |(least, most), mean| (least.min(mean), most.max(mean)));
        table.row([
            name.to_owned(),
            prio.to_owned(),
            format!("{:.1}", mean(runs, |run| of(run, 1, BOTH)).mean / KB),
            format!("{:.1}, {least:.1} to {most:.1} by phase", mean(runs, |run| delays(run).0).mean * 1e3),
            format!("{:.1}", runs.iter().map(|run| delays(run).1).fold(0.0, f64::max) * 1e3),
            format!("{:.1}", mean(runs, |run| of(run, 0, BOTH)).mean / KB),
        ]);
    }
    let over = |one: &[Run], other: &[Run]| of_pairs(one, other, |one, other| delays(one).0 / delays(other).0);
    let remainder = "When class A has higher priority than B and both are borrowing from C then A gets as much as it can and remainder is served to B (but B still gets its own rate).";
    let rows = vec![
        Row::new(
            "HTB: mean delay of flow 1, raised, over that of CBQ",
            Unit::Times,
            Expected::AtMost(1.0),
            over(&htb, &cbq),
        ),
        // A packet of 1000 B at the 100 kB/s that they share.
        Row::new(
            "HTB: mean delay of flow 1, raised",
            Unit::Seconds,
            Expected::AtMost(0.010),
            mean(&htb, |run| delays(run).0),
        ),
        Row::new(
            "HTB: the same over that with equal priorities",
            Unit::Part,
            Expected::AtMost(1.0 / VERY),
            over(&htb, &equal),
        ),
        near("HTB: flow 1 gets all that it sends (50 kB/s)", 50.0, mean(&htb, |run| of(run, 1, BOTH)))
            .judging(remainder),
        Row::new(
            "HTB: flow 0 keeps its rate (40 kB/s)",
            Unit::Rate,
            Expected::AtLeast(40.0 * KB * (1.0 - PART)),
            mean(&htb, |run| of(run, 0, BOTH)),
        )
        .judging(remainder),
        Row::new(
            "CBQ: mean delay of flow 1, raised, over that with equal priorities",
            Unit::Part,
            Expected::AtMost(1.0 / MUCH),
            over(&cbq, &cbq_equal),
        )
        .judging("As you see it is almost right. Delay is not zero but is reasonably small."),
    ];
    let note = "The same with 1:3 at prio 0. The text says that the delay under HTB is impressive and that under CBQ it is not zero but reasonably small: so HTB's is the smaller one, less than the time \
                of a packet at 100 kB/s and a tenth of what it was, and CBQ's is half of what it was. With ours the order is the reverse: under HTB the class of 100 kB/s above both is in debt for what flow 0 has just sent, and a packet of \
                flow 1 waits for up to the 10 ms that a packet of 1000 B takes at that rate, whatever its priority. CBQ's estimator lets the class above run ahead of its rate (htb.share.cbq). The plots, of which the text \
                speaks, are lost.";
    let runs = [("htb, 1:3 at prio 1", &equal[..]), ("htb, 1:3 at prio 0", &htb[..])];
    let figure = plot("HTB: flow 1 raised in priority", &raised, &runs, &FLOWS)?;
    Ok(Finding::new(note, rows).with_figure(figure).with_table(table).with_rerun(raised.rerun(AGAIN)))
}

/// Bytes of a class beyond a rate: since the start and in any interval.
struct Excess {
    class: ClassId,
    /// Bytes per nanosecond.
    rate: f64,
    sent: f64,
    least: f64,
    course: Vec<(f64, f64)>,
    found: Arc<Mutex<Found>>,
}

#[derive(Clone, Default)]
struct Found {
    since_start: f64,
    any: f64,
    /// Time in seconds and bytes beyond the rate since the start.
    course: Vec<(f64, f64)>,
}

impl Observer for Excess {
    fn sent(&mut self, now: Nanos, _: Nanos, class: ClassId, len: u32) {
        if class != self.class {
            return;
        }
        let brought = self.rate * now.0 as f64;
        self.least = self.least.min(self.sent - brought);
        self.sent += f64::from(len);
        let excess = self.sent - brought;
        self.course.push((now.0 as f64 / 1e9, excess));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.since_start = found.since_start.max(excess);
        found.any = found.any.max(excess - self.least);
    }
}

impl Drop for Excess {
    fn drop(&mut self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).course.append(&mut self.course);
    }
}

/// Traffic of flow 0 beyond its ceil of 80 kB/s with this burst: the course of a run in one phase, and the most of runs
/// in many.
fn excess(lab: &Lab<'_>, burst: u32) -> Result<(Workload, Found), ClaimError> {
    let tc = HTB.replace("ceil 80kbps burst 2k", &format!("ceil 80kbps burst {burst} cburst {burst}"));
    let workload = scenario("burst.toml", &tc, ONE_DEVICE)?;
    let class = workload.read("htb")?.scripts.first().and_then(|script| script.flows.first().map(|flow| flow.2));
    let class = class.ok_or_else(|| ClaimError::other("no flow 0"))?;
    let found = Arc::new(Mutex::new(Found::default()));
    let make = || -> Box<dyn Observer> {
        let rate = 80.0 * KB / 8e9;
        Box::new(Excess { class, rate, sent: 0.0, least: 0.0, course: Vec::new(), found: Arc::clone(&found) })
    };
    let mut most = Found::default();
    for runs in [1, lab.by_effort(20, 100)] {
        lab.watched(&workload, &["htb"], runs, &Options::default(), Some(&make))?;
        let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        let course = if most.course.is_empty() { found.course } else { most.course };
        most = Found { course, since_start: most.since_start.max(found.since_start), any: most.any.max(found.any) };
    }
    Ok((workload, most))
}

/// Tests the spike at a start.
pub(super) fn burst(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const PACKET: f64 = 1000.0;
    let mut rows = Vec::new();
    let mut table = Table::new(
        "Bytes that flow 0 sends beyond 80 kB/s, by burst and cburst of its class",
        &["burst", "since the start", "in any interval", "burst and a packet"],
    );
    let mut panel = Panel::new(
        "",
        Axis::linear("time in s", 0.0, 2.0),
        Axis::linear("bytes sent beyond 80 kB/s since the start", -1000.0, 6000.0),
    );
    let mut again = None;
    for (n, bytes) in [2048u32, 1024, 4096].into_iter().enumerate() {
        let (workload, found) = excess(lab, bytes)?;
        let burst = f64::from(bytes);
        if bytes == 2048 {
            rows.push(Row::new(
                "burst 2k: bytes beyond the ceil since the start",
                Unit::Bytes,
                Expected::Between(burst, burst + PACKET),
                found.since_start,
            ));
            rows.push(Row::new(
                "burst 2k: bytes beyond the ceil in any interval",
                Unit::Bytes,
                Expected::AtMost(burst + PACKET),
                found.any,
            ));
            again = Some(workload.rerun(AGAIN));
        } else {
            rows.push(Row::new(
                format!("burst {}k: bytes beyond the ceil since the start, less the burst", bytes / 1024),
                Unit::Bytes,
                Expected::Between(0.0, PACKET),
                found.since_start - burst,
            ));
        }
        let cells = [burst, found.since_start, found.any, burst + PACKET];
        table.row(cells.map(|bytes| format!("{bytes:.0}")));
        let points = found.course.into_iter().filter(|point| point.0 <= 2.0);
        panel.series.push(Series::line(format!("burst {}k", bytes / 1024), points.collect(), SeriesStyle::nth(n)));
        let bound = vec![(0.0, burst + PACKET), (2.0, burst + PACKET)];
        panel.series.push(Series::line("burst and a packet", bound, SeriesStyle::reference()));
    }
    let note = "Flow 0 of the text's script sends 90 kB/s into a ceil of 80 kB/s: it runs ahead of the ceil by the burst, to which the packet that goes into debt is \
                added, and no further. The tc of today gives the bucket of ceil a burst of its own (cburst); here both are as large, as with one burst in the text.";
    let figure = Figure::new("The spike of the burst", vec![panel]);
    let finding = Finding::new(note, rows).with_figure(figure).with_table(table);
    Ok(match again {
        Some(again) => finding.with_rerun(again),
        None => finding,
    })
}

/// Tests one deficit for all levels of lenders, or one for each.
pub(super) fn levels(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let ideal = [200.0 / 3.0 * KB, 100.0 / 3.0 * KB];
    let mut table = Table::new(
        "Error of the shares while both send, by what flow 1 sends: of flow 0's share / of flow 1's / of the total",
        &["flow 1 sends", "htb", "htb-common-deficit"],
    );
    let mut rows = Vec::new();
    for sends in [40u32, 50, 70, 90] {
        let script = ONE_DEVICE.replace("R\t1\t50000", &format!("R\t1\t{sends}000"));
        let workload = scenario("levels.toml", HTB, &script)?;
        let mut cells = vec![format!("{sends} kB/s")];
        for scheduler in ["htb", "htb-common-deficit"] {
            let runs = play(lab, &workload, scheduler)?;
            let off = [0, 1].map(|flow| mean(&runs, |run| (of(run, flow, BOTH) - ideal[flow]).abs()));
            let parts =
                [(0, ideal[0]), (1, ideal[1]), (1, 100.0 * KB)].map(|(flow, all)| off[flow].map(|off| off / all));
            cells.push(parts.map(|part| format!("{:.1} %", part.mean * 100.0)).join(" / "));
            if sends != 50 {
                continue;
            }
            for (name, part) in ["flow 0's share", "flow 1's share", "the total"].into_iter().zip(parts) {
                let what = format!("{scheduler}: error as a part of {name}");
                rows.push(if scheduler == "htb" {
                    Row::new(what, Unit::Part, Expected::AtMost(0.05), part)
                        .judging("There is almost no speed penalty and error is bellow 5% now.")
                } else {
                    // The same bytes are twice as large a part of a share that is half as large.
                    Row::new(what, Unit::Part, Expected::Between(0.1, 0.2), part).departing(
                        0.2,
                        0.42,
                        "The text does not say of what its 10 to 20 % are. The bytes that flow 1 has too much are 13 % of the total and 20 % of flow 0's share, and so 40 % of its own.",
                    )
                });
            }
        }
        table.row(cells);
    }
    rows.rotate_left(3);
    let note = "The first measurement, with a deficit for each class that a leaf may borrow from (htb), and with one in all (htb-common-deficit). The text speaks of a sharing \
                error of 10 to 20 % and does not say of what. All three readings are judged. \
                The ideal is 67 : 33. The table has other rates of flow 1, for which the text has a line in its script as well.";
    let workload = scenario("levels.toml", HTB, ONE_DEVICE)?;
    let (one, many) = (play(lab, &workload, "htb-common-deficit")?, play(lab, &workload, "htb")?);
    let runs = [("one deficit", &one[..]), ("a deficit for each level", &many[..])];
    let figure = plot("Deficits: one, and one for each level", &workload, &runs, &FLOWS)?;
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler htb --scheduler htb-common-deficit")))
}

/// Tests a ceil that is the rate, and `bounded`.
pub(super) fn ceilrate(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table = Table::new(
        "Rates of flow 0 / flow 1 in kB/s: alone, together, alone",
        &["rate of 1:2", "htb, ceil = rate", "cbq-top-level, bounded"],
    );
    let (mut apart, mut beside, mut above) = (0.0f64, 0.0f64, 0.0f64);
    let mut first = None;
    for kilobytes in [20.0, 40.0, 60.0] {
        let htb = HTB.replacen("rate 40kbps ceil 80kbps", &format!("rate {kilobytes}kbps ceil {kilobytes}kbps"), 1);
        let cbq = CBQ.replacen("rate 40kbps maxburst 10", &format!("rate {kilobytes}kbps maxburst 10 bounded"), 1);
        let (htb, cbq) =
            (scenario("ceilrate.toml", &htb, ONE_DEVICE)?, scenario("ceilrate-cbq.toml", &cbq, ONE_DEVICE)?);
        let runs = [play(lab, &htb, "htb")?, play(lab, &cbq, "cbq-top-level")?];
        let rates = [(0, FIRST), (0, BOTH), (1, BOTH), (1, SECOND)];
        let rates = rates.map(|(flow, span)| [0, 1].map(|n| mean(&runs[n], |run| of(run, flow, span)).mean));
        let part = |pair: &[f64; 2]| (pair[0] / pair[1] - 1.0).abs();
        for pair in &rates[..2] {
            apart = apart.max(part(pair));
            above = above.max(pair[0] / (kilobytes * KB) - 1.0).max(pair[1] / (kilobytes * KB) - 1.0);
        }
        // Beside 60 kB/s fewer than 50 of the 100 remain, of which CBQ distributes slightly more.
        if kilobytes < 50.0 {
            beside = beside.max(part(&rates[2])).max(part(&rates[3]));
        }
        let cell = |run: usize| {
            let [alone, first, second, last] = rates.map(|pair| format!("{:.1}", pair[run] / KB));
            format!("{alone}, {first} / {second}, {last}")
        };
        table.row([format!("{kilobytes} kB/s"), cell(0), cell(1)]);
        if kilobytes == 40.0 {
            let [a, b] = &runs;
            let figure = plot(
                "A ceil that is the rate, and CBQ's bounded",
                &htb,
                &[("htb, ceil 40 kB/s", &a[..]), ("cbq-top-level, bounded", &b[..])],
                &FLOWS,
            )?;
            first = Some((figure, htb.rerun(AGAIN), cbq.rerun(AGAIN)));
        }
    }
    let rows = vec![
        Row::new(
            "largest difference of flow 0's rate, as a part of that under CBQ",
            Unit::Part,
            Expected::AtMost(PART),
            apart,
        ),
        Row::new(
            "rates of 20 and 40 kB/s: largest difference of flow 1's rate, as a part of that under CBQ",
            Unit::Part,
            Expected::AtMost(PART),
            beside,
        ),
        Row::new("most by which flow 0 is above its rate", Unit::Part, Expected::AtMost(PART), above),
    ];
    let note = "The measurement of the text with 1:2 held to its rate of 20, 40 and 60 kB/s: by `ceil` under HTB, by `bounded` under CBQ. Both hold it there. \
                Beside 60 kB/s there are 40 left for 1:3, and CBQ, whose total is above 100 kB/s, gives it 42.";
    let finding = Finding::new(note, rows).with_table(table);
    Ok(match first {
        Some((figure, htb, cbq)) => finding.with_figure(figure).with_rerun(htb).with_rerun(cbq),
        None => finding,
    })
}

/// The text's scripts, unchanged.
pub(super) fn generator(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let one = scenario("share.toml", HTB, ONE_DEVICE)?;
    let two = scenario("slots.toml", SLOTS, TWO_DEVICES)?;
    let mut rows = Vec::new();
    let mut plots = Vec::new();
    let names: [(&str, &str); 3] =
        [("1:2", "flow 0 (eth0, 1:2)"), ("1:3", "flow 1 (eth0, 1:3)"), ("eth1:1:2", "flow 2 (eth1, 1:2)")];
    // Bytes per second times seconds over the length, as the scripts have them.
    let sends: [(&str, f64); 3] = [("1:2", 90.0 * 9.0), ("1:3", 50.0 * 10.0), ("eth1:1:2", 70.0 * 12.0)];
    for (words, workload, text, kilobyte, rates) in
        [("one device", &one, ONE_DEVICE, 1.0, 3), ("two devices", &two, TWO_DEVICES, 0.5, 4)]
    {
        let script = &workload.read("htb")?.scripts;
        let script = script.first().ok_or_else(|| ClaimError::other("no script"))?;
        rows.push(Row::new(
            format!("{words}: R events that are marked below the axis"),
            Unit::Count,
            Expected::Within(f64::from(rates), 0.0),
            script.script.rates.len() as f64,
        ));
        let runs = lab.play(&workload.clone().as_written(), &["htb"], 1, &OPTIONS)?;
        let run = runs.first().ok_or_else(|| ClaimError::other("no run"))?;
        rows.push(Row::new(
            format!("{words}: length of the run"),
            Unit::Seconds,
            Expected::Within(14.0, 0.0),
            run.duration_s,
        ));
        for (n, (class, packets)) in sends.into_iter().enumerate() {
            // A script has no commands for a flow that does not exist.
            if !text.contains(&format!("R\t{n}\t")) {
                continue;
            }
            let offered = run.classes.iter().find(|found| found.name == class);
            let offered = offered.map_or(f64::NAN, |class| class.counts().received.packets as f64);
            let expected = Expected::Within(packets / kilobyte, 0.0);
            rows.push(Row::new(format!("{words}: packets of flow {n}"), Unit::Packets, expected, offered));
        }
        plots.push(plot(&format!("The script for {words}"), workload, &[("htb", &runs)], &names)?);
    }
    let note = "Both scripts of the text over both of its set-ups, none of them changed: P binds a flow to the class whose classid it is, S is its packets' length, R its rate \
                from an instant on, i its interface, X the end, and what follows # is a comment. A flow sends as many packets as rates, lengths and times of the script \
                amount to. The same scripts send frames of the EtherType of the text over real devices: `fairlink generate`.";
    let mut finding = Finding::new(note, rows);
    for figure in plots {
        finding = finding.with_figure(figure);
    }
    Ok(finding.with_rerun(one.rerun(AGAIN)).with_rerun(two.rerun(AGAIN)))
}
