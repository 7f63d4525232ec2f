//! `RequestTraces`: the last traces of a server, in memory and within a limit.

use super::document::{Summary, Trace};
use super::path_of;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Room for the traces of callers that may read them.
const ROOM_PERMITTED: Room = Room { traces: 128, bytes: 8 << 20 };
/// Room for the traces of all other callers, so that they cannot push out the first.
const ROOM_UNPERMITTED: Room = Room { traces: 16, bytes: 1 << 20 };

#[derive(Clone, Copy, Debug)]
struct Room {
    traces: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
pub struct RequestTraces {
    permitted: Mutex<Ring>,
    unpermitted: Mutex<Ring>,
}

/// Traces in order of time, the oldest first.
#[derive(Debug, Default)]
struct Ring {
    traces: VecDeque<RetainedTrace>,
    bytes: usize,
}

#[derive(Debug)]
struct RetainedTrace {
    path: String,
    summary: Summary,
    document: Bytes,
}

impl RetainedTrace {
    /// Returns the size with its names, which the summary and the path repeat.
    fn bytes(&self) -> usize {
        self.document.len() + self.path.len() + self.summary.uri.len()
    }
}

impl Ring {
    fn push(&mut self, retained: RetainedTrace, room: Room) {
        if retained.bytes() > room.bytes {
            return;
        }
        self.bytes += retained.bytes();
        self.traces.push_back(retained);
        while self.traces.len() > room.traces || self.bytes > room.bytes {
            let Some(oldest) = self.traces.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
    }

    /// Returns the document of a path; of several with the same id, which clients choose, the latest.
    fn find(&self, path: &str) -> Option<Bytes> {
        self.traces.iter().rev().find(|retained| retained.path == path).map(|retained| retained.document.clone())
    }
}

impl RequestTraces {
    /// Adds a trace; `permitted` says that its caller may read it.
    pub fn keep(&self, trace: &Trace, permitted: bool) {
        let document = serde_json::to_vec(trace).expect("a trace is JSON").into();
        let retained = RetainedTrace { path: path_of(&trace.audit_id), summary: trace.summary(), document };
        let (ring, room) =
            if permitted { (&self.permitted, ROOM_PERMITTED) } else { (&self.unpermitted, ROOM_UNPERMITTED) };
        ring.lock().push(retained, room);
    }

    /// Returns the document that is read at a path, which is compared byte by byte.
    pub fn document(&self, path: &str) -> Option<Bytes> {
        let permitted = self.permitted.lock().find(path);
        permitted.or_else(|| self.unpermitted.lock().find(path))
    }

    /// Returns a summary of each trace, the latest first.
    pub fn summaries(&self) -> Vec<Summary> {
        let of =
            |ring: &Mutex<Ring>| ring.lock().traces.iter().map(|retained| retained.summary.clone()).collect::<Vec<_>>();
        let mut all = of(&self.permitted);
        all.extend(of(&self.unpermitted));
        all.sort_by(|a, b| b.received.cmp(&a.received));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{TracedRequest, TracedResponse};
    use super::*;
    use serde_json::Value;

    fn trace(id: &str, uri_bytes: usize) -> Trace {
        Trace {
            audit_id: id.to_owned(),
            received: format!("2026-01-01T00:00:00.{id:0>9}Z"),
            took_us: 1,
            request: TracedRequest { uri: "/".repeat(uri_bytes), ..TracedRequest::default() },
            user: Value::Null,
            impersonated_user: Value::Null,
            steps: Vec::new(),
            steps_left_out: 0,
            answer: TracedResponse::default(),
        }
    }

    fn ids(traces: &RequestTraces) -> Vec<String> {
        traces.summaries().into_iter().map(|summary| summary.audit_id).collect()
    }

    #[test]
    fn the_last_ones_are_kept() {
        let traces = RequestTraces::default();
        for number in 0..ROOM_PERMITTED.traces + 3 {
            traces.keep(&trace(&number.to_string(), 1), true);
        }
        let kept = ids(&traces);
        assert_eq!((kept.len(), kept[0].as_str(), kept[127].as_str()), (128, "130", "3"));
        assert!(traces.document("/debug/requests/3").is_some());
        assert!(traces.document("/debug/requests/2").is_none());
    }

    #[test]
    fn strangers_push_nothing_out() {
        let traces = RequestTraces::default();
        traces.keep(&trace("ours", 1), true);
        for number in 0..100 {
            traces.keep(&trace(&format!("{number}"), 1), false);
        }
        assert!(traces.document("/debug/requests/ours").is_some());
        assert_eq!(ids(&traces).len(), 1 + ROOM_UNPERMITTED.traces);
    }

    #[test]
    fn bytes_are_bounded() {
        let traces = RequestTraces::default();
        for number in 0..100 {
            traces.keep(&trace(&number.to_string(), 1 << 20), true);
        }
        let ring = traces.permitted.lock();
        assert!(
            ring.bytes <= ROOM_PERMITTED.bytes && ring.traces.len() >= 3,
            "{} in {}",
            ring.bytes,
            ring.traces.len()
        );
        drop(ring);
        let before = ids(&traces);
        traces.keep(&trace("huge", 9 << 20), true);
        assert_eq!(ids(&traces), before, "what would not fit alone is not kept at all");
    }

    #[test]
    fn an_id_may_be_anything() {
        let traces = RequestTraces::default();
        traces.keep(&trace("a/b c", 1), true);
        let mut later = trace("a/b c", 2);
        later.took_us = 2;
        traces.keep(&later, true);
        let document = traces.document("/debug/requests/a%2Fb%20c").unwrap();
        assert_eq!(serde_json::from_slice::<Trace>(&document).unwrap(), later);
    }
}
