//! A replica set's status: counts of its pods, and the condition ReplicaFailure.
//!
//! Corresponds to calculateStatus in pkg/controller/replicaset/replica_set_utils.go.

use super::observe::Observed;
use super::replicated::Replicated;
use client::{Action, ApplyError};
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};

pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The reason for which a pod could not be created or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub reason: &'static str,
    pub message: String,
}

impl Failure {
    /// Returns the failure of an action on a pod; `None` if the cause is that the namespace is terminating.
    pub fn of(error: &ApplyError) -> Option<Self> {
        let ApplyError { failed, cause, .. } = error;
        match failed {
            _ if cause.is_namespace_terminating() => None,
            Action::Delete { .. } => {
                Some(Self { reason: "FailedDelete", message: format!("unable to delete pods: {cause}") })
            }
            _ => Some(Self { reason: "FailedCreate", message: cause.to_string() }),
        }
    }
}

pub fn calculate<T: Replicated>(observed: &Observed<T>, failure: Option<&Failure>, now: Timestamp) -> ReplicaSetStatus {
    let (owner, counts) = (&*observed.owner, &observed.counts);
    let count = |count: usize| i32::try_from(count).expect("a replica set has fewer than 2^31 pods");
    let mut status = ReplicaSetStatus {
        replicas: count(counts.active),
        fully_labeled_replicas: present(count(counts.fully_labeled)),
        ready_replicas: present(count(counts.ready)),
        available_replicas: present(count(counts.available(owner.min_ready_seconds(), now))),
        terminating_replicas: i32::try_from(counts.terminating).ok(),
        observed_generation: owner.metadata().generation,
        conditions: owner.status().conditions,
    };
    set_failure_condition(&mut status, failure, now);
    status
}

/// Omits zero counts, as Kubernetes does.
fn present(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// Adds or removes the condition. A condition that is already there keeps its first failure.
fn set_failure_condition(status: &mut ReplicaSetStatus, failure: Option<&Failure>, now: Timestamp) {
    let is_set = status.conditions.iter().flatten().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        Some(failure) if !is_set => status.conditions.get_or_insert_default().push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(clock::stamp(now)),
        }),
        None if is_set => {
            let conditions = status.conditions.take().unwrap_or_default();
            let others: Vec<_> =
                conditions.into_iter().filter(|condition| condition.type_ != REPLICA_FAILURE).collect();
            status.conditions = (!others.is_empty()).then_some(others);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counts;
    use super::*;
    use controller_base::controller_ref::Claims;
    use controller_base::fixture;
    use controller_base::pod_state::{Activity, PodState};
    use proto::kinds::api::apps::v1::ReplicaSet;
    use std::sync::Arc;

    fn observed(min_ready_seconds: i32) -> Observed<ReplicaSet> {
        let mut owner = fixture::replica_set("web", "nginx:1", 3);
        owner.spec.as_mut().unwrap().min_ready_seconds = Some(min_ready_seconds);
        owner.metadata.generation = Some(4);
        let mut counts = Counts { ready_since: vec![fixture::at(0), fixture::at(95)], ..Counts::default() };
        for (pods, is_ready, app) in [(2, true, "web"), (1, false, "web"), (1, false, "other")] {
            let state = PodState { activity: Activity::Active, is_ready, labels: fixture::labels(&[("app", app)]) };
            counts.add(&owner, &state, pods);
        }
        counts.terminating = 2;
        let pods = Claims { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        Observed { owner: Arc::new(owner), counts, pods, related: Vec::new(), are_expectations_satisfied: true }
    }

    #[test]
    fn pods_are_counted() {
        let cases = [(0, Some(2)), (10, Some(1)), (1000, None)];
        for (min_ready_seconds, available) in cases {
            let status = calculate(&observed(min_ready_seconds), None, fixture::at(100));
            assert_eq!(status.replicas, 4);
            assert_eq!(status.fully_labeled_replicas, Some(3));
            assert_eq!(status.ready_replicas, Some(2));
            assert_eq!(status.available_replicas, available, "{min_ready_seconds}");
            assert_eq!(status.terminating_replicas, Some(2));
            assert_eq!(status.observed_generation, Some(4));
        }
    }

    #[test]
    fn failures_come_and_go() {
        let failure = |message: &str| Failure { reason: "FailedCreate", message: message.to_owned() };
        let mut observed = observed(0);
        let first = calculate(&observed, Some(&failure("quota")), fixture::at(1));
        let owner = Arc::get_mut(&mut observed.owner).unwrap();
        owner.set_status(first.clone());
        let again = calculate(&observed, Some(&failure("another")), fixture::at(2));
        assert_eq!(again.conditions, first.conditions, "the first failure stays");
        let gone = calculate(&observed, None, fixture::at(3));
        assert_eq!(gone.conditions, None);
    }
}
