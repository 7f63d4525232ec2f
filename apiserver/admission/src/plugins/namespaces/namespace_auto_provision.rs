//! NamespaceAutoProvision: creates a missing namespace before the first object in it.
//!
//! Corresponds to plugin/pkg/admission/namespace/autoprovision. Off by default, as there.

use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use std::sync::Arc;

/// Creates namespaces as the API server's own user.
#[async_trait]
pub trait Namespaces: Send + Sync {
    /// Succeeds also if the namespace already exists.
    async fn create(&self, name: &str) -> Result<(), Status>;
}

pub struct NamespaceAutoProvision(pub Arc<dyn Namespaces>);

#[async_trait]
impl AdmissionPlugin for NamespaceAutoProvision {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let is_namespace = attributes.served.group.is_empty() && attributes.served.resource == "namespaces";
        if attributes.dry_run || is_namespace || attributes.namespace.is_empty() {
            return Ok(());
        }
        let (lookup, name) = (attributes.lookup, attributes.namespace);
        if lookup.get(ObjectKey::cluster("", "namespaces", name))?.is_some() {
            return Ok(());
        }
        self.0.create(name).await.map_err(|status| attributes.forbidden(status.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use parking_lot::Mutex;
    use serde_json::json;

    #[derive(Default)]
    struct Created(Mutex<Vec<String>>);

    #[async_trait]
    impl Namespaces for Created {
        async fn create(&self, name: &str) -> Result<(), Status> {
            if name == "bad" {
                return Err(Status::internal("no store"));
            }
            self.0.lock().push(name.to_owned());
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_namespace_is_created_first() {
        let created = Arc::new(Created::default());
        let plugin = NamespaceAutoProvision(created.clone());
        let create = |namespace: &str| {
            Write::create("", "configmaps", json!({"metadata": {"name": "c", "namespace": namespace}}))
        };
        create("a").run(&plugin).await.passed();
        create("there").beside("", "namespaces", json!({"metadata": {"name": "there"}})).run(&plugin).await.passed();
        create("tried").dry_run().run(&plugin).await.passed();
        Write::create("", "namespaces", json!({"metadata": {"name": "itself"}})).run(&plugin).await.passed();
        assert_eq!(create("bad").run(&plugin).await.error.map(|error| error.code), Some(403));
        assert_eq!(*created.0.lock(), ["a"]);
    }
}
