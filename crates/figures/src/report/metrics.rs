//! Measurements of a scheduler's promises, beside its bounds.

use fairlink_sim::{ClassMetrics, Measured, Run};

use super::{RED, RESET, time};
use crate::rate_unit::RateUnit;
use crate::table::{Line, fitted};

/// Returns the worst of all runs of one scheduler, class by class.
#[must_use]
pub fn worst_of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<ClassMetrics> {
    let mut runs = runs.into_iter();
    let mut worst = runs.next().map_or_else(Vec::new, |run| run.metrics.clone());
    for run in runs {
        for (class, other) in worst.iter_mut().zip(&run.metrics) {
            merge(class, other);
        }
    }
    worst
}

fn merge(class: &mut ClassMetrics, other: &ClassMetrics) {
    let worse = |one: &mut Option<Measured>, other: Option<Measured>| {
        *one = match (*one, other) {
            (Some(one), Some(other)) => Some(one.worse(other)),
            (one, other) => one.or(other),
        };
    };
    worse(&mut class.fairness_bytes, other.fairness_bytes);
    worse(&mut class.worst_case_bytes, other.worst_case_bytes);
    worse(&mut class.transmission_gap_s, other.transmission_gap_s);
    worse(&mut class.gps_lag_bytes, other.gps_lag_bytes);
    worse(&mut class.hmm_lag_bytes, other.hmm_lag_bytes);
    worse(&mut class.deadline_miss_s, other.deadline_miss_s);
    worse(&mut class.burst_bytes, other.burst_bytes);
    worse(&mut class.delay_s, other.delay_s);
    class.burst_rate_bps = class.burst_rate_bps.or(other.burst_rate_bps);
    class.conforms = match (class.conforms, other.conforms) {
        (Some(one), Some(other)) => Some(one && other),
        (one, other) => one.or(other),
    };
}

/// A table of `classes`: the measurement, its bound, and the unused part of the bound. An exceeded bound is marked, in
/// red if `colour` is set.
#[must_use]
pub fn metrics(classes: &[ClassMetrics], link_bps: f64, colour: bool, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(link_bps);
    let head = ["class", "what", "measured", "bound", "not used"];
    let (mut rows, mut exceeded) = (Vec::new(), Vec::new());
    for class in classes {
        let mut name = class.name.clone();
        let mut row = |what: String, value: Option<Measured>, show: fn(f64) -> String, hold: bool| {
            let Some(value) = value else { return };
            let over = hold && value.is_exceeded();
            let part = value.bound.map_or_else(String::new, |bound| match over {
                true => "exceeded".to_owned(),
                false if bound > 0.0 => format!("{:.0} %", (1.0 - value.measured / bound).max(0.0) * 100.0),
                false => String::new(),
            });
            let bound = value.bound.map_or_else(|| "-".to_owned(), show);
            rows.push(vec![std::mem::take(&mut name), what, show(value.measured), bound, part]);
            exceeded.push(over);
        };
        let seconds = |seconds: f64| time(Some(seconds));
        row("fairness".to_owned(), class.fairness_bytes, bytes, true);
        let index = class.worst_case_bytes.filter(|index| index.bound.is_some());
        row("worst-case index".to_owned(), index, bytes, true);
        row("gap".to_owned(), class.transmission_gap_s, seconds, true);
        row("lag behind GPS".to_owned(), class.gps_lag_bytes, bytes, true);
        row("lag behind HMM".to_owned(), class.hmm_lag_bytes, bytes, true);
        row("deadline miss".to_owned(), class.deadline_miss_s, seconds, true);
        let rate = class.burst_rate_bps.map_or_else(String::new, |bps| unit.show(bps as f64));
        row(format!("burst at {rate} {}", unit.name), class.burst_bytes, bytes, false);
        row("delay".to_owned(), class.delay_s, seconds, true);
    }
    let mut text = String::new();
    for Line { row, text: line } in fitted(&head, &rows, 2..head.len(), width) {
        let red = colour && row.is_some_and(|row| exceeded[row]);
        text += &if red { format!("{RED}{line}{RESET}\n") } else { format!("{line}\n") };
    }
    text
}

pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e6 => format!("{:.2} MB", bytes / 1e6),
        bytes if bytes >= 1e4 => format!("{:.2} kB", bytes / 1e3),
        bytes => format!("{bytes:.0} B"),
    }
}
