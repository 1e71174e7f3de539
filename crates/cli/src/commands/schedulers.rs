//! `fairlink schedulers`: what each scheduler supports, from the code itself.

use fairlink_core::{Feature, SchedulerInfo, registry::SCHEDULERS};
use serde::Serialize;

use crate::failure::Failure;
use crate::out::Out;

#[derive(Serialize)]
struct List {
    schedulers: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    paper: &'static str,
    summary: &'static str,
    hierarchy: bool,
    ceiling: bool,
    priority: bool,
    service_curves: bool,
    latency_class: bool,
    /// All it honours, in words.
    features: Vec<&'static str>,
    work_conserving: &'static str,
    cost: &'static str,
    bounds: Vec<&'static str>,
}

impl From<&SchedulerInfo> for Entry {
    fn from(info: &SchedulerInfo) -> Self {
        Self {
            name: info.name,
            paper: info.paper,
            summary: info.summary,
            hierarchy: info.supports(Feature::Hierarchy),
            ceiling: info.supports(Feature::Ceiling),
            priority: info.supports(Feature::Priority),
            service_curves: info.supports(Feature::ServiceCurves),
            latency_class: info.supports(Feature::LatencyCritical),
            features: info.features.iter().map(|feature| feature.as_str()).collect(),
            work_conserving: info.work_conserving.as_str(),
            cost: info.cost,
            bounds: info.promises.names().collect(),
        }
    }
}

/// Lists them.
pub(crate) fn run(out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return out.document(&List { schedulers: SCHEDULERS.iter().map(Entry::from).collect() });
    }
    let head = COLUMNS.iter().map(|&(title, _)| title);
    let head: Vec<_> = ["name"].into_iter().chain(head).collect();
    let rows = SCHEDULERS.iter().map(|info| {
        let mut row = vec![info.name.to_owned()];
        row.extend(COLUMNS.iter().map(|&(_, feature)| if info.supports(feature) { "yes" } else { "-" }.to_owned()));
        row
    });
    out.table(&head, rows.collect(), 0..0)?;
    for info in SCHEDULERS {
        let others = info.features.iter().filter(|&feature| COLUMNS.iter().all(|(_, shown)| shown != feature));
        let others: Vec<_> = others.map(|feature| feature.as_str()).collect();
        let also = if others.is_empty() { String::new() } else { format!("; also honours {}", others.join(", ")) };
        let paper = if info.paper.is_empty() { String::new() } else { format!(" [{}]", info.paper) };
        let promises = info.promises.names().collect::<Vec<_>>().join(", ").replace('_', " ");
        let promises = if promises.is_empty() { "no bounds".to_owned() } else { promises };
        out.line("")?;
        out.paragraph(&format!("{}{paper}: {}{also}", info.name, info.summary), 4)?;
        let more = format!(
            "    work-conserving: {}; promises {promises}; cost of a packet: {}",
            info.work_conserving.as_str(),
            info.cost
        );
        out.paragraph(&more, 4)?;
    }
    Ok(())
}

/// What most people choose by; a column each.
const COLUMNS: [(&str, Feature); 5] = [
    ("tree", Feature::Hierarchy),
    ("ceiling", Feature::Ceiling),
    ("priority", Feature::Priority),
    ("curves", Feature::ServiceCurves),
    ("latency", Feature::LatencyCritical),
];
