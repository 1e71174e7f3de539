//! A link file that stays read, so that the effect of one number is known without reading a text again.

use fairlink_config::{LinkFile, Source};
use fairlink_core::{ClassConfig, Rate, Share};
use fairlink_theory::ideal::{NotComputed, Rule, Traffic};
use fairlink_theory::request::Demand;

use crate::refused::Refused;
use crate::tree::{demand, read_tree};

/// A number of a class that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedKey {
    /// Its guarantee, in bit/s.
    Guarantee,
    /// Its weight.
    Weight,
    /// Its ceiling, in bit/s.
    Ceiling,
}

impl PlannedKey {
    /// Returns the key of link files with this name; `None` for any other.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "guarantee" => Self::Guarantee,
            "weight" => Self::Weight,
            "ceiling" => Self::Ceiling,
            _ => return None,
        })
    }
}

/// A link and the demands of its leaves.
///
/// ```
/// use fairlink_api::{Planned, PlannedKey};
/// use fairlink_config::SourceText;
///
/// let text = "[link]\nrate = \"9mbit\"\n[[class]]\nname = \"a\"\nweight = 2\n[[class]]\nname = \"b\"\nweight = 1\n";
/// let mut planned = Planned::read(&SourceText::new("a.toml", text), None)?;
/// planned.set("b", PlannedKey::Weight, 7)?;
/// assert_eq!(planned.rates().unwrap(), [9e6, 2e6, 7e6]);
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
#[derive(Debug)]
pub struct Planned {
    link: LinkFile,
    demand: Demand,
}

impl Planned {
    /// Reads a link file, and the demands as [`fluid`](crate::fluid()) has them.
    ///
    /// # Errors
    /// [`Refused`]: errors in the text or the demand.
    pub fn read(source: &Source, demands: Option<&str>) -> Result<Self, Refused> {
        let (link, _) = read_tree(source)?;
        let demand = demand(&link, demands)?;
        Ok(Self { link, demand })
    }

    /// Changes a number of the class called `class`. Takes time in proportion to the classes.
    ///
    /// # Errors
    /// [`Refused`]: no such class, a class without this number, a value that the tree refuses. Nothing has changed then.
    pub fn set(&mut self, class: &str, key: PlannedKey, value: u64) -> Result<(), Refused> {
        let id = self.link.names.find(class).map_err(|error| Refused::argument("class", error.to_string()))?;
        let refused = |error: String| Refused::argument("value", error);
        let rate = || Rate::from_bps(value).map_err(|error| refused(error.to_string()));
        let mut wanted: ClassConfig = *self.link.tree.config(id);
        match (key, wanted.share) {
            (PlannedKey::Guarantee, Some(Share::Guarantee(_))) => wanted.share = Some(Share::Guarantee(rate()?)),
            (PlannedKey::Weight, Some(Share::Weight(_))) => wanted.share = Some(Share::Weight(value)),
            (PlannedKey::Ceiling, _) if wanted.ceiling.is_some() => wanted.ceiling = Some(rate()?),
            _ => return Err(Refused::argument("key", format!("the class {class:?} has no such number"))),
        }
        let change = |other, config: &mut ClassConfig| {
            if other == id {
                *config = wanted;
            }
        };
        let tree = self.link.tree.rebuilt(self.link.tree.link(), change);
        self.link.tree = tree.map_err(|error| refused(error.to_string()))?;
        Ok(())
    }

    /// Returns the rates that the scheduler gives in the long run, in bit/s, by class, the link's first; as
    /// [`fluid`](crate::fluid()) has them, but with the errors of `f64`.
    ///
    /// # Errors
    /// [`NotComputed`]: the scheduler's rule gives none.
    pub fn rates(&self) -> Result<Vec<f64>, NotComputed> {
        let rule = Rule::for_scheduler(self.link.info(), &self.link.tree, Traffic::unknown())?;
        rule.rates(&self.demand).map_err(|why| why.named(|class| self.link.names.name(class).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FluidOptions, fluid};
    use fairlink_config::SourceText;

    /// A link of 10 Mbit/s with a class of two leaves, `a` and `b`, and a leaf `c` with a ceiling.
    fn text(scheduler: &str, [a, b]: [&str; 2], ceiling: u64) -> String {
        format!(
            "[link]\nrate = \"10mbit\"\nscheduler = \"{scheduler}\"\n\
             [[class]]\nname = \"top\"\nguarantee = \"6mbit\"\n\
             [[class]]\nname = \"a\"\nparent = \"top\"\n{a}\n[[class]]\nname = \"b\"\nparent = \"top\"\n{b}\n\
             [[class]]\nname = \"c\"\nguarantee = \"4mbit\"\nceiling = \"{ceiling}bit\"\n"
        )
    }

    #[test]
    fn the_rates_are_those_of_the_edited_text_under_every_scheduler() {
        let mut compared = 0;
        for scheduler in fairlink_core::registry::SCHEDULERS {
            for demands in [None, Some("a=inf,b=1mbit,c=inf"), Some("a=0,b=inf,c=3mbit")] {
                let guarantees = ["guarantee = \"2mbit\"", "guarantee = \"4mbit\""];
                let Ok(mut planned) =
                    Planned::read(&SourceText::new("l.toml", text(scheduler.name, guarantees, 5_000_000)), demands)
                else {
                    continue;
                };
                for (guarantee, ceiling) in [(1_000_000, 7_000_000), (2_000_000, 4_500_000)] {
                    planned.set("a", PlannedKey::Guarantee, guarantee).unwrap();
                    planned.set("c", PlannedKey::Ceiling, ceiling).unwrap();
                    let a = format!("guarantee = \"{guarantee}bit\"");
                    let edited = text(scheduler.name, [&a, guarantees[1]], ceiling);
                    let options = FluidOptions { demand: demands, ..FluidOptions::default() };
                    let solved = fluid(&SourceText::new("l.toml", edited), &options).unwrap();
                    match (planned.rates(), &solved.solved) {
                        (Ok(rates), Ok(ideal)) => {
                            for (class, rate) in rates.iter().enumerate() {
                                let exact = ideal.bps(fairlink_core::ClassId(class as u32));
                                assert!((rate - exact).abs() <= 1.0, "{}: {class}: {rate} {exact}", scheduler.name);
                            }
                            compared += 1;
                        }
                        (Err(_), Err(_)) => {}
                        (ours, theirs) => panic!("{}: {ours:?} {theirs:?}", scheduler.name),
                    }
                }
            }
        }
        assert!(compared > 60, "{compared}");
    }

    #[test]
    fn what_the_tree_refuses_changes_nothing() {
        let text = text("hls", ["weight = 1", "weight = 3"], 5_000_000);
        let mut planned = Planned::read(&SourceText::new("l.toml", text), None).unwrap();
        let before = planned.rates().unwrap();
        for (class, key, value, says) in [
            ("d", PlannedKey::Weight, 1, "\"d\""),
            ("a", PlannedKey::Guarantee, 1, "no such number"),
            ("a", PlannedKey::Weight, 0, "weight"),
            ("c", PlannedKey::Guarantee, 9_000_000, "more than its own"),
        ] {
            let refused = planned.set(class, key, value).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
            assert_eq!(planned.rates().unwrap(), before);
        }
        planned.set("b", PlannedKey::Weight, 1).unwrap();
        assert_eq!(planned.rates().unwrap()[2], planned.rates().unwrap()[3]);
    }
}
