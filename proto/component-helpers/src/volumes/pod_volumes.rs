//! The claims behind a pod's volumes: those that it names, and those that are made for its generic ephemeral volumes.
//!
//! Corresponds to k8s.io/component-helpers/storage/ephemeral and to PodPVCIndexFunc in pkg/controller/volume/common.

use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod, Volume};

/// A volume of a pod with the claim behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimVolume<'a> {
    pub volume: &'a Volume,
    /// Name of the claim, which is in the pod's namespace.
    pub claim: String,
    /// True for a claim that is made for the pod. It counts only if the pod is its controller.
    pub is_ephemeral: bool,
}

/// Returns the volumes of the pod.
pub fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// Returns the volumes of the pod that have a claim, in their order.
pub fn with_claims(pod: &Pod) -> impl Iterator<Item = ClaimVolume<'_>> {
    volumes(pod).filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(ClaimVolume { volume, claim: source.claim_name.clone(), is_ephemeral: false }),
        (None, Some(_)) => Some(ClaimVolume { volume, claim: ephemeral_claim(pod, volume), is_ephemeral: true }),
        (None, None) => None,
    })
}

/// Returns the name of the claim that is made for a generic ephemeral volume of the pod.
pub fn ephemeral_claim(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", pod.name(), volume.name)
}

/// Returns the keys of the claims that the pod's volumes have.
pub fn claim_keys(pod: &Pod) -> Vec<String> {
    with_claims(pod).map(|volume| format!("{}/{}", pod.namespace(), volume.claim)).collect()
}

/// Returns true if the claim was made for the pod.
pub fn is_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    proto::meta::owner::is_controlled_by(&claim.metadata, pod)
}

/// Returns the volume of the pod that uses the claim. An ephemeral volume uses only a claim that was made for the pod.
pub fn volume_of<'a>(pod: &'a Pod, claim: &PersistentVolumeClaim) -> Option<&'a Volume> {
    let uses =
        |volume: &ClaimVolume<'_>| volume.claim == claim.name() && (!volume.is_ephemeral || is_made_for(claim, pod));
    let mut found = with_claims(pod).filter(|_| pod.namespace() == claim.namespace());
    found.find(uses).map(|found| found.volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(namespace: &str, name: &str, owners: Value) -> PersistentVolumeClaim {
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": owners});
        PersistentVolumeClaim::decode_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_pod_uses_the_claims_that_it_names_and_those_made_for_it() {
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "db"}},
            {"name": "config", "configMap": {"name": "db"}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]);
        let pod = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u1"}, "spec": {"volumes": volumes}});
        let pod = Pod::decode_value(pod).unwrap();
        assert_eq!(claim_keys(&pod), ["shop/db", "shop/web-tmp"]);
        let owner = |uid: &str, controller: bool| json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": controller}]);
        for (claim, expected) in [
            (claim("shop", "db", json!([])), Some("data")),
            (claim("other", "db", json!([])), None),
            (claim("shop", "web-tmp", json!([])), None),
            (claim("shop", "web-tmp", owner("u1", false)), None),
            (claim("shop", "web-tmp", owner("u2", true)), None),
            (claim("shop", "web-tmp", owner("u1", true)), Some("tmp")),
            (claim("shop", "web-config", owner("u1", true)), None),
        ] {
            assert_eq!(volume_of(&pod, &claim).map(|volume| volume.name.as_str()), expected, "{}", claim.key());
        }
    }
}
