//! Sections 4 and 6.3 by work that can be counted, the same in every run: classes that are updated, and entries of priority queues and nodes of
//! their tournaments that are changed or compared.

use fairlink_core::schedulers::hfsc::{Counted, Hfsc, Steps};
use fairlink_core::{DropReason, Hierarchy, Nanos, Packet, Scheduler as _};

use super::cost::{Call, DEEP, FLAT, FROM, Made, Meter, TO, arrivals, backlog, run, tree, tree_of};
use super::structures::unequal;
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// Flat hierarchies beyond those of the text.
const BEYOND: [usize; 3] = [2048, 4096, 16_384];

/// Steps of calls of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    classes: u64,
    entries: u64,
}

impl Sums {
    fn classes(self) -> f64 {
        self.classes as f64 / self.calls as f64
    }

    fn entries(self) -> f64 {
        self.entries as f64 / self.calls as f64
    }
}

/// Steps of all calls.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    first: Sums,
    behind: Sums,
    real_time: Sums,
    sharing: Sums,
    packets: u64,
}

impl Meter<Counted> for Counts {
    type Mark = Steps;
    type Took = Steps;

    fn begin(&self, hfsc: &Hfsc<Counted>) -> Steps {
        hfsc.steps()
    }

    fn took(&self, mark: Steps, hfsc: &Hfsc<Counted>) -> Steps {
        hfsc.steps().since(mark)
    }

    fn add(&mut self, made: Made, took: Steps) {
        if !made.measured {
            return;
        }
        let sums = match made.call {
            Call::First => &mut self.first,
            Call::Behind => &mut self.behind,
            Call::RealTime => &mut self.real_time,
            Call::Sharing => &mut self.sharing,
        };
        sums.calls += 1;
        sums.classes += took.classes;
        sums.entries += took.entries();
    }
}

impl Counts {
    fn measure(lab: &Lab<'_>, tree: &Hierarchy, backlogged: bool) -> Result<Self, ClaimError> {
        lab.go_on()?;
        // As in the text; later if there are too many sessions for all to have sent.
        let from = FROM.max(2 * tree.leaves().len() as u64);
        let span = from..from + (TO - FROM);
        let comes = if backlogged { backlog(tree, span.end) } else { arrivals(tree, 2 * span.end) };
        let mut counts = Self { packets: TO - FROM, ..Self::default() };
        run(tree, &comes, span, &mut counts)?;
        Ok(counts)
    }

    fn all(&self) -> [Sums; 4] {
        [self.first, self.behind, self.real_time, self.sharing]
    }

    /// Classes that are updated for a packet, by all calls.
    fn classes(&self) -> f64 {
        self.all().iter().map(|sums| sums.classes).sum::<u64>() as f64 / self.packets as f64
    }

    /// Entries and nodes for a packet, by all calls.
    fn entries(&self) -> f64 {
        self.all().iter().map(|sums| sums.entries).sum::<u64>() as f64 / self.packets as f64
    }
}

/// One of the figures.
type Reading = fn(&Counts) -> f64;

/// Entries for a call of each kind, and for a packet by all calls.
const READINGS: [(&str, Reading); 4] = [
    ("enqueue to an idle session", |counts| counts.first.entries()),
    ("dequeue, real-time", |counts| counts.real_time.entries()),
    ("dequeue, link-sharing", |counts| counts.sharing.entries()),
    ("total a packet", Counts::entries),
];

fn table(name: &'static str, rows: impl IntoIterator<Item = (String, Counts)>) -> Table {
    let mut table = Table::new(
        name,
        &[
            "hierarchy",
            "enqueue, idle session",
            "enqueue, busy session",
            "dequeue, real-time",
            "dequeue, link-sharing",
            "total a packet",
            "classes updated a packet",
        ],
    );
    for (name, counts) in rows {
        let cells = [
            counts.first.entries(),
            counts.behind.entries(),
            counts.real_time.entries(),
            counts.sharing.entries(),
            counts.entries(),
            counts.classes(),
        ];
        let cells = cells.map(|count| if count.is_finite() { format!("{count:.2}") } else { "-".to_owned() });
        table.row(std::iter::once(name).chain(cells));
    }
    table
}

fn shape(fanouts: &[usize]) -> String {
    fanouts.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// Tests Section 4: O(log n).
pub(super) fn logarithmic(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let counts: Vec<usize> = FLAT.into_iter().chain(BEYOND).collect();
    let mut found = Vec::new();
    for &sessions in &counts {
        found.push((sessions, Counts::measure(lab, &tree(&[sessions])?, false)?));
    }
    let of = |sessions: usize| {
        let there = found.iter().find(|&&(count, _)| count == sessions);
        there.map(|(_, counts)| *counts).ok_or_else(|| ClaimError::other(format!("{sessions} sessions were not tried")))
    };
    let (hundred, thousand, most) = (of(100)?, of(1000)?, of(16_384)?);
    let mut rows = Vec::new();
    for (name, value) in READINGS {
        let what = format!("{name}: entries for 1000 sessions over those for 100; log 1000 / log 100 is 1.5");
        rows.push(Row::new(what, Unit::Times, Expected::AtMost(1.5), value(&thousand) / value(&hundred)));
    }
    for (name, value) in READINGS {
        let what = format!(
            "{name}: entries for 16,384 sessions over those for 100; the ratio of logarithms is 2.1, that of sessions 164"
        );
        let limit = 16_384f64.ln() / 100f64.ln();
        let growth = value(&most) / value(&hundred);
        rows.push(Row::new(what, Unit::Times, Expected::AtMost(limit), growth).judging(
            "Section 4: … to perform insertion and deletion (of the eligible request with the minimum deadline) in O(log n), where n is the number of active sessions",
        ));
    }
    let mut unequals = Vec::new();
    for sessions in [100, 16_384] {
        unequals.push((sessions, Counts::measure(lab, &tree_of(&[sessions], unequal)?, true)?));
    }
    rows.push(
        Row::new(
            "unequal sessions, all backlogged: entries for a packet of 16,384 sessions over those for 100",
            Unit::Times,
            Expected::AtMost(16_384f64.ln() / 100f64.ln()),
            unequals[1].1.entries() / unequals[0].1.entries(),
        )
        .judging("Section 4: … to perform insertion and deletion (of the eligible request with the minimum deadline) in O(log n), where n is the number of active sessions"),
    );
    rows.push(Row::shown("entries for a packet of 1000 sessions, all calls", Unit::Count, thousand.entries()));
    rows.push(Row::shown("entries for a packet of 16,384 sessions, all calls", Unit::Count, most.entries()));
    let top = READINGS.iter().map(|(_, value)| value(&most)).fold(1.0, f64::max) * 1.2;
    let mut panel = Panel::new(
        "flat hierarchies",
        Axis::log("sessions", 100.0, 16_384.0),
        Axis::linear("entries and nodes", 0.0, top),
    )
    .high(280.0);
    for (place, (name, value)) in READINGS.into_iter().enumerate() {
        let points = found.iter().skip(1).map(|(sessions, counts)| (*sessions as f64, value(counts))).collect();
        panel.series.push(Series::line(name, points, SeriesStyle::nth(place)));
    }
    let note = format!(
        "Counted in the scheduler that the gateway runs: entries of its priority queues and nodes of their tournaments that are changed or compared, between the 10,000th and the {TO}th packet; the sources are those of hfsc.fig13. \
         The counter is a part of the scheduler's type and is nothing in all other uses. Constants of the O() are not the text's; its structures are compared in hfsc.requests. Up to 64 sessions a queue is a sorted list, which is why the figure begins at 100. hfsc.fig13 shows times."
    );
    let equals = found.iter().map(|(sessions, counts)| (format!("flat, {sessions}, two-state sources"), *counts));
    let unequals =
        unequals.iter().map(|(sessions, counts)| (format!("flat, {sessions} unequal, all backlogged"), *counts));
    let rows_of_table = equals.chain(unequals);
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Steps for a call by the number of sessions", vec![panel]))
        .with_table(table("Entries and nodes changed or compared", rows_of_table)))
}

/// Ratio of the third level's increment to the second's.
fn thirds(what: String, [one, two, three]: [f64; 3]) -> Row {
    Row::new(what, Unit::Times, Expected::Near(1.0, 0.1), (three - two) / (two - one))
}

/// Tests Figure 13(b): levels.
pub(super) fn levels(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (load, backlogged) in [("two-state sources", false), ("all backlogged", true)] {
        let mut found = Vec::new();
        for fanouts in DEEP {
            let counts = Counts::measure(lab, &tree(fanouts)?, backlogged)?;
            lines.push((format!("{}, {load}", shape(fanouts)), counts));
            found.push(counts);
        }
        let mut line = |name: &str, value: Reading| {
            let what = format!("{load}: {name}: what the third level adds over what the second adds");
            rows.push(thirds(what, [0, 1, 2].map(|at| value(&found[at]))));
        };
        line("classes updated by a dequeue, real-time", |counts| counts.real_time.classes());
        if !backlogged {
            // With all sessions backlogged, the real-time criterion chooses every packet.
            line("classes updated by a dequeue, link-sharing", |counts| counts.sharing.classes());
        }
        line("classes updated for a packet, all calls", Counts::classes);
    }
    let mut alone = [0.0; 3];
    for (fanouts, classes) in DEEP.into_iter().zip(&mut alone) {
        *classes = first_of_all(&tree(fanouts)?)?;
    }
    rows.push(thirds(
        "classes updated by the enqueue of the first packet of all: what the third level adds over what the second adds".to_owned(),
        alone,
    ));
    let note = "Counted in the scheduler that the gateway runs; the hierarchies are the text's. A class is updated once for each level that a call passes: that is the fixed overhead of the text's sentence. \
                A packet for an idle session updates the classes above it as far as they were idle (Section 3.3: \"till it reaches the root or a parent class that is active before time t\"), so that its enqueue is judged where all of them are. \
                Entries of priority queues, the text's variable overhead, are in the table. hfsc.fig13 judges the times of the same hierarchies.";
    Ok(Finding::new(note, rows).with_table(table("Entries and nodes changed or compared", lines)))
}

/// Classes that the enqueue of the first packet of a scheduler updates.
fn first_of_all(tree: &Hierarchy) -> Result<f64, ClaimError> {
    let mut hfsc = Hfsc::<Counted>::working(tree).map_err(ClaimError::other)?;
    let class = *tree.leaves().last().ok_or_else(|| ClaimError::other("no session"))?;
    hfsc.enqueue(Nanos::ZERO, Packet { handle: 0, len: 64, class }, &mut |_: Nanos, _: Packet, _: DropReason| {});
    Ok(hfsc.steps().classes as f64)
}

/// Reason for which a dequeue of backlogged sessions of equal rates takes fewer steps here.
const ONE_ORDER: &str = "sessions of equal rates that are all backlogged come back in the order in which they left; the scheduler keeps them in one sorted list, at whose end a request costs the \
                         same however many there are. With unequal sessions, below, no such order is there.";

/// Reason for which the sum of steps rises more than the text's time.
const ONLY_ENTRIES: &str = "entries of queues alone are counted, and a time has a fixed part as well: curves, packets, the virtual times of the classes above.";

/// Tests the end of Section 6.3: all sessions backlogged.
pub(super) fn backlogged(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    let equal: fn(usize) -> u64 = |_| 1000;
    let trees = DEEP.into_iter().map(|fanouts| (fanouts, "equal", equal)).chain([(
        DEEP[0],
        "unequal",
        unequal as fn(usize) -> u64,
    )]);
    for (fanouts, kind, part) in trees {
        let tree = tree_of(fanouts, part)?;
        let [usual, busy] = [Counts::measure(lab, &tree, false)?, Counts::measure(lab, &tree, true)?];
        let name = format!("{} {kind} sessions", shape(fanouts));
        // The whole backlog is there before packets are counted: arrivals behind others are packets of the two-state
        // sources.
        if usual.behind.calls == 0 {
            return Err(ClaimError::other("no packet arrived behind another"));
        }
        rows.push(Row::new(
            format!("{name}: classes and entries that an enqueue to a nonempty queue touches"),
            Unit::Count,
            Expected::AtMost(0.0),
            usual.behind.classes() + usual.behind.entries(),
        ));
        for (what, value) in [READINGS[1], READINGS[2]] {
            let more = value(&busy) / value(&usual);
            // Equal sessions leave no packets to the link-sharing criterion.
            if more.is_finite() {
                let what = format!("{name}: {what}: entries when all are backlogged over those with two-state sources");
                let row = Row::new(what, Unit::Times, Expected::AtLeast(1.0), more)
                    .judging("However, both types of dequeue times increase accordingly.");
                rows.push(if kind == "equal" { row.departing(0.1, 0.8, ONE_ORDER) } else { row });
            }
        }
        let what = format!("{name}: entries for a packet, all calls: all backlogged over two-state sources");
        let row = Row::new(what, Unit::Times, Expected::Near(1.0, ABOUT), busy.entries() / usual.entries())
            .judging("Nevertheless, the average per packet queueing overhead changes little.");
        rows.push(if kind == "equal" {
            row.departing(0.1, 1.0 - ABOUT, ONE_ORDER)
        } else {
            row.or_weaker(1.0 + ABOUT, 2.5, ONLY_ENTRIES)
        });
        lines.push((format!("{name}, two-state sources"), usual));
        lines.push((format!("{name}, all backlogged"), busy));
    }
    let note = "Counted in the scheduler that the gateway runs, as in hfsc.steps. Unequal sessions reserve from half of an equal part to one and a half. hfsc.fig13 shows the time of an enqueue to a nonempty queue beside the text's 0.3 us.";
    Ok(Finding::new(note, rows).with_table(table("Entries and nodes changed or compared", lines)))
}
