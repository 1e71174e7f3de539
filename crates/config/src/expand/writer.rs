//! A text made from parts of another, with the origin of each part.

use std::sync::Arc;

use crate::problem::{Origin, OriginFrom, Source, Span};

pub(super) struct Writer {
    source: Source,
    text: String,
    origins: Vec<Origin>,
    /// True if the text is still a copy from the beginning.
    is_changed: bool,
}

impl Writer {
    pub(super) fn new(source: &Source) -> Self {
        Self { source: Arc::clone(source), text: String::new(), origins: Vec::new(), is_changed: false }
    }

    /// A part of the source.
    pub(super) fn copy(&mut self, span: Span) {
        let start = self.text.len();
        self.text.push_str(&self.source.inner()[span.clone()]);
        self.from(start, OriginFrom::Copy(span.start), Arc::clone(&self.source));
    }

    /// Adds text without a place of its own.
    pub(super) fn add(&mut self, text: &str) {
        self.is_changed = true;
        self.text.push_str(text);
    }

    /// Adds text that was made from a place in another source.
    pub(super) fn made(&mut self, text: &str, source: &Source, place: Span) {
        self.is_changed = true;
        let start = self.text.len();
        self.text.push_str(text);
        self.from(start, OriginFrom::Place(place), Arc::clone(source));
    }

    fn from(&mut self, start: usize, from: OriginFrom, source: Source) {
        if start < self.text.len() {
            self.origins.push(Origin { part: start..self.text.len(), source, from });
        }
    }

    /// Most bytes.
    pub(super) fn most(&self) -> usize {
        self.source.limits().bytes
    }

    /// Returns true if there are more bytes than allowed.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() > self.most()
    }

    /// Returns the source itself if nothing is different.
    pub(super) fn finish(self, included: Vec<Source>) -> Source {
        if !self.is_changed && self.text == self.source.inner() {
            return self.source;
        }
        self.source.made(self.text, self.origins, included)
    }
}
