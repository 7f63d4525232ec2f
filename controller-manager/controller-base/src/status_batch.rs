//! Lets a controller's rounds wait for each other's events, while the statuses of many of an owner's pods change.
//!
//! Corresponds to podUpdateBatchPeriod of pkg/controller/job/job_controller.go, which the Job controller alone has there.

use crate::pod::is_active;
use client::Event;
use proto::kinds::api::core::v1::Pod;
use std::time::Duration;

/// Time for each further pod in which a round waits for more pods whose status changes, up to a second.
///
/// Deviation: Kubernetes counts the pods after each status, and so writes the status of a replica set or DaemonSet, and then
/// that of a deployment, about once for every pod that starts. Its Job controller waits for a second, too.
const BATCH_PER_POD: Duration = Duration::from_millis(50);
const LONGEST_BATCH: Duration = Duration::from_secs(1);

/// Returns how long a round over an owner of so many pods may wait after a pod's event for others like it. A pod that comes,
/// goes, ends or changes hands waits for nothing.
pub fn delay(event: &Event<Pod>, pods: i32) -> Duration {
    let is_about_status = match event {
        Event::Updated { old, new } => {
            is_active(old) == is_active(new)
                && old.metadata.labels == new.metadata.labels
                && old.metadata.owner_references == new.metadata.owner_references
        }
        Event::Added(_) | Event::Deleted(_) => false,
    };
    let others = u32::try_from(pods.saturating_sub(1)).unwrap_or(0);
    if is_about_status { BATCH_PER_POD.saturating_mul(others).min(LONGEST_BATCH) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::sync::Arc;

    #[test]
    fn only_statuses_of_many_pods_wait_for_each_other() {
        let (pod, mut ready) = (fixture::pod("a"), fixture::pod("a"));
        fixture::set_ready(&mut ready, fixture::at(1));
        let (mut ended, mut released) = (ready.clone(), ready.clone());
        fixture::set_phase(&mut ended, "Failed");
        released.metadata.labels = Some(fixture::labels(&[("app", "other")]));
        let updated = |new: &Pod| Event::Updated { old: Arc::new(pod.clone()), new: Arc::new(new.clone()) };
        for (event, replicas, expected_ms) in [
            (updated(&ready), 1, 0),
            (updated(&ready), 3, 100),
            (updated(&ready), 5_000, 1_000),
            (updated(&ready), 0, 0),
            (updated(&ended), 5_000, 0),
            (updated(&released), 5_000, 0),
            (Event::Added(Arc::new(pod.clone())), 5_000, 0),
            (Event::Deleted(Arc::new(pod.clone())), 5_000, 0),
        ] {
            assert_eq!(delay(&event, replicas), Duration::from_millis(expected_ms), "{event:?}, {replicas}");
        }
    }
}
