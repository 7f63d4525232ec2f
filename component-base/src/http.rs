//! The body type of requests and answers, for clients and servers alike.
//!
//! Corresponds to what net/http's Request and Response are to Kubernetes.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};

pub use crate::network::HttpService;

/// Body of a request or an answer: bytes or a stream.
pub type Body = axum::body::Body;

/// A body as a stream of its data frames.
pub type BodyStream = axum::body::BodyDataStream;

/// The body ended early, or is longer than the reader allows.
#[derive(Debug, thiserror::Error)]
#[error("reading a body: {0}")]
pub struct BodyError(#[source] axum::Error);

/// Reads the whole body; fails if it is longer than `limit_bytes`. A body that comes at once is not copied.
pub async fn read_all(body: Body, limit_bytes: usize) -> Result<Bytes, BodyError> {
    let mut body = Limited::new(body, limit_bytes);
    let mut parts = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError(axum::Error::new(error)))?;
        parts.extend(frame.into_data().ok().filter(|part| !part.is_empty()));
    }
    Ok(match &parts[..] {
        [] => Bytes::new(),
        [whole] => whole.clone(),
        parts => parts.concat().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[tokio::test]
    async fn bodies_have_any_number_of_parts_and_a_limit() {
        let body = |parts: &[&'static str]| {
            let parts: Vec<_> = parts.iter().copied().map(Ok::<_, Infallible>).collect();
            Body::from_stream(futures::stream::iter(parts))
        };
        assert_eq!(read_all(Body::empty(), 0).await.unwrap(), "");
        assert_eq!(read_all(body(&["abc"]), 3).await.unwrap(), "abc");
        assert_eq!(read_all(body(&["ab", "", "c"]), 3).await.unwrap(), "abc");
        let error = read_all(body(&["ab", "cd"]), 3).await.unwrap_err();
        assert_eq!(error.to_string(), "reading a body: length limit exceeded");
    }
}
