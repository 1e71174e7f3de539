//! Errors as exceptions: `fairlink.Refused`, a `ValueError` with the problems.

use fairlink_api::{ProblemReport, Refused};
use fairlink_config::Problems;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An error of a computation.
#[derive(Debug)]
pub(crate) struct Failed(Refused);

impl Failed {
    /// An argument beside the texts is wrong.
    pub(crate) fn argument(name: &'static str, message: impl ToString) -> Self {
        Self(Refused::Argument { name: name.into(), message: message.to_string() })
    }

    /// Texts and arguments are sound, and the computation failed.
    pub(crate) fn because(message: impl ToString) -> Self {
        Self(Refused::Failed(message.to_string()))
    }
}

impl From<Refused> for Failed {
    /// Renames arguments of the command line that Python calls something else.
    fn from(refused: Refused) -> Self {
        let Refused::Argument { name, message } = refused else { return Self(refused) };
        let name = if name == "for" { "needs".into() } else { name.replace('-', "_").into() };
        Self(Refused::Argument { name, message: message.replace("--as-is", "as_is") })
    }
}

impl From<Problems> for Failed {
    fn from(problems: Problems) -> Self {
        Self(problems.into())
    }
}

/// The message has the place, the value, the limit and the remedy of each problem, one a line. An option of the command
/// is named as the argument that it is here.
impl From<Failed> for PyErr {
    fn from(Failed(refused): Failed) -> Self {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let message = match &refused {
            Refused::Text(problems) | Refused::NotAdmitted { problems, .. } => problems.lines().trim_end().to_owned(),
            other => other.to_string(),
        };
        let problems = problems_json(&refused.problems());
        let [message, problems] = [message, problems].map(|text| text.replace("--lenient", "lenient=True"));
        Python::attach(|py| match CLASS.import(py, "fairlink._errors", "Refused") {
            Ok(class) => class.call1((message, problems)).map_or_else(|error| error, PyErr::from_value),
            Err(error) => error,
        })
    }
}

/// A list of problems as JSON.
pub(crate) fn problems_json(problems: &[ProblemReport]) -> String {
    serde_json::to_string(problems).unwrap_or_else(|_| "[]".to_owned())
}
