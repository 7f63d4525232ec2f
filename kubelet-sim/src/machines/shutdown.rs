//! Which pods a machine stops first when it shuts down, and how long it waits for them.
//!
//! Corresponds to pkg/kubelet/nodeshutdown.

use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// Reason and message of pods that end because their node shuts down.
pub const REASON: &str = "Terminated";
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// Reason and message of pods that come to a node that shuts down.
pub const REJECTED: &str = "NodeShutdown";
pub const REJECTED_MESSAGE: &str = "Pod was rejected as the node is shutting down.";
/// Why the node is not ready meanwhile.
pub const NOT_READY: &str = "node is shutting down";

/// The priority of pods that the cluster cannot do without.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// How long pods of at least this priority are waited for, and less than that of the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriod {
    pub priority: i32,
    pub period: Duration,
}

/// Returns the groups of the two settings of a KubeletConfiguration: a whole period, the last part of which is for
/// critical pods. None when there is no whole period: then a machine stops at once.
pub fn groups_of(whole: Duration, critical: Duration) -> Vec<GracePeriod> {
    match whole.checked_sub(critical) {
        None => Vec::new(),
        Some(_) if whole.is_zero() => Vec::new(),
        Some(ordinary) => vec![
            GracePeriod { priority: 0, period: ordinary },
            GracePeriod { priority: SYSTEM_CRITICAL_PRIORITY, period: critical },
        ],
    }
}

/// The pods that are stopped together.
#[derive(Clone, Debug)]
pub struct ShutdownGroup {
    pub period: Duration,
    pub pods: Vec<Arc<Pod>>,
}

/// Returns the pods in the order in which they are stopped, without groups that have none. A pod is in the last group
/// whose priority is not above its own, and otherwise in the first.
pub fn plan(periods: &[GracePeriod], pods: &[Arc<Pod>]) -> Vec<ShutdownGroup> {
    let mut periods = periods.to_vec();
    periods.sort_by_key(|group| group.priority);
    let group = |group: &GracePeriod| ShutdownGroup { period: group.period, pods: Vec::new() };
    let mut groups: Vec<ShutdownGroup> = periods.iter().map(group).collect();
    for pod in pods {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let at = periods.partition_point(|group| group.priority <= priority).saturating_sub(1);
        if let Some(group) = groups.get_mut(at) {
            group.pods.push(pod.clone());
        }
    }
    groups.retain(|group| !group.pods.is_empty());
    groups
}

/// Returns the grace period of a pod that is stopped: its own, if that is not longer than its group's.
pub fn grace_of(pod: &Pod, period: Duration) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let own = own.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    own.map_or(period, |own| own.min(period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::json;

    fn pod(name: &str, priority: i32, grace_s: u64) -> Arc<Pod> {
        let spec = json!({"priority": priority, "terminationGracePeriodSeconds": grace_s});
        Arc::new(Pod::decode_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    fn names(groups: &[ShutdownGroup]) -> Vec<(u64, Vec<&str>)> {
        let of = |group: &'_ ShutdownGroup| group.period.as_secs();
        groups.iter().map(|group| (of(group), group.pods.iter().map(|pod| pod.name()).collect())).collect()
    }

    #[test]
    fn ordinary_pods_stop_before_critical_ones() {
        let pods = [pod("web", 0, 30), pod("low", -5, 30), pod("dns", SYSTEM_CRITICAL_PRIORITY + 1_000, 30)];
        let groups = groups_of(Duration::from_secs(30), Duration::from_secs(10));
        assert_eq!(names(&plan(&groups, &pods)), [(20, vec!["web", "low"]), (10, vec!["dns"])]);
        assert_eq!(names(&plan(&groups, &pods[2..])), [(10, vec!["dns"])], "nobody waits for groups without pods");
        assert_eq!(groups_of(Duration::ZERO, Duration::ZERO), []);
        assert_eq!(groups_of(Duration::from_secs(5), Duration::from_secs(10)), []);
    }

    #[test]
    fn a_pod_is_in_the_group_below_its_priority() {
        let group = |priority, seconds| GracePeriod { priority, period: Duration::from_secs(seconds) };
        let groups = [group(100_000, 10), group(0, 60), group(10_000, 180)];
        let pods =
            [pod("a", 100_000, 1), pod("b", 99_999, 1), pod("c", 10_000, 1), pod("d", 9_999, 1), pod("e", -1, 1)];
        let expected = [(60, vec!["d", "e"]), (180, vec!["b", "c"]), (10, vec!["a"])];
        assert_eq!(names(&plan(&groups, &pods)), expected);
    }

    #[test]
    fn the_shorter_grace_counts() {
        let period = Duration::from_secs(20);
        assert_eq!(grace_of(&pod("a", 0, 5), period).as_secs(), 5);
        assert_eq!(grace_of(&pod("a", 0, 30), period).as_secs(), 20);
    }
}
