//! What an informer can hold: whole typed objects, whole trees, or metadata alone.
//!
//! Corresponds to k8s.io/client-go/metadata and k8s.io/client-go/dynamic/dynamicinformer.

use crate::request::JSON;
use proto::kinds::Kind;
use proto::kinds::metav1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// An object as a cache keeps it.
pub trait Cached: Send + Sync + Sized + 'static {
    /// What lists and watches ask the server for.
    const ACCEPT_LIST: &'static str = JSON;
    const ACCEPT_WATCH: &'static str = JSON;

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
    fn metadata(&self) -> &ObjectMeta;

    /// `namespace/name`, or the name alone for cluster-scoped objects.
    fn cache_key(&self) -> String {
        key_of(self.metadata())
    }
}

/// A `Cached` of any type. Reflectors and stores hold objects so and are compiled once instead of once for each type;
/// `Informer` and `Lister` give them their type back.
pub trait AnyCached: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
}

impl<T: Cached> AnyCached for T {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}

/// Panics where the object is of another type: each store holds one type alone.
pub(crate) fn typed<T: Cached>(object: Arc<dyn AnyCached>) -> Arc<T> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| unreachable!("{MIXED}"))
}

/// The same for a borrowed object.
pub(crate) fn typed_ref<T: Cached>(object: &dyn AnyCached) -> &T {
    let object: &dyn Any = object;
    object.downcast_ref().unwrap_or_else(|| unreachable!("{MIXED}"))
}

const MIXED: &str = "a store of objects of two types";

/// How objects of one type are asked for and read.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub accept_list: &'static str,
    pub accept_watch: &'static str,
    pub decode: fn(&[u8]) -> Result<Arc<dyn AnyCached>, serde_json::Error>,
}

impl Form {
    pub(crate) fn of<T: Cached>() -> Self {
        Self {
            accept_list: T::ACCEPT_LIST,
            accept_watch: T::ACCEPT_WATCH,
            decode: |bytes| Ok(Arc::new(T::decode(bytes)?)),
        }
    }
}

/// The key of the object that has this metadata.
pub(crate) fn key_of(meta: &ObjectMeta) -> String {
    key(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The key of an object in caches and work queues.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Namespace and name of a key; the namespace of a cluster-scoped object is empty.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl<K: Kind> Cached for K {
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        K::decode(bytes)
    }

    fn metadata(&self) -> &ObjectMeta {
        Kind::metadata(self)
    }
}

/// An object of any kind without spec and status. The server leaves them out; they never travel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialObject {
    pub metadata: ObjectMeta,
}

impl Cached for PartialObject {
    const ACCEPT_LIST: &'static str =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    const ACCEPT_WATCH: &'static str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// An object of a kind that this program has no type for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicObject {
    pub value: Value,
    metadata: ObjectMeta,
}

impl Cached for DynamicObject {
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_slice(bytes)?;
        let metadata = value.get("metadata").map(ObjectMeta::deserialize).transpose()?.unwrap_or_default();
        Ok(Self { value, metadata })
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}
