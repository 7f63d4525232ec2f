//! The texts of a StatefulSet's events.
//!
//! Corresponds to recordPodEvent and recordClaimEvent in pkg/controller/statefulset/stateful_pod_control.go.

use client::Action;
use controller_base::actions;
use controller_base::pod_control::{EventTexts, Verb};
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;

/// The messages of events about pods that are created and deleted. A name that is already in use gets no event: the
/// next round sees the pod that has it.
pub const OF_PODS: EventTexts = EventTexts {
    succeeded: |verb, set, pod| succeeded(verb_of(verb), set, pod),
    failed: |verb, set, pod, cause| {
        let is_reported = !(verb == Verb::Create && cause.is_already_exists());
        is_reported.then(|| failed(verb_of(verb), set, pod, &cause.to_string()))
    },
};

fn verb_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "create",
        Verb::Delete => "delete",
    }
}

fn succeeded(verb: &str, set: &str, pod: &str) -> String {
    format!("{verb} Pod {pod} in StatefulSet {set} successful")
}

fn failed(verb: &str, set: &str, pod: &str, cause: &str) -> String {
    format!("{verb} Pod {pod} in StatefulSet {set} failed error: {cause}")
}

pub fn pod_create_failed(set: &StatefulSet, pod: &str, cause: &str) -> Action {
    actions::warning(set, "FailedCreate", failed("create", set.name(), pod, cause))
}

pub fn pod_updated(set: &StatefulSet, pod: &str) -> Action {
    actions::normal(set, "SuccessfulUpdate", succeeded("update", set.name(), pod))
}

pub fn pod_update_failed(set: &StatefulSet, pod: &str, cause: &str) -> Action {
    actions::warning(set, "FailedUpdate", failed("update", set.name(), pod, cause))
}

pub fn claim_created(set: &StatefulSet, claim: &str, pod: &str) -> Action {
    let message = format!("create Claim {claim} Pod {pod} in StatefulSet {} success", set.name());
    actions::normal(set, "SuccessfulCreate", message)
}

pub fn claim_create_failed(set: &StatefulSet, claim: &str, pod: &str, cause: &str) -> Action {
    let message = format!("create Claim {claim} for Pod {pod} in StatefulSet {} failed error: {cause}", set.name());
    actions::warning(set, "FailedCreate", message)
}

pub fn revision_create_failed(set: &StatefulSet, cause: &str) -> Action {
    actions::warning(set, "FailedCreate", format!("Error creating controller revision: {cause}"))
}

/// The message has Kubernetes' own spelling.
pub fn conflicting_controller(set: &StatefulSet, claim: &str) -> Action {
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the \
         retention policy is ignored for this claim"
    );
    actions::warning(set, "ConflictingController", message)
}
