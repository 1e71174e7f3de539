//! Results of all classes as a function of a number of the scenario.

use std::collections::BTreeMap;

use fairlink_sim::Setting;
use fairlink_sim::statistics::Estimate;
use fairlink_sim::statistics::summary::{ClassSummary, Summary};

use super::axis::Axis;
use super::figure::{Figure, Panel, Series, SeriesStyle};
use super::{MAX_DRAWN, field, left_out, number};
use crate::rate_unit::RateUnit;

/// A swept key, and its quantity.
pub use fairlink_api::{SweptKey as Key, SweptQuantity as Quantity};

/// Formats a setting as a field of a table.
#[must_use]
pub fn shown(setting: &Setting) -> String {
    match setting {
        Setting::Whole(number) => number.to_string(),
        Setting::Number(number) => number.to_string(),
        Setting::Text(text) => text.clone(),
    }
}

/// Writes one row for each setting, scheduler and class, in base units.
#[must_use]
pub fn csv(keys: &[Key], summaries: &[Summary]) -> String {
    let mut text = String::new();
    for Key { name, quantity } in keys {
        text.push_str(&field(&format!("{name}{}", quantity.suffix())));
        text.push(',');
    }
    text.push_str(
        "scheduler,runs,class,rate_bps,rate_bps_ci95,delay_mean_s,delay_mean_s_ci95,delay_p99_s,delay_p99_s_ci95,lost,\
         lost_ci95\n",
    );
    for summary in summaries {
        for class in &summary.classes {
            for Key { name, .. } in keys {
                text.push_str(&summary.sweep.get(name).map_or_else(String::new, |setting| field(&shown(setting))));
                text.push(',');
            }
            text.push_str(&format!("{},{},{}", field(&summary.scheduler), summary.runs, field(&class.name)));
            for estimate in [Some(class.rate_bps), class.delay_s.mean, class.delay_s.p99, class.lost] {
                let mean = number(estimate.map(|estimate| estimate.mean));
                text.push_str(&format!(",{mean},{}", number(estimate.and_then(|estimate| estimate.ci95))));
            }
            text.push('\n');
        }
    }
    text
}

/// The value of a class that a panel shows.
type Measure = fn(&ClassSummary) -> Option<Estimate>;

/// Draws rate, mean delay, 99th percentile of the delay and losses against the first key. There is a line for each
/// class, scheduler and setting of the other keys. Bars are confidence intervals.
#[must_use]
pub fn figure(keys: &[Key], summaries: &[Summary], title: &str) -> Figure {
    let Some(key) = keys.first() else { return Figure::new(title, Vec::new()) };
    let (x, places) = abscissa(key, summaries);
    let mut lines: Vec<(String, Vec<(f64, &ClassSummary)>)> = Vec::new();
    let several = summaries.iter().any(|summary| summary.scheduler != summaries[0].scheduler);
    for (summary, &place) in summaries.iter().zip(&places) {
        let mut more = String::new();
        if several {
            more.push_str(&format!(" {}", summary.scheduler));
        }
        for other in &keys[1..] {
            let setting = summary.sweep.get(&other.name).map(shown).unwrap_or_default();
            more.push_str(&format!(" {}={setting}", other.name));
        }
        for class in &summary.classes {
            let name = format!("{}{more}", class.name);
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push((place, class)),
                None => lines.push((name, vec![(place, class)])),
            }
        }
    }
    lines.retain(|(_, points)| points.iter().any(|(_, class)| class.rate_bps.mean > 0.0 || class.lost.is_some()));
    let more = lines.len().saturating_sub(MAX_DRAWN);
    lines.truncate(MAX_DRAWN);
    for (_, points) in &mut lines {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let fastest = lines.iter().flat_map(|(_, points)| points).map(|(_, class)| class.rate_bps.mean).fold(0.0, f64::max);
    // At least one of the unit, if a link has ten.
    let unit = RateUnit::for_link(10.0 * fastest);
    let panel = |title: &str, label: String, of_time: bool, size: f64, measure: Measure| {
        let mut top = 0.0f64;
        let mut series = Vec::new();
        for (n, (name, points)) in lines.iter().enumerate() {
            let of = |(x, class): &(f64, &ClassSummary)| Some((*x, measure(class)?));
            let known: Vec<(f64, Estimate)> = points.iter().filter_map(of).collect();
            let errors: Vec<f64> = known.iter().map(|(_, of)| of.ci95.unwrap_or(0.0) / size).collect();
            let points: Vec<(f64, f64)> = known.iter().map(|(x, of)| (*x, of.mean / size)).collect();
            let ends = points.iter().zip(&errors).map(|(point, error)| point.1 + error);
            top = ends.fold(top, f64::max);
            let look = SeriesStyle::nth(n).layered(n, lines.len());
            let errors = if errors.iter().any(|&error| error > 0.0) { errors } else { Vec::new() };
            series.push(Series::line(name, points, look).with_errors(errors));
        }
        let y = Axis::linear(label, 0.0, if top > 0.0 { top * 1.05 } else { 1.0 });
        let y = if of_time { y.of_time() } else { y };
        Panel { series, ..Panel::new(title, x.clone(), y).high(230.0) }
    };
    let panels = vec![
        panel("rate", format!("rate ({})", unit.name), false, unit.bps, |class| Some(class.rate_bps)),
        panel("mean delay", "delay".into(), true, 1.0, |class| class.delay_s.mean),
        panel("99th percentile of the delay", "delay".into(), true, 1.0, |class| class.delay_s.p99),
        panel("lost", "% of the packets".into(), false, 0.01, |class| class.lost),
    ];
    let mut figure = Figure::new(title, panels);
    if summaries.iter().any(|summary| summary.runs > 1) {
        figure.notes.push("bars: 95 % confidence intervals of the means, by Student's t".to_owned());
    }
    figure.notes.extend(left_out(more));
    figure
}

/// Makes the axis of a key, and the place of each summary on it.
fn abscissa(key: &Key, summaries: &[Summary]) -> (Axis, Vec<f64>) {
    let setting = |summary: &Summary| summary.sweep.get(&key.name).cloned().unwrap_or(Setting::Text(String::new()));
    let numbers: Option<Vec<f64>> = summaries.iter().map(|summary| setting(summary).number()).collect();
    let Some(numbers) = numbers else {
        let mut names: Vec<String> = Vec::new();
        let mut known: BTreeMap<String, f64> = BTreeMap::new();
        let places = summaries.iter().map(|summary| {
            let name = shown(&setting(summary));
            *known.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() as f64 - 0.5
            })
        });
        let places: Vec<f64> = places.collect();
        return (Axis::names(&key.name, names), places);
    };
    let min = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let max = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let unit = RateUnit::for_link(10.0 * max);
    let (label, size) = match key.quantity {
        Quantity::Rate => (format!("{} ({})", key.name, unit.name), unit.bps),
        Quantity::Size => (format!("{} (bytes)", key.name), 1.0),
        Quantity::Packets => (format!("{} (packets)", key.name), 1.0),
        Quantity::Time | Quantity::Number => (key.name.clone(), 1.0),
    };
    let [min, max] = [min / size, max / size];
    let axis = if min > 0.0 && max > 50.0 * min {
        Axis::log(label, min, max)
    } else {
        // A little room on both sides, so that no marker lies on the frame.
        let room = if max > min { 0.04 * (max - min) } else { 0.5 };
        let low = min - room;
        Axis::linear(label, if min >= 0.0 { low.max(0.0) } else { low }, max + room)
    };
    let axis = if key.quantity == Quantity::Time { axis.of_time() } else { axis };
    (axis, numbers.into_iter().map(|number| number / size).collect())
}
