//! Experiment 3: A, B1 and C1 send for 4 s and pause for half a second. Which allocation each scheduler settles to, over the guarantees and
//! orders of classes that the text leaves open.

use fairlink_sim::Run;

use super::experiments::{Class, LINK, RERUN, Sender, of, over_time, play, settled, workload};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::measure::TOLERANCE;

/// Number of on phases of a run.
const ON: usize = 5;
const SCHEDULERS: [&str; 4] = ["hls", "htb", "cbq-formal", "cbq-top-level"];
/// Guarantees of B1 and C1 out of the 25 Mbit/s of their parents. The text does not give them.
const SETTINGS: [(f64, f64); 9] = [
    (12.5, 12.5),
    (1.0, 1.0),
    (12.5, 1.0),
    (1.0, 12.5),
    (24.0, 5.0),
    (5.0, 24.0),
    (24.0, 24.0),
    (20.0, 20.0),
    (24.0, 1.0),
];
/// The text's first outcome, of A, B1 and C1 in Mbit/s: A at its guarantee, B1 with all that is left.
const A_HELD: [f64; 3] = [20.0, 55.0, 25.0];
/// Its second outcome: B1 at the guarantee of its parent, A with all that is left.
const B1_HELD: [f64; 3] = [50.0, 25.0, 25.0];

/// Makes the scenario with these guarantees of B1 and C1 and this order of the classes below the link.
fn scenario((b1, c1): (f64, f64), order: &str) -> Workload {
    let phases: Vec<(f64, f64)> = (0..ON).map(|n| (4.5 * n as f64, 4.5 * n as f64 + 4.0)).collect();
    let senders: Vec<Sender> = ["A", "B1", "C1"].map(|class| (class, phases.clone())).to_vec();
    let mut tree: Vec<Class> = Vec::new();
    for branch in order.chars() {
        match branch {
            'A' => tree.push(("A", "", 20.0)),
            'B' => tree.extend([("B", "", 25.0), ("B1", "B", b1), ("B2", "B", 25.0 - b1)]),
            'C' => tree.extend([("C", "", 25.0), ("C1", "C", c1), ("C2", "C", 25.0 - c1)]),
            _ => tree.push(("D", "", 30.0)),
        }
    }
    let comment =
        "Experiment 3 of the HLS paper, a tenth of its rates: A, B1 and C1 send for 4 s and pause for half a second.";
    workload(&format!("exp3-{b1}-{c1}-{order}.toml"), comment, &tree, &senders, 4.5 * ON as f64)
}

/// Rates of A, B1 and C1 in Mbit/s in each on phase.
fn on(run: &Run) -> Result<Vec<[f64; 3]>, ClaimError> {
    let on = run.phases.iter().filter(|phase| settled(phase, "A") > 1e6);
    let rates: Vec<[f64; 3]> = on.map(|phase| ["A", "B1", "C1"].map(|class| settled(phase, class) / 1e6)).collect();
    if rates.len() == ON {
        Ok(rates)
    } else {
        Err(ClaimError::other(format!("{} phases with traffic instead of {ON}", rates.len())))
    }
}

/// Distance of rates from an outcome: the largest difference of a class, in Mbit/s.
fn from(rates: &[f64; 3], outcome: &[f64; 3]) -> f64 {
    rates.iter().zip(outcome).map(|(rate, other)| (rate - other).abs()).fold(0.0, f64::max)
}

/// All runs of a scheduler.
#[derive(Default)]
struct Seen {
    /// By run, its on phases.
    runs: Vec<Vec<[f64; 3]>>,
}

impl Seen {
    fn phases(&self) -> impl Iterator<Item = &[f64; 3]> {
        self.runs.iter().flatten()
    }

    fn nearest(&self, outcome: &[f64; 3]) -> f64 {
        self.phases().map(|rates| from(rates, outcome)).fold(f64::INFINITY, f64::min)
    }

    /// Returns the largest difference of a class between two on phases of one run.
    fn spread(&self) -> f64 {
        let of_run = |run: &Vec<[f64; 3]>| {
            run.iter().flat_map(|one| run.iter().map(move |other| from(one, other))).fold(0.0, f64::max)
        };
        self.runs.iter().map(of_run).fold(0.0, f64::max)
    }
}

/// Tests Experiment 3.
pub(super) fn exp3(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // DIFFERENCE: Figure 10 is missing from the text. A 200 (leaf), B 250 {B1, B2}, C 250 {C1, C2} and a fourth branch
    // D for the rest fit the prose; the distribution among the leaves of B and C, and the order of classes, are varied.
    let orders: &[&str] = lab.by_effort(&["ABCD", "ACBD"], &["ABCD", "ACBD", "BCAD", "CBAD", "DCBA", "DBCA"]);
    let mut seen: [Seen; 4] = Default::default();
    let mut head = vec!["B1 / C1 of 25 Mbit/s, order"];
    head.extend(SCHEDULERS);
    let mut table = Table::new("Rates of A / B1 / C1 in Mbit/s, the first on phase", &head);
    // HTB if C1's own guarantee is small beside C2's, and B1's is not.
    let mut small: Vec<[f64; 3]> = Vec::new();
    for setting in SETTINGS {
        for order in orders {
            let runs = play(lab, &scenario(setting, order), &SCHEDULERS)?;
            let mut cells = vec![format!("{} / {}, {order}", setting.0, setting.1)];
            for (name, seen) in SCHEDULERS.into_iter().zip(&mut seen) {
                let rates = on(of(&runs, name)?)?;
                cells.push(rates[0].map(|rate| format!("{rate:.1}")).join(" / "));
                if name == "htb" && setting.1 <= 1.0 && setting.0 > 1.0 {
                    small.extend(&rates);
                }
                seen.runs.push(rates);
            }
            table.row(cells);
        }
    }
    let [hls, htb, formal, top] = &seen;
    let share = [4.0, 5.0, 5.0].map(|part| part * LINK / 14.0);
    let away = |rates: &[f64; 3]| {
        rates.iter().zip(share).map(|(rate, ideal)| (rate - ideal).abs() / ideal).fold(0.0, f64::max)
    };
    let mut rows = vec![Row::new(
        "hls: farthest from 4:5:5 in any on phase, setting and order",
        Unit::Part,
        Expected::AtMost(TOLERANCE),
        hls.phases().map(away).fold(0.0, f64::max),
    )];
    rows.extend(of_htb(htb, &small));
    rows.extend(of_cbq("cbq-formal", formal));
    rows.extend(of_cbq("cbq-top-level", top));
    let note = "A tenth of the paper's rates, sources as in Experiment 1, five on phases. Figure 10 is missing from the text: A 200, B 250 {B1, B2}, C 250 \
                {C1, C2} and a silent D 300 fit what is said; nine guarantees of B1 and C1 and orders of classes were tried. HTB keeps C1 at its parent's guarantee only where C1's own is small beside \
                C2's and B1's; where the leaves of B and C are alike, C1 borrows from the link as B1 does. The HMM fair shares 4:5:5 do not depend on it. The text observed two outcomes of the kernel's CBQ. ns-2 has the \
                second, A 50, B1 and C1 25, with formal sharing where B1 and C1 are guaranteed 1 of 25, in every order; so has ours. Near the first, A 25, B1 49 and C1 25, ns-2 comes in one setting (B1 24, C1 5, its maxpkt_ 2225) \
                in half of the 24 orders of classes, before the first pause; after it the same run has 38, 37 and 25. Under top-level sharing neither ns-2 nor ours comes near an outcome of the text's. \
                The kernel's CBQ does, on a fiftieth of the rates (`scripts/kernel-lab 6.1 --only cbq`), with B1 guaranteed 245 and C1 25: a phase settles at A 215, B1 511 and C1 250 of 1000, or at 437, 290 and 250.";
    let small = scenario((12.5, 1.0), "ABCD");
    let runs = play(lab, &small, &SCHEDULERS)?;
    let all: Vec<&Run> = runs.iter().collect();
    Ok(Finding::new(note, rows)
        .with_figure(over_time("Experiment 3: rates of classes", &all, &["A", "B1", "C1"]))
        .with_table(table)
        .with_rerun(small.rerun(RERUN))
        .with_rerun(scenario((1.0, 1.0), "ABCD").rerun("--scheduler cbq-formal")))
}

fn of_htb(htb: &Seen, small: &[[f64; 3]]) -> [Row; 3] {
    let spread = |class: usize| {
        let rates = small.iter().map(|rates| rates[class]);
        (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max))
    };
    let ((a, _), (b1, _), (least, most)) = (spread(0), spread(1), spread(2));
    let far = if 25.0 - least > most - 25.0 { least } else { most };
    [
        Row::new(
            "htb: C1 where it is guaranteed 1 of 25 Mbit/s and B1 half or more, the farthest",
            Unit::Rate,
            Expected::Near(25e6, 0.05),
            far * 1e6,
        )
        .judging("… class C1, similar to CBQ, is kept at the guarantee of its parent class."),
        Row::new(
            "htb: least that A or B1 has above 20 and 25 Mbit/s there",
            Unit::Rate,
            Expected::AtLeast(5e6),
            (a - 20.0).min(b1 - 25.0) * 1e6,
        )
        .judging("The results for HTB in Fig. 11(b) show link sharing between classes A and B1 …"),
        Row::new(
            "htb: difference of a class's rate between on phases, the largest",
            Unit::Rate,
            Expected::AtMost(1e6),
            htb.spread() * 1e6,
        )
        .judging("Both create unique allocations."),
    ]
}

fn of_cbq(name: &str, seen: &Seen) -> Vec<Row> {
    let formal = name == "cbq-formal";
    // The text's is the kernel's, which shares at top level; the outcomes are sought under both guidelines.
    let nearest = |outcome, words: &str, sentence| {
        let what = format!("{name}: distance from A / B1 / C1 {words}, the nearest of all settings and orders");
        Row::new(what, Unit::Rate, Expected::AtMost(2e6), seen.nearest(outcome) * 1e6).judging(sentence)
    };
    let first = nearest(
        &A_HELD,
        "20 / 55 / 25",
        "In one of the outcomes, the allocation of class A is close to its minimum guarantee, while class B1 consumes all of the remaining capacity.",
    );
    let second = nearest(
        &B1_HELD,
        "50 / 25 / 25",
        "In the other outcome, B1 receives the minimum guarantee given to its parent, and A consumes all other bandwidth.",
    );
    let uncharged = "Top-Level often lets nobody send; what is sent then is charged to nobody, and each of A, B1 and C1 gets a part of it by its quantum, on top of 20, 25 and 25. ns-2's are as far away";
    let (first, second) = if formal {
        // A and B1 take turns by quanta, of 20 and at most 24 of 45: A has at least a third of the 75 that C1 leaves.
        let reason = "A and B1 borrow from the link by their quanta, 20 to at most 24. What C1 leaves is shared so, and A keeps at least 33 Mbit/s; ns-2, whose quanta are forgotten when a class is passed over, comes nearer in one setting.";
        (first.departing(13e6, 22e6, reason), second)
    } else {
        (first.departing(8e6, 22e6, uncharged), second.departing(2e6, 15e6, uncharged))
    };
    let spread = format!("{name}: difference of a class's rate between on phases of a run, the largest");
    let settles = Row::new(format!("{name}: the same, for the kernel"), Unit::Rate, Expected::AtLeast(5e6), seen.spread() * 1e6)
        .judging("… when classes resume transmissions after a pause, the link sharing settles to two different allocations.")
        .departing(
            0.0,
            2e6,
            "The text saw it on the kernel's CBQ alone, and `scripts/kernel-lab 6.1 --only cbq` sees it there as well. Ours repeats itself after a pause, when queues are empty and averages are at their limits. ns-2 differs between the first phase and the others in two of seven settings (24 and 5 of 25, either way round).",
        );
    vec![
        Row::new(spread, Unit::Rate, Expected::AtMost(2e6), seen.spread() * 1e6).judging(
            "We have not observed non-deterministic allocations of CBQ in ns2 simulations of this experiment.",
        ),
        first,
        second,
        settles,
    ]
}
