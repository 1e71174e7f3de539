//! Sharing across devices: the measurement of 9.9.2001, beside an exact pool.

use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::{ClassId, Nanos};
use fairlink_sim::{Observer, Run};
use fairlink_theory::hmm::Allocation;
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::to_f64;

use super::measured::{KB, SLOTS, TWO_DEVICES, mean, play, plot, rate, scenario};
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Value, Workload};
use fairlink_figures::figure::{Series, SeriesStyle};
use fairlink_figures::measure::OPTIONS;

/// The pool as one link, with the devices as classes of it.
const MERGED: &str = include_str!("../../../../../scenarios/htb/slots-merged.toml");
/// Classes of flows 0 to 2 with two devices.
const FLOWS: [(&str, &str); 3] =
    [("1:2", "flow 0 (eth0, 30)"), ("1:3", "flow 1 (eth0, 10)"), ("eth1:1:2", "flow 2 (eth1, 30)")];
/// The same with the pool as one link.
const MERGED_FLOWS: [&str; 3] = ["flow 0", "flow 1", "flow 2"];
/// Spans in seconds: right after flow 2 began, when the meters have settled, and when flow 0 has ended and they have again.
const EARLY: (f64, f64) = (2.6, 3.6);
const SETTLED: (f64, f64) = (6.0, 9.0);
const LATE: (f64, f64) = (11.0, 14.0);
/// The tolerance of settled rates.
const PART: f64 = 0.1;
/// The text on 6 s and later.
const SETTLES: &str = "At time 6 is starts to estimate well and ratio is correct (yellow vs. blue line).";
/// Reason for the shares of flows 0 and 1. Turns of one packet each would share the 62.5 kB/s of eth0 alike.
const TURNS: &str = "A queue of 2 packets has nothing left in the middle of a turn of 6, the quantum of 30 kB/s, so that flow 0 cannot use its turns \
                     and flow 1 gets more of eth0's rate: at most half. How much depends on the phases of the flows. With queues of 5 packets it is as the text says (table).";
/// Window of the measured demand, in seconds.
const MEASURED_OVER: f64 = 0.5;
/// Such spans in the script.
const SPANS: usize = 28;

/// Bytes that came of flows 0 to 2, by span.
type Came = [[f64; SPANS]; 3];

/// Counts the arrivals at one link.
struct Demands {
    /// The flow of each of its classes.
    flows: Vec<(ClassId, usize)>,
    came: Arc<Mutex<Came>>,
    further: Option<Box<Demands>>,
}

impl Observer for Demands {
    fn arrived(&mut self, now: Nanos, class: ClassId, len: u32) {
        let span = (now.0 as f64 / 1e9 / MEASURED_OVER) as usize;
        let flow = self.flows.iter().find(|flow| flow.0 == class);
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = flow.and_then(|flow| came[flow.1].get_mut(span)) {
            *cell += f64::from(len);
        }
    }

    fn further(&mut self) -> Vec<Box<dyn Observer>> {
        self.further.take().into_iter().map(|further| further as Box<dyn Observer>).collect()
    }
}

/// Rates of flows 0 to 2 under an exact pool in each span, in bit/s: HMM on the merged tree, over demand as measured in
/// that span.
fn exact(lab: &Lab<'_>, workload: &Workload) -> Result<Vec<[f64; 3]>, ClaimError> {
    let script = workload.read("htb")?.scripts;
    let script = script.first().ok_or_else(|| ClaimError::other("no script"))?;
    let of = |link: usize| {
        let flows = script.flows.iter().filter(|flow| flow.1 == link);
        flows.map(|flow| (flow.2, flow.0 as usize)).collect::<Vec<_>>()
    };
    let came = Arc::new(Mutex::new([[0.0; SPANS]; 3]));
    let make = || -> Box<dyn Observer> {
        let second = Demands { flows: of(1), came: Arc::clone(&came), further: None };
        Box::new(Demands { flows: of(0), came: Arc::clone(&came), further: Some(Box::new(second)) })
    };
    lab.watched(&workload.clone().as_written(), &["htb"], 1, &OPTIONS, Some(&make))?;
    let came = *came.lock().unwrap_or_else(PoisonError::into_inner);
    let merged = Workload::new("slots-merged.toml", MERGED).read("hls")?.link;
    let leaf = |name: &str| merged.tree.leaves().iter().copied().find(|&leaf| merged.names.name(leaf) == name);
    let leaves: Option<Vec<ClassId>> = MERGED_FLOWS.iter().map(|name| leaf(name)).collect();
    let leaves = leaves.ok_or_else(|| ClaimError::other("a flow is missing in slots-merged.toml"))?;
    let mut rates = Vec::new();
    let spans = came[0].iter().zip(&came[1]).zip(&came[2]);
    for ((first, second), third) in spans {
        let request = |bytes: f64| Request::Rate((bytes * 8.0 / MEASURED_OVER).round() as u64);
        let requests = leaves.iter().zip([*first, *second, *third]).map(|(&leaf, bytes)| (leaf, request(bytes)));
        let demand = Demand::new(&merged.tree, requests).map_err(ClaimError::other)?;
        let hmm = Allocation::solve(&merged.tree, &demand);
        rates.push([0, 1, 2].map(|flow| to_f64(&hmm.rate(leaves[flow]))));
    }
    Ok(rates)
}

/// Means of a span of time.
fn mean_of(rates: &[[f64; 3]], (from, to): (f64, f64)) -> [f64; 3] {
    let within =
        |n: &usize| (*n as f64 * MEASURED_OVER) >= from - 1e-9 && ((n + 1) as f64 * MEASURED_OVER) <= to + 1e-9;
    let rows: Vec<&[f64; 3]> = rates.iter().enumerate().filter(|(n, _)| within(n)).map(|(_, row)| row).collect();
    [0, 1, 2].map(|flow| rows.iter().map(|row| row[flow]).sum::<f64>() / rows.len() as f64)
}

fn measured(runs: &[Run], names: [&str; 3], span: (f64, f64)) -> [Value; 3] {
    names.map(|name| mean(runs, |run| rate(run, name, span)))
}

/// Returns what all of these classes get.
fn total(runs: &[Run], names: &[&str], span: (f64, f64)) -> Value {
    mean(runs, |run| names.iter().map(|name| rate(run, name, span)).sum())
}

/// Tests two devices and a slot.
pub(super) fn slots(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = scenario("slots.toml", SLOTS, TWO_DEVICES)?;
    let merged = Workload::new("slots-merged.toml", MERGED);
    let (runs, one) = (play(lab, &workload, "htb")?, play(lab, &merged.clone().in_any_phase(), "hls")?);
    let ideal = exact(lab, &workload)?;
    let names = FLOWS.map(|flow| flow.0);
    let settled = measured(&runs, names, SETTLED);
    let slots = |limit: u32| scenario("slots.toml", &SLOTS.replace("limit 2", &format!("limit {limit}")), TWO_DEVICES);
    // The same devices and script, with the other rule.
    let text = workload.text.replace("rule = \"ratio\"", "rule = \"exact\"");
    let exact_pool = Workload::new("slots-exact.toml", text).in_any_phase();
    let two = play(lab, &exact_pool, "htb")?;
    let longer = measured(&play(lab, &slots(5)?, "htb")?, names, SETTLED);
    let sum = |rates: [f64; 3]| rates.iter().sum::<f64>();
    let near = |what: &str, kilobytes: f64, ours: Value| {
        Row::new(what, Unit::Rate, Expected::Near(kilobytes * KB, PART), ours)
    };
    let rows = vec![
        near("6 to 9 s: flows 0 and 1 on eth0 (62.5 kB/s)", 62.5, total(&runs, &names[..2], SETTLED)).judging(SETTLES),
        near("6 to 9 s: flow 2 on eth1 (37.5 kB/s)", 37.5, settled[2]).judging(SETTLES),
        near("6 to 9 s: flow 0 (46.9 kB/s)", 46.875, settled[0]).judging(SETTLES).departing(
            62.5 / 2.0 * KB,
            46.875 * KB,
            TURNS,
        ),
        near("6 to 9 s: flow 1 (15.6 kB/s)", 15.625, settled[1]).judging(SETTLES).departing(
            15.625 * KB,
            62.5 / 2.0 * KB,
            TURNS,
        ),
        Row::shown("6 to 9 s: flow 1 with queues of 5 packets", Unit::Rate, longer[1]),
        near("6 to 9 s: all of them (100 kB/s)", 100.0, total(&runs, &names, SETTLED)),
        Row::new(
            "2.6 to 3.6 s: flow 0 over flow 2, which should be 1.67 and is almost 1 in the text",
            Unit::Times,
            Expected::Near(1.0, ABOUT),
            mean(&runs, |run| rate(run, names[0], EARLY) / rate(run, names[2], EARLY)),
        )
        .judging(
            "At time 3.5 you can see flow 0 (eth0) and 2 (eth1) getting almost the same share but the should get 50:30 ratio.",
        ),
        near("11 to 14 s: all of them (100 kB/s)", 100.0, total(&runs, &names, LATE)).departing(
            76.0 * KB,
            84.0 * KB,
            "flow 1 sends the 50 that are eth0's base, so that the ratio is 1 and flow 2 may not rise above its 30: the rule leaves 20 of the 100 idle.",
        ),
        Row::shown(
            "11 to 14 s: all of them in an exact pool, as HMM of the demand",
            Unit::Rate,
            sum(mean_of(&ideal, LATE)),
        ),
        Row::shown(
            "2.6 to 3.6 s: flow 2 in an exact pool of both devices",
            Unit::Rate,
            measured(&two, names, EARLY)[2],
        ),
        Row::shown(
            "11 to 14 s: all of them in an exact pool of both devices",
            Unit::Rate,
            total(&two, &names, LATE),
        ),
        Row::shown(
            "11 to 14 s: all of them in an exact pool, as packets of one link",
            Unit::Rate,
            total(&one, &MERGED_FLOWS, LATE),
        ),
    ];
    let mut table =
        Table::new("Flows 0 / 1 / 2 in kB/s, and their sum", &["", "2.6 to 3.6 s", "6 to 9 s", "11 to 14 s"]);
    let cell = |rates: [f64; 3]| {
        let each = rates.map(|rate| format!("{:.1}", rate / KB)).join(" / ");
        format!("{each} = {:.1}", sum(rates) / KB)
    };
    let spans = [EARLY, SETTLED, LATE];
    let packets = |runs: &[Run], names| spans.map(|span| cell(measured(runs, names, span).map(|value| value.mean)));
    let mut row = |words: &str, cells: [String; 3]| table.row(std::iter::once(words.to_owned()).chain(cells));
    row("slot, queues of 2 packets as in the text", packets(&runs, names));
    for limit in [1, 5, 20] {
        row(&format!("slot, queues of {limit}"), packets(&play(lab, &slots(limit)?, "htb")?, names));
    }
    row(
        "exact pool: HMM of the demand in each half second",
        spans.map(|(from, to)| cell(mean_of(&ideal, (from.floor(), to.ceil())))),
    );
    row("exact pool: both devices, computed anew each millisecond", packets(&two, names));
    row("exact pool: one link of 100 kB/s under hls", packets(&one, MERGED_FLOWS));
    let mut figure = plot("Sharing across devices by a slot", &workload, &[("htb, a slot", &runs)], &FLOWS)?;
    if let Some(panel) = figure.panels.first_mut() {
        for flow in 0..FLOWS.len() {
            let point = |(n, row): (usize, &[f64; 3])| (n as f64 * MEASURED_OVER, row[flow] / KB);
            let mut points: Vec<(f64, f64)> = ideal.iter().enumerate().map(point).collect();
            points.push((SPANS as f64 * MEASURED_OVER, points.last().map_or(0.0, |point| point.1)));
            panel.series.push(Series::steps("exact pool", points, SeriesStyle::reference()));
        }
    }
    let note = "The text's tc lines and its script of 9.9.2001, both unchanged: eth0's root at 50 with children at 30 and 10, and eth1's class at 30, borrow from a pool of 100 kB/s. \
                Each member is told to keep below its base times the ratio of all rates to all bases of members that are active, with rates that are recomputed every 100 ms \
                and averaged over about six seconds. When flow 0 has ended, flow 1 sends 50, which is eth0's base: the ratio stays where it is, flow 2 may not \
                rise above its 30, and 20 of the 100 are lost. An exact pool, hierarchical max-min fairness on the tree of both devices, loses nothing: computed from the \
                demand that is measured in each half second, run as packets over both devices with rule = \"exact\", which measures demand each millisecond, and run as \
                packets on one link of 100 kB/s.";
    Ok(Finding::new(note, rows)
        .with_figure(figure)
        .with_table(table)
        .with_rerun(workload.rerun("--window 200ms --out plots"))
        .with_rerun(exact_pool.rerun("--window 200ms --out plots"))
        .with_rerun(merged.rerun("--scheduler hls --scheduler htb")))
}

/// Tests two devices and a slot, without the rule of the ratio.
pub(super) fn stolen(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let slot = scenario("slots.toml", SLOTS, TWO_DEVICES)?;
    // Permanent demand: both devices send more than the pool has, so that neither runs out.
    let script = "0\ti\t0\teth0\n0\ti\t1\teth1\n0\tP\t0\t0x10002\n0\tP\t1\t0x10002\n0\tS\t0\t500\n0\tS\t1\t500\n0\tR\t0\t200000\n0\tR\t1\t200000\n20000\tX\t0\t0\n";
    let both = scenario("stolen.toml", SLOTS, script)?;
    let with = |workload: &Workload, rule: &str| {
        let text = workload.text.replace("rule = \"ratio\"", &format!("rule = \"{rule}\""));
        Workload::new(workload.name.clone(), text).in_any_phase()
    };
    let names = ["1:2", "eth1:1:2"];
    let mut table = Table::new(
        "Rates of eth0 / eth1 in kB/s from 10 to 20 s, both with permanent demand; bases 50 and 30 of a pool of 100",
        &["rule", "eth0", "eth1"],
    );
    let mut borrowed = Vec::new();
    for rule in ["greedy", "ratio", "exact"] {
        let runs = play(lab, &with(&both, rule), "htb")?;
        let rates = |run: &Run| names.map(|name| rate(run, name, (10.0, 20.0)));
        let cell = |n: usize| format!("{:.1}", mean(&runs, |run| rates(run)[n]).mean / KB);
        table.row([rule.to_owned(), cell(0), cell(1)]);
        // Of the 20 that belong to no base.
        let beyond = |run: &Run| [rates(run)[0] - 50.0 * KB, rates(run)[1] - 30.0 * KB].map(|bps| bps.max(0.0));
        borrowed.push(mean(&runs, |run| beyond(run)[0].max(beyond(run)[1]) / beyond(run).iter().sum::<f64>()));
    }
    let rows = vec![
        Row::new("without coordination: part of what is borrowed that one device has", Unit::Part, Expected::AtLeast(0.9), borrowed[0]),
        Row::new("by the ratio: the same, for bases of 50 and 30", Unit::Part, Expected::Near(0.625, PART), borrowed[1])
            .judging("Then R tells us \"how much times we are actualy overusing base rate\". Now multiply requestor base rate by R and you got actual rate which requestor should be using now."),
    ];
    let note = "The set-up of the text's slots, each device with one flow of 200 kB/s from the start, so that both always ask. With rule = \"greedy\" whoever asks first when the pool has something borrows. \
                The same with the text's own script is the second scenario.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(with(&both, "greedy").rerun("--scheduler htb --window 1s"))
        .with_rerun(with(&slot, "greedy").rerun("--scheduler htb --window 1s")))
}
