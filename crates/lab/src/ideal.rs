//! How far measured rates are from hierarchical max-min fairness, phase by phase. What is measured may come from the
//! simulator or from real packets.

use fairlink_sim::Phase;

/// A class's rate in a phase against its ideal.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The index of the phase.
    pub phase: usize,
    /// The class.
    pub class: String,
    /// Its rate after the start of the phase was left out, in bit/s.
    pub measured_bps: f64,
    /// Its ideal rate in bit/s.
    pub ideal_bps: f64,
    /// The difference relative to the ideal; relative to the link's rate for a class that should get nothing.
    pub relative: f64,
}

/// The deviation of `measured` from `ideal`, relative to the ideal; relative to the link's rate where the ideal is nothing.
/// All in bit/s.
#[must_use]
pub fn relative(measured_bps: f64, ideal_bps: f64, link_bps: f64) -> f64 {
    (measured_bps - ideal_bps).abs() / if ideal_bps > 0.0 { ideal_bps } else { link_bps }
}

/// The deviations of all leaves in all phases, on a link of `link_bps` bit/s.
pub fn deviations(phases: &[Phase], link_bps: f64) -> impl Iterator<Item = Deviation> {
    phases.iter().enumerate().flat_map(move |(phase, rates)| {
        rates.classes.iter().map(move |class| Deviation {
            phase,
            class: class.name.clone(),
            measured_bps: class.settled_bps,
            ideal_bps: class.ideal_bps,
            relative: relative(class.settled_bps, class.ideal_bps, link_bps),
        })
    })
}

/// The largest deviation, the first of them where several are as large; `None` where nothing was measured.
#[must_use]
pub fn worst(phases: &[Phase], link_bps: f64) -> Option<Deviation> {
    deviations(phases, link_bps).reduce(|worst, next| if next.relative > worst.relative { next } else { worst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlink_sim::ClassRate;

    fn phase(rates: &[(&str, f64, f64)]) -> Phase {
        let rate = |&(name, settled_bps, ideal_bps): &(&str, f64, f64)| ClassRate {
            name: name.into(),
            rate_bps: 77.0,
            settled_bps,
            ideal_bps,
        };
        Phase { start_s: 0.0, end_s: 1.0, classes: rates.iter().map(rate).collect(), inner_classes: Vec::new() }
    }

    #[test]
    fn the_worst_deviation_is_relative_to_the_ideal_or_to_the_link() {
        let phases = [phase(&[("a", 99.0, 100.0), ("b", 0.0, 0.0)]), phase(&[("a", 51.0, 50.0), ("b", 30.0, 0.0)])];
        let all: Vec<f64> = deviations(&phases, 1000.0).map(|deviation| deviation.relative).collect();
        assert_eq!(all, [0.01, 0.0, 0.02, 0.03]);
        let worst = worst(&phases, 1000.0).unwrap();
        assert_eq!((worst.phase, worst.class.as_str(), worst.measured_bps), (1, "b", 30.0));
        assert_eq!(super::worst(&[], 1.0), None);
    }
}
