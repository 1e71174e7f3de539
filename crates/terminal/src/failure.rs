//! Failures of commands, and the exit codes.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use fairlink_api::Refused;
use fairlink_config::Problems;

use crate::style::shown;

/// Reason for the failure of a command.
#[derive(Debug)]
pub enum CliError {
    /// The check, the claim or the run failed: exit 1.
    Failed(anyhow::Error),
    /// The command line or the surroundings (an interface, a permission) are wrong: exit 2.
    Wrong(anyhow::Error),
    /// A file is wrong, at a place that can be shown: exit 2.
    File(miette::Report),
    /// Already said, in a log or by another program: only the exit code is left.
    Said(u8),
    /// The reader of the output has gone, as in `fairlink schedulers | head -1`: exit 0.
    ClosedPipe,
}

impl CliError {
    /// The run failed for this reason.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(error.into())
    }

    /// The command line or the surroundings are wrong, in these words.
    pub fn wrong(message: impl Display) -> Self {
        Self::Wrong(anyhow!("{message}"))
    }

    /// Adds the part of the work that failed.
    pub fn within(self, what: String) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.context(what)),
            Self::Wrong(error) => Self::Wrong(error.context(what)),
            Self::File(report) => Self::File(report.wrap_err(what)),
            other => other,
        }
    }

    /// Prints the error and returns the exit code.
    pub fn report(self) -> ExitCode {
        // A closed standard error is no reason to panic. Several commands that write into one file write whole lines.
        let mut err = io::stderr().lock();
        match self {
            Self::Failed(error) => {
                let _ = err.write_all(format!("error: {}\n", chain(&error)).as_bytes());
                ExitCode::from(1)
            }
            Self::Wrong(error) => {
                let _ = err.write_all(format!("error: {}\n", chain(&error)).as_bytes());
                ExitCode::from(2)
            }
            Self::File(report) => {
                let _ = err.write_all(shown(&report).as_bytes());
                ExitCode::from(2)
            }
            Self::Said(code) => ExitCode::from(code),
            Self::ClosedPipe => ExitCode::SUCCESS,
        }
    }
}

/// Formats an error and its causes, each once: many errors include their cause.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said {
        said if said.is_empty() => cause,
        said if said.contains(&cause) => said,
        said => format!("{said}: {cause}"),
    })
}

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

/// Failures to write to standard output.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Failed(anyhow::Error::new(error).context("cannot write to standard output"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::from_raw_os_error(100);
        let said = anyhow::Error::new(cause()).context(format!("interface eth0: {}", cause()));
        assert_eq!(chain(&said), format!("interface eth0: {}", cause()));
        let unsaid = anyhow::Error::new(cause()).context("interface eth0");
        assert_eq!(chain(&unsaid), format!("interface eth0: {}", cause()));
    }
}
