//! Events: a change of an object, as the window holds it and as one watch sees it.
//!
//! Corresponds to watchCacheEvent and to cacheWatcher's convertToWatchEvent in k8s.io/apiserver/pkg/storage/cacher.

use bytes::Bytes;
use parking_lot::Mutex;
use proto::object::Object;
pub use proto::wire::watch_frame::EventType;
use std::sync::Arc;
use storage::Key;

/// Number of frames of an event that are kept; a watch that needs a further one builds its own each time.
/// The product of served versions, media types and transforms is small; a client cannot make it large.
const FRAMES: usize = 16;

/// One change of one object, shared by every watch of its row.
#[derive(Debug)]
pub struct CacheEvent {
    pub kind: EventType,
    pub key: Key,
    /// The object after the change. For a deleted object: its last state, with the revision of the deletion.
    pub object: Arc<Object>,
    /// The object before the change; None if it was created.
    pub previous: Option<Arc<Object>>,
    pub revision: u64,
    frames: Mutex<Vec<Frame>>,
}

/// The form of an event that a watch sends. Compared by value, so that watches of equal requests share frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameKey {
    /// The served version.
    pub version: String,
    pub media_type: String,
    /// What the frame holds: the object, its metadata, or a table row with these options.
    pub transform: String,
}

#[derive(Debug)]
struct Frame {
    kind: EventType,
    key: Arc<FrameKey>,
    bytes: Bytes,
}

impl CacheEvent {
    pub(super) fn new(kind: EventType, key: Key, object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        let revision = object.revision;
        Self { kind, key, object, previous, revision, frames: Mutex::default() }
    }

    /// Returns what a watch sees of the event if it selects objects by `predicate`. An object that stops matching is
    /// deleted for that watch, as it last matched but at the new revision. One that starts matching is added.
    pub(super) fn seen_by(self: &Arc<Self>, predicate: &dyn Fn(&Object) -> bool) -> Option<Change> {
        let matched = self.previous.as_ref().is_some_and(|object| predicate(object));
        let matches = self.kind != EventType::Deleted && predicate(&self.object);
        let kind = match (matched, matches) {
            (false, false) => return None,
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
        };
        let object = match (kind, self.kind, &self.previous) {
            (EventType::Deleted, EventType::Added | EventType::Modified, Some(last)) => {
                Arc::new(last.copy_at(self.revision))
            }
            _ => self.object.clone(),
        };
        Some(Change { kind, object, shared: Some(self.clone()) })
    }

    /// Returns the frame of this event as `kind`, built by the first watch that needs it.
    fn frame(&self, kind: EventType, key: &Arc<FrameKey>, build: impl FnOnce() -> Bytes) -> Bytes {
        let is_same_frame = |frame: &&Frame| frame.kind == kind && (Arc::ptr_eq(&frame.key, key) || frame.key == *key);
        if let Some(frame) = self.frames.lock().iter().find(is_same_frame) {
            return frame.bytes.clone();
        }
        // Built without the lock: two watches may both build it, and the first result is kept.
        let bytes = build();
        let mut frames = self.frames.lock();
        if let Some(frame) = frames.iter().find(is_same_frame) {
            return frame.bytes.clone();
        }
        if frames.len() < FRAMES {
            frames.push(Frame { kind, key: key.clone(), bytes: bytes.clone() });
        }
        bytes
    }
}

/// An item of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    Changed(Change),
    /// A bookmark: everything up to `revision` has been sent. `initial_events_end` marks the end of the initial state.
    Bookmark {
        revision: u64,
        initial_events_end: bool,
    },
}

/// A change of an object as a watch sees it.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: EventType,
    pub object: Arc<Object>,
    /// None for an object of the initial state, which is no event of the window.
    shared: Option<Arc<CacheEvent>>,
}

impl Change {
    /// Builds the addition of an object of the initial state.
    pub(super) fn initial(object: Arc<Object>) -> Self {
        Self { kind: EventType::Added, object, shared: None }
    }

    /// Returns whether another watch has already built that frame.
    pub fn has_frame(&self, key: &FrameKey) -> bool {
        let is_same_frame = |frame: &Frame| frame.kind == self.kind && *frame.key == *key;
        self.shared.as_ref().is_some_and(|event| event.frames.lock().iter().any(is_same_frame))
    }

    /// Returns the frame of this event that `key` describes. Watches share it, so `build` must depend only on `key`,
    /// the type and the object.
    pub fn frame(&self, key: &Arc<FrameKey>, build: impl FnOnce(EventType, &Arc<Object>) -> Bytes) -> Bytes {
        let build = || build(self.kind, &self.object);
        match &self.shared {
            Some(event) => event.frame(self.kind, key, build),
            None => build(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    fn pod(node: &str, revision: u64) -> Arc<Object> {
        let value = json!({"metadata": {"name": "a", "labels": {"node": node}}});
        Arc::new(Object::from_value(value, revision, BTreeMap::new()))
    }

    fn event(before: Option<&str>, after: Option<&str>) -> Arc<CacheEvent> {
        let previous = before.map(|node| pod(node, 3));
        let (kind, object) = match (after, &previous) {
            (Some(node), None) => (EventType::Added, pod(node, 8)),
            (Some(node), Some(_)) => (EventType::Modified, pod(node, 8)),
            (None, previous) => (EventType::Deleted, Arc::new(previous.as_ref().unwrap().copy_at(8))),
        };
        Arc::new(CacheEvent::new(kind, "/registry/pods/x/a".into(), object, previous))
    }

    #[test]
    fn a_selector_turns_changes_into_additions_and_deletions() {
        let cases = [
            (None, Some("n1"), Some("ADDED n1@8")),
            (None, Some("n2"), None),
            (Some("n2"), Some("n1"), Some("ADDED n1@8")),
            (Some("n1"), Some("n1"), Some("MODIFIED n1@8")),
            (Some("n1"), Some("n2"), Some("DELETED n1@8")),
            (Some("n2"), Some("n3"), None),
            (Some("n1"), None, Some("DELETED n1@8")),
            (Some("n2"), None, None),
        ];
        for (before, after, expected) in cases {
            let seen = event(before, after).seen_by(&|object| object.index.labels["node"] == "n1");
            let text = seen.map(|change| {
                format!("{} {}@{}", change.kind, change.object.index.labels["node"], change.object.revision)
            });
            assert_eq!(text.as_deref(), expected, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn a_frame_is_built_once_for_equal_keys() {
        let event = event(Some("n1"), Some("n1"));
        let key = |transform: &str| {
            Arc::new(FrameKey {
                version: "v1".into(),
                media_type: "application/json".into(),
                transform: transform.into(),
            })
        };
        let built = Cell::new(0);
        for transform in ["", "", "metadata", ""] {
            let change = event.seen_by(&|_| true).unwrap();
            change.frame(&key(transform), |kind, _| {
                built.set(built.get() + 1);
                Bytes::from(kind.as_str())
            });
        }
        assert_eq!(built.get(), 2);
        let gone = event.seen_by(&|object| object.revision == 3).unwrap();
        assert_eq!(
            gone.frame(&key(""), |kind, _| Bytes::from(kind.as_str())),
            "DELETED",
            "another type is another frame"
        );
    }
}
