//! Properties of a pod that controllers read: active, ready, available, restarts.
//!
//! Corresponds to pkg/controller/controller_utils.go and pkg/api/v1/pod.

use crate::clock;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};
use std::time::Duration;

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns true if the pod succeeded or failed: its containers will never run again.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns true if the pod is neither terminal nor being deleted: it counts as a replica.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !pod.is_deleting()
}

/// Returns true if the pod is being deleted and its containers may still run.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.is_deleting()
}

pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

pub fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

pub fn status(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns the time at which the pod became ready; `None` if it is not ready.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Returns true if the pod has been ready for at least `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds <= 0
            || ready_since(pod).is_some_and(|since| clock::after(since, min_ready_seconds.into()) <= now))
}

/// Returns the time until the next of these pods becomes available. Pods that are not ready do not count.
pub fn next_availability<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    pods.into_iter()
        .filter(|pod| !is_available(pod, min_ready_seconds, now))
        .filter_map(ready_since)
        .map(|since| clock::until(clock::after(since, min_ready_seconds.into()), now))
        .min()
}

/// Returns the highest restart count among regular containers, and the highest among restartable init containers.
pub fn max_restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let sidecars: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let regular = status.container_statuses.iter().flatten().map(|container| container.restart_count).max();
    let sidecar = status
        .init_container_statuses
        .iter()
        .flatten()
        .filter(|container| sidecars.contains(&container.name.as_str()))
        .map(|container| container.restart_count)
        .max();
    (regular.unwrap_or(0), sidecar.unwrap_or(0))
}

/// Returns the annotation `controller.kubernetes.io/pod-deletion-cost`; 0 if it is absent or not a number.
pub fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotations.as_ref().and_then(|all| all.get("controller.kubernetes.io/pod-deletion-cost"));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn availability_counts_from_the_ready_transition() {
        let now = fixture::at(100);
        let cases = [
            // ready since, min ready seconds, available, next check
            (None, 0, false, None),
            (Some(90), 0, true, None),
            (Some(90), 10, true, None),
            (Some(95), 10, false, Some(Duration::from_secs(5))),
        ];
        for (since, min_ready_seconds, available, next) in cases {
            let mut pod = fixture::pod("web");
            if let Some(since) = since {
                fixture::set_ready(&mut pod, fixture::at(since));
            }
            assert_eq!(is_available(&pod, min_ready_seconds, now), available, "{since:?} {min_ready_seconds}");
            assert_eq!(next_availability([&pod], min_ready_seconds, now), next, "{since:?} {min_ready_seconds}");
        }
    }

    #[test]
    fn ended_and_deleted_pods_are_not_active() {
        let mut pod = fixture::pod("web");
        assert!(is_active(&pod));
        fixture::set_phase(&mut pod, "Failed");
        assert!(!is_active(&pod) && !is_terminating(&pod));
        fixture::set_phase(&mut pod, "Running");
        pod.metadata.deletion_timestamp = Some(fixture::time(5));
        assert!(!is_active(&pod) && is_terminating(&pod));
    }
}
