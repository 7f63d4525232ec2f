//! `Curve`: an amount that changes with time, as a story writes it: CPU in cores, memory in bytes.
//!
//! There is no kubelet counterpart: cadvisor measures. Everything follows from the time since the container's start and
//! a seed, so that usage is the same in every run and after every restart of an agent.

use crate::images::fingerprint;
use component_base::duration::parse_duration;
use proto::meta::quantity::Quantity;
use std::f64::consts::TAU;
use std::time::Duration;

/// The shortest period of a pattern, and so the most steps that a day of it can have.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The steps of a walk that are searched for one above a limit.
const MAX_STEPS: u64 = 10_000;

/// An amount over time: parts, each of which lasts until the next begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Seconds since the container's start.
    begins_s: f64,
    pattern: Pattern,
}

/// One shape; times are seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Constant(f64),
    /// From one amount to the other in this time, and then constant.
    Ramp {
        from: f64,
        to: f64,
        takes_s: f64,
    },
    /// Between the amounts, from the lower one up and down again in this time.
    Sine {
        low: f64,
        high: f64,
        period_s: f64,
    },
    /// Between the amounts, another one at random after each period.
    Walk {
        low: f64,
        high: f64,
        period_s: f64,
    },
}

impl Curve {
    pub fn constant(amount: f64) -> Self {
        Self(vec![Part { begins_s: 0.0, pattern: Pattern::Constant(amount) }])
    }

    /// Parses a story such as `100m`, `ramp 100m..1/10m`, `sine 1Gi..2Gi/1h`, `walk 0..500m/30s`, or several of them,
    /// each from the time behind its `@`: `100m, 900m@1m, 100m@5m`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<Part> = Vec::new();
        for word in text.split(',').map(str::trim) {
            let (what, begins) = match word.rsplit_once('@') {
                Some((what, time)) => (what.trim(), parse_time(time)?),
                None if parts.is_empty() => (word, Duration::ZERO),
                None => return Err(format!("{word:?} needs a time, as in \"{word}@30s\"")),
            };
            let begins_s = begins.as_secs_f64();
            match parts.last() {
                None if !begins.is_zero() => return Err(format!("{word:?} does not say how much there is before")),
                Some(before) if before.begins_s >= begins_s => {
                    return Err(format!("{word:?} does not begin after what stands before it"));
                }
                _ => parts.push(Part { begins_s, pattern: parse_pattern(what)? }),
            }
        }
        Ok(Self(parts))
    }

    /// Returns the amount at this time after the container's start.
    pub fn at(&self, after: Duration, seed: &str) -> f64 {
        let after_s = after.as_secs_f64();
        let part = self.0.iter().rev().find(|part| part.begins_s <= after_s);
        part.map_or(0.0, |part| part.pattern.at(after_s - part.begins_s, seed))
    }

    /// Returns the first time at which the amount is above the limit; `None` when it never is.
    pub fn first_above(&self, limit: f64, seed: &str) -> Option<Duration> {
        let ends = self.0.iter().skip(1).map(|next| next.begins_s).chain([f64::INFINITY]);
        let crossing = |(part, end): (&Part, f64)| {
            let at_s = part.begins_s + part.pattern.first_above(limit, seed)?;
            (at_s < end).then_some(at_s)
        };
        self.0.iter().zip(ends).find_map(crossing).map(Duration::from_secs_f64)
    }

    /// Returns the sum over the time since the container's start: for CPU, the seconds of cores that were used.
    pub fn sum(&self, after: Duration, seed: &str) -> f64 {
        let after_s = after.as_secs_f64();
        let ends = self.0.iter().skip(1).map(|next| next.begins_s).chain([f64::INFINITY]);
        let lasted = |part: &Part, end: f64| (end.min(after_s) - part.begins_s).max(0.0);
        self.0.iter().zip(ends).map(|(part, end)| part.pattern.sum(lasted(part, end), seed)).sum()
    }
}

impl Pattern {
    fn at(&self, after_s: f64, seed: &str) -> f64 {
        match *self {
            Pattern::Constant(amount) => amount,
            Pattern::Ramp { from, to, takes_s } => from + (to - from) * (after_s / takes_s).min(1.0),
            Pattern::Sine { low, high, period_s } => {
                low + (high - low) * (1.0 - (TAU * after_s / period_s).cos()) / 2.0
            }
            Pattern::Walk { low, high, period_s } => low + (high - low) * drawn(seed, (after_s / period_s) as u64),
        }
    }

    /// Returns the seconds until the amount is above the limit.
    fn first_above(&self, limit: f64, seed: &str) -> Option<f64> {
        match *self {
            Pattern::Constant(amount) => (amount > limit).then_some(0.0),
            Pattern::Ramp { from, .. } | Pattern::Sine { low: from, .. } if from > limit => Some(0.0),
            Pattern::Ramp { from, to, takes_s } => (to > limit).then(|| takes_s * (limit - from) / (to - from)),
            Pattern::Sine { low, high, period_s } => {
                (high > limit).then(|| period_s / TAU * (1.0 - 2.0 * (limit - low) / (high - low)).acos())
            }
            Pattern::Walk { high, .. } if high <= limit => None,
            Pattern::Walk { low, high, period_s } => {
                let step = (0..MAX_STEPS).find(|&step| low + (high - low) * drawn(seed, step) > limit)?;
                Some(step as f64 * period_s)
            }
        }
    }

    fn sum(&self, lasted_s: f64, seed: &str) -> f64 {
        match *self {
            Pattern::Constant(amount) => amount * lasted_s,
            Pattern::Ramp { from, to, takes_s } => {
                let rising_s = lasted_s.min(takes_s);
                let reached = from + (to - from) * rising_s / takes_s;
                (from + reached) / 2.0 * rising_s + to * (lasted_s - rising_s)
            }
            Pattern::Sine { low, high, period_s } => {
                let swing = (TAU * lasted_s / period_s).sin() * period_s / TAU;
                low * lasted_s + (high - low) * (lasted_s - swing) / 2.0
            }
            Pattern::Walk { low, high, period_s } => {
                let steps = (lasted_s / period_s) as u64;
                let whole: f64 = (0..steps).map(|step| drawn(seed, step)).sum();
                let rest = drawn(seed, steps) * (lasted_s / period_s - steps as f64);
                low * lasted_s + (high - low) * (whole + rest) * period_s
            }
        }
    }
}

/// Returns a number from 0 to 1 that follows from the seed and the step.
fn drawn(seed: &str, step: u64) -> f64 {
    let text = fingerprint(&["walk", seed, &step.to_string()]);
    u32::from_str_radix(&text[..8], 16).map_or(0.0, |number| f64::from(number) / f64::from(u32::MAX))
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let Some((word, rest)) = text.split_once(char::is_whitespace) else { return Ok(Pattern::Constant(amount(text)?)) };
    let shape = || format!("{text:?} is none of \"QUANTITY\" and \"ramp|sine|walk QUANTITY..QUANTITY/TIME\"");
    let (range, time) = rest.split_once('/').ok_or_else(shape)?;
    let (one, other) = range.split_once("..").ok_or_else(shape)?;
    let (one, other, time) = (amount(one)?, amount(other)?, parse_time(time)?);
    if time < SHORTEST_PERIOD {
        return Err(format!("{text:?}: the time must be at least 1s"));
    }
    let seconds = time.as_secs_f64();
    let (low, high) = (one.min(other), one.max(other));
    match word {
        "ramp" => Ok(Pattern::Ramp { from: one, to: other, takes_s: seconds }),
        "sine" => Ok(Pattern::Sine { low, high, period_s: seconds }),
        "walk" => Ok(Pattern::Walk { low, high, period_s: seconds }),
        _ => Err(shape()),
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let quantity = Quantity::parse(text.trim()).map_err(|error| format!("{:?}: {error}", text.trim()))?;
    match quantity.signum() {
        -1 => Err(format!("{:?} is less than nothing", text.trim())),
        _ => Ok(quantity.as_f64()),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text.trim()).map_err(|_| format!("{:?} is no duration such as \"30s\" or \"1m30s\"", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-6 * (1.0 + one.abs())
    }

    #[test]
    fn an_amount_follows_its_story() {
        for (story, after_s, amount) in [
            ("250m", 1000, 0.25),
            ("1Ki", 0, 1024.0),
            ("ramp 1..3/10s", 5, 2.0),
            ("ramp 3..1/10s", 20, 1.0),
            ("sine 1..3/60s", 30, 3.0),
            ("sine 3..1/60s", 15, 2.0),
            ("1, 2@10s, ramp 2..4/4s@20s", 9, 1.0),
            ("1, 2@10s, ramp 2..4/4s@20s", 10, 2.0),
            ("1, 2@10s, ramp 2..4/4s@20s", 22, 3.0),
        ] {
            let found = Curve::parse(story).unwrap().at(Duration::from_secs(after_s), "");
            assert!(close(found, amount), "{story} after {after_s} s: {found}");
        }
        let walk = Curve::parse("walk 1..2/10s").unwrap();
        let at = |after_s: u64, seed| walk.at(Duration::from_secs(after_s), seed);
        assert!((0..100).all(|step| (1.0..=2.0).contains(&at(step * 10, "u1"))));
        assert_eq!(at(12, "u1"), at(19, "u1"));
        assert_ne!((at(12, "u1"), at(12, "u1")), (at(22, "u1"), at(12, "u2")));
    }

    /// The sum agrees with one that adds many small pieces.
    #[test]
    fn what_was_used_is_the_sum_of_what_was_used_at_each_time() {
        for story in ["250m", "ramp 1..3/10s", "sine 1..3/7s", "walk 0..2/3s", "1, sine 0..2/6s@10s, ramp 4..0/5s@20s"]
        {
            let curve = Curve::parse(story).unwrap();
            for after_s in [0, 1, 9, 13, 40] {
                let pieces = after_s * 1000;
                let piece = |n: u64| curve.at(Duration::from_micros(n * 1000 + 500), "u1") / 1000.0;
                let expected: f64 = (0..pieces).map(piece).sum();
                let found = curve.sum(Duration::from_secs(after_s), "u1");
                assert!((found - expected).abs() < 0.01, "{story} after {after_s} s: {found}, and not {expected}");
            }
        }
    }

    #[test]
    fn a_limit_is_crossed_at_a_known_time() {
        for (story, limit, expected_s) in [
            ("2", 2.0, None),
            ("2", 1.9, Some(0.0)),
            ("1, 3@10s", 2.0, Some(10.0)),
            ("ramp 0..4/8s", 3.0, Some(6.0)),
            ("ramp 0..4/8s, 1@5s", 3.0, None),
            ("ramp 4..0/8s", 3.0, Some(0.0)),
            ("sine 0..2/60s", 1.0, Some(15.0)),
            ("sine 0..2/60s", 2.0, None),
            ("walk 0..1/1s", 1.0, None),
        ] {
            let found = Curve::parse(story).unwrap().first_above(limit, "u1").map(|after| after.as_secs_f64());
            let agrees = match (found, expected_s) {
                (Some(found), Some(expected)) => close(found, expected),
                (found, expected) => found == expected,
            };
            assert!(agrees, "{story} above {limit}: {found:?}");
        }
        let walk = Curve::parse("walk 0..1/10s").unwrap();
        let crossing = walk.first_above(0.8, "u1").unwrap();
        assert!(walk.at(crossing, "u1") > 0.8);
        assert!((0..crossing.as_secs()).all(|s| walk.at(Duration::from_secs(s), "u1") <= 0.8));
    }

    #[test]
    fn a_story_that_makes_no_sense_is_refused() {
        for (story, error) in [
            (
                "much",
                "\"much\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            ("-1", "\"-1\" is less than nothing"),
            ("1, 2", "\"2\" needs a time, as in \"2@30s\""),
            ("1@5s", "\"1@5s\" does not say how much there is before"),
            ("1, 2@10s, 3@10s", "\"3@10s\" does not begin after what stands before it"),
            ("ramp 1..2", "\"ramp 1..2\" is none of \"QUANTITY\" and \"ramp|sine|walk QUANTITY..QUANTITY/TIME\""),
            ("sine 1..2/0s", "\"sine 1..2/0s\": the time must be at least 1s"),
        ] {
            assert_eq!(Curve::parse(story), Err(error.to_owned()), "{story}");
        }
    }
}
