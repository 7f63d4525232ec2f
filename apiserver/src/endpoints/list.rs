//! GET of a collection: shared bytes, streamed in pieces.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/get.go ListResource.

use super::table::{self, Head};
use super::{Call, encode, present};
use crate::answer;
use crate::media::{Encoding, Form, MetaVersion, Transform};
use crate::registry::read::{Listed, Selection};
use crate::request::options::ListOptions;
use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderValue, Response, header};
use proto::resources::Target;
use proto::wire::json;
use proto::{Object, Status};
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;

/// A list is sent in pieces of about this size: large enough for TLS, small enough to wait in memory.
const PIECE_BYTES: usize = 256 * 1024;

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let options = ListOptions::read(&call.info.query, false)?;
    let name = (!call.info.name.is_empty()).then_some(call.info.name.as_str());
    let selection = Selection::of(target, call.namespace(target), name, &options)?;
    let listed = call.server.registry.read_list(target, &selection, &options).await?;
    respond(call, target, &form, listed)
}

/// A list in the form asked for.
pub fn respond(call: &Call<'_>, target: &Target, form: &Form, listed: Listed) -> Result<Response<Body>, Status> {
    let head =
        Head { revision: Some(listed.revision), continue_token: listed.continue_token, remaining: listed.remaining };
    if let Transform::Table(version) = form.transform {
        let options = table::Options::of(call.info, version)?;
        let objects: Vec<&Object> = listed.objects.iter().map(AsRef::as_ref).collect();
        let mut out = Vec::with_capacity(512 * (objects.len() + 1));
        table::write(&mut out, target, &options, &head, true, &objects, call.server.env.wall().as_second());
        let body = present::with_line_end(form, answer::reencode(form, &[out.into()]));
        let gzip = answer::takes_gzip(call.headers());
        return Ok(answer::compressed(200, form.encoding.media_type(), body, gzip));
    }
    let pieces = Pieces::new(target, form.transform, &head, listed.objects);
    if form.encoding != Encoding::Json || form.pretty {
        let whole: Vec<Bytes> = pieces.collect();
        let body = answer::reencode(form, &whole);
        let gzip = answer::takes_gzip(call.headers());
        return Ok(answer::compressed(200, form.encoding.media_type(), body, gzip));
    }
    Ok(streamed(pieces, answer::takes_gzip(call.headers())))
}

/// Sends pieces as the client takes them; one that fits is sent whole, with its length.
fn streamed(mut pieces: Pieces, gzip: bool) -> Response<Body> {
    let media_type = Encoding::Json.media_type();
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else {
        return answer::compressed(200, media_type, first, gzip);
    };
    let rest = [first, second].into_iter().chain(pieces);
    let mut response = answer::response(200, media_type, Bytes::new());
    if gzip {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        *response.body_mut() = Body::from_stream(stream::iter(Gzip::new(rest).map(Ok::<_, Infallible>)));
    } else {
        *response.body_mut() = Body::from_stream(stream::iter(rest.map(Ok::<_, Infallible>)));
    }
    response
}

/// The JSON of a list, piece by piece.
struct Pieces {
    target: Target,
    transform: Transform,
    objects: std::vec::IntoIter<Arc<Object>>,
    buffer: BytesMut,
    is_first: bool,
    done: bool,
}

impl Pieces {
    fn new(target: &Target, transform: Transform, head: &Head, objects: Vec<Arc<Object>>) -> Self {
        let served = target.served();
        let (kind, api_version) = match transform {
            Transform::Metadata(version) => ("PartialObjectMetadataList".to_owned(), version.api_version().to_owned()),
            _ => (served.list_kind(), served.api_version()),
        };
        let meta = table::list_meta(head);
        let mut buffer = BytesMut::with_capacity(4096);
        let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"items\":[");
        buffer.put_slice(head.as_bytes());
        Self { target: target.clone(), transform, objects: objects.into_iter(), buffer, is_first: true, done: false }
    }

    fn write(&mut self, object: &Object) {
        if !std::mem::take(&mut self.is_first) {
            self.buffer.put_u8(b',');
        }
        if let Transform::Metadata(version) = self.transform {
            // Items of a metadata list name their kind, as those of a typed list do not.
            self.buffer.put_slice(&metadata_item(object, version));
            return;
        }
        let keeps_kind = !is_builtin(&self.target);
        if !self.target.is_storage_version() {
            let bytes = answer::concat(&encode::wire(&self.target, object, true));
            put_item(&mut self.buffer, &[bytes], keeps_kind);
        } else {
            put_item(&mut self.buffer, &object.to_wire(), keeps_kind);
        }
    }
}

fn metadata_item(object: &Object, version: MetaVersion) -> Bytes {
    encode::metadata(object, version.api_version(), "PartialObjectMetadata")
}

/// Items of custom resources keep `apiVersion` and `kind`, those of built-in kinds leave them to the list.
fn is_builtin(target: &Target) -> bool {
    target.served().schema.name.starts_with("io.k8s.")
}

/// Appends an object, without `apiVersion` and `kind` unless they are kept.
fn put_item(buffer: &mut BytesMut, slices: &[Bytes], keeps_kind: bool) {
    let head = &slices[0];
    let mut from = 0;
    if !keeps_kind {
        for key in ["apiVersion", "kind"] {
            let Some(member) = json::member_with_comma(head, 0, key) else { continue };
            buffer.put_slice(&head[from..member.start]);
            from = member.end;
        }
    }
    buffer.put_slice(&head[from..]);
    for slice in &slices[1..] {
        buffer.put_slice(slice);
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        while self.buffer.len() < PIECE_BYTES {
            match self.objects.next() {
                Some(object) => self.write(&object),
                None => {
                    self.done = true;
                    self.buffer.put_slice(b"]}\n");
                    break;
                }
            }
        }
        Some(self.buffer.split().freeze())
    }
}

/// Compresses pieces on their way.
struct Gzip<I> {
    pieces: I,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I> Gzip<I> {
    fn new(pieces: I) -> Self {
        Self { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let encoder = self.encoder.as_mut()?;
        for piece in self.pieces.by_ref() {
            encoder.write_all(&piece).expect("writing to memory cannot fail");
            if encoder.get_ref().len() >= PIECE_BYTES / 4 {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
        let encoder = self.encoder.take()?;
        Some(encoder.finish().expect("writing to memory cannot fail").into())
    }
}
