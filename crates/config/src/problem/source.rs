//! Texts of files, and where each part of a text comes from.

use std::ops::Range;
use std::sync::Arc;

use super::Span;

/// A file's name and text, shared by all that points into it.
pub type Source = Arc<SourceText>;

/// A named text. What was [written out](crate::written_out) from a shorter one knows where each of its parts comes from.
#[derive(Clone, Debug)]
pub struct SourceText {
    name: String,
    text: String,
    /// In the order of the text; they do not overlap.
    origins: Vec<Origin>,
    /// Other files that the text was made from.
    included: Vec<Source>,
    /// Whether it was read from the file of its name, so that it may name other files.
    was_opened: bool,
}

/// Where a part of a text comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) part: Range<usize>,
    pub(crate) source: Source,
    pub(crate) from: From,
}

/// What of its source a part is.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// The same text, which begins there.
    Copy(usize),
    /// Made from what stands there.
    Place(Span),
}

impl SourceText {
    /// A text that is to be called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Arc::new(Self {
            name: name.into(),
            text: text.into(),
            origins: Vec::new(),
            included: Vec::new(),
            was_opened: false,
        })
    }

    /// The text of the file `name`, which was read.
    pub(crate) fn opened(name: impl Into<String>, text: impl Into<String>) -> Source {
        let mut source = Self::new(name, text);
        Arc::make_mut(&mut source).was_opened = true;
        source
    }

    /// This file with another text, which was made from it and `included`.
    pub(crate) fn made(&self, text: String, origins: Vec<Origin>, included: Vec<Source>) -> Source {
        Arc::new(Self { name: self.name.clone(), text, origins, included, was_opened: self.was_opened })
    }

    /// What errors call it: the file as it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text; of a link file with templates or tables of classes, what they were written out to.
    #[must_use]
    pub fn inner(&self) -> &str {
        &self.text
    }

    /// Names of the other files that the text was made from.
    pub fn included(&self) -> impl Iterator<Item = &str> {
        self.included.iter().map(|source| source.name())
    }

    pub(crate) fn was_opened(&self) -> bool {
        self.was_opened
    }

    /// Where a part of the text comes from. `None` where it is this text itself.
    pub(crate) fn origin(&self, span: &Span) -> Option<(Source, Span)> {
        let at = self.origins.partition_point(|origin| origin.part.end <= span.start);
        let Origin { part, source, from } = self.origins.get(at).filter(|origin| origin.part.start <= span.start)?;
        let span = match from {
            From::Place(place) => place.clone(),
            From::Copy(start) => {
                let begin = start + (span.start - part.start);
                begin..(begin + span.len()).min(start + part.len())
            }
        };
        Some((Arc::clone(source), span))
    }
}
