//! Times in their wire form, and ages in a form for people.
//!
//! Corresponds to metav1.Time, metav1.MicroTime and k8s.io/apimachinery/pkg/util/duration. The current
//! time is always an argument, because nothing here reads a clock.

use jiff::Timestamp;

/// Formats a metav1.Time, which keeps whole seconds: `2024-05-01T10:00:00Z`.
pub fn format(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second().saturating_sub(i64::from(time.subsec_nanosecond() < 0)));
    whole.expect("a whole second near a valid time is valid").to_string()
}

/// Parses a time of RFC 3339, with any number of digits and any offset.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Returns the seconds since the epoch, rounded down.
pub fn seconds(time: Timestamp) -> i64 {
    time.as_millisecond().div_euclid(1000)
}

/// Returns the age of a time at `now_s`: `5m10s`, or `<unknown>` if the time cannot be parsed.
pub fn since(time: &str, now_s: i64) -> String {
    match parse(time) {
        Some(then) => human_duration_ms(now_s.saturating_mul(1000).saturating_sub(then.as_millisecond())),
        None => "<unknown>".to_owned(),
    }
}

/// Formats a duration in its one or two largest units: `90s`, `5m10s`, `3d4h`, `2y35d`.
pub fn human_duration(seconds: i64) -> String {
    human_duration_ms(seconds.saturating_mul(1000))
}

fn human_duration_ms(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match () {
        // Clocks of two machines may differ by a second.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => pair(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_worded_for_people() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 1, "2m1s"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR + 61, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR + 35 * DAY, "2y35d"),
            (2 * YEAR, "2y"),
            (8 * YEAR + DAY, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        let time = parse("2024-05-01T10:00:00.123456789Z").unwrap();
        assert_eq!(format(time), "2024-05-01T10:00:00Z");
        assert_eq!(format(parse("1969-12-31T23:59:58.5Z").unwrap()), "1969-12-31T23:59:58Z");
        assert_eq!(seconds(parse("1969-12-31T23:59:58.5Z").unwrap()), -2);
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn ages_count_from_the_given_present() {
        assert_eq!(since("1970-01-01T00:00:00Z", 310), "5m10s");
        assert_eq!(since("1970-01-01T00:00:10.5Z", 12), "1s");
        assert_eq!(since("1970-01-01T01:00:00Z", 0), "<invalid>");
        assert_eq!(since("", 0), "<unknown>");
    }
}
