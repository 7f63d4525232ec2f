//! Pods: their QoS class, their grace period, and the subresources that change parts of them.
//!
//! Corresponds to pkg/registry/core/pod.

pub mod binding;
pub mod eviction;
pub mod label_keys;

use super::rules::{Generation, Rules};
use crate::Grace;
use crate::validation::pod as validation;
use crate::validation::pod::{app_armor, qos};
use crate::validation::restore::restore;
use crate::write_context::WriteContext;
use proto::meta::time;
use serde_json::{Map, Value, json};

pub const ROW: Rules = Rules {
    resource: "pods",
    generation: Generation::Of(&["spec"]),
    create,
    update,
    update_status,
    validate: validation::pod,
    revalidates: false,
    validate_update: validation::update::pod,
    validate_status: validation::status::validate,
    warnings: validation::warnings::pod,
    canonicalize: app_armor::from_annotations,
    grace,
    status_resets: &[&["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    ..Rules::DEFAULT
};

fn create(context: &WriteContext<'_>, pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": qos::class(&pod["spec"])});
    let gates = pod["spec"].get("schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": time::format(context.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
    label_keys::apply(pod);
    // A negative grace period means one second, the shortest that is not an immediate kill.
    if let Some(grace) = pod.pointer_mut("/spec/terminationGracePeriodSeconds")
        && grace.as_i64().is_some_and(|s| s < 0)
    {
        *grace = json!(1);
    }
}

/// Keeps a write of a subresource to the fields of that subresource.
fn update(context: &WriteContext<'_>, pod: &mut Value, old: &Value) {
    match context.subresource {
        "ephemeralcontainers" => {
            let new = pod["spec"].get("ephemeralContainers").cloned();
            restore_except(pod, old, |spec| match new {
                Some(containers) => {
                    spec.insert("ephemeralContainers".to_owned(), containers);
                }
                None => {
                    spec.remove("ephemeralContainers");
                }
            });
        }
        "resize" => {
            let new = pod["spec"].clone();
            restore_except(pod, old, |spec| copy_resources(spec, &new));
        }
        _ => {}
    }
}

/// Restores the old pod except for `resourceVersion` and `managedFields`, and changes its spec.
fn restore_except(pod: &mut Value, old: &Value, change: impl FnOnce(&mut Map<String, Value>)) {
    let kept = ["resourceVersion", "managedFields"].map(|key| (key, pod["metadata"].get(key).cloned()));
    pod.clone_from(old);
    for (key, value) in kept {
        match value {
            Some(value) => pod["metadata"][key] = value,
            None => drop(pod["metadata"].as_object_mut().and_then(|meta| meta.remove(key))),
        }
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        change(spec);
    }
}

/// Copies the resources of the containers and of the pod, which the subresource `resize` changes.
fn copy_resources(spec: &mut Map<String, Value>, new: &Value) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let resized = new[list].as_array().into_iter().flatten().find(|c| c["name"] == container["name"]);
            let Some(resized) = resized else { continue };
            for key in ["resources", "resizePolicy"] {
                restore(container, resized, &[key]);
            }
        }
    }
    match new.get("resources") {
        Some(resources) => drop(spec.insert("resources".to_owned(), resources.clone())),
        None => drop(spec.remove("resources")),
    }
}

fn update_status(_context: &WriteContext<'_>, pod: &mut Value, old: &Value) {
    let status = &mut pod["status"];
    if status["qosClass"].as_str().is_none_or(str::is_empty)
        && let Some(class) = old.pointer("/status/qosClass")
    {
        status["qosClass"] = class.clone();
    }
    // Indexing a missing field leaves a null, which must not be stored.
    if status["qosClass"].is_null() {
        let _ = status.as_object_mut().map(|status| status.remove("qosClass"));
    }
}

/// Returns the grace period of the request, or that of the pod. Unscheduled and finished pods are removed at once.
fn grace(pod: &Value, requested_s: Option<i64>) -> Grace {
    let own = || pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut grace_period_s = requested_s.unwrap_or_else(own);
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Failed" | "Succeeded") {
        grace_period_s = 0;
    }
    if grace_period_s < 0 {
        grace_period_s = 1;
    }
    Grace::Period { grace_period_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_depends_on_where_a_pod_is() {
        let pod = |node: &str, phase: &str| json!({"spec":{"nodeName":node,"terminationGracePeriodSeconds":30},"status":{"phase":phase}});
        let cases = [
            (pod("", "Pending"), None, 0),
            (pod("n", "Running"), None, 30),
            (pod("n", "Running"), Some(5), 5),
            (pod("n", "Running"), Some(-5), 1),
            (pod("n", "Succeeded"), Some(5), 0),
        ];
        for (pod, requested_s, grace_period_s) in cases {
            assert_eq!(grace(&pod, requested_s), Grace::Period { grace_period_s });
        }
    }
}
