//! Requests of the aggregator itself for another server's discovery and OpenAPI documents.

use super::identity::identify;
use axum::body::{Body, to_bytes};
use client::Client;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use request::user_info::{MASTERS, UserInfo};
use serde_json::Value;

/// Maximum size of a discovery or OpenAPI document.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// Gets a document as the user `system:kube-aggregator`, who may read everything.
pub async fn get(client: &Client, path: &str, headers: &[(HeaderName, &str)]) -> Result<Response<Body>, client::Error> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse().map_err(|_| client::Error::Decode(format!("{path}: not a path")))?;
    let mut all = HeaderMap::new();
    all.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            all.insert(name.clone(), value);
        }
    }
    let identified = identify(&mut all, &UserInfo::new("system:kube-aggregator", &[MASTERS]));
    identified.expect("these names are plain");
    *request.headers_mut() = all;
    client.send(request).await
}

/// Reads the body of a response; `None` when it is not JSON.
pub async fn read_json(response: Response<Body>) -> Option<Value> {
    let bytes = to_bytes(response.into_body(), MAX_DOCUMENT_BYTES).await.ok()?;
    serde_json::from_slice(&bytes).ok()
}
