//! Typed access to TOML tables: missing, misspelt and wrongly typed keys go to the [`Log`], and reading continues.

use fairlink_core::{Nanos, Rate};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use fairlink_schema::keys::Key;

use crate::pieces::Pieces;
use crate::problem::{Log, ProblemKind, Problems, Source, Span};
use crate::units::{Quantity, UnitError, parse_rate, parse_size, parse_time};

/// Keys of other tools that people write by habit: the tool, its key, and ours.
const FOREIGN: [(&str, &str, &str); 14] = [
    ("tc", "rate", "guarantee"),
    ("tc", "ceil", "ceiling"),
    ("tc", "prio", "priority"),
    ("tc", "cburst", "ceiling_burst"),
    ("tc", "limit", "buffer"),
    ("tc", "qdisc", "queue"),
    ("tc", "filter", "match"),
    ("RouterOS", "limit-at", "guarantee"),
    ("RouterOS", "max-limit", "ceiling"),
    ("RouterOS", "target", "match"),
    ("RouterOS", "packet-mark", "match"),
    ("LibreQoS", "min", "guarantee"),
    ("LibreQoS", "max", "ceiling"),
    ("libvirt", "floor", "guarantee"),
];

/// Keys of a table that are looked through one by one.
const FEW: usize = 8;

/// A key with its value.
type Entry<'a, 's> = (&'a Spanned<DeString<'s>>, &'a Spanned<DeValue<'s>>);

/// Parses TOML.
///
/// # Errors
/// All errors of syntax. The partial result is not evaluated, because most of its errors would be consequential.
pub(crate) fn parse<'s>(text: &'s str, log: &mut Log) -> Result<Spanned<DeTable<'s>>, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        log.error(span, ProblemKind::Toml { message: error.message().to_owned() });
    }
    if log.has_errors() { Err(std::mem::replace(log, Log::new(log.source())).into_errors()) } else { Ok(table) }
}

/// Parses TOML without evaluating it.
///
/// # Errors
/// All errors of syntax.
pub(crate) fn toml(source: &Source) -> Result<Spanned<DeTable<'_>>, Problems> {
    parse(source.inner(), &mut Log::new(source))
}

/// A value and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a, 's> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a Spanned<DeValue<'s>>,
    /// Offset of the parsed text in the file, in bytes.
    offset: usize,
}

impl<'a, 's> Value<'a, 's> {
    pub(crate) fn span(self) -> Span {
        moved(self.value.span(), self.offset)
    }

    pub(crate) fn wrong_type(self, expected: &'static str, log: &mut Log) {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a number",
            DeValue::Float(_) => "a decimal number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        log.error(self.span(), ProblemKind::WrongType { key: self.key.to_owned(), expected, found });
    }

    pub(crate) fn string(self, expected: &'static str, log: &mut Log) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(expected, log);
        }
        text
    }

    /// The text of a quantity. A bare number is read as one, so that the error says which units there are.
    pub(crate) fn quantity(self, expected: &'static str, log: &mut Log) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => self.string(expected, log),
        }
    }

    pub(crate) fn rate(self, link: Option<Rate>, log: &mut Log) -> Option<Rate> {
        let text = self.quantity("a rate such as \"100mbit\"", log)?;
        self.unit(parse_rate(text, link), log)
    }

    pub(crate) fn size(self, max: u64, log: &mut Log) -> Option<u64> {
        let text = self.quantity("a size such as \"1500B\"", log)?;
        self.unit(parse_size(text, max), log)
    }

    /// A size of at least one byte.
    pub(crate) fn some_size(self, max: u64, log: &mut Log) -> Option<u64> {
        self.size(max, log).and_then(|size| self.at_least_one(size, Quantity::Size, "1 B", log))
    }

    pub(crate) fn time(self, log: &mut Log) -> Option<Nanos> {
        let text = self.quantity("a time such as \"10ms\"", log)?;
        self.unit(parse_time(text), log)
    }

    /// A time of at least a nanosecond.
    pub(crate) fn some_time(self, log: &mut Log) -> Option<Nanos> {
        self.time(log).and_then(|time| self.at_least_one(time.0, Quantity::Time, "1 ns", log)).map(Nanos)
    }

    /// A value read from text that begins at `offset` in the file.
    pub(crate) fn at(key: &'a str, value: &'a Spanned<DeValue<'s>>, offset: usize) -> Self {
        Self { key, value, offset }
    }

    fn at_least_one(self, value: u64, quantity: Quantity, min: &str, log: &mut Log) -> Option<u64> {
        if value > 0 {
            return Some(value);
        }
        let text = self.value.get_ref().as_str().unwrap_or("0").to_owned();
        self.unit(Err(UnitError::Zero { quantity, text, min: min.to_owned() }), log)
    }

    pub(crate) fn unit<T>(self, result: Result<T, UnitError>, log: &mut Log) -> Option<T> {
        result.map_err(|error| log.error(self.span(), ProblemKind::Unit { key: self.key.to_owned(), error })).ok()
    }

    /// A whole number without unit.
    pub(crate) fn integer(self, min: u64, max: u64, log: &mut Log) -> Option<u64> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            self.wrong_type("a whole number without unit", log);
            return None;
        };
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let value = value.filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.out_of_range(number.to_string(), min.to_string(), max.to_string(), log);
        }
        value
    }

    /// A number with or without decimals, without unit.
    pub(crate) fn decimal(self, log: &mut Log) -> Option<f64> {
        let text = match self.value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => {
                self.wrong_type("a number such as 2 or 0.5", log);
                return None;
            }
        };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            let message = format!("\"{}\" is {text}; write a finite number such as 2 or 0.5", self.key);
            log.error(self.span(), ProblemKind::Refused { message });
        }
        number
    }

    pub(crate) fn out_of_range(self, value: String, min: String, max: String, log: &mut Log) {
        log.error(self.span(), ProblemKind::OutOfRange { key: self.key.to_owned(), value, min, max });
    }

    pub(crate) fn boolean(self, log: &mut Log) -> Option<bool> {
        let value = self.value.get_ref().as_bool();
        if value.is_none() {
            self.wrong_type("true or false", log);
        }
        value
    }

    /// One of a few words, by its position.
    pub(crate) fn one_of(self, what: &'static str, words: &[&str], log: &mut Log) -> Option<usize> {
        let word = self.string("a word in quotes", log)?;
        let found = words.iter().position(|&known| known == word);
        if found.is_none() {
            log.error(self.span(), unknown_word(what, word, words.iter().copied()));
        }
        found
    }

    /// Reads one of a few words and returns its value.
    pub(crate) fn word<T: Copy>(self, what: &'static str, words: &[(&str, T)], log: &mut Log) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|&(name, _)| name).collect();
        self.one_of(what, &names, log).map(|at| words[at].1)
    }

    pub(crate) fn table(self, place: &'static str, expected: &'static str, log: &mut Log) -> Option<Table<'a, 's>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Table { place, table, span: self.span(), offset: self.offset, pieces: None }),
            _ => {
                self.wrong_type(expected, log);
                None
            }
        }
    }

    /// Returns true if it is a list.
    pub(crate) fn is_list(self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    /// The elements of a list.
    pub(crate) fn list(self, expected: &'static str, log: &mut Log) -> Option<Vec<Value<'a, 's>>> {
        match self.value.get_ref() {
            DeValue::Array(array) => Some(array.iter().map(|value| Value { value, ..self }).collect()),
            _ => {
                self.wrong_type(expected, log);
                None
            }
        }
    }

    /// Returns the place in the file of bytes `at` of this string, if the file contains it verbatim.
    pub(crate) fn within(self, at: Span, source: &str) -> Span {
        let whole = self.span();
        let Some(text) = self.value.get_ref().as_str() else { return whole };
        let start = whole.start + 1;
        if source.get(start..start + text.len()) == Some(text) { start + at.start..start + at.end } else { whole }
    }
}

fn moved(span: Span, by: usize) -> Span {
    span.start + by..span.end + by
}

/// A table and its place.
#[derive(Clone, Debug)]
pub(crate) struct Table<'a, 's> {
    pub(crate) place: &'static str,
    pub(crate) span: Span,
    table: &'a DeTable<'s>,
    /// Offset of the parsed text in the file, in bytes.
    offset: usize,
    /// The rest of the file, of a document that was read in pieces.
    pieces: Option<&'a Pieces<'s>>,
}

impl<'a, 's> Table<'a, 's> {
    /// A whole document.
    pub(crate) fn document(place: &'static str, table: &'a DeTable<'s>) -> Self {
        Self { place, span: 0..0, table, offset: 0, pieces: None }
    }

    /// A document in pieces.
    pub(crate) fn in_pieces(place: &'static str, pieces: &'a Pieces<'s>) -> Self {
        Self { pieces: Some(pieces), ..Self::document(place, pieces.head.get_ref()) }
    }

    /// Returns the key as written with its value, and the offset of their text.
    fn entry(&self, key: &str) -> Option<(Entry<'a, 's>, usize)> {
        let tail = || {
            let (tail, offset) = self.pieces?.tail.as_ref()?;
            Some((tail.get_ref().get_key_value(key)?, *offset))
        };
        // Most tables have a few keys and are asked for many: looking at their lengths is faster than a search.
        let found = match self.table.len() {
            0..=FEW => self.table.iter().find(|(known, _)| known.get_ref().as_ref() == key),
            _ => self.table.get_key_value(key),
        };
        found.map(|entry| (entry, self.offset)).or_else(tail)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a, 's>> {
        let ((key, value), offset) = self.entry(key)?;
        Some(Value { key: key.get_ref(), value, offset })
    }

    /// The place of the first class of a document.
    pub(crate) fn first_class(&self) -> Option<Span> {
        match self.pieces {
            Some(pieces) => Some(pieces.first()),
            None => self.get("class").map(|_| self.key_span("class")),
        }
    }

    /// Returns the pieces of a document that was read in pieces, whose classes are not available by [`Table::get`].
    pub(crate) fn pieces(&self) -> Option<&'a Pieces<'s>> {
        self.pieces
    }

    pub(crate) fn need(&self, key: &'static str, example: &'static str, log: &mut Log) -> Option<Value<'a, 's>> {
        let value = self.get(key);
        if value.is_none() {
            log.error(self.span.clone(), ProblemKind::MissingKey { place: self.place, key, example });
        }
        value
    }

    /// The place of a key itself.
    pub(crate) fn key_span(&self, key: &str) -> Span {
        self.entry(key).map_or_else(|| self.span.clone(), |((key, _), offset)| moved(key.span(), offset))
    }

    /// The keys of `known` that are there, in the order of `known`, with their values. Others are reported; `also` are
    /// known, too, and left out of the result.
    pub(crate) fn present<C>(&self, known: &'static [Key<C>], also: &[&str], log: &mut Log) -> Present<'a, 's, C> {
        let place = |key: &str| known.iter().position(|known| known.name == key);
        let entries = self.table.iter().map(|(key, value)| (place(key.get_ref()), key, value));
        let mut present: Vec<_> = entries
            .filter_map(|(place, key, value)| {
                let value = Value { key: key.get_ref(), value, offset: self.offset };
                Some((place?, value))
            })
            .collect();
        if present.len() < self.table.len() {
            let names: Vec<&str> = known.iter().map(|key| key.name).chain(also.iter().copied()).collect();
            self.only(&names, log);
        }
        present.sort_unstable_by_key(|&(place, _)| place);
        Present(present.into_iter().map(|(place, value)| (&known[place], value)).collect())
    }

    /// Reports keys that are not among `known`.
    pub(crate) fn only(&self, known: &[&str], log: &mut Log) {
        let tail = self.pieces.and_then(|pieces| pieces.tail.as_ref());
        let tail = tail.into_iter().flat_map(|(tail, offset)| tail.get_ref().keys().map(|key| (key, *offset)));
        let keys = self.table.keys().map(|key| (key, self.offset)).chain(tail);
        for (key, offset) in keys.filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            let word: &str = key.get_ref();
            let foreign = FOREIGN.iter().find(|(_, theirs, ours)| *theirs == word && known.contains(ours));
            let kind = match foreign {
                Some(&(tool, _, ours)) => {
                    ProblemKind::ForeignKey { place: self.place, key: word.to_owned(), tool, ours }
                }
                None => ProblemKind::UnknownKey {
                    place: self.place,
                    key: word.to_owned(),
                    suggestion: closest(word, known.iter().copied()).map(str::to_owned),
                    known: known.join(", "),
                },
            };
            log.error(moved(key.span(), offset), kind);
        }
    }

    /// Reports an error if both keys are present.
    pub(crate) fn not_both(&self, one: &'static str, other: &'static str, log: &mut Log) {
        if self.get(one).is_some() && self.get(other).is_some() {
            let kind = ProblemKind::Both { place: self.place, one, other };
            log.error_also(self.key_span(other), kind, self.key_span(one), "this");
        }
    }
}

/// The keys of a table that are there, in the order in which they are declared.
pub(crate) struct Present<'a, 's, C: 'static>(Vec<(&'static Key<C>, Value<'a, 's>)>);

impl<'a, 's, C> Present<'a, 's, C> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Key<C>, Value<'a, 's>)> {
        self.0.iter().copied()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a, 's>> {
        self.iter().find(|(known, _)| known.name == key).map(|(_, value)| value)
    }
}

pub(crate) fn unknown_word<'k>(
    what: &'static str,
    word: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> ProblemKind {
    ProblemKind::UnknownWord {
        what,
        word: word.to_owned(),
        suggestion: closest(word, known.clone()).map(str::to_owned),
        known: known.collect::<Vec<_>>().join(", "),
    }
}

/// Most known words that a wrong one is compared with.
const MAX_COMPARED: usize = 10_000;

/// The known word that `word` is most likely a slip of: at most a third of its letters differ.
pub(crate) fn closest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // The cost of a comparison is the product of the lengths; a name of this length is not a typing error.
    if word.len() > 100 {
        return None;
    }
    let limit = (word.chars().count().max(3)) / 3;
    known
        .take(MAX_COMPARED)
        .filter(|known| known.len().abs_diff(word.len()) <= 4 * limit)
        .map(|known| (strsim::damerau_levenshtein(&known.to_lowercase(), &word.to_lowercase()), known))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, known)| (distance, known.len().abs_diff(word.len())))
        .map(|(_, known)| known)
}
