//! Reads and writes times as Go does: RFC 3339 with whole seconds, or with microseconds.
//!
//! Corresponds to metav1.Time and metav1.MicroTime, and to the errors of Go's `time.Parse`.

use k8s_openapi::jiff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Microseconds,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Returns the canonical form of a time in UTC, or `None` for Go's zero time, which is written as null.
pub fn canonical(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let mut reader = Reader { text, rest: text, precision };
    let year = reader.number(4, "2006")?;
    reader.literal("-")?;
    let month = reader.number(2, "01")?;
    reader.in_range(month, 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.number(2, "02")?;
    reader.literal("T")?;
    let hour = reader.number(2, "15")?;
    reader.in_range(hour, 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = reader.number(2, "04")?;
    reader.in_range(minute, 0..=59, "minute")?;
    reader.literal(":")?;
    let second = reader.number(2, "05")?;
    reader.in_range(second, 0..=59, "second")?;
    let nanosecond = reader.fraction()?;
    let offset_s = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reader.rest));
    }
    let small = |number: i64| i8::try_from(number).expect("at most two digits were read");
    let year = i16::try_from(year).expect("four digits were read");
    let Ok(civil) = jiff::civil::DateTime::new(
        year,
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        i32::try_from(nanosecond).expect("a fraction is below one second"),
    ) else {
        return Err(format!("parsing time {text:?}: day out of range"));
    };
    let utc = civil
        .checked_sub(jiff::SignedDuration::from_secs(offset_s))
        .map_err(|_| format!("parsing time {text:?}: year outside of range [0,9999]"))?;
    let is_zero = utc == jiff::civil::DateTime::constant(1, 1, 1, 0, 0, 0, 0);
    Ok((!is_zero).then(|| written(utc, precision)))
}

/// Writes a time of UTC in the canonical form.
pub fn written(utc: jiff::civil::DateTime, precision: Precision) -> String {
    let (year, month, day) = (utc.year(), utc.month(), utc.day());
    let (hour, minute, second) = (utc.hour(), utc.minute(), utc.second());
    let seconds = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match precision {
        Precision::Seconds => seconds + "Z",
        Precision::Microseconds => format!("{seconds}.{:06}Z", utc.subsec_nanosecond() / 1000),
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Reader<'_> {
    fn cannot(&self, element: &str) -> String {
        let layout = self.precision.layout();
        format!("parsing time {:?} as {layout:?}: cannot parse {:?} as {element:?}", self.text, self.rest)
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        let head = self.rest.get(..digits).filter(|head| head.bytes().all(|byte| byte.is_ascii_digit()));
        let number = head.and_then(|head| head.parse().ok()).ok_or_else(|| self.cannot(element))?;
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.cannot(literal))?;
        Ok(())
    }

    fn in_range(&self, number: i64, range: std::ops::RangeInclusive<i64>, what: &str) -> Result<(), String> {
        if range.contains(&number) { Ok(()) } else { Err(format!("parsing time {:?}: {what} out of range", self.text)) }
    }

    /// Reads the fraction of a second in nanoseconds. It may have any length behind `Seconds`, which do not keep it,
    /// and has exactly six digits behind `Microseconds`.
    fn fraction(&mut self) -> Result<i64, String> {
        let digits = match (self.precision, self.rest.strip_prefix(['.', ','])) {
            (Precision::Seconds, None) => return Ok(0),
            (Precision::Seconds, Some(fraction)) => fraction.bytes().take_while(u8::is_ascii_digit).count(),
            (Precision::Microseconds, Some(_)) => 6,
            (Precision::Microseconds, None) => return Err(self.cannot(".000000")),
        };
        if digits == 0 {
            return Ok(0);
        }
        let fraction = self.rest.get(1..=digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let fraction = fraction.ok_or_else(|| self.cannot(".000000"))?;
        let nanoseconds = format!("{fraction:0<9}")[..9].parse().expect("nine digits are a number");
        self.rest = &self.rest[digits + 1..];
        Ok(nanoseconds)
    }

    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let zone = self.rest.get(..6).filter(|zone| zone.as_bytes()[3] == b':').ok_or_else(|| self.cannot("Z07:00"))?;
        let sign = match zone.as_bytes()[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(self.cannot("Z07:00")),
        };
        let part = |range: std::ops::Range<usize>| zone[range].parse::<u8>().ok().map(i64::from);
        let (Some(hours), Some(minutes)) = (part(1..3), part(4..6)) else { return Err(self.cannot("Z07:00")) };
        self.in_range(hours, 0..=24, "time zone offset hour")?;
        self.in_range(minutes, 0..=60, "time zone offset minute")?;
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_without_fraction() {
        let cases = [
            ("2021-03-04T05:06:07Z", Some("2021-03-04T05:06:07Z")),
            ("2021-03-04T05:06:07.123456789Z", Some("2021-03-04T05:06:07Z")),
            ("2021-03-04T05:06:07+02:00", Some("2021-03-04T03:06:07Z")),
            ("2021-03-04T23:06:07-02:30", Some("2021-03-05T01:36:07Z")),
            ("0001-01-01T00:00:00Z", None),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text, Precision::Seconds), Ok(expected.map(str::to_owned)), "{text}");
        }
        let micro = |text| canonical(text, Precision::Microseconds);
        assert_eq!(micro("2021-03-04T05:06:07.123456Z"), Ok(Some("2021-03-04T05:06:07.123456Z".to_owned())));
        assert_eq!(micro("2021-03-04T05:06:07.000000+02:00"), Ok(Some("2021-03-04T03:06:07.000000Z".to_owned())));
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        let seconds = [
            ("soon", r#" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006""#),
            ("2021-03-04", r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#),
            ("2021-03-04 05:06:07Z", r#" as "2006-01-02T15:04:05Z07:00": cannot parse " 05:06:07Z" as "T""#),
            ("2021-13-04T05:06:07Z", ": month out of range"),
            ("2021-02-30T05:06:07Z", ": day out of range"),
            ("2021-03-04T24:00:00Z", ": hour out of range"),
            ("2021-03-04T05:06:07Zx", ": extra text: \"x\""),
        ];
        for (text, error) in seconds {
            assert_eq!(canonical(text, Precision::Seconds), Err(format!("parsing time {text:?}{error}")));
        }
        let micro = [("07Z", "Z", ".000000"), ("07.1Z", ".1Z", ".000000"), ("07.123456789Z", "789Z", "Z07:00")];
        for (end, rest, element) in micro {
            let text = format!("2021-03-04T05:06:{end}");
            let error = format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {element:?}"
            );
            assert_eq!(canonical(&text, Precision::Microseconds), Err(error));
        }
    }
}
