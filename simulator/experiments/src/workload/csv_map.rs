//! Pods from any table of jobs, by a map of its columns.

use crate::amounts::{Amounts, CPU, MEMORY};
use crate::files::{self, Files};
use crate::problem::Problem;
use crate::study::{CsvPods, Gaps};
use crate::table::{Row, Table, unit_us};
use crate::units::{micros, seconds};
use crate::workload::{Arrival, pod::Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub fn arrivals(csv: &CsvPods, files: &dyn Files, place: &str) -> Result<Vec<Arrival>, Vec<Problem>> {
    let text = files::read(files, &csv.file, &format!("{place}.file"))?;
    let columns = mapped(csv);
    let table = Table::read(&text, &csv.file, &columns.iter().map(String::as_str).collect::<Vec<_>>());
    let mut names = BTreeSet::new();
    let mut rows = table.each(|row| match gap(csv, &columns, &row) {
        Some(_) if csv.gaps == Gaps::Skip => Ok(None),
        Some(column) => Err(vec![format!("{column}: is empty")]),
        None => job(csv, &row, &mut names).map(Some),
    })?;
    // Dates have no beginning of their own: the first arrival is it.
    let first_us = match csv.time_unit.as_deref() {
        Some("timestamp") => rows.iter().map(|(at_us, _, _)| *at_us).fold(f64::INFINITY, f64::min),
        _ => 0.0,
    };
    let mut gangs: BTreeMap<String, usize> = BTreeMap::new();
    for (name, _) in rows.iter().filter_map(|(_, _, shape)| shape.gang.as_ref()) {
        *gangs.entry(name.clone()).or_default() += 1;
    }
    let mut arrivals = Vec::with_capacity(rows.len());
    for (at_us, duration, mut shape) in rows.drain(..) {
        if let Some((name, size)) = &mut shape.gang {
            *size = gangs.get(name).copied().unwrap_or(1);
        }
        let arrival = shape.arrival(micros(at_us - first_us), Some(duration));
        arrivals.push(arrival.map_err(|why| vec![Problem::new(csv.file.as_str(), why)])?);
    }
    Ok(arrivals)
}

/// Returns the columns that the map names.
fn mapped(csv: &CsvPods) -> Vec<String> {
    let columns = &csv.columns;
    let optional = [
        &columns.name,
        &columns.duration,
        &columns.end,
        &columns.start,
        &columns.cpu,
        &columns.memory,
        &columns.gpus,
        &columns.gpu_milli,
        &columns.priority,
        &columns.user,
        &columns.gang,
    ];
    optional.into_iter().flatten().chain([&columns.arrival]).cloned().collect()
}

fn gap<'c>(csv: &CsvPods, columns: &'c [String], row: &Row<'_>) -> Option<&'c String> {
    // A job without a gang or user is by itself.
    let may_be_empty = [&csv.columns.gang, &csv.columns.user, &csv.columns.priority];
    let is_optional = |column: &String| may_be_empty.iter().any(|other| other.as_ref() == Some(column));
    columns.iter().find(|column| !is_optional(column) && row.text(column).is_empty())
}

/// Reads a row: when the job arrives, how long it runs, and its shape.
fn job(csv: &CsvPods, row: &Row<'_>, names: &mut BTreeSet<String>) -> Result<(f64, Duration, Shape), Vec<String>> {
    let (columns, mut mistakes) = (&csv.columns, Vec::new());
    let unit = csv.time_unit.as_deref().unwrap_or("s");
    let at_us = row.time_us(&columns.arrival, unit, &mut mistakes);
    let duration_us = match (&columns.duration, &columns.end) {
        (Some(column), _) => row.number(column, &mut mistakes) * unit_us(unit),
        (None, Some(column)) => {
            let start_us = columns.start.as_ref().map_or(at_us, |start| row.time_us(start, unit, &mut mistakes));
            let end_us = row.time_us(column, unit, &mut mistakes);
            if end_us < start_us && mistakes.is_empty() {
                mistakes.push(format!("{column}: is {} s before the job starts", seconds((start_us - end_us) as u64)));
            }
            end_us - start_us
        }
        (None, None) => 0.0,
    };
    let mut number = |column: &Option<String>, default: f64| {
        column.as_ref().map_or(default, |column| row.number_or(column, default, &mut mistakes))
    };
    let (cpu, memory) = (number(&columns.cpu, 0.0), number(&columns.memory, 0.0));
    let (gpus, gpu_milli) = (number(&columns.gpus, 0.0), number(&columns.gpu_milli, 1000.0));
    let priority = number(&columns.priority, 0.0);
    let text = |column: &Option<String>| column.as_ref().map_or("", |column| row.text(column));
    if gpus > 0.0 && !(1.0..=1000.0).contains(&gpu_milli) {
        mistakes.push(format!(
            "{}: {gpu_milli} must be between 1 and 1000",
            columns.gpu_milli.as_deref().unwrap_or_default()
        ));
    }
    if gpus.fract() != 0.0 {
        let column = columns.gpus.as_deref().unwrap_or_default();
        mistakes.push(format!(
            "{column}: {gpus} is not a whole number; `gpuMilli` names a column with thousandths of a GPU"
        ));
    }
    let name = match &columns.name {
        Some(column) => name_of(row.text(column)),
        None => format!("pod-{}", row.line()),
    };
    if !names.insert(name.clone()) {
        mistakes.push(format!("name: another pod is named {name:?}"));
    }
    mistakes.extend(proto::meta::names::dns1123_subdomain(&name).into_iter().map(|why| format!("name: {why}")));
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let cpu_unit = csv.cpu_unit.as_ref().map_or(1.0, |unit| unit.quantity.as_f64());
    let memory_unit = csv.memory_unit.as_ref().map_or(1.0, |unit| unit.quantity.as_f64());
    let mut requests = Amounts::new();
    for (resource, amount) in [(CPU, cpu * cpu_unit * 1000.0), (MEMORY, memory * memory_unit)] {
        if amount > 0.0 {
            requests.insert(resource.to_owned(), amount.ceil() as i64);
        }
    }
    let gang = name_of(text(&columns.gang));
    let shape = Shape {
        name,
        requests,
        gpu_count: gpus as u32,
        gpu_milli: gpu_milli as u32,
        user: name_of(text(&columns.user)),
        gang: (!gang.is_empty()).then_some((gang, 1)),
        priority: priority as i32,
        ..Shape::default()
    };
    Ok((at_us, micros(duration_us), shape))
}

/// Makes a name of an object from any text.
fn name_of(text: &str) -> String {
    let lower = text.to_lowercase();
    let kept = lower.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
    kept.collect::<String>().trim_matches(|c| c == '-' || c == '.').to_owned()
}
