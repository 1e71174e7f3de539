//! Link files and demands on the command line, for the commands that take them.

use fairlink_config::link::LinkFile;
use fairlink_config::problem::{Problem, Problems};
use fairlink_core::packet::ClassId;
use serde::Serialize;

use crate::failure::Failure;
use crate::out::report;

/// What is wrong with a file is the user's to mend.
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        // A problem that has no place in the file would not name it.
        let unplaced = problems.all().iter().find(|problem| problem.span().is_none());
        let file = unplaced.map(|problem| problem.location().file);
        let report = miette::Report::new(problems);
        Self::Wrong(match file {
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
        let message = problem.kind().to_string();
        Self { file: place.file, line: place.line, column: place.column, message, help: problem.kind().help() }
    }
}

/// Shows what is doubtful but usable, to standard error.
pub(crate) fn warn(warnings: impl IntoIterator<Item = Problem>) {
    warnings.into_iter().for_each(|warning| report(&miette::Report::new(warning)));
}

/// The name of a class's parent; `None` below the link itself.
pub(crate) fn parent_name(link: &LinkFile, class: ClassId) -> Option<&str> {
    let parent = link.tree.parent(class)?;
    (parent != ClassId::ROOT).then(|| link.names.name(parent))
}

/// The name of a class, set in by its depth.
pub(crate) fn indented(link: &LinkFile, class: ClassId) -> String {
    format!("{}{}", "  ".repeat(link.tree.depth(class) - 1), link.names.name(class))
}
