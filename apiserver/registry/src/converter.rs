//! `Converter`: converts the objects of a custom resource between its versions by a webhook.

use super::Registry;
use async_trait::async_trait;
use proto::{Object, Status};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Corresponds to CRConverter of k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.
#[async_trait]
pub trait Converter: Send + Sync {
    /// Converts objects to the version `to`, in the same order. Objects that are in it already stay as they are. With
    /// `is_list`, errors say that the objects are the items of a list.
    async fn convert(
        &self,
        registry: &Registry,
        objects: Vec<Value>,
        to: &str,
        is_list: bool,
    ) -> Result<Vec<Value>, Status>;
}

/// Objects that were converted lately for watches. A watch holds the lock while it calls the webhook, so that others wait
/// for its result instead of calling it too.
pub type Recent = Mutex<VecDeque<(RecentKey, Arc<Object>)>>;
/// The uid and revision of an object, and the index of the version that it was converted to.
pub type RecentKey = (String, u64, usize);
