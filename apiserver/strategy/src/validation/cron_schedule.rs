//! Validates cron schedules: five fields, or a descriptor such as `@daily`.
//!
//! Corresponds to github.com/robfig/cron ParseStandard and words its errors alike.

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Lowest and highest number of one field. The first of its names stands for `min`.
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];

/// Checks a schedule and returns the error of its first invalid field.
pub fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| check_range(part, bounds))
    })
}

fn check_descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    let Some(duration) = text.strip_prefix("@every ") else { return Err(format!("unrecognized descriptor: {text}")) };
    match is_go_duration(duration) {
        true => Ok(()),
        false => Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}")),
    }
}

/// Returns whether Go's `time.ParseDuration` accepts the text: `1h30m`, `90s`, `1.5h`.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if number == 0 || rest[..number].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[number..];
        let Some(unit) = ["ns", "us", "ms", "s", "m", "h"].iter().find(|unit| rest.starts_with(**unit)) else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    !text.is_empty()
}

/// Checks one range of a field: `*`, `*/5`, `3`, `1-5`, `1-30/2`, `MON-FRI`.
fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let single = ends.len() == 1;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?"] => (bounds.min, bounds.max),
        [one] => {
            let number = number_or_name(one, bounds)?;
            (number, number)
        }
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if single && !matches!(ends[0], "*" | "?") {
                end = bounds.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(bounds.min + u32::try_from(index).unwrap_or(0)),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let good = ["* * * * *", "*/5 0-6 1,15 JAN-mar MON", "5/15 * ? * *", "@daily", "@every 1h30m"];
        for schedule in good {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
        let bad = [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("x * * * *", r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
        ];
        for (schedule, why) in bad {
            assert_eq!(check(schedule), Err(why.to_owned()));
        }
    }
}
