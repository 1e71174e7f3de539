//! A part: the rows of a range of jobs in a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};

use crate::rows::{Cell, Column, Kind, head, line};

/// The format of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text with a head line.
    #[default]
    Csv,
    /// Apache Parquet with Snappy compression.
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
            Self::Parquet => write_parquet(file, columns, rows).map_err(io::Error::other),
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
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "it has other columns: remove it"));
                }
                loop {
                    text.clear();
                    if lines.read_line(&mut text)? == 0 {
                        return Ok(());
                    }
                    each(&text);
                }
            }
            Self::Parquet => {
                let reader = SerializedFileReader::new(file).map_err(io::Error::other)?;
                for row in reader.get_row_iter(None).map_err(io::Error::other)? {
                    let row = row.map_err(io::Error::other)?;
                    let cells: Vec<Cell> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
                    if cells.len() != columns.len() {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has other columns: remove it"));
                    }
                    each(&line(&cells));
                }
                Ok(())
            }
        }
    }
}

fn cell(field: &Field) -> Cell {
    match field {
        Field::Bool(flag) => Cell::Flag(*flag),
        Field::Long(number) => Cell::Whole(number.cast_unsigned()),
        Field::ULong(number) => Cell::Whole(*number),
        Field::Double(number) => Cell::Number(*number),
        Field::Str(text) => Cell::Text(text.clone()),
        _ => Cell::Empty,
    }
}

fn schema(columns: &[Column]) -> parquet::errors::Result<Arc<Type>> {
    let mut fields = Vec::with_capacity(columns.len());
    for Column { name, kind } in columns {
        let (physical, logical) = match kind {
            Kind::Whole => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        fields.push(Arc::new(field.with_logical_type(logical).build()?));
    }
    Ok(Arc::new(Type::group_type_builder("fairlink").with_fields(fields).build()?))
}

fn write_parquet(file: File, columns: &[Column], rows: &[Vec<Cell>]) -> parquet::errors::Result<()> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(BufWriter::new(file), schema(columns)?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut place = 0;
    while let Some(mut column) = group.next_column()? {
        let cells = || rows.iter().map(move |row| &row[place]);
        let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Empty)).collect();
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(column) => {
                let of = |cell: &Cell| if let Cell::Whole(number) = cell { Some(number.cast_signed()) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<i64>>(), Some(&levels), None)?;
            }
            ColumnWriter::DoubleColumnWriter(column) => {
                let of = |cell: &Cell| if let Cell::Number(number) = cell { Some(*number) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<f64>>(), Some(&levels), None)?;
            }
            ColumnWriter::BoolColumnWriter(column) => {
                let of = |cell: &Cell| if let Cell::Flag(flag) = cell { Some(*flag) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<bool>>(), Some(&levels), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(column) => {
                let of =
                    |cell: &Cell| if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<ByteArray>>(), Some(&levels), None)?;
            }
            _ => unreachable!("the schema has no other types"),
        }
        column.close()?;
        place += 1;
    }
    group.close()?;
    writer.finish()?;
    writer.inner().get_ref().sync_all()?;
    Ok(())
}
