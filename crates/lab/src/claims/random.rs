//! Random trees and random traffic, from seeds, for claims that hold always.

use std::fmt::Write as _;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Workload;

/// Random numbers of one case.
pub(super) struct SeededRng(ChaCha8Rng);

impl SeededRng {
    /// Makes the random numbers of the case with this number, of a claim with the name `salt`.
    pub(super) fn new(salt: u64, case: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(case)))
    }

    /// Draws a number from 0 to one less than `count`, which is not 0.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }

    /// Draws a number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `count` times.
    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A class of a random tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomClass {
    /// Index of its parent among the classes; none below the link.
    pub(super) parent: Option<usize>,
    /// Its weight.
    pub(super) weight: u64,
    /// Its distance from the link, from 1.
    pub(super) level: u64,
    /// True if it has no children.
    pub(super) leaf: bool,
}

/// Makes a tree of 2 to `most` classes on up to `levels` levels. Weights are alike in one case and far apart in
/// another.
pub(super) fn classes(dice: &mut SeededRng, most: u64, levels: u64) -> Vec<RandomClass> {
    let count = dice.between(2, most);
    let scale = [9, 100, 2000][dice.below(3) as usize];
    let mut classes: Vec<RandomClass> = Vec::new();
    for _ in 0..count {
        let parents: Vec<usize> = (0..classes.len()).filter(|&at| classes[at].level < levels).collect();
        let deep = !parents.is_empty() && !dice.one_in(3);
        let parent = deep.then(|| parents[dice.below(parents.len() as u64) as usize]);
        let level = parent.map_or(1, |parent| classes[parent].level + 1);
        if let Some(parent) = parent {
            classes[parent].leaf = false;
        }
        classes.push(RandomClass { parent, weight: dice.between(1, scale), level, leaf: true });
    }
    classes
}

/// A scenario on a link of 10 Mbit/s with these classes, named c0, c1 and so on, each leaf with traffic of some kind:
/// always backlogged, at random, in bursts, or silent for a while.
pub(super) fn scenario(dice: &mut SeededRng, name: String, classes: &[RandomClass], seconds: f64) -> Workload {
    let mut text = format!(
        "duration = \"{seconds}s\"\nseed = {}\n\n[link]\nrate = \"10mbit\"\nmtu = \"1500B\"\n",
        dice.below(1 << 30)
    );
    for (place, class) in classes.iter().enumerate() {
        let _ = write!(text, "\n[[class]]\nname = \"c{place}\"\nweight = {}\n", class.weight);
        if let Some(parent) = class.parent {
            let _ = writeln!(text, "parent = \"c{parent}\"");
        }
    }
    for (place, _) in classes.iter().enumerate().filter(|(_, class)| class.leaf) {
        let packet = match dice.below(3) {
            0 => "\"1500B\"".to_owned(),
            1 => "{ uniform = [\"40B\", \"1500B\"] }".to_owned(),
            _ => format!("\"{}B\"", dice.between(1, 1500)),
        };
        let rate = dice.between(200, 8000);
        let model = match dice.below(6) {
            0 | 1 => "model = \"greedy\"".to_owned(),
            2 => format!("model = \"poisson\"\nrate = \"{rate}kbit\""),
            3 => format!("model = \"cbr\"\nrate = \"{rate}kbit\"\nburst = \"{}p\"", dice.between(1, 12)),
            _ => {
                let (on, off) = (dice.between(1, 40), dice.between(1, 40));
                format!("model = \"on_off\"\nrate = \"{}kbit\"\non = \"{on}ms\"\noff = \"{off}ms\"", 2 * rate)
            }
        };
        let _ = write!(text, "\n[[source]]\nclass = \"c{place}\"\n{model}\npacket = {packet}\n");
        if dice.one_in(4) {
            let (start, end) = (dice.between(0, 30), dice.between(40, 99));
            let at = |percent: u64| seconds * percent as f64 / 100.0;
            let _ = writeln!(text, "active = [\"{:.4}s..{:.4}s\"]", at(start), at(end));
        }
    }
    Workload::new(name, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scenarios_are_sound_and_the_same_for_the_same_case() {
        let make = |case| {
            let mut dice = SeededRng::new(1, case);
            let classes = classes(&mut dice, 20, 4);
            scenario(&mut dice, "case.toml".into(), &classes, 0.5)
        };
        for case in 0..50 {
            let workload = make(case);
            assert!(workload.read("hls").is_ok(), "{}", workload.text);
            assert_eq!(workload, make(case));
        }
        assert_ne!(make(0), make(1));
    }
}
