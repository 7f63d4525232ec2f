//! Validates updates of pods: the fields that may change, and the subresources that change them.
//!
//! Corresponds to ValidatePodUpdate, ValidatePodEphemeralContainersUpdate and ValidatePodResize.

use super::annotations::{self, MIRROR};
use super::containers::image_of_pod;
use super::qos;
use super::{pod_content, tolerations};
use crate::validation::difference::difference;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use serde_json::{Value, json};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub fn pod(context: &WriteContext<'_>, pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    match context.subresource {
        "binding" | "eviction" => {}
        "ephemeralcontainers" => {
            if is_mirror(old) {
                *errors = vec![At::new("", pod.value).forbidden("static pods do not support ephemeral containers")];
                return;
            }
            pod_content(pod, errors);
            annotation_updates(pod, old, errors);
            added_ephemeral_containers(pod, old, errors);
        }
        "resize" => {
            if is_mirror(old) {
                *errors = vec![At::new("", pod.value).forbidden("static pods cannot be resized")];
                return;
            }
            if old.down("spec.os.name").text() == "windows" {
                *errors = vec![At::new("", pod.value).forbidden("windows pods cannot be resized")];
                return;
            }
            pod_content(pod, errors);
            resize(pod, old, errors);
        }
        _ => {
            pod_content(pod, errors);
            annotation_updates(pod, old, errors);
            spec_update(&pod.field("spec"), &old.field("spec"), errors);
        }
    }
}

fn is_mirror(pod: &At<'_>) -> bool {
    pod.down("metadata.annotations").key(MIRROR).is_set()
}

/// Refuses changes of annotations that the kubelet reads when it starts a pod.
pub fn annotation_updates(pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, before) = (pod.down("metadata.annotations"), old.down("metadata.annotations"));
    let mut forbid = |key: &str, how: &str| {
        if key.starts_with(annotations::APP_ARMOR) {
            errors.push(new.key(key).forbidden(format!("may not {how} AppArmor annotations")));
        }
        if key == MIRROR {
            errors.push(new.key(key).forbidden(format!("may not {how} mirror pod annotation")));
        }
    };
    for (key, _) in before.entries().filter(|(key, value)| new.key(key).value != value.value) {
        forbid(key, "remove or update");
    }
    for (key, _) in new.entries().filter(|(key, _)| !before.key(key).is_set()) {
        forbid(key, "add");
    }
    annotations::validate(&new, &pod.field("spec"), errors);
}

/// Checks that an update changes mutable fields only.
fn spec_update(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let (new, before) = (spec.field(list), old.field(list));
        if new.len() != before.len() {
            errors.push(new.forbidden("pod updates may not add or remove containers"));
            return;
        }
        for container in new.items() {
            if container.field("image").is_empty() {
                errors.push(container.field("image").required(""));
            }
            image_of_pod(&container, errors);
        }
    }
    if !deadline(&spec.field("activeDeadlineSeconds"), &old.field("activeDeadlineSeconds"), errors) {
        return;
    }
    added_tolerations(&spec.field("tolerations"), &old.field("tolerations"), errors);
    removed_gates(&spec.field("schedulingGates"), &old.field("schedulingGates"), errors);
    let mut restored = spec.value.clone();
    restore_mutable_fields(&mut restored, old, errors, spec);
    if restored != *old.value {
        let difference = difference(old.value, &restored);
        errors.push(spec.forbidden(format!("pod updates may not change fields other than {UPDATABLE}\n{difference}")));
    }
}

/// Checks a change of `activeDeadlineSeconds`. Returns false for an error after which Kubernetes checks no other field.
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

/// Checks that an update only adds tolerations or changes their `tolerationSeconds`.
fn added_tolerations(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        let _ = toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = new.items().map(|toleration| without_seconds(toleration.value)).collect();
    if old.items().any(|toleration| !kept.contains(&without_seconds(toleration.value))) {
        errors.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
        return;
    }
    tolerations(new, errors);
}

/// Checks that an update only removes scheduling gates.
fn removed_gates(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let before: Vec<&Value> = old.items().map(|gate| gate.value).collect();
    for gate in new.items().filter(|gate| !before.contains(&gate.value)) {
        let name = gate.field("name");
        errors
            .push(name.forbidden(format!("only deletion is allowed, but found new scheduling gate '{}'", name.text())));
    }
}

/// Restores the old values of all mutable fields. A difference that is left is in a field that must not change.
fn restore_mutable_fields(spec: &mut Value, old: &At<'_>, errors: &mut Errors, new: &At<'_>) {
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, before) in containers.iter_mut().zip(old.field(list).items()) {
            container["image"] = before.field("image").value.clone();
        }
    }
    let mut restore = |field: &str| match old.value.get(field) {
        Some(value) => spec[field] = value.clone(),
        None => drop(spec.as_object_mut().map(|spec| spec.remove(field))),
    };
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(field);
    }
    let grace = |at: &At<'_>| at.field("terminationGracePeriodSeconds").integer();
    if grace(old).is_some_and(|s| s < 0) && grace(new) == Some(1) {
        restore("terminationGracePeriodSeconds");
    }
    // A pod with scheduling gates may get more requirements on its node.
    if !old.field("schedulingGates").is_empty() {
        node_affinity(spec, old, errors, new);
        let mut restore = |field: &str| match old.value.get(field) {
            Some(value) => spec[field] = value.clone(),
            None => drop(spec.as_object_mut().map(|spec| spec.remove(field))),
        };
        let (selector, before) = (new.field("nodeSelector"), old.field("nodeSelector"));
        let narrowed = before.map().into_iter().flatten().all(|(key, value)| selector.value.get(key) == Some(value));
        if !narrowed {
            errors
                .push(selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)"));
        }
        restore("nodeSelector");
    }
}

/// Checks that the new node affinity of a gated pod only adds requirements, and restores the old one in `spec`.
fn node_affinity(spec: &mut Value, old: &At<'_>, errors: &mut Errors, new: &At<'_>) {
    let (now, before) = (new.down("affinity.nodeAffinity"), old.down("affinity.nodeAffinity"));
    if now.value == before.value {
        return;
    }
    narrowed_affinity(&now, &before, errors);
    let others = |at: &At<'_>| at.field("podAffinity").is_set() || at.field("podAntiAffinity").is_set();
    if before.is_set() {
        if !spec["affinity"].is_object() {
            spec["affinity"] = json!({});
        }
        spec["affinity"]["nodeAffinity"] = before.value.clone();
    } else if !old.field("affinity").is_set() && !others(&new.field("affinity")) {
        drop(spec.as_object_mut().map(|spec| spec.remove("affinity")));
    } else {
        drop(spec["affinity"].as_object_mut().map(|affinity| affinity.remove("nodeAffinity")));
    }
}

/// Checks that each term of the required node affinity keeps its requirements. New ones may follow them.
fn narrowed_affinity(now: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (new, old) = (now.down(required), before.down(required));
    if !old.is_empty() && new.len() != old.len() {
        errors.push(new.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
        return;
    }
    for (term, old_term) in new.items().zip(old.items()) {
        let kept = |field: &str| {
            let new: Vec<&Value> = term.field(field).items().map(|one| one.value).collect();
            old_term.field(field).items().enumerate().all(|(index, one)| new.get(index) == Some(&one.value))
        };
        // An empty term selects no node, and must stay empty.
        let is_empty =
            |term: &At<'_>| term.field("matchExpressions").is_empty() && term.field("matchFields").is_empty();
        if !kept("matchExpressions") || !kept("matchFields") || (is_empty(&old_term) && !is_empty(&term)) {
            errors.push(term.invalid("only additions are allowed (no mutations or deletions)"));
        }
    }
}

/// Checks that an update only adds ephemeral containers.
fn added_ephemeral_containers(pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
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

/// Checks that a resize changes only the amounts of cpu and memory, and not the QoS class.
fn resize(pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (pod.field("spec"), old.field("spec"));
    let class = old.down("status.qosClass");
    if class.text() != qos::class(spec.value) {
        errors.push(spec.invalid_as(class.value, "Pod QOS Class may not change as a result of resizing"));
    }
    if runs_without_resources(old) {
        errors.push(spec.forbidden("Pod running on node without support for resize"));
    }
    let mut restored = spec.value.clone();
    if before.field("resources").is_set() && !spec.field("resources").is_set() {
        errors.push(spec.field("resources").forbidden("pod-level resources cannot be removed"));
    } else {
        kept_amounts(&spec.field("resources"), &before.field("resources"), "pod-level resource", errors);
        restore_compute_resources(&mut restored, before.value);
    }
    if restored.get("resources") != before.value.get("resources") {
        errors.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
    if !same_containers(container_lists(&spec), container_lists(&before), errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (container, old) in spec.field(list).items().zip(before.field(list).items()) {
            kept_amounts(&container.field("resources"), &old.field("resources"), "resource", errors);
        }
    }
    for list in ["containers", "initContainers"] {
        let Some(containers) = restored.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for ((container, old), now) in
            containers.iter_mut().zip(before.field(list).items()).zip(spec.field(list).items())
        {
            restore_compute_resources(container, old.value);
            let differs = container != old.value;
            if differs && list == "containers" {
                errors.push(spec.forbidden("only cpu and memory resources are mutable"));
            } else if differs {
                errors.push(now.forbidden("only cpu and memory resources for init or sidecar containers are mutable"));
            }
            if list == "initContainers" && now.value != old.value && now.field("restartPolicy").text() != "Always" {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                let mut policies = now.field("resizePolicy").items();
                if policies.any(|policy| policy.field("restartPolicy").text() == "RestartContainer") {
                    errors.push(now.forbidden(why));
                }
            }
        }
    }
    if errors.is_empty() && restored != *before.value {
        errors.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
}

/// Returns true if the status of a running container has no resources: its node does not support resizing.
fn runs_without_resources(pod: &At<'_>) -> bool {
    let mut containers = pod.down("status.containerStatuses").items();
    containers
        .find(|status| status.down("state.running").is_set())
        .is_some_and(|status| !status.field("resources").is_set())
}

fn container_lists<'a>(spec: &At<'a>) -> [At<'a>; 2] {
    ["containers", "initContainers"].map(|list| spec.field(list))
}

/// Checks that a resize adds, removes, renames and reorders no container. Returns true if so.
fn same_containers(new: [At<'_>; 2], old: [At<'_>; 2], errors: &mut Errors) -> bool {
    let before = errors.len();
    for (new, old) in new.iter().zip(&old) {
        let what = if new.path.ends_with("initContainers") { "initContainers" } else { "containers" };
        if new.len() != old.len() {
            errors.push(new.forbidden(format!("{what} may not be added or removed on resize")));
            continue;
        }
        for (new, old) in new.items().zip(old.items()) {
            if new.field("name").value != old.field("name").value {
                let why = format!("{what} may not be renamed or reordered on resize");
                errors.push(new.field("name").forbidden(why));
            }
        }
    }
    errors.len() == before
}

/// Checks that a resize removes no requests and no limits.
fn kept_amounts(new: &At<'_>, old: &At<'_>, what: &str, errors: &mut Errors) {
    for part in ["requests", "limits"] {
        let (new, old) = (new.field(part), old.field(part));
        if old.len() > new.len() || old.entries().any(|(name, _)| !new.key(name).is_set()) {
            errors.push(new.forbidden(format!("{what} {part} cannot be removed")));
        }
    }
}

/// Restores the old amounts of cpu and memory in a container or in the spec of a pod. Maps that become empty and did
/// not exist before are removed.
fn restore_compute_resources(holder: &mut Value, old: &Value) {
    for part in ["requests", "limits"] {
        let before = old.pointer(&format!("/resources/{part}"));
        for name in ["cpu", "memory"] {
            let value = before.and_then(|before| before.get(name)).cloned();
            let Some(resources) = holder.get_mut("resources").and_then(Value::as_object_mut) else { return };
            match value {
                Some(value) => {
                    let amounts = resources.entry(part).or_insert_with(|| json!({}));
                    amounts[name] = value;
                }
                None => drop(resources.get_mut(part).and_then(Value::as_object_mut).map(|part| part.remove(name))),
            }
        }
        let Some(resources) = holder.get_mut("resources").and_then(Value::as_object_mut) else { return };
        if before.is_none() && resources.get(part).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            resources.remove(part);
        }
    }
    let is_empty = holder.get("resources").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
    if is_empty && old.get("resources").is_none() {
        drop(holder.as_object_mut().map(|holder| holder.remove("resources")));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::update_of;
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
    fn an_ephemeral_container_may_be_added_but_not_removed() {
        let update = |old, new| update_of("ephemeralcontainers", pod("i", old), pod("other", new));
        assert_eq!(update(None, Some("tools")), [""; 0]);
        assert_eq!(
            update(Some("tools"), None),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n"]
        );
    }
}
