//! Exports rows for programs: CSV, JSON lines and Parquet.

use crate::columns;
use crate::rows::Row;
use std::str::FromStr;

/// Most rows of one export. A caller who needs more asks for single attempts.
pub const MAX_ROWS: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    JsonLines,
    Parquet,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::JsonLines),
            "parquet" => Ok(Self::Parquet),
            _ => Err(format!("format={text}: want csv, jsonl or parquet")),
        }
    }
}

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::JsonLines => "application/jsonl",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// Writes rows in a format.
pub fn write(rows: &[Row], format: Format) -> Result<Vec<u8>, String> {
    match format {
        Format::Csv => Ok(csv(rows).into_bytes()),
        Format::JsonLines => Ok(json_lines(rows).into_bytes()),
        Format::Parquet => columns::parquet(rows).map_err(|error| error.to_string()),
    }
}

const HEADER: &str =
    "id,at,pod,attempt,profile,node,searched,fits,chosen,point,plugin,result,reasons,raw,score,weight\n";

/// Writes the form of RFC 4180, with line feeds.
fn csv(rows: &[Row]) -> String {
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut text = HEADER.to_owned();
    for row in rows {
        let fields = [
            row.id.to_string(),
            quoted(&row.at),
            quoted(&row.pod),
            row.attempt.to_string(),
            quoted(&row.profile),
            quoted(&row.node),
            row.searched.to_string(),
            row.fits.to_string(),
            row.chosen.to_string(),
            row.point.to_owned(),
            quoted(&row.plugin),
            row.result.clone(),
            quoted(&row.reasons),
            number(row.raw),
            number(row.score),
            number(row.weight),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn json_lines(rows: &[Row]) -> String {
    let line = |row: &Row| serde_json::to_string(row).expect("a row is plain data") + "\n";
    rows.iter().map(line).collect()
}
