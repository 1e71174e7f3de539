//! Files with several links: `[[link]]`, each with a name, its interfaces, and `[[link.class]]`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::head::Head;
use super::pools::{self, PoolSpec};
use super::{LinkFile, ReadOptions};
use crate::document;
use crate::files::is_tc_file;
use crate::problem::{Log, ProblemKind, Problems, Source, SourceText, Span};
use crate::reader::{self, Table, Value};

const PLACE: &str = "[[link]]";
const EXPECTED: &str = "a table for each link: [[link]], in double brackets";

/// Most links of a file.
pub const MAX_LINKS: usize = 256;

/// Refuses several links for a command that takes one, with a remedy.
pub(super) fn refuse(links: Value<'_, '_>, log: &mut Log) {
    let count = links.list(EXPECTED, log).map_or(0, |links| links.len());
    let why = format!("is given {count} times, and this command takes one link");
    let help = "only `fairlink gateway` and `fairlink ctl reload` take files with several links; use a separate file for each link";
    log.error(links.span(), ProblemKind::Misplaced { key: "link", why, help });
}

impl LinkFile {
    /// Reads all links of a file: those of `[[link]]`, in their order, each with its name and its interfaces; or the
    /// only one, as
    /// [`LinkFile::read`] does.
    ///
    /// # Errors
    /// As [`LinkFile::read`]; and links without a name or an interface, with the name of another, or more than
    /// [`MAX_LINKS`].
    pub fn read_all(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<Vec<Self>, Problems> {
        Self::all_from_source(&SourceText::read(path)?, options)
    }

    /// As [`LinkFile::read_all`], of the text of the file at `path`.
    ///
    /// # Errors
    /// As [`LinkFile::read_all`].
    pub fn all_from_text(
        path: &str,
        text: impl Into<String>,
        options: &ReadOptions<'_>,
    ) -> Result<Vec<Self>, Problems> {
        Self::all_from_source(&SourceText::new(path, text.into()), options)
    }

    /// As [`LinkFile::read_all`], of a file that was read.
    ///
    /// # Errors
    /// As [`LinkFile::read_all`].
    pub fn all_from_source(source: &Source, options: &ReadOptions<'_>) -> Result<Vec<Self>, Problems> {
        let is_list = || Ok(reader::toml(source)?.get_ref().get("link").is_some_and(|link| link.get_ref().is_array()));
        if is_tc_file(Path::new(source.name())) || !is_list()? {
            return Ok(vec![Self::from_source(source, options)?]);
        }
        document::read_whole(source, "a file of several links", |document, mut log| {
            document.only(&["link", "pool"], &mut log);
            let links = document.get("link").and_then(|value| value.list(EXPECTED, &mut log)).unwrap_or_default();
            if links.len() > MAX_LINKS {
                let why = format!("is given {} times; the limit is {MAX_LINKS}", links.len());
                let help = "remove some, or start another gateway for them";
                log.error(document.key_span("link"), ProblemKind::Misplaced { key: "link", why, help });
                return Err(log.into_errors());
            }
            let mut read = Vec::with_capacity(links.len());
            let mut names: HashMap<String, Span> = HashMap::new();
            for value in links {
                let Some(table) = value.table(PLACE, EXPECTED, &mut log) else { continue };
                if let Some(link) = one(table, &mut names, options, &mut log) {
                    read.push(link);
                }
            }
            let shared: Arc<[PoolSpec]> = pools::read(document, &read.iter().collect::<Vec<_>>(), &mut log).into();
            for (place, link) in read.iter_mut().enumerate() {
                link.place = place;
                // Classes of other links are there to share with.
                link.warnings.retain(|warning| !matches!(warning.kind(), ProblemKind::Misplaced { key: "pool", .. }));
                link.shared = Arc::clone(&shared);
            }
            if log.has_errors() { Err(log.into_errors()) } else { Ok(read) }
        })
    }
}

/// Reads one of several links; `None` if it is invalid; the log has the errors.
fn one(
    table: Table<'_, '_>,
    names: &mut HashMap<String, Span>,
    options: &ReadOptions<'_>,
    log: &mut Log,
) -> Option<LinkFile> {
    table.need("name", "name = \"down\"", log);
    if table.get("egress").is_none() {
        let input = "in = \"eth0\", the interface that packets come from, or egress = \"eth1\" for traffic of the machine itself";
        table.need("in", input, log);
        table.need("out", "out = \"eth1\", the interface that packets go to", log);
    }
    let span = table.get("name").map_or(table.span.clone(), Value::span);
    let mut own = Log::new(log.source());
    let head = Head::of_several(table.clone(), options, &mut own);
    if let Some(name) = &head.name {
        if let Some(first) = names.get(name) {
            log.error_also(span, ProblemKind::DuplicateName { name: name.clone() }, first.clone(), "first here");
        } else {
            names.insert(name.clone(), span);
        }
    }
    let read = LinkFile::assemble_of(head, &table, options, &mut own);
    match (read, own.has_errors()) {
        (Some(mut link), false) => {
            link.warnings = own.finish().ok()?;
            Some(link)
        }
        _ => {
            log.add_all(own.into_errors());
            None
        }
    }
}
