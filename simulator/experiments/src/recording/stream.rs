//! What one value of a recording says about pods.

use super::sighting::Sighting;
use super::{Remarks, audit};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::Value;

/// Returns the sightings in a value: a pod, a list, a watch event or an audit event.
pub(crate) fn sightings(mut value: Value, remarks: &mut Remarks) -> Result<Vec<Sighting>, String> {
    if let Some("ADDED" | "MODIFIED" | "DELETED") = value["type"].as_str() {
        return sightings(value["object"].take(), remarks);
    }
    if matches!(value["type"].as_str(), Some("BOOKMARK" | "ERROR")) {
        return Ok(Vec::new());
    }
    match value["kind"].as_str() {
        Some("Pod") => Ok(vec![of_object(value)?]),
        Some("List" | "PodList") => match value["items"].take() {
            Value::Array(items) => items.into_iter().map(of_item).collect(),
            _ => Err("items: must be of type array".to_owned()),
        },
        Some("Event") if value["apiVersion"] == "audit.k8s.io/v1" => audit::sightings(value, remarks),
        Some(kind) => Err(format!("is a {kind}: want Pods, watch events of Pods, or events of audit.k8s.io/v1")),
        None => Err("has no kind: want Pods, watch events of Pods, or events of audit.k8s.io/v1".to_owned()),
    }
}

fn of_item(item: Value) -> Result<Sighting, String> {
    match item["kind"].as_str() {
        None | Some("Pod") => of_object(item),
        Some(kind) => Err(format!("items: is a {kind}, want a Pod")),
    }
}

fn of_object(value: Value) -> Result<Sighting, String> {
    let pod = Pod::decode_value(value).map_err(|error| error.to_string())?;
    Ok(Sighting::Object { pod: Box::new(pod), created: None })
}
