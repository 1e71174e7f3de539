//! Tables of classes: files of comma-separated values with a row of column names.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::problem::{Log, ProblemKind, Problems, Source, Span};

/// A table that was read.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) source: Source,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// The fields of a row and its place.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) fields: StringRecord,
    pub(super) span: Span,
}

/// Returns true if the name of a file is that of a table. Other files are not read or quoted: the author of the name
/// may not have the right to read them.
pub(super) fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv") || end.eq_ignore_ascii_case("tsv"))
}

impl Table {
    /// Reads the table at `path`, which `by` names. White space around fields does not count, empty rows and those that
    /// begin with # are left out.
    ///
    /// # Errors
    /// A file that cannot be read, column names that are missing or there twice, rows with fewer or more fields than
    /// there are columns, and quotes that are not closed.
    pub(super) fn read(by: &Source, path: &Path) -> Result<Self, Problems> {
        let source = by.open(path)?;
        let mut log = Log::new(&source);
        // Spreadsheets begin a file with a mark of its encoding.
        let mark = if source.inner().starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let text = &source.inner()[mark..];
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .comment(Some(b'#'))
            .delimiter(delimiter(path, text))
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        let mut fields = StringRecord::new();
        // UTF-8 in memory can always be read; line ends and quotes are checked below.
        while reader.read_record(&mut fields).unwrap_or(false) {
            let start = mark + fields.position().map_or(0, |at| at.byte() as usize);
            let end = mark + reader.position().byte() as usize;
            rows.push(Row { fields: fields.clone(), span: row(source.inner(), start..end) });
        }
        let mut rows = rows.into_iter();
        let columns = rows.next().map(|head| (columns(&head, &mut log), head.span));
        let Some((columns, head)) = columns else {
            let why = "the table is empty".to_owned();
            let help = "the first row names the columns, and each further row is a class".to_owned();
            log.error(0..0, ProblemKind::Row { why, help });
            return Err(log.into_errors());
        };
        let rows: Vec<Row> = rows.filter(|row| is_whole(row, &columns, &mut log)).collect();
        if rows.is_empty() && !log.has_errors() {
            let why = "the table has column names and no rows".to_owned();
            log.error(head, ProblemKind::Row { why, help: "add a row for each class".to_owned() });
        }
        if log.has_errors() { Err(log.into_errors()) } else { Ok(Self { source, columns, rows }) }
    }

    /// The place of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// Returns the place of a row within the reader's range, which includes preceding empty rows and comments.
pub(crate) fn row(text: &str, mut span: Span) -> Span {
    let is_left_out = |line: &str| line.trim().is_empty() || line.starts_with('#');
    while let Some(line) = text[span.clone()].split_inclusive('\n').next()
        && is_left_out(line)
    {
        span.start += line.len();
    }
    let len = text[span.clone()].trim_end().len();
    span.start..span.start + len
}

/// Returns the delimiter of fields: a tab in a .tsv, else a comma, or a semicolon if the column names have no comma.
fn delimiter(path: &Path, text: &str) -> u8 {
    let names = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    match path.extension() {
        Some(end) if end.eq_ignore_ascii_case("tsv") => b'\t',
        _ if !names.contains(',') && names.contains(';') => b';',
        _ => b',',
    }
}

fn columns(head: &Row, log: &mut Log) -> Vec<String> {
    let names: Vec<String> = head.fields.iter().map(str::to_owned).collect();
    for (at, name) in names.iter().enumerate() {
        let why = if name.is_empty() {
            format!("column {} has no name", at + 1)
        } else if names[..at].contains(name) {
            format!("two columns are called {name:?}")
        } else {
            continue;
        };
        let help = "give each column a unique name in the first row".to_owned();
        log.error(head.span.clone(), ProblemKind::Row { why, help });
    }
    names
}

/// Returns true if a row has a field for each column, all on one line.
fn is_whole(row: &Row, columns: &[String], log: &mut Log) -> bool {
    let fields = row.fields.len();
    let (why, help) = if row.fields.iter().any(|field| field.contains(['\n', '\r'])) {
        ("a quote is not closed on its line".to_owned(), "double a quote within quotes: \"\"".to_owned())
    } else if fields != columns.len() {
        let fields = if fields == 1 { "1 field".to_owned() } else { format!("{fields} fields") };
        let help = format!("the columns are {}; leave a field empty for no value", columns.join(", "));
        (format!("this row has {fields}, and there are {} columns", columns.len()), help)
    } else {
        return true;
    };
    let line = row.span.start..row.span.end;
    log.error(line, ProblemKind::Row { why, help });
    false
}
