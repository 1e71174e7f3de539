//! The result of the readers: a link and its classes, as requested and as the tool itself lends.

use std::collections::HashMap;

use super::Weights;
use crate::names::{MAX_NAME, refusal};

/// A link as some tool's configuration has it.
#[derive(Debug)]
pub(super) struct Plan {
    /// The stem of its files.
    pub(super) name: String,
    /// Rate of the link in bit/s, and its source.
    pub(super) rate: u64,
    pub(super) rate_why: String,
    /// Longest frame, in bytes.
    pub(super) mtu: u32,
    /// Parents before their children; otherwise in the order in which matches count.
    pub(super) classes: Vec<Class>,
    /// The position of the class of frames that no match takes.
    pub(super) default: usize,
    /// Meaning of `Class::before`, in words; `None` if the tool has no lending rule.
    pub(super) lending: Option<&'static str>,
}

/// A class. Rates are in bit/s.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) name: String,
    /// Its position.
    pub(super) parent: Option<usize>,
    /// Name or place in the tool's configuration, for people.
    pub(super) remark: String,
    /// Minimum rate; `None` if there is none.
    pub(super) floor: Option<u64>,
    pub(super) ceiling: Option<u64>,
    /// `queue` of a link file; `None` for the tool's default.
    pub(super) queue: Option<&'static str>,
    /// `per` of a link file.
    pub(super) per: Option<&'static str>,
    pub(super) matches: Vec<String>,
    pub(super) before: Before,
}

/// The same class of HTB as the tool sets it up. Rates are in bit/s, the others in bytes.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) floor: Option<u64>,
    pub(super) ceiling: Option<u64>,
    pub(super) quantum: Option<u64>,
    pub(super) priority: u8,
    pub(super) burst: Option<u64>,
    pub(super) ceiling_burst: Option<u64>,
}

impl Plan {
    /// Marks the classes that have children.
    pub(super) fn inner(&self) -> Vec<bool> {
        let mut inner = vec![false; self.classes.len()];
        self.classes.iter().filter_map(|class| class.parent).for_each(|parent| inner[parent] = true);
        inner
    }
}

impl Plan {
    /// Sets the guarantees of leaves in proportion to their ceilings, or all the same, so that they fit below each node
    /// and the link. Leaves them as they are for [`Weights::Guarantee`]. The default class keeps its guarantee.
    pub(super) fn weigh(&mut self, weights: Weights) {
        const SAME: u64 = 1_000_000;
        let inner = self.inner();
        let rate = self.rate;
        let wanted = |class: &Class| match weights {
            Weights::Guarantee => None,
            Weights::Ceiling => Some(class.ceiling.unwrap_or(rate)),
            Weights::Equal => Some(SAME),
        };
        let mut sums = vec![0_u128; self.classes.len()];
        let mut all = 0_u128;
        let leaves: Vec<(usize, u64)> = (0..self.classes.len())
            .filter(|&at| !inner[at] && at != self.default)
            .filter_map(|at| Some((at, wanted(&self.classes[at])?)))
            .collect();
        for &(at, wanted) in &leaves {
            all += u128::from(wanted);
            let above = std::iter::successors(self.classes[at].parent, |&parent| self.classes[parent].parent);
            for parent in above {
                sums[parent] += u128::from(wanted);
            }
        }
        // The fraction of the requests that fits everywhere.
        let spare = self.classes.get(self.default).and_then(|class| class.floor).unwrap_or(0);
        let mut part = (u128::from(rate.saturating_sub(spare)), all);
        for (class, &sum) in self.classes.iter().zip(&sums) {
            let has = u128::from(class.ceiling.unwrap_or(rate));
            if sum > 0 && has * part.1 < part.0 * sum {
                part = (has, sum);
            }
        }
        // No guarantee is above the ceiling.
        for &(at, wanted) in &leaves {
            let has = u128::from(self.classes[at].ceiling.unwrap_or(rate));
            if has * part.1 < part.0 * u128::from(wanted) {
                part = (has, wanted.into());
            }
        }
        for (at, wanted) in leaves {
            let fits = u128::from(wanted) * part.0 / part.1.max(1);
            self.classes[at].floor = Some(u64::try_from(fits).unwrap_or(u64::MAX).clamp(1, wanted.max(1)));
        }
        if weights != Weights::Guarantee {
            for (class, _) in self.classes.iter_mut().zip(inner).filter(|(_, inner)| *inner) {
                class.floor = None;
            }
        }
    }
}

/// Makes names that classes may have out of those of another tool, each once.
#[derive(Debug, Default)]
pub(super) struct ClassNames {
    /// By name: the number to try next.
    taken: HashMap<String, usize>,
}

/// Room for a number behind a name.
const LONGEST: usize = MAX_NAME - 12;

impl ClassNames {
    /// Makes a valid name from `wanted`: without invalid characters, and with a number if it is taken.
    pub(super) fn make(&mut self, wanted: &str) -> String {
        let plain = |c: char| if c.is_control() || ['=', ',', '"', '{', '}', ';'].contains(&c) { ' ' } else { c };
        let mut name: String =
            wanted.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
        while name.len() > LONGEST {
            name.pop();
        }
        let mut name = name.trim_end().to_owned();
        if name.starts_with('#') || refusal(&name).is_some() {
            name = format!("class {name}").trim_end().to_owned();
        }
        let Some(next) = self.taken.get(&name).copied() else {
            self.taken.insert(name.clone(), 2);
            return name;
        };
        let numbered = (next..).map(|number| (number, format!("{name} ({number})")));
        let (number, free) =
            numbered.into_iter().find(|(_, free)| !self.taken.contains_key(free)).expect("numbers do not end");
        self.taken.insert(name, number + 1);
        self.taken.insert(free.clone(), 2);
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_one_of_a_class_and_none_is_made_twice() {
        let mut names = ClassNames::default();
        let wanted = ["a", "a", "a (2)", "", "", "link", "x=1,\"2\"", "#5", " b\t c ", &"ü".repeat(300), "a"];
        let made: Vec<String> = wanted.iter().map(|name| names.make(name)).collect();
        assert_eq!(made[..5], ["a", "a (2)", "a (2) (2)", "class", "class (2)"]);
        assert_eq!(made[5..9], ["class link", "x 1 2", "class #5", "b c"]);
        assert_eq!(made[10], "a (3)");
        for name in &made {
            assert_eq!(refusal(name), None, "{name}");
        }
    }
}
