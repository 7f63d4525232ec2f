//! Deletes the objects of a deleted definition, then the definition.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/controller/finalizer.

use super::definition::{CLEANUP_FINALIZER, Definition, GROUP, RESOURCE};
use cacher::Freshness;
use futures::future::join_all;
use proto::resources::Target;
use proto::{Object, Status};
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::own_mutation;
use registry::row::Row;
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use strategy::object_meta;

/// Maximum number of concurrent deletions.
const MAX_DELETIONS: usize = 16;

/// Deletes the remaining objects. If none is left, removes the finalizer and returns true.
pub async fn step(registry: &Registry, definition: &Definition<'_>, row: Option<Arc<Row>>) -> registry::Result<bool> {
    if let Some(row) = row {
        let left = remaining(&row).await?;
        let target = Target { row: row.resource.clone(), served: row.resource.storage };
        let waiting: Vec<&Arc<Object>> = left.iter().filter(|object| !object.index.deleting).collect();
        for batch in waiting.chunks(MAX_DELETIONS) {
            for outcome in join_all(batch.iter().map(|object| delete(registry, &target, object))).await {
                outcome?;
            }
        }
        if !remaining(&row).await?.is_empty() {
            return Ok(false);
        }
    }
    release(registry, definition.name()).await?;
    Ok(true)
}

async fn remaining(row: &Row) -> Result<Vec<Arc<Object>>, Status> {
    let snapshot = row.cacher.read(Freshness::Latest).await.map_err(registry::Error::from)?;
    Ok(snapshot.iter().map(|(_, object)| object.clone()).collect())
}

async fn delete(registry: &Registry, target: &Target, object: &Object) -> registry::Result<()> {
    let user = UserInfo::apiserver();
    let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(target, &user, &options, &object.index.namespace, &object.index.name);
    match registry.delete(&mut mutation, &DeleteOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Removes the finalizer.
async fn release(registry: &Registry, name: &str) -> registry::Result<()> {
    let (target, _) = registry.row_of(GROUP, RESOURCE)?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, "", name);
    let edit = Edit(|current: &Value| {
        let mut object = current.clone();
        let kept: Vec<String> =
            object_meta::finalizers(current).into_iter().filter(|finalizer| finalizer != CLEANUP_FINALIZER).collect();
        object_meta::set_finalizers(&mut object, &kept);
        Ok(object)
    });
    match registry.update(&mut mutation, &edit).await {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
