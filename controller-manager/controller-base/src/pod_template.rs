//! Builds the pod that a controller creates from its template.
//!
//! Corresponds to GetPodFromTemplate in pkg/controller/controller_utils.go.

use crate::controller_ref::controller_ref;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodTemplateSpec};
use proto::kinds::metav1::ObjectMeta;
use proto::meta::names;

/// The pod has a `generateName`; the server completes it.
pub fn pod_from_template<K: Kind>(template: &PodTemplateSpec, owner: &K) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(name_prefix(owner.name())),
            namespace: Some(owner.namespace().to_owned()),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Returns the owner's name with a dash, or without one if the name would be too long.
fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if names::dns1123_subdomain(&names::mask_trailing_dash(&prefix)).is_empty() { prefix } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn pods_are_labelled_named_and_owned() {
        let owner = fixture::replica_set("web-abc", "nginx:1", 1);
        let pod = pod_from_template(&fixture::template("nginx:1"), &owner);
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-abc-"));
        assert_eq!(pod.metadata.name, None);
        assert_eq!(pod.namespace(), "default");
        assert_eq!(pod.metadata.labels, Some(fixture::labels(&[("app", "web")])));
        let references = pod.metadata.owner_references.unwrap();
        assert_eq!(references, [fixture::owner("apps/v1", "ReplicaSet", "web-abc", true)]);
    }
}
