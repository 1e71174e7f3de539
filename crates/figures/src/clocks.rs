//! The relative offset of two clocks against time (DRR++ thesis, Figures 4.4 to 4.6), and their skew.

use fairlink_traffic::clocks::Clocks;

use super::axis::Axis;
use super::figure::{Event, Figure, Panel, Series, SeriesStyle};

/// Points of the curve of each stretch.
const STEPS: u32 = 60;
/// Most points that are drawn; the CSV has all.
const DRAWN: usize = 50;

/// Returns the offset at the first packet, or where that is undecided, its delay.
fn first(clocks: &Clocks) -> f64 {
    clocks.offset_at(0.0).or_else(|| clocks.points.first().map(|point| point.1)).unwrap_or(0.0)
}

/// One row for each point of the lower envelope: time since the first packet, relative offset as measured, as fitted,
/// and the skew. The last two are empty where clocks and queues cannot be told apart.
#[must_use]
pub fn csv(clocks: &Clocks) -> String {
    let first = first(clocks);
    let mut text = String::from("time_s,relative_offset_s,fitted_relative_offset_s,skew\n");
    for &(at, offset) in &clocks.points {
        let fitted = clocks.stretch_at(at).map_or_else(
            || ",".to_owned(),
            |stretch| {
                let from_middle = at - (stretch.start_s + stretch.end_s) / 2.0;
                let skew = stretch.skew.value + stretch.drift.value * from_middle;
                format!("{:.9},{skew:e}", stretch.offset_at(at) - first)
            },
        );
        text.push_str(&format!("{at:.9},{:.9},{fitted}\n", offset - first));
    }
    text
}

/// Draws the shortest delays of short spans of time, relative to the first, with the envelope; and the skew. Jumps are
/// marked.
#[must_use]
pub fn figure(clocks: &Clocks, title: &str) -> Figure {
    let first = first(clocks);
    let end = clocks.end_s();
    let seen: Vec<(f64, f64)> = clocks.points.iter().map(|&(at, offset)| (at, (offset - first) * 1e3)).collect();
    let (mut fitted, mut skews) = (Vec::new(), Vec::new());
    for stretch in &clocks.stretches {
        let middle = (stretch.start_s + stretch.end_s) / 2.0;
        for step in 0..=STEPS {
            let at = stretch.start_s + (stretch.end_s - stretch.start_s) * f64::from(step) / f64::from(STEPS);
            fitted.push((at, (stretch.offset_at(at) - first) * 1e3));
            skews.push((at, (stretch.skew.value + stretch.drift.value * (at - middle)) * 1e6));
        }
        // Interrupted at its end.
        fitted.push((stretch.end_s, f64::NAN));
        skews.push((stretch.end_s, f64::NAN));
    }
    let y = |label: &str, points: &[(f64, f64)]| {
        let finite = || points.iter().map(|point| point.1).filter(|y| y.is_finite());
        let (low, high) = finite()
            .fold(None, |range: Option<(f64, f64)>, y| {
                range.map_or(Some((y, y)), |(low, high)| Some((low.min(y), high.max(y))))
            })
            .unwrap_or_default();
        let room = ((high - low) * 0.06).max(high.abs().max(low.abs()) * 0.01).max(1e-6);
        Axis::linear(label, low - room, high + room)
    };
    let time = || Axis::linear("time since the first packet (s)", 0.0, end);
    let jumps: Vec<Event> = clocks
        .jumps()
        .map(|jump| Event { x: jump.at_s.value, text: format!("{:+.3} ms", jump.jump_s.value * 1e3) })
        .collect();
    let axis = y("offset (ms)", &seen);
    // Markers that touch would hide the envelope.
    let every = seen.len().div_ceil(DRAWN).max(1);
    let thinned = seen.into_iter().step_by(every).collect();
    let mut offset = Panel::new("relative offset of the receiver's clock", time(), axis).high(330.0);
    offset.series = vec![
        Series::points("shortest delays", thinned, SeriesStyle::nth(0)),
        Series::line("envelope", fitted, SeriesStyle::reference()),
    ];
    offset.events.clone_from(&jumps);
    let mut skew = Panel::new("skew", time(), y("skew (ppm)", &skews)).high(170.0);
    skew.series = vec![Series::line("envelope", skews, SeriesStyle::reference())];
    skew.events = jumps;
    let mut figure = Figure::new(title, vec![offset, skew]);
    figure.notes.push("Relative to the first packet. Below the axes: jumps of the offset.".to_owned());
    if !clocks.undecided.is_empty() {
        figure.notes.push("No envelope: clocks and queues cannot be told apart there.".to_owned());
    }
    figure
}
