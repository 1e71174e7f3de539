//! A TOML text cut at the headers of its tables.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::lexer::TokenKind;

use crate::problem::Span;

/// The header of a table with its contents; or the text before the first header.
#[derive(Debug)]
pub(super) struct Section<'s> {
    pub(super) span: Span,
    /// The keys of the header.
    pub(super) path: Vec<String>,
    /// True if the header is in double brackets.
    pub(super) is_list: bool,
    text: &'s str,
    /// The section as a document of its own; its places count from the beginning of the section.
    document: Spanned<DeTable<'s>>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a, 's> {
    pub(super) key: &'a str,
    pub(super) value: &'a Spanned<DeValue<'s>>,
    /// Of both, in the whole text.
    pub(super) span: Span,
    /// True if it is written `key = value`, in the section itself.
    pub(super) is_plain: bool,
}

/// Splits a text into sections; `None` if it is not TOML.
pub(super) fn sections(text: &str) -> Option<Vec<Section<'_>>> {
    let mut starts = vec![0];
    let (mut depth, mut at_start) = (0u32, true);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Newline => at_start = depth == 0,
            TokenKind::Whitespace | TokenKind::Comment | TokenKind::Eof => {}
            TokenKind::LeftSquareBracket if at_start => {
                starts.push(token.span().start());
                at_start = false;
                depth += 1;
            }
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                at_start = false;
                depth += 1;
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => depth = depth.checked_sub(1)?,
            _ => at_start = false,
        }
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| Section::new(text, start..end)).collect()
}

impl<'s> Section<'s> {
    fn new(whole: &'s str, span: Span) -> Option<Self> {
        let text = &whole[span.clone()];
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return None;
        }
        let mut section = Self { span, path: Vec::new(), is_list: false, text, document };
        if text.starts_with('[') {
            section.is_list = text.starts_with("[[");
            section.path = header(text)?;
        }
        Some(section)
    }

    /// The last key of the header.
    pub(super) fn last_key(&self) -> Option<&str> {
        self.path.last().map(String::as_str)
    }

    /// Returns true if it is a list of `key` at the top of a file or in one of its links.
    pub(super) fn is_list_of(&self, key: &str) -> bool {
        let is_in_a_link = |above: &str| ["link", "peer", "change"].contains(&above);
        self.is_list
            && match &self.path[..] {
                [last] => last == key,
                [above, last] => last == key && is_in_a_link(above),
                _ => false,
            }
    }

    /// Returns true if it is a template.
    pub(super) fn is_template(&self) -> bool {
        self.path.first().is_some_and(|key| key == "template")
    }

    /// Returns true if it is a table within that one.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        self.path.len() > other.path.len() && self.path.starts_with(&other.path)
    }

    /// The place of the header; of the whole section if there is none.
    pub(super) fn header(&self) -> Span {
        let end = self.text.find('\n').map_or(self.text.len(), |at| at);
        self.span.start..self.span.start + end
    }

    /// The keys below the header, in the order of the text.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_, 's>> {
        let mut table = self.document.get_ref();
        for key in &self.path {
            let Some(inner) = table.get(key.as_str()).and_then(|value| innermost(value.get_ref())) else { break };
            table = inner;
        }
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref(),
                value,
                span: self.span.start + key.span().start..self.span.start + value.span().end,
                is_plain: self.text.get(key.span().end..value.span().start).is_some_and(|text| text.trim() == "="),
            })
            .collect();
        entries.sort_by_key(|entry| entry.span.start);
        entries.into_iter()
    }
}

fn innermost<'a, 's>(value: &'a DeValue<'s>) -> Option<&'a DeTable<'s>> {
    match value {
        DeValue::Table(table) => Some(table),
        DeValue::Array(list) => innermost(list.last()?.get_ref()),
        _ => None,
    }
}

/// The keys of the header that a section begins with.
fn header(text: &str) -> Option<Vec<String>> {
    let mut keys = Vec::new();
    // A table of that header alone has one key in each level.
    let end = text.find('\n').unwrap_or(text.len());
    let (document, errors) = DeTable::parse_recoverable(&text[..end]);
    if !errors.is_empty() {
        return None;
    }
    let mut table = document.get_ref();
    while let Some((key, value)) = table.iter().next() {
        keys.push(key.get_ref().clone().into_owned());
        let Some(inner) = innermost(value.get_ref()) else { break };
        table = inner;
    }
    Some(keys)
}
