//! A document cut at its `[[class]]` headers, so that a file of a million classes is never in memory as a tree of TOML
//! values.
//!
//! A line that begins with `[[class]]` is such a header unless it is inside a string or a list of several lines. In
//! that case the piece before it ends inside a string or a list, and does not parse. So a document is cut at every such
//! line. If a piece does not parse, or holds anything but classes, the pieces are not [sound](Pieces::are_sound), and
//! the document must be read as a whole. Otherwise the pieces are equivalent to the document: the first piece (the
//! head) has no class, the last may be followed by other tables (the tail), and head and tail have no key in common.

use std::cell::Cell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::Span;

const HEADER: &str = "[[class]]";

/// A document in pieces.
#[derive(Debug)]
pub(crate) struct Pieces<'s> {
    text: &'s str,
    /// The text before the first class.
    pub(crate) head: Spanned<DeTable<'s>>,
    /// The text after the last class, with its offset.
    pub(crate) tail: Option<(Spanned<DeTable<'s>>, usize)>,
    /// Bytes of the classes.
    classes: Span,
    /// True if all of them have been read and were sound.
    sound: Cell<bool>,
}

impl<'s> Pieces<'s> {
    /// Cuts `text`; `None` if that is impossible.
    pub(crate) fn cut(text: &'s str) -> Option<Self> {
        let start = next_header(text, 0)?;
        let head = sound(&text[..start])?;
        let last = text.rfind("\n[[class]]").map_or(start, |at| at + 1).max(start);
        // Tables below a class, such as [class.contract], belong to it.
        let mut end = last + HEADER.len();
        loop {
            end = match text[end..].find("\n[") {
                None => text.len(),
                Some(at) if text[end + at + 2..].trim_start_matches('[').starts_with("class") => {
                    end += at + 2;
                    continue;
                }
                Some(at) => end + at + 1,
            };
            break;
        }
        let tail = if end < text.len() { Some((sound(&text[end..])?, end)) } else { None };
        let shared = |(tail, _): &(Spanned<DeTable<'_>>, usize)| {
            tail.get_ref()
                .keys()
                .any(|key| key.get_ref() == "class" || head.get_ref().contains_key(key.get_ref().as_ref()))
        };
        if head.get_ref().contains_key("class") || tail.as_ref().is_some_and(shared) {
            return None;
        }
        Some(Self { text, head, tail, classes: start..end, sound: Cell::new(false) })
    }

    /// About how many classes there are.
    pub(crate) fn estimate(&self) -> usize {
        self.text[self.classes.clone()].matches(HEADER).count()
    }

    /// Bytes of the first class.
    pub(crate) fn first(&self) -> Span {
        self.classes.start..self.classes.start + HEADER.len()
    }

    /// Returns true if the pieces were read and are equivalent to the document.
    pub(crate) fn are_sound(&self) -> bool {
        self.sound.get()
    }

    /// Passes the classes in order, each with the offset of its piece, until a piece is unsound.
    pub(crate) fn each(&self, mut read: impl FnMut(&Spanned<DeValue<'_>>, usize)) {
        let mut at = self.classes.start;
        while at < self.classes.end {
            let next = next_header(self.text, at + 1).map_or(self.classes.end, |next| next.min(self.classes.end));
            let piece = sound(&self.text[at..next]);
            let entry =
                piece.as_ref().and_then(|piece| piece.get_ref().iter().next().filter(|_| piece.get_ref().len() == 1));
            match entry.map(|(key, value)| (key.get_ref().as_ref(), value.get_ref())) {
                Some(("class", DeValue::Array(classes))) => {
                    classes.iter().for_each(|class| read(class, at));
                }
                _ => return,
            }
            at = next;
        }
        self.sound.set(true);
    }
}

/// The first header at `from` or behind it.
fn next_header(text: &str, from: usize) -> Option<usize> {
    if from == 0 && text.starts_with(HEADER) {
        return Some(0);
    }
    // The line end before it counts.
    let from = from.saturating_sub(1);
    text[from..].find("\n[[class]]").map(|at| from + at + 1)
}

fn sound(text: &str) -> Option<Spanned<DeTable<'_>>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    errors.is_empty().then_some(table)
}
