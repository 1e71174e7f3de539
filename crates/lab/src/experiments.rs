//! The experiments of the papers, in one table.
//!
//! A paper has a file of its own, which says what all its experiments share. An experiment is an [`Experiment`] in that file and a
//! line of [`EXPERIMENTS`]; whoever plays experiments finds them here.

use fairlink_core::{ClassId, Hierarchy, HierarchyError, Nanos, Rate};
use fairlink_sim::Scenario;
use fairlink_traffic::Model;

pub mod hls;

/// Packets that a queue holds at most where sources overload it; the rest is lost.
const OVERLOADED_QUEUE: u32 = 20;

/// All experiments, paper by paper.
pub const EXPERIMENTS: &[Experiment] = &[hls::EXP1, hls::EXP2];

/// What a paper tried on a link that is shared, and what it found.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which no other experiment has: the paper's key in `docs/papers.md`, a point, and a word, such as `hls.exp2`.
    pub id: &'static str,
    /// Where in the paper it stands.
    pub place: &'static str,
    /// What it shows, as a sentence.
    pub shows: &'static str,
    /// What is played, in words that follow a colon.
    pub plays: &'static str,
    /// Length of a phase, for those who have less time than the paper, in which 100 Mbit/s show the same.
    pub short_phase: Nanos,
    /// What is played, exactly. At least one script, in the order of the paper; the last one shows most.
    pub scripts: &'static [Script],
}

/// One form of an experiment: a tree, and who sends when.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The paper's letter for it, such as `H`; `None` where there is one form only.
    pub letter: Option<&'static str>,
    make: fn(Rate, Option<Nanos>) -> Result<Scenario, HierarchyError>,
}

impl Experiment {
    /// The paper's key in `docs/papers.md`.
    #[must_use]
    pub fn paper(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(paper, _)| paper)
    }

    /// The script with that letter, in either case.
    #[must_use]
    pub fn script(&self, letter: &str) -> Option<&'static Script> {
        self.scripts.iter().find(|script| script.letter.is_some_and(|known| known.eq_ignore_ascii_case(letter)))
    }
}

impl Script {
    /// The scenario on a link of `rate`, with phases as long as in the paper, or of `phase` each. Guarantees are rounded down to
    /// whole bit/s.
    ///
    /// # Errors
    /// A link so slow that the tree cannot be: its smallest part rounds to nothing.
    pub fn scenario(&self, rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
        (self.make)(rate, phase)
    }

    /// The same with sources that arrive by clocks of their own in the place of greedy ones, each at 110 % of the link. A greedy
    /// source has its next packet only when one leaves, which top-level sharing of CBQ takes for a sign of who is waiting.
    ///
    /// # Errors
    /// As [`Script::scenario`].
    pub fn overloaded(&self, rate: Rate, phase: Option<Nanos>) -> Result<Scenario, HierarchyError> {
        let mut scenario = self.scenario(rate, phase)?;
        let more = Rate::from_bps(rate.bps() / 10 * 11).unwrap_or(rate);
        for source in scenario.sources.iter_mut().filter(|source| source.model == Model::Greedy) {
            source.model = Model::Saturating(more);
        }
        // What is queued when a source stops is soon gone.
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

/// The experiment with that id.
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
