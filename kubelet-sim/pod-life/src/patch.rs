//! The patch from a pod's stored status to the wanted one: only what differs, and only the kubelet's conditions.
//!
//! Corresponds to pkg/util/pod.PatchPodStatus and the kubelet's status manager.

use crate::conditions;
use serde_json::{Map, Value, json};

/// Returns a strategic merge patch for the `status` subresource; `None` when nothing differs. The uid is a
/// precondition: a later pod of the same name must not get this status.
pub fn status_patch(uid: &str, stored: &Value, wanted: &Value) -> Option<Value> {
    let nothing = Map::new();
    let (stored, wanted) = (stored.as_object().unwrap_or(&nothing), wanted.as_object().unwrap_or(&nothing));
    let mut changes = Map::new();
    for (field, value) in wanted.iter().filter(|(field, value)| stored.get(*field) != Some(value)) {
        if field == "conditions" {
            let changed = changed_conditions(stored.get(field), value);
            if !changed.is_empty() {
                changes.insert(field.clone(), Value::Array(changed));
            }
        } else {
            changes.insert(field.clone(), value.clone());
        }
    }
    for field in stored.keys().filter(|field| !wanted.contains_key(*field)) {
        changes.insert(field.clone(), Value::Null);
    }
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": changes}))
}

/// Returns the conditions that differ. They merge by type and field, so a field that a condition has lost is set to
/// null, and a condition that is gone is deleted by name.
fn changed_conditions(stored: Option<&Value>, wanted: &Value) -> Vec<Value> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let stored = list(stored);
    let owned = |c: &&Value| c["type"].as_str().is_some_and(conditions::is_owned);
    let shared = |c: &&Value| c["type"] == conditions::DISRUPTION_TARGET;
    let mut changed = Vec::new();
    for condition in list(Some(wanted)).iter().filter(|c| owned(c) || shared(c)) {
        let old = stored.iter().find(|c| c["type"] == condition["type"]);
        if old == Some(condition) {
            continue;
        }
        let mut condition = condition.clone();
        for field in old.and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if condition.get(field).is_none() {
                condition[field] = Value::Null;
            }
        }
        changed.push(condition);
    }
    for gone in stored.iter().filter(owned) {
        if !list(Some(wanted)).iter().any(|condition| condition["type"] == gone["type"]) {
            changed.push(json!({"$patch": "delete", "type": gone["type"]}));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
        let stored = json!({
            "phase": "Pending", "qosClass": "BestEffort", "hostIP": "172.18.0.2", "reason": "Evicted",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                {"type": "example.com/gate", "status": "False"},
                {"type": "PodResizePending", "status": "True"},
            ],
        });
        let wanted = json!({
            "phase": "Running", "qosClass": "BestEffort", "hostIP": "172.18.0.2",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True"},
                {"type": "example.com/gate", "status": "True"},
            ],
        });
        let patch = status_patch("u1", &stored, &wanted).unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "u1"}, "status": {
                "phase": "Running", "reason": null,
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": null},
                    {"$patch": "delete", "type": "PodResizePending"},
                ],
            }})
        );
        assert_eq!(status_patch("u1", &wanted, &wanted), None);
    }
}
