//! Standard output as the commands use it: text or JSON, tables, and an end without noise when the pipe is closed.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// Where a command's data goes.
pub(crate) struct Out {
    /// Whether the user asked for JSON.
    pub(crate) json: bool,
    writer: BufWriter<StdoutLock<'static>>,
}

impl Out {
    /// Standard output.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, writer: BufWriter::new(io::stdout().lock()) }
    }

    /// One JSON document, indented, on lines of its own.
    pub(crate) fn document(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(io::Error::from)?;
        writeln!(self.writer)?;
        Ok(())
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        writeln!(self.writer, "{}", text.as_ref())?;
        Ok(())
    }

    /// A table; the columns `right` are numbers and stand to the right.
    pub(crate) fn table(
        &mut self,
        head: &[impl AsRef<str>],
        rows: Vec<Vec<String>>,
        right: Range<usize>,
    ) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(head.iter().map(AsRef::as_ref));
        table.add_rows(rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            column.set_constraint(ColumnConstraint::ContentWidth);
            if right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            writeln!(self.writer, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Whether to colour text.
    pub(crate) fn colour(&self) -> bool {
        console::colors_enabled()
    }

    /// Text or bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes)?;
        Ok(())
    }

    /// Hands over what is buffered.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.writer.flush()?;
        Ok(())
    }
}

/// A message for the person at the terminal, to standard error. A closed one is no reason to stop.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// A finding in a file, to standard error, with the place drawn where there is a terminal for it.
pub(crate) fn report(report: &miette::Report) {
    let _ = writeln!(io::stderr().lock(), "{report:?}");
}
