//! From a stored object to what the client asked for: another version, its metadata, a table, JSON or YAML.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/response.go.

use super::encode::{metadata, wire};
use super::{Call, table};
use crate::answer;
use crate::media::{Encoding, Form, Transform};
use axum::body::Body;
use bytes::Bytes;
use http::Response;
use proto::resources::Target;
use proto::{Object, Status};
use serde_json::Value;

/// An object as the answer to a request that may ask for a table or for metadata alone.
pub fn object(
    call: &Call<'_>,
    target: &Target,
    form: &Form,
    code: u16,
    object: &Object,
    has_revision: bool,
) -> Result<Response<Body>, Status> {
    match form.transform {
        Transform::Whole => {
            let body = with_line_end(form, answer::reencode(form, &wire(target, object, has_revision)));
            Ok(answer::compressed(
                code,
                form.encoding.media_type(),
                body,
                call.info.verb == "get" && answer::takes_gzip(call.headers()),
            ))
        }
        Transform::Metadata(version) => {
            let meta = metadata(object, version.api_version(), "PartialObjectMetadata");
            Ok(answer::response(code, form.encoding.media_type(), with_line_end(form, answer::reencode(form, &[meta]))))
        }
        Transform::Table(version) => {
            let options = table::Options::of(call.info, version)?;
            let mut out = Vec::with_capacity(1024);
            let head = table::Head { revision: Some(object.revision), continue_token: None, remaining: None };
            let now_s = call.server.env.wall().as_second();
            table::write(&mut out, target, &options, &head, true, &[object], now_s);
            Ok(answer::response(
                code,
                form.encoding.media_type(),
                with_line_end(form, answer::reencode(form, &[out.into()])),
            ))
        }
    }
}

/// JSON answers end their line; the slices do not.
pub fn with_line_end(form: &Form, body: Bytes) -> Bytes {
    if form.encoding != Encoding::Json || form.pretty || body.ends_with(b"\n") {
        return body;
    }
    let mut whole = Vec::with_capacity(body.len() + 1);
    whole.extend_from_slice(&body);
    whole.push(b'\n');
    Bytes::from(whole)
}

/// A tree that is no stored object: a review, a Scale.
pub fn tree(form: &Form, code: u16, value: &Value) -> Response<Body> {
    answer::value(form, code, value)
}
