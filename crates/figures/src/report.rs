//! Results of simulations as text: measured rates beside ideal ones, and packets, losses and delays of each class.

pub mod estimates;
pub mod metrics;
pub mod misplaced;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fairlink_report::Delay;
use fairlink_sim::{ClosedRun, Phase, Report, Run, Setting};

use crate::measure::{from_ideal, relative, worst};
use crate::rate_unit::RateUnit;
use crate::table::{Line, fitted};

/// The style of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// True if lines further than `tolerance` from the ideal are red and the others green.
    pub colour: bool,
    /// The deviation relative to the ideal that is within the claim, such as 0.02.
    pub tolerance: f64,
    /// Maximum width of lines, as in [`fitted`].
    pub width: Option<usize>,
}

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

/// Joins `lines`, those of rows each in green or red if colour is enabled.
fn join(lines: &[Line], within: &[bool], style: Style) -> String {
    let line = |Line { row, text }: &Line| match row.filter(|_| style.colour) {
        Some(row) => format!("{}{text}{RESET}\n", if within[row] { GREEN } else { RED }),
        None => format!("{text}\n"),
    };
    lines.iter().map(line).collect()
}

/// Joins the lines without colour.
fn plain(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

/// Formats a phase from its start to its end, both in seconds.
#[must_use]
pub fn span(start_s: f64, end_s: f64) -> String {
    format!("{start_s} .. {end_s} s")
}

/// Measured rates against the ideal by the scheduler's own rule, one line for each leaf in each phase; `-` if that is
/// not computed. Leaves with an ideal and a rate of zero are left out.
#[must_use]
pub fn measured_against_ideal(phases: &[Phase], link_bps: f64, style: Style) -> String {
    let unit = RateUnit::for_link(link_bps);
    let head = ["phase", "class", "measured", "ideal", "off by"].map(|title| match title {
        "measured" | "ideal" => format!("{title} {}", unit.name),
        title => title.into(),
    });
    let (mut rows, mut within) = (Vec::new(), Vec::new());
    for phase in phases {
        let mut name = span(phase.start_s, phase.end_s);
        let shown =
            phase.classes.iter().filter(|class| class.rates.ideal_bps > Some(0.0) || class.rates.settled() > 0.0);
        for class in shown {
            let off = class.rates.ideal_bps.map(|ideal| relative(class.rates.settled(), ideal, link_bps));
            let none = || "-".to_owned();
            rows.push(vec![
                std::mem::take(&mut name),
                class.name.clone(),
                unit.show(class.rates.settled()),
                class.rates.ideal_bps.map_or_else(none, |ideal| unit.show(ideal)),
                off.map_or_else(none, |off| format!("{:.2} %", off * 100.0)),
            ]);
            within.push(off.is_none_or(|off| off <= style.tolerance));
        }
    }
    join(&fitted(&head, &rows, 2..head.len(), style.width), &within, style)
}

/// Several runs of one scenario side by side: the max-min fair rate, and the rate in each run. A line is within the
/// tolerance if all are. Runs of another scenario than the first are left out.
#[must_use]
pub fn side_by_side(report: &Report, style: Style) -> String {
    let Some(first) = report.runs.first() else { return String::new() };
    let unit = RateUnit::for_link(first.link_bps);
    let same = |run: &&Run| {
        let spans = |run: &Run| run.phases.iter().map(|phase| (phase.start_s, phase.end_s)).collect::<Vec<_>>();
        let names = |run: &Run| run.classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>();
        spans(run) == spans(first) && names(run) == names(first)
    };
    let runs: Vec<&Run> = report.runs.iter().filter(same).collect();
    let several_seeds = runs.iter().any(|run| run.seed != first.seed);
    let title = |run: &&Run| match several_seeds {
        true => format!("{} seed {}", run.scheduler, run.seed),
        false => run.scheduler.clone(),
    };
    let mut head = vec!["phase".into(), "class".into(), format!("max-min fair {}", unit.name)];
    head.extend(runs.iter().map(title));
    let (mut rows, mut within) = (Vec::new(), Vec::new());
    for (n, phase) in first.phases.iter().enumerate() {
        let mut name = span(phase.start_s, phase.end_s);
        for (m, class) in phase.classes.iter().enumerate() {
            let measured: Vec<f64> = runs.iter().map(|run| run.phases[n].classes[m].rates.settled()).collect();
            if class.rates.fair() == 0.0 && measured.iter().all(|&bps| bps == 0.0) {
                continue;
            }
            let off = |bps: &f64| relative(*bps, class.rates.fair(), first.link_bps) <= style.tolerance;
            within.push(measured.iter().all(off));
            let mut row = vec![std::mem::take(&mut name), class.name.clone(), unit.show(class.rates.fair())];
            row.extend(measured.iter().map(|&bps| unit.show(bps)));
            rows.push(row);
        }
    }
    join(&fitted(&head, &rows, 2..head.len(), style.width), &within, style)
}

/// The counters of the schedulers of `runs`: a line for the link and one for each class with a nonzero counter. Each
/// line begins with the settings of a sweep, if there was one. `None` without counters.
#[must_use]
pub fn counters(runs: &[Run], width: Option<usize>) -> Option<String> {
    type Line<'a> = (&'a Run, &'a str, &'a BTreeMap<String, u64>);
    type Counted = (String, BTreeMap<String, u64>);
    let of_run = |run: &'_ Run| -> Vec<Counted> {
        let leaves = run.classes.iter().map(|class| (class.name.clone(), class.counters.clone()));
        let inner = run.inner_classes.iter().map(|class| (class.name.clone(), class.counters.clone()));
        let link = ("the link".to_owned(), run.counters.clone());
        let counted = |(_, counters): &Counted| counters.values().any(|&count| count > 0);
        std::iter::once(link).chain(inner).chain(leaves).filter(counted).collect()
    };
    let lines_of: Vec<(&Run, Vec<Counted>)> = runs.iter().map(|run| (run, of_run(run))).collect();
    let all: Vec<Line<'_>> = lines_of
        .iter()
        .flat_map(|(run, lines)| lines.iter().map(|(name, counters)| (*run, name.as_str(), counters)))
        .collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|(.., counters)| counters.keys()).collect();
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.sweep.keys()).collect();
    if names.is_empty() {
        return None;
    }
    let several = runs.len() > 1;
    let fixed = keys.iter().map(|key| (*key).clone()).chain(several.then(|| "scheduler".to_owned()));
    let head: Vec<String> =
        fixed.chain(["class".to_owned()]).chain(names.iter().map(|name| name.replace('_', " "))).collect();
    let row = |&(run, class, counters): &Line<'_>| {
        let setting = |key: &&String| match run.sweep.get(*key) {
            Some(Setting::Whole(number)) => number.to_string(),
            Some(Setting::Number(number)) => number.to_string(),
            Some(Setting::Text(text)) => text.clone(),
            None => String::new(),
        };
        let mut row: Vec<String> = keys.iter().map(setting).collect();
        row.extend(several.then(|| run.scheduler.clone()));
        row.push(class.to_owned());
        row.extend(names.iter().map(|name| counters.get(*name).map_or_else(|| "-".to_owned(), u64::to_string)));
        row
    };
    let right = head.len() - names.len();
    let rows: Vec<_> = all.iter().map(row).collect();
    Some(plain(&fitted(&head, &rows, right..head.len(), width)))
}

/// Packets, losses and delays of each leaf in one run. If its lines would be longer than `width` columns, quantiles of
/// the delay are left out: first p99.9, then p50, then p99. Columns that still do not fit continue below.
#[must_use]
pub fn classes(run: &Run, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(run.link_bps);
    let head = ["class", "offered", "sent", "dropped", "queued", unit.name, "mean delay", "p50", "p99", "p99.9", "max"];
    let mut head = head.map(str::to_owned).to_vec();
    let rows = run.classes.iter().map(|class| {
        let delay = class.delay();
        let counts = [
            class.counts().received.packets,
            class.counts().sent.packets,
            class.counts().dropped.packets,
            class.counts().queued.packets,
        ];
        let mut row = vec![class.name.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(unit.show(class.rates.rate()));
        row.extend([delay.mean, delay.p50, delay.p99, delay.p999, delay.max].map(time));
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    for quantile in ["p99.9", "p50", "p99"] {
        let columns = (0..head.len()).map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([head[column].chars().count()]).max().unwrap_or(0)
        });
        if width.is_none_or(|width| columns.sum::<usize>() + 2 * (head.len() - 1) <= width) {
            break;
        }
        if let Some(column) = head.iter().position(|title| title == quantile) {
            head.remove(column);
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    plain(&fitted(&head, &rows, 1..head.len(), width))
}

/// Results of the sources that receive feedback on their packets: one table for those with a window, one for those with
/// requests.
#[must_use]
pub fn closed(run: &Run, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(run.link_bps);
    let (mut windows, mut requests) = (Vec::new(), Vec::new());
    for closed in &run.closed {
        match closed {
            ClosedRun::Tcp {
                class,
                goodput_bps,
                sent_packets,
                lost_packets,
                marks,
                timeouts,
                mean_rtt_s,
                max_rtt_s,
                ..
            } => {
                let mut row = vec![class.clone(), unit.show(*goodput_bps)];
                row.extend([sent_packets, lost_packets, marks, timeouts].map(|count| count.to_string()));
                row.extend([*mean_rtt_s, *max_rtt_s].map(|seconds| time(Some(seconds))));
                windows.push(row);
            }
            ClosedRun::RequestResponse { class, answered, answered_per_second, repeated, mean_s, max_s } => {
                let rate = format!("{answered_per_second:.1}");
                let mut row = vec![class.clone(), answered.to_string(), rate, repeated.to_string()];
                row.extend([*mean_s, *max_s].map(|seconds| time(Some(seconds))));
                requests.push(row);
            }
        }
    }
    let mut tables = Vec::new();
    if !windows.is_empty() {
        let goodput = format!("goodput {}", unit.name);
        let head = ["window source", &goodput, "sent", "lost", "marked", "timeouts", "mean rtt", "max"];
        tables.push(plain(&fitted(&head, &windows, 1..head.len(), width)));
    }
    if !requests.is_empty() {
        let head = ["requests", "answered", "per second", "sent again", "mean time", "max"];
        tables.push(plain(&fitted(&head, &requests, 1..head.len(), width)));
    }
    tables.join("\n")
}

/// Results of each source whose packets cross several links: on the whole route, and at each link.
#[must_use]
pub fn routes(run: &Run, width: Option<usize>) -> String {
    let head = ["way", "offered", "arrived", "dropped", "mean delay", "p50", "p99", "p99.9", "max"];
    let row = |name: String, [offered, arrived, dropped]: [u64; 3], delay: Delay| {
        let mut row = vec![name, offered.to_string(), arrived.to_string(), dropped.to_string()];
        row.extend([delay.mean, delay.p50, delay.p99, delay.p999, delay.max].map(time));
        row
    };
    let mut rows = Vec::new();
    for way in &run.routes {
        let counts = [way.offered_packets, way.received_packets, way.dropped_packets];
        rows.push(row(way.name.clone(), counts, way.delay_s));
        rows.extend(way.hops.iter().map(|hop| {
            let counts = [hop.arrived_packets, hop.sent_packets, hop.dropped_packets];
            row(format!("  at {}", hop.class), counts, hop.delay_s)
        }));
    }
    plain(&fitted(&head, &rows, 1..head.len(), width))
}

/// Formats a time in seconds with three digits and a unit; a dash for none.
fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".into() };
    let (size, unit) = time_unit(seconds);
    let value = seconds / size;
    let decimals = if value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
    format!("{value:.decimals$} {unit}")
}

/// Returns the largest unit, and its length in seconds, of which `seconds` are at least one.
fn time_unit(seconds: f64) -> (f64, &'static str) {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    units.into_iter().find(|&(size, _)| seconds >= size).unwrap_or((1e-9, "ns"))
}

/// Formats one line for each run: how busy the link was, the largest deviation from the ideal, and the smallest of
/// Jain's indices of phases.
#[must_use]
pub fn runs(report: &Report) -> String {
    let mut text = String::new();
    for run in &report.runs {
        let _ = write!(text, "{}, seed {}: link {:.2} % busy", run.scheduler, run.seed, run.link_utilisation * 100.0);
        if let Some(worst) = worst(from_ideal(&run.phases, run.link_bps)) {
            let phase = &run.phases[worst.phase];
            let of = if worst.ideal_bps > 0.0 { "its ideal" } else { "the link" };
            let off = worst.relative * 100.0;
            let _ = write!(
                text,
                "; furthest from the ideal: {} by {off:.2} % of {of} in {}",
                worst.class,
                span(phase.start_s, phase.end_s)
            );
        }
        let indices = run.phases.iter().filter_map(fairlink_sim::Phase::jain_index);
        if let Some(lowest) = indices.reduce(f64::min) {
            // Rounded down, so that it is at least the printed value.
            let _ = write!(text, "; Jain's index at least {:.4}", (lowest * 1e4).floor() / 1e4);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::hls;
    use crate::measure::{OPTIONS, TOLERANCE};
    use fairlink_core::{Leniency, Nanos, Rate, registry::find};
    use fairlink_sim::compare;

    const PLAIN: Style = Style { colour: false, tolerance: TOLERANCE, width: None };

    fn report(schedulers: &[&str]) -> Report {
        let rate = Rate::from_bps(10_000_000).unwrap();
        let scenario = hls::EXP2.script("H").unwrap().scenario(rate, Some(Nanos::from_millis(2500))).unwrap();
        let schedulers: Vec<_> = schedulers.iter().map(|name| find(name).unwrap()).collect();
        compare(&scenario, &schedulers, Leniency::Ignore, 1, &OPTIONS, &mut ()).unwrap()
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let times =
            [None, Some(12e-9), Some(0.000_999_6), Some(0.0123), Some(0.9999), Some(7.0), Some(250.0)].map(time);
        assert_eq!(times, ["-", "12.0 ns", "1000 us", "12.3 ms", "1000 ms", "7.00 s", "250 s"]);
    }

    #[test]
    fn tables_are_aligned_and_plain_unless_colour_is_asked_for() {
        let report = report(&["hls"]);
        let run = &report.runs[0];
        let table = measured_against_ideal(&run.phases, run.link_bps, PLAIN);
        let expected = [
            "phase       class  measured Mbit/s  ideal Mbit/s  off by",
            "0 .. 2.5 s  A1                3.00          3.00  0.00 %",
            "            B2                3.00          3.00  0.00 %",
            "            C                 4.00          4.00  0.00 %",
            "2.5 .. 5 s  A1                5.00          5.00  0.00 %",
            "            B2                5.00          5.00  0.00 %",
            "5 .. 7.5 s  A1                3.00          3.00  0.13 %",
            "            B2                3.00          3.00  0.13 %",
            "            C                 4.00          4.00  0.00 %",
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), expected);
        let colour = Style { colour: true, tolerance: 0.001, width: None };
        let coloured = measured_against_ideal(&run.phases, run.link_bps, colour);
        assert_eq!(coloured.replace(GREEN, "").replace(RED, "").replace(RESET, ""), table);
        assert!(coloured.contains(GREEN) && coloured.contains(RED));
    }

    #[test]
    fn schedulers_stand_side_by_side() {
        let report = report(&["fifo", "drr", "hls"]);
        let expected = [
            "phase       class  max-min fair Mbit/s  fifo   drr   hls",
            "0 .. 2.5 s  A1                    3.00  3.34  0.86  3.00",
            "            B2                    3.00  3.33  3.43  3.00",
            "            C                     4.00  3.33  5.71  4.00",
            "2.5 .. 5 s  A1                    5.00  5.00  2.00  5.00",
            "            B2                    5.00  5.00  8.00  5.00",
            "5 .. 7.5 s  A1                    3.00  3.34  0.86  3.00",
            "            B2                    3.00  3.33  3.43  3.00",
            "            C                     4.00  3.33  5.71  4.00",
        ];
        assert_eq!(side_by_side(&report, PLAIN).lines().collect::<Vec<_>>(), expected);
        let expected = [
            "fifo, seed 1: link 100.00 % busy; Jain's index at least 0.9834",
            "drr, seed 1: link 100.00 % busy; furthest from the ideal: A1 by 0.33 % of its ideal in 5 .. 7.5 s; \
             Jain's index at least 0.7347",
            "hls, seed 1: link 100.00 % busy; furthest from the ideal: A1 by 0.13 % of its ideal in 5 .. 7.5 s; \
             Jain's index at least 0.9999",
        ];
        assert_eq!(runs(&report).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_table_of_classes_has_counts_and_delays() {
        let expected = [
            "class  offered  sent  dropped  queued  Mbit/s  mean delay      p50      p99    p99.9      max",
            "A1        3654  3647        0       7    3.89     16.4 ms  19.2 ms  19.2 ms  19.2 ms  19.2 ms",
            "A2           0     0        0       0    0.00           -        -        -        -        -",
            "B1           0     0        0       0    0.00           -        -        -        -        -",
            "B2        3648  3640        0       8    3.88     16.5 ms  19.2 ms  19.2 ms  19.2 ms  19.2 ms",
            "C         2096  2088        0       8    2.23     19.2 ms  19.2 ms  19.2 ms  19.2 ms  19.2 ms",
        ];
        assert_eq!(classes(&report(&["fifo"]).runs[0], None).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_table_of_classes_that_would_not_fit_leaves_quantiles_out() {
        let run = &report(&["fifo"]).runs[0];
        let head = |width| classes(run, Some(width)).lines().next().unwrap_or_default().to_owned();
        assert_eq!(
            head(93),
            "class  offered  sent  dropped  queued  Mbit/s  mean delay      p50      p99    p99.9      max"
        );
        assert_eq!(head(92), "class  offered  sent  dropped  queued  Mbit/s  mean delay      p50      p99      max");
        assert_eq!(head(80), "class  offered  sent  dropped  queued  Mbit/s  mean delay      p99      max");
        assert_eq!(head(66), "class  offered  sent  dropped  queued  Mbit/s  mean delay      max");
    }

    #[test]
    fn no_line_of_a_table_of_classes_is_longer_than_the_terminal() {
        for width in [40, 66, 75, 80, 84, 92] {
            let text = classes(&report(&["fifo"]).runs[0], Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}
