//! The back-off: how long a job waits after failures before it creates the next pod.
//!
//! Corresponds to pkg/controller/job/backoff_utils.go. The failures are counted from the existing pods, so that a
//! restart of the controller does not shorten the wait.

use controller_base::{clock, pod};
use jiff::Timestamp;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

const INITIAL_S: i64 = 10;
const MAX_S: i64 = 600;

/// Returns the remaining back-off: 10 s, doubled with every failure since the last success, up to ten minutes.
pub fn remaining<'a>(ended: impl IntoIterator<Item = &'a Arc<Pod>>, now: Timestamp) -> Option<Duration> {
    let mut ends: Vec<(Timestamp, bool)> =
        ended.into_iter().map(|pod| (finished_at(pod), pod::phase(pod) == "Succeeded")).collect();
    ends.sort_unstable();
    let failures: Vec<Timestamp> =
        ends.iter().rev().take_while(|(_, succeeded)| !succeeded).map(|(at, _)| *at).collect();
    let last = failures.first()?;
    after(i32::try_from(failures.len()).unwrap_or(i32::MAX), *last, now)
}

/// Returns the remaining back-off after a number of failures, the last of them at `last`.
pub fn after(failures: i32, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = u32::try_from(failures - 1).ok()?.min(30);
    let delay_s = INITIAL_S.saturating_mul(1 << doublings).min(MAX_S);
    let left = clock::until(clock::after(last, delay_s), now);
    (!left.is_zero()).then_some(left)
}

/// Returns the time at which the last container ended, or else the best estimate.
pub fn finished_at(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let containers = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    let not_ready = pod::condition(pod, "Ready").filter(|ready| ready.status == "False");
    let known = ends.max().or_else(|| not_ready?.last_transition_time.clone());
    // The deletion timestamp is the end of the grace period, not its beginning.
    let deleted = || {
        let grace_s = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        pod.metadata.deletion_timestamp.as_ref().map(|time| clock::after(time.0, -grace_s))
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    known.map(|time| time.0).or_else(deleted).or_else(created).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn ended(phase: &str, second: i64) -> Arc<Pod> {
        let mut pod = fixture::pod("p");
        fixture::set_phase(&mut pod, phase);
        fixture::set_condition(&mut pod, "Ready", "False", fixture::at(second));
        Arc::new(pod)
    }

    #[test]
    fn waits_double_until_something_succeeds() {
        let failed = |seconds: &[i64]| seconds.iter().map(|second| ended("Failed", *second)).collect::<Vec<_>>();
        let cases = [
            (vec![], 100, None),
            (failed(&[100]), 100, Some(10)),
            (failed(&[100]), 106, Some(4)),
            (failed(&[100]), 110, None),
            (failed(&[50, 100]), 100, Some(20)),
            (failed(&[10, 50, 100]), 100, Some(40)),
            (failed(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), 10, Some(600)),
            ([failed(&[10, 50]), vec![ended("Succeeded", 60)], failed(&[100])].concat(), 100, Some(10)),
            ([failed(&[10, 50]), vec![ended("Succeeded", 60)]].concat(), 60, None),
        ];
        for (pods, second, expected) in cases {
            let left = remaining(&pods, fixture::at(second)).map(|left| left.as_secs());
            assert_eq!(left, expected, "{} pods at {second}", pods.len());
        }
    }
}
