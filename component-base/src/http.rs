//! The one body type of requests and answers, client and server alike.
//!
//! Corresponds to what net/http's Request and Response are to Kubernetes.

use bytes::Bytes;

pub use crate::network::HttpService;

/// A request's or an answer's body: bytes at hand or a stream.
pub type Body = axum::body::Body;

/// A body as a stream of its data frames.
pub type BodyStream = axum::body::BodyDataStream;

/// The body was cut off, or is longer than the reader allows.
#[derive(Debug, thiserror::Error)]
#[error("reading a body: {0}")]
pub struct BodyError(#[source] axum::Error);

/// The whole body, at most `limit_bytes` of it.
pub async fn read_all(body: Body, limit_bytes: usize) -> Result<Bytes, BodyError> {
    axum::body::to_bytes(body, limit_bytes).await.map_err(BodyError)
}
