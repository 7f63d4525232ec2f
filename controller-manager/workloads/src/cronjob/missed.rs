//! Finds the scheduled times that a cron job has missed. Only the last one still gets a job.
//!
//! Corresponds to mostRecentScheduleTime in pkg/controller/cronjob/utils.go.

use super::schedule::Schedule;
use controller_base::clock;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// More missed times than this cause a warning: the clock is wrong, or the controller did not run for long.
const MANY: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    pub last: Timestamp,
    pub are_many: bool,
}

/// The schedule never comes: it names a day that none of its months has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverDue;

/// Returns the missed times in `(since, now]`. The starting deadline may move the beginning to a later time.
pub fn missed(
    schedule: &Schedule,
    zone: &TimeZone,
    since: Timestamp,
    deadline_s: Option<i64>,
    now: Timestamp,
) -> Result<Option<Missed>, NeverDue> {
    let earliest = deadline_s.map_or(since, |deadline_s| since.max(clock::after(now, -deadline_s)));
    let first = schedule.next(earliest, zone).ok_or(NeverDue)?;
    if first > now {
        return Ok(None);
    }
    let second = schedule.next(first, zone).filter(|second| *second <= now);
    let Some(second) = second else { return Ok(Some(Missed { last: first, are_many: false })) };
    let period_s = second.duration_since(first).as_secs().max(1);
    let count = u64::try_from(now.duration_since(first).as_secs() / period_s).unwrap_or(0) + 1;
    // Skips to shortly before now: a loop over a year of minutes would take too long.
    let skip_s = period_s.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX).saturating_sub(3).max(0));
    let mut last = first;
    let mut time = schedule.next(clock::after(first, skip_s).max(first), zone);
    if skip_s > 0 && time.is_none_or(|time| time > now) {
        // Periods differ in length, and the skip went too far.
        time = Some(second);
    }
    while let Some(next) = time.filter(|time| *time <= now) {
        last = next;
        time = schedule.next(next, zone);
    }
    Ok(Some(Missed { last, are_many: count > MANY }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cronjob::schedule::parse;

    #[test]
    fn only_the_last_missed_time_counts() {
        let cases = [
            // schedule, since, deadline, now => last missed, many
            ("0 * * * *", "10:00", None, "10:30", None),
            ("0 * * * *", "10:00", None, "11:00", Some(("11:00", false))),
            ("0 * * * *", "10:00", None, "14:59", Some(("14:00", false))),
            ("* * * * *", "10:00", None, "11:39", Some(("11:39", false))),
            ("* * * * *", "10:00", None, "11:41", Some(("11:41", true))),
            ("* * * * *", "10:00", Some(600), "23:41", Some(("23:41", false))),
            ("* * * * *", "10:00", Some(12000), "23:41", Some(("23:41", true))),
            ("0 * * * *", "10:00", Some(600), "14:30", None),
            ("0 0,12,13 * * *", "10:00", None, "23:00", Some(("13:00", false))),
        ];
        let at = |time: &str| format!("2026-01-01T{time}:00Z").parse::<Timestamp>().unwrap();
        for (schedule, since, deadline_s, now, expected) in cases {
            let got = missed(&parse(schedule).unwrap(), &TimeZone::UTC, at(since), deadline_s, at(now));
            let expected = expected.map(|(last, are_many)| Missed { last: at(last), are_many });
            assert_eq!(got, Ok(expected), "{schedule} from {since} to {now}");
        }
    }

    #[test]
    fn a_day_that_its_month_lacks_is_never_due() {
        let now = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        for schedule in ["59 23 31 2 *", "0 0 30 feb *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(missed(&parse(schedule).unwrap(), &TimeZone::UTC, now, None, now), Err(NeverDue), "{schedule}");
        }
        let leap_day = parse("0 0 29 2 *").unwrap();
        assert_eq!(missed(&leap_day, &TimeZone::UTC, now, None, now), Ok(None));
    }
}
