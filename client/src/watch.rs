//! `Watch`: a collection's stream of changes, one JSON document per line.
//!
//! Corresponds to k8s.io/apimachinery/pkg/watch and k8s.io/client-go/rest/watch.

use crate::error::Error;
use bytes::{Bytes, BytesMut};
use component_base::http::Body;
use futures::StreamExt;
use proto::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Annotation of the bookmark that ends the initial events.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Most bytes of a line, beyond the size of any object.
const MAX_LINE_BYTES: usize = 32 << 20;

/// One change. Objects are the server's bytes, not decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    Added(Bytes),
    Modified(Bytes),
    Deleted(Bytes),
    /// All changes up to this version have been sent.
    Bookmark {
        resource_version: String,
        /// True if the objects before it were the collection at the begin of the watch.
        initial_events_end: bool,
    },
}

/// A running watch; dropping it ends it.
pub struct Watch {
    body: component_base::http::BodyStream,
    /// Bytes that have come and were not looked at.
    chunk: Bytes,
    /// The begin of a line whose end has not come. Most lines come whole and are not copied.
    partial: BytesMut,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    #[serde(default)]
    metadata: Mark,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Mark {
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

impl Watch {
    pub(crate) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), chunk: Bytes::new(), partial: BytesMut::new() }
    }

    /// Returns the next change, or `None` when the server has ended the watch. An `ERROR` event is an error, and the last.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            if let Some(line) = self.take_line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(read_line(&line));
            }
            if self.partial.len() > MAX_LINE_BYTES {
                return Some(Err(Error::Decode(format!("watch: a line of more than {MAX_LINE_BYTES} bytes"))));
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.chunk = bytes,
                Some(Err(error)) => return Some(Err(Error::Lost(format!("watch: {error}")))),
                // An incomplete last line is dropped.
                None => return None,
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let end = memchr::memchr(b'\n', &self.chunk);
        let part = self.chunk.split_to(end.map_or(self.chunk.len(), |at| at + 1));
        if end.is_some() && self.partial.is_empty() {
            return Some(part);
        }
        self.partial.extend_from_slice(&part);
        end.map(|_| self.partial.split().freeze())
    }
}

fn read_line(line: &Bytes) -> Result<WatchEvent, Error> {
    let undecodable = |error: serde_json::Error| Error::Decode(format!("watch: {error}"));
    let (kind, object) = match split_line(line) {
        Some((kind, object)) => (kind, line.slice_ref(object)),
        None => {
            let Line { kind, object } = serde_json::from_slice(line).map_err(undecodable)?;
            (kind, line.slice_ref(object.get().as_bytes()))
        }
    };
    match kind {
        "ADDED" => Ok(WatchEvent::Added(object)),
        "MODIFIED" => Ok(WatchEvent::Modified(object)),
        "DELETED" => Ok(WatchEvent::Deleted(object)),
        "BOOKMARK" => {
            let Marked { metadata } = serde_json::from_slice(&object).map_err(undecodable)?;
            let annotations = metadata.annotations.unwrap_or_default();
            Ok(WatchEvent::Bookmark {
                resource_version: metadata.resource_version,
                initial_events_end: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
            })
        }
        "ERROR" => {
            let status: Status = serde_json::from_slice(&object).map_err(undecodable)?;
            Err(Error::Status(Box::new(status)))
        }
        other => Err(Error::Decode(format!("watch: unknown type of event {other:?}"))),
    }
}

/// Splits a line as Kubernetes' servers write it, with the type before the object. The object is not read: whoever decodes
/// it finds its errors.
fn split_line(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(b"{\"type\":\"")?;
    let end = memchr::memchr(b'"', rest)?;
    let (kind, rest) = rest.split_at(end);
    let object = rest.strip_prefix(b"\",\"object\":")?.trim_ascii_end().strip_suffix(b"}")?;
    let kind = std::str::from_utf8(kind).ok()?;
    (object.starts_with(b"{") && object.ends_with(b"}")).then_some((kind, object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::convert::Infallible;

    fn watch(chunks: &[&'static str]) -> Watch {
        let chunks: Vec<Result<Bytes, Infallible>> =
            chunks.iter().map(|c| Ok(Bytes::from_static(c.as_bytes()))).collect();
        Watch::new(Body::from_stream(stream::iter(chunks)))
    }

    #[tokio::test]
    async fn lines_may_be_cut_anywhere() {
        let mut watch = watch(&[
            "{\"type\":\"ADDED\",\"obj",
            "ect\":{\"a\":1}}\n{\"type\":\"DELETED\",\"object\":{}}\n\n{\"type\":\"BOOKMARK\",",
            "\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
            "{\"type\":\"ADDED\",\"object\":{\"lost",
        ]);
        assert_eq!(watch.next().await.unwrap().unwrap(), WatchEvent::Added(Bytes::from_static(b"{\"a\":1}")));
        assert_eq!(watch.next().await.unwrap().unwrap(), WatchEvent::Deleted(Bytes::from_static(b"{}")));
        let end = WatchEvent::Bookmark { resource_version: "7".into(), initial_events_end: true };
        assert_eq!(watch.next().await.unwrap().unwrap(), end);
        assert!(watch.next().await.is_none());
    }

    #[tokio::test]
    async fn errors_are_the_servers_words() {
        let mut watch = watch(&[
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}}\n",
            "{\"type\":\"SOMETHING\",\"object\":{}}\n",
        ]);
        assert!(watch.next().await.unwrap().unwrap_err().is_gone());
        assert!(watch.next().await.unwrap().is_err());
    }
}
