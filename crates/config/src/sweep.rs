//! Other values for the numbers of a scenario: the option `--sweep KEY=V1,V2`, the keys, and the text with a changed
//! value.
//!
//! A key is the path of a number in the file, or of the `rule` of a pool. Elements of arrays of tables are named:
//! `link.rate`, `seed`, `class.A1.guarantee`, `source.A1.packets_per_second`. A source is named by its class; the
//! second source of a class is `source.A1#2`. Items of lists are counted from 1. A value is written as in the file,
//! with its unit and without quotes. The changed text is read like any other file, which finds errors in the value.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::expand::expand;
use crate::problem::{Problems, Source, SourceText};
use crate::reader::{self, closest};

/// Most values of one key.
pub const MAX_VALUES: usize = 10_000;
/// Decimal places that a range is counted in.
const PLACES: usize = 9;
/// Maximum number of keys listed for an unknown key.
const LISTED: usize = 16;

/// A key and the values that it takes one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The path of a number in the scenario file.
    pub key: String,
    /// Its values, as they would stand in the file, without quotes. At least one.
    pub values: Vec<String>,
}

/// Why a sweep was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SweepError {
    /// Not KEY=VALUES.
    #[error("\"{text}\" is not KEY=VALUES; write e.g. seed=1,2,3 or link.rate=10mbit..50mbit..10mbit")]
    Form {
        /// As written.
        text: String,
    },
    /// An empty value or none.
    #[error("{key}: a value is missing; write e.g. {key}=1,2,3 or {key}=1..3..1")]
    NoValue {
        /// The key.
        key: String,
    },
    /// A range that cannot be counted.
    #[error("{key}: {range}: {why}; write START..END..STEP, or START..END..xFACTOR")]
    Range {
        /// The key.
        key: String,
        /// As written.
        range: String,
        /// The reason.
        why: String,
    },
    /// More than [`MAX_VALUES`].
    #[error("{key}: more than {limit} values; use a wider step")]
    TooMany {
        /// The key.
        key: String,
        /// Maximum number of values.
        limit: usize,
    },
    /// A value that cannot stand in a file.
    #[error("{key}: the value {value:?} cannot be written into a file; remove quotes, backslashes and line ends")]
    Unwritable {
        /// The key.
        key: String,
        /// As written.
        value: String,
    },
    /// A key twice.
    #[error("{key} is swept twice; write all values after one --sweep")]
    Twice {
        /// The key.
        key: String,
    },
    /// No number of that path.
    #[error("{file} has no number {key}; {}", match suggestion {
        Some(key) => format!("did you mean {key}?"),
        None => format!("these can be swept: {known}"),
    })]
    UnknownKey {
        /// The scenario file.
        file: String,
        /// As written.
        key: String,
        /// The closest one.
        suggestion: Option<String>,
        /// The first few that there are, and how many more.
        known: String,
    },
}

impl Sweep {
    /// Parses `KEY=V1,V2,...`, where a value may be a range: `1..9..2` adds 2 each time, `1mbit..16mbit..x2` doubles.
    /// The end is included if the steps reach it. Units are given at least at the start of a range, and are the same
    /// throughout.
    ///
    /// # Errors
    /// [`SweepError`], without looking at any file.
    pub fn parse(text: &str) -> Result<Self, SweepError> {
        let form = || SweepError::Form { text: text.to_owned() };
        let (key, list) = text.split_once('=').ok_or_else(form)?;
        let key = key.trim().to_owned();
        if key.is_empty() {
            return Err(form());
        }
        let mut values = Vec::new();
        for item in list.split(',').map(str::trim) {
            if item.is_empty() {
                return Err(SweepError::NoValue { key });
            }
            if item.contains("..") {
                range(&key, item, &mut values)?;
            } else {
                if item.contains(['"', '\\']) || item.contains(char::is_control) {
                    return Err(SweepError::Unwritable { key, value: item.to_owned() });
                }
                values.push(item.to_owned());
            }
            if values.len() > MAX_VALUES {
                return Err(SweepError::TooMany { key, limit: MAX_VALUES });
            }
        }
        Ok(Self { key, values })
    }
}

/// Adds the values of a range.
fn range(key: &str, text: &str, values: &mut Vec<String>) -> Result<(), SweepError> {
    let refuse = |why: String| SweepError::Range { key: key.to_owned(), range: text.to_owned(), why };
    let parts: Vec<&str> = text.split("..").map(str::trim).collect();
    let [start, end, step] = parts[..] else { return Err(refuse("a range has three parts".to_owned())) };
    let number = |part: &str| {
        let unit = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let number =
            decimal(&part[..unit]).ok_or_else(|| refuse(format!("\"{part}\" does not begin with a number")))?;
        Ok((number, part[unit..].trim().to_owned()))
    };
    let ((start, unit), (end, end_unit)) = (number(start)?, number(end)?);
    let (factor, step) = match step.strip_prefix('x') {
        Some(factor) => (true, number(factor)?),
        None => (false, number(step)?),
    };
    let (step, step_unit) = step;
    for other in [&end_unit, &step_unit] {
        if !other.is_empty() && *other != unit {
            return Err(refuse(format!("the units {unit:?} and {other:?} differ")));
        }
    }
    const ONE: i128 = 10i128.pow(PLACES as u32);
    if end < start {
        return Err(refuse("it ends before it starts".to_owned()));
    }
    if factor && (step <= ONE || start == 0) || step == 0 {
        return Err(refuse("it does not advance".to_owned()));
    }
    let mut value = start;
    while value <= end {
        if values.len() >= MAX_VALUES {
            return Err(SweepError::TooMany { key: key.to_owned(), limit: MAX_VALUES });
        }
        values.push(format!("{}{unit}", show(value)));
        let next = if factor { value.checked_mul(step).map(|next| next / ONE) } else { value.checked_add(step) };
        match next {
            Some(next) if next > value => value = next,
            _ => break,
        }
    }
    Ok(())
}

/// A decimal of at most nine places, times 10^9.
fn decimal(text: &str) -> Option<i128> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 19 || places.len() > PLACES || !digits(whole) || !digits(places) {
        return None;
    }
    format!("{whole}{places:0<PLACES$}").parse().ok()
}

fn show(value: i128) -> String {
    let one = 10i128.pow(PLACES as u32);
    let text = format!("{}.{:0PLACES$}", value / one, value % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number in the text of a scenario.
#[derive(Clone, Debug)]
struct Place {
    span: Range<usize>,
    /// True if it is a string, as all numbers with units are.
    quoted: bool,
}

/// A scenario file as text, with the places of its numbers.
#[derive(Clone, Debug)]
pub struct Template {
    name: String,
    text: String,
    /// In the order of the file.
    keys: Vec<String>,
    places: HashMap<String, Place>,
}

/// Numbers that a scenario has whether it names them or not, and whether they are strings.
const ALWAYS: [(&str, bool); 2] = [("seed", false), ("warmup", true)];

/// Keys with words as values that can be swept.
const WORDS: [&str; 1] = ["rule"];

/// Keys with names as values, even if they look like numbers.
const NAMES: [&str; 10] = ["name", "class", "parent", "link", "pool", "default", "file", "scheduler", "model", "match"];

impl Template {
    /// Reads a scenario file. The link file that it names, if any, becomes a part of the text.
    ///
    /// # Errors
    /// A text that is no TOML, and a link file that cannot be read.
    pub fn read(source: &Source) -> Result<Self, Problems> {
        let source = expand(source)?;
        let document = reader::toml(&source)?;
        let table = document.get_ref();
        let mut text = source.inner().to_owned();
        if let Some((key, value)) = table.get_key_value("link")
            && let Some(file) = value.get_ref().as_str()
        {
            let link = expand(&source.open(&source.beside(file))?)?;
            // As text, it has to begin with a table: a key alone would belong to the table before.
            let lines = || link.inner().lines().map(str::trim);
            let begins = lines().find(|line| !line.is_empty() && !line.starts_with('#'));
            // Text that does not look like a link file is not shown to the author of its name.
            if begins.is_some_and(|line| line.starts_with('[')) && lines().any(|line| line.starts_with("[link]")) {
                text.replace_range(key.span().start..value.span().end, "");
                let _ = write!(text, "\n# {file}:\n{}", link.inner());
            }
        }
        Self::parse(source.name(), text)
    }

    /// A scenario as text.
    ///
    /// # Errors
    /// A text that is no TOML.
    pub fn parse(name: &str, text: String) -> Result<Self, Problems> {
        let source: Source = SourceText::new(name, text);
        let document = reader::toml(&source)?;
        let mut template =
            Self { name: name.to_owned(), text: source.inner().to_owned(), keys: Vec::new(), places: HashMap::new() };
        template.table(document.get_ref(), "");
        for (key, _) in ALWAYS {
            if !template.places.contains_key(key) {
                template.keys.push(key.to_owned());
            }
        }
        Ok(template)
    }

    /// All keys that can be swept.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Name of the file in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that each key exists and is swept once.
    ///
    /// # Errors
    /// [`SweepError::UnknownKey`], [`SweepError::Twice`].
    pub fn check(&self, sweeps: &[Sweep]) -> Result<(), SweepError> {
        for (index, Sweep { key, .. }) in sweeps.iter().enumerate() {
            if !self.keys.contains(key) {
                let keys = || self.keys.iter().map(String::as_str);
                let mut known = keys().take(LISTED).collect::<Vec<_>>().join(", ");
                if self.keys.len() > LISTED {
                    let _ = write!(known, " and {} more", self.keys.len() - LISTED);
                }
                return Err(SweepError::UnknownKey {
                    file: self.name.clone(),
                    key: key.clone(),
                    suggestion: closest(key, keys()).map(str::to_owned),
                    known,
                });
            }
            if sweeps[..index].iter().any(|other| other.key == *key) {
                return Err(SweepError::Twice { key: key.clone() });
            }
        }
        Ok(())
    }

    /// The text with these keys set to these values. Keys that are not there are passed over.
    #[must_use]
    pub fn with(&self, settings: &[(&str, &str)]) -> String {
        let mut text = self.text.clone();
        let mut places: Vec<(&Place, &str)> = Vec::new();
        let mut first = String::new();
        for (key, value) in settings {
            if let Some(place) = self.places.get(*key) {
                places.push((place, value));
            } else if let Some((key, quoted)) = ALWAYS.iter().find(|(known, _)| known == key) {
                let _ = writeln!(first, "{key} = {}", written(value, *quoted));
            }
        }
        // From the back, so that spans before stay as they are.
        places.sort_by_key(|(place, _)| std::cmp::Reverse(place.span.start));
        for (place, value) in places {
            text.replace_range(place.span.clone(), &written(value, place.quoted));
        }
        first + &text
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let key: &str = key.get_ref();
            let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            self.value(value, key, path);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, key: &str, path: String) {
        match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => self.number(value, path, false),
            DeValue::String(text) if is_quantity(text) && !NAMES.contains(&key) => self.number(value, path, true),
            DeValue::String(_) if WORDS.contains(&key) => self.number(value, path, true),
            DeValue::Table(table) => self.table(table, &path),
            DeValue::Array(items) => {
                let mut seen: HashMap<&str, usize> = HashMap::new();
                for (index, item) in items.iter().enumerate() {
                    let naming = if key == "source" { "class" } else { "name" };
                    let table = item.get_ref().as_table();
                    let name = table.and_then(|table| table.get(naming)?.get_ref().as_str());
                    let item_path = match name {
                        Some(name) => {
                            let count = seen.entry(name).or_default();
                            *count += 1;
                            if *count == 1 { format!("{path}.{name}") } else { format!("{path}.{name}#{count}") }
                        }
                        None => format!("{path}.{}", index + 1),
                    };
                    self.value(item, key, item_path);
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, value: &Spanned<DeValue<'_>>, path: String, quoted: bool) {
        self.keys.push(path.clone());
        self.places.insert(path, Place { span: value.span(), quoted });
    }
}

fn written(value: &str, quoted: bool) -> String {
    if quoted { format!("\"{value}\"") } else { value.to_owned() }
}

/// Returns true if this is a number with a unit, such as `10mbit` or `2p`.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let unit = unit.trim();
    decimal(number).is_some() && !unit.is_empty() && unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%')
}

#[cfg(test)]
mod tests;
