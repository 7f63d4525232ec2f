//! `Row`, one plugin's word on one node, and its forms for programs: CSV, JSON lines and Parquet.

use crate::columns;
use crate::document::Explanation;
use serde::Serialize;
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

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Number of the attempt since the scheduler started.
    pub id: i64,
    pub at: String,
    pub pod: String,
    /// Number of the pod's attempt.
    pub attempt: i64,
    pub profile: String,
    pub node: String,
    pub searched: bool,
    pub fits: bool,
    pub chosen: bool,
    /// `Filter` or `Score`.
    pub point: &'static str,
    pub plugin: String,
    /// The result of a filter.
    pub result: String,
    pub reasons: String,
    pub raw: Option<i64>,
    pub score: Option<i64>,
    pub weight: Option<i64>,
}

/// Returns the rows of an explanation, node by node.
pub fn rows(explanation: &Explanation) -> Vec<Row> {
    let attempt = &explanation.attempt;
    let mut rows = Vec::new();
    for node in &explanation.nodes {
        let row = Row {
            id: i64::try_from(attempt.id).unwrap_or(i64::MAX),
            at: attempt.at.clone(),
            pod: attempt.pod.clone(),
            attempt: attempt.attempt.into(),
            profile: attempt.profile.clone(),
            node: node.name.clone(),
            searched: node.searched,
            fits: node.fits,
            chosen: node.chosen,
            point: "Filter",
            plugin: String::new(),
            result: String::new(),
            reasons: String::new(),
            raw: None,
            score: None,
            weight: None,
        };
        rows.extend(node.filters.iter().map(|filter| Row {
            plugin: filter.plugin.clone(),
            result: filter.result.clone(),
            reasons: filter.reasons.join("; "),
            ..row.clone()
        }));
        rows.extend(node.scores.iter().map(|score| Row {
            point: "Score",
            plugin: score.plugin.clone(),
            raw: Some(score.raw),
            score: Some(score.score),
            weight: Some(score.weight),
            ..row.clone()
        }));
    }
    rows
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
