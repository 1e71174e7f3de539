//! Link files and demands on the command line, for the commands that take them.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fairlink_api::Refused;
use fairlink_config::{LinkFile, Problem, Problems, SourceText};
use fairlink_core::ClassId;

use crate::failure::CliError;
use crate::style::report;

/// Errors of a file are the user's to correct.
impl From<Problems> for CliError {
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

/// A text that is wrong is shown at its place; an argument is named as the option that it is.
impl From<Refused> for CliError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Text(problems) | Refused::NotAdmitted { problems, .. } => problems.into(),
            Refused::Argument { name, message } => Self::wrong(format!("--{name}: {message}")),
            Refused::Failed(message) => Self::failed(anyhow!(message)),
        }
    }
}

/// Prints warnings to standard error.
pub(crate) fn warn(warnings: impl IntoIterator<Item = Problem>) {
    warnings.into_iter().for_each(|warning| report(&miette::Report::new(warning)));
}

/// Reads a link file for a computation that no scheduler takes part in, and shows warnings about its tree.
pub(crate) fn read_tree(path: &Path) -> Result<LinkFile, CliError> {
    let (link, warnings) = fairlink_api::read_tree(&SourceText::read(path)?)?;
    warn(warnings);
    Ok(link)
}

/// Returns a warning about unreachable leaves, if frames are classified by matches only.
#[cfg(target_os = "linux")]
pub(crate) fn reach_warning(link: &LinkFile) -> Option<Problem> {
    link.unreachable_warning(link.unreachable())
}

/// The name of a class, set in by its depth.
pub(crate) fn indented(link: &LinkFile, class: ClassId) -> String {
    format!("{}{}", "  ".repeat(link.tree.depth(class) - 1), link.names.name(class))
}

/// A link file and the demands of its leaves.
#[derive(Debug, clap::Args)]
pub(crate) struct FluidArgs {
    /// The link file.
    pub(crate) link: PathBuf,
    /// Demands of the leaves, such as A1=inf,C=300mbit. `inf` means as much as possible; a leaf that is not named has
    /// no demand [default: every leaf inf].
    #[arg(long, value_name = "LEAF=RATE,...")]
    pub(crate) demand: Option<String>,
}
