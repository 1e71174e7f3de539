//! A report of costs as Markdown tables and as a figure: for `docs/cost.md`, and to compare two states of the code.

use std::fmt::Write;

use fairlink_workload::Pattern;
use serde::Deserialize;

use super::{Cost, Point, Report};
use fairlink_figures::MAX_DRAWN;
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Figure, Panel, Series, SeriesStyle};

/// The parts used of another run's JSON: an earlier one of this code, or one of another program under the same
/// workloads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Other {
    results: Vec<Known>,
    #[serde(default)]
    baselines: Vec<Known>,
}

/// The cost of a packet, from any measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Known {
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

impl From<&Cost> for Known {
    fn from(cost: &Cost) -> Self {
        let Point { scheduler, pattern, leaves, levels, packet_bytes, calls, ceilings, record } = cost.point;
        Self {
            scheduler: scheduler.to_owned(),
            pattern: pattern.to_owned(),
            leaves,
            levels,
            packet_bytes,
            calls: calls.to_owned(),
            ceilings,
            record,
            reference_ns_per_packet: cost.reference_ns_per_packet,
        }
    }
}

impl Known {
    /// Returns true if both are of the same scheduler under the same workload.
    fn is_of_the_same(&self, other: &Self) -> bool {
        let Self { scheduler, pattern, leaves, levels, packet_bytes, calls, ceilings, record, .. } = self;
        (scheduler, pattern, calls) == (&other.scheduler, &other.pattern, &other.calls)
            && (*leaves, *levels, *packet_bytes) == (other.leaves, other.levels, other.packet_bytes)
            && (*ceilings, *record) == (other.ceilings, other.record)
    }

    fn is_of_rings(&self) -> bool {
        self.scheduler == RINGS
    }
}

const RINGS: &str = "rings";

/// All costs that a page shows.
struct Shown<'a> {
    costs: Vec<Known>,
    /// True if classes of the report have ceilings: the names of others include the difference.
    ceilings: bool,
    earlier: &'a Other,
}

impl<'a> Shown<'a> {
    /// Makes the list: bare rings, all schedulers of the report, and those of `beside`.
    fn new(report: &Report, earlier: &'a Other, beside: &[Other]) -> Self {
        let rings = report.baselines.iter().map(Known::from).filter(Known::is_of_rings);
        let mut costs: Vec<Known> = rings.chain(report.results.iter().map(Known::from)).collect();
        let ceilings = costs.first().is_some_and(|cost| cost.ceilings);
        costs.extend(beside.iter().flat_map(|other| &other.results).cloned());
        Self { costs, ceilings, earlier }
    }

    /// Returns the scheduler, and the difference of its classes, if any.
    fn name(&self, cost: &Known) -> String {
        let difference = match cost.ceilings {
            ceilings if ceilings == self.ceilings => "",
            true => ", ceilings",
            false => ", no ceilings",
        };
        format!("{}{difference}", cost.scheduler)
    }

    /// Nanoseconds now, and before if that is known.
    fn cell(&self, cost: &Known) -> String {
        let now = cost.reference_ns_per_packet;
        let mut earlier = self.earlier.baselines.iter().chain(&self.earlier.results);
        match earlier.find(|earlier| earlier.is_of_the_same(cost)) {
            Some(before) => format!("{:.0} → {now:.0}", before.reference_ns_per_packet),
            None => format!("{now:.0}"),
        }
    }
}

/// Returns the distinct values of `key`, in the order of the costs.
fn distinct<'a, T: PartialEq>(costs: impl IntoIterator<Item = &'a Known>, key: impl Fn(&'a Known) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for cost in costs {
        let value = key(cost);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Returns a table for each pattern and length of packets: a row for each scheduler of the report and of those
/// `beside`, a column for each tree. Figures are net nanoseconds on the reference clock; if `earlier` has the same
/// point, `before → now`. The memory of schedulers follows.
#[must_use]
pub fn markdown(report: &Report, earlier: &Other, beside: &[Other]) -> String {
    let shown = Shown::new(report, earlier, beside);
    let costs = &shown.costs;
    let mut trees = distinct(costs, |cost| (cost.levels, cost.leaves));
    trees.sort_unstable();
    let mut text = String::new();
    for (pattern, packet_bytes) in distinct(costs, |cost| (&cost.pattern, cost.packet_bytes)) {
        let _ = write!(text, "| {pattern}, {packet_bytes} B |");
        for (levels, leaves) in &trees {
            let _ = write!(text, " {} in {levels} |", grouped(*leaves));
        }
        let _ = writeln!(text, "\n| --- |{}", " --- |".repeat(trees.len()));
        let here = |cost: &&Known| (&cost.pattern, cost.packet_bytes) == (pattern, packet_bytes);
        for name in distinct(costs.iter().filter(here), |cost| shown.name(cost)) {
            let (scheduler, difference) = name.split_once(',').unwrap_or((&name, ""));
            let _ = write!(text, "| `{scheduler}`{}{difference} |", if difference.is_empty() { "" } else { "," });
            for &(levels, leaves) in &trees {
                let of_tree =
                    |cost: &&Known| (cost.levels, cost.leaves) == (levels, leaves) && shown.name(cost) == name;
                let cell = costs.iter().filter(here).find(of_tree).map(|cost| shown.cell(cost));
                let _ = write!(text, " {} |", cell.as_deref().unwrap_or("-"));
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

/// Formats a number with commas between thousands.
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

/// Nanoseconds against leaves: a panel for each pattern with the longest packets, a line for each scheduler and number of levels. A scheduler has one
/// colour; its lines of other trees are dashed. Bare rings are dotted.
#[must_use]
pub fn figure(report: &Report, beside: &[Other]) -> Figure {
    let earlier = Other::default();
    let shown = Shown::new(report, &earlier, beside);
    let longest = shown.costs.iter().map(|cost| cost.packet_bytes).max().unwrap_or(0);
    let first_levels = shown.costs.first().map_or(1, |cost| cost.levels);
    // Rings know no levels, so one line of them is enough.
    let drawn = |cost: &&Known| cost.packet_bytes == longest && (!cost.is_of_rings() || cost.levels == first_levels);
    let all: Vec<&Known> = shown.costs.iter().filter(drawn).collect();
    let schedulers = distinct(all.iter().copied().filter(|cost| !cost.is_of_rings()), |cost| &cost.scheduler);
    let mut lines = distinct(all.iter().copied(), |cost| (&cost.scheduler, shown.name(cost), cost.levels));
    let more = lines.len().saturating_sub(MAX_DRAWN);
    lines.truncate(MAX_DRAWN);
    let looks: Vec<SeriesStyle> = lines
        .iter()
        .enumerate()
        .map(|(at, (scheduler, ..))| match schedulers.iter().position(|known| known == scheduler) {
            Some(nth) => {
                SeriesStyle::variant(nth, lines[..at].iter().filter(|(before, ..)| before == scheduler).count())
            }
            None => SeriesStyle::reference(),
        })
        .collect();
    let of_leaves = |pick: fn(f64, f64) -> f64, start: f64| all.iter().map(|cost| cost.leaves as f64).fold(start, pick);
    let figures = || all.iter().map(|cost| cost.reference_ns_per_packet);
    let (low, high) = (figures().fold(f64::INFINITY, f64::min), figures().fold(1.0, f64::max));
    let panels = distinct(all.iter().copied(), |cost| &cost.pattern).into_iter().map(|pattern| {
        let x = Axis::log("leaves", of_leaves(f64::min, f64::INFINITY), of_leaves(f64::max, 1.0));
        let mut panel = Panel::new(title(pattern), x, Axis::log("ns a packet", low.max(1.0), high)).high(260.0);
        for ((scheduler, name, levels), look) in lines.iter().zip(&looks) {
            let here = |cost: &&&Known| (&cost.pattern, cost.levels) == (pattern, *levels) && shown.name(cost) == *name;
            let mut points: Vec<(f64, f64)> =
                all.iter().filter(here).map(|cost| (cost.leaves as f64, cost.reference_ns_per_packet)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let label = match levels {
                _ if *scheduler == RINGS => "bare rings".to_owned(),
                1 => format!("{name}, flat"),
                _ => format!("{name}, {levels} levels"),
            };
            panel.series.push(Series::line(label, points, *look));
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
