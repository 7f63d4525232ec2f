//! Reads a request's body, up to a limit.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers limitedReadBody.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use proto::Status;

/// Kubernetes' own limit: three megabytes hold any object that etcd accepts, and its JSON patch.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Reads the whole body, or fails with 413 if it is longer than the limit.
pub async fn read(body: Body) -> Result<Bytes, Status> {
    let too_large = || Status::too_large(format!("Request entity too large: limit is {MAX_BODY_BYTES}"));
    let mut body = body;
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Status::bad_request(format!("unable to read the request's body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        match first.take() {
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(head) => {
                whole.extend_from_slice(&head);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}
