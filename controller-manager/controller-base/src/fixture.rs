//! Builds the small objects that tests of controllers use.
//!
//! Corresponds to the newDeployment/newReplicaSet/newPod functions of Kubernetes' controller tests.

use jiff::Timestamp;
use proto::Kind;
use proto::kinds::IntOrString;
use proto::kinds::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
    RollingUpdateDeployment,
};
use proto::kinds::api::core::v1::{Container, Node, NodeCondition, Pod, PodCondition, PodSpec, PodTemplateSpec};
use proto::kinds::metav1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use std::collections::BTreeMap;

/// Returns a time in seconds after the tests' epoch.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("a few seconds are no limit")
}

pub fn time(second: i64) -> Time {
    Time(at(second))
}

pub fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        uid: Some(format!("uid-{name}")),
        creation_timestamp: Some(time(0)),
        resource_version: Some("1".to_owned()),
        generation: Some(1),
        ..ObjectMeta::default()
    }
}

pub fn pod(name: &str) -> Pod {
    let spec = PodSpec {
        containers: vec![Container { name: "main".to_owned(), ..Container::default() }],
        ..PodSpec::default()
    };
    Pod { metadata: meta(name), spec: Some(spec), ..Pod::default() }
}

pub fn set_phase(pod: &mut Pod, phase: &str) {
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
}

pub fn set_ready(pod: &mut Pod, since: Timestamp) {
    set_condition(pod, "Ready", "True", since);
}

pub fn set_condition(pod: &mut Pod, type_: &str, status: &str, since: Timestamp) {
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(Time(since)),
        ..PodCondition::default()
    };
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|other| other.type_ != type_);
    conditions.push(condition);
}

pub fn template(image: &str) -> PodTemplateSpec {
    let container = Container { name: "main".to_owned(), image: Some(image.to_owned()), ..Container::default() };
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(&[("app", "web")])), ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
    }
}

/// Parses `3` or `25%`.
pub fn int_or_percent(text: &str) -> IntOrString {
    match text.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String(text.to_owned()),
    }
}

pub fn deployment(replicas: i32, max_surge: &str, max_unavailable: &str) -> Deployment {
    let rolling = RollingUpdateDeployment {
        max_surge: Some(int_or_percent(max_surge)),
        max_unavailable: Some(int_or_percent(max_unavailable)),
    };
    Deployment {
        metadata: meta("web"),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels(&[("app", "web")])), ..LabelSelector::default() },
            template: template("nginx:1"),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(rolling),
            }),
            revision_history_limit: Some(10),
            progress_deadline_seconds: Some(600),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Returns a replica set of the deployment `web`. All its pods are available.
pub fn replica_set(name: &str, image: &str, replicas: i32) -> ReplicaSet {
    let mut metadata = meta(name);
    metadata.owner_references = Some(vec![owner("apps/v1", "Deployment", "web", true)]);
    metadata.labels = Some(labels(&[("app", "web")]));
    ReplicaSet {
        metadata,
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels(&[("app", "web")])), ..LabelSelector::default() },
            template: Some(template(image)),
            ..ReplicaSetSpec::default()
        }),
        status: Some(ReplicaSetStatus {
            replicas,
            ready_replicas: Some(replicas),
            available_replicas: Some(replicas),
            observed_generation: Some(1),
            ..ReplicaSetStatus::default()
        }),
    }
}

/// Returns a reference to an object whose metadata `meta` made.
pub fn owner(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        controller: controller.then_some(true),
        block_owner_deletion: controller.then_some(true),
    }
}

pub fn annotate<K: Kind>(object: &mut K, pairs: &[(&str, &str)]) {
    object.metadata_mut().annotations.get_or_insert_default().extend(labels(pairs));
}

pub fn node(name: &str) -> Node {
    let mut metadata = meta(name);
    metadata.namespace = None;
    Node { metadata, ..Node::default() }
}

/// Sets a condition whose heartbeat and transition are at `second`.
pub fn set_node_condition(node: &mut Node, type_: &str, status: &str, second: i64) {
    let condition = NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_heartbeat_time: Some(time(second)),
        last_transition_time: Some(time(second)),
        ..NodeCondition::default()
    };
    let conditions = node.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|other| other.type_ != type_);
    conditions.push(condition);
}
