//! Frames of a watch: one line of JSON for each event.
//!
//! Corresponds to k8s.io/apimachinery/pkg/watch and metav1.WatchEvent.

use bytes::Bytes;
use serde_json::{Value, json};
use std::fmt;

/// The `type` of an event about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

/// The `type` of a frame that reports the revision up to which a watch has come.
pub const BOOKMARK: &str = "BOOKMARK";
/// The `type` of the last frame of a watch that fails. Its object is a Status.
pub const ERROR: &str = "ERROR";
/// The annotation on the bookmark that ends the initial events of a watch.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns a frame: `{"type":…,"object":…}` and a line break, around the slices of an object's JSON.
pub fn frame(kind: &str, object: &[Bytes]) -> Bytes {
    const AROUND: usize = "{\"type\":\"\",\"object\":}\n".len();
    let length: usize = object.iter().map(Bytes::len).sum();
    let mut out = Vec::with_capacity(length + kind.len() + AROUND);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    object.iter().for_each(|slice| out.extend_from_slice(slice));
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

/// Returns the `metadata` of a bookmark's object: a revision, and whether the initial events end here.
pub fn bookmark_meta(revision: u64, ends_initial_events: bool) -> Value {
    let mut meta = json!({"resourceVersion": revision.to_string()});
    if ends_initial_events {
        meta["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use std::collections::BTreeMap;

    #[test]
    fn a_frame_is_one_line_around_the_object() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}}), 7, BTreeMap::new());
        let frame = frame(EventType::Added.as_str(), &object.to_wire());
        assert_eq!(
            frame,
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}}\n"
        );
    }

    #[test]
    fn bookmarks_say_how_far_the_watch_has_come() {
        assert_eq!(bookmark_meta(12, false), json!({"resourceVersion": "12"}));
        let end = bookmark_meta(12, true);
        assert_eq!(end.pointer("/annotations/k8s.io~1initial-events-end"), Some(&json!("true")));
    }
}
