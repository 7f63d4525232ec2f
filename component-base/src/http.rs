//! The body type of requests and answers, for clients and servers alike.
//!
//! Corresponds to what net/http's Request and Response are to Kubernetes.

use bytes::Bytes;

pub use crate::network::HttpService;

/// Body of a request or an answer: bytes or a stream.
pub type Body = axum::body::Body;

/// A body as a stream of its data frames.
pub type BodyStream = axum::body::BodyDataStream;

/// The body ended early, or is longer than the reader allows.
#[derive(Debug, thiserror::Error)]
#[error("reading a body: {0}")]
pub struct BodyError(#[source] axum::Error);

/// Reads the whole body; fails if it is longer than `limit_bytes`.
pub async fn read_all(body: Body, limit_bytes: usize) -> Result<Bytes, BodyError> {
    axum::body::to_bytes(body, limit_bytes).await.map_err(BodyError)
}
