//! Binding: the scheduler's decision that a pod runs on a node.
//!
//! Corresponds to BindingREST of pkg/registry/core/pod/storage.

use field_checks::at::{At, Errors};
use jiff::Timestamp;
use proto::Status;
use proto::schema::builtin::builtin_type;
use serde_json::{Map, Value, json};

/// Validates a Binding by itself. Kubernetes answers 500 here, not 422.
pub fn check(binding: &Value) -> Result<(), Status> {
    let target = At::typed_root(&builtin_type("io.k8s.api.core.v1.Binding"), binding).field("target");
    let mut errors = Errors::new();
    if !matches!(target.field("kind").text(), "" | "Node") {
        errors.push(target.field("kind").not_supported(&["Node", "<empty>"]));
    }
    if target.field("name").text().is_empty() {
        errors.push(target.field("name").required(""));
    }
    match errors.as_slice() {
        [] => Ok(()),
        errors => {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let all = if let [one] = all.as_slice() { one.clone() } else { format!("[{}]", all.join(", ")) };
            Err(Status::failure(500, "", all))
        }
    }
}

/// Returns the pod on its node, with the binding's labels and annotations, or 409 if it cannot be bound.
pub fn bind(pod: &Value, binding: &Value, now: Timestamp) -> Result<Value, Status> {
    let text = |object: &Value, pointer: &str| -> String {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let name = text(pod, "/metadata/name");
    let refuse = |why: String| Err(Status::conflict("", "pods/binding", &name, why));
    for (what, key) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = text(binding, &format!("/metadata/{what}"));
        let found = text(pod, &format!("/metadata/{what}"));
        if !wanted.is_empty() && wanted != found {
            return refuse(format!(
                "Precondition failed: {key} in precondition: {wanted}, {key} in object meta: {found}"
            ));
        }
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let assigned = text(pod, "/spec/nodeName");
    if !assigned.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {assigned:?}"));
    }
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut bound = pod.clone();
    bound["spec"]["nodeName"] = json!(text(binding, "/target/name"));
    for key in ["labels", "annotations"] {
        merge_into(&mut bound["metadata"], key, binding.pointer(&format!("/metadata/{key}")));
    }
    let conditions = &mut bound["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": proto::meta::time::format(now),
    });
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(scheduled);
    }
    Ok(bound)
}

fn merge_into(metadata: &mut Value, key: &str, added: Option<&Value>) {
    let Some(added) = added.and_then(Value::as_object).filter(|added| !added.is_empty()) else { return };
    let mut all: Map<String, Value> = metadata.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    all.extend(added.clone());
    metadata[key] = Value::Object(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(pod: Value) -> Result<Value, String> {
        let binding = json!({"metadata":{"name":"p","annotations":{"by":"me"}},"target":{"kind":"Node","name":"n1"}});
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        bind(&pod, &binding, now).map_err(|status| format!("{} {}", status.code, status.message))
    }

    #[test]
    fn a_free_pod_gets_its_node() {
        let pod = json!({"metadata":{"name":"p"},"spec":{},"status":{"phase":"Pending"}});
        let result = bound(pod).unwrap();
        assert_eq!(result["spec"]["nodeName"], "n1");
        assert_eq!(result["metadata"]["annotations"], json!({"by":"me"}));
        assert_eq!(result["status"]["conditions"][0]["type"], "PodScheduled");
    }

    #[test]
    fn a_pod_is_bound_once_and_only_if_it_may_be() {
        let cases = [
            (json!({"nodeName":"n0"}), r#"pod p is already assigned to node "n0""#),
            (json!({"schedulingGates":[{"name":"g"}]}), "pod p has non-empty .spec.schedulingGates"),
        ];
        for (spec, why) in cases {
            let expected = format!("409 Operation cannot be fulfilled on pods/binding \"p\": {why}");
            assert_eq!(bound(json!({"metadata":{"name":"p"},"spec":spec})), Err(expected));
        }
        assert_eq!(check(&json!({"target":{"kind":"Node"}})).unwrap_err().message, "target.name: Required value");
        assert_eq!(
            check(&json!({"target":{"kind":"Pod","name":"n"}})).unwrap_err().message,
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""
        );
    }
}
