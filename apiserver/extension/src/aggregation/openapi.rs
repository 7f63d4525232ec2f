//! What other servers say of their types, beside what this one says.
//!
//! The index of v3 names their documents, which are fetched when somebody asks; v2 is one document for everybody, so
//! theirs are kept and merged. Corresponds to the openapi and openapiv3 controllers of
//! k8s.io/kube-aggregator/pkg/controllers.

use super::api_service::ApiService;
use super::asking::{get, tree};
use super::merged::part_of;
use super::table::{Aggregation, Learnt, RemoteVersion, Table};
use axum::body::Body;
use bytes::Bytes;
use cacher::lookup::Lookup;
use client::Client;
use http::{HeaderMap, Response, header};
use openapi::{Document, Documents};
use remote::callers::Callers;
use remote::callers::unreachable;
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks a server for its documents.
pub(super) async fn learn(client: &Client, service: ApiService<'_>, learnt: &mut Learnt) {
    let path = format!("apis/{}/{}", service.group(), service.version());
    if let Ok(answer) = get(client, "/openapi/v3", &[]).await
        && answer.status() == 200
        && let Some(index) = tree(answer).await
    {
        learnt.v3_url = index["paths"][&path]["serverRelativeURL"].as_str().map(str::to_owned);
    }
    let tag = learnt.v2_tag.clone().filter(|_| learnt.v2.is_some());
    let condition: Vec<_> = tag.as_deref().map(|tag| (header::IF_NONE_MATCH, tag)).into_iter().collect();
    let Ok(answer) = get(client, "/openapi/v2", &condition).await else { return };
    if answer.status() != 200 {
        return;
    }
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    if let Some(document) = tree(answer).await {
        learnt.v2 = Some(Arc::new(part_of(&document, &format!("/{path}/"))));
        learnt.v2_tag = tag;
    }
}

impl Aggregation {
    /// `/openapi/v3`
    pub fn v3_index(&self, own: &Documents) -> Document {
        let table = self.table();
        if table.is_empty() {
            return own.v3_index().clone();
        }
        Document::of(Bytes::from(with_remote(own, &table).to_string()))
    }

    /// `/openapi/v2`
    pub fn v2(&self, own: &Documents, is_protobuf: bool) -> Arc<Document> {
        let theirs = self.table().values().filter_map(|remote| remote.learnt.v2.clone()).collect();
        self.merged.with(own, theirs, is_protobuf)
    }
}

fn with_remote(own: &Documents, table: &Table) -> Value {
    let mut index: Value = serde_json::from_slice(&own.v3_index().bytes).expect("our own JSON");
    for remote in table.values() {
        let path = format!("apis/{}/{}", remote.group, remote.version);
        match &remote.learnt.v3_url {
            Some(url) => index["paths"][&path] = json!({"serverRelativeURL": url}),
            None => drop(index["paths"].as_object_mut().and_then(|paths| paths.remove(&path))),
        }
    }
    index
}

/// `/openapi/v3/apis/<group>/<version>` of another server, path and query as they were asked for, fetched as the
/// aggregator.
///
/// # Errors
/// Why the other server cannot be asked: 503 for the client.
pub async fn v3(
    callers: &Callers,
    objects: &dyn Lookup,
    path: &str,
    headers: &HeaderMap,
    remote: &RemoteVersion,
) -> Result<Response<Body>, String> {
    let authority = match callers.resolve(objects, &remote.service) {
        Ok(authority) if remote.is_available => authority,
        _ => return Err("service unavailable".to_owned()),
    };
    let client = callers.client(&authority, &remote.trust).map_err(|error| error.to_string())?;
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
