//! Reads the claims of a pod, the volumes that they name, and whether these are attached to the node.
//!
//! Corresponds to pkg/kubelet/volumemanager/populator and to GenerateVerifyControllerAttachedVolumeFunc of
//! pkg/volume/util/operationexecutor. Nothing of what was read is remembered.

use client::{Client, Error};
use component_helpers::volumes::csi_volume::{CsiVolume, is_attach_required, is_attached, is_in_use};
use component_helpers::volumes::pod_volumes;
use pod_life::needs::claims::{Attachment, ClaimRead, Claims};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::CSIDriver;
use std::sync::Arc;

/// Reads the claims of a pod with the identity of its node. `node` is the node as the cache has it.
pub async fn read_claims(client: &Client, node: &Node, pod: &Pod) -> Claims {
    let mut read = Claims::new();
    for volume in pod_volumes::with_claims(pod) {
        let found = read_claim(client, pod.namespace(), &volume.claim).await;
        read.insert(volume.claim, found);
    }
    let mut shows_all = true;
    for claim in read.values_mut() {
        claim.attachment = attachment(client, node, claim).await;
        shows_all &= !matches!(claim.attachment, Attachment::Missing(_));
    }
    let is_attached = |claim: &ClaimRead| matches!(claim.attachment, Attachment::Attached(_));
    if shows_all && read.values().any(is_attached) {
        confirm(&mut read, &client.api::<Node>("").get(node.name()).await);
    }
    read
}

/// Reads a claim and the volume that it names.
pub async fn read_claim(client: &Client, namespace: &str, name: &str) -> ClaimRead {
    let mut read = ClaimRead::default();
    match client.api::<PersistentVolumeClaim>(namespace).get(name).await {
        Ok(object) => read.claim = Some(Arc::new(object)),
        Err(error) => read.error = Some(error.to_string()),
    }
    let spec = read.claim.as_ref().and_then(|claim| claim.spec.as_ref());
    if let Some(volume) = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty()) {
        match client.api::<PersistentVolume>("").get(volume).await {
            Ok(object) => read.volume = Some(Arc::new(object)),
            Err(error) => read.error = Some(error.to_string()),
        }
    }
    read
}

/// Says whether a claim's volume is attached, according to the node. A driver that cannot be asked counts as one whose
/// volumes are.
async fn attachment(client: &Client, node: &Node, claim: &ClaimRead) -> Attachment {
    let Some(volume) = claim.volume.as_ref().and_then(|volume| CsiVolume::of(volume)) else {
        return Attachment::NotNeeded;
    };
    let driver = client.api::<CSIDriver>("").get(&volume.driver).await.ok();
    if is_attach_required(driver.as_ref()) { by_status(node, volume.unique_name()) } else { Attachment::NotNeeded }
}

/// Reads a node's status: a volume may be mounted once it is attached, and once the node has said that it is in use. So
/// the controller does not detach it in between.
fn by_status(node: &Node, volume: String) -> Attachment {
    match is_attached(node, &volume) && is_in_use(node, &volume) {
        true => Attachment::Attached(volume),
        false => Attachment::Missing(volume),
    }
}

/// Compares with the node as the API server has it: the cache may still show a volume that is being detached.
fn confirm(read: &mut Claims, node: &Result<Node, Error>) {
    for claim in read.values_mut() {
        if let Attachment::Attached(volume) = std::mem::take(&mut claim.attachment) {
            claim.attachment = match node {
                Ok(node) => by_status(node, volume),
                Err(_) => Attachment::Missing(volume),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_is_mounted_once_both_sides_have_said_so() {
        for (attached, in_use, expected) in [
            (json!([]), json!([]), Attachment::Missing("v".to_owned())),
            (json!([{"name": "v", "devicePath": ""}]), json!([]), Attachment::Missing("v".to_owned())),
            (json!([]), json!(["v"]), Attachment::Missing("v".to_owned())),
            (json!([{"name": "v", "devicePath": ""}]), json!(["w", "v"]), Attachment::Attached("v".to_owned())),
        ] {
            let status = json!({"volumesAttached": attached, "volumesInUse": in_use});
            let node = Node::decode_value(json!({"metadata": {"name": "n"}, "status": status})).unwrap();
            assert_eq!(by_status(&node, "v".to_owned()), expected);
        }
    }
}
