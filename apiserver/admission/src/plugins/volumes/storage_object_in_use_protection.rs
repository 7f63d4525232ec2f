//! StorageObjectInUseProtection: adds the finalizers that protect PersistentVolumeClaims, PersistentVolumes and
//! VolumeAttributesClasses while they are in use.
//!
//! Corresponds to plugin/pkg/admission/storage/storageobjectinuseprotection.

use crate::plugins::finalizers::hold;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const CLASS_FINALIZER: &str = "kubernetes.io/vac-protection";

pub struct StorageObjectInUseProtection;

#[async_trait]
impl AdmissionPlugin for StorageObjectInUseProtection {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let finalizer = if attributes.is("", "persistentvolumeclaims") {
            CLAIM_FINALIZER
        } else if attributes.is("", "persistentvolumes") {
            VOLUME_FINALIZER
        } else if attributes.is("storage.k8s.io", "volumeattributesclasses") {
            CLASS_FINALIZER
        } else {
            return Ok(());
        };
        hold(attributes, finalizer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    #[tokio::test]
    async fn what_may_be_in_use_is_held() {
        for (group, resource, before, after) in [
            ("", "persistentvolumeclaims", json!([]), json!([CLAIM_FINALIZER])),
            ("", "persistentvolumeclaims", json!([CLAIM_FINALIZER]), json!([CLAIM_FINALIZER])),
            ("", "persistentvolumes", json!(["a/b"]), json!(["a/b", VOLUME_FINALIZER])),
            ("storage.k8s.io", "volumeattributesclasses", json!([]), json!([CLASS_FINALIZER])),
            ("", "pods", json!([]), json!([])),
        ] {
            let object = json!({"metadata": {"name": "x", "finalizers": before}});
            let object = Write::create(group, resource, object).run(&StorageObjectInUseProtection).await.passed();
            assert_eq!(object["metadata"]["finalizers"], after, "{resource}");
        }
    }
}
