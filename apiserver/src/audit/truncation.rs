//! `Truncation`: removes the objects from events that are too large, and splits batches that are too large.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/audit/truncate.

use super::event::Event;
use super::policy::Level;
use std::sync::Arc;

/// Annotation of an event whose objects were removed.
const ANNOTATION: (&str, &str) = ("audit.k8s.io/truncated", "true");

/// Limits of the sizes of events and batches, as JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truncation {
    pub max_event_bytes: usize,
    pub max_batch_bytes: usize,
}

/// Returns the size of an event as JSON.
fn bytes(event: &Event) -> usize {
    serde_json::to_vec(event).expect("an event is plain data").len()
}

impl Truncation {
    /// Returns the event, without its objects if it is too large; `None` if it is too large even so.
    pub fn fit(&self, event: &Arc<Event>) -> Option<Arc<Event>> {
        if bytes(event) <= self.max_event_bytes {
            return Some(event.clone());
        }
        if event.level < Level::Request {
            return None;
        }
        let mut bare = Event::clone(event);
        (bare.request_object, bare.response_object) = (None, None);
        bare.annotations.insert(ANNOTATION.0.to_owned(), ANNOTATION.1.to_owned());
        (bytes(&bare) <= self.max_event_bytes).then(|| Arc::new(bare))
    }

    /// Splits a batch into pieces within the limit, each of at least one event.
    pub fn pieces<'a>(&self, batch: &'a [Arc<Event>]) -> Vec<&'a [Arc<Event>]> {
        let mut pieces = Vec::new();
        let (mut start, mut piece_bytes) = (0, 0);
        for (at, event) in batch.iter().enumerate() {
            let event_bytes = bytes(event);
            if at > start && piece_bytes + event_bytes > self.max_batch_bytes {
                pieces.push(&batch[start..at]);
                (start, piece_bytes) = (at, 0);
            }
            piece_bytes += event_bytes;
        }
        if start < batch.len() {
            pieces.push(&batch[start..]);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request};
    use request::info::RequestInfo;
    use serde_json::json;

    fn event(level: Level, object: &str) -> Arc<Event> {
        let (parts, ()) = Request::new(()).into_parts();
        let info = RequestInfo::of(&Method::POST, "/api/v1/namespaces/a/configmaps", "");
        let mut event = Event::received(level, "id", &parts, &info, None, jiff::Timestamp::UNIX_EPOCH);
        let objects = (!object.is_empty()).then(|| json!(object));
        (event.request_object, event.response_object) = (objects.clone(), objects);
        Arc::new(event)
    }

    #[test]
    fn what_is_too_large_loses_its_objects() {
        let (bare, large) = (event(Level::Request, ""), event(Level::Request, &"x".repeat(1_000)));
        let of = |max_event_bytes| Truncation { max_event_bytes, max_batch_bytes: 0 };
        let room_for_the_note = 100;
        let limit = of(bytes(&bare) + room_for_the_note);
        let same = limit.fit(&bare).unwrap();
        assert!(same.annotations.is_empty());
        let cut = limit.fit(&large).unwrap();
        assert_eq!((&cut.request_object, &cut.response_object), (&None, &None));
        assert_eq!(cut.annotations[ANNOTATION.0], ANNOTATION.1);
        assert_eq!(of(bytes(&large)).fit(&large).unwrap().request_object, large.request_object);
        assert!(of(bytes(&bare) - 1).fit(&large).is_none(), "even so");
        let metadata = event(Level::Metadata, "");
        assert!(of(bytes(&metadata) - 1).fit(&metadata).is_none(), "there is nothing to leave out");
    }

    #[test]
    fn batches_are_parted() {
        let one = event(Level::Metadata, "");
        let batch = vec![one.clone(); 5];
        for (room, expected) in [(0, &[1, 1, 1, 1, 1][..]), (1, &[1; 5]), (2, &[2, 2, 1]), (5, &[5])] {
            let limits = Truncation { max_event_bytes: 0, max_batch_bytes: bytes(&one) * room };
            let sizes: Vec<usize> = limits.pieces(&batch).iter().map(|piece| piece.len()).collect();
            assert_eq!(sizes, expected, "{room}");
            assert!(limits.pieces(&[]).is_empty());
        }
    }
}
