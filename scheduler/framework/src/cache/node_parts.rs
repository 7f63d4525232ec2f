//! The parts of a Node that scheduling reads. A kubelet writes the others each time it reports.
//!
//! Corresponds to nodeSchedulingPropertiesChange of pkg/scheduler. Annotations, images and the rest of a condition belong to the
//! parts here too, because plugins may read them.

use proto::kinds::api::core::v1::{Node, NodeCondition, NodeStatus};
use proto::kinds::metav1::ObjectMeta;

/// Returns true if filters, scores and counts find the same in both states of a node, and the node stays in its place in a
/// snapshot.
pub fn are_same(old: &Node, new: &Node) -> bool {
    let (Node { metadata, spec, status }, Node { metadata: new_metadata, spec: new_spec, status: new_status }) =
        (old, new);
    spec == new_spec
        && is_same_metadata(metadata, new_metadata)
        && match (status, new_status) {
            (Some(status), Some(new_status)) => is_same_status(status, new_status),
            (status, new_status) => status.is_none() && new_status.is_none(),
        }
}

fn is_same_metadata(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.name == new.name
        && old.uid == new.uid
        && old.creation_timestamp == new.creation_timestamp
        && old.deletion_timestamp == new.deletion_timestamp
        && old.labels == new.labels
        && old.annotations == new.annotations
        && old.owner_references == new.owner_references
}

fn is_same_status(old: &NodeStatus, new: &NodeStatus) -> bool {
    // A new field of the API has to be named here, so that it is not forgotten.
    let NodeStatus {
        addresses,
        allocatable,
        capacity,
        conditions,
        config: _,
        daemon_endpoints: _,
        declared_features,
        features,
        images,
        node_info,
        phase: _,
        runtime_handlers,
        volumes_attached: _,
        volumes_in_use: _,
    } = old;
    *allocatable == new.allocatable
        && *capacity == new.capacity
        && *declared_features == new.declared_features
        && *features == new.features
        && *runtime_handlers == new.runtime_handlers
        && *addresses == new.addresses
        && *node_info == new.node_info
        && are_same_conditions(conditions.as_deref(), new.conditions.as_deref())
        && *images == new.images
}

/// Compares conditions without the times of heartbeats.
fn are_same_conditions(old: Option<&[NodeCondition]>, new: Option<&[NodeCondition]>) -> bool {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let is_same = |(old, new): (&NodeCondition, &NodeCondition)| {
        let NodeCondition { last_heartbeat_time: _, last_transition_time, message, reason, status, type_ } = old;
        *type_ == new.type_
            && *status == new.status
            && *reason == new.reason
            && *message == new.message
            && *last_transition_time == new.last_transition_time
    };
    old.len() == new.len() && old.iter().zip(new).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::merge;
    use proto::Kind;
    use serde_json::{Value, json};

    fn node(changed: &Value) -> Node {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"});
        let mut node = json!({
            "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "5"}, "conditions": [ready]},
        });
        merge(&mut node, changed.clone());
        Node::decode_value(node).unwrap()
    }

    #[test]
    fn what_a_heartbeat_writes_is_not_read() {
        let ready =
            |status: &str| json!({"type": "Ready", "status": status, "lastHeartbeatTime": "2030-01-01T00:05:00Z"});
        for (changed, expected) in [
            (json!({}), true),
            (json!({"metadata": {"resourceVersion": "2", "managedFields": [{"manager": "kubelet"}]}}), true),
            (json!({"status": {"conditions": [ready("True")]}}), true),
            (json!({"status": {"volumesInUse": ["a"], "volumesAttached": [{"name": "a", "devicePath": ""}]}}), true),
            (json!({"status": {"conditions": [ready("False")]}}), false),
            (json!({"status": {"conditions": []}}), false),
            (json!({"status": {"allocatable": {"cpu": "3"}}}), false),
            (json!({"status": {"capacity": {"cpu": "3"}}}), false),
            (json!({"status": {"images": [{"names": ["i"], "sizeBytes": 1}]}}), false),
            (json!({"status": {"declaredFeatures": ["F"]}}), false),
            (json!({"status": null}), false),
            (json!({"spec": {"unschedulable": true}}), false),
            (json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), false),
            (json!({"metadata": {"labels": {"a": "c"}}}), false),
            (json!({"metadata": {"annotations": {"c": "e"}}}), false),
            (json!({"metadata": {"uid": "another"}}), false),
        ] {
            assert_eq!(are_same(&node(&json!({})), &node(&changed)), expected, "{changed}");
        }
    }
}
