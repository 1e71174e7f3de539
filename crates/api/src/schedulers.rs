//! Features and promises of each scheduler, from its `INFO`.

use std::cmp::Reverse;

use fairlink_core::registry::SCHEDULERS;
use fairlink_core::{Feature, SchedulerInfo, WorkConserving};
use fairlink_report::{Content, Document};
use schemars::JsonSchema;
use serde::Serialize;

use crate::refused::Refused;

/// A scheduler.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SchedulerReport {
    /// Its name in link files.
    pub name: &'static str,
    /// The key of its paper in docs/papers.md.
    pub paper: &'static str,
    /// One sentence about it.
    pub summary: &'static str,
    /// True if it shares by a tree.
    pub hierarchy: bool,
    /// True if it supports ceilings.
    pub ceiling: bool,
    /// True if it supports priorities.
    pub priority: bool,
    /// True if it guarantees service curves.
    pub service_curves: bool,
    /// True if it supports latency-critical classes.
    pub latency_class: bool,
    /// All it honours, in words.
    pub features: Vec<&'static str>,
    /// True if it sends whenever it has packets.
    pub work_conserving: &'static str,
    /// The cost of a packet.
    pub cost: &'static str,
    /// The kinds of bounds that it promises.
    pub bounds: Vec<&'static str>,
}

impl From<&SchedulerInfo> for SchedulerReport {
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

/// Something that one may want of a scheduler: its word, and who has it.
type Need = (&'static str, fn(&SchedulerInfo) -> bool);

/// Every word that [`schedulers`] takes.
pub const NEEDS: [Need; 16] = [
    ("tree", |info| info.supports(Feature::Hierarchy)),
    ("ceilings", |info| info.supports(Feature::Ceiling)),
    ("priorities", |info| info.supports(Feature::Priority)),
    ("curves", |info| info.supports(Feature::ServiceCurves)),
    ("latency", |info| info.supports(Feature::LatencyCritical)),
    ("quanta", |info| info.supports(Feature::Quantum)),
    ("bursts", |info| info.supports(Feature::Burst)),
    ("active-queues", |info| info.supports(Feature::ActiveQueue)),
    ("hosts", |info| info.supports(Feature::ActiveQueue)),
    ("push-out", |info| info.supports(Feature::PushOut)),
    ("pools", |info| info.supports(Feature::Pool)),
    ("fairness-bound", |info| info.promises.fairness.is_some()),
    ("gap-bound", |info| info.promises.transmission_gap.is_some()),
    ("delay-bound", |info| info.promises.delay.is_some()),
    ("work-conserving", |info| info.work_conserving != WorkConserving::Never),
    ("constant-cost", |info| info.cost.starts_with("O(1)")),
];

/// The document of [`schedulers`].
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SchedulersDoc {
    /// The wanted features. Absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<&'static str>,
    /// Schedulers with all of them, the best choice first; all in the order of the registry if none are wanted.
    pub schedulers: Vec<SchedulerReport>,
    /// If no scheduler has all features: the schedulers that lack fewest, with the missing features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Nearest>,
}

impl Content for SchedulersDoc {
    const KIND: &'static str = "schedulers";
}

/// A scheduler that has almost all.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Nearest {
    /// Its name.
    pub name: &'static str,
    /// The missing features.
    pub lacks: Vec<&'static str>,
}

/// Lists the schedulers that have all that is wanted: those with more bounds, a tree and a constant cost come first, as
/// most people would choose. Words are those of [`NEEDS`], in the singular as well.
///
/// ```
/// let found = fairlink_api::schedulers(&["tree", "delay-bounds"]).unwrap_err();
/// assert!(found.to_string().starts_with("for: write one of tree, ceilings"));
/// let found = fairlink_api::schedulers(&["tree", "latency"])?.content;
/// assert_eq!(found.schedulers[0].name, "hls");
/// # Ok::<(), fairlink_api::Refused>(())
/// ```
///
/// # Errors
/// A word that is not known.
pub fn schedulers(needs: &[&str]) -> Result<Document<SchedulersDoc>, Refused> {
    if needs.is_empty() {
        let schedulers = SCHEDULERS.iter().map(SchedulerReport::from).collect();
        return Ok(Document::new(SchedulersDoc { wanted: Vec::new(), schedulers, nearest: Vec::new() }));
    }
    let needs = needs.iter().map(|word| need(word)).collect::<Result<Vec<_>, _>>()?;
    let lacks = |info: &SchedulerInfo| -> Vec<&'static str> {
        needs.iter().filter(|(_, has)| !has(info)).map(|(word, _)| *word).collect()
    };
    let mut fit: Vec<&SchedulerInfo> = SCHEDULERS.iter().filter(|info| lacks(info).is_empty()).collect();
    fit.sort_by_key(|info| {
        let simple = info.cost.starts_with("O(1)");
        Reverse((info.promises.names().count(), info.supports(Feature::Hierarchy), simple))
    });
    let fewest = SCHEDULERS.iter().map(|info| lacks(info).len()).min().unwrap_or(0);
    let near = |info: &&SchedulerInfo| fewest > 0 && lacks(info).len() == fewest;
    let nearest = SCHEDULERS.iter().filter(near).map(|info| Nearest { name: info.name, lacks: lacks(info) }).collect();
    let schedulers = fit.into_iter().map(SchedulerReport::from).collect();
    Ok(Document::new(SchedulersDoc { wanted: needs.iter().map(|(word, _)| *word).collect(), schedulers, nearest }))
}

fn need(text: &str) -> Result<Need, Refused> {
    let known = |(word, _): &&Need| *word == text || word.strip_suffix('s') == Some(text);
    NEEDS.iter().find(known).copied().ok_or_else(|| {
        let words: Vec<&str> = NEEDS.iter().map(|(word, _)| *word).collect();
        Refused::argument("for", format!("write one of {}", words.join(", ")))
    })
}
