//! Responses of plain text: how the kubelet refuses a request, and how a simulated page is sent.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

/// A refusal as the kubelet writes it: a status code and a line of text.
pub type Refusal = (StatusCode, String);

pub fn text((code, text): Refusal) -> Response<Body> {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
