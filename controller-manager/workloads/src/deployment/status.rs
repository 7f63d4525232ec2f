//! A deployment's status: counts over its replica sets, and the condition Available.
//!
//! Corresponds to calculateStatus in pkg/controller/deployment/sync.go.

use super::sizes;
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};

pub const AVAILABLE: &str = "Available";
pub const PROGRESSING: &str = "Progressing";
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Returns the status. `all` has the old replica sets and the new one.
pub fn calculate(
    deployment: &Deployment,
    all: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    now: Timestamp,
) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let sum = |of: fn(&ReplicaSet) -> i32| all.iter().map(|replica_set| of(replica_set)).sum::<i32>();
    let available = sum(sizes::available);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: count(sum(sizes::actual)),
        updated_replicas: count(new.map_or(0, sizes::actual)),
        ready_replicas: count(sum(ready)),
        available_replicas: count(available),
        unavailable_replicas: count((sum(sizes::size) - available).max(0)),
        terminating_replicas: terminating(all),
        collision_count: before.collision_count,
        conditions: before.conditions,
    };
    let condition = if available >= sizes::min_available(deployment) {
        condition_of(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.".to_owned(),
            now,
        )
    } else {
        let message = "Deployment does not have minimum availability.".to_owned();
        condition_of(AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)
    };
    set_condition(&mut status, condition);
    status
}

/// Omits zero counts, as Kubernetes does.
fn count(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn ready(replica_set: &ReplicaSet) -> i32 {
    replica_set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

/// Returns the number of terminating pods; `None` if a replica set does not report it.
fn terminating(all: &[&ReplicaSet]) -> Option<i32> {
    all.iter().map(|replica_set| replica_set.status.as_ref()?.terminating_replicas).sum()
}

pub fn condition_of(type_: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(clock::stamp(now)),
        last_transition_time: Some(clock::stamp(now)),
    }
}

pub fn find_condition<'a>(status: Option<&'a DeploymentStatus>, type_: &str) -> Option<&'a DeploymentCondition> {
    status?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Adds or replaces a condition. If status and reason are the same, it stays unchanged. If only the status is the same,
/// the transition time stays.
pub fn set_condition(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(current) = find_condition(Some(status), &condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time.clone();
        }
    }
    remove_condition(status, &condition.type_);
    status.conditions.get_or_insert_default().push(condition);
}

pub fn remove_condition(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn replica_set(name: &str, size: i32, actual: i32, ready: i32, available: i32) -> ReplicaSet {
        let mut replica_set = fixture::replica_set(name, "nginx:1", size);
        let status = replica_set.status.as_mut().unwrap();
        status.replicas = actual;
        status.ready_replicas = Some(ready);
        status.available_replicas = Some(available);
        replica_set
    }

    #[test]
    fn counts_are_sums_over_replica_sets() {
        let deployment = fixture::deployment(10, "3", "2");
        let (old, new) = (replica_set("old", 8, 8, 7, 6), replica_set("new", 5, 4, 3, 1));
        let status = calculate(&deployment, &[&old, &new], Some(&new), fixture::at(9));
        assert_eq!(status.replicas, Some(12));
        assert_eq!(status.updated_replicas, Some(4));
        assert_eq!(status.ready_replicas, Some(10));
        assert_eq!(status.available_replicas, Some(7));
        assert_eq!(status.unavailable_replicas, Some(6));
        assert_eq!(status.observed_generation, Some(1));
        let condition = find_condition(Some(&status), AVAILABLE).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref()),
            ("False", Some("MinimumReplicasUnavailable"))
        );
    }

    #[test]
    fn availability_changes_at_the_minimum() {
        for (available, expected) in [(7, "False"), (8, "True"), (10, "True")] {
            let deployment = fixture::deployment(10, "3", "2");
            let new = replica_set("new", 10, 10, 10, available);
            let status = calculate(&deployment, &[&new], Some(&new), fixture::at(9));
            assert_eq!(find_condition(Some(&status), AVAILABLE).unwrap().status, expected, "{available} of 10");
        }
    }

    #[test]
    fn conditions_keep_their_times() {
        let mut status = DeploymentStatus::default();
        let set = |status: &mut DeploymentStatus, value: &str, reason: &str, second: i64| {
            set_condition(status, condition_of(PROGRESSING, value, reason, String::new(), fixture::at(second)));
            let condition = find_condition(Some(status), PROGRESSING).unwrap();
            let seconds = |time: &Option<proto::kinds::metav1::Time>| {
                time.as_ref().unwrap().0.as_second() - fixture::at(0).as_second()
            };
            (seconds(&condition.last_update_time), seconds(&condition.last_transition_time))
        };
        assert_eq!(set(&mut status, "True", "A", 1), (1, 1));
        assert_eq!(set(&mut status, "True", "A", 2), (1, 1), "same status and reason");
        assert_eq!(set(&mut status, "True", "B", 3), (3, 1), "same status, another reason");
        assert_eq!(set(&mut status, "False", "B", 4), (4, 4), "another status");
    }
}
