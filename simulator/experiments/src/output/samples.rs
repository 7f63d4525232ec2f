//! `samples.parquet`: the cluster at each sample time.

use super::columns::Column::{self, Part, Whole};
use super::columns::Table;
use crate::metrics::Sample;
use parquet::errors::Result;

const COLUMNS: &[Column<Sample>] = &[
    Whole("at_us", |sample| sample.at_us),
    Whole("nodes", |sample| sample.nodes),
    Whole("pending", |sample| sample.pending),
    Whole("bound", |sample| sample.bound),
    Whole("replicas", |sample| sample.replicas),
    Part("load_cpu", |sample| sample.load_cpu),
    Part("cpu", |sample| sample.cpu),
    Part("memory", |sample| sample.memory),
    Part("gpu", |sample| sample.gpu),
    Part("fragmentation", |sample| sample.fragmentation),
    Part("power_w", |sample| sample.power_w),
    Part("price_per_hour", |sample| sample.price_per_hour),
];

pub fn parquet(samples: &[Sample]) -> Result<Vec<u8>> {
    let mut table = Table::new("samples", COLUMNS, Vec::new())?;
    samples.iter().try_for_each(|sample| table.push(sample.clone()))?;
    table.finish()
}
