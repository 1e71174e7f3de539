//! Distributions of delays: their shares, their tails, and box plots of classes and schedulers side by side.

use fairlink_sim::{Distribution, Run};

use super::axis::Axis;
use super::figure::{BoxPlot, Figure, Join, Panel, Series, SeriesStyle};
use super::{MAX_DRAWN, field, left_out};

/// Delays of one class under one scheduler, of all runs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    /// The class.
    pub class: String,
    /// Their distribution.
    pub distribution: Distribution,
    /// Their mean in seconds.
    pub mean_s: f64,
}

/// Delays of each class of `runs`, which are of one scheduler. Classes without packets are left out.
#[must_use]
pub fn of_runs(runs: &[&Run]) -> Vec<Delays> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of = |index: usize| {
        let known = || {
            runs.iter().filter_map(|run| Some((run.distributions.get(index)?, run.classes.get(index)?.delay().mean?)))
        };
        let count: f64 = known().map(|(delays, _)| delays.count() as f64).sum();
        let sum: f64 = known().map(|(delays, mean)| delays.count() as f64 * mean).sum();
        let distribution = Distribution::of_all(known().map(|(delays, _)| delays));
        let class = first.classes[index].name.clone();
        (count > 0.0).then(|| Delays { class, distribution, mean_s: sum / count })
    };
    (0..first.classes.len()).filter_map(of).collect()
}

/// Returns the number of packets up to each of a few hundred delays, for each scheduler and class.
#[must_use]
pub fn csv(schedulers: &[(String, Vec<Delays>)]) -> String {
    let mut text = String::from("scheduler,class,delay_s,packets,share_at_most,share_above\n");
    for (scheduler, classes) in schedulers {
        for Delays { class, distribution, .. } in classes {
            let all = distribution.count();
            for &(delay, count) in distribution.points() {
                let [below, above] = [count, all - count].map(|part| part as f64 / all as f64);
                text.push_str(&format!("{},{},{delay},{count},{below},{above}\n", field(scheduler), field(class)));
            }
        }
    }
    text
}

/// An axis of delays: logarithmic if they differ much.
fn delay_axis(distributions: &[&Distribution], label: &str) -> Axis {
    let ends = distributions.iter().flat_map(|delays| [delays.points().first(), delays.points().last()]);
    let ends = || ends.clone().flatten().map(|&(delay, _)| delay);
    let (min, max) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
    if max > 20.0 * min.max(1e-9) {
        Axis::log(label, min.max(1e-9), max).of_time()
    } else {
        Axis::linear(label, 0.0, max * 1.05).of_time()
    }
}

/// Draws, for each class, the share of packets with at most a given delay. Below it is the share with a longer one, by
/// powers of ten.
#[must_use]
pub fn distributions(delays: &[Delays], title: &str) -> Figure {
    let drawn = &delays[..delays.len().min(MAX_DRAWN)];
    let all: Vec<&Distribution> = drawn.iter().map(|class| &class.distribution).collect();
    let x = delay_axis(&all, "delay");
    let fewest = all.iter().map(|delays| delays.count()).max().unwrap_or(1).max(10);
    let mut shares =
        Panel::new("share of packets that took at most so long", x.clone(), Axis::linear("share of packets", 0.0, 1.0));
    let mut tails =
        Panel::new("share of packets that took longer", x, Axis::log("share of packets", 1.0 / fewest as f64, 1.0));
    for (n, Delays { class, distribution, .. }) in drawn.iter().enumerate() {
        let count = distribution.count() as f64;
        let look = SeriesStyle::nth(n).layered(n, drawn.len());
        let mut below = 0.0;
        let (mut share, mut tail) = (Vec::new(), Vec::new());
        for &(delay, at_most) in distribution.points() {
            if below == 0.0 {
                share.push((delay, 0.0));
                tail.push((delay, 1.0));
            }
            below = at_most as f64 / count;
            share.push((delay, below));
            // The tail ends at one remaining packet: none takes longer than the longest.
            let above = (count - at_most as f64).max(0.0) / count;
            tail.push((delay, if above > 0.0 { above } else { tail.last().map_or(1.0, |last: &(f64, f64)| last.1) }));
        }
        shares.series.push(Series { join: Join::Steps, ..Series::line(class, share, look) });
        tails.series.push(Series { join: Join::Steps, ..Series::line(class, tail, look) });
    }
    let mut figure = Figure::new(title, vec![shares, tails]);
    figure.notes.extend(left_out(delays.len() - drawn.len()));
    figure
}

/// Draws box plots: classes along the axis, and for each a box of each scheduler.
#[must_use]
pub fn boxes(schedulers: &[(String, Vec<Delays>)], title: &str) -> Figure {
    let mut classes: Vec<&str> = Vec::new();
    for delays in schedulers.iter().flat_map(|(_, delays)| delays) {
        if !classes.contains(&delays.class.as_str()) {
            classes.push(&delays.class);
        }
    }
    let more = classes.len().saturating_sub(MAX_DRAWN);
    classes.truncate(MAX_DRAWN);
    let drawn = &schedulers[..schedulers.len().min(MAX_DRAWN)];
    let all: Vec<&Distribution> =
        drawn.iter().flat_map(|(_, delays)| delays).map(|class| &class.distribution).collect();
    let x = Axis::names("class", classes.iter().map(|&class| class.to_owned()).collect());
    let mut panel = Panel::new("", x, delay_axis(&all, "delay")).high(420.0);
    let slot = 0.8 / drawn.len().max(1) as f64;
    for (n, (scheduler, delays)) in drawn.iter().enumerate() {
        for Delays { class, distribution, mean_s } in delays {
            let Some(place) = classes.iter().position(|known| known == class) else { continue };
            let at = |share| distribution.quantile(share).unwrap_or(0.0);
            panel.spreads.push(BoxPlot {
                name: scheduler.clone(),
                x: place as f64 + 0.1 + slot * (n as f64 + 0.5),
                width: (0.7 * slot).min(0.3),
                whiskers: (at(0.01), at(0.99)),
                quartiles: (at(0.25), at(0.75)),
                median: at(0.5),
                mean: *mean_s,
                max: at(1.0),
                look: SeriesStyle::nth(n),
            });
        }
    }
    let mut figure = Figure::new(title, vec![panel]);
    figure
        .notes
        .push("box: quartiles and median; whiskers: 1st and 99th percentile; marker: mean; dot: longest".to_owned());
    figure.notes.extend(left_out(more + schedulers.len() - drawn.len()));
    figure
}
