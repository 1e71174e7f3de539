//! A part: the rows of a range of jobs in a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::rows::{Cell, Column, head, line};

#[cfg(feature = "parquet")]
mod columns;
#[cfg(not(feature = "parquet"))]
mod columns {
    //! A build without Parquet.

    use std::fs::File;
    use std::io;

    use crate::rows::{Cell, Column};

    fn missing() -> io::Error {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "Parquet needs the feature `parquet`, which is not built in; CSV does not",
        )
    }

    pub(super) fn write(_: File, _: &[Column], _: &[Vec<Cell>]) -> io::Result<()> {
        Err(missing())
    }

    pub(super) fn read(_: File, _: &[Column], _: &mut dyn FnMut(&str)) -> io::Result<()> {
        Err(missing())
    }
}

/// The format of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text with a head line.
    #[default]
    Csv,
    /// Apache Parquet with Snappy compression; needs the feature `parquet`.
    Parquet,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Csv, Self::Parquet];

    /// Its name in commands, and the end of file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// Returns true if this build writes and reads it: Parquet needs the feature `parquet`.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Csv => true,
            Self::Parquet => cfg!(feature = "parquet"),
        }
    }

    /// Finds the format with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Writes rows to a new file at `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(self, path: &Path, columns: &[Column], rows: &[Vec<Cell>]) -> io::Result<()> {
        let file = File::create(path)?;
        match self {
            Self::Csv => {
                let mut out = BufWriter::new(file);
                out.write_all(head(columns).as_bytes())?;
                rows.iter().try_for_each(|row| out.write_all(line(row).as_bytes()))?;
                // Whole before it gets its name, even if the machine fails.
                out.into_inner()?.sync_all()
            }
            Self::Parquet => columns::write(file, columns, rows),
        }
    }

    /// Calls `each` with the rows of the file at `path` as lines of CSV, in order.
    ///
    /// # Errors
    /// The file cannot be read, or has other columns.
    pub(crate) fn read(self, path: &Path, columns: &[Column], each: &mut dyn FnMut(&str)) -> io::Result<()> {
        let file = File::open(path)?;
        match self {
            Self::Csv => {
                let mut lines = BufReader::new(file);
                let mut text = String::new();
                lines.read_line(&mut text)?;
                if text != head(columns) {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "it has other columns"));
                }
                loop {
                    text.clear();
                    if lines.read_line(&mut text)? == 0 {
                        return Ok(());
                    }
                    each(&text);
                }
            }
            Self::Parquet => columns::read(file, columns, each),
        }
    }
}
