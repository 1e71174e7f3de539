//! Link files for computations about their tree, and names of classes in documents and in words.

use fairlink_config::demand::{Asked, DemandError, parse_demand, read_demand};
use fairlink_config::problem::ProblemKind;
use fairlink_config::{LinkFile, Problem, ReadOptions, Source};
use fairlink_core::{ClassId, Leniency, Share};
use fairlink_report::{ClassReport, Terms};
use fairlink_theory::request::{Demand, Request};

use crate::refused::Refused;

/// Reads a link file for a computation without a scheduler. Returns warnings about the tree; warnings that concern only
/// schedulers, queues and frames are omitted.
///
/// # Errors
/// [`Refused`]: errors in the text.
pub fn read_tree(source: &Source) -> Result<(LinkFile, Vec<Problem>), Refused> {
    let mut link = LinkFile::from_source(source, &ReadOptions { leniency: Leniency::Ignore, scheduler: None })?;
    let concerns_the_tree = |warning: &Problem| {
        let kind = warning.kind();
        !concerns_frames(kind)
            && !matches!(kind, ProblemKind::Unsupported { .. } | ProblemKind::Misplaced { key: "buffer" | "pool", .. })
    };
    let warnings = std::mem::take(&mut link.warnings).into_iter().filter(concerns_the_tree).collect();
    Ok((link, warnings))
}

/// Returns true if a warning concerns the classification of frames, which matters only for a gateway and a check.
#[must_use]
pub fn concerns_frames(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::Misplaced { key: "default", .. })
}

/// Reads the demands of the leaves of `link` from the text of `--demand`; without one, every leaf has no limit.
///
/// # Errors
/// [`Refused`]: a wrong demand.
pub fn demand(link: &LinkFile, text: Option<&str>) -> Result<Demand, Refused> {
    let Some(text) = text else { return Ok(Demand::uniform(&link.tree, Request::Unlimited)) };
    made(link, parse_demand(text, &link.tree, &link.names))
}

/// Makes the demands of the leaves of `link` from these leaves and rates. All other leaves have none.
///
/// # Errors
/// [`Refused`]: a wrong demand.
pub fn demand_of<'a>(
    link: &LinkFile,
    items: impl IntoIterator<Item = (&'a str, Asked<'a>)>,
) -> Result<Demand, Refused> {
    made(link, read_demand(items.into_iter().map(Ok), &link.tree, &link.names))
}

fn made(link: &LinkFile, read: Result<Vec<(ClassId, Option<u64>)>, DemandError>) -> Result<Demand, Refused> {
    let refused = |error: String| Refused::argument("demand", error);
    let parsed = read.map_err(|error| refused(error.to_string()))?;
    let requests = parsed.into_iter().map(|(class, rate)| (class, rate.map_or(Request::Unlimited, Request::Rate)));
    Demand::new(&link.tree, requests).map_err(|error| refused(error.to_string()))
}

/// The name of a class's parent; `None` below the link itself.
#[must_use]
pub fn parent_name(link: &LinkFile, class: ClassId) -> Option<&str> {
    let parent = link.tree.parent(class)?;
    (parent != ClassId::ROOT).then(|| link.names.name(parent))
}

/// A class in running text.
#[must_use]
pub fn in_text(link: &LinkFile, class: ClassId) -> String {
    if class == ClassId::ROOT { "the link".to_owned() } else { link.names.name(class).to_owned() }
}

/// A class without anything that was computed for it.
pub(crate) fn class_report(link: &LinkFile, class: ClassId) -> ClassReport {
    ClassReport {
        name: link.names.name(class).to_owned(),
        parent: parent_name(link, class).map(str::to_owned),
        leaf: link.tree.is_leaf(class),
        ..ClassReport::default()
    }
}

/// The terms that a class is configured with.
pub(crate) fn terms(link: &LinkFile, class: ClassId) -> Terms {
    let config = link.tree.config(class);
    let (guarantee_bps, weight) = match config.share {
        Some(Share::Guarantee(rate)) => (Some(rate.bps()), None),
        Some(Share::Weight(weight)) => (None, Some(weight)),
        None => (None, None),
    };
    Terms { guarantee_bps, weight, ceiling_bps: config.ceiling.map(|rate| rate.bps()), share_all_busy_bps: None }
}
