//! Changes that raise the rate of a class, in JSON and in words. [`fairlink_theory::changes`] computes them.

use std::fmt::Write as _;

use fairlink_config::{LinkFile, human};
use fairlink_core::ClassId;
use fairlink_theory::changes::{Change, Changes, Lever, NoChanges};
use fairlink_theory::limits::LimitKind;
use fairlink_theory::request::Demand;
use fairlink_theory::to_f64;
use schemars::JsonSchema;
use serde::Serialize;

use crate::tree::in_text;

/// Changes that are printed; JSON has all.
const SHOWN: usize = 12;

/// The member `changes`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Entry {
    /// Size of a change, in bit/s.
    step_bps: u64,
    /// The most helpful first.
    helpful: Vec<One>,
    /// Changes that give the class nothing.
    useless: Vec<One>,
    /// Number of siblings whose reduced demand was not tried, because there are too many.
    untried_siblings: usize,
    #[serde(skip)]
    this: String,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct One {
    /// `link`, `guarantee`, `weight`, `asks_less`, `no_limit` or `asks_more`.
    change: &'static str,
    /// The changed class; `link` for the link.
    class: String,
    /// Absent if a weight is changed.
    #[serde(flatten)]
    rates: Option<Rates>,
    /// Absent if rates are changed.
    #[serde(flatten)]
    weights: Option<Weights>,
    /// Rate that the explained class gains, in bit/s.
    gain_bps: f64,
    /// False if siblings give up guarantees for it, because the class above has no room.
    fits: bool,
    #[serde(skip)]
    text: String,
}

/// A rate before and after a change.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Rates {
    /// Rate before, in bit/s. Null for no limit, and for unlimited demand of leaves.
    from_bps: Option<u64>,
    /// Rate after, in bit/s; null as before.
    to_bps: Option<u64>,
    /// Of a small change; null if there is none.
    gain_per_bps: Option<f64>,
}

/// The same of a weight.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Weights {
    /// Weight before.
    from_weight: Option<u64>,
    /// Weight after.
    to_weight: Option<u64>,
    /// Bit/s gained by one more unit of weight.
    gain_per_weight: Option<f64>,
}

impl Entry {
    /// The changes for `class`, each of `step` bit/s.
    pub(crate) fn for_class(link: &LinkFile, demand: &Demand, class: ClassId, step: u64) -> Result<Self, NoChanges> {
        let changes = Changes::find(link.info(), &link.tree, demand, class, step)?;
        let list = |changes: &[Change]| changes.iter().map(|change| One::for_change(link, change)).collect();
        Ok(Self {
            step_bps: step,
            helpful: list(&changes.helpful),
            useless: list(&changes.useless),
            untried_siblings: changes.untried,
            this: in_text(link, class),
        })
    }

    /// A few lines.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self.helpful.is_empty() {
            true => writeln!(text, "\nNo single change raises the rate of {}.", self.this),
            false => writeln!(text, "\nSingle changes that raise the rate of {}:", self.this),
        };
        let shown = &self.helpful[..self.helpful.len().min(SHOWN)];
        let width = shown.iter().map(|one| one.text.chars().count()).max().unwrap_or(0);
        for one in shown {
            let gain = format!("+{}", human::rate(one.gain_bps));
            let per = match (&one.rates, &one.weights) {
                (Some(Rates { gain_per_bps: Some(per), .. }), _) => format!(", initially {per:.2} bit/s per bit/s"),
                (_, Some(Weights { gain_per_weight: Some(per), .. })) => {
                    format!(", {} per unit of weight", human::rate(*per))
                }
                _ => String::new(),
            };
            let fits = if one.fits { "" } else { "; siblings give up as much" };
            let _ = writeln!(text, "  {:width$}  {gain}{per}{fits}", one.text);
        }
        if self.helpful.len() > SHOWN {
            let _ = writeln!(text, "  and {} more with smaller gains", self.helpful.len() - SHOWN);
        }
        if !self.useless.is_empty() {
            let names = self.useless.iter().take(SHOWN).map(|one| one.text.as_str()).collect::<Vec<_>>().join("; ");
            let more = match self.useless.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let _ = writeln!(text, "No effect: {names}{more}.");
        }
        if self.untried_siblings > 0 {
            let untried = human::count(self.untried_siblings, "sibling", "siblings");
            let _ = writeln!(text, "Not tried: {untried} with small rates.");
        }
        text
    }
}

impl One {
    fn for_change(link: &LinkFile, change: &Change) -> Self {
        let kind = match change.lever {
            Lever::Link => "link",
            Lever::Guarantee => "guarantee",
            Lever::Weight => "weight",
            Lever::AsksLess => "asks_less",
            Lever::Lift(_) => "no_limit",
            Lever::AsksMore => "asks_more",
        };
        let is_weight = change.lever == Lever::Weight;
        let per = change.per_bps.as_ref().map(to_f64);
        Self {
            change: kind,
            class: link.names.name(change.class).to_owned(),
            rates: (!is_weight).then_some(Rates { from_bps: change.from, to_bps: change.to, gain_per_bps: per }),
            weights: is_weight.then_some(Weights {
                from_weight: change.from,
                to_weight: change.to,
                gain_per_weight: per,
            }),
            gain_bps: to_f64(&change.gain),
            fits: change.fits,
            text: words(link, change),
        }
    }
}

fn words(link: &LinkFile, change: &Change) -> String {
    let class = in_text(link, change.class);
    let rate = |bps: Option<u64>| human::rate(bps.unwrap_or(0) as f64);
    let (from, to) = (rate(change.from), rate(change.to));
    match change.lever {
        Lever::Link => format!("link rate {from} -> {to}"),
        Lever::Guarantee => format!("guarantee of {class} {from} -> {to}"),
        Lever::Weight => {
            let weight = |weight: Option<u64>| weight.unwrap_or(0);
            format!("weight of {class} {} -> {}", weight(change.from), weight(change.to))
        }
        Lever::AsksLess => format!("demand of {class} {from} -> {to}"),
        Lever::Lift(LimitKind::Ceiling) => format!("remove the ceiling of {class} ({from})"),
        Lever::Lift(LimitKind::UpperLimit) => format!("remove the upper limit of {class} ({from})"),
        Lever::Lift(LimitKind::Bounded) => format!("let {class} borrow (now bounded to {from})"),
        Lever::Lift(LimitKind::RealTime) => format!("add a link_share curve to {class} (real_time {from})"),
        Lever::Lift(LimitKind::Isolated) => format!("let {class} share (now isolated at {from})"),
        Lever::AsksMore => format!("higher demand of {class}"),
    }
}
