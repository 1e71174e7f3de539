//! "Faster" and "slower" in the text's principle: the time of a packet under HTB and under CBQ with top-level sharing.

use std::time::Duration;

use fairlink_core::registry::find;
use fairlink_workload::Shape;

use super::measured::of_values;
use crate::bench::{cost, machine};
use crate::claims::words::SIGNIFICANTLY;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit};

/// Length of every packet, in bytes.
const BYTES: u32 = 1000;
/// The text on its own algorithm.
const SLOWER: &str = "I really cycle over leaves more times. It is slower but is allows me to do thinks more precisely (I implement private DRR values for each level).";

/// Tests which of the two takes longer for a packet.
pub(super) fn faster(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (passes, time) = lab.by_effort((7, 20), (25, 60));
    let mut table =
        Table::new("Nanoseconds a packet, median of the passes", &["leaves, levels", "htb", "cbq-top-level"]);
    let mut rows = Vec::new();
    for (leaves, levels) in [(2usize, 1usize), (64, 2), (1024, 3)] {
        let shape = Shape { leaves, levels, weights: 1, len: BYTES, max_packet: BYTES, ..Shape::default() };
        let tree = shape.tree().map_err(ClaimError::other)?;
        let mut found: [Vec<f64>; 2] = Default::default();
        for _ in 0..passes {
            // In turn, so that what else the machine does meets both.
            for (name, costs) in ["htb", "cbq-top-level"].into_iter().zip(&mut found) {
                lab.go_on()?;
                let info = find(name).ok_or_else(|| ClaimError::other(format!("no {name}")))?;
                costs.push(cost(info, &tree, Duration::from_millis(time)).map_err(ClaimError::other)?);
            }
        }
        let median = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        table.row(
            std::iter::once(format!("{leaves}, {levels}")).chain([0, 1].map(|n| format!("{:.0}", median(&found[n])))),
        );
        // Times are off by factors now and then: ratios are averaged as logarithms.
        let ratio = of_values(found[0].iter().zip(&found[1]).map(|(htb, cbq)| (htb / cbq).ln())).map(f64::exp);
        rows.push(
            Row::new(
                format!("{leaves} leaves: time of htb over cbq-top-level, geometric mean of the passes"),
                Unit::Times,
                Expected::AtLeast(SIGNIFICANTLY),
                ratio,
            )
            .judging(SLOWER)
            .departing(
                0.0,
                SIGNIFICANTLY,
                "Ours does not cycle over leaves: leaves that may send stand in a list for each level and priority, so that the next one is found at once.",
            ),
        );
    }
    let note = format!(
        "All leaves always have packets. \"Slower\" is taken as a quarter at least. The text describes loops over all leaves on both sides; ours have none, and what is compared are our implementations, on {}.",
        machine()
    );
    Ok(Finding::new(note, rows).with_table(table))
}
