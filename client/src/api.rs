//! `Api`: every verb on the collection of one kind.
//!
//! Corresponds to the typed clients of k8s.io/client-go/kubernetes.

use crate::cached::Cached;
use crate::client::Client;
use crate::dynamic::{DynamicApi, FromBody};
use crate::error::Error;
use crate::options::{DeleteOptions, List, ListOptions, Patch, PatchOptions};
use crate::request::{Call, JSON};
use crate::watch::Watch;
use http::Method;
use proto::kinds::Kind;
use serde_json::Value;
use std::marker::PhantomData;

impl Client {
    /// Returns the API of a kind's collection; an empty namespace stands for the whole cluster.
    pub fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::new(self.dynamic(&K::gvr(), namespace))
    }
}

/// The API of one kind, in one namespace or in the whole cluster.
#[derive(Clone)]
pub struct Api<K> {
    dynamic: DynamicApi,
    kind: PhantomData<fn() -> K>,
}

/// Adapts the decoder of a kind to `FromBody`. As in caches, managed fields are left out: they are a third of an object, and no
/// component reads them. An update without them leaves those of the server as they are.
struct Decoded<K>(K);

impl<K: Kind> FromBody for Decoded<K> {
    fn from_body(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        <K as Cached>::decode(bytes).map(Decoded)
    }
}

impl<K: Kind> Api<K> {
    pub(crate) fn new(dynamic: DynamicApi) -> Self {
        Self { dynamic, kind: PhantomData }
    }

    /// Returns the untyped API of the same collection.
    pub fn dynamic(&self) -> &DynamicApi {
        &self.dynamic
    }

    async fn fetch(&self, call: Call) -> Result<K, Error> {
        self.dynamic.fetch::<Decoded<K>>(call).await.map(|decoded| decoded.0)
    }

    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.fetch(Call::new(Method::GET, self.dynamic.object(name).into_string())).await
    }

    pub async fn list(&self, options: &ListOptions) -> Result<List<K>, Error> {
        self.dynamic.list_as(options, JSON, <K as Cached>::decode).await
    }

    pub async fn create(&self, object: &K) -> Result<K, Error> {
        self.fetch(self.dynamic.post_call(&object.encode())).await
    }

    /// Replaces the object; its `resourceVersion`, if any, must be the present one.
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        self.fetch(self.dynamic.put_call(&object.encode(), "")?).await
    }

    pub async fn update_status(&self, object: &K) -> Result<K, Error> {
        self.fetch(self.dynamic.put_call(&object.encode(), "status")?).await
    }

    pub async fn patch(&self, name: &str, patch: &Patch, options: &PatchOptions) -> Result<K, Error> {
        self.fetch(self.dynamic.patch_call(name, "", patch, options)).await
    }

    pub async fn patch_status(&self, name: &str, patch: &Patch, options: &PatchOptions) -> Result<K, Error> {
        self.fetch(self.dynamic.patch_call(name, "status", patch, options)).await
    }

    /// Deletes an object. Finalizers and grace periods may keep it after the server has accepted the request.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<(), Error> {
        self.dynamic.delete(name, options).await
    }

    pub async fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<(), Error> {
        self.dynamic.delete_collection(options, which).await
    }

    /// Posts to `binding`, `eviction`, `token`, ….
    pub async fn create_subresource(&self, name: &str, subresource: &str, body: &Value) -> Result<Value, Error> {
        self.dynamic.create_subresource(name, subresource, body).await
    }

    pub async fn get_scale(&self, name: &str) -> Result<Value, Error> {
        self.dynamic.get_scale(name).await
    }

    pub async fn update_scale(&self, name: &str, scale: &Value) -> Result<Value, Error> {
        self.dynamic.update_scale(name, scale).await
    }

    /// Watches the collection; objects are not decoded. The caller has to resume the watch; informers do so themselves.
    pub async fn watch(&self, options: &ListOptions) -> Result<Watch, Error> {
        self.dynamic.watch(options).await
    }
}
