//! The cacher, Kubernetes' watch cache: for each row of the resource table, the current objects and a window of events.
//! One watch of the store fills it, and every list and watch of clients reads it.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/cacher. Everything here is derived from the store and equal to a
//! rebuild from it: the property tests check that.
//!
//! Reading order: [`encryption`] (values on their way to the store); [`event`] and `window` (the state; pure);
//! [`snapshot`] (reads); `feed` (from the store into the window), with `announcements` and `unreadable_keys`;
//! [`watcher`] (from the window to a client), with `backfill` and `bookmark`; this file; [`lookup`] (reads for other
//! parts of the API server).

mod decode_error;
pub mod encryption;
pub mod event;
mod window;
pub mod snapshot;
mod announcements;
mod unreadable_keys;
mod feed;
mod backfill;
mod bookmark;
pub mod watcher;
pub mod lookup;
#[cfg(test)]
mod tests;

pub use announcements::Announcement;
pub use decode_error::DecodeError;
pub use event::{CacheEvent, Change, EventType, FrameKey, WatchEvent};
pub use snapshot::{Scope, Snapshot, object_key};
pub use watcher::{WatchFrom, WatchRequest, Watcher};

use announcements::Announcements;
use bytes::Bytes;
use component_base::env::Env;
use component_base::panics::caught;
use component_base::rng::Random;
use imbl::OrdMap;
use parking_lot::Mutex;
use proto::object::Object;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use storage::{Entry, Key, RangeRequest, Storage};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use unreadable_keys::UnreadableKeys;
use window::Window;

/// Decodes an entry into an object with its index, selectable fields and revision. An error says what is wrong.
pub type Decode = Arc<dyn Fn(&Entry) -> Result<Arc<Object>, DecodeError> + Send + Sync>;

/// How long a reader waits for a revision that has not come yet, as in Kubernetes.
pub const FRESH_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of entries in one answer of the engine while listing.
const LIST_PAGE: usize = 10_000;

/// Interval at which a waiting reader asks the store again for its progress; an answer can be lost.
const PROGRESS_REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// How current an answer has to be: the meaning of `resourceVersion` without `resourceVersionMatch=Exact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// "0": the state of the cache, however old.
    Any,
    /// Not older than this revision.
    AtLeast(u64),
    /// Unset: everything that was written before the request.
    Latest,
}

/// The reasons for which the cacher cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first list of the store is not done.
    #[error("storage is (re)initializing")]
    NotReady,
    /// Answered with 504 and the cause ResourceVersionTooLarge.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge { requested: u64, current: u64 },
    /// Answered with 410: the requested events or state are gone.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired { requested: u64, oldest: u64 },
    #[error("{key}: {reason}")]
    Undecodable { key: String, reason: DecodeError },
    #[error(transparent)]
    Storage(storage::Error),
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        match error {
            storage::Error::Compacted { requested, compacted } => Self::Expired { requested, oldest: compacted },
            storage::Error::FutureRevision { requested, current } => Self::TooLarge { requested, current },
            error => Self::Storage(error),
        }
    }
}

/// One page of a list at an exact revision.
#[derive(Clone, Debug)]
pub struct Page {
    pub objects: Vec<Arc<Object>>,
    /// Number of objects of the range after this page.
    pub remaining: u64,
    /// The key at which the next page begins, if there is one.
    pub next: Option<String>,
    pub revision: u64,
}

/// The cache of one row. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cacher(Arc<Shared>);

struct Shared {
    env: Env,
    /// Cancelled when this row, or the server, stops.
    stopped: CancellationToken,
    storage: Arc<dyn Storage>,
    prefix: Arc<str>,
    decode: Decode,
    announced: Announcements,
    unreadable: UnreadableKeys,
    jitter: Random,
    /// Notified when the store has to be listed again.
    relist: Notify,
    state: Mutex<State>,
    /// Notified when events were appended or cursors fell off: watches look.
    appended: Notify,
    /// Notified when the revision advanced, with or without events: waiting readers look.
    advanced: Notify,
}

#[derive(Default)]
struct State {
    window: Window,
    ready: bool,
    /// Why the cache cannot follow the store at the moment, if it cannot.
    trouble: Option<String>,
    /// Cancelled when the cache got objects without events: open watches have to start anew.
    restart_watches: CancellationToken,
}

impl Cacher {
    /// Starts a cache of the keys below `prefix` (which ends in `/`). It follows the store until `env` shuts down.
    pub fn new(env: &Env, storage: Arc<dyn Storage>, prefix: &str, decode: Decode) -> Self {
        let shared = Arc::new(Shared {
            jitter: env.random(&format!("cacher{prefix}")),
            relist: Notify::new(),
            env: env.clone(),
            stopped: env.shutdown().child_token(),
            storage,
            prefix: prefix.into(),
            decode,
            announced: Announcements::default(),
            unreadable: UnreadableKeys::default(),
            state: Mutex::default(),
            appended: Notify::new(),
            advanced: Notify::new(),
        });
        env.spawn(feed::run(shared.clone()));
        Self(shared)
    }

    /// Stops this row: its watches end, and it no longer follows the store. (A custom resource was removed.)
    pub fn stop(&self) {
        self.0.stopped.cancel();
    }

    pub fn is_ready(&self) -> bool {
        self.0.state.lock().ready
    }

    /// Waits until the first list of the store is done; returns false if the row is stopped before.
    pub async fn ready(&self) -> bool {
        let ready = self.0.wait_for(|state| state.ready.then_some(()));
        tokio::select! {
            biased;
            () = ready => true,
            () = self.0.stopped.cancelled() => false,
        }
    }

    /// Returns why the cache cannot follow the store at the moment, for a readiness check.
    pub fn trouble(&self) -> Option<String> {
        self.0.state.lock().trouble.clone()
    }

    /// Returns the current objects, however old: `resourceVersion=0`.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let state = self.0.state.lock();
        if !state.ready {
            return Err(Error::NotReady);
        }
        Ok(self.0.snapshot_of(&state))
    }

    /// Waits until the objects differ from `known`, for callers that read a whole row again and again. After a read of
    /// the store itself, the cache may reach the state of `known` only later.
    pub async fn changed(&self, known: &Snapshot) {
        let look = |state: &State| {
            let is_later = state.ready && state.window.revision() >= known.revision;
            (is_later && !self.0.snapshot_of(state).equals(known)).then_some(())
        };
        self.0.wait_for(look).await;
    }

    /// Waits until the cache holds a revision of this row, within a time limit: the store may be unavailable.
    pub async fn reached(&self, revision: u64) {
        let look = |state: &State| (state.window.revision() >= revision).then_some(());
        let _ = self.0.env.timeout(FRESH_TIMEOUT, self.0.wait_for(look)).await;
    }

    /// Returns the current objects once they are as fresh as requested.
    pub async fn read(&self, freshness: Freshness) -> Result<Snapshot, Error> {
        let revision = match freshness {
            Freshness::Any => return self.snapshot(),
            Freshness::AtLeast(revision) => revision,
            Freshness::Latest => self.0.storage.current_revision().await?,
        };
        let deadline = self.0.env.now() + FRESH_TIMEOUT;
        if self.0.storage.reports_progress() {
            self.0.wait_until_fresh(revision, deadline).await
        } else {
            self.0.read_store(revision, deadline).await
        }
    }

    /// Returns the keys of the row whose values are no objects, with the reasons.
    pub fn unreadable(&self) -> Vec<(Key, DecodeError)> {
        self.0.unreadable.list()
    }

    /// Lists the row again because more of it may be readable now. If so, watches end, as they have missed those
    /// objects.
    pub fn relist(&self) {
        self.0.relist.notify_one();
    }

    pub fn has_unreadable(&self) -> bool {
        !self.0.unreadable.is_empty()
    }

    /// Returns an object from the cache, however old.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Error> {
        Ok(self.snapshot()?.get(namespace, name).cloned())
    }

    /// Returns an object as the store has it now, without waiting for the cache. It is not decoded if the cache holds
    /// it at the revision that the store answers.
    pub async fn get_latest(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Error> {
        let key = object_key(&self.0.prefix, namespace, name);
        let Some(entry) = self.0.storage.get(&key).await?.entry else { return Ok(None) };
        let cached = self.0.state.lock().window.objects().get(key.as_str()).cloned();
        match cached.filter(|object| object.revision == entry.mod_revision) {
            Some(object) => Ok(Some(object)),
            None => self.0.decode(&entry).map(Some),
        }
    }

    /// Returns the objects with `start <= key < end` exactly as they were at `revision`, at most `limit` (0: all). They
    /// come from the window if it reaches so far back, otherwise from the engine; only the engine's compaction makes it
    /// `Expired`.
    pub async fn read_exact(&self, revision: u64, start: &str, end: &str, limit: usize) -> Result<Page, Error> {
        if let Some(snapshot) = self.snapshot_at(revision).await? {
            let mut objects = snapshot.range(start, end);
            let limit = if limit == 0 { usize::MAX } else { limit };
            let page: Vec<_> = objects.by_ref().take(limit).collect();
            let remaining = objects.count() as u64;
            let next = page.last().filter(|_| remaining > 0).map(|(key, _)| format!("{key}\0"));
            let objects = page.into_iter().map(|(_, object)| object.clone()).collect();
            return Ok(Page { objects, remaining, next, revision });
        }
        let request = RangeRequest { start: start.into(), end: end.into(), revision, limit, count_only: false };
        let range = self.0.storage.range(request).await?;
        let remaining = range.count.saturating_sub(range.entries.len() as u64);
        let next = range.entries.last().filter(|_| remaining > 0).map(|entry| format!("{}\0", entry.key));
        let objects = range.entries.iter().filter_map(|entry| self.0.decode_past(entry).transpose());
        let objects = objects.collect::<Result<_, _>>()?;
        Ok(Page { objects, remaining, next, revision })
    }

    /// Returns the objects exactly as they were at `revision`, if the window reaches so far back. A revision that the
    /// engine has compacted fails here, too: the lifetime of a page's token must not depend on the server that is
    /// called.
    pub async fn snapshot_at(&self, revision: u64) -> Result<Option<Snapshot>, Error> {
        let Some(snapshot) = self.in_window(revision) else { return Ok(None) };
        let (start, end) = (self.0.prefix.to_string(), format!("{}\0", self.0.prefix));
        match self.0.storage.range(RangeRequest { start, end, revision, limit: 1, count_only: true }).await {
            Err(error @ storage::Error::Compacted { .. }) => Err(error.into()),
            // An engine that does not answer is treated as one that has not compacted.
            Ok(_) | Err(_) => Ok(Some(snapshot)),
        }
    }

    fn in_window(&self, revision: u64) -> Option<Snapshot> {
        let state = self.0.state.lock();
        let objects = state.window.objects_at(revision).filter(|_| state.ready)?;
        Some(Snapshot { prefix: self.0.prefix.clone(), objects, revision })
    }

    /// Starts a watch. If it begins with the current state, waits until that is as fresh as requested.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watcher, Error> {
        Watcher::start(self.clone(), request).await
    }

    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// Announces an object that this server is about to write. `value` is the value for the store, and must decode to
    /// the object.
    pub fn announce(&self, key: &Key, value: &Bytes, object: &Object) -> Announcement<'_> {
        self.0.announced.announce(key, value, object)
    }
}

/// Tests compare the announced object of every fourth revision with what is stored. To compare all takes them a twentieth longer.
const CHECKED_EVERY: u64 = 4;

impl Shared {
    fn decode(&self, entry: &Entry) -> Result<Arc<Object>, Error> {
        self.decode_caught(entry).map_err(|reason| Error::Undecodable { key: entry.key.to_string(), reason })
    }

    /// Decodes an entry. A panic of the decoder counts as an error of this one object.
    fn decode_caught(&self, entry: &Entry) -> Result<Arc<Object>, DecodeError> {
        caught(|| (self.decode)(entry)).unwrap_or_else(|why| Err(format!("the decoder panicked: {why}").into()))
    }

    /// Returns the object of an entry, or `None` if it is unreadable. That is logged and recorded, and the rest of the
    /// row goes on without it. Only the feed may call this, because it sees the values of a key in their order.
    fn decode_current(&self, entry: &Entry) -> Option<Arc<Object>> {
        if let Some(object) = self.announced.take(entry) {
            let is_decoded = |decoded: Arc<Object>| decoded == object && decoded.index == object.index;
            debug_assert!(
                !entry.mod_revision.is_multiple_of(CHECKED_EVERY) || self.decode(entry).is_ok_and(is_decoded),
                "{} was announced as another object",
                entry.key
            );
            self.unreadable.forget(&entry.key);
            return Some(object);
        }
        match self.decode_caught(entry) {
            Ok(object) => {
                self.unreadable.forget(&entry.key);
                Some(object)
            }
            Err(reason) => {
                self.unreadable.record(&entry.key, entry.mod_revision, reason);
                None
            }
        }
    }

    /// Decodes an entry of the past, without recording anything: the key may be readable by now. A value that cannot be
    /// decrypted is an error and not left out.
    fn decode_past(&self, entry: &Entry) -> Result<Option<Arc<Object>>, Error> {
        match self.decode(entry) {
            Ok(object) => Ok(Some(object)),
            Err(Error::Undecodable { reason, .. }) if !reason.is_encrypted() => {
                tracing::debug!(key = %entry.key, %reason, "a stored object of the past cannot be read and is left out");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Lists the row from the store, for the feed, and updates the record of unreadable keys.
    async fn list(&self) -> Result<Snapshot, Error> {
        let mut unreadable = BTreeSet::new();
        let listed = self
            .list_with(|entry| {
                let object = self.decode_current(entry);
                if object.is_none() {
                    unreadable.insert(entry.key.clone());
                }
                object
            })
            .await?;
        self.unreadable.retain(&unreadable);
        Ok(listed)
    }

    /// Lists the row from the store. Objects that the cache holds at the same revision are not decoded again.
    async fn list_with(&self, mut decode: impl FnMut(&Entry) -> Option<Arc<Object>>) -> Result<Snapshot, Error> {
        let cached = self.state.lock().window.objects().clone();
        let mut objects = OrdMap::new();
        let mut request = RangeRequest::prefix(&self.prefix).limit(LIST_PAGE);
        loop {
            let range = self.storage.range(request.clone()).await?;
            for entry in &range.entries {
                let known = cached.get(&entry.key).filter(|object| object.revision == entry.mod_revision).cloned();
                if let Some(object) = known.or_else(|| decode(entry)) {
                    objects.insert(entry.key.clone(), object);
                }
            }
            // The first page determines the revision at which the rest is read.
            request.revision = if request.revision == 0 { range.revision } else { request.revision };
            match range.entries.last() {
                Some(last) if range.more => request.start = format!("{}\0", last.key),
                _ => return Ok(Snapshot { prefix: self.prefix.clone(), objects, revision: request.revision }),
            }
        }
    }

    /// Reads for an engine without reliable progress: from the cache if it happens to be fresh, otherwise from the
    /// store.
    async fn read_store(&self, revision: u64, deadline: Instant) -> Result<Snapshot, Error> {
        let mut known = 0;
        loop {
            {
                let state = self.state.lock();
                if !state.ready {
                    return Err(Error::NotReady);
                }
                if state.window.revision() >= revision {
                    return Ok(self.snapshot_of(&state));
                }
            }
            if known >= revision {
                // By now the feed may have seen newer values, so only the feed records unreadable keys.
                return self.list_with(|entry| self.decode_caught(entry).ok()).await;
            }
            known = self.storage.current_revision().await?;
            if known < revision {
                if self.env.now() >= deadline {
                    return Err(Error::TooLarge { requested: revision, current: known });
                }
                self.env.sleep(PROGRESS_REQUEST_INTERVAL).await;
            }
        }
    }

    fn snapshot_of(&self, state: &State) -> Snapshot {
        Snapshot {
            prefix: self.prefix.clone(),
            objects: state.window.objects().clone(),
            revision: state.window.revision(),
        }
    }

    /// Waits until `look` returns something, calling it after every advance.
    async fn wait_for<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let mut advanced = pin!(self.advanced.notified());
            // Registered before looking, so that an advance in between is not missed.
            advanced.as_mut().enable();
            if let Some(found) = look(&self.state.lock()) {
                return found;
            }
            advanced.await;
        }
    }

    async fn wait_until_fresh(&self, revision: u64, deadline: Instant) -> Result<Snapshot, Error> {
        let look =
            |state: &State| (state.ready && state.window.revision() >= revision).then(|| self.snapshot_of(state));
        if let Some(fresh) = look(&self.state.lock()) {
            return Ok(fresh);
        }
        let fresh = self.wait_for(look);
        let mut fresh = pin!(fresh);
        while self.env.now() < deadline {
            // Perhaps no key below this prefix is ever written again: only progress tells that the cache is up to date.
            // A failed request is repeated, as one without an answer is.
            let _ = self.storage.request_progress(&self.prefix).await;
            let wait = deadline.saturating_duration_since(self.env.now()).min(PROGRESS_REQUEST_INTERVAL);
            if let Ok(snapshot) = self.env.timeout(wait, &mut fresh).await {
                return Ok(snapshot);
            }
        }
        let state = self.state.lock();
        if !state.ready {
            return Err(Error::NotReady);
        }
        Err(Error::TooLarge { requested: revision, current: state.window.revision() })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cacher").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
