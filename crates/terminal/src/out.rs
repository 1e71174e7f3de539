//! Standard output as the commands use it: text or JSON, tables, and an end without noise when the pipe is closed.

use std::fs::{self, File};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use console::{Term, measure_text_width};
use fairlink_figures::table::{self, Layout};
use fairlink_report::{Content, Document};
use serde::Serialize;
use supports_unicode::Stream;

use crate::failure::CliError;

/// Output of a command's data.
pub struct Out {
    /// True if the user asked for JSON.
    pub json: bool,
    writer: BufWriter<StdoutLock<'static>>,
    /// Lines that the next `Out::redraw` replaces.
    drawn: usize,
}

impl Out {
    /// Standard output.
    pub fn new(json: bool) -> Self {
        Self { json, writer: BufWriter::new(io::stdout().lock()), drawn: 0 }
    }

    /// A document with its head as JSON, indented. `fairlink schema documents` has its schema.
    pub fn document<T: Content + Serialize>(&mut self, document: &Document<T>) -> Result<(), CliError> {
        self.raw_json(document)
    }

    /// JSON, indented, on lines of its own.
    pub fn raw_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(io::Error::from)?;
        writeln!(self.writer)?;
        Ok(())
    }

    /// A document with its head as JSON on one line.
    pub fn json_line<T: Content + Serialize>(&mut self, document: &Document<T>) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.writer, document).map_err(io::Error::from)?;
        writeln!(self.writer)?;
        Ok(())
    }

    /// One line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), CliError> {
        writeln!(self.writer, "{}", text.as_ref())?;
        Ok(())
    }

    /// Prints a paragraph. On narrow terminals it is wrapped, with continuation lines indented by `hang`.
    pub fn paragraph(&mut self, text: &str, hang: usize) -> Result<(), CliError> {
        match self.width() {
            Some(width) => wrapped(text, width, hang).iter().try_for_each(|line| self.line(line)),
            None => self.line(text),
        }
    }

    /// A table; the columns `right` are numbers and stand to the right.
    pub fn table(
        &mut self,
        head: &[impl AsRef<str>],
        rows: Vec<Vec<String>>,
        right: Range<usize>,
    ) -> Result<(), CliError> {
        table::fitted(head, &rows, right, self.width()).iter().try_for_each(|line| self.line(&line.text))
    }

    /// Tables of numbers, with an empty line between two.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn tables(&mut self, tables: &[(Vec<&'static str>, Vec<Vec<String>>)]) -> Result<(), CliError> {
        for (place, (head, rows)) in tables.iter().enumerate() {
            if place > 0 {
                self.line("")?;
            }
            self.table(head, rows.clone(), 0..head.len())?;
        }
        Ok(())
    }

    /// A table of rows that are made twice, once to see how wide the columns are: there may be millions of them. Its
    /// head and cells stand as in [`Out::table`].
    pub fn rows(
        &mut self,
        head: &[impl AsRef<str>],
        count: usize,
        row: impl Fn(usize) -> Vec<String>,
        right: Range<usize>,
    ) -> Result<(), CliError> {
        let head: Vec<String> = head.iter().map(|title| title.as_ref().to_owned()).collect();
        let mut widths = table::widths(&head);
        (0..count).for_each(|place| table::widen(&mut widths, &row(place)));
        let layout = Layout::new(widths, right, self.width());
        for (place, block) in layout.blocks.iter().enumerate() {
            if place > 0 {
                self.line("")?;
            }
            for cells in std::iter::once(head.clone()).chain((0..count).map(&row)) {
                let mut told = Ok(());
                layout.row(&cells, block, |line| {
                    if told.is_ok() {
                        told = self.line(line);
                    }
                });
                told?;
            }
        }
        Ok(())
    }

    /// Columns of a line for wrapping; `None` if lines are not wrapped.
    pub fn width(&self) -> Option<usize> {
        columns(&Term::stdout())
    }

    /// Returns true to colour text.
    pub fn colour(&self) -> bool {
        console::colors_enabled()
    }

    /// Returns true if the terminal can show block characters.
    pub fn blocks(&self) -> bool {
        supports_unicode::on(Stream::Stdout)
    }

    /// Returns true if a person looks at it.
    pub fn is_terminal(&self) -> bool {
        Term::stdout().is_term()
    }

    /// Lines in place of those drawn before, on a terminal.
    pub fn redraw(&mut self, lines: &[String]) -> Result<(), CliError> {
        if self.drawn > 0 {
            // Up to the first line drawn before, and everything below it away.
            write!(self.writer, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        self.drawn = lines.len();
        lines.iter().try_for_each(|line| writeln!(self.writer, "{line}"))?;
        self.flush()
    }

    /// Flushes the buffered output.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.writer.flush()?;
        Ok(())
    }

    /// Refuses `--json` for a command that prints `what`.
    ///
    /// # Errors
    /// `--json` was given.
    pub fn refuse_json(&self, what: &str) -> Result<(), CliError> {
        match self.json {
            true => Err(CliError::wrong(format!("--json: {what} is no document; leave --json out"))),
            false => Ok(()),
        }
    }

    /// Text or bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.writer.write_all(bytes)?;
        Ok(())
    }
}

/// Lines of at most `width` columns, all but the first set in by `hang`, broken between words. A word that is longer
/// stays whole.
pub fn wrapped(text: &str, width: usize, hang: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    let mut empty = true;
    for word in text.trim_start().split(' ') {
        let line = lines.last().map_or(0, |line| measure_text_width(line));
        if !empty && line + 1 + measure_text_width(word) > width {
            lines.push(" ".repeat(hang));
            empty = true;
        }
        if let Some(line) = lines.last_mut() {
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
        }
        empty = false;
    }
    lines
}

/// Columns of a line: `COLUMNS`, else the width of the terminal.
pub fn columns(term: &Term) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || term.is_term().then(|| usize::from(term.size().1));
    said.or_else(seen).map(|columns| columns.max(NARROWEST))
}

/// A terminal that says to be narrower, or to have no width, is not believed.
const NARROWEST: usize = 40;

/// Makes an output directory if it is missing.
pub fn make_directory(path: &Path) -> Result<(), CliError> {
    if path.exists() && !path.is_dir() {
        let path = path.display();
        return Err(CliError::wrong(format!("--out {path}: this is a file; name a directory")));
    }
    fs::create_dir_all(path)
        .map_err(|error| CliError::wrong(format!("--out {}: the directory cannot be made: {error}", path.display())))
}

/// A message for the person at the terminal, to standard error, in one piece. A closed one is no reason to stop.
pub fn note(text: impl AsRef<str>) {
    let _ = io::stderr().lock().write_all(format!("{}\n", text.as_ref()).as_bytes());
}

/// Prints a paragraph to standard error. On a narrow terminal it is wrapped, with continuation lines indented by
/// `hang`.
pub fn note_paragraph(text: &str, hang: usize) {
    match columns(&Term::stderr()) {
        Some(width) => wrapped(text, width, hang).iter().for_each(note),
        None => note(text),
    }
}

/// Writes a new file. If it cannot be written completely, it is removed.
///
/// # Errors
/// The system's error; [`io::ErrorKind::AlreadyExists`] if the name exists, which is not changed.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes).inspect_err(|_| {
        // Nothing better can be done.
        let _ = fs::remove_file(path);
    })
}

/// Writes all of these files by [`write_new`], or none. An error names `flag`, the file and a remedy.
pub fn write_all_new(flag: &str, files: &[(PathBuf, &str)]) -> Result<(), CliError> {
    for (place, (path, text)) in files.iter().enumerate() {
        if let Err(error) = write_new(path, text.as_bytes()) {
            for (path, _) in &files[..place] {
                let _ = fs::remove_file(path);
            }
            let path = path.display();
            return Err(CliError::wrong(match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("{flag}: {path} already exists; choose another name, or remove it")
                }
                _ => format!("{flag}: {path} cannot be written: {error}; nothing is written"),
            }));
        }
    }
    Ok(())
}

/// Writes a file that the user named.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    fs::write(path, bytes).map_err(|error| CliError::wrong(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::{wrapped, write_new};
    use std::io::ErrorKind;

    #[test]
    fn a_file_that_is_there_already_is_kept() {
        let path = std::env::temp_dir().join(format!("fairlink-kept-{}", std::process::id()));
        write_new(&path, b"first").unwrap();
        assert_eq!(write_new(&path, b"second").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn text_is_broken_between_words_and_spaces_inside_it_stay() {
        let text = "Quanta, in bytes: A1 1514, C 10094.";
        assert_eq!(wrapped(text, 80, 2), [text]);
        assert_eq!(wrapped(text, 30, 2), ["Quanta, in bytes: A1 1514, C", "  10094."]);
        assert_eq!(wrapped("  a  much-too-long-word b", 8, 4), ["  a ", "    much-too-long-word", "    b"]);
        assert_eq!(wrapped("", 8, 4), [""]);
    }
}
