//! A tree of PIFO queues beside H-PFQ (footnote 1 and Section IX): what is queued is not ordered again.

use fairlink_sim::{Options, Run};

use crate::claims::laboratory::mean_of;
use crate::claims::words::VERY;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

const SCENARIO: &str = include_str!("../../../../../scenarios/hls/pifo.toml");
/// The same with one length of packets and one weight.
const FIXED: [(&str, &str); 4] = [
    ("weight = 9", "weight = 1"),
    ("packet = \"1500B\"", "packet = \"1000B\""),
    ("packet = \"64B\"", "packet = \"1000B\""),
    ("packets_per_second = 4000", "packets_per_second = 400"),
];

/// Returns the farthest that class A is from its part of B's service, in bytes.
fn fairness(run: &Run) -> f64 {
    let class = run.metrics.iter().find(|class| class.name == "A");
    class.and_then(|class| class.fairness_bytes.as_ref()).map_or(f64::NAN, |fairness| fairness.measured)
}

/// Tests that a hierarchy of PIFO queues is no H-PFQ where lengths and weights differ.
pub(super) fn pifo(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let runs = lab.by_effort(5, 20);
    let metrics = Options { metrics: true, ..Options::default() };
    let mut table = Table::new(
        "Largest unfairness between A and B in bytes, mean of the runs",
        &["scheduler", "unequal weights and lengths", "one weight, one length"],
    );
    let variable = Workload::new("pifo.toml", SCENARIO);
    let fixed = FIXED.iter().fold(SCENARIO.to_owned(), |text, (from, to)| text.replace(from, to));
    let fixed = Workload::new("pifo-fixed.toml", fixed);
    let mut found = Vec::new();
    for scheduler in ["pifo-tree", "hpfq"] {
        let of = |workload: &Workload| -> Result<Vec<f64>, ClaimError> {
            Ok(lab.watched(workload, &[scheduler], runs, &metrics, None)?.iter().map(fairness).collect())
        };
        let both = [of(&variable)?, of(&fixed)?];
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        table.row([scheduler.to_owned(), format!("{:.0}", mean(&both[0])), format!("{:.0}", mean(&both[1]))]);
        found.push(both);
    }
    let ratio = |at: usize| {
        let pairs = found[0][at].iter().zip(&found[1][at]).map(|(pifo, hpfq)| pifo / hpfq);
        mean_of("fairness", pairs)
    };
    let rows = vec![
        Row::new(
            "unequal weights and lengths: unfairness of a tree of PIFO queues over that of H-PFQ",
            Unit::Times,
            Expected::AtLeast(VERY),
            ratio(0)?,
        ),
        Row::shown("one weight and one length: the same", Unit::Times, ratio(1)?),
    ];
    let note = format!(
        "Class A has weight 1 beside B's 1; below it A1 has weight 1 and packets of 1500 B, A2 weight 9 and packets of 64 B. Ranks count the lengths of packets that arrive. The text gives no numbers: \"incorrect\" is judged as ten times \
         the unfairness (Definition 1) of H-PFQ on the same arrivals. With packets of one length the text says that the claim of the others holds; the ratio is shown. {runs} runs of 20 s."
    );
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(variable.rerun("--scheduler pifo-tree --scheduler hpfq --metrics")))
}
