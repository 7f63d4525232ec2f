//! `Replicated`, the trait of ReplicaSet and ReplicationController: a template, a selector, a count and a status.
//!
//! Corresponds to pkg/controller/replication/conversion.go, which converts one into the other instead.

use proto::Kind;
use proto::kinds::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use proto::kinds::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use proto::meta::label_selector;
use proto::meta::selector::Selector;

/// A kind whose controller keeps a number of equal pods.
pub trait Replicated: Kind {
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> Option<&PodTemplateSpec>;
    /// Selects nothing if the selector is invalid.
    fn selector(&self) -> Selector;
    fn status(&self) -> ReplicaSetStatus;
    fn set_status(&mut self, status: ReplicaSetStatus);
}

impl Replicated for ReplicaSet {
    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn selector(&self) -> Selector {
        let selector = self.spec.as_ref().map(|spec| &spec.selector);
        label_selector::from_typed(selector).unwrap_or_else(|_| Selector::nothing())
    }

    fn status(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl Replicated for ReplicationController {
    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn selector(&self) -> Selector {
        let labels = self.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        if labels.is_empty() { Selector::nothing() } else { Selector::from_map(labels) }
    }

    fn status(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let conditions = status.conditions.map(|conditions| {
            conditions.into_iter().map(|condition| ReplicaSetCondition {
                type_: condition.type_,
                status: condition.status,
                reason: condition.reason,
                message: condition.message,
                last_transition_time: condition.last_transition_time,
            })
        });
        ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            terminating_replicas: None,
            conditions: conditions.map(Iterator::collect),
        }
    }

    /// Omits the number of terminating pods, which the status of a ReplicationController does not have.
    fn set_status(&mut self, status: ReplicaSetStatus) {
        let conditions = status.conditions.map(|conditions| {
            conditions.into_iter().map(|condition| ReplicationControllerCondition {
                type_: condition.type_,
                status: condition.status,
                reason: condition.reason,
                message: condition.message,
                last_transition_time: condition.last_transition_time,
            })
        });
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: conditions.map(Iterator::collect),
        });
    }
}
