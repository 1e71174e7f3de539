//! Runs of one scenario that differ in their seeds alone, summed up, and schedulers on the same arrivals compared.

use std::collections::BTreeMap;

use fairlink_report::{ClassReport, ClassSpan};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Estimate, jain_index};
use crate::report::{Phase, Run, Setting};

/// All runs of one scheduler on one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// The scheduler's name.
    pub scheduler: String,
    /// Values changed from the scenario.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Setting>,
    /// Number of runs.
    pub runs: usize,
    /// Left out of each from the start.
    pub warmup_s: f64,
    /// Share of the time after the warmup in which the link was sending.
    pub link_utilisation: Estimate,
    /// The leaves, in the order of [`Run::classes`].
    pub classes: Vec<ClassSummary>,
    /// The phases.
    pub phases: Vec<PhaseSummary>,
}

/// The results of a leaf in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassSummary {
    /// The leaf.
    pub name: String,
    /// Mean rate after the warmup.
    pub rate_bps: Estimate,
    /// Delays.
    pub delay_s: DelaySummary,
    /// The part of the offered packets that was dropped; `None` if none was offered.
    pub lost: Option<Estimate>,
}

/// Delays in all runs: estimates of the runs' measurements. `None` if no run had packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DelaySummary {
    /// Estimate of the mean.
    pub mean: Option<Estimate>,
    /// Estimate of the median.
    pub p50: Option<Estimate>,
    /// Estimate of the 99th percentile.
    pub p99: Option<Estimate>,
    /// Estimate of the percentile 99.9.
    pub p999: Option<Estimate>,
    /// Estimate of the maximum.
    pub max: Option<Estimate>,
}

/// A phase in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseSummary {
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Jain's index of rates relative to max-min fair rates.
    pub jain_index: Option<Estimate>,
    /// The leaves.
    pub classes: Vec<RateSummary>,
}

/// A leaf's rate in a phase, in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RateSummary {
    /// The leaf.
    pub name: String,
    /// Its rate after the phase has settled.
    pub settled_bps: Estimate,
    /// Its max-min fair rate, the mean over the runs.
    pub fair_bps: f64,
    /// Its rate by the scheduler's own rule, the mean over the runs. Absent if it is not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_bps: Option<f64>,
}

/// A scheduler less another, run by run on the same arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The scheduler.
    pub scheduler: String,
    /// The other, which was named first.
    pub against: String,
    /// Values changed from the scenario.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Setting>,
    /// Number of pairs of runs.
    pub runs: usize,
    /// The leaves.
    pub classes: Vec<ClassDifference>,
}

/// The difference of a leaf's results under two schedulers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassDifference {
    /// The leaf.
    pub name: String,
    /// Difference of the mean rate.
    pub rate_bps: Option<Paired>,
    /// Difference of the delay.
    pub delay_s: DelayDifference,
    /// Difference of the part of its packets that was lost.
    pub lost: Option<Paired>,
}

/// Differences of delays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DelayDifference {
    /// Difference of the mean.
    pub mean: Option<Paired>,
    /// Difference of the 99th percentile.
    pub p99: Option<Paired>,
}

/// A mean of differences of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Paired {
    /// The mean and its interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// True if the interval by Student's t leaves out zero.
    pub different: Option<bool>,
}

impl Phase {
    /// Jain's index of the rates of leaves relative to their max-min fair rates, after the phase has settled: 1 if all
    /// get the same part. Leaves with a fair rate of zero do not count. `None` if no leaf has one or gets anything.
    #[must_use]
    pub fn jain_index(&self) -> Option<f64> {
        let share = |class: &ClassSpan| class.rates.settled() / class.rates.fair();
        let asking = self.classes.iter().filter(|class| class.rates.fair() > 0.0);
        jain_index(&asking.map(share).collect::<Vec<_>>())
    }
}

/// Returns true if two runs differ in their seeds alone.
fn same(one: &Run, other: &Run) -> bool {
    one.scheduler == other.scheduler && one.sweep == other.sweep
}

/// Sums up `runs`: each row of runs of one scheduler and one setting becomes one summary.
#[must_use]
pub fn summaries(runs: &[Run]) -> Vec<Summary> {
    runs.chunk_by(same).filter_map(summary).collect()
}

fn summary(runs: &[Run]) -> Option<Summary> {
    let first = runs.first()?;
    Some(Summary {
        scheduler: first.scheduler.clone(),
        sweep: first.sweep.clone(),
        runs: runs.len(),
        warmup_s: first.warmup_s,
        link_utilisation: of(runs, |run| Some(run.link_utilisation))?,
        classes: (0..first.classes.len()).filter_map(|index| class(runs, index)).collect(),
        phases: (0..first.phases.len()).map(|index| phase(runs, index)).collect(),
    })
}

/// Returns the estimate of `value` over the runs.
fn of(runs: &[Run], value: impl Fn(&Run) -> Option<f64>) -> Option<Estimate> {
    Estimate::from_values(&runs.iter().filter_map(value).collect::<Vec<_>>())
}

fn class(runs: &[Run], index: usize) -> Option<ClassSummary> {
    let estimate = |value: fn(&ClassReport) -> Option<f64>| of(runs, |run| run.classes.get(index).and_then(value));
    Some(ClassSummary {
        name: runs[0].classes[index].name.clone(),
        rate_bps: estimate(|class| class.rates.rate_bps)?,
        delay_s: DelaySummary {
            mean: estimate(|class| class.delay().mean),
            p50: estimate(|class| class.delay().p50),
            p99: estimate(|class| class.delay().p99),
            p999: estimate(|class| class.delay().p999),
            max: estimate(|class| class.delay().max),
        },
        lost: estimate(|class| class.counts().lost()),
    })
}

fn phase(runs: &[Run], index: usize) -> PhaseSummary {
    let first = &runs[0].phases[index];
    let class = |(place, name): (usize, &String)| {
        let rate = |run: &Run| run.phases.get(index)?.classes.get(place)?.rates.settled_bps;
        let fair = |run: &Run| run.phases.get(index)?.classes.get(place)?.rates.fair_bps;
        let ideal = |run: &Run| run.phases.get(index)?.classes.get(place)?.rates.ideal_bps;
        let settled_bps = of(runs, rate)?;
        Some(RateSummary {
            name: name.clone(),
            settled_bps,
            fair_bps: of(runs, fair)?.mean,
            ideal_bps: of(runs, ideal).map(|ideal| ideal.mean),
        })
    };
    PhaseSummary {
        start_s: first.start_s,
        end_s: first.end_s,
        jain_index: of(runs, |run| run.phases.get(index)?.jain_index()),
        classes: first.classes.iter().map(|class| &class.name).enumerate().filter_map(class).collect(),
    }
}

/// Compares each scheduler with the first one, run by run: the first run of one with the first of the other, and so on.
/// They had the same seeds, so random effects are mostly the same in both (common random numbers).
#[must_use]
pub fn differences(runs: &[Run]) -> Vec<Difference> {
    let mut all = Vec::new();
    for setting in runs.chunk_by(|one, other| one.sweep == other.sweep) {
        let mut schedulers = setting.chunk_by(same);
        let Some(first) = schedulers.next() else { continue };
        all.extend(schedulers.map(|other| difference(other, first)));
    }
    all
}

fn difference(runs: &[Run], against: &[Run]) -> Difference {
    let class = |index: usize| {
        let paired = |value: fn(&ClassReport) -> Option<f64>| {
            let values = |runs: &[Run]| -> Vec<Option<f64>> {
                runs.iter().map(|run| run.classes.get(index).and_then(value)).collect()
            };
            let estimate = Estimate::of_differences(&values(runs), &values(against))?;
            Some(Paired { estimate, different: estimate.differs_from_zero() })
        };
        ClassDifference {
            name: runs[0].classes[index].name.clone(),
            rate_bps: paired(|class| class.rates.rate_bps),
            delay_s: DelayDifference {
                mean: paired(|class| class.delay().mean),
                p99: paired(|class| class.delay().p99),
            },
            lost: paired(|class| class.counts().lost()),
        }
    };
    Difference {
        scheduler: runs[0].scheduler.clone(),
        against: against[0].scheduler.clone(),
        sweep: runs[0].sweep.clone(),
        runs: runs.len().min(against.len()),
        classes: (0..runs[0].classes.len()).map(class).collect(),
    }
}
