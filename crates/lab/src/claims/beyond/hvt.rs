//! `hvt` beside round robins and other schedulers with virtual times.

use fairlink_core::{Nanos, registry};
use fairlink_sim::{Options, Run};

use super::super::laboratory::longest_delay;
use super::trees;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

const ROUNDS: &str = include_str!("../../../../../scenarios/beyond/rounds.toml");
const TWO_PARENTS: &str = include_str!("../../../../../scenarios/beyond/two-parents.toml");
const EXPERIMENT_2: &str = include_str!("../../../../../scenarios/exp2-H.toml");
const SCHEDULERS: [&str; 6] = ["hls", "hvt", "hpfq", "qfq", "htb", "hfsc"];
/// A packet of the scenarios on their link, in seconds: 1500 B at 100 Mbit/s.
const PACKET: f64 = 1500.0 * 8.0 / 100e6;
const WINDOWS: [u64; 3] = [1, 10, 100];

/// Returns the largest difference of a leaf's bytes in a window from its ideal share, after the first second of each phase.
fn off_in_windows(run: &Run) -> f64 {
    let Some(windows) = &run.windows else { return f64::NAN };
    let mut worst = 0.0f64;
    for phase in &run.phases {
        for (at, name) in windows.names.iter().enumerate() {
            let Some(class) = phase.classes.iter().find(|class| class.name == *name) else { continue };
            let within = |row: &&fairlink_sim::Window| row.start_s >= phase.start_s + 1.0 && row.end_s <= phase.end_s;
            for row in windows.rows.iter().filter(within).filter(|_| windows.leaf[at]) {
                let off = (row.rates_bps[at] - class.rates.fair()).abs() * (row.end_s - row.start_s) / 8.0;
                worst = worst.max(off);
            }
        }
    }
    worst
}

/// Measures schedulers on random trees.
fn on_random_trees(lab: &Lab<'_>, rows: &mut Vec<Row>) -> Result<Table, ClaimError> {
    let count = lab.by_effort(20, 200);
    let header = [
        "trees",
        "scheduler",
        "longest delay",
        "median delay",
        "part of its bound",
        "lag",
        "apart, over the bound of hvt",
    ];
    let mut table = Table::new(
        "Random trees: delay of a leaf within its share, in largest packets at its rate; lag of any leaf behind the fluid ideal, \
         in largest packets",
        &header,
    );
    for kind in trees::KINDS {
        for name in ["hls", "hpfq", "hvt"] {
            let info = registry::find(name).ok_or_else(|| ClaimError::other(name))?;
            let measured = trees::measure(lab, info, kind, count)?;
            let longest = measured.delays.last().copied().unwrap_or(f64::NAN);
            let median = measured.delays.get(measured.delays.len() / 2).copied().unwrap_or(f64::NAN);
            let bound = if measured.of_bound > 0.0 { format!("{:.2}", measured.of_bound) } else { "none".to_owned() };
            table.row([
                kind.name.to_owned(),
                name.to_owned(),
                format!("{longest:.2}"),
                format!("{median:.2}"),
                bound,
                format!("{:.2}", measured.lag),
                format!("{:.2}", measured.fairness),
            ]);
            // Only hvt promises both.
            let (delay, fairness) = match name {
                "hvt" => (Expected::AtMost(1.0), Expected::AtMost(1.0)),
                "hls" => (Expected::AtMost(1.0), Expected::Nothing),
                _ => (Expected::Nothing, Expected::Nothing),
            };
            let row = |what: &str, unit, expected, value| {
                Row::new(format!("{name}, {}: {what}", kind.name), unit, expected, value)
            };
            rows.push(row("longest delay in packets at the rate", Unit::Number, Expected::Nothing, longest));
            rows.push(row("median delay in packets at the rate", Unit::Number, Expected::Nothing, median));
            rows.push(row("farthest behind the fluid ideal", Unit::Packets, Expected::Nothing, measured.lag));
            rows.push(row("apart, over the bound of hvt", Unit::Part, fairness, measured.fairness));
            if measured.of_bound > 0.0 {
                rows.push(row("delay over its bound", Unit::Part, delay, measured.of_bound));
            }
        }
    }
    Ok(table)
}

/// Tests the delay of `hvt` where a round is long, and its shares in short windows.
pub(in crate::claims) fn hvt(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut rows = Vec::new();
    let mut delays = Table::new("Longest delay of the large class in ms", &["scheduler", "rounds", "two parents"]);
    let rounds = Workload::new("rounds.toml", ROUNDS);
    let parents = Workload::new("two-parents.toml", TWO_PARENTS);
    let [in_rounds, of_parents] =
        [&rounds, &parents].map(|workload| lab.play(workload, &SCHEDULERS, 1, &Options::default()));
    let (in_rounds, of_parents) = (in_rounds?, of_parents?);
    let longest = |runs: &[Run], name: &str| {
        let run = runs.iter().find(|run| run.scheduler == name);
        run.and_then(|run| longest_delay(run, "v")).unwrap_or(f64::NAN)
    };
    for name in SCHEDULERS {
        let [one, other] = [&in_rounds, &of_parents].map(|runs| longest(runs, name));
        delays.row([name.to_owned(), format!("{:.2}", 1e3 * one), format!("{:.2}", 1e3 * other)]);
        let [one_expected, other_expected] = match name {
            "hvt" => [Expected::AtMost(250e-6), Expected::AtMost(5.0 * PACKET)],
            "hls" => [Expected::AtLeast(100.0 * PACKET), Expected::AtLeast(40.0 * PACKET)],
            _ => [Expected::Nothing, Expected::Nothing],
        };
        rows.push(Row::new(format!("{name}: longest delay beside a hundred"), Unit::Seconds, one_expected, one));
        rows.push(Row::new(format!("{name}: with two parents"), Unit::Seconds, other_expected, other));
    }
    let experiment = Workload::new("exp2-H.toml", EXPERIMENT_2);
    let compared = ["hls", "hvt", "hpfq"];
    let mut shares = Table::new(
        "Farthest from the ideal share in a window, in packets of 1000 B (Experiment 2 H)",
        &["window", "hls", "hvt", "hpfq"],
    );
    for milliseconds in WINDOWS {
        let options = Options { window: Some(Nanos::from_millis(milliseconds)), ..Options::default() };
        let runs = lab.play(&experiment, &compared, 1, &options)?;
        let off = |name: &str| {
            let run = runs.iter().find(|run| run.scheduler == name);
            run.map_or(f64::NAN, |run| off_in_windows(run) / 1000.0)
        };
        let [hls, hvt, hpfq] = compared.map(off);
        shares.row([format!("{milliseconds} ms"), format!("{hls:.2}"), format!("{hvt:.2}"), format!("{hpfq:.2}")]);
        let name = format!("packets off in a window of {milliseconds} ms, hvt less hls");
        rows.push(Row::new(name, Unit::Number, Expected::AtMost(0.0), hvt - hls));
    }
    let trees = on_random_trees(lab, &mut rows)?;
    let note = "A class with half of the link waits for a whole round of a hundred small ones under a round robin, whatever its weight. Under virtual \
                times it waits for two packets. The shares of the tree are the same. The price is the cost of a packet, which is several times \
                that of HLS in batches.";
    Ok(Finding::new(note, rows)
        .with_table(delays)
        .with_table(shares)
        .with_table(trees)
        .with_rerun(rounds.rerun("--scheduler hls --scheduler hvt --scheduler hpfq --scheduler htb --scheduler hfsc")))
}
