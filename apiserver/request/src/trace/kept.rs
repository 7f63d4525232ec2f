//! `RequestTraces`: the last traces of a server, in memory, no more than it has room for.

use super::path_of;
use super::trace::{Summary, Trace};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// What is kept of those who may read it.
const ROOM: Room = Room { traces: 128, bytes: 8 << 20 };
/// What is kept of those whom nobody knows: they shall push nothing out.
const ROOM_OF_STRANGERS: Room = Room { traces: 16, bytes: 1 << 20 };

#[derive(Clone, Copy, Debug)]
struct Room {
    traces: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
pub struct RequestTraces {
    kept: Mutex<Ring>,
    strangers: Mutex<Ring>,
}

/// The oldest first.
#[derive(Debug, Default)]
struct Ring {
    traces: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    path: String,
    summary: Summary,
    document: Bytes,
}

impl Kept {
    /// With its names, which stand in the summary and the path again.
    fn bytes(&self) -> usize {
        self.document.len() + self.path.len() + self.summary.uri.len()
    }
}

impl Ring {
    fn push(&mut self, kept: Kept, room: Room) {
        if kept.bytes() > room.bytes {
            return;
        }
        self.bytes += kept.bytes();
        self.traces.push_back(kept);
        while self.traces.len() > room.traces || self.bytes > room.bytes {
            let Some(oldest) = self.traces.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
    }

    /// Of two of the same id, which is the clients' choice, the later one.
    fn find(&self, path: &str) -> Option<Bytes> {
        self.traces.iter().rev().find(|kept| kept.path == path).map(|kept| kept.document.clone())
    }
}

impl RequestTraces {
    /// `permitted` where whoever asked for it may read it.
    pub fn keep(&self, trace: &Trace, permitted: bool) {
        let document = serde_json::to_vec(trace).expect("a trace is JSON").into();
        let kept = Kept { path: path_of(&trace.audit_id), summary: trace.summary(), document };
        let (ring, room) = if permitted { (&self.kept, ROOM) } else { (&self.strangers, ROOM_OF_STRANGERS) };
        ring.lock().push(kept, room);
    }

    /// By the path that it is read at, byte by byte.
    pub fn document(&self, path: &str) -> Option<Bytes> {
        let permitted = self.kept.lock().find(path);
        permitted.or_else(|| self.strangers.lock().find(path))
    }

    /// What is kept, the latest first.
    pub fn summaries(&self) -> Vec<Summary> {
        let of = |ring: &Mutex<Ring>| ring.lock().traces.iter().map(|kept| kept.summary.clone()).collect::<Vec<_>>();
        let mut all = of(&self.kept);
        all.extend(of(&self.strangers));
        all.sort_by(|a, b| b.received.cmp(&a.received));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Answered, Asked};
    use super::*;
    use serde_json::Value;

    fn trace(id: &str, uri_bytes: usize) -> Trace {
        Trace {
            audit_id: id.to_owned(),
            received: format!("2026-01-01T00:00:00.{id:0>9}Z"),
            took_us: 1,
            request: Asked { uri: "/".repeat(uri_bytes), ..Asked::default() },
            user: Value::Null,
            impersonated_user: Value::Null,
            steps: Vec::new(),
            steps_left_out: 0,
            answer: Answered::default(),
        }
    }

    fn ids(traces: &RequestTraces) -> Vec<String> {
        traces.summaries().into_iter().map(|summary| summary.audit_id).collect()
    }

    #[test]
    fn the_last_ones_are_kept() {
        let traces = RequestTraces::default();
        for number in 0..ROOM.traces + 3 {
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
        assert_eq!(ids(&traces).len(), 1 + ROOM_OF_STRANGERS.traces);
    }

    #[test]
    fn bytes_are_bounded() {
        let traces = RequestTraces::default();
        for number in 0..100 {
            traces.keep(&trace(&number.to_string(), 1 << 20), true);
        }
        let ring = traces.kept.lock();
        assert!(ring.bytes <= ROOM.bytes && ring.traces.len() >= 3, "{} in {}", ring.bytes, ring.traces.len());
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
