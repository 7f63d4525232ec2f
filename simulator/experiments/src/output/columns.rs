//! Parquet files by a table of columns.

use crate::units::rounded;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// Rows of a row group. So many are in memory.
const GROUP: usize = 1 << 16;

/// A column: its name, and the field of a row.
pub enum Column<R: 'static> {
    Whole(&'static str, fn(&R) -> u64),
    Optional(&'static str, fn(&R) -> Option<i64>),
    Part(&'static str, fn(&R) -> f64),
    Truth(&'static str, fn(&R) -> bool),
    Text(&'static str, fn(&R) -> &str),
}

impl<R: 'static> Column<R> {
    fn schema(&self) -> String {
        match self {
            Self::Whole(name, _) => format!("REQUIRED INT64 {name};"),
            Self::Optional(name, _) => format!("OPTIONAL INT64 {name};"),
            Self::Part(name, _) => format!("REQUIRED DOUBLE {name};"),
            Self::Truth(name, _) => format!("REQUIRED BOOLEAN {name};"),
            Self::Text(name, _) => format!("REQUIRED BYTE_ARRAY {name} (UTF8);"),
        }
    }

    fn write<W: Write + Send>(&self, rows: &[R], group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        match self {
            Self::Whole(_, field) => {
                let whole = |row: &R| i64::try_from(field(row)).unwrap_or(i64::MAX);
                write::<Int64Type, W>(group, &rows.iter().map(whole).collect::<Vec<_>>(), None)
            }
            Self::Optional(_, field) => {
                let levels: Vec<i16> = rows.iter().map(|row| i16::from(field(row).is_some())).collect();
                write::<Int64Type, W>(group, &rows.iter().filter_map(field).collect::<Vec<_>>(), Some(&levels))
            }
            Self::Part(_, field) => {
                write::<DoubleType, W>(group, &rows.iter().map(|row| rounded(field(row))).collect::<Vec<_>>(), None)
            }
            Self::Truth(_, field) => write::<BoolType, W>(group, &rows.iter().map(field).collect::<Vec<_>>(), None),
            Self::Text(_, field) => {
                let texts: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(field(row))).collect();
                write::<ByteArrayType, W>(group, &texts, None)
            }
        }
    }
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns than the table".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// A file that is written row by row. The same rows give the same bytes.
pub struct Table<R: 'static, W: Write + Send> {
    columns: &'static [Column<R>],
    rows: Vec<R>,
    file: SerializedFileWriter<W>,
}

impl<R: 'static, W: Write + Send> Table<R, W> {
    pub fn new(name: &str, columns: &'static [Column<R>], sink: W) -> Result<Self> {
        let fields: String = columns.iter().map(Column::schema).collect();
        let schema = Arc::new(parse_message_type(&format!("message {name} {{ {fields} }}"))?);
        // Without the version of the library, another build writes the same bytes.
        let properties = WriterProperties::builder().set_created_by("orrery".to_owned()).build();
        let file = SerializedFileWriter::new(sink, schema, Arc::new(properties))?;
        Ok(Self { columns, rows: Vec::new(), file })
    }

    pub fn push(&mut self, row: R) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() < GROUP { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        self.columns.iter().try_for_each(|column| column.write(&self.rows, &mut group))?;
        group.close()?;
        self.rows.clear();
        Ok(())
    }

    /// Writes the rest. An empty file has one empty row group.
    pub fn finish(mut self) -> Result<W> {
        if !self.rows.is_empty() || self.file.flushed_row_groups().is_empty() {
            self.flush()?;
        }
        self.file.into_inner()
    }
}

/// What the library puts before the reason for which the last bytes could not be written.
const UNFLUSHED: &str = "fail to get inner writer: ";

/// Returns what went wrong, without the words of the library around it.
pub fn why(error: ParquetError) -> String {
    match error {
        ParquetError::External(inner) => inner.to_string(),
        ParquetError::General(text) if text.starts_with(UNFLUSHED) => {
            text[UNFLUSHED.len()..].trim_matches('"').to_owned()
        }
        other => other.to_string(),
    }
}
