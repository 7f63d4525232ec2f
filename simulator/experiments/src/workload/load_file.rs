//! The load of a Deployment from a table of times and loads.

use crate::amounts::{CPU, amount};
use crate::files::{self, Files};
use crate::problem::Problem;
use crate::study::LoadFile;
use crate::table::Table;
use crate::units::micros;
use std::time::Duration;

/// Reads the times at which a load changes, each with what it is from then on, in thousandths of a core.
pub fn steps(load: &LoadFile, files: &dyn Files, place: &str) -> Result<Vec<(Duration, f64)>, Vec<Problem>> {
    let text = files::read(files, &load.file, &format!("{place}.file"))?;
    let column = |name: &Option<String>, default: &str| name.clone().unwrap_or_else(|| default.to_owned());
    let (time, cpu) = (column(&load.columns.time, "time"), column(&load.columns.cpu, "cpu"));
    let unit = load.time_unit.as_deref().unwrap_or("s");
    let milli = load.cpu_unit.as_ref().map_or(1000.0, |unit| amount(CPU, &unit.quantity) as f64);
    let (mut first_us, mut last_us) = (None, f64::NEG_INFINITY);
    let rows = Table::read(&text, &load.file, &[&time, &cpu]).each(|row| {
        let mut mistakes = Vec::new();
        let at_us = row.time_us(&time, unit, &mut mistakes);
        let cpu_milli = row.number(&cpu, &mut mistakes) * milli;
        if mistakes.is_empty() && at_us <= last_us {
            mistakes.push(format!("{time}: {:?} is not after the time of the row before", row.text(&time)));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        last_us = at_us;
        // Dates have no beginning of their own: the first one is it.
        let begin_us = if unit == "timestamp" { *first_us.get_or_insert(at_us) } else { 0.0 };
        Ok(Some((micros(at_us - begin_us), cpu_milli)))
    })?;
    if rows.is_empty() {
        return Err(vec![Problem::new(load.file.as_str(), "has no rows")]);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Texts;
    use crate::units::micros_of;
    use serde_json::{Value, json};

    fn read(load: Value, text: &'static str) -> Result<Vec<(u64, f64)>, String> {
        let load: LoadFile = serde_json::from_value(load).unwrap();
        let files = [("load.csv", text)];
        let files = Texts(Box::leak(Box::new(files)));
        match steps(&load, &files, "load.csv") {
            Ok(steps) => Ok(steps.into_iter().map(|(at, milli)| (micros_of(at) / 1_000_000, milli)).collect()),
            Err(problems) => Err(problems.iter().map(|problem| format!("{problem}\n")).collect()),
        }
    }

    #[test]
    fn columns_and_units_may_be_named() {
        assert_eq!(read(json!({"file": "load.csv"}), "time,cpu\n0,1\n90,2.5\n"), Ok(vec![(0, 1000.0), (90, 2500.0)]));
        // 200 and 300 requests a second, of which each takes 20 thousandths of a core.
        let named = json!({
            "file": "load.csv", "columns": {"time": "date", "cpu": "rate"}, "timeUnit": "timestamp", "cpuUnit": "20m",
        });
        let text = "rate,date\n200,2026-01-01T00:00:00Z\n300,2026-01-01T01:00:00Z\n";
        assert_eq!(read(named, text), Ok(vec![(0, 4000.0), (3600, 6000.0)]));
    }

    #[test]
    fn every_mistake_has_its_line() {
        let found = |text: &'static str| read(json!({"file": "load.csv"}), text).unwrap_err();
        expect_test::expect![[r#"
            load.csv:3: cpu: "-1" must not be negative
            load.csv:4: time: "soon" is no number
            load.csv:4: cpu: is empty
            load.csv:5: time: "0" is not after the time of the row before
        "#]]
        .assert_eq(&found("time,cpu\n0,1\n5,-1\nsoon,\n0,1\n"));
        assert_eq!(found("time,cpu\n"), "load.csv: has no rows\n");
        assert_eq!(found("time,load\n0,1\n"), "load.csv:1: unknown column \"cpu\"; the table has time, load\n");
        let missing = read(json!({"file": "gone.csv"}), "").unwrap_err();
        assert_eq!(missing, "load.csv.file: gone.csv: no such file\n");
    }
}
