//! The experiments of \[hls\] Section VIII.
//!
//! The tree is that of Figure 1, its rates in proportion to the link's: A with A1 and A2, B with B1 and B2, and C get 300,
//! 300 and 400 parts of 1000. Every active leaf is permanently backlogged with packets of 1000 bytes.
//!
//! DIFFERENCE: the table of guarantees and the sequence of classes of Experiment 1 are missing from the text at hand. It is
//! run with the guarantees of Figure 1 (A1 100, A2 200, B1 100, B2 200), and A1, B1, C and A2 stop in turn.

use fairlink_core::{ClassConfig, ClassId, Hierarchy, HierarchyError, LinkConfig, Nanos, Overhead, Rate, Share};
use fairlink_sim::{CoreModel, Scenario};
use fairlink_traffic::{Interval, Model, PacketSize, SourceSpec};

use crate::experiments::{Experiment, Script};

/// Experiment 1: leaves go idle one after another.
pub const EXP1: Experiment = Experiment {
    id: "hls.exp1",
    place: "Section VIII, Experiment 1",
    shows: "The rates are hierarchical max-min fair in every phase.",
    plays: "leaves go idle one after another",
    short_phase: Nanos::from_secs(2),
    scripts: &[Script { letter: None, make: |rate, phase| scenario(MEDIUM, &LEAVES_STOP, rate, phase) }],
};

/// Experiment 2: A1, B2 and C send and C pauses. The letters denote the difference of the guarantees of the two leaves
/// of A and of B.
pub const EXP2: Experiment = Experiment {
    id: "hls.exp2",
    place: "Section VIII, Experiment 2",
    shows: "What C leaves is split evenly between A and B, whatever the guarantees of their leaves.",
    plays: "A1, B2 and C send all they can, and C pauses in the second phase",
    short_phase: Nanos::from_millis(2500),
    scripts: &[
        Script { letter: Some("L"), make: |rate, phase| scenario(LOW, &C_PAUSES, rate, phase) },
        Script { letter: Some("M"), make: |rate, phase| scenario(MEDIUM, &C_PAUSES, rate, phase) },
        Script { letter: Some("H"), make: |rate, phase| scenario(HIGH, &C_PAUSES, rate, phase) },
    ],
};

/// The guarantees of A1 and A2 in parts of 1000 of the link, and those of B1 and B2, which are the same.
type LeafParts = [u64; 2];
const LOW: LeafParts = [140, 160];
/// Guarantees of Figure 1.
const MEDIUM: LeafParts = [100, 200];
const HIGH: LeafParts = [60, 240];

/// Length of every packet in bytes.
const PACKET_BYTES: u32 = 1000;

/// Names of all classes by id.
const NAMES: [&str; 8] = ["link", "A", "A1", "A2", "B", "B1", "B2", "C"];
const A1: ClassId = ClassId(2);
const A2: ClassId = ClassId(3);
const B1: ClassId = ClassId(5);
const B2: ClassId = ClassId(6);
const C: ClassId = ClassId(7);

/// Length of a phase in the paper, in seconds, and the leaves that send in it.
type Phase = (u64, &'static [ClassId]);
const LEAVES_STOP: [Phase; 5] =
    [(5, &[A1, A2, B1, B2, C]), (5, &[A2, B1, B2, C]), (5, &[A2, B2, C]), (5, &[A2, B2]), (5, &[B2])];
const C_PAUSES: [Phase; 3] = [(10, &[A1, B2, C]), (10, &[A1, B2]), (5, &[A1, B2, C])];

fn scenario(parts: LeafParts, phases: &[Phase], rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
    let mut sources: Vec<SourceSpec> = Vec::new();
    let mut start = Nanos::ZERO;
    for &(seconds, classes) in phases {
        let end = start.saturating_add(phase.unwrap_or(Nanos::from_secs(seconds)));
        for &class in classes {
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
        tree: tree(parts, rate)?,
        names: NAMES.map(String::from).to_vec(),
        overhead: Overhead::NONE,
        propagation: Nanos::ZERO,
        sources,
        duration: start,
        warmup: Nanos::ZERO,
        seed: 1,
        changes: Vec::new(),
        cores: CoreModel::ONE,
    })
}

fn tree(leaf_parts: LeafParts, rate: Rate) -> Result<Hierarchy, HierarchyError> {
    let mut tree = Hierarchy::builder(LinkConfig::new(rate));
    let mut add = |parent, parts: u64| {
        // Parts of 1000 of at most 10^12.
        let bps = rate.bps() * parts / 1000;
        // A weight of the same number is refused if it is not a rate.
        let share = Rate::from_bps(bps).map_or(Share::Weight(bps), Share::Guarantee);
        tree.add(parent, ClassConfig { share: Some(share), ..ClassConfig::default() })
    };
    for _ in 0..2 {
        let inner = add(ClassId::ROOT, 300)?;
        for parts in leaf_parts {
            add(inner, parts)?;
        }
    }
    add(ClassId::ROOT, 400)?;
    tree.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Deviation, OPTIONS, TOLERANCE, deviations, worst};
    use fairlink_core::{Leniency, Members, NANOS_PER_SEC, registry::find};
    use fairlink_report::ClassSpan;
    use fairlink_sim::{Run, simulate};

    fn run(script: &Script, scheduler: &str, bps: u64, phase: Option<Nanos>) -> Run {
        let scenario = script.scenario(Rate::from_bps(bps).unwrap(), phase).unwrap();
        let built = find(scheduler).unwrap().build(&scenario.tree, Leniency::Ignore, Members::new()).unwrap();
        simulate(&scenario, scheduler, built, &OPTIONS, &mut ()).unwrap()
    }

    /// Megabits per second by leaf, in the order A1, A2, B1, B2, C.
    fn mbps(phase: &fairlink_sim::Phase, of: impl Fn(&ClassSpan) -> f64) -> Vec<f64> {
        phase.classes.iter().map(|class| of(class) / 1e6).collect()
    }

    fn furthest(run: &Run) -> Deviation<'_> {
        worst(deviations(&run.phases, run.link_bps)).unwrap()
    }

    #[test]
    fn the_ideal_is_what_the_paper_says() {
        let run = run(&EXP1.scripts[0], "fifo", 1_000_000_000, Some(Nanos::from_millis(1)));
        let ideal: Vec<_> = run.phases.iter().map(|phase| mbps(phase, |class| class.rates.fair())).collect();
        let expected = [
            [100.0, 200.0, 100.0, 200.0, 400.0],
            [0.0, 300.0, 100.0, 200.0, 400.0],
            [0.0, 300.0, 0.0, 300.0, 400.0],
            [0.0, 500.0, 0.0, 500.0, 0.0],
            [0.0, 0.0, 0.0, 1000.0, 0.0],
        ];
        assert_eq!(ideal, expected);
        for (letter, guarantees) in [("L", [140, 160]), ("M", [100, 200]), ("H", [60, 240])] {
            let script = EXP2.script(letter).unwrap();
            let scenario = script.scenario(Rate::from_bps(1_000_000_000).unwrap(), None).unwrap();
            let ends: Vec<u64> = scenario.phases().iter().map(|phase| phase.end.0 / NANOS_PER_SEC).collect();
            assert_eq!(ends, [10, 20, 25]);
            let ideals: Vec<Vec<f64>> =
                scenario.ideals().iter().map(|phase| [2, 3, 5, 6, 7].map(|id| phase[id] / 1e6).to_vec()).collect();
            let with_c = vec![300.0, 0.0, 0.0, 300.0, 400.0];
            assert_eq!(ideals, [with_c.clone(), vec![500.0, 0.0, 0.0, 500.0, 0.0], with_c]);
            for leaves in [[A1, A2], [B1, B2]] {
                assert_eq!(leaves.map(|leaf| scenario.tree.weight(leaf) / 1_000_000), guarantees);
            }
        }
    }

    #[test]
    fn hls_is_within_two_per_cent_of_the_ideal_in_every_phase() {
        for script in EXP1.scripts.iter().chain(EXP2.scripts) {
            for bps in [10_000_000, 100_000_000] {
                let run = run(script, "hls", bps, Some(Nanos::from_millis(2000)));
                let worst = furthest(&run);
                assert!(worst.relative < TOLERANCE, "{script:?} {bps}: {worst:?}");
                assert_eq!(run.link_utilisation, 1.0);
            }
        }
    }

    #[test]
    fn cbq_shares_by_the_guarantees_of_classes_while_c_sends_and_sources_have_clocks_of_their_own() {
        // Experiment 2, H: 8.6, 34 and 57 if sources refill their queues only when a packet leaves.
        let script = EXP2.scripts.last().unwrap();
        let scenario = script.overloaded(Rate::from_bps(100_000_000).unwrap(), Some(Nanos::from_secs(4))).unwrap();
        for name in ["cbq-formal", "cbq-top-level"] {
            let built = find(name).unwrap().build(&scenario.tree, Leniency::Ignore, Members::new()).unwrap();
            let run = simulate(&scenario, name, built, &OPTIONS, &mut ()).unwrap();
            for phase in [0, 2] {
                let rates = mbps(&run.phases[phase], |class| class.rates.settled());
                for (rate, expected) in [rates[0], rates[3], rates[4]].into_iter().zip([30.0, 30.0, 40.0]) {
                    assert!((rate - expected).abs() < 1.0, "{name}: {rates:?}");
                }
            }
            assert!(run.classes.iter().any(|class| class.counts().dropped.packets > 0), "nothing is lost in silence");
        }
    }

    #[test]
    fn drr_without_the_tree_does_not_split_evenly_what_c_leaves() {
        let run = run(EXP2.script("H").unwrap(), "drr", 100_000_000, Some(Nanos::from_millis(2000)));
        let rates = mbps(&run.phases[1], |class| class.rates.settled());
        // By the leaves' guarantees, 60 to 240.
        assert!((rates[0] - 20.0).abs() < 1.0 && (rates[3] - 80.0).abs() < 1.0, "{rates:?}");
        assert!(furthest(&run).relative > 0.5);
    }

    #[test]
    fn a_link_too_slow_for_the_tree_is_an_error() {
        let error = EXP1.scripts[0].scenario(Rate::from_bps(9).unwrap(), None).unwrap_err();
        assert!(matches!(error, HierarchyError::Weight { weight: 0, .. }), "{error}");
    }
}
