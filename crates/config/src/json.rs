//! A JSON reader that preserves key order and duplicate keys. `tc` writes a key for each match of a filter, and a
//! duplicate node of LibreQoS must not be lost.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::problem::{Log, ProblemKind, Span};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The first value of this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.entries().iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Of an object; nothing of another value.
    pub(crate) fn entries(&self) -> &[(String, Json)] {
        match self {
            Self::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Of a list; nothing of another value.
    pub(crate) fn items(&self) -> &[Json] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Names the type of the value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Parses a document; `None` if it is not JSON; the log has the error.
pub(crate) fn parse(text: &str, log: &mut Log) -> Option<Json> {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    match serde_json::from_str(&text[mark..]) {
        Ok(value) => Some(value),
        Err(error) => {
            let at = place(text, error.line(), error.column());
            let message = error.to_string();
            let why = message.rsplit_once(" at line ").map_or(message.as_str(), |(why, _)| why);
            let what = format!("this is not JSON: {why}");
            let help = "pass the file unchanged".to_owned();
            log.error(at, ProblemKind::Import { what, help });
            None
        }
    }
}

/// The place of a line and a column in bytes, both from 1.
fn place(text: &str, line: usize, column: usize) -> Span {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at..at
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::SourceText;

    #[test]
    fn keys_keep_their_order_and_none_is_lost() {
        let mut log = Log::new(&SourceText::new("a.json", ""));
        let value = parse("\u{feff}{\"b\": 1, \"a\": [null, true, \"x\"], \"b\": 2.5}", &mut log).unwrap();
        let keys: Vec<&str> = value.entries().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "b"]);
        assert_eq!(value.entries()[2].1, Json::Number(2.5));
        assert_eq!(value.get("a").unwrap().items(), [Json::Null, Json::Bool(true), Json::Text("x".into())]);
    }

    #[test]
    fn what_is_no_json_is_refused_at_its_place() {
        let text = "{\"a\": 1,\n  b: 2}";
        let mut log = Log::new(&SourceText::new("a.json", text));
        assert_eq!(parse(text, &mut log), None);
        let lines = log.into_errors().lines();
        assert!(lines.starts_with("a.json:2:3: error: this is not JSON: key must be a string"), "{lines}");
        // So is unbounded nesting.
        let text = "[".repeat(100_000);
        let mut log = Log::new(&SourceText::new("a.json", text.clone()));
        assert_eq!(parse(&text, &mut log), None);
    }
}
