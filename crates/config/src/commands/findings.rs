//! Errors of tc commands, and losses in their conversion.

use miette::Severity;

use crate::problem::{Log, Problem, ProblemKind, Span};

/// Reports an error.
pub(super) fn wrong(at: &Span, what: String, help: Option<&'static str>, log: &mut Log) {
    log.error(at.clone(), ProblemKind::Tc { what, help });
}

/// Notes a setting without a counterpart.
pub(super) fn left_out(at: &Span, what: String, log: &Log, notes: &mut Vec<Problem>) {
    note(at, ProblemKind::LeftOut { what }, log, notes);
}

/// Notes a change in meaning.
pub(super) fn changed(at: &Span, what: String, log: &Log, notes: &mut Vec<Problem>) {
    note(at, ProblemKind::Changed { what }, log, notes);
}

fn note(at: &Span, kind: ProblemKind, log: &Log, notes: &mut Vec<Problem>) {
    notes.push(Problem::new(Severity::Warning, log.source(), Some(at.clone()), kind));
}
