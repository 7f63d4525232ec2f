//! OpenAPI documents of other servers, merged with this server's.
//!
//! The v3 index links to the documents of other servers, which are fetched on request. v2 is one document for all servers,
//! so theirs are cached and merged. Corresponds to the openapi and openapiv3 controllers of
//! k8s.io/kube-aggregator/pkg/controllers.

use super::api_service::ApiService;
use super::fetch::{get, read_json};
use super::merged::part_of;
use super::table::{Aggregation, RemoteDocuments, RemoteVersion, Table};
use axum::body::Body;
use bytes::Bytes;
use cacher::lookup::Lookup;
use client::Client;
use http::{HeaderMap, Response, header};
use openapi::{Document, Documents};
use remote::clients::Clients;
use remote::clients::unreachable;
use serde_json::{Value, json};
use std::sync::Arc;

/// Fetches a server's OpenAPI v2 document and the URL of its v3 document. What cannot be fetched stays as it is.
pub(super) async fn fetch(client: &Client, service: ApiService<'_>, documents: &mut RemoteDocuments) {
    let path = format!("apis/{}/{}", service.group(), service.version());
    if let Ok(response) = get(client, "/openapi/v3", &[]).await
        && response.status() == 200
        && let Some(index) = read_json(response).await
    {
        documents.v3_url = index["paths"][&path]["serverRelativeURL"].as_str().map(str::to_owned);
    }
    let tag = documents.v2_tag.clone().filter(|_| documents.v2.is_some());
    let condition: Vec<_> = tag.as_deref().map(|tag| (header::IF_NONE_MATCH, tag)).into_iter().collect();
    let Ok(response) = get(client, "/openapi/v2", &condition).await else { return };
    if response.status() != 200 {
        return;
    }
    let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    if let Some(document) = read_json(response).await {
        documents.v2 = Some(Arc::new(part_of(&document, &format!("/{path}/"))));
        documents.v2_tag = tag;
    }
}

impl Aggregation {
    /// Returns the document of `/openapi/v3`.
    pub fn v3_index(&self, own: &Documents) -> Document {
        let table = self.table();
        if table.is_empty() {
            return own.v3_index().clone();
        }
        Document::of(Bytes::from(with_remote(own, &table).to_string()))
    }

    /// Returns the document of `/openapi/v2`.
    pub fn v2(&self, own: &Documents, is_protobuf: bool) -> Arc<Document> {
        let others = self.table().values().filter_map(|remote| remote.documents.v2.clone()).collect();
        self.merged.with(own, others, is_protobuf)
    }
}

/// Returns this server's v3 index with the documents of other servers.
fn with_remote(own: &Documents, table: &Table) -> Value {
    let mut index: Value = serde_json::from_slice(&own.v3_index().bytes).expect("our own JSON");
    for remote in table.values() {
        let path = format!("apis/{}/{}", remote.group, remote.version);
        match &remote.documents.v3_url {
            Some(url) => index["paths"][&path] = json!({"serverRelativeURL": url}),
            None => drop(index["paths"].as_object_mut().and_then(|paths| paths.remove(&path))),
        }
    }
    index
}

/// Fetches `/openapi/v3/apis/<group>/<version>` from another server, as the aggregator. `path` is the path and query of
/// the client's request.
///
/// # Errors
/// Says why the other server cannot be reached; the client gets 503.
pub async fn v3(
    clients: &Clients,
    objects: &dyn Lookup,
    path: &str,
    headers: &HeaderMap,
    remote: &RemoteVersion,
) -> Result<Response<Body>, String> {
    let authority = match clients.resolve(objects, &remote.service) {
        Ok(authority) if remote.is_available => authority,
        _ => return Err("service unavailable".to_owned()),
    };
    let client = clients.client(&authority, &remote.trust).map_err(|error| error.to_string())?;
    let text = |name| headers.get(&name).and_then(|value| value.to_str().ok()).map(|text| (name, text));
    let passed: Vec<_> = [header::ACCEPT, header::IF_NONE_MATCH].into_iter().filter_map(text).collect();
    let found = get(&client, path, &passed).await;
    let found = found.map_err(|error| unreachable(&authority, &error).to_string())?;
    let (parts, body) = found.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    let kept = [header::CONTENT_TYPE, header::ETAG, header::CACHE_CONTROL, header::EXPIRES, header::VARY];
    let kept = kept.into_iter().filter_map(|name| parts.headers.get(&name).map(|v| (name, v.clone())));
    *response.headers_mut() = HeaderMap::from_iter(kept);
    Ok(response)
}
