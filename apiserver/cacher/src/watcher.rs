//! `Watcher`: one client's watch, a cursor into the shared window. It waits without polling and delays no other watch.
//!
//! A watch sends the initial state if it was requested, then the history from before the window (`backfill`), then the
//! events of the window. Corresponds to k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go.

use super::backfill::{Backfill, BackfillItem};
use super::event::{CacheEvent, Change, WatchEvent};
use super::window::Pulled;
use super::{Cacher, Error, FRESH_TIMEOUT, Freshness, Scope, Snapshot, bookmark};
use component_base::env::Env;
use proto::object::Object;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use storage::Key;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of objects of the initial state in one batch, so that a large one is sent in pieces.
const INITIAL_BATCH: usize = 512;

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// Changes after this revision.
    After(u64),
    /// The current objects as additions, then changes.
    State(Freshness),
    /// Changes after the current state, which is not sent.
    Changes(Freshness),
}

impl WatchFrom {
    /// Returns the start that the list options of a watch request mean. `resource_version` is None if unset.
    pub fn of(resource_version: Option<u64>, send_initial_events: Option<bool>) -> Self {
        let freshness = match resource_version {
            None => Freshness::Latest,
            Some(0) => Freshness::Any,
            Some(revision) => Freshness::AtLeast(revision),
        };
        match (send_initial_events, resource_version) {
            (Some(true), _) => Self::State(freshness),
            (_, Some(revision)) if revision > 0 => Self::After(revision),
            (Some(false), _) => Self::Changes(freshness),
            (None, _) => Self::State(freshness),
        }
    }
}

/// Compiled label and field selectors. They do not cover namespace and name, which belong to the scope.
pub type Predicate = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

#[derive(Clone)]
pub struct WatchRequest {
    pub from: WatchFrom,
    pub scope: Scope,
    /// None: every object of the scope.
    pub predicate: Option<Predicate>,
    /// `allowWatchBookmarks`: about one bookmark a minute, one shortly before the deadline, one at shutdown, and one at
    /// the end of the initial state if `sendInitialEvents` is set.
    pub bookmarks: bool,
    /// `sendInitialEvents=true`: mark the end of the initial state.
    pub initial_events_end: bool,
    /// The time at which the watch ends (`timeoutSeconds`).
    pub deadline: Option<Instant>,
}

impl WatchRequest {
    /// Requests every object of the row, without bookmarks or end.
    pub fn new(from: WatchFrom) -> Self {
        let scope = Scope::all();
        Self { from, scope, predicate: None, bookmarks: false, initial_events_end: false, deadline: None }
    }
}

impl fmt::Debug for WatchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchRequest").field("from", &self.from).field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Watcher {
    cacher: Cacher,
    request: WatchRequest,
    /// The keys of the scope: `start <= key < end`.
    keys: (String, String),
    initial: Option<Initial>,
    /// Present while the cursor is older than the window.
    backfill: Option<Backfill>,
    /// Everything up to this revision has been returned, or does not concern this watch.
    cursor: u64,
    bookmark_at: Option<Instant>,
    /// A bookmark has to be sent as soon as everything before it has been.
    bookmark_due: bool,
    /// Cancelled when the cache got objects without events.
    restart_watches: CancellationToken,
    ended: bool,
}

/// The rest of the initial state.
#[derive(Debug)]
struct Initial {
    snapshot: Snapshot,
    next: String,
}

impl Watcher {
    pub(super) async fn start(cacher: Cacher, request: WatchRequest) -> Result<Self, Error> {
        let shared = &cacher.0;
        let keys = request.scope.keys(&shared.prefix);
        let restart_watches = shared.state.lock().restart_watches.clone();
        let (mut initial, mut backfill) = (None, None);
        let cursor = match request.from {
            WatchFrom::After(revision) => {
                if !cacher.is_ready() {
                    return Err(Error::NotReady);
                }
                let pulled = shared.state.lock().window.pull(revision);
                if matches!(pulled, Pulled::FallenOff { .. }) {
                    backfill = Some(Backfill::start(shared, revision).await?);
                }
                revision
            }
            WatchFrom::State(freshness) => {
                let snapshot = cacher.read(freshness).await?;
                let cursor = snapshot.revision;
                initial = Some(Initial { snapshot, next: keys.0.clone() });
                cursor
            }
            WatchFrom::Changes(freshness) => cacher.read(freshness).await?.revision,
        };
        let mut watcher = Self {
            keys,
            initial,
            backfill,
            cursor,
            bookmark_at: None,
            bookmark_due: false,
            restart_watches,
            ended: false,
            request,
            cacher: cacher.clone(),
        };
        watcher.plan_bookmark();
        Ok(watcher)
    }

    /// Returns the next events, at least one; None at the end of the watch. Nothing follows an error. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, Error> {
        let cacher = self.cacher.clone();
        let shared = &cacher.0;
        loop {
            if self.ended {
                return Ok(None);
            }
            if let Some(events) = self.take_initial() {
                return Ok(Some(events));
            }
            if self.backfill.is_some() {
                match self.read_history().await? {
                    Some(events) if events.is_empty() => continue,
                    events => return Ok(events),
                }
            }
            let mut appended = pin!(shared.appended.notified());
            // Registered before looking, so that an event that is appended in between is not missed.
            appended.as_mut().enable();
            if let Some(events) = self.take_events()? {
                return Ok(Some(events));
            }
            let (deadline, bookmark) =
                (until(&shared.env, self.request.deadline), until(&shared.env, self.bookmark_at));
            tokio::select! {
                biased;
                () = shared.stopped.cancelled() => {
                    self.ended = true;
                    let last = self.take_last();
                    return Ok((!last.is_empty()).then_some(last));
                }
                () = deadline => {
                    self.ended = true;
                    return Ok(None);
                }
                () = self.restart_watches.cancelled() => {
                    self.ended = true;
                    let oldest = shared.state.lock().window.revision();
                    return Err(Error::Expired { requested: self.cursor, oldest });
                }
                () = appended => {}
                () = bookmark => {
                    self.plan_bookmark();
                    self.bookmark_due = true;
                    catch_up(&cacher).await;
                }
            }
        }
    }

    /// Returns the next events from before the window, perhaps none that this watch sees; None at the end of the watch.
    async fn read_history(&mut self) -> Result<Option<Vec<WatchEvent>>, Error> {
        let cacher = self.cacher.clone();
        let Some(backfill) = &mut self.backfill else { return Ok(Some(Vec::new())) };
        let item = tokio::select! {
            biased;
            () = cacher.0.stopped.cancelled() => Ok(BackfillItem::Cut),
            () = until(&cacher.0.env, self.request.deadline) => Ok(BackfillItem::Cut),
            item = backfill.next(&cacher.0) => item,
        };
        match item {
            Ok(BackfillItem::Events(events)) => {
                self.cursor = events.last().map_or(self.cursor, |event| event.revision);
                Ok(Some(events.iter().filter_map(|event| self.seen(event)).collect()))
            }
            Ok(BackfillItem::Done(revision)) => {
                self.cursor = revision;
                self.backfill = None;
                Ok(Some(Vec::new()))
            }
            Ok(BackfillItem::Cut) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }

    /// Returns the next piece of the initial state, with its end marked if that was requested.
    fn take_initial(&mut self) -> Option<Vec<WatchEvent>> {
        let initial = self.initial.as_mut()?;
        let mut events = Vec::new();
        let mut rest = initial.snapshot.range(&initial.next, &self.keys.1);
        let mut last: Option<Key> = None;
        for (key, object) in rest.by_ref() {
            if self.request.predicate.as_ref().is_none_or(|matches| matches(object)) {
                events.push(WatchEvent::Changed(Change::initial(object.clone())));
            }
            if events.len() == INITIAL_BATCH {
                last = Some(key.clone());
                break;
            }
        }
        drop(rest);
        match last {
            Some(last) => initial.next = format!("{last}\0"),
            None => {
                let revision = initial.snapshot.revision;
                self.initial = None;
                if self.request.bookmarks && self.request.initial_events_end {
                    events.push(WatchEvent::Bookmark { revision, initial_events_end: true });
                }
            }
        }
        (!events.is_empty()).then_some(events)
    }

    /// Returns the events of the window after the cursor that this watch sees, or the bookmark that is due.
    fn take_events(&mut self) -> Result<Option<Vec<WatchEvent>>, Error> {
        loop {
            let pulled = self.cacher.0.state.lock().window.pull(self.cursor);
            match pulled {
                Pulled::Events(batch) => {
                    let events: Vec<_> = batch.iter().filter_map(|event| self.seen(event)).collect();
                    self.cursor = batch.last().map_or(self.cursor, |event| event.revision);
                    if !events.is_empty() {
                        return Ok(Some(events));
                    }
                }
                Pulled::UpToDate(revision) => {
                    // A watch after a future revision has nothing to confirm yet.
                    if std::mem::take(&mut self.bookmark_due) && revision >= self.cursor {
                        self.cursor = revision;
                        return Ok(Some(vec![WatchEvent::Bookmark { revision, initial_events_end: false }]));
                    }
                    return Ok(None);
                }
                Pulled::FallenOff { oldest } => {
                    self.ended = true;
                    return Err(Error::Expired { requested: self.cursor, oldest });
                }
            }
        }
    }

    fn seen(&self, event: &Arc<CacheEvent>) -> Option<WatchEvent> {
        let (start, end) = &self.keys;
        if *event.key < **start || *event.key >= **end {
            return None;
        }
        let change = match &self.request.predicate {
            Some(predicate) => event.seen_by(&**predicate),
            None => event.seen_by(&|_| true),
        };
        change.map(WatchEvent::Changed)
    }

    fn plan_bookmark(&mut self) {
        if self.request.bookmarks {
            let shared = &self.cacher.0;
            self.bookmark_at = bookmark::next(shared.env.now(), self.request.deadline, shared.jitter.unit());
        }
    }

    /// Returns the remaining events at shutdown, and a bookmark from which the client can resume.
    fn take_last(&mut self) -> Vec<WatchEvent> {
        self.bookmark_due = self.request.bookmarks;
        let mut last = Vec::new();
        while let Ok(Some(events)) = self.take_events() {
            last.extend(events);
        }
        last
    }
}

/// Asks the store for its progress, so that the bookmark of a quiet row is recent. Without an answer the bookmark
/// reports the known revision.
async fn catch_up(cacher: &Cacher) {
    if !cacher.0.storage.reports_progress() {
        return;
    }
    let latest = cacher.0.env.timeout(FRESH_TIMEOUT, cacher.read(Freshness::Latest)).await;
    if !matches!(latest, Ok(Ok(_))) {
        tracing::debug!(prefix = %cacher.prefix(), "no progress from the store for a bookmark");
    }
}

/// Waits until `at`, or for ever when it is `None`.
async fn until(env: &Env, at: Option<Instant>) {
    match at {
        Some(at) => env.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
