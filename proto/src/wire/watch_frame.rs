//! Watch frames: one line of JSON for each event.
//!
//! Corresponds to k8s.io/apimachinery/pkg/watch and metav1.WatchEvent. A frame around an object is five slices, of
//! which the object's own are shared with every other answer that shows it.

use crate::meta::status::Status;
use crate::wire::json;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    /// Nothing happened up to this revision.
    Bookmark,
    /// The watch ends; the object is a Status.
    Error,
}

/// On the bookmark that ends the initial events of a watch that asked for them.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

const TAIL: Bytes = Bytes::from_static(b"}\n");

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    /// What stands before the object.
    fn head(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
            Self::Bookmark => br#"{"type":"BOOKMARK","object":"#,
            Self::Error => br#"{"type":"ERROR","object":"#,
        })
    }
}

/// A frame around the slices of `Object::to_wire`: nothing is copied.
pub fn around(kind: EventType, [first, middle, last]: [Bytes; 3]) -> [Bytes; 5] {
    [kind.head(), first, middle, last, TAIL]
}

/// A frame around bytes of JSON, in one piece.
pub fn around_bytes(kind: EventType, object: &[u8]) -> Bytes {
    let head = kind.head();
    Bytes::from([&head, object, &TAIL].concat())
}

/// A frame around a tree.
pub fn of(kind: EventType, object: &Value) -> Bytes {
    around_bytes(kind, &json::to_canonical(object))
}

/// The object of a bookmark: its kind and the revision, and whether the initial events end here.
pub fn bookmark_object(api_version: &str, kind: &str, revision: u64, ends_initial_events: bool) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if ends_initial_events {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

pub fn bookmark(api_version: &str, kind: &str, revision: u64, ends_initial_events: bool) -> Bytes {
    of(EventType::Bookmark, &bookmark_object(api_version, kind, revision, ends_initial_events))
}

/// The last frame of a watch that cannot go on.
pub fn error(status: &Status) -> Bytes {
    of(EventType::Error, &status.to_value())
}

/// A frame as a client receives it; the object is not parsed yet.
#[derive(Debug, Deserialize)]
pub struct Frame<'a> {
    #[serde(rename = "type")]
    pub kind: EventType,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

impl<'a> Frame<'a> {
    pub fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use std::collections::BTreeMap;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_frame_is_one_line_around_the_object() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}}), 7, BTreeMap::new());
        let frame = Bytes::from(around(EventType::Added, object.to_wire()).concat());
        assert_eq!(
            text(&frame),
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}}\n"
        );
        assert_eq!(of(EventType::Added, &object.to_value()), frame);
    }

    #[test]
    fn bookmarks_say_how_far_the_watch_has_come() {
        assert_eq!(
            text(&bookmark("v1", "Pod", 12, false)),
            "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"12\"}}}\n"
        );
        let end = bookmark_object("v1", "Pod", 12, true);
        assert_eq!(end.pointer("/metadata/annotations/k8s.io~1initial-events-end"), Some(&json!("true")));
    }

    #[test]
    fn frames_are_read_back_without_parsing_the_object() {
        let status = Status::expired("too old resource version: 1 (5)");
        let line = error(&status);
        let frame = Frame::parse(&line).unwrap();
        assert_eq!(frame.kind, EventType::Error);
        let object: Value = serde_json::from_str(frame.object.get()).unwrap();
        assert_eq!((&object["kind"], &object["code"]), (&json!("Status"), &json!(410)));
        for kind in [EventType::Added, EventType::Modified, EventType::Deleted, EventType::Bookmark] {
            assert_eq!(Frame::parse(&of(kind, &json!({}))).unwrap().kind, kind);
            assert!(text(&of(kind, &json!({}))).contains(kind.as_str()));
        }
    }
}
