//! One latency-critical flow and three best-effort flows through one link: the common setting of most measurements of
//! the thesis, and their presentation.

use std::sync::Arc;

use fairlink_sim::statistics::Estimate;
use fairlink_sim::{Options, Run};
use fairlink_theory::as_printed::{Arrivals, MeanDelay};
use fairlink_theory::to_f64;

use crate::claims::laboratory::mean_delay;
use crate::claims::{ClaimError, Lab, Workload};
use fairlink_figures::axis::Axis;
use fairlink_figures::figure::{Panel, Series, SeriesStyle};

/// Both schedulers of the thesis, in the order of their runs.
pub(super) const SCHEDULERS: [&str; 2] = ["drr++", "drr+"];
/// Place of DRR++ in [`SCHEDULERS`].
pub(super) const NEW: usize = 0;
/// Place of DRR+.
pub(super) const OLD: usize = 1;
/// The flows: the latency-critical one and the best-effort ones.
pub(super) const FLOWS: [&str; 4] = ["lc", "be1", "be2", "be3"];
/// Their names in figures.
pub(super) const NAMES: [&str; 4] = ["latency-critical", "best-effort 1", "best-effort 2", "best-effort 3"];
/// The rate of the link in the exponential runs, in bit/s. DIFFERENCE: the thesis says 125 kbit/s once; its arithmetic and its utilisations need
/// 250.
pub(super) const LINK_BPS: f64 = 250e3;
/// Mean length of a packet of the exponential traffic, header included, in bytes.
pub(super) const PACKET: f64 = 410.0;

/// Number of runs of 100 s for each point: a multiple of the thesis' five.
pub(super) fn runs(lab: &Lab<'_>) -> u64 {
    lab.by_effort(10, 50)
}

/// Runs of one scenario under both schedulers, on the same arrivals.
pub(super) struct Point {
    /// Its position on the x axis.
    pub(super) x: f64,
    runs: Arc<Vec<Run>>,
    /// A seed that is left out, for [`jackknife`].
    without: Option<usize>,
}

/// Estimates a statistic of the points of a sweep by leaving out each seed once at all of them.
pub(super) fn jackknife(
    points: &[Point],
    statistic: impl Fn(&[Point]) -> Result<f64, ClaimError>,
) -> Result<Estimate, ClaimError> {
    let seeds = points.first().map_or(0, |point| point.runs.len() / SCHEDULERS.len());
    Estimate::jackknife(seeds, |without| {
        let left = |point: &Point| Point { x: point.x, runs: Arc::clone(&point.runs), without };
        statistic(&points.iter().map(left).collect::<Vec<_>>())
    })
}

impl Point {
    /// Plays `workload`.
    pub(super) fn play(lab: &Lab<'_>, x: f64, workload: &Workload) -> Result<Self, ClaimError> {
        Ok(Self { x, runs: lab.play(workload, &SCHEDULERS, runs(lab), &Options::default())?, without: None })
    }

    /// Returns `value` of each run under a scheduler, by seed.
    pub(super) fn values(&self, scheduler: usize, value: impl Fn(&Run) -> Option<f64>) -> Vec<Option<f64>> {
        let each = self.runs.len() / SCHEDULERS.len();
        let runs = self.runs[scheduler * each..][..each].iter().enumerate();
        runs.filter(|&(seed, _)| Some(seed) != self.without).map(|(_, run)| value(run)).collect()
    }

    /// Returns the mean delays of a flow, by seed, in seconds.
    pub(super) fn delays(&self, scheduler: usize, flow: &str) -> Vec<Option<f64>> {
        self.values(scheduler, |run| mean_delay(run, flow))
    }

    /// Returns the mean delay of a flow, in seconds.
    pub(super) fn delay(&self, scheduler: usize, flow: &str) -> Result<Estimate, ClaimError> {
        estimate(&self.delays(scheduler, flow))
    }

    /// Difference of a flow's mean delays under DRR+ and DRR++, seed by seed.
    pub(super) fn gain(&self, flow: &str) -> Result<Estimate, ClaimError> {
        difference(&self.delays(OLD, flow), &self.delays(NEW, flow))
    }
}

/// Returns the least of all points.
pub(super) fn least(points: &[Point], value: impl Fn(&Point) -> Result<f64, ClaimError>) -> Result<f64, ClaimError> {
    points.iter().try_fold(f64::INFINITY, |least, point| Ok(least.min(value(point)?)))
}

/// Returns the largest of all points.
pub(super) fn largest(points: &[Point], value: impl Fn(&Point) -> Result<f64, ClaimError>) -> Result<f64, ClaimError> {
    least(points, |point| Ok(-value(point)?)).map(|least| -least)
}

/// Returns the estimate of these values.
pub(super) fn estimate(values: &[Option<f64>]) -> Result<Estimate, ClaimError> {
    Estimate::from_values(&values.iter().copied().flatten().collect::<Vec<f64>>()).ok_or_else(none)
}

/// Returns the estimate of the differences of values of the same seeds.
pub(super) fn difference(values: &[Option<f64>], others: &[Option<f64>]) -> Result<Estimate, ClaimError> {
    Estimate::of_differences(values, others).ok_or_else(none)
}

fn none() -> ClaimError {
    ClaimError::other("no run has a value")
}

/// Returns the point of a sweep at `x`.
pub(super) fn at(points: &[Point], x: f64) -> Result<&Point, ClaimError> {
    points.iter().find(|point| point.x == x).ok_or_else(|| ClaimError::other(format!("the sweep has no point {x}")))
}

/// A line with error bars through `value` of each point.
pub(super) fn line(
    name: &str,
    points: &[Point],
    look: SeriesStyle,
    value: impl Fn(&Point) -> Result<Estimate, ClaimError>,
) -> Result<Series, ClaimError> {
    let values: Vec<(f64, Estimate)> = points.iter().filter_map(|point| Some((point.x, value(point).ok()?))).collect();
    if values.is_empty() {
        return Err(none());
    }
    let errors = values.iter().map(|(_, estimate)| estimate.ci95.unwrap_or(0.0)).collect();
    let points = values.iter().map(|(x, estimate)| (*x, estimate.mean)).collect();
    Ok(Series::line(name, points, look).with_errors(errors))
}

/// Returns the least and the largest value above zero of these series, their error bars included.
pub(super) fn span(series: &[Series]) -> (f64, f64) {
    let ends = |series: &Series| -> Vec<f64> {
        let error = |n: usize| series.errors.get(n).copied().unwrap_or(0.0);
        series.points.iter().enumerate().flat_map(|(n, &(_, y))| [y - error(n), y, y + error(n)]).collect()
    };
    let values = series.iter().flat_map(ends).filter(|value| value.is_finite() && *value > 0.0);
    values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)))
}

/// Delays by powers of ten over `x`.
pub(super) fn delay_panel(title: &str, x: Axis, series: Vec<Series>) -> Panel {
    let (low, high) = span(&series);
    let mut panel = Panel::new(title, x, Axis::log("mean delay", low, high).of_time()).high(380.0);
    panel.series = series;
    panel
}

/// Theorem 1 as in `fairlink check`, in seconds, for a scenario of the exponential traffic in which the
/// latency-critical flow `lc` sends `lambda` packets a second. `None` if a round cannot carry the flow by the theorem.
pub(super) fn theorem_1(workload: &Workload, lambda: u32) -> Result<Option<f64>, ClaimError> {
    let tree = workload.read(SCHEDULERS[NEW])?.link.tree;
    let lc = tree.leaves().iter().copied().find(|&leaf| tree.config(leaf).latency_critical);
    let lc = lc.ok_or_else(|| ClaimError::other("no latency-critical class"))?;
    let mean_packet = PACKET as u32;
    let arrivals = Arrivals { rate_bps: u64::from(8 * lambda * mean_packet), mean_packet };
    Ok(MeanDelay::for_class(&tree, lc, arrivals).and_then(|theorem| theorem.seconds).map(|seconds| to_f64(&seconds)))
}
