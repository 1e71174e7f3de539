//! `[[classes]]`: a class for each row of a table.

use std::collections::HashMap;

use fairlink_schema::keys::{CLASS, ClassKey, Kind};
use toml::de::DeValue;

use super::sections::{Entry, Section};
use super::table::{Row, Table, is_table};
use super::templates::{Templates, refuse_dotted, text_of};
use super::writer::Writer;
use crate::problem::{Log, ProblemKind, Problems, Source, Span};
use crate::reader::closest;
use crate::toml_text::quoted;

const PLACE: &str = "[[classes]]";
/// Separator of several values in a field of a list.
const BETWEEN: char = ';';

/// A text with columns in it.
#[derive(Debug)]
struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    /// The place of a column.
    Column(usize),
}

/// The value of a key in each row.
#[derive(Debug)]
enum Expression {
    /// The same in each.
    Same(Span),
    Text(Pattern),
    /// A list of texts; one without a column is copied unchanged.
    List(Vec<Pattern>),
}

/// A key of a class of the table.
struct Setting<'a> {
    key: &'a str,
    expression: Expression,
    /// True if the file names it. Else there is a column of its name.
    is_named: bool,
}

/// Writes a class for each row of the table that `section` names. Returns the table if there is one.
///
/// # Errors
/// Errors of the table; those of the section are in the log.
pub(super) fn write(
    section: &Section<'_>,
    templates: &Templates<'_>,
    writer: &mut Writer,
    log: &mut Log,
) -> Result<Option<Source>, Problems> {
    let Some(path) = path(section, log) else { return Ok(None) };
    let table = Table::read(log.source(), &path)?;
    let mut settings = Vec::new();
    for entry in section.entries().filter(|entry| entry.key != "from") {
        if let Some(expression) = expression(&entry, &table, log) {
            settings.push(Setting { key: entry.key, expression, is_named: true });
        }
    }
    for (at, column) in table.columns.iter().enumerate() {
        let known = column == "template" || class_key(column).is_some();
        if known && !settings.iter().any(|setting| setting.key == column) {
            let pattern = Pattern { parts: vec![Part::Column(at)] };
            let expression =
                if column == "match" { Expression::List(vec![pattern]) } else { Expression::Text(pattern) };
            settings.push(Setting { key: column, expression, is_named: false });
        }
    }
    if !settings.iter().any(|setting| setting.key == "name") {
        let example = "name = \"{COLUMN}\", or call a column of the table name";
        log.error(section.header(), ProblemKind::MissingKey { place: PLACE, key: "name", example });
    }
    if log.has_errors() {
        return Ok(None);
    }
    // As people write it: the name first.
    settings.sort_by_key(|setting| setting.key != "name");
    let mut rows = Rows { table: &table, templates, known: HashMap::new(), header: header(section), settings };
    let mut wrong = Log::new(&table.source);
    for row in &table.rows {
        rows.write(row, writer, &mut wrong, log);
        if wrong.is_full() {
            break;
        }
        if writer.is_full() {
            let why = format!("the classes of the table need more than {} MiB", writer.most() >> 20);
            let help = "remove rows or keys, or use several files".to_owned();
            wrong.error(row.span.clone(), ProblemKind::Row { why, help });
            break;
        }
    }
    if wrong.has_errors() { Err(wrong.into_errors()) } else { Ok(Some(table.source)) }
}

/// The path of the table.
fn path(section: &Section<'_>, log: &mut Log) -> Option<std::path::PathBuf> {
    let Some(entry) = section.entries().find(|entry| entry.key == "from") else {
        let example = "from = \"subscribers.csv\", one class for each row; a single class is [[class]]";
        log.error(section.header(), ProblemKind::MissingKey { place: PLACE, key: "from", example });
        return None;
    };
    let name = text_of(&entry, log)?;
    let source = log.source().clone();
    let path = source.beside(name);
    let mut refuse = |why: String, help| {
        log.error(entry.span.clone(), ProblemKind::Misplaced { key: "from", why, help });
        None
    };
    if !is_table(&path) {
        return refuse(format!("of {name:?} is not the name of a table"), "name a file that ends in .csv or .tsv");
    }
    if !source.was_opened() {
        let why = "names a file, and this text was not read from a file".to_owned();
        return refuse(why, "use the output of `fairlink expand FILE`");
    }
    Some(path)
}

/// The header of a class in the place of the section.
fn header(section: &Section<'_>) -> String {
    let above = &section.path[..section.path.len().saturating_sub(1)];
    let above: String = above.iter().map(|key| format!("{key}.")).collect();
    format!("[[{above}class]]\n")
}

struct Rows<'a> {
    table: &'a Table,
    templates: &'a Templates<'a>,
    /// The keys of templates that rows had.
    known: HashMap<String, Vec<Entry<'a, 'a>>>,
    header: String,
    settings: Vec<Setting<'a>>,
}

impl Rows<'_> {
    fn write(&mut self, row: &Row, writer: &mut Writer, wrong: &mut Log, log: &mut Log) {
        let template = self.template(row, wrong);
        if let Some(name) = &template
            && !self.known.contains_key(name)
        {
            let entries = self.templates.entries_of(name, row.span.clone(), log);
            self.known.insert(name.clone(), entries);
        }
        let entries = template.and_then(|name| self.known.get(&name)).map_or(&[][..], Vec::as_slice);
        writer.add(&self.header);
        let mut set: Vec<&str> = Vec::with_capacity(self.settings.len());
        for Setting { key, expression, is_named } in self.settings.iter().filter(|setting| setting.key != "template") {
            let made = match expression {
                Expression::Same(span) => {
                    writer.copy(span.clone());
                    writer.add("\n");
                    set.push(key);
                    continue;
                }
                Expression::Text(pattern) => pattern.of(row).map(|text| value(key, &text)),
                Expression::List(patterns) => {
                    let all: Vec<String> = patterns.iter().flat_map(|pattern| pattern.all_of(row)).collect();
                    if all.is_empty() { Err(patterns.iter().find_map(Pattern::first_column)) } else { Ok(list(&all)) }
                }
            };
            match made {
                Ok(value) => {
                    writer.made(&format!("{key} = {value}\n"), &self.table.source, row.span.clone());
                    set.push(key);
                }
                Err(_) if *key == "name" => {
                    let why = "the name of this class is empty".to_owned();
                    wrong.error(row.span.clone(), ProblemKind::Row { why, help: "fill it in".to_owned() });
                }
                Err(empty) if *is_named && !entries.iter().any(|entry| entry.key == *key) => {
                    let column = empty.map_or("", |column| &self.table.columns[column]);
                    let why = format!("column {column:?} is empty in this row, and no template sets \"{key}\"");
                    let help = format!("fill it in, or set {key} in a template of this row");
                    wrong.error(row.span.clone(), ProblemKind::Row { why, help });
                }
                Err(_) => {}
            }
        }
        for entry in entries {
            if !set.contains(&entry.key) {
                set.push(entry.key);
                writer.copy(entry.span.clone());
                writer.add("\n");
            }
        }
        writer.add("\n");
    }

    /// The name of the row's template.
    fn template(&self, row: &Row, wrong: &mut Log) -> Option<String> {
        let setting = self.settings.iter().find(|setting| setting.key == "template")?;
        let Expression::Text(pattern) = &setting.expression else { return None };
        let name = match pattern.of(row) {
            Ok(name) => name,
            Err(column) if setting.is_named => {
                let column = column.map_or("", |column| &self.table.columns[column]);
                let why = format!("column {column:?} is empty in this row, and it names the template");
                wrong.error(row.span.clone(), ProblemKind::Row { why, help: "fill it in".to_owned() });
                return None;
            }
            Err(_) => return None,
        };
        if self.templates.has(&name) {
            return Some(name);
        }
        let why = format!("there is no template {name:?}");
        wrong.error(row.span.clone(), ProblemKind::Row { why, help: self.templates.hint(&name) });
        None
    }
}

/// A value of this key as TOML.
fn value(key: &str, text: &str) -> String {
    let bare = |key: &ClassKey| matches!(key.kind, Kind::Number { .. } | Kind::Flag);
    let is_bare = class_key(key).is_some_and(bare) && (text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok());
    if is_bare { text.to_owned() } else { quoted(text) }
}

fn class_key(name: &str) -> Option<&'static ClassKey> {
    CLASS.iter().find(|key| key.name == name)
}

fn list(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// Reads an entry of the section as an expression. `None` if it is invalid; the log has the error.
fn expression(entry: &Entry<'_, '_>, table: &Table, log: &mut Log) -> Option<Expression> {
    if let Some(&key) = ["classid"].iter().find(|&&key| key == entry.key) {
        let why = "must differ for each class".to_owned();
        log.error(
            entry.span.clone(),
            ProblemKind::Misplaced { key, why, help: "name a column of the table, such as classid" },
        );
        return None;
    }
    if !entry.is_plain {
        refuse_dotted(entry, log);
        return None;
    }
    let pattern = |text: &str, log: &mut Log| match Pattern::parse(text, table) {
        Ok(pattern) => Some(pattern),
        Err((why, help)) => {
            log.error(entry.span.clone(), ProblemKind::Row { why, help });
            None
        }
    };
    match entry.value.get_ref() {
        DeValue::String(text) => {
            let pattern = pattern(text, log)?;
            let is_same = !pattern.has_columns() && entry.key != "template";
            Some(if is_same { Expression::Same(entry.span.clone()) } else { Expression::Text(pattern) })
        }
        DeValue::Array(items) if items.iter().all(|item| item.get_ref().is_str()) => {
            let texts = items.iter().filter_map(|item| item.get_ref().as_str());
            let patterns: Vec<Pattern> = texts.map(|text| pattern(text, log)).collect::<Option<_>>()?;
            let is_same = !patterns.iter().any(Pattern::has_columns);
            Some(if is_same { Expression::Same(entry.span.clone()) } else { Expression::List(patterns) })
        }
        _ => Some(Expression::Same(entry.span.clone())),
    }
}

impl Pattern {
    /// A text in which {NAME} is a column; {{ and }} are braces.
    ///
    /// # Errors
    /// A column that is not there, and a brace that is not closed: why, and what to do.
    fn parse(text: &str, table: &Table) -> Result<Self, (String, String)> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
                continue;
            }
            let close = rest.find('}').filter(|_| brace == "{");
            let Some(end) = close else {
                let help = "write {COLUMN}; a brace itself is written twice: {{ or }}".to_owned();
                return Err((format!("unmatched brace in {text:?}"), help));
            };
            let name = rest[..end].trim();
            let Some(column) = table.column(name) else {
                let near = closest(name, table.columns.iter().map(String::as_str));
                let help = match near {
                    Some(near) => format!("did you mean {{{near}}}?"),
                    None => format!("there are: {}", table.columns.join(", ")),
                };
                return Err((format!("the table has no column {name:?}"), help));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Column(column));
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() || parts.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    fn has_columns(&self) -> bool {
        self.first_column().is_some()
    }

    fn first_column(&self) -> Option<usize> {
        self.parts.iter().find_map(|part| match part {
            Part::Column(column) => Some(*column),
            Part::Text(_) => None,
        })
    }

    /// The text in a row.
    ///
    /// # Errors
    /// A column that is empty there.
    fn of(&self, row: &Row) -> Result<String, Option<usize>> {
        self.with(|column| Some(&row.fields[column]).filter(|field| !field.is_empty()))
    }

    fn with<'f>(&self, field: impl Fn(usize) -> Option<&'f str>) -> Result<String, Option<usize>> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Column(column) => text.push_str(field(*column).ok_or(Some(*column))?),
            }
        }
        Ok(text)
    }

    /// Returns the texts of a row: one for each value of the first column that has several. None if a column is empty.
    fn all_of(&self, row: &Row) -> Vec<String> {
        let several = self.parts.iter().find_map(|part| match part {
            Part::Column(column) if row.fields[*column].contains(BETWEEN) => Some(*column),
            _ => None,
        });
        let Some(several) = several else { return self.of(row).into_iter().collect() };
        let values = row.fields[several].split(BETWEEN).map(str::trim).filter(|value| !value.is_empty());
        values
            .filter_map(|value| {
                let field = |column| if column == several { value } else { &row.fields[column] };
                self.with(|column| Some(field(column)).filter(|field| !field.is_empty())).ok()
            })
            .collect()
    }
}
