//! Forms in which an informer caches objects: typed, untyped, or metadata only.
//!
//! Corresponds to k8s.io/client-go/metadata and k8s.io/client-go/dynamic/dynamicinformer.

use crate::managed_fields;
use crate::request::JSON;
use proto::kinds::Kind;
use proto::kinds::metav1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;

/// An object in a cache.
pub trait Cached: Send + Sync + Sized + 'static {
    /// Value of the Accept header of lists and watches.
    const ACCEPT_LIST: &'static str = JSON;
    const ACCEPT_WATCH: &'static str = JSON;

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
    /// Returns the JSON from which `decode` makes an equal object.
    fn encode(&self) -> Vec<u8>;
    fn metadata(&self) -> &ObjectMeta;

    /// Returns `namespace/name`, or only the name of a cluster-scoped object.
    fn cache_key(&self) -> String {
        key_of(self.metadata())
    }
}

/// A `Cached` of any type. Reflectors and stores use it, so that they are compiled once and not for each type; `Informer`
/// and `Lister` cast it back to the type.
pub trait AnyCached: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
    fn json(&self) -> Vec<u8>;
}

impl<T: Cached> AnyCached for T {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn json(&self) -> Vec<u8> {
        self.encode()
    }
}

/// Casts an object to its type. Panics if it has another type, since each store holds one type only.
pub(crate) fn typed<T: Cached>(object: Arc<dyn AnyCached>) -> Arc<T> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| unreachable!("{MIXED}"))
}

/// Casts a borrowed object to its type, as `typed` does.
pub(crate) fn typed_ref<T: Cached>(object: &dyn AnyCached) -> &T {
    let object: &dyn Any = object;
    object.downcast_ref().unwrap_or_else(|| unreachable!("{MIXED}"))
}

const MIXED: &str = "a store of objects of two types";

/// Accept headers and decoder of one type.
#[derive(Clone, Copy)]
pub(crate) struct Codec {
    pub accept_list: &'static str,
    pub accept_watch: &'static str,
    pub decode: fn(&[u8]) -> Result<Arc<dyn AnyCached>, serde_json::Error>,
}

impl Codec {
    pub(crate) fn of<T: Cached>() -> Self {
        Self {
            accept_list: T::ACCEPT_LIST,
            accept_watch: T::ACCEPT_WATCH,
            decode: |bytes| Ok(Arc::new(T::decode(bytes)?)),
        }
    }
}

/// Returns the key of the object with this metadata.
pub(crate) fn key_of(meta: &ObjectMeta) -> String {
    key(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// Returns the key of an object in caches and work queues.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { [namespace, "/", name].concat() }
}

/// Splits a key into namespace and name; the namespace of a cluster-scoped object is empty.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// Managed fields are left out, as by the informers of the original components: nobody reads them, and they take more
/// memory than all the rest.
impl<K: Kind> Cached for K {
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        managed_fields::skip(bytes, K::decode)
    }

    fn encode(&self) -> Vec<u8> {
        Kind::encode(self).to_string().into_bytes()
    }

    fn metadata(&self) -> &ObjectMeta {
        Kind::metadata(self)
    }
}

/// The metadata of an object of any kind, without managed fields. The server sends nothing else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialObject {
    pub metadata: ObjectMeta,
}

impl Cached for PartialObject {
    const ACCEPT_LIST: &'static str =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    const ACCEPT_WATCH: &'static str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        managed_fields::skip(bytes, proto::serializer::json::read)
    }

    fn encode(&self) -> Vec<u8> {
        json!(self).to_string().into_bytes()
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// An object of a kind for which this program has no type.
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

    fn encode(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}
