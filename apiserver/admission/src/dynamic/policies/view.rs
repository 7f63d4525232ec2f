//! `View`: one write as policies see it, in each version that they match.
//!
//! Corresponds to VersionedAttributes of k8s.io/apiserver/pkg/admission.

use crate::Attributes;
use crate::dynamic::expressions::{Activation, Authorizer, Subject};
use crate::dynamic::versioned_attributes::VersionedAttributes;
use cacher::lookup::ObjectKey;
use proto::Status;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Caches what policies share: converted objects and the namespace.
pub struct View<'a> {
    authorizer: &'a Arc<dyn Authorizer>,
    /// By the version in `attributes.versions`.
    activations: BTreeMap<usize, Activation>,
    namespace: Option<Value>,
}

impl<'a> View<'a> {
    pub fn new(authorizer: &'a Arc<dyn Authorizer>) -> Self {
        Self { authorizer, activations: BTreeMap::new(), namespace: None }
    }

    /// Returns the activation of the write in a version of `attributes.versions`.
    pub async fn activation(&mut self, attributes: &Attributes<'_>, version: usize) -> Result<Activation, Status> {
        if let Some(known) = self.activations.get(&version) {
            return Ok(known.clone());
        }
        let seen = VersionedAttributes::of(attributes, version).await?;
        let served = &attributes.versions.all()[version];
        let subject = Subject { served, object: &seen.object, old_object: &seen.old_object };
        let activation = Activation::of(attributes, subject, self.authorizer);
        self.activations.insert(version, activation.clone());
        Ok(activation)
    }

    /// Returns the object's namespace; null for cluster-scoped objects, including namespaces.
    pub async fn namespace(&mut self, attributes: &Attributes<'_>) -> Result<&Value, Status> {
        if self.namespace.is_none() {
            let name = if attributes.served.resource == "namespaces" { "" } else { attributes.namespace };
            self.namespace = Some(match name {
                "" => Value::Null,
                name => {
                    let found = attributes.lookup.find(ObjectKey::cluster("", "namespaces", name)).await?;
                    found.ok_or_else(|| Status::not_found("", "namespaces", name))?.to_value()
                }
            });
        }
        Ok(self.namespace.as_ref().unwrap_or(&Value::Null))
    }

    /// Drops converted objects after the object has changed.
    pub fn forget_objects(&mut self) {
        self.activations.clear();
    }
}
