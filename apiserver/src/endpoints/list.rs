//! GET of a collection: writes the stored bytes of its objects as one list and streams it in pieces.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/get.go ListResource.

use super::{Call, present};
use crate::answer;
use crate::media::{Encoding, Form, Transform};
use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderValue, Response, header};
use proto::meta::list::ListMeta;
use proto::resources::Target;
use proto::wire::{json, shown};
use proto::{Object, Status};
use registry::read::{Listed, Selection};
use request::options::ListOptions;
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;

/// Size of the pieces in which a list is sent: large enough for TLS, small enough to stay in memory until they are sent.
const PIECE_BYTES: usize = 256 * 1024;

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let options = ListOptions::read(&call.info.query)?;
    let name = (!call.info.name.is_empty()).then_some(call.info.name.as_str());
    let selection = Selection::of(target, call.namespace(target), name, &options)?;
    let listed = call.server.registry.read_list(target, &selection, &options).await?;
    call.record.trace_read(listed.objects.len(), listed.revision);
    if is_streamed(&form) {
        return respond(call, target, &form, listed);
    }
    let bytes = listed.objects.iter().map(|object| object.bytes().len()).sum();
    let memory = call.server.answer_memory.reserve(bytes).await;
    Ok(respond(call, target, &form, listed)?.map(|body| memory.until_sent(body)))
}

/// Returns whether a list is written while the client reads it. Tables, YAML and indented JSON are built whole.
fn is_streamed(form: &Form) -> bool {
    !matches!(form.transform, Transform::Table(_)) && form.encoding == Encoding::Json && !form.pretty
}

/// Builds the response of a list in the negotiated form.
pub fn respond(call: &Call<'_>, target: &Target, form: &Form, listed: Listed) -> Result<Response<Body>, Status> {
    let gzip = call.accepts_gzip();
    let Listed { objects, revision, continue_token, remaining } = listed;
    let meta = ListMeta {
        // Lists of objects that are not stored have no version.
        resource_version: if revision == 0 { String::new() } else { revision.to_string() },
        continue_token: continue_token.unwrap_or_default(),
        remaining_item_count: remaining,
        shows_end: !target.served().schema.is_builtin() && form.transform == Transform::Whole,
    };
    let whole = match form.transform {
        Transform::Metadata(_) => return Err(present::not_an_object(target)),
        Transform::Table(version) => vec![present::table(call, target, version)?.list(&meta, objects).into()],
        transform => {
            let pieces = Pieces::new(target, transform, &meta, objects);
            if is_streamed(form) {
                return Ok(streamed(pieces, gzip));
            }
            pieces.collect()
        }
    };
    Ok(answer::compressed(200, form.encoding.media_type(), answer::reencode(form, &whole), gzip))
}

/// Builds a response that produces its pieces while the client reads them. A list of one piece is sent whole, with its
/// length.
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

/// Iterator over the pieces of a list's JSON.
struct Pieces {
    target: Target,
    transform: Transform,
    objects: std::vec::IntoIter<Arc<Object>>,
    buffer: Vec<u8>,
    /// The byte before the next item: `[` for the first, then `,`. `None` if the list has no items.
    before: Option<u8>,
    done: bool,
}

impl Pieces {
    fn new(target: &Target, transform: Transform, meta: &ListMeta, objects: Vec<Arc<Object>>) -> Self {
        let served = target.served();
        let head = match transform {
            Transform::MetadataList(version) => meta.head(version.api_version(), "PartialObjectMetadataList"),
            _ => meta.head(&served.api_version(), &served.list_kind()),
        };
        let mut buffer = head;
        // As in Kubernetes, the items of an empty metadata list are `null`, those of other lists are `[]`.
        let no_items: &[u8] = if matches!(transform, Transform::MetadataList(_)) { b"null" } else { b"[]" };
        if objects.is_empty() {
            buffer.extend_from_slice(no_items);
        }
        let before = if objects.is_empty() { None } else { Some(b'[') };
        Self { target: target.clone(), transform, objects: objects.into_iter(), buffer, before, done: false }
    }

    fn write(&mut self, object: &Object) {
        self.buffer.extend(self.before.replace(b','));
        if let Transform::MetadataList(version) = self.transform {
            // Items of a metadata list have `kind` and `apiVersion`, unlike those of built-in kinds.
            shown::write_metadata(&mut self.buffer, &self.target, object, version);
            return;
        }
        let keeps_kind = !self.target.served().schema.is_builtin();
        put_item(&mut self.buffer, &shown::whole(&self.target, object), keeps_kind);
    }
}

/// Writes one item. Items of custom resources keep `apiVersion` and `kind`; those of built-in kinds do not have them.
fn put_item(buffer: &mut Vec<u8>, slices: &[Bytes], keeps_kind: bool) {
    let head = &slices[0];
    let mut from = 0;
    if !keeps_kind {
        for key in ["apiVersion", "kind"] {
            let Some(member) = json::member_with_comma(head, 0, key) else { continue };
            buffer.extend_from_slice(&head[from..member.start]);
            from = member.end;
        }
    }
    buffer.extend_from_slice(&head[from..]);
    for slice in &slices[1..] {
        buffer.extend_from_slice(slice);
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
                    let end: &[u8] = if self.before.is_some() { b"]}\n" } else { b"}\n" };
                    self.buffer.extend_from_slice(end);
                    break;
                }
            }
        }
        let room = if self.done { 0 } else { PIECE_BYTES + PIECE_BYTES / 16 };
        Some(Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(room))))
    }
}

/// Iterator that compresses the pieces of another one.
struct Gzip<I> {
    pieces: I,
    /// `None` once the end has been produced.
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
