//! The VolumeAttachment of a volume and a node: its name, its content and its state.
//!
//! Corresponds to getAttachmentName and Attach of pkg/volume/csi/csi_attacher.go.

use component_helpers::volumes::csi_volume::CsiVolume;
use proto::Kind;
use proto::kinds::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use proto::kinds::metav1::ObjectMeta;
use sha2::{Digest, Sha256};

/// Returns the name of the attachment: there is one of each volume and node.
pub fn name(volume: &CsiVolume, node: &str) -> String {
    let hash = Sha256::digest(format!("{}{}{node}", volume.handle, volume.driver));
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("csi-{digits}")
}

/// Makes the attachment that asks the driver to attach the volume.
pub fn new(volume: &CsiVolume, persistent_volume: &str, node: &str) -> VolumeAttachment {
    let source = VolumeAttachmentSource {
        persistent_volume_name: Some(persistent_volume.to_owned()),
        ..VolumeAttachmentSource::default()
    };
    VolumeAttachment {
        metadata: ObjectMeta { name: Some(name(volume, node)), ..ObjectMeta::default() },
        spec: VolumeAttachmentSpec { attacher: volume.driver.clone(), node_name: node.to_owned(), source },
        ..VolumeAttachment::default()
    }
}

/// Returns true if the driver has attached the volume, and is not asked to detach it.
pub fn is_attached(attachment: &VolumeAttachment) -> bool {
    !attachment.is_deleting() && attachment.status.as_ref().is_some_and(|status| status.attached)
}

/// Returns why the driver has not attached the volume, as the driver says it.
pub fn error(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.status.as_ref()?.attach_error.as_ref()?.message.as_deref()
}

/// Returns the name of the attachment's PersistentVolume; `None` for a volume of a pod's own.
pub fn persistent_volume(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_kubernetes() {
        let volume = CsiVolume { driver: "csi.test".into(), handle: "vol".into() };
        // sha256sum of "volcsi.testnode-1".
        let expected = "csi-d3928cf00e0bbf3d940847ee053e02c74594bae733a7156127f2b66edda91a25";
        assert_eq!(name(&volume, "node-1"), expected);
    }
}
