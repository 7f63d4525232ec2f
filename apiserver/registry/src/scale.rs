//! Scale: the view of an object that the subresource `scale` serves, and that admission sees on a write to it.
//!
//! Corresponds to scaleFromDeployment and its like in pkg/registry.

use proto::Status;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use proto::resources::Served;
use serde_json::{Value, json};

fn at<'v>(object: &'v Value, path: &[String]) -> &'v Value {
    path.iter().try_fold(object, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

/// Sets the value at a path, and makes the objects on the path that are missing.
fn put(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for name in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name.as_str()];
    }
    *place = value;
}

/// Returns the Scale of an object.
pub fn scale_of(served: &Served, parent: &Value) -> Result<Value, Status> {
    let (meta, paths) = (&parent["metadata"], &served.scale);
    let replicas = at(parent, &paths.spec_replicas);
    if replicas.is_null() && !served.schema.is_builtin() {
        let path = paths.spec_replicas.join(".");
        return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
    }
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": {},
        "status": {"replicas": at(parent, &paths.status_replicas).as_i64().unwrap_or(0)},
    });
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta.get(key) {
            scale["metadata"][key] = value.clone();
        }
    }
    let replicas = replicas.as_i64().unwrap_or(0);
    if replicas != 0 {
        scale["spec"]["replicas"] = json!(replicas);
    }
    let selector = match &paths.selector {
        Some(path) => at(parent, path).as_str().unwrap_or_default().to_owned(),
        None => selector_of(parent),
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    Ok(scale)
}

/// Returns the object's selector as text. The selector of a ReplicationController is a plain map.
fn selector_of(parent: &Value) -> String {
    let Some(selector) = parent["spec"].get("selector").filter(|s| s.is_object()) else { return String::new() };
    let is_label_selector = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    if is_label_selector {
        return label_selector::from_value(Some(selector)).map(|s| s.to_string()).unwrap_or_default();
    }
    let pairs = selector.as_object().into_iter().flatten();
    Selector::from_map(pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))).to_string()
}

/// Sets the object's number of replicas.
pub fn set_replicas(served: &Served, object: &mut Value, replicas: i64) {
    put(object, &served.scale.spec_replicas, json!(replicas));
}
