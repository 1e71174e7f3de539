//! Means with their confidence intervals, as text: of several runs, of differences between schedulers, and of a sweep.

use fairlink_sim::statistics::Estimate;
use fairlink_sim::statistics::summary::{ClassSummary, Difference, Paired, Summary};

use super::{plain, span, time_unit};
use crate::rate_unit::RateUnit;
use crate::sweep::{Key, Quantity, shown};
use crate::table::fitted;

/// Formats a mean and half of its 95 % interval, both with `decimals` decimals: `12.34 ± 0.05`.
fn plus_minus(estimate: Estimate, size: f64, decimals: usize) -> String {
    let mean = estimate.mean / size;
    match estimate.ci95 {
        Some(width) => format!("{mean:.decimals$} ± {:.decimals$}", width / size),
        None => format!("{mean:.decimals$}"),
    }
}

fn rate(estimate: Estimate, unit: RateUnit) -> String {
    plus_minus(estimate, unit.bps, 2)
}

/// In the unit that suits the mean, or the interval if that is wider.
fn delay(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "-".into() };
    let (size, unit) = time_unit(estimate.mean.abs().max(estimate.ci95.unwrap_or(0.0)));
    let decimals = if estimate.mean.abs() / size >= 99.95 { 1 } else { 2 };
    format!("{} {unit}", plus_minus(estimate, size, decimals))
}

fn lost(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| "-".into(), |estimate| format!("{} %", plus_minus(estimate, 0.01, 2)))
}

fn measures(class: &ClassSummary, unit: RateUnit) -> [String; 4] {
    let ClassSummary { rate_bps, delay_s, lost: share, .. } = class;
    [rate(*rate_bps, unit), delay(delay_s.mean), delay(delay_s.p99), lost(*share)]
}

fn text(head: &[String], rows: &[Vec<String>], first_number: usize, width: Option<usize>) -> String {
    plain(&fitted(head, rows, first_number..head.len(), width))
}

/// Rate, delays and losses of each leaf, the mean of all runs.
#[must_use]
pub fn classes(summary: &Summary, link_bps: f64, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(link_bps);
    let head = ["class", unit.name, "mean delay", "p99", "lost"].map(str::to_owned);
    let row = |class: &ClassSummary| [vec![class.name.clone()], measures(class, unit).to_vec()].concat();
    text(&head, &summary.classes.iter().map(row).collect::<Vec<_>>(), 1, width)
}

/// Rates by phase after settling, schedulers side by side beside the max-min fair rates, and Jain's index of each
/// phase. Leaves with an ideal and a rate of zero are left out.
#[must_use]
pub fn phases(summaries: &[Summary], link_bps: f64, width: Option<usize>) -> String {
    let Some(first) = summaries.first() else { return String::new() };
    let unit = RateUnit::for_link(link_bps);
    let mut head = vec!["phase".into(), "class".into(), format!("max-min fair {}", unit.name)];
    head.extend(summaries.iter().map(|summary| summary.scheduler.clone()));
    let mut rows = Vec::new();
    for (n, phase) in first.phases.iter().enumerate() {
        let mut name = span(phase.start_s, phase.end_s);
        for (m, class) in phase.classes.iter().enumerate() {
            let cell = |summary: &Summary| Some(summary.phases.get(n)?.classes.get(m)?.settled_bps);
            let cells: Vec<Option<Estimate>> = summaries.iter().map(cell).collect();
            if class.fair_bps == 0.0 && cells.iter().flatten().all(|cell| cell.mean == 0.0) {
                continue;
            }
            let mut row = vec![std::mem::take(&mut name), class.name.clone(), unit.show(class.fair_bps)];
            row.extend(cells.iter().map(|cell| cell.map_or_else(|| "-".into(), |cell| rate(cell, unit))));
            rows.push(row);
        }
        let index = |summary: &Summary| {
            let jain = summary.phases.get(n).and_then(|phase| phase.jain_index);
            jain.map_or_else(|| "-".into(), |jain| plus_minus(jain, 1.0, 4))
        };
        let mut row = vec![std::mem::take(&mut name), "Jain's index".into(), "1".into()];
        row.extend(summaries.iter().map(index));
        rows.push(row);
    }
    text(&head, &rows, 2, width)
}

/// A difference, with a star if the interval excludes zero.
fn paired(difference: Option<Paired>, show: impl Fn(Estimate) -> String) -> String {
    let Some(Paired { estimate, different }) = difference else { return "-  ".into() };
    let star = if different == Some(true) { '*' } else { ' ' };
    format!("{} {star}", show(estimate))
}

/// A scheduler minus another, leaf by leaf. A star marks an interval that excludes zero.
#[must_use]
pub fn differences(difference: &Difference, link_bps: f64, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(link_bps);
    let head = ["class", unit.name, "mean delay", "p99", "lost"].map(|title| match title {
        "class" => title.to_owned(),
        title => format!("{title}  "),
    });
    let row = |class: &fairlink_sim::statistics::summary::ClassDifference| {
        let cells = [
            paired(class.rate_bps, |estimate| rate(estimate, unit)),
            paired(class.delay_s.mean, |estimate| delay(Some(estimate))),
            paired(class.delay_s.p99, |estimate| delay(Some(estimate))),
            paired(class.lost, |estimate| lost(Some(estimate))),
        ];
        [vec![class.name.clone()], cells.to_vec()].concat()
    };
    text(&head, &difference.classes.iter().map(row).collect::<Vec<_>>(), 1, width)
}

/// Formats one line for each setting, scheduler and class. Values of keys that have not changed since the line before
/// are left out.
#[must_use]
pub fn sweep(keys: &[Key], summaries: &[Summary], link_bps: f64, width: Option<usize>) -> String {
    let unit = RateUnit::for_link(link_bps);
    let mut head: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
    head.extend(["scheduler", "class", unit.name, "mean delay", "p99", "lost"].map(str::to_owned));
    let mut rows = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for summary in summaries {
        for class in &summary.classes {
            let setting = |key: &Key| summary.sweep.get(&key.name).map_or_else(String::new, |value| of(key, value));
            let mut row: Vec<String> = keys.iter().map(setting).collect();
            row.extend([summary.scheduler.clone(), class.name.clone()]);
            let changed = row.iter().zip(&before).position(|(now, then)| now != then).unwrap_or(0);
            let settings = std::mem::replace(&mut before, row.clone());
            if !settings.is_empty() {
                row.iter_mut().take(changed.min(keys.len() + 1)).for_each(String::clear);
            }
            row.extend(measures(class, unit));
            rows.push(row);
        }
    }
    text(&head, &rows, keys.len() + 2, width)
}

/// Formats a setting with its unit.
fn of(key: &Key, setting: &fairlink_sim::Setting) -> String {
    match (key.quantity, setting.number()) {
        (Quantity::Rate, Some(bps)) => {
            let unit = RateUnit::for_link(bps * 10.0);
            format!("{} {}", trimmed(bps / unit.bps), unit.name)
        }
        (Quantity::Time, Some(seconds)) => {
            let (size, unit) = time_unit(seconds);
            format!("{} {unit}", trimmed(seconds / size))
        }
        (Quantity::Size, Some(bytes)) => format!("{} B", trimmed(bytes)),
        (Quantity::Packets, Some(packets)) => format!("{} packets", trimmed(packets)),
        _ => shown(setting),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use fairlink_sim::Setting;
    use fairlink_sim::statistics::summary::{ClassDifference, DelayDifference, DelaySummary};

    fn estimate(mean: f64, ci95: f64) -> Estimate {
        Estimate { mean, ci95: Some(ci95), ci95_normal: Some(0.7 * ci95), n: 5 }
    }

    fn summary(setting: f64) -> Summary {
        let mean = Some(estimate(0.0123, 0.0004));
        let class = |name: &str| ClassSummary {
            name: name.into(),
            rate_bps: estimate(3.2e6, 5e4),
            delay_s: DelaySummary { mean, p50: mean, p99: Some(estimate(1.5, 0.25)), p999: mean, max: mean },
            lost: Some(estimate(0.25, 0.01)),
        };
        Summary {
            scheduler: "hls".into(),
            sweep: BTreeMap::from([("link.rate".to_owned(), Setting::Number(setting))]),
            runs: 5,
            warmup_s: 0.0,
            link_utilisation: estimate(1.0, 0.0),
            classes: vec![class("A"), class("B")],
            phases: Vec::new(),
        }
    }

    #[test]
    fn a_mean_stands_beside_half_of_its_interval() {
        let expected = [
            "class       Mbit/s       mean delay            p99            lost",
            "A      3.20 ± 0.05  12.30 ± 0.40 ms  1.50 ± 0.25 s  25.00 ± 1.00 %",
            "B      3.20 ± 0.05  12.30 ± 0.40 ms  1.50 ± 0.25 s  25.00 ± 1.00 %",
        ];
        assert_eq!(classes(&summary(0.0), 1e7, None).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_sweep_says_each_setting_once() {
        let keys = [Key { name: "link.rate".into(), quantity: Quantity::Rate }];
        let table = sweep(&keys, &[summary(1e7), summary(2e7)], 1e7, None);
        let first: Vec<&str> = table.lines().map(|line| &line[..27]).collect();
        assert_eq!(
            first,
            [
                "link.rate  scheduler  class",
                "10 Mbit/s  hls        A    ",
                "                      B    ",
                "20 Mbit/s  hls        A    ",
                "                      B    "
            ]
        );
    }

    #[test]
    fn a_difference_says_whether_it_is_one() {
        let paired = |mean, ci95| {
            let estimate = estimate(mean, ci95);
            Some(Paired { estimate, different: estimate.differs_from_zero() })
        };
        let class = ClassDifference {
            name: "A".into(),
            rate_bps: paired(1e3, 2e3),
            delay_s: DelayDifference { mean: paired(-0.005, 0.001), p99: None },
            lost: paired(0.0, 0.0),
        };
        let (scheduler, against, sweep) = ("drr".into(), "hls".into(), BTreeMap::new());
        let difference = Difference { scheduler, against, sweep, runs: 5, classes: vec![class] };
        let table = differences(&difference, 1e7, None);
        let words: Vec<&str> =
            table.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        assert_eq!(words, ["A", "0.00 ± 0.00", "-5.00 ± 1.00 ms *", "-", "0.00 ± 0.00 %"]);
    }
}
