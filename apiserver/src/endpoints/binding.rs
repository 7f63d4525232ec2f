//! Bindings: sets the node of a pod, for a scheduler's POST to `binding`.
//!
//! Corresponds to BindingREST in pkg/registry/core/pod/storage.

use super::Call;
use super::body::{self, ExpectedKind, RequestBody};
use crate::answer;
use admission::Operation;
use axum::body::Body;
use http::Response;
use jiff::Timestamp;
use proto::Status;
use proto::meta::status::FieldError;
use proto::resources::Target;
use registry::mutation::{Admission, Edit};
use serde_json::{Value, json};
use strategy::object_meta;

/// Answers the POST of a Binding. `target` is pods; `name` is the pod's name in the URL. It is empty for the collection
/// `bindings`, whose body names the pod.
pub async fn answer(call: &Call<'_>, target: &Target, name: &str, body: Body) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let kind = ExpectedKind::builtin("", "v1", "Binding", "io.k8s.api.core.v1.Binding");
    let request = RequestBody::read(call, &kind.schema, "CreateOptions", body).await?;
    let mut binding = request.decode(call, &kind)?;
    let given = object_meta::text(&binding, "name").to_owned();
    if !name.is_empty() && !given.is_empty() && given != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let name = if name.is_empty() { given } else { name.to_owned() };
    body::set_namespace(call, target, &mut binding)?;
    let manager = call.manager(&request.options.field_manager);
    let mut mutation = call.mutation(target, &manager, request.options.dry_run, &request.options.given);
    mutation.name = &name;
    mutation.subresource = "binding";
    call.admit(Operation::Create, &mut mutation, &mut binding).await?;
    let errors: Vec<String> = validate(&binding).iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => {}
        // Kubernetes reports these as internal errors, with code 500.
        [error] => return Err(Status::failure(500, "", error)),
        errors => return Err(Status::failure(500, "", format!("[{}]", errors.join(", ")))),
    }
    let uid = object_meta::text(&binding, "uid").to_owned();
    let now = call.server.env.wall();
    let edit = Edit(|pod: &Value| bound(pod, &binding, &name, &uid, now));
    mutation.admission = Admission::Skipped;
    call.update(&mut mutation, &edit).await?;
    Ok(answer::created(&form))
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    let kind = text("/target/kind");
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported("target.kind", &json!(kind), &["Node", "<empty>"]));
    }
    if text("/target/name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    errors
}

/// Returns the pod with its node and with the condition `PodScheduled`.
fn bound(pod: &Value, binding: &Value, name: &str, uid: &str, now: Timestamp) -> Result<Value, Status> {
    let conflict = |why: String| Err(Status::conflict("", "pods/binding", name, why));
    let pod_uid = object_meta::text(pod, "uid");
    if !uid.is_empty() && uid != pod_uid {
        return conflict(format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {pod_uid}"));
    }
    if object_meta::deletion_timestamp(pod).is_some() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return conflict(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for part in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][part].as_object().into_iter().flatten() {
            pod["metadata"][part][key] = value.clone();
        }
    }
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("it was made an array above");
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": object_meta::time(now),
    });
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
    // A bound pod needs no nominated node.
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"nominatedNodeName": "n1", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        ]}});
        let done = bound(&pod, &binding, "p", "", now).unwrap();
        assert_eq!(done["spec"]["nodeName"], "n1");
        assert_eq!(done["status"]["nominatedNodeName"], json!(null));
        assert_eq!(done["status"]["conditions"].as_array().unwrap().len(), 1);
        let again = bound(&done, &binding, "p", "", now).unwrap_err();
        assert_eq!(
            again.message,
            r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1""#
        );
    }
}
