//! YAML as Kubernetes has it: several documents in a file, each value with its place.
//!
//! Source: YAML 1.2.2, parsed into events by `saphyr-parser`. Aliases and merge keys (`<<`) are written out, within a
//! bound on the number of values, so that a few lines of aliases of aliases do not fill the memory. Tags are ignored.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use crate::json::Json;
use crate::problem::{Log, ProblemKind, Span};

/// Most values of a file, with those of aliases.
const MAX_VALUES: usize = 4_000_000;
/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 100;

/// A value and its place: a byte range that begins with the value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) value: Value,
}

/// A value. Numbers are kept as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// A value of JSON, of which no place is known.
    pub(crate) fn from_json(json: Json) -> Self {
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => Value::Number(number.to_string()),
            Json::Text(text) => Value::Text(text),
            Json::List(items) => Value::List(items.into_iter().map(Self::from_json).collect()),
            Json::Object(entries) => {
                Value::Object(entries.into_iter().map(|(key, value)| (key, Self::from_json(value))).collect())
            }
        };
        Self { at: 0..0, value }
    }

    /// The value of this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The value at the end of these keys.
    pub(crate) fn path(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Of a mapping; nothing of another value.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Of a list; nothing of another value.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number that is whole and not negative.
    pub(crate) fn count(&self) -> Option<u64> {
        match &self.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// Names the type of the value.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "a mapping",
        }
    }
}

/// Parses all documents; `None` if the text is not YAML; the log has the error.
pub(crate) fn documents(text: &str, log: &mut Log) -> Option<Vec<Node>> {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut loader = Loader {
        places: Places { text: &text[mark..], from: mark, seen: (0, 0) },
        open: Vec::new(),
        anchors: HashMap::new(),
        values: 0,
        documents: Vec::new(),
    };
    let mut parser = Parser::new_from_str(&text[mark..]);
    while let Some(event) = parser.next_event() {
        let read = match event {
            Ok((event, span)) => {
                let at = loader.places.of(&span.start)..loader.places.of(&span.end);
                loader.event(event, at)
            }
            Err(error) => {
                let at = loader.places.of(error.marker());
                Err((at..at, format!("this is not YAML: {}", error.info())))
            }
        };
        if let Err((at, what)) = read {
            let help =
                "pass YAML or JSON as printed by kubectl, or manifests for kubectl apply; render templates first";
            log.error(at, ProblemKind::Import { what, help: help.to_owned() });
            return None;
        }
    }
    Some(loader.documents)
}

/// A place and an error.
type Wrong = (Span, String);

/// Counts of characters as byte offsets. Places are asked for in ascending order mostly.
struct Places<'t> {
    text: &'t str,
    /// Byte offset of the text in the file.
    from: usize,
    /// The last place: its character and its byte.
    seen: (usize, usize),
}

impl Places<'_> {
    fn of(&mut self, marker: &Marker) -> usize {
        let wanted = marker.index();
        if wanted < self.seen.0 {
            self.seen = (0, 0);
        }
        let (character, byte) = self.seen;
        let rest = &self.text[byte..];
        let on = rest.char_indices().nth(wanted - character).map_or(rest.len(), |(at, _)| at);
        self.seen = (wanted, byte + on);
        self.from + byte + on
    }
}

/// A list or a mapping that is not closed yet.
struct Open {
    at: Span,
    anchor: usize,
    list: Vec<Node>,
    /// `None` for a list.
    mapping: Option<Mapping>,
}

/// A mapping as far as it has come.
#[derive(Default)]
struct Mapping {
    entries: Vec<(String, Node)>,
    /// The key of the next value.
    key: Option<String>,
}

struct Loader<'t> {
    places: Places<'t>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    values: usize,
    documents: Vec<Node>,
}

impl Loader<'_> {
    fn event(&mut self, event: Event<'_>, at: Span) -> Result<(), Wrong> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.into_owned()) };
                self.done(Node { at, value }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.begin(at, anchor, None),
            Event::MappingStart(anchor, _) => self.begin(at, anchor, Some(Mapping::default())),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.mapping {
                    Some(mapping) => Value::Object(merged(mapping.entries)),
                    None => Value::List(open.list),
                };
                self.done(Node { at: open.at, value }, open.anchor, 1)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some((node, size)) => {
                    let (node, size) = (Node { at, ..node.clone() }, *size);
                    self.done(node, 0, size)
                }
                None => Err((at, "an alias refers to a node that contains it".to_owned())),
            },
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: Span, anchor: usize, mapping: Option<Mapping>) -> Result<(), Wrong> {
        if self.open.len() == MAX_DEPTH {
            return Err((at, format!("lists and mappings are nested more than {MAX_DEPTH} deep")));
        }
        self.open.push(Open { at, anchor, list: Vec::new(), mapping });
        Ok(())
    }

    /// Adds a complete value, with `size` values, to its container.
    fn done(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Wrong> {
        self.values += size;
        if self.values > MAX_VALUES {
            return Err((node.at, format!("there are more than {MAX_VALUES} values, with those of aliases")));
        }
        if anchor > 0 {
            let size = count(&node);
            self.anchors.insert(anchor, (node.clone(), size));
            self.values += size;
        }
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some(Open { mapping: None, list, .. }) => list.push(node),
            Some(Open { mapping: Some(Mapping { entries, key }), .. }) => match key.take() {
                None => {
                    let text = match node.value {
                        Value::Text(text) | Value::Number(text) => text,
                        Value::Null => String::new(),
                        Value::Bool(value) => value.to_string(),
                        Value::List(_) | Value::Object(_) => {
                            return Err((node.at, "a list or a mapping is in the place of a key".to_owned()));
                        }
                    };
                    if entries.iter().any(|(known, _)| *known == text) {
                        return Err((node.at, format!("the key \"{text}\" is given twice in this mapping")));
                    }
                    *key = Some(text);
                }
                Some(text) => entries.push((text, node)),
            },
        }
        Ok(())
    }
}

/// Counts the values of a node.
fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// A scalar without quotes: null, true and false, numbers, or a text.
fn plain(text: Cow<'_, str>) -> Value {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number if is_number(number) => Value::Number(text.into_owned()),
        _ => Value::Text(text.into_owned()),
    }
}

/// Returns true for numbers of YAML's core schema, except infinities.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.ends_with(|last: char| last.is_ascii_digit() || last == '.')
        && digits.parse::<f64>().is_ok()
}

/// The entries with those of a merge key (`<<`) behind them, as far as their keys are not there.
fn merged(entries: Vec<(String, Node)>) -> Vec<(String, Node)> {
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key == "<<");
    for (_, merge) in merges {
        let all = match merge.value {
            Value::Object(entries) => entries,
            Value::List(items) => items
                .into_iter()
                .flat_map(|item| match item.value {
                    Value::Object(entries) => entries,
                    _ => Vec::new(),
                })
                .collect(),
            _ => Vec::new(),
        };
        for (key, value) in all {
            if own.iter().all(|(known, _)| *known != key) {
                own.push((key, value));
            }
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::SourceText;

    fn read(text: &str) -> Result<Vec<Node>, String> {
        let mut log = Log::new(&SourceText::new("a.yaml", text));
        documents(text, &mut log).ok_or_else(|| log.into_errors().lines())
    }

    #[test]
    fn values_have_their_kinds_and_places() {
        let text = "\u{feff}# ü\na: 10M\nb: \"1\"\nc: [1.5, true, ~, '']\n---\nd: é\ne: z\n";
        let made = read(text).unwrap();
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].get("a").unwrap().text(), Some("10M"));
        assert_eq!(made[0].get("b").unwrap().text(), Some("1"));
        let kinds: Vec<&str> = made[0].get("c").unwrap().items().iter().map(Node::kind).collect();
        assert_eq!(kinds, ["a number", "true or false", "null", "a text"]);
        for (node, text_there) in [(made[0].get("a"), "10M"), (made[1].get("e"), "z")] {
            assert_eq!(&text[node.unwrap().at.clone()], text_there);
        }
        assert_eq!(made[1].path(&["d"]).unwrap().text(), Some("é"));
    }

    #[test]
    fn aliases_and_merge_keys_are_written_out() {
        let made = read("base: &b {x: 1, y: 2}\nnew:\n  <<: *b\n  y: 3\nlist: [*b]\n").unwrap();
        let new = made[0].get("new").unwrap();
        assert_eq!([new.get("x").unwrap().count(), new.get("y").unwrap().count()], [Some(1), Some(3)]);
        assert_eq!(made[0].get("list").unwrap().items()[0].get("y").unwrap().count(), Some(2));
    }

    #[test]
    fn what_is_no_yaml_or_too_much_is_refused_at_its_place() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
        }
        let (deep, deeper) = ("[".repeat(150), "[".repeat(5000));
        for (text, line, said) in [
            ("a: 1\nb:\n\tc: 2\n", 3, "this is not YAML"),
            ("a: {{ .Values.x }}\n", 1, "a list or a mapping is in the place of a key"),
            ("a: 1\nb: 2\na: 3\n", 3, "the key \"a\" is given twice in this mapping"),
            ("a: 'x\n", 1, "this is not YAML"),
            (&bomb, 7, "more than 4000000 values"),
            (&deep, 1, "nested more than 100 deep"),
            (&deeper, 1, "recursion limit exceeded"),
            ("a: &x [*x]\n", 1, "an alias refers to a node that contains it"),
        ] {
            let lines = read(text).expect_err(said);
            assert!(lines.starts_with(&format!("a.yaml:{line}:")) && lines.contains(said), "{lines}");
        }
    }
}
