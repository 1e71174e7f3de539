//! Classes by their plan, which is their ceiling.

use std::collections::{BTreeMap, HashSet};

use fairlink_config::import::ImportedLink;
use schemars::JsonSchema;
use serde::Serialize;

use super::Case;

/// The classes with one ceiling, and their rates while all classes are busy.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PlanShare {
    /// The ceiling in bit/s; `null` for none.
    pub ceiling_bps: Option<u64>,
    /// Number of classes.
    pub classes: usize,
    /// The lowest rate in bit/s.
    pub least_bps: f64,
    /// The mean rate in bit/s.
    pub mean_bps: f64,
    /// The highest rate in bit/s.
    pub most_bps: f64,
}

/// Returns the plans of a link, the largest first; none if nothing was compared.
pub(super) fn plans(link: &ImportedLink, cases: &[Case]) -> Vec<PlanShare> {
    let Some(case) = cases.iter().find(|case| case.pauses.is_none()) else { return Vec::new() };
    let file = &link.link;
    let idle: HashSet<&str> = link.idle.iter().map(String::as_str).collect();
    let mut plans: BTreeMap<Option<u64>, Vec<f64>> = BTreeMap::new();
    for share in case.classes.iter().filter(|share| !idle.contains(share.name.as_str())) {
        let (Some(id), Some(rate)) = (file.names.id(&share.name), share.after_bps) else { continue };
        let ceiling = file.tree.config(id).ceiling.map(|ceiling| ceiling.bps());
        plans.entry(ceiling).or_default().push(rate);
    }
    let one = |(ceiling_bps, rates): (Option<u64>, Vec<f64>)| PlanShare {
        ceiling_bps,
        classes: rates.len(),
        least_bps: rates.iter().copied().fold(f64::INFINITY, f64::min),
        mean_bps: rates.iter().sum::<f64>() / rates.len() as f64,
        most_bps: rates.iter().copied().fold(0.0, f64::max),
    };
    plans.into_iter().rev().map(one).collect()
}
