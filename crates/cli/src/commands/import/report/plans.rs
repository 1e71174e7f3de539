//! Classes by plan (their ceiling), with their rates while all are busy.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::super::Compared;

/// The classes with one ceiling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PlanShare {
    /// `None`: no ceiling.
    pub(super) ceiling_bps: Option<u64>,
    /// Number of classes.
    pub(super) classes: usize,
    pub(super) least_bps: f64,
    pub(super) mean_bps: f64,
    pub(super) most_bps: f64,
}

/// The plans of a link, the largest first; none if the tool has no plans, or nothing was compared.
pub(super) fn of(link: &Compared) -> Vec<PlanShare> {
    let Some(case) = link.cases.iter().find(|case| case.pauses.is_none()).filter(|_| link.has_plans) else {
        return Vec::new();
    };
    let file = &link.link.link;
    let idle: HashSet<&str> = link.link.idle.iter().map(String::as_str).collect();
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
