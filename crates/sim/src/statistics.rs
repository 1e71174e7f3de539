//! Statistics of several runs: means with confidence intervals, paired differences, Jain's index, and the end of the
//! warm-up.
//!
//! # Sources
//! - Student's t: R. Jain, *The Art of Computer Systems Performance Analysis*, Wiley 1991, Sections 13.2 and 13.4.1 (pairs).
//! - The normal interval: the DRR++ thesis, Section 5.1, which takes 1.96 s / sqrt(n).
//! - Jain's index: R. Jain, D. Chiu, W. Hawe, *A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
//!   Shared Computer Systems*, DEC-TR-301, 1984.
//! - MSER-5: K. P. White, *An Effective Truncation Heuristic for Bias Reduction in Simulation Output*, Simulation 69(6), 1997,
//!   and K. P. White, M. J. Cobb, S. C. Spratt, *A Comparison of Five Steady-State Truncation Heuristics for Simulation*, WSC 2000.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

pub mod summary;

/// The mean of a few independent values and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Mean of the values, in their unit.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval by Student's t with n - 1 degrees of freedom: t s / sqrt(n).
    /// `None` for a single value.
    pub ci95: Option<f64>,
    /// The same by the normal distribution, in the same unit: 1.96 s / sqrt(n), the thesis' formula. Too narrow for a few values.
    pub ci95_normal: Option<f64>,
    /// Number of values: fewer than runs if some had none.
    pub n: usize,
}

/// Quantile 0.975 of the normal distribution, as the thesis rounds it.
const NORMAL: f64 = 1.96;

impl Estimate {
    /// Estimates the mean of these values; `None` if there are none.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = mean(values);
        if n == 1 {
            return Some(Self { mean, ci95: None, ci95_normal: None, n });
        }
        // About the mean, so that large values with small differences keep their digits.
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (n - 1) as f64).sqrt() / (n as f64).sqrt();
        Some(Self { mean, ci95: Some(student_t(n - 1) * error), ci95_normal: Some(NORMAL * error), n })
    }

    /// Estimates `values` minus `others`, pair by pair: runs on the same arrivals. Incomplete pairs are left out.
    #[must_use]
    pub fn of_differences(values: &[Option<f64>], others: &[Option<f64>]) -> Option<Self> {
        let both = values.iter().zip(others).filter_map(|(&value, &other)| Some(value? - other?));
        Self::from_values(&both.collect::<Vec<f64>>())
    }

    /// Estimates a statistic of `n` runs, such as a ratio of two means: `statistic(None)` is that of all runs, and
    /// `statistic(Some(i))` that without run `i`, from 0. The intervals are the jackknife's: those of the mean of the
    /// pseudovalues. An infinite width means that the statistic does not exist without one of the runs.
    ///
    /// ```
    /// use fairlink_sim::statistics::Estimate;
    ///
    /// let (lost, sent) = ([3.0, 5.0, 4.0], [100.0, 110.0, 90.0]);
    /// let sum = |of: &[f64], without| of.iter().enumerate().filter(|(i, _)| Some(*i) != without).map(|(_, x)| x).sum::<f64>();
    /// let part = Estimate::jackknife(3, |without| Ok::<_, ()>(sum(&lost, without) / sum(&sent, without)))?;
    /// assert_eq!(part.mean, 0.04);
    /// # Ok::<(), ()>(())
    /// ```
    ///
    /// # Errors
    /// That of `statistic`.
    pub fn jackknife<E>(n: usize, statistic: impl Fn(Option<usize>) -> Result<f64, E>) -> Result<Self, E> {
        let mean = statistic(None)?;
        if n < 2 {
            return Ok(Self { mean, ci95: None, ci95_normal: None, n });
        }
        let without = (0..n).map(|run| statistic(Some(run))).collect::<Result<Vec<f64>, E>>()?;
        let middle = without.iter().sum::<f64>() / n as f64;
        let squares: f64 = without.iter().map(|value| (value - middle).powi(2)).sum();
        let error = (squares * (n - 1) as f64 / n as f64).sqrt();
        let width = |factor: f64| Some(if error.is_nan() { f64::INFINITY } else { factor * error });
        Ok(Self { mean, ci95: width(student_t(n - 1)), ci95_normal: width(NORMAL), n })
    }

    /// Returns true if the interval excludes zero; `None` if there is no interval.
    #[must_use]
    pub fn differs_from_zero(&self) -> Option<bool> {
        self.ci95.map(|width| self.mean.abs() > width)
    }
}

/// Quantile 0.975 of Student's t with this number of degrees of freedom, at least one.
#[must_use]
pub fn student_t(degrees: usize) -> f64 {
    // For larger numbers, the incomplete beta function behind it loses digits, and the normal distribution agrees to
    // four of them.
    if degrees > 5_000 {
        return 1.959_964;
    }
    StudentsT::new(0.0, 1.0, degrees.max(1) as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

/// Equal values have exactly that mean, regardless of rounding.
fn mean(values: &[f64]) -> f64 {
    let first = values[0];
    first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64
}

/// Jain's index of shares, each relative to its fair share: 1 if all are equal, k / n if k of n have everything. `None`
/// if all are zero.
#[must_use]
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Observations in a batch of MSER-5.
pub const MSER_BATCH: usize = 5;
/// Batches that MSER-5 needs to say anything.
const MSER_LEAST: usize = 10;

/// Returns the number of observations, in time order, that are warm-up by MSER-5, a multiple of [`MSER_BATCH`].
///
/// The observations are averaged in batches of five. Of k batches the first d are left out; d minimizes the marginal
/// standard error of the mean of the others. `None` if d would be in the second half, which means that the series is
/// too short or never steady, or if there are fewer than ten batches.
#[must_use]
pub fn mser5(observations: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = observations.chunks_exact(MSER_BATCH).map(mean).collect();
    let count = batches.len();
    if count < MSER_LEAST {
        return None;
    }
    // From the back: mean and sum of squares of the rest, by Welford's recurrence.
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for cut in (0..count).rev() {
        let remaining = (count - cut) as f64;
        let off = batches[cut] - mean;
        mean += off / remaining;
        squares += off * (batches[cut] - mean);
        // A few batches at the end are alike by chance: the rule leaves the last five out.
        if remaining > 5.0 {
            let error = squares / (remaining * remaining);
            // Of equal ones the shortest warm-up.
            if best.is_none_or(|(least, _)| error <= least) {
                best = Some((error, cut));
            }
        }
    }
    best.map(|(_, cut)| cut).filter(|&cut| 2 * cut <= count).map(|cut| cut * MSER_BATCH)
}

#[cfg(test)]
mod tests;
