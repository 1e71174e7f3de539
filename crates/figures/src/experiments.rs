//! The experiments of the papers, in one table.
//!
//! A paper has a file, which documents the common parts of its experiments. An experiment is an [`Experiment`] in that
//! file and a line of [`EXPERIMENTS`].

use fairlink_core::{ClassId, Hierarchy, HierarchyError, Nanos, Rate};
use fairlink_sim::Scenario;
use fairlink_traffic::Model;

pub mod hls;

/// Limit of a queue in packets if sources overload it; the rest is lost.
const OVERLOADED_QUEUE: u32 = 20;

/// All experiments, paper by paper.
pub static EXPERIMENTS: &[Experiment] = &[hls::EXP1, hls::EXP2];

/// An experiment of a paper on a shared link, and its result.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which no other experiment has: the paper's key in `docs/papers.md`, a point, and a word, such as `hls.exp2`.
    pub id: &'static str,
    /// Its place in the paper.
    pub place: &'static str,
    /// Its result, as a sentence.
    pub shows: &'static str,
    /// Description of the run, in words that follow a colon.
    pub plays: &'static str,
    /// Length of a phase for runs shorter than the paper's, with which 100 Mbit/s show the same.
    pub short_phase: Nanos,
    /// The exact scenarios. At least one script, in the order of the paper; the last one is the most instructive.
    pub scripts: &'static [Script],
}

/// One form of an experiment: a tree, and a schedule of senders.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The paper's letter for it, such as `H`; `None` if there is only one form.
    pub letter: Option<&'static str>,
    make: fn(Rate, Option<Nanos>) -> Result<Scenario, HierarchyError>,
}

impl Experiment {
    /// Returns the paper's key in `docs/papers.md`.
    #[must_use]
    pub fn paper(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(paper, _)| paper)
    }

    /// Returns the script with this letter, in either case.
    #[must_use]
    pub fn script(&self, letter: &str) -> Option<&'static Script> {
        self.scripts.iter().find(|script| script.letter.is_some_and(|known| known.eq_ignore_ascii_case(letter)))
    }
}

impl Script {
    /// Makes the scenario on a link of `rate`. Phases are as long as in the paper, or of `phase` each. Guarantees are
    /// rounded down to whole bit/s.
    ///
    /// # Errors
    /// A link too slow for the tree: its smallest part rounds to zero.
    pub fn scenario(&self, rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
        (self.make)(rate, phase)
    }

    /// Makes the same scenario with independently timed sources instead of greedy ones, each at 110 % of the link. A
    /// greedy source has its next packet only when one leaves, which top-level sharing of CBQ takes for a sign of
    /// waiting classes.
    ///
    /// # Errors
    /// As [`Script::scenario`].
    pub fn overloaded(&self, rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
        let mut scenario = self.scenario(rate, phase)?;
        let more = Rate::from_bps(rate.bps() / 10 * 11).unwrap_or(rate);
        for source in scenario.sources.iter_mut().filter(|source| source.model == Model::Greedy) {
            source.model = Model::Saturating(more);
        }
        // Packets queued when a source stops are soon gone.
        let mut short = Hierarchy::builder(scenario.tree.link());
        for class in scenario.tree.classes() {
            let mut config = *scenario.tree.config(class);
            config.limits.packets = config.limits.packets.min(OVERLOADED_QUEUE);
            short.add(scenario.tree.parent(class).unwrap_or(ClassId::ROOT), config)?;
        }
        scenario.tree = short.build()?;
        Ok(scenario)
    }
}

/// Returns the experiment with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_an_id_of_its_own_and_scripts_that_can_be_told_apart() {
        for experiment in EXPERIMENTS {
            let id = experiment.id;
            assert_eq!(EXPERIMENTS.iter().filter(|other| other.id == id).count(), 1, "{id}");
            assert!(find(id).is_some_and(|found| found.place == experiment.place), "{id}");
            assert!(
                id.split_once('.').is_some_and(|(paper, word)| paper == experiment.paper() && !word.is_empty()),
                "{id}"
            );
            let mut letters: Vec<_> = experiment.scripts.iter().map(|script| script.letter).collect();
            assert!(letters == [None] || (!letters.is_empty() && letters.iter().all(Option::is_some)), "{id}");
            letters.sort_unstable();
            letters.dedup();
            assert_eq!(letters.len(), experiment.scripts.len(), "{id}");
            for letter in letters.into_iter().flatten() {
                let found = experiment.script(&letter.to_lowercase());
                assert!(found.is_some_and(|found| found.letter == Some(letter)), "{id} {letter}");
            }
        }
    }

    #[test]
    fn every_script_can_be_made_for_a_fast_and_a_slow_link_and_not_for_none() {
        for script in EXPERIMENTS.iter().flat_map(|experiment| experiment.scripts) {
            for bps in [1_000_000, 1_000_000_000_000] {
                let rate = Rate::from_bps(bps).unwrap();
                let short = script.scenario(rate, Some(Nanos::from_secs(1))).unwrap();
                let as_in_the_paper = script.scenario(rate, None).unwrap();
                assert_eq!((short.tree.link().rate, short.names.len()), (rate, short.tree.len()));
                assert_eq!(short.phases().len(), as_in_the_paper.phases().len());
                assert!(short.duration < as_in_the_paper.duration);
            }
            assert!(script.scenario(Rate::MIN, None).is_err());
        }
    }
}
