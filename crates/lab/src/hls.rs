//! The experiments of \[hls\] Section VIII as data, for the simulator and for real packets.
//!
//! The tree is that of Figure 1, its rates in proportion to the link's: A with A1 and A2, B with B1 and B2, and C get 300,
//! 300 and 400 parts of 1000. Every active leaf is permanently backlogged with packets of 1000 bytes.
//!
//! DIFFERENCE: the table of guarantees and the sequence of classes of Experiment 1 are missing from the text at hand. It is
//! run with the guarantees of Figure 1 (A1 100, A2 200, B1 100, B2 200), and A1, B1, C and A2 stop in turn.

use fairlink_core::{
    ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, NANOS_PER_SEC, Nanos, Overhead, Rate, Share,
};
use fairlink_sim::{Options, Scenario};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

/// How far the guarantees of the two leaves of A and of B lie apart in Experiment 2, in parts of 1000 of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// 140 and 160.
    Low,
    /// 100 and 200, as in Figure 1.
    Medium,
    /// 60 and 240.
    High,
}

impl Difference {
    /// All, from low to high.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The paper's letter.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Low => "L",
            Self::Medium => "M",
            Self::High => "H",
        }
    }

    /// The scenario of that letter, in either case.
    #[must_use]
    pub fn of_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|difference| difference.letter().eq_ignore_ascii_case(letter))
    }

    const fn smaller(self) -> u64 {
        match self {
            Self::Low => 140,
            Self::Medium => 100,
            Self::High => 60,
        }
    }
}

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Experiment 1: leaves go idle one after another; every phase should be hierarchical max-min fair.
    One,
    /// Experiment 2: A1, B2 and C send and C pauses; what C leaves should be split evenly between A and B, whatever the
    /// guarantees of their leaves.
    Two(Difference),
}

/// Length of every packet in bytes.
pub const PACKET_BYTES: u32 = 1000;

/// Left out at the start of each phase when rates are compared with the ideal: old queues drain, new ones fill.
pub const SETTLE: Nanos = Nanos(NANOS_PER_SEC / 2);

/// The paper's graphs show rates in jumping windows of this length.
pub const WINDOW: Nanos = Nanos(NANOS_PER_SEC / 5);

/// The largest deviation from the ideal, relative to it, that counts as hierarchical max-min fair.
pub const TOLERANCE: f64 = 0.02;

/// How the experiments are measured.
pub const OPTIONS: Options = Options { window: Some(WINDOW), settle: SETTLE };

/// Names of all classes by id.
pub const NAMES: [&str; 8] = ["link", "A", "A1", "A2", "B", "B1", "B2", "C"];
const A1: ClassId = ClassId(2);
const A2: ClassId = ClassId(3);
const B1: ClassId = ClassId(5);
const B2: ClassId = ClassId(6);
const C: ClassId = ClassId(7);

impl Experiment {
    /// Its number in the paper.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two(_) => 2,
        }
    }

    /// The scenario within Experiment 2.
    #[must_use]
    pub const fn difference(self) -> Option<Difference> {
        match self {
            Self::One => None,
            Self::Two(difference) => Some(difference),
        }
    }

    /// Which leaves send in each phase, and how many seconds it lasts in the paper.
    fn script(self) -> Vec<(u64, Vec<ClassId>)> {
        match self {
            Self::One => vec![
                (5, vec![A1, A2, B1, B2, C]),
                (5, vec![A2, B1, B2, C]),
                (5, vec![A2, B2, C]),
                (5, vec![A2, B2]),
                (5, vec![B2]),
            ],
            Self::Two(_) => vec![(10, vec![A1, B2, C]), (10, vec![A1, B2]), (5, vec![A1, B2, C])],
        }
    }

    /// The tree on a link of `rate`. Guarantees are rounded down to whole bit/s.
    ///
    /// # Errors
    /// [`HierarchyError::Weight`] on a link of a few bit/s, where the smallest part rounds to nothing.
    pub fn tree(self, rate: Rate) -> Result<Hierarchy, HierarchyError> {
        let smaller = self.difference().unwrap_or(Difference::Medium).smaller();
        let mut tree = Hierarchy::builder(LinkConfig::new(rate));
        let mut add = |parent, parts: u64| {
            // Parts of 1000 of at most 10^12.
            let bps = rate.bps() * parts / 1000;
            // A weight of the same number is refused where it is no rate.
            let share = Rate::from_bps(bps).map_or(Share::Weight(bps), Share::Guarantee);
            tree.add(parent, ClassConfig { share: Some(share), ..ClassConfig::default() })
        };
        for _ in 0..2 {
            let inner = add(ClassId::ROOT, 300)?;
            add(inner, smaller)?;
            add(inner, 300 - smaller)?;
        }
        add(ClassId::ROOT, 400)?;
        tree.build()
    }

    /// The experiment on a link of `rate`, with phases as long as in the paper, or of `phase` each.
    ///
    /// # Errors
    /// As [`Experiment::tree`].
    pub fn scenario(self, rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
        let mut sources: Vec<SourceSpec> = Vec::new();
        let mut start = Nanos::ZERO;
        for (seconds, classes) in self.script() {
            let end = start.saturating_add(phase.unwrap_or(Nanos::from_secs(seconds)));
            for class in classes {
                match sources.iter_mut().find(|source| source.class == class) {
                    Some(source) => match source.active.last_mut().filter(|interval| interval.end == start) {
                        Some(interval) => interval.end = end,
                        None => source.active.push(Interval { start, end }),
                    },
                    None => sources.push(SourceSpec {
                        class,
                        model: Model::Greedy,
                        packet: PacketSize::Fixed(PACKET_BYTES),
                        active: vec![Interval { start, end }],
                    }),
                }
            }
            start = end;
        }
        Ok(Scenario {
            tree: self.tree(rate)?,
            names: NAMES.map(String::from).to_vec(),
            overhead: Overhead::NONE,
            sources,
            duration: start,
            warmup: Nanos::ZERO,
            seed: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::worst;
    use fairlink_core::{
        Leniency,
        registry::{build, find},
    };
    use fairlink_sim::{Phase, Run, simulate};

    fn run(experiment: Experiment, scheduler: &str, bps: u64, phase: Option<Nanos>) -> Run {
        let scenario = experiment.scenario(Rate::from_bps(bps).unwrap(), phase).unwrap();
        let built = build(find(scheduler).unwrap(), &scenario.tree, Leniency::Ignore).unwrap();
        simulate(&scenario, scheduler, built, &OPTIONS, &mut ()).unwrap()
    }

    /// Megabits per second by leaf, in the order A1, A2, B1, B2, C.
    fn mbps(phase: &Phase, of: impl Fn(&fairlink_sim::ClassRate) -> f64) -> Vec<f64> {
        phase.classes.iter().map(|class| of(class) / 1e6).collect()
    }

    fn every_experiment() -> impl Iterator<Item = Experiment> {
        std::iter::once(Experiment::One).chain(Difference::ALL.map(Experiment::Two))
    }

    #[test]
    fn the_ideal_is_what_the_paper_says() {
        let run = run(Experiment::One, "fifo", 1_000_000_000, Some(Nanos::from_millis(1)));
        let ideal: Vec<_> = run.phases.iter().map(|phase| mbps(phase, |class| class.ideal_bps)).collect();
        let expected = [
            [100.0, 200.0, 100.0, 200.0, 400.0],
            [0.0, 300.0, 100.0, 200.0, 400.0],
            [0.0, 300.0, 0.0, 300.0, 400.0],
            [0.0, 500.0, 0.0, 500.0, 0.0],
            [0.0, 0.0, 0.0, 1000.0, 0.0],
        ];
        assert_eq!(ideal, expected);
        for difference in Difference::ALL {
            let scenario = Experiment::Two(difference).scenario(Rate::from_bps(1_000_000_000).unwrap(), None).unwrap();
            let ends: Vec<u64> = scenario.phases().iter().map(|phase| phase.end.0 / NANOS_PER_SEC).collect();
            assert_eq!(ends, [10, 20, 25]);
            let ideals: Vec<Vec<f64>> =
                scenario.ideals().iter().map(|phase| [2, 3, 5, 6, 7].map(|id| phase[id] / 1e6).to_vec()).collect();
            let with_c = vec![300.0, 0.0, 0.0, 300.0, 400.0];
            assert_eq!(ideals, [with_c.clone(), vec![500.0, 0.0, 0.0, 500.0, 0.0], with_c]);
            let guarantees = [2, 3].map(|id| scenario.tree.weight(ClassId(id)) / 1_000_000);
            let expected = match difference.letter() {
                "L" => [140, 160],
                "M" => [100, 200],
                "H" => [60, 240],
                letter => panic!("{letter}"),
            };
            assert_eq!(guarantees, expected);
            assert_eq!(Difference::of_letter(&difference.letter().to_lowercase()), Some(difference));
        }
    }

    #[test]
    fn hls_is_within_two_per_cent_of_the_ideal_in_every_phase() {
        for experiment in every_experiment() {
            for bps in [10_000_000, 100_000_000] {
                let run = run(experiment, "hls", bps, Some(Nanos::from_millis(2000)));
                let worst = worst(&run.phases, run.link_bps).unwrap();
                assert!(worst.relative < TOLERANCE, "{experiment:?} {bps}: {worst:?}");
                assert_eq!(run.link_utilisation, 1.0);
            }
        }
    }

    #[test]
    fn drr_without_the_tree_does_not_split_evenly_what_c_leaves() {
        let run = run(Experiment::Two(Difference::High), "drr", 100_000_000, Some(Nanos::from_millis(2000)));
        let rates = mbps(&run.phases[1], |class| class.settled_bps);
        // By the leaves' guarantees, 60 to 240.
        assert!((rates[0] - 20.0).abs() < 1.0 && (rates[3] - 80.0).abs() < 1.0, "{rates:?}");
        assert!(worst(&run.phases, run.link_bps).unwrap().relative > 0.5);
    }

    #[test]
    fn a_link_too_slow_for_the_tree_is_an_error() {
        let error = Experiment::One.tree(Rate::from_bps(9).unwrap()).unwrap_err();
        assert!(matches!(error, HierarchyError::Weight { weight: 0, .. }), "{error}");
    }
}
