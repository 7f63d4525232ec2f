//! `Outcomes`: what a probe of a simulated container finds, by the time since the container started.
//!
//! There is no kubelet counterpart: a real probe asks a real process. Outcomes come from the container's story, and
//! otherwise from its spec: see `handlers::target`.

use component_base::duration::parse_duration;
use std::time::Duration;

/// The shortest part of a story's `flap`, and so the most work that an hour of it can make.
const SHORTEST_FLAP: Duration = Duration::from_millis(100);

/// The outcome of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
    /// No answer within the probe's `timeoutSeconds`.
    Timeout,
}

/// The outcomes of a probe during one run of its container.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcomes(Vec<Part>);

/// A part of the outcomes: it lasts until the next part begins.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Time from the container's start.
    begins: Duration,
    pattern: Pattern,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Steady(Outcome),
    /// Success and failure in turn, success first.
    Flap {
        success: Duration,
        failure: Duration,
    },
}

impl Outcomes {
    pub fn always(outcome: Outcome) -> Self {
        Self(vec![Part { begins: Duration::ZERO, pattern: Pattern::Steady(outcome) }])
    }

    /// Makes outcomes of changes: each holds from its time on. Before the first everything succeeds.
    pub fn of_changes(changes: &[(Duration, Outcome)]) -> Self {
        let part =
            |(begins, outcome): &(Duration, Outcome)| Part { begins: *begins, pattern: Pattern::Steady(*outcome) };
        let parts: Vec<Part> = changes.iter().map(part).collect();
        match parts.first() {
            Some(first) if first.begins.is_zero() => Self(parts),
            _ => Self(Self::always(Outcome::Success).0.into_iter().chain(parts).collect()),
        }
    }

    /// Parses a story such as `ok, fail@30s, flap 10s/5s@2m`. Each word holds from the time behind its `@`, and the
    /// first from the start. Before the first time everything succeeds.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = vec![Part { begins: Duration::ZERO, pattern: Pattern::Steady(Outcome::Success) }];
        for (number, word) in text.split(',').enumerate() {
            let part = parse_part(word.trim(), number == 0)?;
            let before = parts[parts.len() - 1].begins;
            if part.begins < before || (number > 0 && part.begins == before) {
                return Err(format!("{:?} does not begin after what stands before it", word.trim()));
            }
            if part.begins.is_zero() {
                parts.clear();
            }
            parts.push(part);
        }
        Ok(Self(parts))
    }

    /// Returns the outcome of a probe at this time after the container's start, and the time at which another outcome
    /// begins; `None` if none does.
    pub fn at(&self, after: Duration) -> (Outcome, Option<Duration>) {
        let next = self.0.partition_point(|part| part.begins <= after);
        let part = &self.0[next.saturating_sub(1)];
        let end = self.0.get(next).map(|part| part.begins);
        match part.pattern {
            Pattern::Steady(outcome) => (outcome, end),
            Pattern::Flap { success, failure } => {
                let period = (success + failure).as_nanos();
                let into_nanos = (after.saturating_sub(part.begins)).as_nanos() % period;
                let is_success = into_nanos < success.as_nanos();
                let left_nanos = if is_success { success.as_nanos() } else { period } - into_nanos;
                let change = after + Duration::from_nanos(u64::try_from(left_nanos).unwrap_or(u64::MAX));
                let outcome = if is_success { Outcome::Success } else { Outcome::Failure };
                (outcome, Some(end.map_or(change, |end| end.min(change))))
            }
        }
    }
}

fn parse_part(word: &str, is_first: bool) -> Result<Part, String> {
    let (what, begins) = match word.rsplit_once('@') {
        Some((what, time)) => (what.trim(), parse_time(time)?),
        None if is_first => (word, Duration::ZERO),
        None => return Err(format!("{word:?} needs a time, as in \"{word}@30s\"")),
    };
    let pattern = match what.split_once(char::is_whitespace) {
        None if what == "ok" => Pattern::Steady(Outcome::Success),
        None if what == "fail" => Pattern::Steady(Outcome::Failure),
        None if what == "timeout" => Pattern::Steady(Outcome::Timeout),
        Some(("flap", times)) => parse_flap(times)?,
        _ => return Err(format!("{what:?} is none of \"ok\", \"fail\", \"timeout\" and \"flap SUCCESS/FAILURE\"")),
    };
    Ok(Part { begins, pattern })
}

fn parse_flap(times: &str) -> Result<Pattern, String> {
    let (success, failure) =
        times.split_once('/').ok_or_else(|| format!("\"flap {times}\" needs two times, as in \"flap 10s/5s\""))?;
    let (success, failure) = (parse_time(success)?, parse_time(failure)?);
    if success.min(failure) < SHORTEST_FLAP {
        return Err(format!("\"flap {times}\": each time must be at least 100ms"));
    }
    Ok(Pattern::Flap { success, failure })
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text.trim()).map_err(|_| format!("{:?} is no duration such as \"30s\" or \"1m30s\"", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_says_what_is_found_and_how_long_it_stays_so() {
        use Outcome::{Failure, Success, Timeout};
        let s = Duration::from_secs;
        for (story, after_s, outcome, until_s) in [
            ("ok", 0, Success, None),
            ("fail", 1000, Failure, None),
            ("fail@30s", 0, Success, Some(30)),
            ("fail@30s", 30, Failure, None),
            ("fail, ok@1m, timeout@1m30s", 59, Failure, Some(60)),
            ("fail, ok@1m, timeout@1m30s", 60, Success, Some(90)),
            ("fail, ok@1m, timeout@1m30s", 90, Timeout, None),
            ("flap 10s/5s", 0, Success, Some(10)),
            ("flap 10s/5s", 14, Failure, Some(15)),
            ("flap 10s/5s", 3615, Success, Some(3625)),
            ("flap 10s/5s@2m, ok@131s", 119, Success, Some(120)),
            ("flap 10s/5s@2m, ok@131s", 130, Failure, Some(131)),
            ("flap 10s/5s@2m, ok@131s", 132, Success, None),
        ] {
            let found = Outcomes::parse(story).unwrap().at(s(after_s));
            assert_eq!(found, (outcome, until_s.map(s)), "{story} after {after_s} s");
        }
    }

    #[test]
    fn a_story_that_makes_no_sense_is_refused() {
        for (story, error) in [
            ("", "\"\" is none of \"ok\", \"fail\", \"timeout\" and \"flap SUCCESS/FAILURE\""),
            ("broken", "\"broken\" is none of \"ok\", \"fail\", \"timeout\" and \"flap SUCCESS/FAILURE\""),
            ("ok, fail", "\"fail\" needs a time, as in \"fail@30s\""),
            ("ok, fail@soon", "\"soon\" is no duration such as \"30s\" or \"1m30s\""),
            ("fail@30s, ok@10s", "\"ok@10s\" does not begin after what stands before it"),
            ("fail@30s, ok@30s", "\"ok@30s\" does not begin after what stands before it"),
            ("flap 10s", "\"flap 10s\" needs two times, as in \"flap 10s/5s\""),
            ("flap 10s/0s", "\"flap 10s/0s\": each time must be at least 100ms"),
        ] {
            assert_eq!(Outcomes::parse(story), Err(error.to_owned()), "{story}");
        }
    }
}
