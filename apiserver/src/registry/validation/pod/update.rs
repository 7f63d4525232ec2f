//! What may change in a pod that exists, and through which subresource.
//!
//! Corresponds to ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodEphemeralContainersUpdate and
//! ValidatePodResize.

use super::{pod_content, tolerations};
use crate::registry::strategies::pod::qos;
use crate::registry::strategy::WriteContext;
use crate::registry::validation::at::{At, Errors, check_ip};
use crate::registry::validation::difference::difference;
use proto::meta::names;
use serde_json::{Value, json};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn pod(context: &WriteContext<'_>, pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    match context.subresource {
        "binding" | "eviction" => {}
        "ephemeralcontainers" => {
            pod_content(pod, errors);
            ephemeral(pod, old, errors);
        }
        "resize" => {
            pod_content(pod, errors);
            resize(pod, old, errors);
        }
        _ => {
            pod_content(pod, errors);
            content(&pod.field("spec"), &old.field("spec"), errors);
        }
    }
}

fn content(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for (list, what) in [("containers", "containers"), ("initContainers", "containers")] {
        let (new, before) = (spec.field(list), old.field(list));
        if new.len() != before.len() {
            errors.push(new.forbidden(format!("pod updates may not add or remove {what}")));
            return;
        }
        for container in new.items().filter(|container| container.field("image").is_empty()) {
            errors.push(container.field("image").required(""));
        }
    }
    if !deadline(&spec.field("activeDeadlineSeconds"), &old.field("activeDeadlineSeconds"), errors) {
        return;
    }
    added_tolerations(&spec.field("tolerations"), &old.field("tolerations"), errors);
    removed_gates(&spec.field("schedulingGates"), &old.field("schedulingGates"), errors);
    let mut munged = spec.value.clone();
    take_back_what_may_change(&mut munged, old, errors, spec);
    if munged != *old.value {
        let difference = difference(old.value, &munged);
        errors.push(spec.forbidden(format!("pod updates may not change fields other than {UPDATABLE}\n{difference}")));
    }
}

/// Whether the rest is worth looking at.
fn deadline(new: &At<'_>, old: &At<'_>, errors: &mut Errors) -> bool {
    match (new.integer(), old.integer()) {
        (Some(s), _) if !(0..=i64::from(i32::MAX)).contains(&s) => {
            errors.push(new.invalid("must be between 0 and 2147483647, inclusive"));
            false
        }
        (Some(s), Some(before)) if before < s => {
            errors.push(new.invalid("must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            errors.push(new.invalid("must not update from a positive integer to nil value"));
            true
        }
        _ => true,
    }
}

fn added_tolerations(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        let _ = toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = new.items().map(|toleration| timeless(toleration.value)).collect();
    if old.items().any(|toleration| !kept.contains(&timeless(toleration.value))) {
        errors.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
        return;
    }
    tolerations(new, errors);
}

fn removed_gates(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let before: Vec<&Value> = old.items().map(|gate| gate.value).collect();
    for gate in new.items().filter(|gate| !before.contains(&gate.value)) {
        let name = gate.field("name");
        errors
            .push(name.forbidden(format!("only deletion is allowed, but found new scheduling gate '{}'", name.text())));
    }
}

/// Gives every field that may change its old value, so that what differs then may not.
fn take_back_what_may_change(spec: &mut Value, old: &At<'_>, errors: &mut Errors, new: &At<'_>) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, before) in containers.iter_mut().zip(old.field(list).items()) {
            container["image"] = before.field("image").value.clone();
        }
    }
    let mut take_back = |field: &str| match old.value.get(field) {
        Some(value) => spec[field] = value.clone(),
        None => drop(spec.as_object_mut().map(|spec| spec.remove(field))),
    };
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        take_back(field);
    }
    let grace = |at: &At<'_>| at.field("terminationGracePeriodSeconds").integer();
    if grace(old).is_some_and(|s| s < 0) && grace(new) == Some(1) {
        take_back("terminationGracePeriodSeconds");
    }
    // A pod that the scheduler has not seen yet may still be told where to go.
    if !old.field("schedulingGates").is_empty() {
        let (selector, before) = (new.field("nodeSelector"), old.field("nodeSelector"));
        let narrowed = before.map().into_iter().flatten().all(|(key, value)| selector.value.get(key) == Some(value));
        if !narrowed {
            errors
                .push(selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)"));
        }
        take_back("nodeSelector");
    }
}

fn ephemeral(pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let containers = pod.down("spec.ephemeralContainers");
    for before in old.down("spec.ephemeralContainers").items() {
        let name = before.field("name").text();
        match containers.items().find(|container| container.field("name").text() == name) {
            None => errors
                .push(containers.forbidden(format!("existing ephemeral containers {name:?} may not be removed\n"))),
            Some(now) if now.value != before.value => {
                let difference = difference(before.value, now.value);
                errors.push(
                    containers
                        .forbidden(format!("existing ephemeral containers {name:?} may not be changed\n{difference}")),
                );
            }
            Some(_) => {}
        }
    }
}

fn resize(pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (pod.field("spec"), old.field("spec"));
    let class = old.down("status.qosClass");
    if class.text() != qos::class(spec.value) {
        errors.push(spec.invalid_as(class.value, "Pod QOS Class may not change as a result of resizing"));
    }
    let mut munged = spec.value.clone();
    for list in ["containers", "initContainers"] {
        let Some(containers) = munged.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (index, (container, old)) in containers.iter_mut().zip(before.field(list).items()).enumerate() {
            let path = format!("spec.{list}[{index}].resources");
            for part in ["requests", "limits"] {
                removed(&path, part, &old.field("resources"), container, errors);
                take_back_compute(container, old.value, part);
            }
            match old.value.get("resizePolicy") {
                Some(policy) => container["resizePolicy"] = policy.clone(),
                None => drop(container.as_object_mut().map(|container| container.remove("resizePolicy"))),
            }
        }
    }
    match before.value.get("resources") {
        Some(resources) => munged["resources"] = resources.clone(),
        None => drop(munged.as_object_mut().map(|spec| spec.remove("resources"))),
    }
    if munged != *before.value {
        errors.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
}

fn removed(path: &str, part: &str, old: &At<'_>, container: &Value, errors: &mut Errors) {
    for (name, _) in old.field(part).entries().filter(|(name, _)| matches!(*name, "cpu" | "memory")) {
        if container.pointer(&format!("/resources/{part}/{name}")).is_none() {
            let at = At::new(format!("{path}.{part}"), &Value::Null);
            errors.push(at.forbidden(format!("resource {part} cannot be removed")));
            return;
        }
    }
}

fn take_back_compute(container: &mut Value, old: &Value, part: &str) {
    let before = old.pointer(&format!("/resources/{part}")).cloned();
    for name in ["cpu", "memory"] {
        let value = before.as_ref().and_then(|before| before.get(name)).cloned();
        let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
        match value {
            Some(value) => {
                let amounts = resources.entry(part).or_insert_with(|| json!({}));
                amounts[name] = value;
            }
            None => drop(resources.get_mut(part).and_then(Value::as_object_mut).map(|part| part.remove(name))),
        }
    }
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    if before.is_none() && resources.get(part).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        resources.remove(part);
    }
}

pub fn status(_context: &WriteContext<'_>, pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (pod.field("status"), old.field("status"));
    let nominated = status.field("nominatedNodeName");
    if nominated.value != before.field("nominatedNodeName").value && !nominated.is_empty() {
        nominated.check(names::dns1123_subdomain, errors);
    }
    let class = status.field("qosClass");
    class.check_unchanged(&before.field("qosClass"), errors);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        transitions(&status.field(list), &before.field(list), old.down("spec.restartPolicy").text(), errors);
    }
    addresses(&status.field("podIPs"), errors);
    addresses(&status.field("hostIPs"), errors);
}

/// A container that has ended stays so, unless its pod restarts containers.
fn transitions(new: &At<'_>, old: &At<'_>, restart_policy: &str, errors: &mut Errors) {
    if restart_policy == "Always" {
        return;
    }
    for (index, before) in old.items().enumerate() {
        let ended = before.down("state.terminated");
        let failed = ended.field("exitCode").integer().unwrap_or(0) != 0;
        if !ended.is_set() || (failed && restart_policy == "OnFailure") {
            continue;
        }
        let name = before.field("name");
        let mut same = new.items().filter(|now| now.field("name").value == name.value);
        if same.any(|now| !now.down("state.terminated").is_set()) {
            let at = At::new(format!("{}[{index}].state", new.path), &Value::Null);
            errors.push(at.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}

fn addresses(list: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for entry in list.items() {
        let ip = At::new(entry.path.clone(), entry.field("ip").value);
        check_ip(&ip, errors);
        if seen.contains(&ip.text()) {
            errors.push(ip.duplicate());
        }
        seen.push(ip.text());
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::validation::testing::update_of;
    use serde_json::{Value, json};

    fn pod(image: &str, debugger: Option<&str>) -> Value {
        let debuggers: Vec<Value> = debugger.iter().map(|image| json!({"name": "d", "image": image})).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "spec": {"containers": [{"name": "c", "image": image}], "ephemeralContainers": debuggers},
            "status": {"phase": "Running", "qosClass": "BestEffort"},
        })
    }

    #[test]
    fn a_debugger_comes_and_stays_as_it_is() {
        let update = |old, new| update_of("ephemeralcontainers", pod("i", old), pod("other", new));
        assert_eq!(update(None, Some("tools")), [""; 0]);
        assert_eq!(
            update(Some("tools"), None),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"]
        );
    }
}
