//! StorageObjectInUseProtection: adds the finalizers that protect PersistentVolumeClaims, PersistentVolumes and
//! VolumeAttributesClasses while they are in use.
//!
//! Corresponds to plugin/pkg/admission/storage/storageobjectinuseprotection.

use crate::plugins::finalizers::hold;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::finalizers::{PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION};

pub struct StorageObjectInUseProtection;

#[async_trait]
impl AdmissionPlugin for StorageObjectInUseProtection {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let finalizer = if attributes.is("", "persistentvolumeclaims") {
            PVC_PROTECTION
        } else if attributes.is("", "persistentvolumes") {
            PV_PROTECTION
        } else if attributes.is("storage.k8s.io", "volumeattributesclasses") {
            VAC_PROTECTION
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
            ("", "persistentvolumeclaims", json!([]), json!([PVC_PROTECTION])),
            ("", "persistentvolumeclaims", json!([PVC_PROTECTION]), json!([PVC_PROTECTION])),
            ("", "persistentvolumes", json!(["a/b"]), json!(["a/b", PV_PROTECTION])),
            ("storage.k8s.io", "volumeattributesclasses", json!([]), json!([VAC_PROTECTION])),
            ("", "pods", json!([]), json!([])),
        ] {
            let object = json!({"metadata": {"name": "x", "finalizers": before}});
            let object = Write::create(group, resource, object).run(&StorageObjectInUseProtection).await.passed();
            assert_eq!(object["metadata"]["finalizers"], after, "{resource}");
        }
    }
}
