//! Link-sharing: Figure 12, and Section 7's comparison with CBQ.

use super::watch::{Record, record};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// Bytes of a packet in Figure 12.
const PACKET: f64 = 512.0;
/// Length of the on and off periods of the on-off source, in seconds: not given in the text.
const PHASE: f64 = 2.0;
/// Left out after each change, in seconds.
const SETTLE: f64 = 0.1;
/// The text's tolerance is the reader's eye.
const TOLERANCE: f64 = 0.05;

/// Leaves below the fifth class: name, reserved rate in bit/s, and the text's averaging interval in seconds.
const LEAVES: [(&str, f64, f64); 4] =
    [("2M", 2e6, 0.0375), ("1.44M", 1.44e6, 0.0375), ("480k", 480e3, 0.0375), ("80k", 80e3, 0.06)];

/// Returns the mean rate over the phases that are on or off, in bit/s.
fn mean_rate(run: &Record, class: &str, on: bool, phase: f64, end: f64) -> f64 {
    let phases = (0..(end / phase).round() as u32).filter(|number| (number % 2 == 0) == on);
    let (mut bytes, mut time) = (0.0, 0.0);
    for number in phases {
        let (from, to) = (f64::from(number) * phase + SETTLE, f64::from(number + 1) * phase);
        bytes += run.bytes(&[class], from, to);
        time += to - from;
    }
    8.0 * bytes / time
}

/// Expected rate of a leaf below the fifth class while the on-off source is on or off.
fn share(name: &str, rate: f64, on: bool) -> f64 {
    match (on, name) {
        (true, _) => rate,
        (false, "2M") => 0.0,
        // 4 Mbit/s for 2 Mbit/s of reservations.
        (false, _) => 2.0 * rate,
    }
}

/// Tests Figure 12.
pub(super) fn fig12(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let text = include_str!("../../../../../scenarios/hfsc/fig12.toml");
    let workload = Workload::new("fig12.toml", text);
    let run = record(lab, &workload, "hfsc", &workload)?;
    let end = 4.0 * PHASE;
    let mut rows = Vec::new();
    for (on, word) in [(false, "off"), (true, "on")] {
        for (name, rate, _) in LEAVES.into_iter().rev().filter(|&(name, ..)| on || name != "2M") {
            let expected = Expected::Near(share(name, rate, on), TOLERANCE);
            let ours = mean_rate(&run, name, on, PHASE, end);
            rows.push(Row::new(format!("{name} while the on-off session is {word}"), Unit::Rate, expected, ours));
        }
        let worst =
            ["one", "two", "three", "four"].map(|name| (mean_rate(&run, name, on, PHASE, end) / 1.5e6 - 1.0).abs());
        let what = format!("sessions at level one while it is {word}: farthest from 1.5 Mbit/s");
        rows.push(Row::new(what, Unit::Part, Expected::AtMost(TOLERANCE), worst.into_iter().fold(0.0, f64::max)));
    }
    // A window holds a whole number of packets, one more or less.
    let mut worst = 0.0f64;
    for (name, rate, every) in LEAVES {
        for (at, measured) in run.rates(name, every, end) {
            let (from, to) = (at - every / 2.0, at + every / 2.0);
            let phase = (from / PHASE) as u32;
            if from >= f64::from(phase) * PHASE + SETTLE && to <= f64::from(phase + 1) * PHASE {
                let expected = share(name, rate, phase.is_multiple_of(2));
                worst = worst.max((measured - expected).abs() * every / 8.0 / PACKET);
            }
        }
    }
    rows.push(Row::shown("any one window of the figure: farthest from the share", Unit::Packets, worst));
    let mut table = Table::new(
        "Mean rates in kbit/s, on and off, by how long the on-off session is either",
        &["on and off for", "80k", "480k", "1.44M", "2M"],
    );
    for (ms, periods) in [(250u32, 16u32), (500, 8), (1000, 4), (2000, 2), (5000, 1)] {
        let phase = f64::from(ms) / 1e3;
        let active: Vec<String> =
            (0..periods).map(|n| format!("\"{}ms..{}ms\"", 2 * n * ms, (2 * n + 1) * ms)).collect();
        let end = f64::from(2 * periods) * phase;
        let text = text
            .replace("active = [\"0s..2s\", \"4s..6s\"]", &format!("active = [{}]", active.join(", ")))
            .replace("duration = \"8s\"", &format!("duration = \"{end}s\""));
        let workload = Workload::new(format!("fig12-{ms}.toml"), text);
        let run = record(lab, &workload, "hfsc", &workload)?;
        let cell = |name: &str| {
            let [on, off] = [true, false].map(|on| mean_rate(&run, name, on, phase, end) / 1e3);
            format!("{on:.1} / {off:.1}")
        };
        table.row([format!("{ms} ms"), cell("80k"), cell("480k"), cell("1.44M"), cell("2M")]);
    }
    let mut panel =
        Panel::new("", Axis::linear("time in s", 0.0, end), Axis::linear("bandwidth in Mbit/s", 0.0, 3.6)).high(380.0);
    for (place, (name, _, every)) in LEAVES.into_iter().enumerate() {
        let points = run.rates(name, every, end).into_iter().map(|(at, bps)| (at, bps / 1e6)).collect();
        panel.series.push(Series::line(name, points, SeriesStyle::nth(place).without_marker()));
    }
    for (name, rate, _) in LEAVES {
        let steps = (0..4u32).map(|n| (f64::from(n) * PHASE, share(name, rate, n.is_multiple_of(2)) / 1e6));
        let last = share(name, rate, false) / 1e6;
        panel.series.push(Series::steps("share", steps.chain([(end, last)]).collect(), SeriesStyle::reference()));
    }
    panel.borders = (1..4).map(|n| f64::from(n) * PHASE).collect();
    let note = "As in the text, simulated: 10 Mbit/s, four sessions of 1.5 Mbit/s and four of 80, 480, 1440 and 2000 kbit/s below a fifth class, packets of \
                512 B, all with packets always but the last. How long that one is on and off is not given: two seconds each; the table has others. All \
                curves are lines, for both criteria. Rates leave out 100 ms after each change. The figure averages over 37.5 ms, of the 80 kbit/s \
                session over 60 ms, as the text's; such a window holds one or two packets of it, so that 5 % can be asked of the mean alone; how far single windows are away is shown in packets.";
    Ok(Finding::new(note, rows)
        .with_figure(Figure::new("Figure 12: bandwidth of the four sessions below the fifth class", vec![panel]))
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler hfsc --window 37.5ms")))
}
