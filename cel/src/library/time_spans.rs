//! Functions of timestamps and durations, in UTC unless a zone is given.

use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

pub const DECLARED: &str = "
    timestamp.getFullYear() int
    timestamp.getFullYear(string) int
    timestamp.getMonth() int
    timestamp.getMonth(string) int
    timestamp.getDayOfYear() int
    timestamp.getDayOfYear(string) int
    timestamp.getDayOfMonth() int
    timestamp.getDayOfMonth(string) int
    timestamp.getDate() int
    timestamp.getDate(string) int
    timestamp.getDayOfWeek() int
    timestamp.getDayOfWeek(string) int
    timestamp.getHours() int
    timestamp.getHours(string) int
    timestamp.getMinutes() int
    timestamp.getMinutes(string) int
    timestamp.getSeconds() int
    timestamp.getSeconds(string) int
    timestamp.getMilliseconds() int
    timestamp.getMilliseconds(string) int
    duration.getHours() int
    duration.getMinutes() int
    duration.getSeconds() int
    duration.getMilliseconds() int
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    let number = match arguments {
        [Value::Duration(duration)] => of_duration(name, *duration),
        [Value::Timestamp(time)] => of_time(name, &time.to_zoned(TimeZone::UTC)),
        [Value::Timestamp(time), Value::String(zone)] => of_time(name, &in_zone(*time, zone)?),
        _ => None,
    };
    number.map_or_else(|| no_overload(name, arguments), |number| Ok(Value::Int(number)))
}

fn of_duration(name: &str, duration: SignedDuration) -> Option<i64> {
    Some(match name {
        "getHours" => duration.as_hours(),
        "getMinutes" => duration.as_mins(),
        "getSeconds" => duration.as_secs(),
        // The whole duration, as in cel-go; the specification means only the fraction of the last second.
        "getMilliseconds" => i64::try_from(duration.as_millis()).ok()?,
        _ => return None,
    })
}

fn of_time(name: &str, at: &Zoned) -> Option<i64> {
    Some(match name {
        "getFullYear" => at.year().into(),
        "getMonth" => i64::from(at.month()) - 1,
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDate" => at.day().into(),
        "getDayOfWeek" => at.weekday().to_sunday_zero_offset().into(),
        "getHours" => at.hour().into(),
        "getMinutes" => at.minute().into(),
        "getSeconds" => at.second().into(),
        "getMilliseconds" => at.millisecond().into(),
        _ => return None,
    })
}

/// Converts a time to a zone: `Europe/Berlin`, `-02:30`, `02:30`.
fn in_zone(time: Timestamp, zone: &str) -> Result<Zoned, Failure> {
    let fixed = || -> Option<TimeZone> {
        let (hours, minutes) = zone.split_once(':')?;
        let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?);
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        let minutes = hours.checked_mul(60)?.checked_add(sign * minutes)?;
        Offset::from_seconds(minutes.checked_mul(60)?).ok().map(TimeZone::fixed)
    };
    let named = || if zone.is_empty() { Some(TimeZone::UTC) } else { TimeZone::get(zone).ok() };
    match fixed().or_else(named) {
        Some(zone) => Ok(time.to_zoned(zone)),
        None => error(format!("unknown time zone {zone}")),
    }
}

/// The first second of year 1.
const FIRST_SECOND: i64 = -62_135_596_800;

/// A time from the year 1 on.
// Deviation: the last day of the year 9999 is no timestamp in expressions; Kubernetes goes on to its end.
pub fn instant(time: Option<Timestamp>) -> Outcome {
    match time.filter(|time| time.as_second() >= FIRST_SECOND) {
        Some(time) => Ok(Value::Timestamp(time)),
        None => error("timestamp overflow"),
    }
}

/// Returns a duration, if its nanoseconds fit into 64 bits.
pub fn span(duration: Option<SignedDuration>) -> Outcome {
    match duration.filter(|duration| i64::try_from(duration.as_nanos()).is_ok()) {
        Some(duration) => Ok(Value::Duration(duration)),
        None => error("duration overflow"),
    }
}

/// Parses RFC 3339: `2026-01-02T03:04:05.678Z`, `2026-01-02T03:04:05+01:00`.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let is_shaped = |form: &str| {
        text.len() >= form.len()
            && form.bytes().zip(text.bytes()).all(|(wanted, found)| match wanted {
                b'0' => found.is_ascii_digit(),
                wanted => wanted == found,
            })
    };
    if !text.is_ascii() || !is_shaped("0000-00-00T00:00:00") {
        return None;
    }
    let zone = text[19..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let is_zone = match zone.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', h, i, b':', m, n] => [h, i, m, n].into_iter().all(u8::is_ascii_digit),
        _ => false,
    };
    // Go refuses leap seconds.
    if !is_zone || &text[17..19] == "60" {
        return None;
    }
    text.parse::<Timestamp>().ok().filter(|time| time.as_second() >= FIRST_SECOND)
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(unit)?)?;
        let mut place = unit;
        for digit in fraction.chars() {
            place /= 10;
            nanos += i128::from(digit.to_digit(10)?) * place;
        }
        rest = after;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// Formats a duration in seconds: `90s`, `1.5s`.
pub fn written_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let (sign, nanos) = if nanos < 0 { ("-", nanos.unsigned_abs()) } else { ("", nanos.unsigned_abs()) };
    let (whole, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}s");
    }
    format!("{sign}{whole}.{}s", format!("{fraction:09}").trim_end_matches('0'))
}
