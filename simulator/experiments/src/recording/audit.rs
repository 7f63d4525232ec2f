//! Reads audit events (`audit.k8s.io/v1`): requests that have changed pods. A pod's spec is in the log if its creation was
//! logged at the level Request or RequestResponse.

use super::Remarks;
use super::sighting::Sighting;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::metav1::Time;
use serde_json::{Value, json};

/// Returns what a request has done to pods; nothing if it failed, changed nothing, or is about other things.
pub(crate) fn sightings(mut event: Value, remarks: &mut Remarks) -> Result<Vec<Sighting>, String> {
    let reference = event["objectRef"].take();
    let is_done = event["stage"] == "ResponseComplete"
        && event["responseStatus"]["code"].as_u64().is_some_and(|code| (200..300).contains(&code));
    let is_tried = event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun="));
    if reference["resource"] != "pods" || !is_done || is_tried {
        return Ok(Vec::new());
    }
    let at = event["requestReceivedTimestamp"].take();
    let at: Time = serde_json::from_value(at).map_err(|error| format!("requestReceivedTimestamp: {error}"))?;
    let key = key(&reference);
    match (event["verb"].as_str().unwrap_or_default(), reference["subresource"].as_str()) {
        ("create", None) => created(event, &reference, at, remarks),
        ("create", Some("binding")) => Ok(vec![Sighting::Bound { key, at }]),
        ("update" | "patch", None | Some("status")) => changed(event, &reference),
        ("delete", None) => Ok(vec![Sighting::Deleted { key, at }]),
        ("deletecollection", None) => Ok(collection(event, &at, remarks)),
        _ => Ok(Vec::new()),
    }
}

fn key(reference: &Value) -> String {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn created(mut event: Value, reference: &Value, at: Time, remarks: &mut Remarks) -> Result<Vec<Sighting>, String> {
    // What the server answered is whole: with the name that it has made, and what admission has added.
    let bodies = [event["responseObject"].take(), event["requestObject"].take()];
    let Some(body) = bodies.into_iter().find(|body| body["kind"] == "Pod") else {
        remarks
            .add("pods were created without their bodies in the log, whose level must be Request or RequestResponse");
        return Ok(Vec::new());
    };
    let mut pod = Pod::decode_value(body).map_err(|error| format!("requestObject: {error}"))?;
    let text = |field: &str| reference[field].as_str().map(str::to_owned);
    pod.metadata.namespace = pod.metadata.namespace.or_else(|| text("namespace"));
    pod.metadata.name = pod.metadata.name.or_else(|| text("name"));
    if pod.metadata.name.is_none() {
        remarks.add("pods with generateName were created without the server's answer in the log, and were left out");
        return Ok(Vec::new());
    }
    Ok(vec![Sighting::Object { pod: Box::new(pod), created: Some(at) }])
}

/// Takes the status out of the answer or, if the log has requests alone, out of the body or the patch.
fn changed(mut event: Value, reference: &Value) -> Result<Vec<Sighting>, String> {
    let bodies = [event["responseObject"].take(), event["requestObject"].take()];
    let Some(mut body) = bodies.into_iter().find(|body| body["status"].is_object()) else { return Ok(Vec::new()) };
    let mut pod = json!({"metadata": {"namespace": reference["namespace"], "name": reference["name"]}});
    pod["status"] = body["status"].take();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "uid"] {
        if !body["metadata"][field].is_null() {
            pod["metadata"][field] = body["metadata"][field].take();
        }
    }
    let pod = Pod::decode_value(pod).map_err(|error| format!("status: {error}"))?;
    Ok(vec![Sighting::Object { pod: Box::new(pod), created: None }])
}

fn collection(mut event: Value, at: &Time, remarks: &mut Remarks) -> Vec<Sighting> {
    let Value::Array(items) = event["responseObject"]["items"].take() else {
        remarks.add("collections were deleted without the server's answer in the log; their pods count as not deleted");
        return Vec::new();
    };
    items.iter().map(|item| Sighting::Deleted { key: key(&item["metadata"]), at: at.clone() }).collect()
}
