//! Section 2.1: curves that are all concave leave a part of the link that none may reserve; Section 2.2: Virtual Clock
//! starves a session for as long as it was served ahead.

use fairlink_core::{Nanos, Rate, ServiceCurve};
use fairlink_theory::curves::first_excess;

use super::watch::record;
use crate::claims::random::SeededRng;
use crate::claims::words::ABOUT;
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};

/// Rate of the link, in bit/s.
const LINK: u64 = 10_000_000;

fn rate(bps: u64) -> Result<Rate, ClaimError> {
    Rate::from_bps(bps).map_err(ClaimError::other)
}

/// Adds sessions from `next` until the link refuses one, and returns the part of it that those before reserve in the
/// long run.
fn fill(
    curves: &mut Vec<ServiceCurve>,
    mut next: impl FnMut() -> Result<ServiceCurve, ClaimError>,
) -> Result<f64, ClaimError> {
    loop {
        curves.push(next()?);
        if first_excess(curves, rate(LINK)?).is_some() {
            curves.pop();
            let reserved: u64 = curves.iter().filter_map(|curve| curve.m2).map(Rate::bps).sum();
            return Ok(reserved as f64 / LINK as f64);
        }
    }
}

/// Tests how much of a link concave curves can reserve.
pub(super) fn utilisation(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let cases = lab.by_effort(30, 500);
    let mut table = Table::new(
        "Part of the link that sessions reserve when the next one is refused, mean of random sets",
        &["m1 over m2", "all concave", "and linear ones beside them"],
    );
    let mut rows = Vec::new();
    for times in [2u64, 4, 10] {
        let (mut alone, mut filled, mut above) = (0.0, 0.0, 0usize);
        for case in 0..cases {
            lab.go_on()?;
            let mut dice = SeededRng::new(67, 100 * case + times);
            let mut curves = Vec::new();
            let mut concave = || -> Result<ServiceCurve, ClaimError> {
                // From a voice to a video, with 2 to 50 ms at the first slope.
                let (long_run, time) = (dice.between(32, 600) * 1_000, dice.between(2, 50) * 1_000_000);
                Ok(ServiceCurve { m1: Some(rate(times * long_run)?), d: Nanos(time), m2: Some(rate(long_run)?) })
            };
            let part = fill(&mut curves, &mut concave)?;
            alone += part / cases as f64;
            above += usize::from(part > 1.0 / times as f64);
            // Priority is relative: sessions that wait for the others' first slopes take the rest. Convex ones reserve
            // nothing while the others are in their first pieces.
            let late = curves.iter().map(|curve| curve.d.0).max().unwrap_or(0);
            let part = fill(&mut curves, || Ok(ServiceCurve { m1: None, d: Nanos(late), m2: Some(rate(200_000)?) }))?;
            filled += part / cases as f64;
        }
        table.row([times.to_string(), format!("{:.1} %", alone * 100.0), format!("{:.1} %", filled * 100.0)]);
        rows.push(Row::never(
            format!("m1 {times} times m2: sets of concave curves that reserve more than 1 / {times} of the link"),
            above,
        ));
        rows.push(Row::new(
            format!("m1 {times} times m2: part of the link that convex sessions beside them bring it to, over it"),
            Unit::Times,
            Expected::AtLeast(1.0),
            filled / alone,
        ));
    }
    let note = format!(
        "Sessions are added until the admission test refuses one: {cases} random sets for each steepness on a link of 10 Mbit/s. The first slopes of all concave curves add up to the link at most, so that their long-run rates add up to a \
         part of it that their steepness gives; \"high utilisation\" needs sessions that wait: convex curves that begin when the steep pieces have ended."
    );
    Ok(Finding::new(note, rows).with_table(table))
}

/// When the second session begins, in seconds.
const ALONE: [f64; 3] = [1.0, 2.0, 4.0];

/// Returns the longest time in seconds in which class a, always backlogged, sends nothing.
fn starved(lab: &Lab<'_>, scheduler: &str, alone: f64) -> Result<f64, ClaimError> {
    let text = include_str!("../../../../../scenarios/hls/strict.toml")
        .replace("duration = \"5s\"", "duration = \"12s\"")
        .replace("[\"2s..5s\"]", &format!("[\"{alone}s..12s\"]"));
    if !text.contains("12s\"]") {
        return Err(ClaimError::other("strict.toml has another second session"));
    }
    let workload = Workload::new("starved.toml", text);
    let run = record(lab, &workload, scheduler, &workload)?;
    let starts: Vec<f64> = run.of(&["a"]).map(|packet| packet.start).collect();
    Ok(starts.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max))
}

/// Measures how long a session is punished for service that no other session wanted.
pub(super) fn starves(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table = Table::new(
        "Longest time without a packet of session a, by the time for which it was alone before b came",
        &["scheduler", "1 s", "2 s", "4 s"],
    );
    let mut rows = Vec::new();
    for scheduler in ["virtual-clock", "sced", "wfq", "hfsc"] {
        let times = ALONE.iter().map(|&alone| starved(lab, scheduler, alone)).collect::<Result<Vec<f64>, _>>()?;
        table
            .row(std::iter::once(scheduler.to_owned()).chain(times.iter().map(|time| format!("{:.1} ms", time * 1e3))));
        let what = format!("{scheduler}: longest silence of a session that was alone for 4 s, over that after 1 s");
        let unbounded = matches!(scheduler, "virtual-clock" | "sced");
        let expected = if unbounded { Expected::Near(4.0, ABOUT) } else { Expected::Near(1.0, ABOUT) };
        rows.push(Row::new(what, Unit::Times, expected, times[2] / times[0]));
    }
    let note = "The two sessions of hls.strict, guaranteed half of the link each: a always has packets, and b comes after 1, 2 or 4 s. The silence of a grows with the time for which it had the whole link, without a bound, under Virtual Clock and SCED; \
                under a fair discipline it does not depend on it.";
    Ok(Finding::new(note, rows).with_table(table))
}
