//! What each write does to a pod. Pure.
//!
//! Corresponds to what the API server and the kubelet write of a pod, as far as a scheduler reads it.

use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodCondition, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use proto::meta::node_taints::{NOT_READY, UNREACHABLE};
use proto::schema::defaults::apply_defaults;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Time for which a pod tolerates a node that is not ready or unreachable if it does not say so itself.
const TOLERATED_S: i64 = 300;
/// Time that a pod may take to stop if it does not say so itself.
const DEFAULT_GRACE_S: i64 = 30;
/// Priority policy of a pod that does not say so itself.
const PREEMPTS: &str = "PreemptLowerPriority";

/// Returns a time as objects have it: in whole seconds.
pub fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Returns a pod as the API server creates it: with defaults and what admission adds.
pub fn created(mut pod: Value, number: u64, now: Timestamp) -> Result<Pod, String> {
    apply_defaults(&Pod::gvk(), &mut pod);
    let mut pod = Pod::decode_value(pod).map_err(|error| error.to_string())?;
    pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    pod.metadata.uid = Some(format!("00000000-0000-4000-8000-{number:012x}"));
    pod.metadata.creation_timestamp = Some(time(now));
    pod.metadata.generation = Some(1);
    let spec = pod.spec.get_or_insert_default();
    spec.priority.get_or_insert(0);
    spec.preemption_policy.get_or_insert_with(|| PREEMPTS.to_owned());
    let tolerations = spec.tolerations.get_or_insert_default();
    for taint in [NOT_READY, UNREACHABLE] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            toleration.key.as_deref().is_none_or(|key| key.is_empty() || key == taint)
                && toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == "NoExecute")
        });
        if !is_tolerated {
            let default =
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S});
            tolerations.push(serde_json::from_value(default).map_err(|error| error.to_string())?);
        }
    }
    pod.status.get_or_insert_default().phase = Some("Pending".to_owned());
    Ok(pod)
}

/// Binds a pod. `annotations` are those of the Binding.
pub fn bind(pod: &mut Pod, node: &str, annotations: Option<&Map<String, Value>>, now: Timestamp) {
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    for (key, value) in annotations.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default().to_owned();
        pod.metadata.annotations.get_or_insert_default().insert(key.clone(), value);
    }
    set_condition(pod.status.get_or_insert_default(), "PodScheduled", "", now);
}

/// Notes that a kubelet has seen the pod.
pub fn admit(pod: &mut Pod, now: Timestamp) {
    pod.status.get_or_insert_default().start_time = Some(time(now));
}

/// Notes that all containers run.
pub fn start(pod: &mut Pod, now: Timestamp) {
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Running".to_owned());
    for condition in ["Initialized", "Ready", "ContainersReady"] {
        set_condition(status, condition, "", now);
    }
}

/// Notes that the pod has ended.
pub fn end(pod: &mut Pod, succeeded: bool) {
    pod.status.get_or_insert_default().phase = Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned());
}

/// Marks a pod that is to be gone.
pub fn delete(pod: &mut Pod, now: Timestamp) {
    let grace = grace(pod);
    pod.metadata.deletion_timestamp.get_or_insert(time(now + grace));
}

/// Returns how long a pod may take to stop.
pub fn grace(pod: &Pod) -> Duration {
    let grace_s = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE_S);
    Duration::from_secs(grace_s.unsigned_abs())
}

/// Returns when a deleted pod stops, with the time that its containers take to obey. They have been asked to stop at the moment
/// that the deletion says, which is a whole second.
pub fn stops_at(pod: &Pod, takes: Duration, now: Timestamp) -> Timestamp {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match &pod.metadata.deletion_timestamp {
        Some(deadline) if phase == Some("Running") => (deadline.0 - grace(pod) + takes.min(grace(pod))).max(now),
        _ => now,
    }
}

/// Adds the condition of a pod that loses its place, with the reason.
pub fn disrupt(pod: &mut Pod, reason: &str, now: Timestamp) {
    set_condition(pod.status.get_or_insert_default(), "DisruptionTarget", reason, now);
}

/// Returns how long the pod tolerates a node that nobody reaches; `None` if for ever.
pub fn tolerates_s(pod: &Pod) -> Option<i64> {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let concerns = tolerations.filter(|toleration| {
        toleration.key.as_deref().is_none_or(|key| key.is_empty() || key == UNREACHABLE)
            && toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == "NoExecute")
    });
    concerns.map(|toleration| toleration.toleration_seconds).min_by_key(|s| s.unwrap_or(i64::MAX)).unwrap_or(Some(0))
}

pub fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Merges a patch into a document: conditions by their type, and everything else as a merge patch does. Null removes.
pub fn merge(into: &mut Value, patch: &Value) {
    let (Some(fields), Some(changes)) = (into.as_object_mut(), patch.as_object()) else {
        into.clone_from(patch);
        return;
    };
    for (name, change) in changes {
        match change {
            Value::Null => drop(fields.remove(name)),
            Value::Array(items) if name == "conditions" => merge_conditions(fields, items),
            Value::Object(_) => merge(fields.entry(name.clone()).or_insert_with(|| json!({})), change),
            _ => drop(fields.insert(name.clone(), change.clone())),
        }
    }
}

fn merge_conditions(fields: &mut Map<String, Value>, changes: &[Value]) {
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    for change in changes {
        match conditions.iter_mut().find(|condition| condition["type"] == change["type"]) {
            Some(condition) => merge(condition, change),
            None => conditions.push(change.clone()),
        }
    }
}

fn set_condition(status: &mut PodStatus, type_: &str, reason: &str, now: Timestamp) {
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        last_transition_time: Some(time(now)),
        ..PodCondition::default()
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|known| known.type_ == type_) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Pod {
        created(json!({"metadata": {"name": "p"}, "spec": spec}), 1, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_new_pod_has_defaults_and_tolerations() {
        let new = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
        let spec = new.spec.clone().unwrap();
        assert_eq!((spec.priority, spec.scheduler_name.as_deref()), (Some(0), Some("default-scheduler")));
        assert_eq!((new.namespace(), tolerates_s(&new)), ("default", Some(300)));
    }

    #[test]
    fn what_a_pod_tolerates_itself_counts() {
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), None),
            (json!({"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}), Some(7)),
            (json!({"key": "other", "operator": "Exists"}), Some(300)),
        ] {
            assert_eq!(tolerates_s(&pod(json!({"containers": [], "tolerations": [toleration]}))), expected);
        }
    }

    #[test]
    fn conditions_merge_by_type() {
        let mut status =
            json!({"conditions": [{"type": "A", "status": "False", "reason": "x"}], "nominatedNodeName": "n"});
        let patch = json!({"conditions": [{"type": "A", "status": "True"}, {"type": "B"}], "nominatedNodeName": null});
        merge(&mut status, &patch);
        let conditions = json!([{"type": "A", "status": "True", "reason": "x"}, {"type": "B"}]);
        assert_eq!(status, json!({"conditions": conditions}));
    }
}
