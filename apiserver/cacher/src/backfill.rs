//! Backfill: the events that a watch missed before the window begins, read from the engine's history.
//!
//! Kubernetes answers 410 to a watch that is older than its cache. Here only the engine's own compaction does, so
//! that a restart of the API server over a shared store does not make every client list again.

use super::event::{CacheEvent, EventType};
use super::window::Pulled;
use super::{Error, Shared};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use storage::{Event, Watch, WatchItem};

pub(super) struct Backfill {
    watch: Watch,
    /// Everything up to this revision has been read.
    cursor: u64,
}

/// The next item of the history.
pub(super) enum BackfillItem {
    Events(Vec<Arc<CacheEvent>>),
    /// The history is read: the window has what comes after this revision.
    Done(u64),
    /// The engine's watch ended; the client resumes from the last revision that it has seen.
    Cut,
}

impl Backfill {
    pub async fn start(shared: &Shared, after: u64) -> Result<Self, Error> {
        let watch = shared.storage.watch(&shared.prefix, after).await?;
        // The row may have had no event for long: progress tells at which revision the window can take over.
        shared.storage.request_progress(&shared.prefix).await?;
        Ok(Self { watch, cursor: after })
    }

    /// Returns the next item. Dropping the future loses nothing.
    pub async fn next(&mut self, shared: &Shared) -> Result<BackfillItem, Error> {
        loop {
            if !matches!(shared.state.lock().window.pull(self.cursor), Pulled::FallenOff { .. }) {
                return Ok(BackfillItem::Done(self.cursor));
            }
            match self.watch.next().await {
                Some(Ok(WatchItem::Events(events))) => {
                    let cached = events.iter().filter_map(|event| self.cached(shared, event).transpose());
                    let cached = cached.collect::<Result<_, _>>()?;
                    self.cursor = events.last().map_or(self.cursor, |event| event.revision);
                    return Ok(BackfillItem::Events(cached));
                }
                Some(Ok(WatchItem::Progress(revision))) => self.cursor = self.cursor.max(revision),
                Some(Err(error @ (storage::Error::Compacted { .. } | storage::Error::Stopped(_)))) => {
                    return Err(error.into());
                }
                Some(Err(_)) | None => return Ok(BackfillItem::Cut),
            }
        }
    }

    /// Returns the event as the window would hold it; None if it concerns only values that cannot be read.
    fn cached(&self, shared: &Shared, event: &Event) -> Result<Option<Arc<CacheEvent>>, Error> {
        let was_created = event.current.as_ref().is_some_and(|entry| entry.create_revision == entry.mod_revision);
        if event.previous.is_none() && !was_created {
            // The engine has compacted the previous value: whether a selector matched it is unknown.
            return Err(Error::Expired { requested: self.cursor, oldest: event.revision });
        }
        let current = event.current.as_ref().and_then(|entry| (shared.decode)(entry).ok());
        let previous = event.previous.as_ref().and_then(|entry| (shared.decode)(entry).ok());
        let (kind, object) = match (current, &previous) {
            (Some(object), Some(_)) => (EventType::Modified, object),
            (Some(object), None) => (EventType::Added, object),
            (None, Some(last)) => (EventType::Deleted, Arc::new(last.copy_at(event.revision))),
            (None, None) => return Ok(None),
        };
        Ok(Some(Arc::new(CacheEvent::new(kind, event.key.clone(), object, previous))))
    }
}

impl fmt::Debug for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backfill").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}
