//! PersistentVolumeClaimResize: a claim may grow only if it is bound and its class has `allowVolumeExpansion`.
//!
//! Corresponds to plugin/pkg/admission/storage/persistentvolume/resize.

use crate::plugins::pod_parts::{metadata_entry, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::meta::quantity::Quantity;
use serde_json::Value;

pub struct PersistentVolumeClaimResize;

#[async_trait]
impl AdmissionPlugin for PersistentVolumeClaimResize {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let (old, new) = (attributes.old(), attributes.new_object());
        if !attributes.is("", "persistentvolumeclaims") || size(new) <= size(old) {
            return Ok(());
        }
        if text(old, "/status/phase") != "Bound" {
            return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
        }
        let name = class(new);
        let found = match !name.is_empty() && name == class(old) {
            true => attributes.lookup.get(ObjectKey::cluster("storage.k8s.io", "storageclasses", name))?,
            false => None,
        };
        match found.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
            true => Ok(()),
            false => Err(attributes.forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                 support resize",
            )),
        }
    }
}

fn size(claim: &Value) -> Quantity {
    Quantity::parse(text(claim, "/spec/resources/requests/storage")).unwrap_or(Quantity::ZERO)
}

fn class(claim: &Value) -> &str {
    metadata_entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| text(claim, "/spec/storageClassName"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    #[tokio::test]
    async fn claims_grow_where_their_class_lets_them() {
        let only_dynamic = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        for (class, phase, after, why) in [
            ("grows", "Bound", "2Gi", ""),
            ("grows", "Pending", "2Gi", "Only bound persistent volume claims can be expanded"),
            ("grows", "Pending", "1024Mi", ""),
            ("fixed", "Bound", "2Gi", only_dynamic),
            ("none", "Bound", "2Gi", only_dynamic),
            ("", "Bound", "2Gi", only_dynamic),
        ] {
            let claim = |size: &str| {
                json!({
                    "metadata": {"name": "c", "namespace": "a"},
                    "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
                    "status": {"phase": phase},
                })
            };
            let grows = json!({"metadata": {"name": "grows"}, "allowVolumeExpansion": true});
            let seen = Write::update("", "persistentvolumeclaims", claim("1Gi"), claim(after))
                .beside("storage.k8s.io", "storageclasses", grows)
                .beside("storage.k8s.io", "storageclasses", json!({"metadata": {"name": "fixed"}}))
                .run(&PersistentVolumeClaimResize)
                .await;
            let expected = match why {
                "" => String::new(),
                why => format!(r#"persistentvolumeclaims "c" is forbidden: {why}"#),
            };
            assert_eq!(seen.message(), expected);
        }
    }
}
