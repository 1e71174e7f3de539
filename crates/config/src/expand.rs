//! Expands templates and tables of classes, class by class, before a file is read.
//!
//! ```toml
//! [template.gold]                      # keys of a class
//! guarantee = "10mbit"
//!
//! [[class]]
//! name = "office"
//! template = "gold"                    # takes what it does not set itself
//!
//! [[classes]]
//! from = "subscribers.csv"             # a class for each row
//! template = "{plan}"                  # names in braces are columns
//! match = ["dst net {address}"]
//! ```
//!
//! The result is a text without templates and tables, which later readers treat like any other file, and which can be
//! shown, stored and sent. Each part of it has its origin, so that errors name the place in the file or the row of the
//! table.

mod rows;
mod sections;
mod table;
mod templates;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::expand::sections::{Section, sections};
use crate::expand::templates::Templates;
use crate::expand::writer::Writer;
use crate::files::is_tc_file;
use crate::problem::{Log, ProblemKind, Problems, Source};
use crate::reader;

#[cfg(feature = "tools")]
pub(crate) use table::row as row_span;

/// Returns the text of `source` with templates and tables of classes expanded. A text without any is unchanged, and so
/// is one that is not TOML, which a later reader reports.
///
/// # Errors
/// Unknown templates, unreadable tables of classes, and errors in their rows.
pub(crate) fn expand(source: &Source) -> Result<Source, Problems> {
    let text = source.inner();
    if !text.contains("template") && !text.contains("classes") {
        return Ok(Arc::clone(source));
    }
    let Some(sections) = sections(text) else { return Ok(Arc::clone(source)) };
    let mut log = Log::new(source);
    let classes = || sections.iter().filter(|section| section.is_list_of("class"));
    let (count, limit) = (classes().count(), source.limits().classes);
    if let (true, Some(first)) = (count > limit, classes().next()) {
        log.error(first.header(), ProblemKind::TooManyHere { classes: count, limit });
        return Err(log.into_errors());
    }
    let templates = Templates::read(&sections, &mut log);
    let mut writer = Writer::new(source);
    let mut included = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        if section.is_list_of("classes") {
            match rows::write(section, &templates, &mut writer, &mut log) {
                Ok(table) => included.extend(table),
                Err(problems) => log.add_all(problems),
            }
        } else if section.is_list_of("class") {
            class(&sections[at..], &templates, &mut writer, &mut log);
        } else if !section.is_template() {
            writer.copy(section.span.clone());
        }
        if writer.is_full() && !log.has_errors() {
            let why = format!("templates expand the classes to more than {} MiB", writer.most() >> 20);
            let help = "remove keys of the templates, or classes".to_owned();
            log.error(section.header(), ProblemKind::Row { why, help });
            break;
        }
    }
    if log.has_errors() {
        return Err(log.into_errors());
    }
    Ok(writer.finish(included))
}

/// Expands the templates and tables of classes of a link file or a scenario: a complete class for each row. A file of
/// tc commands has neither and is unchanged.
///
/// # Errors
/// A text that is not TOML, unknown templates and columns, unreadable tables, and errors in rows.
pub fn written_out(source: &Source) -> Result<Source, Problems> {
    if is_tc_file(Path::new(source.name())) {
        return Ok(Arc::clone(source));
    }
    let source = expand(source)?;
    reader::toml(&source)?;
    Ok(source)
}

/// Copies the first section, a class. In the place of `template` stand the keys of that template which the class does
/// not set, in the sections of its own tables neither.
fn class(sections: &[Section<'_>], templates: &Templates<'_>, writer: &mut Writer, log: &mut Log) {
    let section = &sections[0];
    let Some((name, key)) = templates.named_in(section, log) else { return writer.copy(section.span.clone()) };
    let below = sections[1..].iter().take_while(|other| other.is_below(section)).filter_map(Section::last_key);
    let mut set: Vec<&str> = section.entries().map(|entry| entry.key).chain(below).collect();
    writer.copy(section.span.start..key.start);
    let mut between = "";
    for entry in templates.entries_of(&name, key.clone(), log) {
        if !set.contains(&entry.key) {
            set.push(entry.key);
            writer.add(between);
            writer.copy(entry.span.clone());
            between = "\n";
        }
    }
    writer.copy(key.end..section.span.end);
}
