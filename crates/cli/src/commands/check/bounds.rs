//! The bounds of a scheduler as `check` prints them: numbers for programs, sentences for people. They are computed in
//! [`fairlink_theory::promises`].

use fairlink_config::link::LinkFile;
use fairlink_core::SchedulerInfo;
use fairlink_theory::promises::{Promised, RunWeight, WeightUnit, admission};
use fairlink_theory::to_f64;
use serde::Serialize;

use crate::human;

/// Promises for the whole link; what the scheduler does not promise is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Bounds<'a> {
    /// Definition 1 of \[hls\] with the weights as run.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_bytes: Option<f64>,
    /// The same as time at the guarantee, free of the unit of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_s: Option<f64>,
    /// The siblings for which it is the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_between: Option<[&'a str; 2]>,
    /// How long a backlogged leaf waits for its next visit at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmission_gap_s: Option<f64>,
    /// One round, which is what Table II of \[hls\] prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_round_s: Option<f64>,
}

impl<'a> Bounds<'a> {
    /// Those of `promised`, with the names of `link`.
    pub(super) fn of(promised: &Promised, link: &'a LinkFile) -> Self {
        let fairness = promised.fairness.as_ref();
        let gap = promised.transmission_gap.as_ref();
        let pair = |(one, other)| [one, other].map(|class| link.names.name(class));
        Self {
            fairness_bytes: fairness.map(|fairness| to_f64(&fairness.bytes_per_weight.value)),
            fairness_s: fairness.map(|fairness| to_f64(&fairness.seconds.value)),
            fairness_between: fairness.map(|fairness| pair(fairness.seconds.classes)),
            transmission_gap_s: gap.map(|gap| to_f64(&gap.seconds)),
            longest_round_s: gap.and_then(|gap| gap.longest_round.as_ref()).map(to_f64),
        }
    }
}

/// Whether the link can guarantee the service curves that its classes ask for, \[hfsc\] Section 2.1.
#[derive(Debug, Serialize)]
pub(super) struct Admission {
    admitted: bool,
    /// After how long all classes together ask for more than the link carries, if all become backlogged at once.
    fails_at_s: Option<f64>,
}

impl Admission {
    /// The admission test, where the link's scheduler guarantees curves and a class has one.
    pub(super) fn of(link: &LinkFile) -> Option<Self> {
        let fails_at = admission(link.info(), &link.tree)?;
        Some(Self { admitted: fails_at.is_none(), fails_at_s: fails_at.as_ref().map(to_f64) })
    }
}

/// A weight with its unit.
pub(super) fn weight(weight: RunWeight) -> String {
    match weight.unit {
        WeightUnit::Bytes => human::size(weight.as_run),
        WeightUnit::Visits => format!("{} visits", weight.as_run),
    }
}

/// The bounds in words, one a line.
pub(super) fn lines(promised: &Promised, bounds: &Bounds<'_>, info: &SchedulerInfo) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(fairness), Some(bytes), Some(seconds)) = (&promised.fairness, bounds.fairness_bytes, bounds.fairness_s)
    {
        let between = bounds.fairness_between.map_or_else(String::new, |[a, b]| format!(" ({a} and {b})"));
        lines.push(format!(
            "fairness          {} that stay backlogged are never further apart than {} of service at their guarantee{between};",
            if fairness.leaves_only { "sibling leaves" } else { "siblings" },
            human::time(seconds)
        ));
        let unit = if fairness.unit == WeightUnit::Bytes { "byte" } else { "visit" };
        lines.push(format!("                  {} per {unit} of weight as run", human::size(bytes)));
    }
    let worst_case = promised.worst_case.iter().any(Option::is_some);
    if worst_case {
        lines.push(
            "fairness          while a class is backlogged it is behind its share of what the link sends by so much at most"
                .to_owned(),
        );
    }
    if let Some(gap) = bounds.transmission_gap_s {
        let rounds = bounds.longest_round_s.map_or_else(String::new, |one| {
            let more = if gap > one * 2.000_001 { ", and what latency-critical classes may be ahead by" } else { "" };
            format!(" (two rounds of {}{more})", human::time(one))
        });
        lines.push(format!(
            "transmission gap  a backlogged leaf waits at most {} for its next visit{rounds}",
            human::time(gap)
        ));
    }
    let delays = promised.delays.iter().any(Option::is_some);
    if delays {
        let which =
            "for traffic within the class's rate and burst: what it sets, its curve's first piece, or a largest frame";
        lines.push(format!("delay             {which}"));
    }
    let computed = [
        ("fairness", promised.fairness.is_some() || worst_case),
        ("transmission_gap", bounds.transmission_gap_s.is_some()),
        ("delay", delays),
    ];
    let mut names = info.promises.names().peekable();
    if names.peek().is_none() {
        lines.push("This scheduler promises no bounds.".to_owned());
    }
    let others: Vec<&str> = names.filter(|name| !computed.contains(&(name, true))).collect();
    if !others.is_empty() {
        let others = others.join(", ").replace('_', " ");
        lines.push(format!("This scheduler also promises {others}; how much is not computed here."));
    }
    lines
}
