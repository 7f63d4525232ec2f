//! NamespaceExists: rejects writes in a namespace that does not exist.
//!
//! Corresponds to plugin/pkg/admission/namespace/exists. Off by default, as there: NamespaceLifecycle does more.

use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;

pub struct NamespaceExists;

#[async_trait]
impl AdmissionPlugin for NamespaceExists {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let (lookup, name) = (attributes.lookup, attributes.namespace);
        let is_namespace = attributes.served.group.is_empty() && attributes.served.resource == "namespaces";
        if name.is_empty() || is_namespace {
            return Ok(());
        }
        match lookup.find(ObjectKey::cluster("", "namespaces", name)).await? {
            Some(_) => Ok(()),
            None => Err(Status::not_found("", "namespaces", name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    #[tokio::test]
    async fn the_namespace_must_be_there() {
        let create = || Write::create("", "configmaps", json!({"metadata": {"name": "c", "namespace": "a"}}));
        let namespace = || json!({"metadata": {"name": "a"}});
        assert_eq!(create().run(&NamespaceExists).await.message(), r#"namespaces "a" not found"#);
        create().beside("", "namespaces", namespace()).run(&NamespaceExists).await.passed();
        create().only_live("", "namespaces", namespace()).run(&NamespaceExists).await.passed();
        Write::create("", "namespaces", namespace()).run(&NamespaceExists).await.passed();
    }
}
