//! The PersistentVolumeClaims of a pod: each has to be bound, and its volume attached to the node, before it is mounted.
//!
//! Corresponds to createVolumeSpec in pkg/kubelet/volumemanager/populator.

use component_helpers::volumes::pod_volumes::{ClaimVolume, is_made_for, with_claims};
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was read of a claim: the claim, and the volume that it names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimRead {
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    pub volume: Option<Arc<PersistentVolume>>,
    /// Why one of them could not be read, as the API server says it.
    pub error: Option<String>,
    pub attachment: Attachment,
}

/// Says whether a volume is attached to the pod's node. The volume has the name that the node's status lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Volumes of its kind are not attached.
    #[default]
    NotNeeded,
    Missing(String),
    Attached(String),
}

/// What was read of all claims of a pod, by name.
pub type Claims = BTreeMap<String, ClaimRead>;

/// Returns the volumes that are attached to the node for the pod, or have to be. The node reports them as in use.
pub fn attachable(pod: &Pod, read: &Claims) -> BTreeSet<String> {
    let ready = with_claims(pod).filter(|claim| error(pod, claim, read).is_none());
    let volume = |claim: ClaimVolume<'_>| match &read.get(&claim.claim)?.attachment {
        Attachment::NotNeeded => None,
        Attachment::Missing(volume) | Attachment::Attached(volume) => Some(volume.clone()),
    };
    ready.filter_map(volume).collect()
}

/// Returns the message of the event about volumes that are not attached in time; `None` if none is missing.
pub fn unattached_message(pod: &Pod, read: &Claims) -> Option<String> {
    let is_missing = |claim: &ClaimVolume<'_>| {
        read.get(&claim.claim).is_some_and(|read| matches!(read.attachment, Attachment::Missing(_)))
    };
    let missing: BTreeSet<String> =
        with_claims(pod).filter(is_missing).map(|claim| claim.volume.name.clone()).collect();
    let volumes = missing.into_iter().collect::<Vec<String>>().join(" ");
    (!volumes.is_empty()).then(|| {
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[{volumes}], unattached volumes=[{volumes}], failed to \
             process volumes=[]: context deadline exceeded"
        )
    })
}

/// Returns the message of the event about claims that are not ready; `None` when all volumes can be mounted.
pub fn message(pod: &Pod, read: &Claims) -> Option<String> {
    let failing: Vec<(String, String)> =
        with_claims(pod).filter_map(|claim| Some((claim.volume.name.clone(), error(pod, &claim, read)?))).collect();
    let (volumes, errors): (Vec<String>, Vec<String>) = failing.into_iter().unzip();
    let volumes = volumes.join(" ");
    (!errors.is_empty()).then(|| {
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[{volumes}], unattached volumes=[], failed to process \
             volumes=[{volumes}]: {}",
            errors.join("; ")
        )
    })
}

/// Returns why the volume of a claim cannot be mounted.
fn error(pod: &Pod, claim: &ClaimVolume<'_>, read: &Claims) -> Option<String> {
    let name = format!("{}/{}", pod.namespace(), claim.claim);
    let failed = |why: &str| Some(format!("error processing PVC {name}: {why}"));
    let unread = ClaimRead::default();
    let found = read.get(&claim.claim).unwrap_or(&unread);
    let Some(object) = &found.claim else {
        return failed(&format!("failed to fetch PVC from API server: {}", found.error.as_deref().unwrap_or_default()));
    };
    if claim.is_ephemeral && !is_made_for(object, pod) {
        let pod = format!("{}/{}", pod.namespace(), pod.name());
        return Some(format!("PVC {name} was not created for pod {pod} (pod is not owner)"));
    }
    if object.is_deleting() {
        return failed("PVC is being deleted");
    }
    if object.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return failed("PVC is not bound");
    }
    let Some(volume) = object.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|v| !v.is_empty())
    else {
        return failed("PVC has empty pvc.Spec.VolumeName");
    };
    let Some(persistent) = &found.volume else {
        let why = found.error.as_deref().unwrap_or_default();
        return failed(&format!("failed to fetch PV {volume} from API server: {why}"));
    };
    match persistent.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
        None => failed(&format!(
            "found PV object {volume} but it has a nil pvc.Spec.ClaimRef indicating it is not yet bound to the claim"
        )),
        Some(bound) if bound.uid.as_deref() != Some(object.uid()) => failed(&format!(
            "found PV object {volume} but its pvc.Spec.ClaimRef.UID {} does not point to claim.UID {}",
            bound.uid.as_deref().unwrap_or_default(),
            object.uid()
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(volume: Value) -> Pod {
        Pod::decode_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"volumes": [volume], "containers": []},
        }))
        .unwrap()
    }

    fn read(claim: Option<Value>, volume: Option<Value>, error: &str) -> ClaimRead {
        ClaimRead {
            claim: claim.map(|claim| Arc::new(PersistentVolumeClaim::decode_value(claim).unwrap())),
            volume: volume.map(|volume| Arc::new(PersistentVolume::decode_value(volume).unwrap())),
            error: Some(error.to_owned()),
            attachment: Attachment::NotNeeded,
        }
    }

    #[test]
    fn a_claim_has_to_be_bound_on_both_sides() {
        let claim = |name: &str, phase: &str| json!({"metadata": {"name": name, "uid": "c1"}, "spec": {"volumeName": name}, "status": {"phase": phase}});
        let bound = claim("pv", "Bound");
        let volume = |uid: &str| json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"uid": uid}}});
        for (read, expected) in [
            (
                read(None, None, "persistentvolumeclaims \"data\" not found"),
                "failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found",
            ),
            (read(Some(claim("pv", "Pending")), None, ""), "PVC is not bound"),
            (read(Some(claim("", "Bound")), None, ""), "PVC has empty pvc.Spec.VolumeName"),
            (read(Some(bound.clone()), None, "gone"), "failed to fetch PV pv from API server: gone"),
            (
                read(Some(bound.clone()), Some(volume("c2")), ""),
                "found PV object pv but its pvc.Spec.ClaimRef.UID c2 does not point to claim.UID c1",
            ),
            (read(Some(bound), Some(volume("c1")), ""), ""),
        ] {
            let pod = pod(json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}}));
            let found = message(&pod, &[("data".to_owned(), read)].into());
            let whole = format!(
                "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
                 volumes=[data]: error processing PVC shop/data: {expected}"
            );
            assert_eq!(found, (!expected.is_empty()).then_some(whole));
        }
    }

    #[test]
    fn volumes_of_bound_claims_are_attached() {
        let claim = |phase: &str| json!({"metadata": {"name": "data", "uid": "c1"}, "spec": {"volumeName": "pv"}, "status": {"phase": phase}});
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"uid": "c1"}}});
        let pod = pod(json!({"name": "files", "persistentVolumeClaim": {"claimName": "data"}}));
        let message = "Unable to attach or mount volumes: unmounted volumes=[files], unattached volumes=[files], \
                       failed to process volumes=[]: context deadline exceeded";
        for (phase, attachment, in_use, expected) in [
            ("Bound", Attachment::NotNeeded, false, None),
            ("Bound", Attachment::Missing("v".to_owned()), true, Some(message)),
            ("Bound", Attachment::Attached("v".to_owned()), true, None),
            ("Pending", Attachment::Attached("v".to_owned()), false, None),
        ] {
            let read = ClaimRead { attachment, ..read(Some(claim(phase)), Some(volume.clone()), "") };
            let claims = [("data".to_owned(), read)].into();
            assert_eq!(attachable(&pod, &claims).contains("v"), in_use);
            assert_eq!(unattached_message(&pod, &claims).as_deref(), expected);
        }
    }

    #[test]
    fn an_ephemeral_claim_belongs_to_its_pod() {
        let pod = pod(json!({"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}));
        let other = read(Some(json!({"metadata": {"name": "web-tmp"}})), None, "");
        let found = message(&pod, &[("web-tmp".to_owned(), other)].into()).unwrap();
        assert!(found.ends_with(": PVC shop/web-tmp was not created for pod shop/web (pod is not owner)"), "{found}");
    }
}
