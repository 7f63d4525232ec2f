//! The times of the taints of devices.
//!
//! Corresponds to SetDefaults_DeviceTaint in pkg/apis/resource/v1/defaults.go.
//!
//! Deviation: an update that does not say when an unchanged taint was added leaves its time alone. Kubernetes sets the present
//! time, so that tolerations for a time begin anew.

use super::Context;
use crate::object_meta::time;
use serde_json::{Value, json};

pub fn date_new(context: &Context<'_>, slice: &mut Value) {
    date(context, slice, &Value::Null);
}

/// Sets `timeAdded` of the taints of a slice that have none.
pub fn date(context: &Context<'_>, slice: &mut Value, old: &Value) {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let name = device["name"].clone();
        for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            if !taint["timeAdded"].is_null() {
                continue;
            }
            match unchanged(taint, &name, old) {
                Some(before) if before["timeAdded"].is_null() => {}
                Some(before) => taint["timeAdded"] = before["timeAdded"].clone(),
                None => taint["timeAdded"] = json!(time(context.now)),
            }
        }
    }
}

/// Returns the same taint of the same device in the old slice.
fn unchanged<'a>(taint: &Value, device: &Value, old: &'a Value) -> Option<&'a Value> {
    let devices = old.pointer("/spec/devices").and_then(Value::as_array);
    let mut of_device = devices.into_iter().flatten().filter(|other| other["name"] == *device);
    let mut taints = of_device.next()?["taints"].as_array()?.iter();
    taints.find(|other| ["key", "value", "effect"].iter().all(|field| other.get(field) == taint.get(field)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{prepared, prepared_update};
    use serde_json::{Value, json};

    fn slice(taints: Value) -> Value {
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        let devices = json!([{"name": "d", "taints": taints}]);
        let spec = json!({"driver": "gpu.example.com", "pool": pool, "allNodes": true, "devices": devices});
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec})
    }

    #[test]
    fn a_new_taint_is_dated_and_an_old_one_keeps_its_time() {
        let added = |slice: &Value, index: usize| {
            slice["spec"]["devices"][0]["taints"][index]["timeAdded"].as_str().unwrap_or_default().to_owned()
        };
        let broken = json!({"key": "broken", "effect": "NoExecute"});
        let dated = json!({"key": "broken", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"});
        let now = added(&prepared(slice(json!([broken]))), 0);
        assert!(now.starts_with("20") && now.ends_with('Z'), "{now}");
        assert_eq!(added(&prepared(slice(json!([dated]))), 0), "2020-01-01T00:00:00Z");
        let other = json!({"key": "hot", "effect": "NoExecute"});
        let updated = prepared_update(slice(json!([dated])), slice(json!([other, broken])));
        assert_eq!((added(&updated, 0), added(&updated, 1)), (now, "2020-01-01T00:00:00Z".to_owned()));
    }
}
