//! `Converter`: whoever converts the objects of a row whose versions only somebody else can convert.

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
    /// The objects in the version `to`, in the same order; those that are in it already stay as they are. `is_list`:
    /// they are the items of a list, and errors say so.
    async fn convert(
        &self,
        registry: &Registry,
        objects: Vec<Value>,
        to: &str,
        is_list: bool,
    ) -> Result<Vec<Value>, Status>;
}

/// Objects that watches have had converted lately; whoever holds the lock is the one that asks.
pub type Recent = Mutex<VecDeque<(RecentKey, Arc<Object>)>>;
/// The uid and revision of an object, and a version.
pub type RecentKey = (String, u64, usize);
