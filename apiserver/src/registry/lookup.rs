//! What plugins and strategies see of other objects, and the objects they reserve beside a write.
//!
//! Corresponds to the informers and clients that kube-apiserver hands to its admission plugins and allocators.

use super::object_meta;
use super::strategy::Reservations;
use super::{Registry, cache_failure, storage_failure};
use crate::admission::{Lookup, QuotaStore};
use crate::request::query::parse_unsigned;
use crate::storage::Outcome;
use async_trait::async_trait;
use proto::{Object, Status};
use serde_json::Value;
use std::sync::Arc;

fn shown(object: &Arc<Object>) -> Arc<Value> {
    Arc::new(object.to_value())
}

#[async_trait]
impl Lookup for Registry {
    async fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Result<Option<Arc<Value>>, Status> {
        let (_, row) = self.row_of(group, resource)?;
        Ok(row.cacher.get(namespace, name).map_err(cache_failure)?.as_ref().map(shown))
    }

    async fn get_live(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Status> {
        let (_, row) = self.row_of(group, resource)?;
        Ok(self.current(&row, namespace, name).await?.as_ref().map(shown))
    }

    async fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        let (_, row) = self.row_of(group, resource)?;
        let snapshot = row.cacher.snapshot().map_err(cache_failure)?;
        Ok(match namespace {
            "" => snapshot.iter().map(|(_, object)| shown(object)).collect(),
            namespace => snapshot.in_namespace(namespace).map(|(_, object)| shown(object)).collect(),
        })
    }
}

#[async_trait]
impl QuotaStore for Registry {
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status> {
        let (_, row) = self.row_of("", "resourcequotas")?;
        let text = |key: &str| object_meta::text(quota, key);
        let revision = parse_unsigned(text("resourceVersion")).map_err(Status::internal)?;
        let bytes = row.object(quota.clone(), revision).bytes().clone();
        let key = row.key(text("namespace"), text("name"));
        let outcome = self.storage.update(&key, revision, bytes, row.ttl()).await.map_err(storage_failure)?;
        Ok(matches!(outcome, Outcome::Written { .. }))
    }
}

#[async_trait]
impl Reservations for Registry {
    async fn create(&self, group: &str, resource: &str, object: Value) -> Result<(), Status> {
        let (_, row) = self.row_of(group, resource)?;
        let mut object = object;
        object_meta::begin_create(&mut object, self.random.uid(), self.env.wall(), String::new);
        let (namespace, name) =
            (object_meta::text(&object, "namespace").to_owned(), object_meta::text(&object, "name").to_owned());
        let key = row.key(&namespace, &name);
        let bytes = row.object(object, 0).bytes().clone();
        match self.storage.create(&key, bytes, row.ttl()).await.map_err(storage_failure)? {
            Outcome::Written { .. } => Ok(()),
            Outcome::Refused(_) => Err(Status::already_exists(group, resource, &name)),
        }
    }

    async fn delete(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Result<(), Status> {
        let (_, row) = self.row_of(group, resource)?;
        while let Some(current) = self.current(&row, namespace, name).await? {
            let key = row.key(namespace, name);
            if let Outcome::Written { .. } = self.storage.delete(&key, current.revision).await.map_err(storage_failure)?
            {
                break;
            }
        }
        Ok(())
    }
}
