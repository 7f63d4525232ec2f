//! Copies AppArmor annotations, which are deprecated, to the field `appArmorProfile`.
//!
//! Corresponds to the part of applyAppArmorVersionSkew in pkg/registry/core/pod/strategy.go that current nodes need.

use serde_json::{Value, json};

pub const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Gives each container the profile of its annotation, unless a field of the container or the pod has one.
pub fn from_annotations(pod: &mut Value) {
    let annotations = pod["metadata"]["annotations"].clone();
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    if pod["spec"]["os"]["name"] == "windows" || !annotations.is_object() {
        return;
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let Some(containers) = pod["spec"].get_mut(list).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let key = format!("{ANNOTATION}{}", container["name"].as_str().unwrap_or_default());
            let profile = annotations.get(&key).and_then(Value::as_str).and_then(profile);
            let has_field = container.pointer("/securityContext/appArmorProfile").is_some();
            if let Some(profile) = profile.filter(|profile| !has_field && *profile != of_pod) {
                container["securityContext"]["appArmorProfile"] = profile;
            }
        }
    }
}

/// Returns the profile that an annotation names; `None` for an invalid annotation.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix("localhost/").filter(|name| !name.is_empty())?;
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_copied_to_fields() {
        let profiles = |annotation: &str, context: Value| {
            let mut pod = json!({
                "metadata": {"annotations": {format!("{ANNOTATION}c"): annotation}},
                "spec": {"containers": [{"name": "c", "securityContext": context}, {"name": "d"}]},
            });
            from_annotations(&mut pod);
            assert_eq!(pod["spec"]["containers"][1], json!({"name": "d"}));
            pod["spec"]["containers"][0]["securityContext"]["appArmorProfile"].clone()
        };
        let local = json!({"type": "Localhost", "localhostProfile": "a"});
        for (annotation, profile) in [
            ("unconfined", json!({"type": "Unconfined"})),
            ("runtime/default", json!({"type": "RuntimeDefault"})),
            ("localhost/a", local.clone()),
            ("odd", Value::Null),
        ] {
            assert_eq!(profiles(annotation, json!({})), profile, "{annotation}");
        }
        assert_eq!(profiles("unconfined", json!({"appArmorProfile": local})), local, "the field wins");
    }
}
