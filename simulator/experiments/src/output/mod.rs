//! The files of a run and of a study, as bytes. The same run gives the same bytes: names are sorted, numbers have at most six
//! decimal places, and nothing tells when or where it was written.

pub mod tables;
pub mod columns;
pub mod samples;
mod html;
pub mod explained;
pub mod decisions;
pub mod plot;
pub mod curves;
pub mod waits;
pub mod report;
#[cfg(test)]
mod tests;

pub use crate::manifest::{self, Manifest};
pub use report::Outcome;

use crate::metrics::Summary;

/// Returns the files of a finished cell by name, without its records and its manifest.
pub fn files(summary: &Summary, is_repeatable: bool) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    Ok(vec![
        ("metrics.json", tables::metrics_json(&summary.values, is_repeatable)),
        ("nodes.csv", tables::nodes_csv(summary)),
        ("pods.csv", tables::pods_csv(summary)),
        ("requests.csv", tables::requests_csv(summary)),
        ("samples.parquet", samples::parquet(&summary.samples).map_err(columns::why)?),
    ])
}
