//! Files of tc commands as link files.

use std::sync::Arc;

use super::{LinkFile, ReadOptions};
#[cfg(feature = "tools")]
use crate::commands::convert;
#[cfg(feature = "tools")]
pub(super) use crate::commands::convert::ImportOptions as TcOptions;
use crate::problem::{Log, Problem, ProblemKind, Problems, Source, SourceText};
use crate::reader::Table;

/// Values that tc commands do not give.
#[cfg(not(feature = "tools"))]
#[derive(Default)]
pub(super) struct TcOptions {
    #[expect(dead_code, reason = "nothing reads the commands")]
    rate: Option<fairlink_core::Rate>,
    #[expect(dead_code, reason = "nothing reads the commands")]
    device: Option<String>,
}

/// `link = { tc = "FILE", device = "eth0", rate = "10mbit" }`.
pub(super) struct TcLink<'a> {
    path: &'a str,
    import: TcOptions,
}

impl<'a> TcLink<'a> {
    /// Returns true if the link of a document is one.
    pub(super) fn is_in(document: &Table<'_, '_>) -> bool {
        let table = document.get("link").and_then(|value| value.value.get_ref().as_table());
        table.is_some_and(|table| table.contains_key("tc"))
    }

    fn read(document: &Table<'a, '_>, log: &mut Log) -> Option<Self> {
        let table = document.get("link")?.table("[link] with tc", "a table", log)?;
        table.only(&["tc", "device", "rate"], log);
        if let Some(span) = document.first_class() {
            let why = "belong in the file of tc commands that is named here".to_owned();
            log.error(span, ProblemKind::Misplaced { key: "class", why, help: "remove them, or remove tc" });
        }
        let path = table.get("tc")?.string("the name of a file of tc commands in quotes", log)?;
        let rate = table.get("rate").and_then(|value| value.rate(None, log));
        let device = table.get("device").and_then(|value| value.string("the name of a device in quotes", log));
        Some(Self { path, import: TcOptions { rate, device: device.map(str::to_owned) } })
    }
}

impl LinkFile {
    /// Reads the link of `link = { tc = "FILE" }`. `None` if it is invalid; the log has the errors.
    ///
    /// # Errors
    /// Errors of the named file.
    pub(super) fn read_tc(
        table: &Table<'_, '_>,
        options: &ReadOptions<'_>,
        log: &mut Log,
    ) -> Result<Option<Self>, Problems> {
        let Some(TcLink { path, import }) = TcLink::read(table, log) else { return Ok(None) };
        let other = Arc::clone(log.source());
        Self::from_named_tc(&other, &other.open(&other.beside(path))?, &import, options).map(Some)
    }

    /// As [`LinkFile::from_tc`], of a file that another one names: nothing is quoted of one that has no line of tc.
    pub(super) fn from_named_tc(
        other: &Source,
        source: &Source,
        import: &TcOptions,
        options: &ReadOptions<'_>,
    ) -> Result<Self, Problems> {
        let begins = |line: &str| ["tc qdisc ", "qdisc "].iter().any(|start| line.trim_start().starts_with(start));
        if source.inner().lines().any(begins) {
            return Self::from_tc(source, import, options);
        }
        let empty = SourceText::new(source.name(), String::new());
        let kind = ProblemKind::NotSuchAFile { by: other.name().to_owned(), what: "file of tc commands", line: 1 };
        Err(Problems::one(Problem::error(&empty, None, kind)))
    }

    /// Reads the first or the requested device of a file of tc commands. Losses become a warning.
    #[cfg(feature = "tools")]
    pub(super) fn from_tc(source: &Source, open: &TcOptions, options: &ReadOptions<'_>) -> Result<Self, Problems> {
        let made = convert::read(source, open)?;
        let mut link = Self::parse(&made.name, made.text, options)?;
        link.warnings.splice(0..0, made.notes);
        Ok(link)
    }

    /// Refuses a file of tc commands.
    #[cfg(not(feature = "tools"))]
    pub(super) fn from_tc(source: &Source, _: &TcOptions, _: &ReadOptions<'_>) -> Result<Self, Problems> {
        let message = "this program was built without tc commands as link files: import the file".to_owned();
        Err(Problems::one(Problem::error(source, None, ProblemKind::Refused { message })))
    }
}
