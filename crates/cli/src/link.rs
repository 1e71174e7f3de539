//! Link files and demands on the command line, for the commands that take them.

use std::path::{Path, PathBuf};

use fairlink_config::demand::parse_demand;
use fairlink_config::problem::ProblemKind;
use fairlink_config::{LinkFile, Problem, Problems, ReadOptions};
use fairlink_core::{ClassId, Leniency};
use fairlink_theory::bursts::{CostlyBurst, costly_bursts};
use fairlink_theory::promises::largest_share_error;
use fairlink_theory::reach::{all_small_bursts, may_lose};
use fairlink_theory::request::{Demand, Request};
use serde::Serialize;

use crate::failure::Failure;
use crate::style::report;

/// What is wrong with a file is the user's to mend.
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        // A problem that has no place in the file would not name it.
        let unplaced = problems.all().iter().find(|problem| problem.span().is_none());
        let file = unplaced.map(|problem| problem.location().file);
        let report = miette::Report::new(problems);
        Self::File(match file {
            Some(file) => report.wrap_err(file),
            None => report,
        })
    }
}

/// One finding in a file, as JSON has it.
#[derive(Serialize)]
pub(crate) struct Finding {
    file: String,
    line: usize,
    column: usize,
    message: String,
    help: Option<String>,
}

impl From<&Problem> for Finding {
    fn from(problem: &Problem) -> Self {
        let place = problem.location();
        let message = problem.to_string();
        Self { file: place.file, line: place.line, column: place.column, message, help: problem.kind().help() }
    }
}

/// Shows what is doubtful but usable, to standard error.
pub(crate) fn warn(warnings: impl IntoIterator<Item = Problem>) {
    warnings.into_iter().for_each(|warning| report(&miette::Report::new(warning)));
}

/// Reads a link file for a computation that no scheduler takes part in: whatever only schedulers, queues and frames care about is
/// left aside.
pub(crate) fn read_tree(path: &Path) -> Result<LinkFile, Failure> {
    let mut link = LinkFile::read(path, &ReadOptions { leniency: Leniency::Ignore, scheduler: None })?;
    let concerns_the_tree = |warning: &Problem| {
        let kind = warning.kind();
        !concerns_frames(kind)
            && !matches!(kind, ProblemKind::Unsupported { .. } | ProblemKind::Misplaced { key: "buffer" | "pool", .. })
    };
    warn(std::mem::take(&mut link.warnings).into_iter().filter(concerns_the_tree));
    Ok(link)
}

/// A share that comes out wrong by more than this, relative to it, is worth a warning.
const WRONG_SHARE: f64 = 0.01;

/// Warnings where the link's scheduler gives a class another share than the one written, or less than its ceiling for want of a burst.
pub(crate) fn share_warnings(link: &LinkFile) -> Result<Vec<Problem>, Failure> {
    let error = largest_share_error(link.info(), &link.tree).map_err(Failure::failed)?;
    let wrong = error.filter(|(_, error)| error.abs() > WRONG_SHARE);
    let mut warnings: Vec<Problem> = wrong.map(|(class, error)| link.share_warning(class, error)).into_iter().collect();
    if may_lose(link.info()) {
        let small = all_small_bursts(&link.tree).map_err(|error| link.explain(&error))?;
        warnings.extend(
            small
                .iter()
                .map(|small| link.small_burst_warning(small.class, small.enough, small.reached_bps, small.busy)),
        );
    }
    let costly = costly_bursts(link.info(), &link.tree).map_err(|error| link.explain(&error))?;
    warnings.extend(costly.iter().map(|costly| {
        let CostlyBurst { class, feature, burst, enough, with_bps, without_bps } = *costly;
        link.costly_burst_warning((class, feature, burst), enough, (with_bps, without_bps))
    }));
    Ok(warnings)
}

/// A warning of the leaves that no frame can reach where frames are told apart by matches alone.
#[cfg(target_os = "linux")]
pub(crate) fn reach_warning(link: &LinkFile) -> Option<Problem> {
    link.unreachable_warning(link.unreachable())
}

/// Whether a warning is about which frames belong to which class, which nothing but a gateway and a check ask.
pub(crate) fn concerns_frames(kind: &ProblemKind) -> bool {
    matches!(kind, ProblemKind::Misplaced { key: "default", .. })
}

/// The name of a class's parent; `None` below the link itself.
pub(crate) fn parent_name(link: &LinkFile, class: ClassId) -> Option<&str> {
    let parent = link.tree.parent(class)?;
    (parent != ClassId::ROOT).then(|| link.names.name(parent))
}

/// A class in running text.
pub(crate) fn in_text(link: &LinkFile, class: ClassId) -> String {
    if class == ClassId::ROOT { "the link".to_owned() } else { link.names.name(class).to_owned() }
}

/// The name of a class, set in by its depth.
pub(crate) fn indented(link: &LinkFile, class: ClassId) -> String {
    format!("{}{}", "  ".repeat(link.tree.depth(class) - 1), link.names.name(class))
}

/// A link file and what its leaves ask for.
#[derive(Debug, clap::Args)]
pub(crate) struct FluidArgs {
    /// The link file.
    link: PathBuf,
    /// Demands of the leaves, such as A1=inf,C=300mbit. `inf` means as much as possible; a leaf that is not named has no demand [default:
    /// every leaf inf].
    #[arg(long, value_name = "LEAF=RATE,...")]
    demand: Option<String>,
}

impl FluidArgs {
    /// Reads both.
    pub(crate) fn read(&self) -> Result<(LinkFile, Demand), Failure> {
        let link = read_tree(&self.link)?;
        let demand = match &self.demand {
            None => Demand::uniform(&link.tree, Request::Unlimited),
            Some(text) => {
                let parsed = parse_demand(text, &link.tree, &link.names)
                    .map_err(|error| Failure::wrong(format!("--demand: {error}")))?;
                let requests =
                    parsed.into_iter().map(|(class, rate)| (class, rate.map_or(Request::Unlimited, Request::Rate)));
                Demand::new(&link.tree, requests).map_err(Failure::wrong)?
            }
        };
        Ok((link, demand))
    }
}
