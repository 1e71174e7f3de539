//! Statements of pf.conf as words: comments, quotes, macros, and lines continued by a backslash or within brackets.

use std::collections::HashMap;

use crate::import::notes::wrong;
use crate::problem::{Log, Span};

/// Most words of all statements after macros were put in, and how deep macros may name macros.
const MAX_WORDS: usize = 1 << 20;
const MAX_DEPTH: usize = 16;

/// A word, or one of the signs `{ } ( ) , = ! < >` and their pairs.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) at: Span,
}

/// Words that belong together.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) words: Vec<Word>,
    pub(super) at: Span,
}

impl Statement {
    pub(super) fn first(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }
}

/// A place among the words of a statement.
pub(super) struct Cursor<'s> {
    words: &'s [Word],
    at: usize,
    end: Span,
}

impl<'s> Cursor<'s> {
    /// Behind the first word.
    pub(super) fn new(statement: &'s Statement) -> Self {
        let end = statement.at.end;
        Self { words: &statement.words, at: 1, end: end.saturating_sub(1)..end }
    }

    pub(super) fn peek(&self) -> &'s str {
        self.words.get(self.at).map_or("", |word| &word.text)
    }

    /// The place of the next word.
    pub(super) fn span(&self) -> Span {
        self.words.get(self.at).map_or(self.end.clone(), |word| word.at.clone())
    }

    pub(super) fn next(&mut self) -> Option<&'s Word> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.at < self.words.len() && self.peek() == text;
        self.at += usize::from(found);
        found
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.words.len()
    }

    /// A word that is no sign.
    pub(super) fn name(&mut self, what: &str, log: &mut Log) -> Option<&'s Word> {
        if self.is_done() || is_sign(self.peek()) {
            let found = if self.is_done() { "the end of the statement" } else { self.peek() };
            wrong(self.span(), format!("expected {what}, not {found}"), "see pf.conf(5)", log);
            return None;
        }
        self.next()
    }

    pub(super) fn expect(&mut self, text: &str, log: &mut Log) -> Option<()> {
        if self.take(text) {
            return Some(());
        }
        let found = if self.is_done() { "the end of the statement" } else { self.peek() };
        wrong(self.span(), format!("expected \"{text}\", not {found}"), "see pf.conf(5)", log);
        None
    }

    /// Reads `one` once, or a list in braces with optional commas.
    pub(super) fn list<T>(
        &mut self,
        log: &mut Log,
        mut one: impl FnMut(&mut Self, &mut Log) -> Option<T>,
    ) -> Option<Vec<T>> {
        if !self.take("{") {
            return Some(vec![one(self, log)?]);
        }
        let (mut all, mut depth) = (Vec::new(), 1);
        while depth > 0 {
            if self.is_done() {
                wrong(self.span(), "unterminated list in braces", "close it with \"}\"", log);
                return None;
            }
            // A macro that is a list may stand in a list.
            match self.peek() {
                "{" => depth += 1,
                "}" => depth -= 1,
                "," => {}
                _ => {
                    all.push(one(self, log)?);
                    continue;
                }
            }
            self.next();
        }
        Some(all)
    }

    /// Passes over a word, or everything in round brackets.
    pub(super) fn skip(&mut self) {
        let mut depth = 0usize;
        while let Some(word) = self.next() {
            match word.text.as_str() {
                "(" | "{" => depth += 1,
                ")" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

fn is_sign(text: &str) -> bool {
    text.starts_with(|c: char| "{}(),=!<>".contains(c))
}

/// Reads words from `text` that begins at `from`.
///
/// # Errors
/// The place of an unterminated quote.
fn lex(text: &str, from: usize) -> Result<Vec<(Word, bool)>, usize> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\\' if text[at + 1..].starts_with("\r\n") => at += 3,
            b'\\' if text[at + 1..].starts_with('\n') => at += 2,
            b'\n' => {
                words.push((Word { text: "\n".to_owned(), at: from + at..from + at + 1 }, false));
                at += 1;
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            b'#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            quote @ (b'"' | b'\'') => {
                let len = text[at + 1..].find(quote as char).ok_or(from + at)?;
                at += len + 2;
                words.push((Word { text: text[start + 1..at - 1].to_owned(), at: from + start..from + at }, true));
            }
            b'{' | b'}' | b'(' | b')' | b',' | b'=' | b'!' | b'<' | b'>' => {
                at += 1;
                let two = text.get(start..start + 2).is_some_and(|two| ["!=", "<=", ">=", "<>", "><"].contains(&two));
                at += usize::from(two);
                words.push((Word { text: text[start..at].to_owned(), at: from + start..from + at }, false));
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}(),=!<>\"'#".contains(c);
                let len = text[at..]
                    .char_indices()
                    .find(|&(place, c)| place > 0 && ends(c))
                    .map_or(text.len() - at, |(place, _)| place);
                at += len;
                words.push((Word { text: text[start..at].to_owned(), at: from + start..from + at }, false));
            }
        }
    }
    Ok(words)
}

type Macros = HashMap<String, Vec<(Word, bool)>>;

/// Expands macros in words, in place.
fn expand(
    words: &[(Word, bool)],
    macros: &Macros,
    place: Option<&Span>,
    depth: usize,
    out: &mut Vec<Word>,
) -> Result<(), (Span, String)> {
    for (word, in_quotes) in words {
        let at = place.unwrap_or(&word.at);
        if out.len() >= MAX_WORDS {
            return Err((at.clone(), format!("with its macros, this file has more than {MAX_WORDS} words")));
        }
        match word.text.strip_prefix('$').filter(|_| !in_quotes) {
            Some(name) => {
                let Some(value) = macros.get(name) else {
                    return Err((at.clone(), format!("there is no macro \"{name}\" before this")));
                };
                if depth >= MAX_DEPTH {
                    return Err((at.clone(), format!("macros are nested more than {MAX_DEPTH} deep")));
                }
                expand(value, macros, Some(at), depth + 1, out)?;
            }
            None => out.push(Word { text: word.text.clone(), at: at.clone() }),
        }
    }
    Ok(())
}

/// The statements of a file, without its macros.
pub(super) fn statements(text: &str, log: &mut Log) -> Vec<Statement> {
    let words = match lex(text, 0) {
        Ok(words) => words,
        Err(at) => {
            wrong(at..at + 1, "unterminated quote", "close it with the same quote", log);
            return Vec::new();
        }
    };
    let (mut all, mut macros) = (Vec::new(), Macros::new());
    let mut depth = 0usize;
    let mut total = 0;
    let mut line: Vec<(Word, bool)> = Vec::new();
    let end = (Word { text: "\n".to_owned(), at: text.len()..text.len() }, false);
    for (word, in_quotes) in words.into_iter().chain([end]) {
        if word.text == "\n" && !in_quotes {
            // Brackets that never end, end with the file.
            if depth == 0 || word.at.end == text.len() && word.at.start == text.len() {
                statement(std::mem::take(&mut line), &mut macros, &mut all, &mut total, log);
                depth = 0;
            }
            continue;
        }
        match word.text.as_str() {
            "{" | "(" if !in_quotes => depth += 1,
            "}" | ")" if !in_quotes => depth = depth.saturating_sub(1),
            _ => {}
        }
        line.push((word, in_quotes));
    }
    all
}

/// One line: a macro, or a statement.
fn statement(line: Vec<(Word, bool)>, macros: &mut Macros, all: &mut Vec<Statement>, total: &mut usize, log: &mut Log) {
    let (Some((first, _)), Some((last, _))) = (line.first(), line.last()) else { return };
    let at = first.at.start..last.at.end;
    if line.get(1).is_some_and(|(word, in_quotes)| word.text == "=" && !in_quotes) {
        let mut value = Vec::new();
        for (word, in_quotes) in &line[2..] {
            if !in_quotes {
                value.push((word.clone(), false));
                continue;
            }
            // Text in quotes is parsed at the use of the macro.
            match lex(&word.text, word.at.start) {
                Ok(words) => value.extend(words.into_iter().filter(|(word, _)| word.text != "\n")),
                Err(_) => {
                    let help = "use one kind of quotes around all of it";
                    return wrong(word.at.clone(), "unterminated quote within quotes", help, log);
                }
            }
        }
        if value.is_empty() {
            return wrong(at, format!("the macro \"{}\" has no value", first.text), "write name = \"value\"", log);
        }
        macros.insert(first.text.clone(), value);
        return;
    }
    let mut words = Vec::new();
    match expand(&line, macros, None, 0, &mut words) {
        Ok(()) if *total + words.len() <= MAX_WORDS => {
            *total += words.len();
            all.push(Statement { words, at });
        }
        Ok(()) => wrong(at, format!("with its macros, this file has more than {MAX_WORDS} words"), "shorten it", log),
        Err((at, what)) => wrong(at, what, "define macros as name = \"value\" before use", log),
    }
}
