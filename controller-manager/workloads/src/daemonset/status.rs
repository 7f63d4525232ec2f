//! A DaemonSet's status: counts of nodes.
//!
//! Corresponds to updateDaemonSetStatus and storeDaemonSetStatus in pkg/controller/daemon/daemon_controller.go.

use super::daemon_pod::is_updated;
use super::node_pods::NodePods;
use super::observe::{Observed, min_ready_seconds};
use controller_base::pod;
use jiff::Timestamp;
use proto::kinds::api::apps::v1::DaemonSetStatus;

/// Counts nodes by the oldest pod on them. The status has observed the generation only if pods could be created and
/// deleted in this round.
pub fn calculate(observed: &Observed, nodes: &[NodePods<'_>], hash: &str, now: Timestamp) -> DaemonSetStatus {
    let set = &*observed.set;
    let (mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0, 0);
    // Absent nodes do not count.
    for node in nodes.iter().filter(|node| node.decision.is_some()) {
        let oldest = node.pods.first();
        if !node.runs() {
            misscheduled += i32::from(oldest.is_some());
            continue;
        }
        desired += 1;
        let Some(oldest) = oldest else { continue };
        current += 1;
        ready += i32::from(pod::is_ready(oldest));
        available += i32::from(pod::is_available(oldest, min_ready_seconds(set), now));
        updated += i32::from(is_updated(oldest, hash, set));
    }
    let before = set.status.clone().unwrap_or_default();
    let observed_generation =
        if observed.are_expectations_satisfied { set.metadata.generation } else { before.observed_generation };
    DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misscheduled,
        number_ready: ready,
        updated_number_scheduled: present(updated),
        number_available: present(available),
        number_unavailable: present(desired - available),
        observed_generation,
        collision_count: before.collision_count,
        conditions: before.conditions,
    }
}

/// Omits zero counts, as Kubernetes does.
fn present(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, observed, pod};
    use super::super::node_pods::group;
    use super::*;
    use controller_base::fixture;

    #[test]
    fn nodes_are_counted_by_their_oldest_pod() {
        let mut set = daemon_set("logs", "nginx:1");
        set.spec.as_mut().unwrap().min_ready_seconds = Some(10);
        set.metadata.generation = Some(3);
        set.status = Some(DaemonSetStatus { observed_generation: Some(2), ..DaemonSetStatus::default() });
        let mut oldest = pod("z", "n1", "old ready");
        oldest.metadata.creation_timestamp = Some(fixture::time(-9));
        let pods = vec![
            oldest,
            pod("a", "n1", "new"),
            pod("b", "n2", "new fresh"),
            pod("c", "n3", "new"),
            pod("d", "n5", "new ready"),
            pod("e", "gone", "new ready"),
        ];
        let mut observed = observed(set, &["n1", "n2", "n3", "n4", "n5!", "n6!"], pods);
        let nodes = group(&observed);
        let mut expected = DaemonSetStatus {
            desired_number_scheduled: 4,
            current_number_scheduled: 3,
            number_misscheduled: 1,
            number_ready: 2,
            updated_number_scheduled: Some(2),
            number_available: Some(1),
            number_unavailable: Some(3),
            observed_generation: Some(3),
            ..DaemonSetStatus::default()
        };
        assert_eq!(calculate(&observed, &nodes, "new", fixture::at(105)), expected);
        drop(nodes);
        observed.are_expectations_satisfied = false;
        let nodes = group(&observed);
        expected.observed_generation = Some(2);
        expected.number_available = Some(2);
        expected.number_unavailable = Some(2);
        assert_eq!(calculate(&observed, &nodes, "new", fixture::at(110)), expected);
    }
}
