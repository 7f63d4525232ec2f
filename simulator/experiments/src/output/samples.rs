//! `samples.parquet`: the cluster at each sample time.

use crate::metrics::Sample;
use crate::units::rounded;
use parquet::data_type::{DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// The columns, in the order of the fields of a sample.
const SCHEMA: &str = "message samples {
    REQUIRED INT64 at_us;
    REQUIRED INT64 nodes;
    REQUIRED INT64 pending;
    REQUIRED INT64 bound;
    REQUIRED DOUBLE cpu;
    REQUIRED DOUBLE memory;
    REQUIRED DOUBLE gpu;
    REQUIRED DOUBLE fragmentation;
    REQUIRED DOUBLE power_w;
    REQUIRED DOUBLE price_per_hour;
}";

/// Writes samples as one row group.
pub fn parquet(samples: &[Sample]) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    // Without the version of the library, another build writes the same bytes.
    let properties = WriterProperties::builder().set_created_by("orrery".to_owned()).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let wholes: [fn(&Sample) -> u64; 4] =
        [|sample| sample.at_us, |sample| sample.nodes, |sample| sample.pending, |sample| sample.bound];
    for field in wholes {
        let values: Vec<i64> = samples.iter().map(|sample| field(sample) as i64).collect();
        write(&mut group, |column| column.typed::<Int64Type>().write_batch(&values, None, None))?;
    }
    let parts: [fn(&Sample) -> f64; 6] = [
        |sample| sample.cpu,
        |sample| sample.memory,
        |sample| sample.gpu,
        |sample| sample.fragmentation,
        |sample| sample.power_w,
        |sample| sample.price_per_hour,
    ];
    for field in parts {
        let values: Vec<f64> = samples.iter().map(|sample| rounded(field(sample))).collect();
        write(&mut group, |column| column.typed::<DoubleType>().write_batch(&values, None, None))?;
    }
    group.close()?;
    file.into_inner()
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    batch: impl FnOnce(&mut parquet::file::writer::SerializedColumnWriter<'_>) -> Result<usize>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns than a sample".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    batch(&mut column)?;
    column.close()
}
