//! `DynamicApi`: every verb on one collection, over untyped JSON.
//!
//! Corresponds to k8s.io/client-go/dynamic.

use crate::cached::{Cached, PartialObject};
use crate::client::Client;
use crate::error::Error;
use crate::managed_fields;
use crate::options::{DeleteOptions, List, ListMeta, ListOptions, Patch, PatchOptions};
use crate::request::{Call, JSON, Target};
use crate::watch::Watch;
use bytes::Bytes;
use http::Method;
use proto::gvk::Gvr;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

impl Client {
    /// Returns the untyped API of a collection; an empty namespace stands for the whole cluster.
    pub fn dynamic(&self, gvr: &Gvr, namespace: &str) -> DynamicApi {
        DynamicApi::new(self.clone(), gvr.clone(), namespace)
    }
}

/// The untyped API of one collection, in one namespace or in the whole cluster.
#[derive(Clone)]
pub struct DynamicApi {
    client: Client,
    gvr: Gvr,
    namespace: String,
}

/// A type that the body of an answer is decoded as.
pub(crate) trait FromBody: Sized {
    fn from_body(bytes: &[u8]) -> Result<Self, serde_json::Error>;
}

impl FromBody for Value {
    fn from_body(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl FromBody for PartialObject {
    fn from_body(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Self::decode(bytes)
    }
}

/// An object of which only the metadata is decoded, without managed fields.
#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    metadata: Value,
}

impl FromBody for Described {
    fn from_body(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        managed_fields::skip(bytes, |bytes| serde_json::from_slice(bytes))
    }
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    metadata: ListMeta,
    /// Go writes an empty list of items as null.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl DynamicApi {
    pub(crate) fn new(client: Client, gvr: Gvr, namespace: &str) -> Self {
        Self { client, gvr, namespace: namespace.to_owned() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn gvr(&self) -> &Gvr {
        &self.gvr
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub async fn get(&self, name: &str) -> Result<Value, Error> {
        self.fetch(Call::new(Method::GET, self.object(name).into_string())).await
    }

    /// Returns the metadata of an object. The server sends nothing else.
    pub async fn get_metadata(&self, name: &str) -> Result<PartialObject, Error> {
        let call = Call::new(Method::GET, self.object(name).into_string());
        self.fetch(call.accept(PartialObject::ACCEPT_WATCH)).await
    }

    pub async fn list(&self, options: &ListOptions) -> Result<List<Value>, Error> {
        self.list_as(options, JSON, |bytes| serde_json::from_slice(bytes)).await
    }

    pub async fn create(&self, object: &Value) -> Result<Value, Error> {
        self.fetch(self.post_call(object)).await
    }

    /// Creates an object, and returns only the metadata of the new one. A server that can sends nothing else.
    pub(crate) async fn create_described(&self, object: &Value) -> Result<Value, Error> {
        let call = self.post_call(object).accept(PartialObject::ACCEPT_WATCH);
        let described: Described = self.fetch(call).await?;
        Ok(Value::from_iter([("metadata", described.metadata)]))
    }

    /// Creates an object from its JSON in this API's namespace, without decoding the server's answer.
    pub(crate) async fn create_unread(&self, object: Vec<u8>) -> Result<(), Error> {
        self.client.call(&Call::new(Method::POST, self.collection()).body(JSON, object)).await.map(drop)
    }

    /// Replaces the object; its `resourceVersion`, if any, must be the present one.
    pub async fn update(&self, object: &Value) -> Result<Value, Error> {
        self.put(object, "").await
    }

    pub async fn update_status(&self, object: &Value) -> Result<Value, Error> {
        self.put(object, "status").await
    }

    pub async fn patch(&self, name: &str, patch: &Patch, options: &PatchOptions) -> Result<Value, Error> {
        self.patch_subresource(name, "", patch, options).await
    }

    pub async fn patch_status(&self, name: &str, patch: &Patch, options: &PatchOptions) -> Result<Value, Error> {
        self.patch_subresource(name, "status", patch, options).await
    }

    /// Patches a subresource; an empty `subresource` stands for the object itself.
    pub async fn patch_subresource(
        &self,
        name: &str,
        subresource: &str,
        patch: &Patch,
        options: &PatchOptions,
    ) -> Result<Value, Error> {
        self.fetch(self.patch_call(name, subresource, patch, options)).await
    }

    /// Deletes an object. Finalizers and grace periods may keep it after the server has accepted the request.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<(), Error> {
        self.client.call(&delete_call(self.object(name), options)).await.map(drop)
    }

    pub async fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<(), Error> {
        let target = which.add_to(Target::new(self.collection()));
        self.client.call(&delete_call(target, options)).await.map(drop)
    }

    pub async fn get_subresource(&self, name: &str, subresource: &str) -> Result<Value, Error> {
        self.fetch(Call::new(Method::GET, self.object(name).segment(subresource).into_string())).await
    }

    /// Posts to `binding`, `eviction`, `token`, ….
    pub async fn create_subresource(&self, name: &str, subresource: &str, body: &Value) -> Result<Value, Error> {
        let target = self.object(name).segment(subresource).into_string();
        self.fetch(Call::new(Method::POST, target).body(JSON, body.to_string())).await
    }

    /// Posts JSON to a subresource, such as `binding`, without decoding the server's answer.
    pub async fn create_subresource_unread(&self, name: &str, subresource: &str, body: Vec<u8>) -> Result<(), Error> {
        let target = self.object(name).segment(subresource).into_string();
        self.client.call(&Call::new(Method::POST, target).body(JSON, body)).await.map(drop)
    }

    pub async fn update_subresource(&self, name: &str, subresource: &str, body: &Value) -> Result<Value, Error> {
        let target = self.object(name).segment(subresource).into_string();
        self.fetch(Call::new(Method::PUT, target).body(JSON, body.to_string())).await
    }

    pub async fn get_scale(&self, name: &str) -> Result<Value, Error> {
        self.get_subresource(name, "scale").await
    }

    pub async fn update_scale(&self, name: &str, scale: &Value) -> Result<Value, Error> {
        self.update_subresource(name, "scale", scale).await
    }

    /// Watches the collection. The caller has to resume the watch; informers do so themselves.
    pub async fn watch(&self, options: &ListOptions) -> Result<Watch, Error> {
        self.watch_as(options, JSON).await
    }

    pub(crate) async fn watch_as(&self, options: &ListOptions, accept: &'static str) -> Result<Watch, Error> {
        let target = options.add_to(Target::new(self.collection()).flag("watch", true)).into_string();
        let answer = self.client.call_streaming(&Call::new(Method::GET, target).accept(accept)).await?;
        Ok(Watch::new(answer.into_body()))
    }

    pub(crate) async fn list_as<T>(
        &self,
        options: &ListOptions,
        accept: &'static str,
        mut decode: impl FnMut(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<List<T>, Error> {
        let target = options.add_to(Target::new(self.collection())).into_string();
        let call = Call::new(Method::GET, target).accept(accept);
        let bytes = self.client.call(&call).await?;
        let raw: RawList<'_> = serde_json::from_slice(&bytes).map_err(|error| undecodable(&call, &error))?;
        let items = raw.items.unwrap_or_default().into_iter().map(|item| decode(item.get().as_bytes()));
        let items = items.collect::<Result<_, _>>().map_err(|error| undecodable(&call, &error))?;
        Ok(List { metadata: raw.metadata, items })
    }

    pub(crate) fn patch_call(&self, name: &str, subresource: &str, patch: &Patch, options: &PatchOptions) -> Call {
        let target = self.subresource(name, subresource);
        let target = options.add_to(patch, target).into_string();
        Call::new(Method::PATCH, target).body(patch.content_type(), patch.value().to_string())
    }

    pub(crate) async fn fetch<T: FromBody>(&self, call: Call) -> Result<T, Error> {
        let bytes: Bytes = self.client.call(&call).await?;
        T::from_body(&bytes).map_err(|error| undecodable(&call, &error))
    }

    pub(crate) fn object(&self, name: &str) -> Target {
        Target::new(self.collection()).segment(name)
    }

    fn subresource(&self, name: &str, subresource: &str) -> Target {
        let target = self.object(name);
        if subresource.is_empty() { target } else { target.segment(subresource) }
    }

    fn collection(&self) -> String {
        self.gvr.path((!self.namespace.is_empty()).then_some(self.namespace.as_str()))
    }

    /// Returns the collection to write to: an API of all namespaces uses the object's own namespace.
    fn collection_for(&self, object: &Value) -> String {
        let own = object["metadata"]["namespace"].as_str().filter(|_| self.namespace.is_empty());
        own.map_or_else(|| self.collection(), |namespace| self.gvr.path(Some(namespace)))
    }

    async fn put(&self, object: &Value, subresource: &str) -> Result<Value, Error> {
        let call = self.put_call(object, subresource)?;
        self.fetch(call).await
    }

    pub(crate) fn put_call(&self, object: &Value, subresource: &str) -> Result<Call, Error> {
        let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::Decode(format!("update of {}: the object has no name", self.gvr)))?;
        let target = Target::new(self.collection_for(object)).segment(name);
        let target = if subresource.is_empty() { target } else { target.segment(subresource) };
        Ok(Call::new(Method::PUT, target.into_string()).body(JSON, object.to_string()))
    }

    pub(crate) fn post_call(&self, object: &Value) -> Call {
        Call::new(Method::POST, self.collection_for(object)).body(JSON, object.to_string())
    }
}

fn delete_call(target: Target, options: &DeleteOptions) -> Call {
    let call = Call::new(Method::DELETE, target.into_string());
    match options.body() {
        Some(body) => call.body(JSON, body.to_string()),
        None => call,
    }
}

fn undecodable(call: &Call, error: &serde_json::Error) -> Error {
    Error::Decode(format!("{} {}: {error}", call.method, call.target))
}
