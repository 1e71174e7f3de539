//! A report of costs as Markdown tables and as a figure: for `docs/cost.md`, and for whoever compares two states of the code.

use std::fmt::Write;

use fairlink_workload::Pattern;
use serde::Deserialize;

use super::{Cost, Point, Report};
use crate::figures::MAX_DRAWN;
use crate::figures::axis::Axis;
use crate::figures::figure::{Figure, Look, Panel, Series};

/// What is read of the JSON of an earlier run, of this code or of another.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Earlier {
    results: Vec<EarlierCost>,
    #[serde(default)]
    baselines: Vec<EarlierCost>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct EarlierCost {
    scheduler: String,
    pattern: String,
    leaves: usize,
    levels: usize,
    packet_bytes: u32,
    calls: String,
    ceilings: bool,
    record: bool,
    reference_ns_per_packet: f64,
}

impl Earlier {
    /// Nanoseconds of the same point, if it was measured.
    fn ns(&self, point: &Point) -> Option<f64> {
        let same = |cost: &&EarlierCost| {
            (cost.scheduler.as_str(), cost.pattern.as_str(), cost.calls.as_str())
                == (point.scheduler, point.pattern, point.calls)
                && (cost.leaves, cost.levels, cost.packet_bytes) == (point.leaves, point.levels, point.packet_bytes)
                && (cost.ceilings, cost.record) == (point.ceilings, point.record)
        };
        self.baselines.iter().chain(&self.results).find(same).map(|cost| cost.reference_ns_per_packet)
    }
}

/// The distinct values of `key`, in the order of the costs.
fn distinct<T: PartialEq>(costs: &[&Cost], key: impl Fn(&Point) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for cost in costs {
        let value = key(&cost.point);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The costs of bare rings and of all schedulers.
fn costs(report: &Report) -> Vec<&Cost> {
    let rings = report.baselines.iter().filter(|cost| cost.point.scheduler == "rings");
    rings.chain(&report.results).collect()
}

/// A table for each pattern and length of packets: a row for each scheduler, a column for each tree. Figures are net nanoseconds on the
/// reference clock; where `earlier` has the same point, `before → now`. What schedulers need of memory follows.
#[must_use]
pub fn markdown(report: &Report, earlier: &Earlier) -> String {
    let costs = costs(report);
    let trees = distinct(&costs, |point| (point.levels, point.leaves));
    let mut text = String::new();
    for (pattern, packet_bytes) in distinct(&costs, |point| (point.pattern, point.packet_bytes)) {
        let _ = write!(text, "| {pattern}, {packet_bytes} B |");
        for (levels, leaves) in &trees {
            let _ = write!(text, " {} in {levels} |", grouped(*leaves));
        }
        let _ = writeln!(text, "\n| --- |{}", " --- |".repeat(trees.len()));
        for scheduler in distinct(&costs, |point| point.scheduler) {
            let _ = write!(text, "| `{scheduler}` |");
            for &(levels, leaves) in &trees {
                let here = |cost: &&&Cost| {
                    let point = &cost.point;
                    (point.scheduler, point.pattern, point.packet_bytes) == (scheduler, pattern, packet_bytes)
                        && (point.levels, point.leaves) == (levels, leaves)
                };
                let cell = costs.iter().find(here).map_or_else(|| "-".to_owned(), |cost| cell(cost, earlier));
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let _ = writeln!(text, "| scheduler | levels | leaves | B per idle leaf | B per queued packet |");
    let _ = writeln!(text, "| --- | --- | --- | --- | --- |");
    for memory in &report.memory {
        let bytes = [memory.bytes_per_idle_leaf, memory.bytes_per_queued_packet];
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {:.0} | {:.0} |",
            memory.scheduler,
            memory.levels,
            grouped(memory.leaves),
            bytes[0],
            bytes[1]
        );
    }
    text
}

fn cell(cost: &Cost, earlier: &Earlier) -> String {
    let now = cost.reference_ns_per_packet;
    match earlier.ns(&cost.point) {
        Some(before) => format!("{before:.0} → {now:.0}"),
        None => format!("{now:.0}"),
    }
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds against leaves: a panel for each pattern with the longest packets, a line for each scheduler and number of levels. Bare rings are
/// dotted.
#[must_use]
pub fn figure(report: &Report) -> Figure {
    let all = costs(report);
    let longest = all.iter().map(|cost| cost.point.packet_bytes).max().unwrap_or(0);
    let all: Vec<&Cost> = all.into_iter().filter(|cost| cost.point.packet_bytes == longest).collect();
    let first_levels = all.first().map_or(1, |cost| cost.point.levels);
    // Rings know no levels, so one line of them is enough.
    let drawn = |point: &Point| point.scheduler != "rings" || point.levels == first_levels;
    let mut lines = distinct(&all, |point| (point.scheduler, point.levels));
    lines.retain(|&(scheduler, levels)| scheduler != "rings" || levels == first_levels);
    let more = lines.len().saturating_sub(MAX_DRAWN);
    lines.truncate(MAX_DRAWN);
    let of_leaves =
        |pick: fn(f64, f64) -> f64, start: f64| all.iter().map(|cost| cost.point.leaves as f64).fold(start, pick);
    let figures = || all.iter().filter(|cost| drawn(&cost.point)).map(|cost| cost.reference_ns_per_packet);
    let (low, high) = (figures().fold(f64::INFINITY, f64::min), figures().fold(1.0, f64::max));
    let panels = distinct(&all, |point| point.pattern).into_iter().map(|pattern| {
        let x = Axis::log("leaves", of_leaves(f64::min, f64::INFINITY), of_leaves(f64::max, 1.0));
        let mut panel = Panel::new(title(pattern), x, Axis::log("ns a packet", low.max(1.0), high)).high(260.0);
        for (n, &(scheduler, levels)) in lines.iter().enumerate() {
            let here = |point: &Point| (point.scheduler, point.levels, point.pattern) == (scheduler, levels, pattern);
            let mut points: Vec<(f64, f64)> = all
                .iter()
                .filter(|cost| here(&cost.point))
                .map(|cost| (cost.point.leaves as f64, cost.reference_ns_per_packet))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            panel.series.push(match scheduler {
                "rings" => Series::line("bare rings", points, Look::reference()),
                _ if levels == 1 => Series::line(format!("{scheduler}, flat"), points, Look::nth(n)),
                _ => Series::line(format!("{scheduler}, {levels} levels"), points, Look::nth(n)),
            });
        }
        panel
    });
    let mut figure = Figure::new("What a packet costs by the number of leaves", panels.collect());
    figure.notes.push(format!("Enqueue and dequeue, net of the harness, on a clock of 2.5 GHz. {}.", report.machine));
    if more > 0 {
        figure.notes.push(format!("{more} more lines are in the tables."));
    }
    figure
}

fn title(pattern: &str) -> &'static str {
    match pattern.parse() {
        Ok(Pattern::Sparse) => "One leaf of a hundred backlogged",
        Ok(Pattern::Churn) => "Leaves that come and go, a packet at a time",
        Ok(Pattern::Backlogged) | Err(_) => "Every leaf backlogged",
    }
}
