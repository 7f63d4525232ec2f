//! A table of comma-separated values, whose mistakes have a file and a line.

use crate::problem::Problem;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// Most mistakes of one file that are shown.
const MAX_PROBLEMS: usize = 100;

/// Units of columns with times. A `timestamp` is a date.
pub const TIME_UNITS: [&str; 6] = ["us", "ms", "s", "m", "h", "timestamp"];

/// A table, and the mistakes that reading it has found.
#[derive(Debug)]
pub struct Table {
    file: String,
    columns: BTreeMap<String, usize>,
    rows: Vec<csv::StringRecord>,
    problems: Vec<Problem>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    record: &'t csv::StringRecord,
    columns: &'t BTreeMap<String, usize>,
}

impl Table {
    /// Reads a text with a header. Reports each of the `required` columns that is missing.
    pub fn read(text: &str, file: &str, required: &[&str]) -> Self {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
        let header = reader.headers().cloned().unwrap_or_default();
        let columns: BTreeMap<String, usize> = header
            .iter()
            .enumerate()
            .map(|(index, name)| (name.trim_start_matches('\u{feff}').to_owned(), index))
            .collect();
        let mut table = Self { file: file.to_owned(), columns, rows: Vec::new(), problems: Vec::new() };
        for name in required.iter().filter(|name| !table.columns.contains_key(**name)) {
            let has: Vec<&str> = header.iter().collect();
            let message = format!("unknown column {name:?}; the table has {}", has.join(", "));
            table.problems.push(Problem::new(format!("{file}:1"), message));
        }
        if !table.problems.is_empty() {
            return table;
        }
        for record in reader.records() {
            match record {
                Ok(record) if record.len() != header.len() => {
                    let message = format!("has {} fields, and the header has {}", record.len(), header.len());
                    table.report(line_of(&record), message);
                }
                Ok(record) => table.rows.push(record),
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    table.report(line, error.to_string());
                }
            }
        }
        table
    }

    /// Reads every row, and returns what `read` makes of them, or all mistakes. A row for which it returns `Ok(None)` is
    /// left out.
    pub fn each<T>(
        mut self,
        mut read: impl FnMut(Row<'_>) -> Result<Option<T>, Vec<String>>,
    ) -> Result<Vec<T>, Vec<Problem>> {
        let mut items = Vec::with_capacity(self.rows.len());
        let columns = std::mem::take(&mut self.columns);
        for record in std::mem::take(&mut self.rows) {
            let row = Row { record: &record, columns: &columns };
            match read(row) {
                Ok(item) => items.extend(item),
                Err(messages) => messages.into_iter().for_each(|message| self.report(row.line(), message)),
            }
        }
        if self.problems.is_empty() {
            return Ok(items);
        }
        let more = self.problems.len().saturating_sub(MAX_PROBLEMS);
        self.problems.truncate(MAX_PROBLEMS);
        if more > 0 {
            self.problems.push(Problem::new(self.file, format!("{more} more mistakes")));
        }
        Err(self.problems)
    }

    fn report(&mut self, line: u64, message: String) {
        self.problems.push(Problem::new(format!("{}:{line}", self.file), message));
    }
}

/// Returns the microseconds of a unit of times.
pub fn unit_us(unit: &str) -> f64 {
    match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "m" => 6e7,
        "h" => 3.6e9,
        _ => 1e6,
    }
}

fn line_of(record: &csv::StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

impl Row<'_> {
    pub fn line(&self) -> u64 {
        line_of(self.record)
    }

    /// Returns the text of a cell, empty if the table has no such column.
    pub fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|index| self.record.get(*index)).unwrap_or_default()
    }

    /// Reads a number that is not negative. An empty cell is a mistake.
    pub fn number(&self, column: &str, mistakes: &mut Vec<String>) -> f64 {
        let text = self.text(column);
        match text.parse::<f64>() {
            Ok(number) if number >= 0.0 && number.is_finite() => return number,
            Ok(number) if number < 0.0 => mistakes.push(format!("{column}: {text:?} must not be negative")),
            Err(_) if text.is_empty() => mistakes.push(format!("{column}: is empty")),
            Ok(_) | Err(_) => mistakes.push(format!("{column}: {text:?} is no number")),
        }
        0.0
    }

    pub fn number_or(&self, column: &str, default: f64, mistakes: &mut Vec<String>) -> f64 {
        if self.text(column).is_empty() { default } else { self.number(column, mistakes) }
    }

    /// Reads a time in this unit, in microseconds. That of a date has no beginning of its own.
    pub fn time_us(&self, column: &str, unit: &str, mistakes: &mut Vec<String>) -> f64 {
        if unit != "timestamp" {
            return self.number(column, mistakes) * unit_us(unit);
        }
        let text = self.text(column);
        let parsed = text.parse::<Timestamp>().or_else(|error| {
            let date = text.parse::<DateTime>().map_err(|_| error)?;
            TimeZone::UTC.to_timestamp(date)
        });
        match parsed {
            Ok(timestamp) => timestamp.as_microsecond() as f64,
            Err(_) => {
                mistakes.push(format!("{column}: {text:?} is no date"));
                0.0
            }
        }
    }
}
