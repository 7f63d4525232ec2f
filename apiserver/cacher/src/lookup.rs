//! `Lookup`: reads of single objects and of small collections, for code that decides about another object.
//!
//! Corresponds to the listers and the client that kube-apiserver hands to its admission plugins and authenticators.

use async_trait::async_trait;
use proto::resources::Target;
use proto::{Gvk, Object, Status};
use serde_json::Value;
use std::sync::Arc;

/// Which object is meant, of whatever kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for what is cluster-scoped.
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
    /// From the watch cache; may lag behind the last write.
    fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// From the store: what has been written before this call is seen.
    async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// All of a namespace, or of the cluster where `namespace` is empty; from the watch cache, in key order.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status>;
    /// The resource of a kind, if it is served.
    fn kind(&self, gvk: &Gvk) -> Option<Target>;
    /// One of its objects in that version, rather than in the stored one.
    async fn as_kind(&self, target: &Target, object: &Object) -> Result<Value, Status>;

    /// From the watch cache, and from the store what the cache does not know (yet).
    async fn find(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        match self.get(key)? {
            Some(cached) => Ok(Some(cached)),
            None => self.get_live(key).await,
        }
    }
}
