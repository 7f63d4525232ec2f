//! Parses cron schedules: five fields with names, ranges and steps, and the descriptors that begin with `@`.
//!
//! Corresponds to github.com/robfig/cron/v3 (ParseStandard), with which Kubernetes parses `spec.schedule`.

use controller_base::clock;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

/// A schedule without a time in this many years never comes: 29 February comes at least every eight years.
const YEARS_AHEAD: i16 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    Fields(Box<Fields>),
    /// `@every 90m`
    Every(SignedDuration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
}

/// The values that a field allows. `is_star` decides how days and weekdays combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    bits: u64,
    is_star: bool,
}

impl Set {
    fn has(self, value: i8) -> bool {
        value >= 0 && self.bits & (1 << value) != 0
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub fn parse(text: &str) -> Result<Schedule, String> {
    let text = text.trim();
    if let Some(period) = text.strip_prefix("@every ") {
        let period: SignedDuration = period.parse().map_err(|_| format!("failed to parse duration {text}"))?;
        return Ok(Schedule::Every(SignedDuration::from_secs(period.as_secs().max(1))));
    }
    let expanded = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other if other.starts_with('@') => return Err(format!("unrecognized descriptor: {other}")),
        other => other,
    };
    let fields: Vec<&str> = expanded.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    };
    Ok(Schedule::Fields(Box::new(Fields {
        minutes: set(minutes, 0, 59, &[])?,
        hours: set(hours, 0, 23, &[])?,
        days: set(days, 1, 31, &[])?,
        months: set(months, 1, 12, &MONTHS)?,
        weekdays: set(weekdays, 0, 6, &WEEKDAYS)?,
    })))
}

/// Parses a comma-separated list of `*`, `5` and `1-5`, each with an optional `/step`. Names stand for the numbers from
/// `min` on.
fn set(field: &str, min: u8, max: u8, names: &[&str]) -> Result<Set, String> {
    let mut set = Set { bits: 0, is_star: false };
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step_by: u8 = match step {
            None => 1,
            Some(step) => step.parse().ok().filter(|step| *step > 0).ok_or_else(|| format!("bad step in {part:?}"))?,
        };
        let number = |text: &str| {
            let by_name =
                names.iter().position(|name| name.eq_ignore_ascii_case(text)).and_then(|i| u8::try_from(i).ok());
            let value = by_name.map(|i| i + min).or_else(|| text.parse().ok());
            value
                .filter(|value| (min..=max).contains(value))
                .ok_or_else(|| format!("{text:?} is not between {min} and {max}"))
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => {
                set.is_star |= step_by == 1;
                (min, max)
            }
            Some((first, last)) => (number(first)?, number(last)?),
            // `5/15` means `5-max/15`.
            None => (number(range)?, if step.is_some() { max } else { number(range)? }),
        };
        if first > last {
            return Err(format!("beginning of range ({first}) beyond end of range ({last}): {part}"));
        }
        (first..=last).step_by(step_by.into()).for_each(|value| set.bits |= 1 << value);
    }
    Ok(set)
}

impl Schedule {
    /// Returns the first time after `after`, if there is one.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Schedule::Every(period) => Some(clock::after(after, period.as_secs())),
            Schedule::Fields(fields) => fields.next(after, zone),
        }
    }
}

impl Fields {
    /// Searches each interval between two changes of the zone's UTC offset. So no time lies in an hour that daylight
    /// saving skips, and an hour that it repeats counts twice.
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let horizon = after.to_zoned(zone.clone()).checked_add(Span::new().years(YEARS_AHEAD)).ok()?.timestamp();
        let mut begin = after;
        let mut transitions = zone.following(after);
        while begin < horizon {
            let end = transitions.next().map_or(horizon, |transition| transition.timestamp().min(horizon));
            let offset = zone.to_offset(begin);
            let local = offset.to_datetime(begin);
            // A later interval may begin with a minute that is due.
            let local = if begin == after { local } else { local.checked_sub(Span::new().seconds(1)).ok()? };
            let due = self.next_civil(local, offset.to_datetime(end).date());
            let due = due.and_then(|civil| offset.to_timestamp(civil).ok());
            if let Some(due) = due.filter(|due| *due < end) {
                return Some(due);
            }
            begin = end;
        }
        None
    }

    /// Returns the first allowed minute after a civil time, up to the last day.
    fn next_civil(&self, after: DateTime, last: Date) -> Option<DateTime> {
        let mut date = after.date();
        let is_later = |time: &Time, date: Date| date.to_datetime(*time) > after;
        while date <= last {
            if !self.months.has(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.is_day(date) {
                let times = (0..24).filter(|hour| self.hours.has(*hour)).flat_map(|hour| {
                    (0..60)
                        .filter(|minute| self.minutes.has(*minute))
                        .map(move |minute| Time::constant(hour, minute, 0, 0))
                });
                if let Some(time) = { times }.find(|time| is_later(time, date)) {
                    return Some(date.to_datetime(time));
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns true if the day is allowed. If days and weekdays are both restricted, one of them is enough.
    fn is_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        if self.days.is_star || self.weekdays.is_star { day && weekday } else { day || weekday }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str, zone: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        let after: Timestamp = after.parse().unwrap();
        parse(schedule).unwrap().next(after, &zone).map_or("never".to_owned(), |time| time.to_string())
    }

    #[test]
    fn schedules_give_the_next_time() {
        let cases = [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            ("* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:46:00Z", "2026-01-01T01:00:00Z"),
            ("5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25:00Z"),
            ("30 3 * * *", "2026-01-01T03:30:00Z", "2026-01-02T03:30:00Z"),
            ("0 9-17/4 * * mon-fri", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z"),
            ("0 0 1,15 * *", "2026-01-15T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("0 0 13 * FRI", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 13 * *", "2026-01-02T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 30 feb *", "2026-01-01T00:00:00Z", "never"),
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@every 90m", "2026-01-01T00:00:10Z", "2026-01-01T01:30:10Z"),
        ];
        for (schedule, after, expected) in cases {
            assert_eq!(next(schedule, after, "UTC"), expected, "{schedule} after {after}");
        }
    }

    /// The cases agree with robfig/cron's own tests.
    #[test]
    fn an_hour_that_is_leapt_over_is_skipped_and_one_that_comes_twice_counts_twice() {
        // New York leaps from 2 to 3 on 11 March 2012 and falls back from 2 to 1 on 4 November.
        let cases = [
            ("0 * * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T01:00:00-05:00"),
            ("0 * * * *", "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
            ("0 2 * * *", "2012-03-11T00:00:00-05:00", "2012-03-12T02:00:00-04:00"),
            ("30 2 * * *", "2012-03-11T00:00:00-05:00", "2012-03-12T02:30:00-04:00"),
            ("0 3 * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T03:00:00-04:00"),
            ("0 * * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T01:00:00-04:00"),
            ("0 * * * *", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
            ("0 * * * *", "2012-11-04T01:00:00-05:00", "2012-11-04T02:00:00-05:00"),
            ("0 1 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T01:00:00-04:00"),
            ("0 1 * * *", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
            ("0 1 * * *", "2012-11-04T01:00:00-05:00", "2012-11-05T01:00:00-05:00"),
            ("30 1 * * *", "2012-11-04T01:45:00-04:00", "2012-11-04T01:30:00-05:00"),
            ("0 2 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T02:00:00-05:00"),
        ];
        for (schedule, after, expected) in cases {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(next(schedule, after, "America/New_York"), expected.to_string(), "{schedule} after {after}");
        }
    }

    #[test]
    fn invalid_schedules_are_refused() {
        let bad = [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* * 0 * *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "@noon",
            "a * * * *",
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
