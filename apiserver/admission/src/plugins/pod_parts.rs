//! Reads parts of a pod, as JSON, that several plugins need.
//!
//! Corresponds to pkg/api/pod: VisitContainers, VisitPodSecretNames, VisitPodConfigmapNames.

pub use proto::fields::{items, metadata_entry, text};
use serde_json::Value;

/// The fields that hold containers, in the order in which Kubernetes visits them.
pub const CONTAINER_FIELDS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Annotation of mirror pods, which a kubelet creates for static pods.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// References to Secrets inside volume sources other than `secret` and `projected`: pointers to the name.
const VOLUME_SECRETS: &[&str] = &[
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/flexVolume/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/iscsi/secretRef/name",
    "/storageos/secretRef/name",
    "/csi/nodePublishSecretRef/name",
];

pub fn is_mirror(pod: &Value) -> bool {
    metadata_entry(pod, "annotations", MIRROR_ANNOTATION).is_some()
}

/// Returns all containers of a pod's spec.
pub fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_FIELDS.iter().flat_map(move |field| spec.get(*field).and_then(Value::as_array).into_iter().flatten())
}

/// Tells whether a pod refers to any Secret.
pub fn names_secret(pod: &Value) -> bool {
    let of_volume = |volume: &Value| {
        volume.get("secret").is_some()
            || items(volume, "/projected/sources").any(|source| source.get("secret").is_some())
            || VOLUME_SECRETS.iter().any(|pointer| !text(volume, pointer).is_empty())
    };
    let spec = &pod["spec"];
    items(spec, "/imagePullSecrets").next().is_some()
        || containers(spec).any(|c| {
            items(c, "/envFrom").any(|e| e.get("secretRef").is_some())
                || items(c, "/env").any(|e| e.pointer("/valueFrom/secretKeyRef").is_some())
        })
        || items(spec, "/volumes").any(of_volume)
}

/// Tells whether a pod refers to any ConfigMap.
pub fn names_config_map(pod: &Value) -> bool {
    let spec = &pod["spec"];
    containers(spec).any(|c| {
        items(c, "/envFrom").any(|e| e.get("configMapRef").is_some())
            || items(c, "/env").any(|e| e.pointer("/valueFrom/configMapKeyRef").is_some())
    }) || items(spec, "/volumes").any(|volume| {
        volume.get("configMap").is_some()
            || items(volume, "/projected/sources").any(|source| source.get("configMap").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_wherever_they_stand() {
        let secrets = [
            json!({"imagePullSecrets": [{"name": "s"}]}),
            json!({"initContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            json!({"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}),
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}),
            json!({"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]}),
        ];
        for spec in secrets {
            let pod = json!({"spec": spec});
            assert!(names_secret(&pod) && !names_config_map(&pod), "{pod}");
        }
        let config_maps = [
            json!({"ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}),
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}]}),
        ];
        for spec in config_maps {
            let pod = json!({"spec": spec});
            assert!(names_config_map(&pod) && !names_secret(&pod), "{pod}");
        }
    }
}
