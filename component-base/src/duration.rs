//! Durations as flags and annotations write them: `300ms`, `5s`, `1m30s`.
//!
//! Corresponds to Go's time.ParseDuration, which every duration in Kubernetes' flags goes through.

use std::time::Duration;

/// Units by suffix, in nanoseconds. A longer suffix stands before the one that it ends with.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Parses a sum of decimal numbers with units; `0` alone needs no unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}: want for example 300ms, 5s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut total_ns) = (text, 0.0_f64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| digits + n);
        let unit = &rest[digits..unit_end];
        let (_, factor) = UNITS.iter().find(|(suffix, _)| *suffix == unit).ok_or_else(invalid)?;
        total_ns += number * factor;
        rest = &rest[unit_end..];
    }
    // A limit of about a century keeps later sums of times in range.
    if text.is_empty() || total_ns > 3.2e18 { Err(invalid()) } else { Ok(Duration::from_nanos(total_ns as u64)) }
}

/// Formats a duration as Go does, to the precision that events show: `1.5s`, `400ms`, `2m40s`.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis() as u64;
    if ms == 0 {
        return "0s".to_owned();
    }
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let (hours, minutes, seconds, rest_ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    let seconds = if rest_ms == 0 {
        format!("{seconds}s")
    } else {
        format!("{seconds}.{}s", format!("{rest_ms:03}").trim_end_matches('0'))
    };
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print_as_in_go() {
        for (text, ms, printed) in [
            ("0", 0, "0s"),
            ("300ms", 300, "300ms"),
            ("1.594s", 1594, "1.594s"),
            ("5s", 5000, "5s"),
            ("1m30s", 90_000, "1m30s"),
            ("2h", 7_200_000, "2h0m0s"),
            ("1h1.5s", 3_601_500, "1h0m1.5s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_millis(), ms, "{text}");
            assert_eq!(format_duration(duration), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "5 s", "-1s", "1d", "1..s", "never", "99999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
