//! `Groups`: which of a target's pods count, by their readiness and by whether they have a sample.
//!
//! Corresponds to groupPods in pkg/controller/podautoscaler/replica_calculator.go.

use super::samples::{PodSamples, Sample};
use controller_base::pod;
use jiff::{SignedDuration, Timestamp};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// How long after its start a pod's CPU says little about its load.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// Time in which a sample counts only if the pod was ready for all of its interval.
    pub cpu_initialization_period: Duration,
    /// Time in which a change to unready counts as the initial state of the pod, which was never ready then.
    pub initial_readiness_delay: Duration,
}

/// The names of a target's pods, and the number of those that count in full.
#[derive(Debug, Default, PartialEq)]
pub struct Groups<'a> {
    pub ready: usize,
    /// They count only if they would lessen a scale-up.
    pub unready: Vec<&'a str>,
    /// They have no sample, and count in the way that changes least.
    pub missing: Vec<&'a str>,
    /// They have ended or are being deleted.
    pub ignored: Vec<&'a str>,
}

impl<'a> Groups<'a> {
    /// `is_cpu` says that the samples are about CPU, which pods need most of while they start.
    pub fn of(pods: &'a [Arc<Pod>], samples: &PodSamples, is_cpu: bool, readiness: Readiness, now: Timestamp) -> Self {
        let mut groups = Self::default();
        for pod in pods {
            let name = pod.name();
            if !pod::is_active(pod) {
                groups.ignored.push(name);
            } else if pod::phase(pod) == "Pending" {
                groups.unready.push(name);
            } else {
                match samples.get(name) {
                    None => groups.missing.push(name),
                    Some(sample) if is_cpu && is_starting(pod, sample, readiness, now) => groups.unready.push(name),
                    Some(_) => groups.ready += 1,
                }
            }
        }
        groups
    }
}

/// Returns true if the sample may be from before the pod was ready for the first time.
fn is_starting(pod: &Pod, sample: &Sample, readiness: Readiness, now: Timestamp) -> bool {
    let started = pod::status(pod).and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let (Some(ready), Some(started)) = (pod::condition(pod, "Ready"), started) else { return true };
    let is_unready = ready.status == "False";
    let changed = ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0);
    if after(started, readiness.cpu_initialization_period) > now {
        is_unready || sample.taken_at.unwrap_or(Timestamp::MIN) < after(changed, sample.window)
    } else {
        is_unready && after(started, readiness.initial_readiness_delay) > changed
    }
}

fn after(time: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    time.saturating_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use controller_base::fixture::at;

    /// Returns the group of one pod that started at second 0, in a world with the default flags.
    fn group(ready: Option<(&str, i64)>, measured: Option<i64>, is_cpu: bool, now: i64) -> &'static str {
        let mut pod = fixture::pod("a");
        fixture::set_phase(&mut pod, "Running");
        pod.status.get_or_insert_default().start_time = Some(fixture::time(0));
        if let Some((status, since)) = ready {
            fixture::set_condition(&mut pod, "Ready", status, at(since));
        }
        group_of(pod, measured, is_cpu, now)
    }

    fn group_of(pod: Pod, measured: Option<i64>, is_cpu: bool, now: i64) -> &'static str {
        let sample = |second| Sample { milli: 1, taken_at: Some(at(second)), window: Duration::from_secs(30) };
        let samples = measured.map(|second| ("a".to_owned(), sample(second))).into_iter().collect();
        let readiness = Readiness {
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
        };
        let pods = [Arc::new(pod)];
        let groups = Groups::of(&pods, &samples, is_cpu, readiness, at(now));
        match (groups.ready, groups.unready.len(), groups.missing.len(), groups.ignored.len()) {
            (1, 0, 0, 0) => "ready",
            (0, 1, 0, 0) => "unready",
            (0, 0, 1, 0) => "missing",
            (0, 0, 0, 1) => "ignored",
            _ => "several",
        }
    }

    #[test]
    fn cpu_counts_once_it_was_measured_while_ready() {
        let cases = [
            // Ready condition, measured at, now => group
            (None, Some(400), 400, "unready"),
            // The pod is in its first 300 s. It became ready at 60, so an interval of 30 s is whole at 90.
            (Some(("True", 60)), Some(89), 100, "unready"),
            (Some(("True", 60)), Some(90), 100, "ready"),
            (Some(("False", 60)), Some(290), 299, "unready"),
            // Later only a pod that was never ready is left out: it turned unready within 30 s of its start.
            (Some(("False", 29)), Some(400), 400, "unready"),
            (Some(("False", 30)), Some(400), 400, "ready"),
            (Some(("True", 399)), Some(400), 400, "ready"),
            (Some(("True", 60)), None, 400, "missing"),
        ];
        for (ready, measured, now, expected) in cases {
            assert_eq!(group(ready, measured, true, now), expected, "{ready:?} {measured:?} {now}");
        }
        assert_eq!(group(None, Some(10), false, 10), "ready", "only CPU is high at the start");
    }

    #[test]
    fn pods_that_do_not_run_do_not_count() {
        let mut pod = fixture::pod("a");
        fixture::set_phase(&mut pod, "Pending");
        assert_eq!(group_of(pod.clone(), Some(1), false, 10), "unready");
        assert_eq!(group_of(pod.clone(), None, false, 10), "unready");
        fixture::set_phase(&mut pod, "Failed");
        assert_eq!(group_of(pod.clone(), Some(1), false, 10), "ignored");
        fixture::set_phase(&mut pod, "Running");
        pod.metadata.deletion_timestamp = Some(fixture::time(5));
        assert_eq!(group_of(pod, Some(1), false, 10), "ignored");
    }
}
