//! Every scheduler on every paper's workload: one matrix, with the best of each column marked.

use fairlink_core::registry::SCHEDULERS;
use fairlink_sim::{Options, Run};

use super::super::laboratory::{longest_delay, mean_delay};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::measure::{SETTLE, deviations, worst};

/// A workload, and the measures of each run of it: less is better.
struct Task {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    columns: &'static [Column],
}

struct Column {
    head: &'static str,
    unit: Unit,
    of: fn(&Run) -> Option<f64>,
}

const TASKS: [Task; 6] = [
    Task {
        name: "[hls] Experiment 2 H",
        file: "exp2-H.toml",
        text: include_str!("../../../../../scenarios/exp2-H.toml"),
        columns: &[Column { head: "exp2 H: unfair", unit: Unit::Part, of: unfairness }],
    },
    Task {
        name: "[htb] ceilings",
        file: "ceilings.toml",
        text: include_str!("../../../../../scenarios/beyond/ceilings.toml"),
        columns: &[Column { head: "ceilings: unfair", unit: Unit::Part, of: unfairness }],
    },
    Task {
        name: "[hfsc] Figure 10",
        file: "figure10.toml",
        text: include_str!("../../../../../scenarios/beyond/figure10.toml"),
        columns: &[
            Column { head: "Figure 10: audio, longest", unit: Unit::Seconds, of: |run| longest_delay(run, "audio") },
            Column { head: "video, longest", unit: Unit::Seconds, of: |run| longest_delay(run, "video") },
            Column { head: "others, mean", unit: Unit::Seconds, of: |run| mean_of(run, &["other-a", "other-b"]) },
        ],
    },
    Task {
        name: "[drrpp] exponential traffic at 94 %",
        file: "exponential.toml",
        text: include_str!("../../../../../scenarios/beyond/exponential.toml"),
        columns: &[
            Column { head: "94 %: critical, mean", unit: Unit::Seconds, of: |run| mean_delay(run, "lc") },
            Column { head: "others, mean ", unit: Unit::Seconds, of: |run| mean_of(run, &["be1", "be2", "be3"]) },
        ],
    },
    Task {
        name: "[drrpp] MPEG video",
        file: "mpeg.toml",
        text: include_str!("../../../../../scenarios/beyond/mpeg.toml"),
        columns: &[
            Column { head: "MPEG: video, mean", unit: Unit::Seconds, of: |run| mean_delay(run, "video") },
            Column { head: "others, mean  ", unit: Unit::Seconds, of: |run| mean_of(run, &["be1", "be2", "be3"]) },
        ],
    },
    Task {
        name: "[sds] on-off sources with small buffers",
        file: "losses.toml",
        text: include_str!("../../../../../scenarios/beyond/losses.toml"),
        columns: &[Column { head: "on-off: lost", unit: Unit::Part, of: lost }],
    },
];

/// Largest relative deviation of a class of any phase from its ideal.
fn unfairness(run: &Run) -> Option<f64> {
    worst(deviations(&run.phases, run.link_bps)).map(|worst| worst.relative)
}

fn mean_of(run: &Run, classes: &[&str]) -> Option<f64> {
    let delays: Vec<f64> = classes.iter().filter_map(|class| mean_delay(run, class)).collect();
    (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64)
}

fn lost(run: &Run) -> Option<f64> {
    let count = |of: fn(&fairlink_report::ClassReport) -> u64| run.classes.iter().map(of).sum::<u64>() as f64;
    Some(count(|class| class.counts().dropped.packets) / count(|class| class.counts().received.packets))
}

/// Tests the matrix.
pub(in crate::claims) fn matrix(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let options = Options { settle: SETTLE, ..Options::default() };
    let names: Vec<&str> = SCHEDULERS.iter().map(|info| info.name).collect();
    // By scheduler, a value for each column.
    let mut cells: Vec<Vec<Option<f64>>> = vec![Vec::new(); names.len()];
    let mut finding = Finding::default();
    for task in &TASKS {
        let workload = Workload::new(task.file, task.text);
        let runs = lab.by_effort(1, 5);
        let played = lab.play(&workload, &names, runs, &options)?;
        for (cells, runs) in cells.iter_mut().zip(played.chunks(runs as usize)) {
            for column in task.columns {
                let values: Vec<f64> = runs.iter().filter_map(column.of).collect();
                cells.push((values.len() == runs.len()).then(|| values.iter().sum::<f64>() / values.len() as f64));
            }
        }
        finding =
            finding.with_rerun(workload.rerun("--scheduler hls --scheduler hfsc --scheduler drr++ --scheduler fq-lto"));
    }
    let columns: Vec<&Column> = TASKS.iter().flat_map(|task| task.columns).collect();
    let best = |column: usize| cells.iter().filter_map(|row| row[column]).fold(f64::INFINITY, f64::min);
    // As good as the best: within a part in fifty of it, or within a part in a thousand for measures that are parts.
    let wins = |column: usize, value: f64| {
        let slack = if columns[column].unit == Unit::Part { 2e-3 } else { 0.0 };
        value <= 1.02 * best(column) + slack
    };
    let head: Vec<&str> = std::iter::once("scheduler").chain(columns.iter().map(|column| column.head)).collect();
    let mut table = Table::new("Less is better; ★ is the best of a column, or within 2 % of it", &head);
    for (name, row) in names.iter().zip(&cells) {
        let cell = |(column, value): (usize, &Option<f64>)| match value {
            None => "-".to_owned(),
            Some(value) if wins(column, *value) => format!("★ {}", columns[column].unit.show(*value)),
            Some(value) => columns[column].unit.show(*value),
        };
        table.row(std::iter::once((*name).to_owned()).chain(row.iter().enumerate().map(cell)));
    }
    let stars = |name: &str| {
        let row = names.iter().position(|known| *known == name);
        let row = row.map_or(&[][..], |row| &cells[row]);
        row.iter().enumerate().filter(|(column, value)| value.is_some_and(|value| wins(*column, value))).count()
    };
    let most = names.iter().map(|name| stars(name)).max().unwrap_or(0);
    let value = |name: &str, head: &str| -> Result<f64, ClaimError> {
        let row = names.iter().position(|known| *known == name);
        let column = columns.iter().position(|column| column.head == head);
        let found = row.zip(column).and_then(|(row, column)| cells[row][column]);
        found.ok_or_else(|| ClaimError::other(format!("{name} has no {head}")))
    };
    let times = |what: &str, one: &str, other: &str, head: &str, expected: Expected| -> Result<Row, ClaimError> {
        Ok(Row::new(what, Unit::Times, expected, value(one, head)? / value(other, head)?))
    };
    finding.rows = vec![
        Row::new(
            "columns won by hls with its latency class, less those of any other",
            Unit::Count,
            Expected::AtLeast(0.0),
            stars("hls") as f64 - most as f64,
        ),
        times(
            "audio's longest delay: hls over hfsc",
            "hls",
            "hfsc",
            "Figure 10: audio, longest",
            Expected::AtMost(1.05),
        )?,
        times(
            "audio's longest delay: wfq over hls",
            "wfq",
            "hls",
            "Figure 10: audio, longest",
            Expected::AtLeast(2.0),
        )?,
        times("losses: fq-lto over wfq", "fq-lto", "wfq", "on-off: lost", Expected::AtMost(0.9))?,
        times(
            "delay of the critical flow at 94 %: wfq over hls",
            "wfq",
            "hls",
            "94 %: critical, mean",
            Expected::AtLeast(2.0),
        )?,
        Row::shown("schedulers", Unit::Count, names.len() as f64),
    ];
    let workloads: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
    finding.note = format!(
        "No scheduler is best at everything, but hierarchical fairness and short delays do not exclude each other: HLS with a latency class is as fair as \
         the ideal and gives audio and video what H-FSC's curves give them, without curves. Who spends excess where it is needed (FQ-LTO) loses \
         a fifth fewer packets with small buffers and gains little where nothing is lost. What one flow gains in mean delay the others lose, in \
         bytes times time, under every scheduler that keeps the link busy. Workloads: {}. Each file says what classes need in all the \
         ways that there are, and a scheduler takes what it knows; the rest is left out, with a note in the run. Unfair is the largest distance of \
         a class from its HMM fair rate in any phase.",
        workloads.join(", ")
    );
    finding.tables.push(table);
    Ok(finding)
}
