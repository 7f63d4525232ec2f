//! DefaultStorageClass and DefaultIngressClass: set the default class of claims and ingresses that name none.
//!
//! Corresponds to plugin/pkg/admission/storage/storageclass/setdefault and plugin/pkg/admission/network/defaultingressclass.

use super::pod_parts::{metadata_entry, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use serde_json::{Value, json};
use std::sync::Arc;

const IS_DEFAULT_STORAGE: &str = "storageclass.kubernetes.io/is-default-class";
const IS_DEFAULT_STORAGE_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
/// Annotation with the class of a claim, from before `storageClassName`.
const STORAGE_CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";
const IS_DEFAULT_INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

pub struct DefaultStorageClass;
pub struct DefaultIngressClass;

/// Returns the classes annotated as default, the newest first, then by name.
fn defaults(
    attributes: &Attributes<'_>,
    group: &str,
    resource: &str,
    annotations: &[&str],
) -> Result<Vec<Arc<Value>>, Status> {
    let says_so =
        |class: &Value| annotations.iter().any(|key| metadata_entry(class, "annotations", key) == Some("true"));
    let mut classes: Vec<Arc<Value>> =
        attributes.lookup.list(group, resource, "")?.iter().map(|class| class.value()).collect();
    classes.retain(|class| says_so(class));
    classes.sort_by(|a, b| {
        let made = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
        made(b).cmp(&made(a)).then_with(|| text(a, "/metadata/name").cmp(text(b, "/metadata/name")))
    });
    Ok(classes)
}

#[async_trait]
impl AdmissionPlugin for DefaultStorageClass {
    /// A claim with an empty class name wants no class.
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let claim = attributes.new_object();
        let names_class = claim.pointer("/spec/storageClassName").is_some_and(|name| !name.is_null())
            || metadata_entry(claim, "annotations", STORAGE_CLASS_BETA).is_some();
        if !attributes.is("", "persistentvolumeclaims") || names_class {
            return Ok(());
        }
        let keys = [IS_DEFAULT_STORAGE, IS_DEFAULT_STORAGE_BETA];
        let classes = defaults(attributes, "storage.k8s.io", "storageclasses", &keys)?;
        if let (Some(class), Some(claim)) = (classes.first(), attributes.object.as_deref_mut()) {
            claim["spec"]["storageClassName"] = json!(text(class, "/metadata/name"));
        }
        Ok(())
    }
}

#[async_trait]
impl AdmissionPlugin for DefaultIngressClass {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let ingress = attributes.new_object();
        let names_class = ingress.pointer("/spec/ingressClassName").is_some_and(|name| !name.is_null())
            || metadata_entry(ingress, "annotations", INGRESS_CLASS).is_some();
        if !attributes.is("networking.k8s.io", "ingresses") || names_class {
            return Ok(());
        }
        let classes = defaults(attributes, "networking.k8s.io", "ingressclasses", &[IS_DEFAULT_INGRESS])?;
        if let (Some(class), Some(ingress)) = (classes.first(), attributes.object.as_deref_mut()) {
            ingress["spec"]["ingressClassName"] = json!(text(class, "/metadata/name"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    fn class(name: &str, annotation: &str, made: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": made, "annotations": {annotation: "true"}}})
    }

    #[tokio::test]
    async fn claims_get_the_newest_default_class() {
        let old = || class("a-old", IS_DEFAULT_STORAGE, "2026-01-01T00:00:00Z");
        let new = || class("b-new", IS_DEFAULT_STORAGE_BETA, "2026-01-02T00:00:00Z");
        let twin = || class("c-new", IS_DEFAULT_STORAGE, "2026-01-02T00:00:00Z");
        for (metadata, spec, expected) in [
            (json!({}), json!({}), json!("b-new")),
            (json!({}), json!({"storageClassName": ""}), json!("")),
            (json!({}), json!({"storageClassName": "other"}), json!("other")),
            (json!({"annotations": {STORAGE_CLASS_BETA: "x"}}), json!({}), Value::Null),
        ] {
            let claim = json!({"metadata": metadata, "spec": spec});
            let seen = Write::create("", "persistentvolumeclaims", claim)
                .beside("storage.k8s.io", "storageclasses", old())
                .beside("storage.k8s.io", "storageclasses", twin())
                .beside("storage.k8s.io", "storageclasses", new())
                .run(&DefaultStorageClass)
                .await;
            assert_eq!(seen.passed()["spec"]["storageClassName"], expected);
        }
        let claim = json!({"metadata": {"name": "c"}, "spec": {}});
        let seen = Write::create("", "persistentvolumeclaims", claim.clone()).run(&DefaultStorageClass).await;
        assert_eq!(seen.passed(), claim);
    }

    #[tokio::test]
    async fn ingresses_get_the_default_class() {
        for (metadata, spec, expected) in [
            (json!({}), json!({}), json!("main")),
            (json!({}), json!({"ingressClassName": "other"}), json!("other")),
            (json!({"annotations": {INGRESS_CLASS: "old"}}), json!({}), Value::Null),
        ] {
            let seen = Write::create("networking.k8s.io", "ingresses", json!({"metadata": metadata, "spec": spec}))
                .beside(
                    "networking.k8s.io",
                    "ingressclasses",
                    class("main", IS_DEFAULT_INGRESS, "2026-01-01T00:00:00Z"),
                )
                .run(&DefaultIngressClass)
                .await;
            assert_eq!(seen.passed()["spec"]["ingressClassName"], expected);
        }
    }
}
