//! `PodState`: what a trial observes of a pod, read from its stored document or from the typed pod. Pure.

use super::stored::Stored;
use component_helpers::gpu_sharing::{GPU_INDEX, parse_places};
use experiments::workload::DEPLOYMENT;
use proto::kinds::api::core::v1::Pod;

/// Annotation with the time that containers run. A pod without it has no end.
pub const RUN_FOR: &str = "orrery.dev/run-for";

/// A pod at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    pub has_end: bool,
    /// The Deployment of the workload that it is of, as `namespace/name`.
    pub deployment: Option<String>,
    pub is_ready: bool,
    pub node: Option<String>,
    /// Places of the GPUs that the policy chose.
    pub gpus: Vec<u32>,
    pub phase: String,
    /// True once the pod is being deleted.
    pub is_leaving: bool,
    /// Message of the condition that no node was found.
    pub unscheduled: Option<String>,
    /// Reason of the condition that the pod loses its place.
    pub disrupted: Option<String>,
}

impl PodState {
    pub fn of_stored(pod: &Stored) -> Self {
        let annotation = |name: &str| pod.metadata.annotations.get(name).map(String::as_str);
        let label = pod.metadata.labels.get(DEPLOYMENT);
        Self {
            has_end: annotation(RUN_FOR).is_some(),
            deployment: deployment(pod.metadata.namespace.as_deref(), label.map(String::as_str)),
            is_ready: pod.is_ready(),
            node: pod.spec.node_name.clone(),
            gpus: places(annotation(GPU_INDEX)),
            phase: pod.status.phase.clone(),
            is_leaving: pod.metadata.deletion_timestamp.is_some(),
            unscheduled: pod.condition("PodScheduled", "False").map(|condition| condition.message.clone()),
            disrupted: pod.condition("DisruptionTarget", "True").map(|condition| condition.reason.clone()),
        }
    }

    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let condition = |of_type: &str, is: &str| {
            let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.find(|condition| condition.type_ == of_type && condition.status == is)
        };
        let annotations = pod.metadata.annotations.as_ref();
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(DEPLOYMENT));
        Self {
            has_end: annotations.is_some_and(|annotations| annotations.contains_key(RUN_FOR)),
            deployment: deployment(pod.metadata.namespace.as_deref(), label.map(String::as_str)),
            is_ready: condition("Ready", "True").is_some(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            gpus: places(annotations.and_then(|annotations| annotations.get(GPU_INDEX)).map(String::as_str)),
            phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
            is_leaving: pod.metadata.deletion_timestamp.is_some(),
            unscheduled: condition("PodScheduled", "False").map(|it| it.message.clone().unwrap_or_default()),
            disrupted: condition("DisruptionTarget", "True").map(|it| it.reason.clone().unwrap_or_default()),
        }
    }
}

/// Returns the name of the Deployment that a label names.
fn deployment(namespace: Option<&str>, label: Option<&str>) -> Option<String> {
    Some(format!("{}/{}", namespace.unwrap_or("default"), label?))
}

/// Reads the annotation with the places of GPUs.
fn places(chosen: Option<&str>) -> Vec<u32> {
    parse_places(chosen.unwrap_or_default()).into_iter().filter_map(|place| u32::try_from(place).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::json;

    #[test]
    fn both_forms_of_a_pod_show_the_same() {
        let conditions = json!([
            {"type": "PodScheduled", "status": "False", "message": "no room"},
            {"type": "DisruptionTarget", "status": "True", "reason": "Why"},
            {"type": "Ready", "status": "True"},
        ]);
        for pod in [
            json!({"metadata": {"name": "p"}}),
            json!({
                "metadata": {"annotations": {RUN_FOR: "1s", GPU_INDEX: "0-2"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "namespace": "shop", "labels": {DEPLOYMENT: "web"}},
                "spec": {"nodeName": "n", "containers": []},
                "status": {"phase": "Running", "conditions": conditions},
            }),
        ] {
            let stored = Stored::read(pod.to_string().as_bytes()).unwrap();
            assert_eq!(PodState::of(&Pod::decode_value(pod).unwrap()), PodState::of_stored(&stored));
        }
    }
}
