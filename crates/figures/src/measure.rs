//! Measurement of runs, and deviation of measured rates from their ideal, hierarchical max-min fairness, phase by
//! phase. The measurements may come from the simulator or from real packets.

pub use fairlink_api::SETTLE;
use fairlink_core::{NANOS_PER_SEC, Nanos};
use fairlink_report::ClassSpan;
use fairlink_sim::{Options, Phase};

/// Rates against time are averages over windows of this length, one after the other, as in the graphs of \[hls\] Section VIII.
pub const WINDOW: Nanos = Nanos(NANOS_PER_SEC / 5);

/// Options of the experiments' measurements.
pub const OPTIONS: Options = Options { window: Some(WINDOW), settle: SETTLE, metrics: false };

/// The largest deviation from the ideal, relative to it, that counts as hierarchical max-min fair.
pub const TOLERANCE: f64 = 0.02;

/// A class's rate in a phase against its ideal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation<'a> {
    /// The index of the phase.
    pub phase: usize,
    /// The class.
    pub class: &'a str,
    /// Its rate after the start of the phase was left out, in bit/s.
    pub measured_bps: f64,
    /// Its ideal rate in bit/s.
    pub ideal_bps: f64,
    /// The distance of the two, as [`relative`] has it.
    pub relative: f64,
}

impl<'a> Deviation<'a> {
    /// Makes the sharing of `class` in the phase with this index, on a link of `link_bps`. All rates in bit/s.
    #[must_use]
    pub fn new(phase: usize, class: &'a str, measured_bps: f64, ideal_bps: f64, link_bps: f64) -> Self {
        Self { phase, class, measured_bps, ideal_bps, relative: relative(measured_bps, ideal_bps, link_bps) }
    }
}

/// Deviation of `measured_bps` from `ideal_bps`: a part of the ideal, or of the link's rate if the ideal is zero. All
/// rates in bit/s.
#[must_use]
pub fn relative(measured_bps: f64, ideal_bps: f64, link_bps: f64) -> f64 {
    (measured_bps - ideal_bps).abs() / if ideal_bps > 0.0 { ideal_bps } else { link_bps }
}

/// Returns the deviations of all leaves in all phases of a simulation from max-min fairness, on a link of `link_bps`
/// bit/s.
pub fn deviations(phases: &[Phase], link_bps: f64) -> impl Iterator<Item = Deviation<'_>> {
    each(phases, link_bps, |class| class.rates.fair_bps)
}

/// Returns the deviations from the scheduler's own ideal, if it is computed.
pub fn from_ideal(phases: &[Phase], link_bps: f64) -> impl Iterator<Item = Deviation<'_>> {
    each(phases, link_bps, |class| class.rates.ideal_bps)
}

fn each(phases: &[Phase], link_bps: f64, ideal: fn(&ClassSpan) -> Option<f64>) -> impl Iterator<Item = Deviation<'_>> {
    phases.iter().enumerate().flat_map(move |(phase, rates)| {
        rates.classes.iter().filter_map(move |class| {
            Some(Deviation::new(phase, &class.name, class.rates.settled(), ideal(class)?, link_bps))
        })
    })
}

/// Returns the largest deviation, the first one if several are equal; `None` without measurements.
#[must_use]
pub fn worst<'a>(deviations: impl IntoIterator<Item = Deviation<'a>>) -> Option<Deviation<'a>> {
    deviations.into_iter().reduce(|worst, next| if next.relative > worst.relative { next } else { worst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_report::Rates;

    fn phase(rates: &[(&str, f64, f64)]) -> Phase {
        let rate = |&(name, settled_bps, fair_bps): &(&str, f64, f64)| ClassSpan {
            name: name.into(),
            rates: Rates {
                rate_bps: Some(77.0),
                settled_bps: Some(settled_bps),
                fair_bps: Some(fair_bps),
                ..Rates::default()
            },
            ..ClassSpan::default()
        };
        Phase { start_s: 0.0, end_s: 1.0, classes: rates.iter().map(rate).collect(), inner_classes: Vec::new() }
    }

    #[test]
    fn the_worst_deviation_is_relative_to_the_ideal_or_to_the_link() {
        let phases = [phase(&[("a", 99.0, 100.0), ("b", 0.0, 0.0)]), phase(&[("a", 51.0, 50.0), ("b", 30.0, 0.0)])];
        let all: Vec<f64> = deviations(&phases, 1000.0).map(|deviation| deviation.relative).collect();
        assert_eq!(all, [0.01, 0.0, 0.02, 0.03]);
        let worst = worst(deviations(&phases, 1000.0)).unwrap();
        assert_eq!((worst.phase, worst.class, worst.measured_bps), (1, "b", 30.0));
        assert_eq!(super::worst([]), None);
    }
}
