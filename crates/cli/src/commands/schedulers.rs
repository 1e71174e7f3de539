//! `fairlink schedulers`: what each scheduler supports, from the code itself.

use std::cmp::Reverse;

use anyhow::anyhow;
use fairlink_core::{Feature, SchedulerInfo, WorkConserving, registry::SCHEDULERS};
use serde::Serialize;

use crate::args::choice;
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

/// Which of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only schedulers with all of these, the best choice first, such as latency,ceilings. Words: tree, ceilings, priorities, curves,
    /// latency, quanta, bursts, active-queues, hosts, push-out, pools, fairness-bound, gap-bound, delay-bound, work-conserving,
    /// constant-cost.
    #[arg(long = "for", value_name = "WORD,...", value_delimiter = ',', value_parser = need)]
    needs: Vec<&'static Need>,
}

/// Something that one may want of a scheduler.
#[derive(Debug)]
struct Need {
    word: &'static str,
    has: fn(&SchedulerInfo) -> bool,
}

/// Every word of `--for`.
const NEEDS: [Need; 16] = [
    Need { word: "tree", has: |info| info.supports(Feature::Hierarchy) },
    Need { word: "ceilings", has: |info| info.supports(Feature::Ceiling) },
    Need { word: "priorities", has: |info| info.supports(Feature::Priority) },
    Need { word: "curves", has: |info| info.supports(Feature::ServiceCurves) },
    Need { word: "latency", has: |info| info.supports(Feature::LatencyCritical) },
    Need { word: "quanta", has: |info| info.supports(Feature::Quantum) },
    Need { word: "bursts", has: |info| info.supports(Feature::Burst) },
    Need { word: "active-queues", has: |info| info.supports(Feature::ActiveQueue) },
    Need { word: "hosts", has: |info| info.supports(Feature::ActiveQueue) },
    Need { word: "push-out", has: |info| info.supports(Feature::PushOut) },
    Need { word: "pools", has: |info| info.supports(Feature::Pool) },
    Need { word: "fairness-bound", has: |info| info.promises.fairness.is_some() },
    Need { word: "gap-bound", has: |info| info.promises.transmission_gap.is_some() },
    Need { word: "delay-bound", has: |info| info.promises.delay.is_some() },
    Need { word: "work-conserving", has: |info| info.work_conserving != WorkConserving::Never },
    Need { word: "constant-cost", has: |info| info.cost.starts_with("O(1)") },
];

/// What belongs to one of [`NEEDS`], which people write in the singular as well.
fn need(text: &str) -> Result<&'static Need, String> {
    let known = |need: &&Need| need.word == text || need.word.strip_suffix('s') == Some(text);
    NEEDS.iter().find(known).ok_or_else(|| choice(NEEDS.iter().map(|need| need.word)))
}

/// An answer to `--for`.
#[derive(Serialize)]
struct Answer {
    wanted: Vec<&'static str>,
    schedulers: Vec<Entry>,
    /// Where none has all: those that lack least, and what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest: Vec<Nearest>,
}

#[derive(Serialize)]
struct Nearest {
    name: &'static str,
    lacks: Vec<&'static str>,
}

/// Lists them.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    if !args.needs.is_empty() {
        return answer(&args.needs, out);
    }
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

/// Which one to take: those that have all that is wanted; more bounds, a tree and a constant cost come first, as most people would choose.
fn answer(needs: &[&'static Need], out: &mut Out) -> Result<(), Failure> {
    let lacks = |info: &SchedulerInfo| -> Vec<&'static str> {
        needs.iter().filter(|need| !(need.has)(info)).map(|need| need.word).collect()
    };
    let mut fit: Vec<&SchedulerInfo> = SCHEDULERS.iter().filter(|info| lacks(info).is_empty()).collect();
    fit.sort_by_key(|info| {
        let simple = info.cost.starts_with("O(1)");
        Reverse((info.promises.names().count(), info.supports(Feature::Hierarchy), simple))
    });
    let fewest = SCHEDULERS.iter().map(|info| lacks(info).len()).min().unwrap_or(0);
    let near = |info: &&SchedulerInfo| fewest > 0 && lacks(info).len() == fewest;
    let nearest: Vec<Nearest> =
        SCHEDULERS.iter().filter(near).map(|info| Nearest { name: info.name, lacks: lacks(info) }).collect();
    let wanted: Vec<&'static str> = needs.iter().map(|need| need.word).collect();
    if out.json {
        let schedulers: Vec<Entry> = fit.into_iter().map(Entry::from).collect();
        let none = schedulers.is_empty();
        out.document(&Answer { wanted, schedulers, nearest })?;
        return if none { Err(Failure::Failed(anyhow!("no scheduler has all of this"))) } else { Ok(()) };
    }
    if fit.is_empty() {
        out.paragraph(&format!("No scheduler has all of {}. Nearest:", wanted.join(", ")), 2)?;
        for Nearest { name, lacks } in nearest {
            out.paragraph(&format!("  {name}: all but {}", lacks.join(", ")), 2)?;
        }
        out.flush()?;
        return Err(Failure::Failed(anyhow!("no scheduler has all of this")));
    }
    let rows = fit.iter().map(|info| {
        let bounds = info.promises.names().collect::<Vec<_>>().join(", ").replace('_', " ");
        vec![info.name.to_owned(), if bounds.is_empty() { "none".to_owned() } else { bounds }, info.cost.to_owned()]
    });
    out.table(&["name", "bounds", "cost of a packet"], rows.collect(), 0..0)?;
    out.line("")?;
    out.paragraph(&format!("{}: {}", fit[0].name, fit[0].summary), 4)?;
    out.paragraph(&format!("Set it in [link]: scheduler = \"{}\".", fit[0].name), 2)
}

/// What most people choose by; a column each.
const COLUMNS: [(&str, Feature); 5] = [
    ("tree", Feature::Hierarchy),
    ("ceiling", Feature::Ceiling),
    ("priority", Feature::Priority),
    ("curves", Feature::ServiceCurves),
    ("latency", Feature::LatencyCritical),
];
