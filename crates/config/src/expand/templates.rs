//! `[template.NAME]`: keys that classes have in common.

use std::collections::HashMap;

use fairlink_schema::editor::OWN_KEYS;

use super::sections::{Entry, Section};
use crate::problem::{Log, ProblemKind, Span};
use crate::reader::{closest, unknown_word};

/// The templates of a file.
pub(super) struct Templates<'a> {
    by_name: HashMap<&'a str, Template<'a>>,
    /// In the order of the file.
    names: Vec<&'a str>,
}

struct Template<'a> {
    entries: Vec<Entry<'a, 'a>>,
    /// The template that it extends, and the place of the reference.
    base: Option<(String, Span)>,
}

impl<'a> Templates<'a> {
    pub(super) fn read(sections: &'a [Section<'a>], log: &mut Log) -> Self {
        let mut templates = Self { by_name: HashMap::new(), names: Vec::new() };
        let head = sections.first().filter(|section| section.path.is_empty());
        for entry in head.into_iter().flat_map(Section::entries) {
            let key = match entry.key {
                "template" => "template",
                "classes" => "classes",
                _ => continue,
            };
            let help = "write [template.NAME] or [[classes]], with one key per line below it";
            let why = "is not a table with its own header".to_owned();
            log.error(entry.span, ProblemKind::Misplaced { key, why, help });
        }
        for section in sections.iter().filter(|section| section.is_template()) {
            let mut refuse = |why: &str, help| {
                let why = why.to_owned();
                log.error(section.header(), ProblemKind::Misplaced { key: "template", why, help });
            };
            let [_, name] = &section.path[..] else {
                match section.path.len() {
                    1 => refuse("needs a name", "write [template.NAME]"),
                    _ => refuse("cannot contain tables", "write a key with { ... } in one line of [template.NAME]"),
                }
                continue;
            };
            if section.is_list {
                refuse("is a single table for each name", "write [template.NAME], in single brackets");
                continue;
            }
            let mut template = Template { entries: Vec::new(), base: None };
            for entry in section.entries() {
                if entry.key == "template" {
                    template.base = text_of(&entry, log).map(|name| (name.to_owned(), entry.span.clone()));
                } else if let Some(&key) = OWN_KEYS.iter().find(|&&own| own == entry.key) {
                    let why = "must differ for each class and cannot be in a template".to_owned();
                    log.error(entry.span, ProblemKind::Misplaced { key, why, help: "set it in each class" });
                } else if entry.is_plain {
                    template.entries.push(entry);
                } else {
                    refuse_dotted(&entry, log);
                }
            }
            templates.names.push(name);
            templates.by_name.insert(name, template);
        }
        templates
    }

    /// The template that a section names, and the place of the key with its value.
    pub(super) fn named_in(&self, section: &Section<'_>, log: &mut Log) -> Option<(String, Span)> {
        let entry = section.entries().find(|entry| entry.key == "template")?;
        Some((text_of(&entry, log)?.to_owned(), entry.span))
    }

    /// Returns the keys of a template, its own first, then those of the template that it extends; of duplicate keys the
    /// first applies. `at` is the place of the reference.
    pub(super) fn entries_of(&self, name: &str, at: Span, log: &mut Log) -> Vec<Entry<'a, 'a>> {
        let mut all = Vec::new();
        let mut path: Vec<&str> = Vec::new();
        let mut next = Some((name, at));
        while let Some((name, at)) = next {
            let Some((&name, template)) = self.by_name.get_key_value(name) else {
                log.error(at, self.unknown(name));
                break;
            };
            if path.contains(&name) {
                let why = format!("{name:?} depends on itself: {} -> {name}", path.join(" -> "));
                let help = "remove the key from one of them";
                log.error(at, ProblemKind::Misplaced { key: "template", why, help });
                break;
            }
            path.push(name);
            all.extend(template.entries.iter().cloned());
            next = template.base.as_ref().map(|(base, at)| (base.as_str(), at.clone()));
        }
        all
    }

    /// Returns true if there is one of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The error for a name without a template.
    pub(super) fn unknown(&self, name: &str) -> ProblemKind {
        unknown_word("template", name, self.names.iter().copied())
    }

    /// The same with a suggestion, as part of a sentence.
    pub(super) fn hint(&self, name: &str) -> String {
        match closest(name, self.names.iter().copied()) {
            Some(known) => format!("did you mean {known:?}?"),
            None if self.names.is_empty() => "add [template.NAME] to the file".to_owned(),
            None => format!("there are: {}", self.names.join(", ")),
        }
    }
}

/// A key of a table within a table has no text that could stand elsewhere.
pub(super) fn refuse_dotted(entry: &Entry<'_, '_>, log: &mut Log) {
    let why = format!("{:?} is split over several tables", entry.key);
    log.error(entry.span.clone(), ProblemKind::Row { why, help: format!("write {} = {{ ... }}", entry.key) });
}

/// The string that an entry is.
pub(super) fn text_of<'e>(entry: &Entry<'e, '_>, log: &mut Log) -> Option<&'e str> {
    let text = entry.value.get_ref().as_str();
    if text.is_none() {
        let found = entry.value.get_ref().type_str();
        let kind = ProblemKind::WrongType { key: entry.key.to_owned(), expected: "a name in quotes", found };
        log.error(entry.span.clone(), kind);
    }
    text
}
