//! `Lookup`: reads single objects and small collections, for code that decides about another object.
//!
//! Corresponds to the listers and the client that kube-apiserver hands to its admission plugins and authenticators.

use async_trait::async_trait;
use proto::resources::Target;
use proto::{Gvk, Object, Status};
use serde_json::Value;
use std::sync::Arc;

/// Identifies an object of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> ObjectKey<'a> {
    pub fn new(group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { group, resource, namespace, name }
    }

    pub fn cluster(group: &'a str, resource: &'a str, name: &'a str) -> Self {
        Self::new(group, resource, "", name)
    }
}

/// Reads of other objects, in their storage version.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Reads an object from the watch cache, which may lag behind the last write.
    fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// Reads an object from the store: sees everything that was written before this call.
    async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// Lists a namespace, or the cluster if `namespace` is empty, from the watch cache, in the order of keys.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status>;
    /// Returns the resource of a kind, if it is served.
    fn kind(&self, gvk: &Gvk) -> Option<Target>;
    /// Converts an object of that resource to the version of `target`.
    async fn as_kind(&self, target: &Target, object: &Object) -> Result<Value, Status>;

    /// Reads an object from the watch cache, or from the store if the cache does not have it (yet).
    async fn find(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        match self.get(key)? {
            Some(cached) => Ok(Some(cached)),
            None => self.get_live(key).await,
        }
    }
}
