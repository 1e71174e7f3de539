//! Gain of false demands and rearranged guarantees, in JSON and in words. [`fairlink_theory::strategy`] searches for
//! it.

use std::fmt::Write as _;

use fairlink_config::{LinkFile, human};
use fairlink_core::{ClassId, Share};
use fairlink_theory::request::{Demand, Request};
use fairlink_theory::strategy::{Rule, Search, StrategyError};
use fairlink_theory::to_f64;
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::Refused;

/// Maximum number of changed classes printed; JSON has all.
const SHOWN: usize = 6;

/// The member `strategy`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Entry {
    /// Gain of its leaves from understating or overstating their demand.
    misreport: Option<Rules>,
    /// Gain of other guarantees below it; null for a leaf.
    rearrange: Option<Rules>,
    /// Reason for no search.
    not_searched: Option<String>,
    #[serde(skip)]
    this: String,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Rules {
    /// Under hierarchical max-min fairness.
    hmm: Found,
    /// Null if HTB would refuse the file.
    htb: Option<Found>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Found {
    /// Rate with the true demand and the guarantees of the file, in bit/s.
    truthful_bps: f64,
    /// Rate with the best strategy, in bit/s.
    best_bps: f64,
    /// The difference, in bit/s.
    gain_bps: f64,
    /// Number of allocations that were computed.
    tried: usize,
    /// Changes of the best strategy; empty if nothing is better.
    with: Vec<Changed>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Changed {
    /// The class.
    class: String,
    /// Its stated demand, or its guarantee, in bit/s; null for as much as possible, and for a weight.
    bps: Option<u64>,
    /// In thousandths of the weight as written, if there is no guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
}

impl Entry {
    /// Gain of `class`.
    pub(crate) fn for_class(link: &LinkFile, demand: &Demand, class: ClassId) -> Result<Self, Refused> {
        let mut entry =
            Self { misreport: None, rearrange: None, not_searched: None, this: link.names.name(class).to_owned() };
        let tree = &link.tree;
        let told = |request: Request| match request {
            Request::Rate(bps) => Some(bps),
            Request::Unlimited => None,
        };
        let lie =
            |(leaf, request)| Changed { class: link.names.name(leaf).to_owned(), bps: told(request), weight: None };
        let share = |(class, value): (ClassId, u64)| {
            let guaranteed = matches!(tree.config(class).share, Some(Share::Guarantee(_)));
            let (bps, weight) = if guaranteed { (Some(value), None) } else { (None, Some(value)) };
            Changed { class: link.names.name(class).to_owned(), bps, weight }
        };
        match Rules::from_search(|rule| Ok(Found::from_search(rule.misreports(tree, demand, class)?, lie))) {
            Ok(rules) => entry.misreport = Some(rules),
            Err(error @ StrategyError::TooLarge { .. }) => {
                entry.not_searched = Some(error.to_string());
                return Ok(entry);
            }
            Err(error) => return Err(Refused::failed(error)),
        }
        if !tree.is_leaf(class) {
            let rules =
                Rules::from_search(|rule| Ok(Found::from_search(rule.rearrangements(tree, demand, class)?, share)));
            entry.rearrange = Some(rules.map_err(Refused::failed)?);
        }
        Ok(entry)
    }

    /// A few lines.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let Some(misreport) = &self.misreport else {
            let _ = writeln!(
                text,
                "\nFalse demands and restructured guarantees: not searched: {}.",
                self.not_searched.as_deref().unwrap_or("")
            );
            return text;
        };
        let lies = misreport.text(&self.this, |change| match change.bps {
            None => format!("unlimited demand of {}", change.class),
            Some(bps) => format!("demand of {} {}", change.class, human::rate(bps as f64)),
        });
        let _ = writeln!(text, "\nFalse demands: {lies}");
        if let Some(rearrange) = &self.rearrange {
            let moved = rearrange.text(&self.this, |change| match (change.bps, change.weight) {
                (Some(bps), _) => format!("{} at {}", change.class, human::rate(bps as f64)),
                (None, weight) => format!("{} at weight {}", change.class, weight.unwrap_or(0) as f64 / 1e3),
            });
            let _ = writeln!(text, "Restructured guarantees below {}: {moved}", self.this);
        }
        text
    }
}

impl Rules {
    fn from_search(search: impl Fn(Rule) -> Result<Found, StrategyError>) -> Result<Self, StrategyError> {
        let htb = match search(Rule::Htb) {
            Err(StrategyError::Refused(_)) => None,
            found => Some(found?),
        };
        Ok(Self { hmm: search(Rule::Hmm)?, htb })
    }

    fn text(&self, this: &str, change: impl Fn(&Changed) -> String) -> String {
        let hmm = self.hmm.text(this, &change);
        let htb =
            self.htb.as_ref().map_or_else(|| "the file would be refused".to_owned(), |htb| htb.text(this, &change));
        format!("max-min fairness (hls): {hmm}; htb's rule: {htb}.")
    }
}

impl Found {
    fn from_search<T: Copy>(search: Search<T>, change: impl Fn((ClassId, T)) -> Changed) -> Self {
        let truthful_bps = to_f64(&search.truthful);
        let gain_bps = to_f64(&search.gain());
        let with = search.better.map_or_else(Vec::new, |better| better.with.into_iter().map(change).collect());
        Self { truthful_bps, best_bps: truthful_bps + gain_bps, gain_bps, tried: search.tried, with }
    }

    fn text(&self, this: &str, change: impl Fn(&Changed) -> String) -> String {
        if self.with.is_empty() {
            return format!("no gain ({} strategies tried)", self.tried);
        }
        let mut with: Vec<String> = self.with.iter().take(SHOWN).map(change).collect();
        if self.with.len() > SHOWN {
            with.push(format!("{} more changes", self.with.len() - SHOWN));
        }
        let (best, truthful) = (human::rate(self.best_bps), human::rate(self.truthful_bps));
        format!("{this} gets {best} instead of {truthful} with {}", with.join(", "))
    }
}
