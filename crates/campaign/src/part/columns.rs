//! Parts as Apache Parquet.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::rows::{Cell, Column, Kind, line};

/// Writes rows to a new file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: File, columns: &[Column], rows: &[Vec<Cell>]) -> io::Result<()> {
    write_all(file, columns, rows).map_err(io::Error::other)
}

/// Calls `each` with the rows of a file as lines of CSV, in order.
///
/// # Errors
/// The file cannot be read, or has other columns.
pub(super) fn read(file: File, columns: &[Column], each: &mut dyn FnMut(&str)) -> io::Result<()> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?;
        let cells: Vec<Cell> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
        if cells.len() != columns.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has other columns"));
        }
        each(&line(&cells));
    }
    Ok(())
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

fn write_all(file: File, columns: &[Column], rows: &[Vec<Cell>]) -> parquet::errors::Result<()> {
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
