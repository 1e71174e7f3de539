//! Traffic of the wrong leaves against the length of windows.

use fairlink_sim::{Misplaced, MisplacedIn, Run};

use super::axis::Axis;
use super::figure::{Figure, Panel, Series, SeriesStyle};
use super::{field, number};

/// One row for each run and length of windows.
#[must_use]
pub fn csv(runs: &[(&Run, &Misplaced)]) -> String {
    let mut text = String::from("scheduler,seed,window_s,mean_part,worst_part,farthest_bytes,farthest_class\n");
    for (run, found) in runs {
        for window in &found.windows {
            text.push_str(&format!(
                "{},{},{},{},{},{:.0},{}\n",
                field(&run.scheduler),
                run.seed,
                window.window_s,
                number(Some(window.mean)),
                number(Some(window.worst)),
                found.farthest_bytes,
                field(&found.class)
            ));
        }
    }
    text
}

/// The mean and the worst of each run, a line each, in percent of what the link sent.
#[must_use]
pub fn figure(runs: &[(&Run, &Misplaced)], title: &str) -> Figure {
    let panel = |title: &str, part: fn(&MisplacedIn) -> f64| {
        let mut series = Vec::new();
        let mut top = 0.0f64;
        for (n, (run, found)) in runs.iter().enumerate() {
            let points: Vec<(f64, f64)> = found.windows.iter().map(|of| (of.window_s, 100.0 * part(of))).collect();
            top = points.iter().fold(top, |top, point| top.max(point.1));
            series.push(Series::line(&run.scheduler, points, SeriesStyle::nth(n).layered(n, runs.len())));
        }
        let lengths = runs.iter().flat_map(|(_, found)| &found.windows).map(|of| of.window_s);
        let longest = lengths.fold(1e-3, f64::max);
        let x = Axis::log("length of the windows", 0.8e-3, 1.25 * longest).of_time();
        let y = Axis::linear("% of the bytes sent", 0.0, if top > 0.0 { 1.05 * top } else { 1.0 });
        Panel { series, ..Panel::new(title, x, y).high(230.0) }
    };
    Figure::new(title, vec![panel("mean", |of| of.mean), panel("worst window", |of| of.worst)])
}
