//! A file of tc commands as words, with a small subset of shell syntax.
//!
//! Supported are comments, quotes, lines continued by a backslash, commands on one line separated by `;` or `&&`,
//! variables (`AC="tc class add"`, then `$AC` or `${AC}`), and discarded output (`2>/dev/null || true`).

use std::collections::BTreeMap;

use crate::commands::findings::wrong;
use crate::problem::{Log, Span};

/// A word and its place in the file, or that of the variable that it comes from.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) at: Span,
}

/// One command, at least one word long.
pub(super) type Command = Vec<Word>;

/// Longest text that variables may grow a line to, in words.
const MAX_WORDS: usize = 1000;

/// All commands of a file.
pub(super) fn commands(text: &str, log: &mut Log) -> Vec<Command> {
    let mut reader =
        Reader { text, variables: BTreeMap::new(), done: Vec::new(), words: Vec::new(), broken: false, ignored: false };
    let mut start = 0;
    while start < text.len() {
        start = reader.line(start, log);
    }
    reader.done
}

struct Reader<'t> {
    text: &'t str,
    variables: BTreeMap<String, Vec<String>>,
    done: Vec<Command>,
    /// Those of the command that is being read.
    words: Vec<Word>,
    /// True if a word of it is invalid, which has been reported.
    broken: bool,
    /// True if it is behind `||`.
    ignored: bool,
}

impl Reader<'_> {
    /// Reads the line that begins at `at`, with its continuation lines. Returns the beginning of the next line.
    fn line(&mut self, mut at: usize, log: &mut Log) -> usize {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(at) {
                None => break,
                Some(b'\n') => {
                    at += 1;
                    break;
                }
                Some(b'\\') if matches!(bytes.get(at + 1), Some(b'\n')) => at += 2,
                Some(b'\\') if bytes[at + 1..].starts_with(b"\r\n") => at += 3,
                Some(byte) if byte.is_ascii_whitespace() => at += 1,
                Some(b'#') => at = self.text[at..].find('\n').map_or(self.text.len(), |end| at + end),
                Some(b';') => {
                    self.end_command(log);
                    at += 1;
                }
                Some(b'&' | b'|') if bytes.get(at + 1) == bytes.get(at) => {
                    let fallback = bytes[at] == b'|';
                    self.end_command(log);
                    self.ignored = fallback;
                    at += 2;
                }
                Some(_) => at = self.word(at, log),
            }
        }
        self.end_command(log);
        self.ignored = false;
        at
    }

    /// Reads one word and expands its variables. Returns its end.
    fn word(&mut self, start: usize, log: &mut Log) -> usize {
        let mut end = start;
        let mut quote = None;
        let mut quoted = false;
        let mut plain = String::new();
        for (at, character) in self.text[start..].char_indices() {
            end = start + at + character.len_utf8();
            match (quote, character) {
                (Some(open), character) if open == character => quote = None,
                (None, '"' | '\'') => (quote, quoted) = (Some(character), true),
                (None, '\n' | ';') | (Some(_), '\n') => {
                    end = start + at;
                    break;
                }
                (None, character) if character.is_ascii_whitespace() => {
                    end = start + at;
                    break;
                }
                _ => plain.push(character),
            }
        }
        let at = start..end;
        if quote.is_some() {
            wrong(&at, "unterminated quote on this line".to_owned(), Some("close it"), log);
            self.broken = true;
        }
        if self.words.is_empty()
            && let Some((name, value)) = plain.split_once('=')
            && is_name(name)
        {
            let value = self.expanded(value, &at, log);
            self.variables.insert(name.to_owned(), value);
        } else if ["2>/dev/null", ">/dev/null", "2>&1", "&>/dev/null"].contains(&plain.as_str()) {
            // Discarded messages.
        } else {
            let single = self.text[start..].starts_with('\'');
            let words = if single || !plain.contains('$') {
                vec![plain]
            } else {
                let words = self.expanded(&plain, &at, log);
                if quoted { vec![words.join(" ")] } else { words }
            };
            self.words.extend(words.into_iter().map(|text| Word { text, at: at.clone() }));
            if self.words.len() > MAX_WORDS {
                wrong(&at, format!("a command of more than {MAX_WORDS} words"), Some("shorten it"), log);
                self.words.clear();
            }
        }
        // A character that cannot begin a word is skipped, so that the loop ends.
        end.max(start + 1)
    }

    /// `text` with its variables put in, as words.
    fn expanded(&mut self, text: &str, at: &Span, log: &mut Log) -> Vec<String> {
        let mut put_in = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            put_in.push_str(before);
            let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                Some((name, behind)) => (name, behind),
                None => {
                    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            match self.variables.get(name) {
                Some(words) => put_in.push_str(&words.join(" ")),
                None => {
                    let why = format!("the variable \"{name}\" is not set at this point");
                    wrong(at, why, Some("set it above, as in DEV=eth0; other shell syntax is not read"), log);
                    self.broken = true;
                }
            }
            rest = behind;
        }
        put_in.push_str(rest);
        put_in.split_whitespace().map(str::to_owned).collect()
    }

    fn end_command(&mut self, log: &mut Log) {
        let words = std::mem::take(&mut self.words);
        if std::mem::take(&mut self.broken) {
            return;
        }
        let Some(first) = words.first() else { return };
        if self.ignored && !["true", ":"].contains(&first.text.as_str()) {
            let why = "only \"true\" may follow ||".to_owned();
            wrong(&first.at, why, Some("write commands one after the other"), log);
        } else if !self.ignored {
            self.done.push(words);
        }
        self.ignored = false;
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
