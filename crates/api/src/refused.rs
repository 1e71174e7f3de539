//! Errors of the functions, and problems in the form of documents.

use std::borrow::Cow;

use fairlink_config::{Problem, Problems, Scenario};
use fairlink_core::ReconfigureError;
use fairlink_sim::SimError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::Admission;

/// Error of a function: nothing was computed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// Errors in a text, with their places.
    #[error(transparent)]
    Text(#[from] Problems),
    /// The service curves of the classes are more than the link can guarantee.
    #[error("{problems}")]
    NotAdmitted {
        /// The same at its place.
        problems: Problems,
        /// The admission test.
        admission: Admission,
    },
    /// An argument beside the text is wrong.
    #[error("{name}: {message}")]
    Argument {
        /// Its name, which is that of the option of the command line.
        name: Cow<'static, str>,
        /// The error and the action.
        message: String,
    },
    /// Texts and arguments are sound, and the computation failed.
    #[error("{0}")]
    Failed(String),
}

impl Refused {
    pub(crate) fn argument(name: &'static str, message: impl ToString) -> Self {
        Self::Argument { name: name.into(), message: message.to_string() }
    }

    pub(crate) fn failed(error: impl ToString) -> Self {
        Self::Failed(error.to_string())
    }

    /// Makes the error of a run of `file`: that of a link has its place there.
    #[must_use]
    pub fn of_run(error: SimError, file: &Scenario) -> Self {
        match error {
            SimError::Build { error, .. } => file.link.explain(&error).into(),
            SimError::Change { index, error: ReconfigureError::Build(error), .. } if index < file.changes.len() => {
                file.changes[index].link.explain(&error).into()
            }
            SimError::Further { link, error } => match (*error, file.peers.iter().find(|peer| peer.name == link)) {
                (SimError::Build { error, .. }, Some(peer)) => peer.link.explain(&error).into(),
                (error, _) => Self::failed(SimError::Further { link, error: Box::new(error) }),
            },
            error => Self::failed(error),
        }
    }

    /// Returns the problems in the form of documents.
    #[must_use]
    pub fn problems(&self) -> Vec<ProblemReport> {
        match self {
            Self::Text(problems) | Self::NotAdmitted { problems, .. } => {
                problems.all().iter().map(ProblemReport::from).collect()
            }
            other => {
                let code = if matches!(other, Self::Failed(_)) { "failed" } else { "argument" };
                vec![ProblemReport {
                    severity: Severity::Error,
                    code: code.to_owned(),
                    file: None,
                    line: None,
                    column: None,
                    length: None,
                    message: other.to_string(),
                    help: None,
                }]
            }
        }
    }
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The text is refused.
    Error,
    /// The text is usable all the same.
    Warning,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ProblemReport {
    /// Severity.
    pub severity: Severity,
    /// The kind of problem in one word, such as `unknown_key`.
    pub code: String,
    /// Name of the text. Absent if the error is not in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1. Absent, as are the next two, if the problem concerns the whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Length of the place in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// The message.
    pub message: String,
    /// The remedy; `null` if none is known.
    pub help: Option<String>,
}

impl From<&Problem> for ProblemReport {
    fn from(problem: &Problem) -> Self {
        let place = problem.location();
        let is_placed = problem.span().is_some();
        Self {
            severity: if problem.is_warning() { Severity::Warning } else { Severity::Error },
            code: problem.kind().code(),
            file: Some(place.file),
            line: is_placed.then_some(place.line),
            column: is_placed.then_some(place.column),
            length: is_placed.then_some(problem.length()),
            message: problem.to_string(),
            help: problem.kind().help(),
        }
    }
}
