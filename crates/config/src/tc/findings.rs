//! What is wrong with tc commands, and what is lost from them.

use miette::Severity;

use crate::problem::{Log, Problem, ProblemKind, Span};

/// Reports an error.
pub(super) fn wrong(at: &Span, what: String, help: Option<&'static str>, log: &mut Log) {
    log.error(at.clone(), ProblemKind::Tc { what, help });
}

/// Notes what is lost or changes its meaning.
pub(super) fn lost(at: &Span, what: String, log: &Log, notes: &mut Vec<Problem>) {
    let kind = ProblemKind::Tc { what, help: None };
    notes.push(Problem::new(Severity::Warning, log.source(), Some(at.clone()), kind));
}
