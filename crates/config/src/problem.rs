//! Problems of a file: message, place and remedy.
//!
//! A [`Problem`] is one finding; [`Problems`] are the errors for which a file was refused. Both are
//! [`miette::Diagnostic`]s, and [`Problem::line`] gives the form `file:line:column: error: message; help`.

mod excerpt;
mod kind;
mod source;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};

use crate::problem::excerpt::Excerpt;
pub use crate::problem::kind::ProblemKind;
pub(crate) use crate::problem::source::{From as OriginFrom, Origin};
pub use crate::problem::source::{Source, SourceText};

/// A place in a file, in bytes.
pub type Span = Range<usize>;

/// Most problems that are kept of one file; the rest are counted.
pub const MAX_PROBLEMS: usize = 20;

/// One thing that is wrong with a file, or worth a warning.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: ProblemKind,
    severity: Severity,
    source: Source,
    /// Quoted part of the text.
    excerpt: Excerpt,
    span: Option<Span>,
    also: Option<(Span, &'static str)>,
}

/// Place of a problem; lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file as it was named.
    pub file: String,
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Problem {
    pub(crate) fn new(severity: Severity, source: &Source, span: Option<Span>, kind: ProblemKind) -> Self {
        let (source, span) = match span.as_ref().and_then(|span| source.origin(span)) {
            Some((origin, span)) => (origin, Some(span)),
            None => (Arc::clone(source), span),
        };
        let len = source.inner().len();
        let span = span.map(|span| span.start.min(len)..span.end.min(len));
        let excerpt = Excerpt(Arc::clone(&source));
        Self { kind, severity, source, excerpt, span, also: None }
    }

    pub(crate) fn error(source: &Source, span: Option<Span>, kind: ProblemKind) -> Self {
        Self::new(Severity::Error, source, span, kind)
    }

    /// Points at a second place in `source` that has to do with it. Places in two files are not shown together.
    pub(crate) fn also(mut self, source: &Source, span: Span, label: &'static str) -> Self {
        let (source, span) = source.origin(&span).unwrap_or_else(|| (Arc::clone(source), span));
        if Arc::ptr_eq(&source, &self.source) {
            self.also = Some((span, label));
        }
        self
    }

    /// Returns true if both say the same of the same place: of a template, which many classes have.
    fn repeats(&self, other: &Self) -> bool {
        (self.severity, &self.span, &self.kind) == (other.severity, &other.span, &other.kind)
            && Arc::ptr_eq(&self.source, &other.source)
    }

    /// The kind of the problem.
    #[must_use]
    pub fn kind(&self) -> &ProblemKind {
        &self.kind
    }

    /// Returns true if the file is usable all the same.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.severity != Severity::Error
    }

    /// The offending part of the text, in bytes; `None` if the problem concerns the whole file.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        self.span.clone()
    }

    /// The place of the problem.
    #[must_use]
    pub fn location(&self) -> Location {
        let text = self.source.inner();
        let mut start = self.span.as_ref().map_or(0, |span| span.start);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Location {
            file: self.source.name().to_owned(),
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Length of the offending part in characters; 0 if the problem concerns the whole file.
    #[must_use]
    pub fn length(&self) -> usize {
        let text = self.span.as_ref().and_then(|span| self.source.inner().get(span.clone()));
        text.map_or(0, |text| text.chars().count())
    }

    /// All of it in one line: `file:line:column: error: message; help`.
    #[must_use]
    pub fn line(&self) -> String {
        let severity = if self.is_warning() { "warning" } else { "error" };
        let place = match self.span {
            Some(_) => {
                let Location { file, line, column } = self.location();
                format!("{file}:{line}:{column}")
            }
            None => self.source.name().to_owned(),
        };
        match self.kind.help() {
            Some(help) => format!("{place}: {severity}: {self}; {help}"),
            None => format!("{place}: {severity}: {self}"),
        }
    }
}

/// Formats the message without the remedy. Values of a file may have any length: the middle of a long message is left
/// out.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(self.kind.to_string()))
    }
}

/// Maximum length of a message in characters, without the mark for omitted text.
const LONGEST: usize = 600;

fn shortened(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let (Some(head), Some(tail)) = (ends.nth(LONGEST / 2), ends.rev().nth(LONGEST / 2)) else { return text };
    format!("{} [...] {}", &text[..head], &text[tail..])
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.kind.help().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.span.as_ref().map(|_| &self.excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let marked = |span| excerpt::marked(self.source.inner(), span);
        let span = marked(self.span.as_ref()?);
        let label = LabeledSpan::new_primary_with_span(Some(self.kind.label().to_owned()), span);
        let also = self.also.as_ref().map(|(span, label)| LabeledSpan::at(marked(span), *label));
        Some(Box::new(std::iter::once(label).chain(also)))
    }
}

/// Why a file was refused: at least one error, in the order of the file.
#[derive(Clone, Debug)]
pub struct Problems {
    source: Source,
    all: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    pub(crate) fn one(problem: Problem) -> Self {
        Self { source: Arc::clone(&problem.source), all: vec![problem], left_out: 0 }
    }

    /// The first [`MAX_PROBLEMS`] of them.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.all
    }

    /// Number of errors that are not shown.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// [`Problem::line`] of each, one a line, for logs and machines.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines: String = self.all.iter().map(|problem| problem.line() + "\n").collect();
        if self.left_out > 0 {
            let errors = if self.left_out == 1 { "error is" } else { "errors are" };
            lines += &format!("{}: {} more {errors} not shown\n", self.source.name(), self.left_out);
        }
        lines
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.all[..] {
            [only] if self.left_out == 0 => only.fmt(f),
            all if self.left_out == 0 => write!(f, "{} errors in {}", all.len(), self.source.name()),
            all => write!(
                f,
                "{} errors in {}, of which the first {}:",
                all.len() + self.left_out,
                self.source.name(),
                all.len()
            ),
        }
    }
}

impl std::error::Error for Problems {}

/// A single problem is reported directly; several are listed as related.
impl Diagnostic for Problems {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match &self.all[..] {
            [only] => only.help(),
            _ => None,
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match &self.all[..] {
            [only] => only.source_code(),
            _ => None,
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        match &self.all[..] {
            [only] => only.labels(),
            _ => None,
        }
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        match &self.all[..] {
            [_] => None,
            all => Some(Box::new(all.iter().map(|problem| problem as &dyn Diagnostic))),
        }
    }
}

/// Collects the findings of a reader.
#[derive(Debug)]
pub(crate) struct Log {
    source: Source,
    errors: Vec<Problem>,
    left_out: usize,
    warnings: Vec<Problem>,
}

impl Log {
    pub(crate) fn new(source: &Source) -> Self {
        Self { source: Arc::clone(source), errors: Vec::new(), left_out: 0, warnings: Vec::new() }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn error(&mut self, span: Span, kind: ProblemKind) {
        self.add(Problem::error(&self.source, Some(span), kind));
    }

    pub(crate) fn error_also(&mut self, span: Span, kind: ProblemKind, also: Span, label: &'static str) {
        self.add(Problem::error(&self.source, Some(span), kind).also(&self.source, also, label));
    }

    pub(crate) fn warn(&mut self, span: Span, kind: ProblemKind) {
        self.add(Problem::new(Severity::Warning, &self.source, Some(span), kind));
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        if self.errors.iter().chain(&self.warnings).any(|known| known.repeats(&problem)) {
            return;
        }
        if problem.is_warning() {
            if self.warnings.len() < MAX_PROBLEMS {
                self.warnings.push(problem);
            }
        } else if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(problem);
        } else {
            self.left_out += 1;
        }
    }

    pub(crate) fn add_all(&mut self, problems: Problems) {
        problems.all.into_iter().for_each(|problem| self.add(problem));
        self.left_out += problems.left_out;
    }

    /// Returns true if further errors are only counted, so that nothing dear need be worked out for them.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_PROBLEMS
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The errors, of which there must be some.
    pub(crate) fn into_errors(self) -> Problems {
        self.finish().expect_err("a refusal has an error")
    }

    /// Returns the warnings, or the errors if there are any, in the order of the file.
    pub(crate) fn finish(mut self) -> Result<Vec<Problem>, Problems> {
        for all in [&mut self.warnings, &mut self.errors] {
            all.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        }
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(Problems { source: self.source, all: self.errors, left_out: self.left_out })
        }
    }
}
