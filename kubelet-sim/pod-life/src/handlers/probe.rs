//! The probes of a container: when they run, and what follows from their outcomes.
//!
//! Corresponds to pkg/kubelet/prober/worker.go. A kubelet counts outcomes as they come; here the counts at any time
//! follow from the container's start and the outcomes, so that an agent that restarts knows them.
//!
//! Deviation: the first probe runs `initialDelaySeconds` after the container's start. A kubelet's ticker starts before
//! the container does, so that its first probe may come up to a period later.

use crate::outcomes::{Outcome, Outcomes};
use crate::progress::ProbeCounts;
use proto::kinds::api::core::v1::Probe;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The results that end a probe for the rest of its container's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// A readiness probe goes on.
    Never,
    /// A liveness probe ends with its failure: the container is killed.
    Failure,
    /// A startup probe ends with either result.
    AnyResult,
}

/// One probe of a running container.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRun<'a> {
    pub spec: &'a Probe,
    pub outcomes: &'a Outcomes,
    pub container_started_at: Timestamp,
    /// The time from which the probe may run: liveness and readiness wait for the startup probe.
    pub enabled_at: Timestamp,
    pub end: ProbeEnd,
}

/// What a probe has found so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Findings {
    /// The last result that a threshold has confirmed, and when; `None` before the first.
    pub result: Option<(bool, Timestamp)>,
    pub counts: ProbeCounts,
    /// The latest probe, if it failed.
    pub failing: Option<FailedProbe>,
    /// When the next probe is due that fails or changes the result.
    pub next: Option<Timestamp>,
}

/// A probe that failed, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailedProbe {
    pub number: u64,
    pub outcome: Outcome,
}

impl ProbeRun<'_> {
    /// Returns what the probe has found up to `now`. Probes with the same outcome are counted together, so that a long
    /// run costs no more than a short one.
    pub fn findings(&self, now: Timestamp) -> Findings {
        let period = seconds(self.spec.period_seconds, 10).max(Duration::from_secs(1));
        let mut at = self.enabled_at.max(self.container_started_at + seconds(self.spec.initial_delay_seconds, 0));
        let (mut findings, mut number) = (Findings::default(), 0);
        let (mut last, mut in_a_row) = (None, 0);
        loop {
            let (outcome, until) = self.outcomes.at(since(self.container_started_at, at));
            let until = until.map(|until| self.container_started_at + until);
            let answer =
                if outcome == Outcome::Timeout { seconds(self.spec.timeout_seconds, 1) } else { Duration::ZERO };
            let succeeds = outcome == Outcome::Success;
            if at + answer > now {
                findings.next = match findings.result {
                    // It goes on to succeed: nothing changes before the outcome does.
                    Some((true, _)) if succeeds => until.map(|until| at + whole_periods(at, until, period)),
                    _ => Some(at + answer),
                };
                return findings;
            }
            if last != Some(succeeds) {
                (last, in_a_row) = (Some(succeeds), 0);
            }
            let count = count_until(at, until, now - answer, period);
            let threshold = self.threshold(succeeds);
            let confirms = (in_a_row < threshold && in_a_row + count >= threshold).then(|| threshold - in_a_row);
            if let Some(nth) = confirms {
                findings.result = Some((succeeds, at + times(period, nth - 1) + answer));
            }
            let ends = confirms.filter(|_| self.ends_with(succeeds));
            (number, in_a_row) = (number + ends.unwrap_or(count), in_a_row + count);
            findings.counts.add(succeeds, ends.unwrap_or(count));
            findings.failing = (!succeeds).then_some(FailedProbe { number, outcome });
            if ends.is_some() {
                return findings;
            }
            at += times(period, count);
        }
    }

    fn threshold(&self, succeeds: bool) -> u64 {
        let (threshold, default) =
            if succeeds { (self.spec.success_threshold, 1) } else { (self.spec.failure_threshold, 3) };
        u64::try_from(threshold.unwrap_or(default)).unwrap_or(1).max(1)
    }

    fn ends_with(&self, succeeds: bool) -> bool {
        match self.end {
            ProbeEnd::Never => false,
            ProbeEnd::Failure => !succeeds,
            ProbeEnd::AnyResult => true,
        }
    }
}

/// Returns a field of seconds, or its default.
pub fn seconds(field: Option<i32>, default: i32) -> Duration {
    Duration::from_secs(u64::try_from(field.unwrap_or(default)).unwrap_or(0))
}

fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

fn times(period: Duration, count: u64) -> Duration {
    Duration::from_secs(period.as_secs().saturating_mul(count))
}

/// Counts the probes at `at` and each period later, up to `now` and before `until`. At least the one at `at` counts.
fn count_until(at: Timestamp, until: Option<Timestamp>, now: Timestamp, period: Duration) -> u64 {
    let up_to_now = u64::try_from(since(at, now).as_nanos() / period.as_nanos()).unwrap_or(u64::MAX);
    let before = until.map_or(u64::MAX, |until| {
        u64::try_from(since(at, until).as_nanos().saturating_sub(1) / period.as_nanos()).unwrap_or(u64::MAX)
    });
    1 + up_to_now.min(before)
}

/// Returns the whole periods from `at` to the first probe that is not before `until`.
fn whole_periods(at: Timestamp, until: Timestamp, period: Duration) -> Duration {
    times(period, u64::try_from(since(at, until).as_nanos().div_ceil(period.as_nanos())).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + s).unwrap()
    }

    /// Counts probe by probe, as a kubelet does: the reference for `findings`.
    fn one_by_one(run: &ProbeRun<'_>, now: Timestamp) -> Findings {
        let period = seconds(run.spec.period_seconds, 10);
        let mut at = run.enabled_at.max(run.container_started_at + seconds(run.spec.initial_delay_seconds, 0));
        let (mut findings, mut last, mut in_a_row, mut number) = (Findings::default(), None, 0, 0);
        loop {
            let (outcome, _) = run.outcomes.at(since(run.container_started_at, at));
            let answer =
                at + if outcome == Outcome::Timeout { seconds(run.spec.timeout_seconds, 1) } else { Duration::ZERO };
            if answer > now {
                return findings;
            }
            let succeeds = outcome == Outcome::Success;
            (number, in_a_row) = (number + 1, if last == Some(succeeds) { in_a_row + 1 } else { 1 });
            last = Some(succeeds);
            findings.counts.add(succeeds, 1);
            findings.failing = (!succeeds).then_some(FailedProbe { number, outcome });
            if in_a_row == run.threshold(succeeds) {
                findings.result = Some((succeeds, answer));
                if run.ends_with(succeeds) {
                    return findings;
                }
            }
            at += period;
        }
    }

    #[test]
    fn counting_together_agrees_with_counting_one_by_one() {
        for story in [
            "ok",
            "fail",
            "timeout@7s",
            "fail, ok@20s",
            "ok, fail@33s, ok@61s",
            "flap 10s/5s",
            "flap 3s/2s",
            "flap 25s/40s",
        ] {
            let outcomes = Outcomes::parse(story).unwrap();
            for (delay, period, successes, failures) in [(0, 10, 1, 3), (5, 10, 3, 1), (2, 1, 2, 2), (30, 7, 1, 1)] {
                let spec = Probe {
                    initial_delay_seconds: Some(delay),
                    period_seconds: Some(period),
                    success_threshold: Some(successes),
                    failure_threshold: Some(failures),
                    timeout_seconds: Some(2),
                    ..Default::default()
                };
                for end in [ProbeEnd::Never, ProbeEnd::Failure, ProbeEnd::AnyResult] {
                    let run = ProbeRun {
                        spec: &spec,
                        outcomes: &outcomes,
                        container_started_at: at(0),
                        enabled_at: at(3),
                        end,
                    };
                    for now_s in 0..200 {
                        let findings = run.findings(at(now_s));
                        let shown = format!("{story} {spec:?} {end:?} at {now_s}: {findings:?}");
                        assert_eq!(Findings { next: None, ..findings }, one_by_one(&run, at(now_s)), "{shown}");
                        assert!(findings.next.is_none_or(|next| next > at(now_s)), "{shown}");
                        // Nothing changes before `next`.
                        let quiet_until = findings.next.unwrap_or(at(1000));
                        let before = Timestamp::from_second(quiet_until.as_second() - 1).unwrap();
                        let later = run.findings(before.max(at(now_s)));
                        let value = |findings: &Findings| findings.result.map(|(succeeds, _)| succeeds);
                        assert_eq!(value(&findings), value(&later), "{shown}");
                        assert!(later.failing.is_none() || later.failing == findings.failing, "{shown}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_probe_that_succeeds_for_ever_wakes_nobody() {
        let (spec, outcomes) = (Probe::default(), Outcomes::always(Outcome::Success));
        let run = ProbeRun {
            spec: &spec,
            outcomes: &outcomes,
            container_started_at: at(0),
            enabled_at: at(0),
            end: ProbeEnd::Never,
        };
        let findings = run.findings(at(1_000_000));
        let counts = ProbeCounts { successes: 100_001, failures: 0 };
        assert_eq!(findings, Findings { result: Some((true, at(0))), counts, ..Findings::default() });
    }
}
