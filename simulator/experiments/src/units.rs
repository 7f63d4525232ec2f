//! Units of a study's texts: spans of time, rates, and numbers as outputs write them.

use std::time::Duration;

const UNITS_US: [(&str, f64); 7] =
    [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("h", 3.6e9), ("d", 8.64e10), ("w", 6.048e11)];

/// A century, so that sums of times stay in range.
const MAX_US: f64 = 3.2e15;

/// Reads a span such as `90s`, `1h30m` or `7d`.
pub fn span(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err(format!("{text:?} must not be negative"));
    }
    let invalid = || format!("invalid duration {text:?}: want for example 300ms, 90s, 1h30m or 7d");
    let (mut rest, mut total_us) = (text, 0.0);
    if text.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        let end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |at| digits + at);
        let (_, factor) = UNITS_US.iter().find(|(unit, _)| *unit == &rest[digits..end]).ok_or_else(invalid)?;
        total_us += number * factor;
        rest = &rest[end..];
    }
    if total_us > MAX_US { Err(format!("{text:?} is longer than a century")) } else { Ok(micros(total_us)) }
}

/// Reads a rate such as `30/h` or `0.5/s`, as events in a second.
pub fn rate_per_s(text: &str) -> Result<f64, String> {
    let invalid = || format!("invalid rate {text:?}: want for example 30/h or 0.5/s");
    let (number, unit) = text.split_once('/').ok_or_else(invalid)?;
    let number: f64 = number.trim().parse().map_err(|_| invalid())?;
    if number <= 0.0 || !number.is_finite() {
        return Err(format!("{text:?} must be greater than zero"));
    }
    let (_, factor_us) = UNITS_US.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(invalid)?;
    Ok(number / (factor_us / 1e6))
}

/// Returns a span of microseconds, rounded to whole ones. No negative number, and none beyond a century.
pub fn micros(us: f64) -> Duration {
    Duration::from_micros(us.clamp(0.0, MAX_US).round() as u64)
}

pub fn micros_of(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Rounds to six decimal places, so that outputs do not show the last bits of a sum. No negative zero.
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6 + 0.0
}

/// Writes a number with at most six decimal places.
pub fn number_text(number: f64) -> String {
    rounded(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_rates_have_units() {
        for (text, us) in
            [("0", 0), ("300ms", 300_000), ("1h30m", 5_400_000_000), ("7d", 604_800_000_000), ("1.5s", 1_500_000)]
        {
            assert_eq!(span(text).map(micros_of), Ok(us), "{text}");
        }
        for text in ["", "5", "-1s", "5 s", "1y", "never", "2000w2000w2000w"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert_eq!(rate_per_s("30/m"), Ok(0.5));
        for text in ["30", "-1/s", "0/s", "1/year", "x/s"] {
            assert!(rate_per_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number_text(0.1 + 0.2), "0.3");
        assert_eq!(number_text(-0.000_000_01), "0");
        assert_eq!(number_text(12.0), "12");
    }
}
