//! `Window`: a row's current objects and its latest events. Pure: time comes as an argument.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/cacher/watch_cache.go.
//!
//! Three revisions describe it. With events 7, 8 and 12 in the window, after progress to 15:
//!
//! ```text
//!   low = 5: every event of the row above 5 is here     12: the last event     revision = 15: nothing up to here is missing
//! ```
//!
//! A cursor anywhere from `low` on can be served; one below it has fallen off.

use super::event::{CacheEvent, EventType};
use imbl::OrdMap;
use proto::object::Object;
use std::collections::VecDeque;
use std::sync::Arc;
use storage::{Event, Key};

/// Time for which events are kept: a client whose watch was cut resumes within it, as it gets a bookmark every minute.
const KEEP_MS: i64 = 75_000;

/// Number of events that are kept in any case, however old they are.
const KEEP_EVENTS: usize = 1024;

/// Largest number of events that are kept, however recent they are.
const LIMIT_EVENTS: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Window {
    objects: OrdMap<Key, Arc<Object>>,
    /// Events in order of revision, in the batches in which they came; none is empty.
    batches: VecDeque<Batch>,
    /// Number of events in all batches.
    events: usize,
    /// Every event above this revision is in the window.
    low: u64,
    /// No event up to this revision is missing.
    revision: u64,
}

#[derive(Debug)]
struct Batch {
    at_ms: i64,
    events: Arc<[Arc<CacheEvent>]>,
}

/// What a cursor finds in the window.
#[derive(Debug)]
pub(super) enum Pulled {
    /// The next events after the cursor; the last of them is the new cursor.
    Events(Arc<[Arc<CacheEvent>]>),
    /// No events yet; everything up to this revision has been seen.
    UpToDate(u64),
    /// Events after the cursor have been dropped; `oldest` is the oldest cursor that is served.
    FallenOff { oldest: u64 },
}

impl Batch {
    fn last_revision(&self) -> u64 {
        self.events.last().expect("no batch is empty").revision
    }
}

impl Window {
    pub fn objects(&self) -> &OrdMap<Key, Arc<Object>> {
        &self.objects
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Replaces the state by a list. Cursors below its revision fall off.
    pub fn replace(&mut self, objects: OrdMap<Key, Arc<Object>>, revision: u64) {
        *self = Self { objects, revision, low: revision, ..Self::default() };
    }

    /// Appends what the store reported, each event with its object decoded (None: deleted).
    pub fn append(&mut self, events: Vec<(Arc<Event>, Option<Arc<Object>>)>, at_ms: i64) {
        let mut batch = Vec::with_capacity(events.len());
        for (event, object) in events {
            self.revision = self.revision.max(event.revision);
            let key = event.key.clone();
            let cached = match object {
                Some(object) => {
                    let previous = self.objects.insert(key.clone(), object.clone());
                    let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
                    CacheEvent::new(kind, key, object, previous)
                }
                None => {
                    // A key that is absent here cannot be deleted: the store reports each event exactly once.
                    let Some(previous) = self.objects.remove(&*key) else { continue };
                    let last = Arc::new(previous.copy_at(event.revision));
                    CacheEvent::new(EventType::Deleted, key, last, Some(previous))
                }
            };
            batch.push(Arc::new(cached));
        }
        if !batch.is_empty() {
            self.events += batch.len();
            self.batches.push_back(Batch { at_ms, events: batch.into() });
        }
        self.drop_old(at_ms);
    }

    /// Records that no event up to `revision` is missing.
    pub fn progress(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    fn drop_old(&mut self, now_ms: i64) {
        while let Some(oldest) = self.batches.front() {
            let left = self.events - oldest.events.len();
            let old = oldest.at_ms < now_ms - KEEP_MS && left >= KEEP_EVENTS;
            if !old && self.events <= LIMIT_EVENTS {
                break;
            }
            self.low = oldest.last_revision();
            self.events = left;
            self.batches.pop_front();
        }
    }

    /// Returns the events after `cursor`. A cursor lies inside a batch only if a client chose it.
    pub fn pull(&self, cursor: u64) -> Pulled {
        if cursor < self.low {
            return Pulled::FallenOff { oldest: self.low };
        }
        let next = self.batches.partition_point(|batch| batch.last_revision() <= cursor);
        match self.batches.get(next) {
            None => Pulled::UpToDate(self.revision),
            Some(batch) if batch.events[0].revision > cursor => Pulled::Events(batch.events.clone()),
            Some(batch) => {
                let seen = batch.events.partition_point(|event| event.revision <= cursor);
                Pulled::Events(batch.events[seen..].into())
            }
        }
    }

    /// Returns the objects as they were at `revision`, by undoing later events, or `None` if the window does not reach
    /// so far.
    pub fn objects_at(&self, revision: u64) -> Option<OrdMap<Key, Arc<Object>>> {
        if revision < self.low || revision > self.revision {
            return None;
        }
        let mut objects = self.objects.clone();
        for event in self.batches.iter().rev().flat_map(|batch| batch.events.iter().rev()) {
            if event.revision <= revision {
                break;
            }
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&*event.key),
            };
        }
        Some(objects)
    }
}
