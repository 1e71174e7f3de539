//! Reasons for a class's rate: the steps from the link down to the class, each with the rate that the class's siblings
//! leave it.

use std::fmt::Write as _;

use fairlink_core::{ClassId, Hierarchy, Share};
use num_bigint::BigInt;
use num_rational::BigRational;

use crate::hmm::ClassAllocation;
use crate::ideal::Ideal;
use crate::limits::Limit;
use crate::to_f64;

/// Names printed of a list; the rest is counted.
const NAMES: usize = 8;

/// One class on the path from the link to the class in question.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The class; [`ClassId::ROOT`] is the link.
    pub class: ClassId,
    /// Its weight among the classes that it shares with: the guarantee in bit/s if that counts. The link's is its rate.
    pub weight: u64,
    /// True if that weight is a guarantee; the link's rate counts as one.
    pub guaranteed: bool,
    /// Its part of the weights of all that share with it, if the scheduler does not share by the weights of the file: 0
    /// to 1.
    pub weight_part: Option<f64>,
    /// Fixed upper limit of its rate: its ceiling, or another [`Limit`].
    pub limit: Option<Limit>,
    /// Its demand, request and rate, and the class that limits it.
    pub allocation: ClassAllocation,
    /// The fair share of its parent, in bit/s per unit of weight; `None` at the link and if all siblings get their
    /// requests.
    pub fair_share: Option<BigRational>,
    /// Entitlement by weight alone: weight times fair share, in bit/s.
    pub entitled: Option<BigRational>,
    /// Its siblings with a request that is met below the fair share; the rest of their shares goes to the others.
    pub satisfied_siblings: Vec<ClassId>,
    /// Its siblings that share the rest with it, each at the fair share.
    pub unsatisfied_siblings: Vec<ClassId>,
    /// Its siblings without any request.
    pub idle_siblings: Vec<ClassId>,
}

/// The reasons for a class's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// From the link to the class, both included.
    pub steps: Vec<Step>,
    /// [`Ideal::limiting_chain`] of the class.
    pub limited_by: Vec<ClassId>,
}

/// The class to explain does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("class {} does not exist; there are {classes} classes, the link included", class.0)]
pub struct UnknownClass {
    /// The class named.
    pub class: ClassId,
    /// Number of classes in the tree, the root included.
    pub classes: usize,
}

impl Explanation {
    /// Explains the rate of `class` in `ideal`, which was solved for `tree`.
    ///
    /// # Errors
    /// [`UnknownClass`].
    pub fn new(tree: &Hierarchy, ideal: &Ideal, class: ClassId) -> Result<Self, UnknownClass> {
        if class.index() >= tree.len() {
            return Err(UnknownClass { class, classes: tree.len() });
        }
        let mut steps = vec![step(tree, ideal, class)];
        let mut at = class;
        while let Some(parent) = tree.parent(at) {
            steps.push(step(tree, ideal, parent));
            at = parent;
        }
        steps.reverse();
        Ok(Self { steps, limited_by: ideal.limiting_chain(class) })
    }

    /// Returns a few lines of text, with the class names from `name`.
    #[must_use]
    pub fn text(&self, name: impl Fn(ClassId) -> String) -> String {
        let mut text = String::new();
        for (depth, step) in self.steps.iter().enumerate() {
            let indent = depth * 2;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:indent$}{}", "", step.text(&name));
        }
        let Some(step) = self.steps.last() else { return text };
        let this = name(step.class);
        let reasons = self.limited_by.iter().enumerate().map(|(at, &class)| match class {
            class if class == step.class && class != ClassId::ROOT => format!("its own {}", self.limit_of(class)),
            class if class != ClassId::ROOT && at + 1 == self.limited_by.len() => {
                format!("the {} of {}", self.limit_of(class), name(class))
            }
            class => name(class),
        });
        let reasons: Vec<String> = reasons.collect();
        let _ = match (step.allocation.wanted, reasons.is_empty()) {
            (Some(0), _) => writeln!(text, "{this} asks for nothing."),
            (_, true) => writeln!(text, "{this} gets all it wants."),
            (_, false) => writeln!(text, "{this} is limited by {}.", reasons.join(", then by ")),
        };
        text
    }

    fn limit_of(&self, class: ClassId) -> &'static str {
        let step = self.steps.iter().find(|step| step.class == class);
        step.and_then(|step| step.limit).map_or("limit", |limit| limit.kind.as_str())
    }
}

fn step(tree: &Hierarchy, ideal: &Ideal, class: ClassId) -> Step {
    let sharing = ideal.sharing(tree, class);
    let fair_share = sharing.and_then(|(of, ..)| ideal.class(of).fair_share);
    let weight = sharing.map_or(tree.weight(class), |(_, weight, _)| weight);
    let part = |(_, weight, sharers): (ClassId, u64, &[ClassId])| {
        let all: f64 = sharers.iter().filter_map(|&class| Some(ideal.sharing(tree, class)?.1 as f64)).sum();
        weight as f64 / all
    };
    let other = sharing.filter(|&(_, weight, _)| weight != tree.weight(class));
    let mut step = Step {
        class,
        weight,
        guaranteed: matches!(tree.config(class).share, Some(Share::Guarantee(rate)) if rate.bps() == weight),
        weight_part: other.map(part),
        limit: ideal.limit(class),
        allocation: ideal.class(class),
        entitled: fair_share.as_ref().map(|share| share * BigInt::from(weight)),
        fair_share,
        satisfied_siblings: Vec::new(),
        unsatisfied_siblings: Vec::new(),
        idle_siblings: Vec::new(),
    };
    let beside = tree.parent(class).map_or(&[][..], |parent| tree.children(parent));
    for &sibling in sharing.map_or(beside, |(.., sharers)| sharers) {
        let this = ideal.class(sibling);
        if sibling == class {
            continue;
        } else if this.request == Some(0) {
            step.idle_siblings.push(sibling);
        } else if this.satisfied {
            step.satisfied_siblings.push(sibling);
        } else {
            step.unsatisfied_siblings.push(sibling);
        }
    }
    step
}

impl Step {
    fn text(&self, name: &impl Fn(ClassId) -> String) -> String {
        let ClassAllocation { wanted, allocation, limited_by, .. } = &self.allocation;
        let gets = rate(allocation);
        let mut text = format!("{}: ", name(self.class));
        let _ = match wanted {
            Some(0) => write!(text, "asks for nothing"),
            Some(wanted) => write!(text, "wants {}, gets {gets}", rate(&BigRational::from_integer((*wanted).into()))),
            None => write!(text, "wants all it can get, gets {gets}"),
        };
        let _ = match (limited_by, &self.fair_share) {
            (None, _) => Ok(()),
            (Some(_), _) if self.class == ClassId::ROOT => write!(text, ", the rate of the link"),
            (Some(by), _) if *by == self.class => {
                write!(text, ", its own {}", self.limit.map_or("limit", |limit| limit.kind.as_str()))
            }
            (Some(_), _) if self.entitled.as_ref().is_some_and(|entitled| entitled < allocation) => {
                write!(text, ", what real-time curves guarantee, which is more than its share")
            }
            (Some(by), Some(share)) => {
                let by = name(*by);
                if let Some(part) = self.weight_part {
                    write!(text, ", its share of {by}: {} % of the weights there", number(part * 100.0))
                } else if self.guaranteed {
                    let guarantee = rate(&BigRational::from_integer(self.weight.into()));
                    write!(text, ", its share of {by}: guarantee {guarantee} x {}", number(to_f64(share)))
                } else {
                    write!(text, ", its share of {by}: weight {} x {}", self.weight, rate(share))
                }
            }
            (Some(by), None) => write!(text, ", what {} has", name(*by)),
        };
        if !self.satisfied_siblings.is_empty() && self.fair_share.is_some() {
            let _ = write!(text, "; satisfied with less: {}", list(&self.satisfied_siblings, name));
        }
        if !self.unsatisfied_siblings.is_empty() {
            let _ = write!(text, "; shares by weight with: {}", list(&self.unsatisfied_siblings, name));
        }
        if !self.idle_siblings.is_empty() {
            let _ = write!(text, "; idle: {}", list(&self.idle_siblings, name));
        }
        text
    }
}

fn list(classes: &[ClassId], name: &impl Fn(ClassId) -> String) -> String {
    let names: Vec<String> = classes.iter().take(NAMES).map(|&class| name(class)).collect();
    let mut list = names.join(", ");
    if classes.len() > NAMES {
        let _ = write!(list, " and {} more", classes.len() - NAMES);
    }
    list
}

/// Formats a rate with the largest unit that keeps it above 1, to six digits.
fn rate(bps: &BigRational) -> String {
    let bps = to_f64(bps);
    let (unit, scale) = match bps {
        bps if bps >= 1e12 => ("Tbit/s", 1e12),
        bps if bps >= 1e9 => ("Gbit/s", 1e9),
        bps if bps >= 1e6 => ("Mbit/s", 1e6),
        bps if bps >= 1e3 => ("kbit/s", 1e3),
        _ => ("bit/s", 1.0),
    };
    format!("{} {unit}", number(bps / scale))
}

/// Formats six significant digits, without trailing zeros.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-5..15).contains(&magnitude) {
        return format!("{value:.5e}");
    }
    let text = format!("{value:.*}", (5 - magnitude).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hmm::Allocation;
    use crate::request::{Demand, Request};
    use fairlink_core::{ClassConfig, LinkConfig, Rate, Share};

    fn mbit(mbps: u64) -> Rate {
        Rate::from_bps(mbps * 1_000_000).unwrap()
    }

    /// Makes Figure 1 of \[hls\] with a ceiling of 50 Mbit/s at B2.
    fn figure_1() -> (Hierarchy, Vec<&'static str>) {
        let mut tree = Hierarchy::builder(LinkConfig::new(mbit(1000)));
        let mut add = |parent, mbps, ceiling: Option<u64>| {
            let share = Some(Share::Guarantee(mbit(mbps)));
            tree.add(parent, ClassConfig { share, ceiling: ceiling.map(mbit), ..ClassConfig::default() }).unwrap()
        };
        let (a, b) = (add(ClassId::ROOT, 300, None), add(ClassId::ROOT, 300, None));
        add(ClassId::ROOT, 400, None);
        add(a, 100, None);
        add(a, 200, None);
        add(b, 100, None);
        add(b, 200, Some(50));
        (tree.build().unwrap(), vec!["link", "A", "B", "C", "A1", "A2", "B1", "B2"])
    }

    fn explain(requests: &[(u32, Request)], class: u32) -> String {
        let (tree, names) = figure_1();
        let demand = Demand::new(&tree, requests.iter().map(|&(class, request)| (ClassId(class), request))).unwrap();
        let allocation = Allocation::solve(&tree, &demand).into();
        let explanation = Explanation::new(&tree, &allocation, ClassId(class)).unwrap();
        explanation.text(|class| names[class.index()].to_owned())
    }

    #[test]
    fn an_explanation_names_the_chain_up_to_the_link() {
        let busy = [(4, Request::Unlimited), (7, Request::Unlimited), (3, Request::Rate(475_000_000))];
        let expected = "\
link: wants all it can get, gets 1 Gbit/s, the rate of the link
  A: wants all it can get, gets 475 Mbit/s, its share of link: guarantee 300 Mbit/s x 1.58333; satisfied with less: B, C
    A1: wants all it can get, gets 475 Mbit/s, its share of A: guarantee 100 Mbit/s x 4.75; idle: A2
A1 is limited by A, then by link.
";
        assert_eq!(explain(&busy, 4), expected);
    }

    #[test]
    fn an_explanation_says_which_limit_of_its_own_holds_a_class() {
        let expected = "\
link: wants all it can get, gets 1 Gbit/s, the rate of the link
  B: wants 50 Mbit/s, gets 50 Mbit/s; shares by weight with: A, C
    B2: wants all it can get, gets 50 Mbit/s, its own ceiling; idle: B1
B2 is limited by its own ceiling.
";
        let busy = [4, 5, 7, 3].map(|class| (class, Request::Unlimited));
        assert_eq!(explain(&busy, 7), expected);
        let mut tree = Hierarchy::builder(LinkConfig::new(mbit(100)));
        let config = ClassConfig { share: Some(Share::Weight(1)), bounded: true, ..ClassConfig::default() };
        let a = tree.add(ClassId::ROOT, config).unwrap();
        tree.add(ClassId::ROOT, ClassConfig { bounded: false, ..config }).unwrap();
        let a1 = tree.add(a, ClassConfig { bounded: false, ..config }).unwrap();
        let tree = tree.build().unwrap();
        let allocation = Allocation::solve(&tree, &Demand::new(&tree, [(a1, Request::Unlimited)]).unwrap()).into();
        let text = Explanation::new(&tree, &allocation, a1)
            .unwrap()
            .text(|class| ["link", "A", "B", "A1"][class.index()].into());
        assert!(text.contains("gets 50 Mbit/s, its own rate (bounded); idle: B\n"), "{text}");
        assert!(text.ends_with("A1 is limited by the rate (bounded) of A.\n"), "{text}");
    }

    #[test]
    fn an_explanation_of_a_satisfied_or_idle_class_says_so() {
        let busy = [(4, Request::Rate(1_500_000)), (3, Request::Rate(500_000))];
        assert!(
            explain(&busy, 4).ends_with("A1: wants 1.5 Mbit/s, gets 1.5 Mbit/s; idle: A2\nA1 gets all it wants.\n")
        );
        assert!(explain(&busy, 5).ends_with("A2: asks for nothing\nA2 asks for nothing.\n"));
        assert_eq!(explain(&busy, 0), "link: wants 2 Mbit/s, gets 2 Mbit/s\nlink gets all it wants.\n");
    }

    #[test]
    fn the_steps_hold_the_numbers_and_the_siblings() {
        let (tree, _) = figure_1();
        let unlimited = |class| (ClassId(class), Request::Unlimited);
        let demand = Demand::new(&tree, [unlimited(4), unlimited(7), unlimited(3)]).unwrap();
        let allocation = Allocation::solve(&tree, &demand).into();
        let explanation = Explanation::new(&tree, &allocation, ClassId(4)).unwrap();
        let [link, a, a1] = &explanation.steps[..] else { panic!("three steps") };
        assert_eq!((link.class, a.class, a1.class), (ClassId::ROOT, ClassId(1), ClassId(4)));
        // B takes 50 of 1000; A and C share 950 as 300 to 400.
        assert_eq!(a.fair_share, Some(BigRational::new(19.into(), 14.into())));
        assert_eq!(a.entitled.as_ref(), Some(&a.allocation.allocation));
        assert_eq!((&a.satisfied_siblings[..], &a.unsatisfied_siblings[..]), (&[ClassId(2)][..], &[ClassId(3)][..]));
        assert_eq!(a1.idle_siblings, [ClassId(5)]);
        assert_eq!(explanation.limited_by, [ClassId(1), ClassId::ROOT]);
        let unknown = Explanation::new(&tree, &allocation, ClassId(8)).unwrap_err();
        assert_eq!(unknown, UnknownClass { class: ClassId(8), classes: 8 });
    }

    #[test]
    fn numbers_keep_six_digits_and_long_lists_are_cut() {
        assert_eq!(number(1234567.0), "1234567");
        assert_eq!(number(0.001_234_567_8), "0.00123457");
        assert_eq!(number(1000.0), "1000");
        assert_eq!(number(1.2e-9), "1.20000e-9");
        let classes: Vec<ClassId> = (0..10).map(ClassId).collect();
        assert_eq!(list(&classes, &|class| class.0.to_string()), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
