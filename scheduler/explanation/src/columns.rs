//! Rows as a Parquet file, column by column.

use crate::rows::Row;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// The columns, in the order of the fields of a row.
const SCHEMA: &str = "message explanation {
    REQUIRED INT64 id;
    REQUIRED BYTE_ARRAY at (UTF8);
    REQUIRED BYTE_ARRAY pod (UTF8);
    REQUIRED INT64 attempt;
    REQUIRED BYTE_ARRAY profile (UTF8);
    REQUIRED BYTE_ARRAY node (UTF8);
    REQUIRED BOOLEAN searched;
    REQUIRED BOOLEAN fits;
    REQUIRED BOOLEAN chosen;
    REQUIRED BYTE_ARRAY point (UTF8);
    REQUIRED BYTE_ARRAY plugin (UTF8);
    REQUIRED BYTE_ARRAY result (UTF8);
    REQUIRED BYTE_ARRAY reasons (UTF8);
    OPTIONAL INT64 raw;
    OPTIONAL INT64 score;
    OPTIONAL INT64 weight;
}";

/// Writes rows as one row group.
pub fn parquet(rows: &[Row]) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::default()))?;
    write(Columns { rows, group: file.next_row_group()? })?;
    file.into_inner()
}

fn write(mut group: Columns<'_>) -> Result<()> {
    group.numbers(|row| row.id)?;
    group.texts(|row| &row.at)?;
    group.texts(|row| &row.pod)?;
    group.numbers(|row| row.attempt)?;
    group.texts(|row| &row.profile)?;
    group.texts(|row| &row.node)?;
    group.truths(|row| row.searched)?;
    group.truths(|row| row.fits)?;
    group.truths(|row| row.chosen)?;
    group.texts(|row| row.point)?;
    group.texts(|row| &row.plugin)?;
    group.texts(|row| &row.result)?;
    group.texts(|row| &row.reasons)?;
    group.optional_numbers(|row| row.raw)?;
    group.optional_numbers(|row| row.score)?;
    group.optional_numbers(|row| row.weight)?;
    group.group.close()?;
    Ok(())
}

struct Columns<'a> {
    rows: &'a [Row],
    group: SerializedRowGroupWriter<'a, Vec<u8>>,
}

fn missing() -> ParquetError {
    ParquetError::General("the schema has fewer columns than a row".to_owned())
}

impl Columns<'_> {
    fn numbers(&mut self, field: impl Fn(&Row) -> i64) -> Result<()> {
        let values: Vec<i64> = self.rows.iter().map(field).collect();
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<Int64Type>().write_batch(&values, None, None)?;
        column.close()
    }

    fn optional_numbers(&mut self, field: impl Fn(&Row) -> Option<i64>) -> Result<()> {
        let levels: Vec<i16> = self.rows.iter().map(|row| i16::from(field(row).is_some())).collect();
        let values: Vec<i64> = self.rows.iter().filter_map(field).collect();
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        column.close()
    }

    fn truths(&mut self, field: impl Fn(&Row) -> bool) -> Result<()> {
        let values: Vec<bool> = self.rows.iter().map(field).collect();
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<BoolType>().write_batch(&values, None, None)?;
        column.close()
    }

    fn texts(&mut self, field: impl Fn(&Row) -> &str) -> Result<()> {
        let values: Vec<ByteArray> = self.rows.iter().map(|row| ByteArray::from(field(row))).collect();
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()
    }
}
