//! Questions that this server asks others in its own name: what they serve, and how it looks.

use super::identity::identify;
use axum::body::{Body, to_bytes};
use client::Client;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use request::user_info::{MASTERS, UserInfo};
use serde_json::Value;

/// Discovery and OpenAPI of one server are not larger.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// As the aggregator itself, who may see everything.
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
    let own = identify(&mut all, &UserInfo::new("system:kube-aggregator", &[MASTERS]));
    own.expect("these names are plain");
    *request.headers_mut() = all;
    client.send(request).await
}

/// The body of an answer, where it is JSON.
pub async fn tree(answer: Response<Body>) -> Option<Value> {
    let bytes = to_bytes(answer.into_body(), MAX_DOCUMENT_BYTES).await.ok()?;
    serde_json::from_slice(&bytes).ok()
}
