//! Notes of an import: what changed in meaning and what was left out, with places.

use miette::Severity;

use crate::problem::{Log, Problem, ProblemKind, Source, Span};

/// Maximum number of notes; readers summarise findings of many rows.
const MAX_NOTES: usize = 10_000;

/// Notes of a reader.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) all: Vec<Problem>,
}

impl Notes {
    /// It is there, and means something else.
    pub(super) fn changed(&mut self, source: &Source, at: Option<Span>, what: String) {
        self.add(source, at, ProblemKind::Changed { what });
    }

    /// It is not there.
    pub(super) fn left_out(&mut self, source: &Source, at: Option<Span>, what: String) {
        self.add(source, at, ProblemKind::LeftOut { what });
    }

    fn add(&mut self, source: &Source, at: Option<Span>, kind: ProblemKind) {
        if self.all.len() < MAX_NOTES {
            self.all.push(Problem::new(Severity::Warning, source, at, kind));
        }
    }
}

/// Reports an error.
pub(super) fn wrong(at: Span, what: impl Into<String>, help: impl Into<String>, log: &mut Log) {
    log.error(at, ProblemKind::Import { what: what.into(), help: help.into() });
}

/// Reports an error that has to do with a second place.
pub(super) fn wrong_also(
    at: Span,
    what: impl Into<String>,
    help: impl Into<String>,
    also: Span,
    label: &'static str,
    log: &mut Log,
) {
    log.error_also(at, ProblemKind::Import { what: what.into(), help: help.into() }, also, label);
}

/// Counts equal findings and remembers the first place.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: usize,
    pub(super) first: Option<Span>,
}

impl Tally {
    pub(super) fn add(&mut self, at: &Span) {
        self.count += 1;
        self.first.get_or_insert_with(|| at.clone());
    }

    /// Returns `None` for a count of zero, else the count in words: `1 row`, `3 rows`.
    pub(super) fn some(&self, one: &str, many: &str) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        }
    }
}
