//! The cacher: per row of the resource table, the current objects and a window of events, fed by one watch of the
//! store and read by every list and watch.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/cacher. Everything here is derived from the store and equal to a
//! rebuild from it: the property tests check that.
//!
//! Reading order: [`event`], `window` (pure), `feed` (store to window), [`watcher`] (window to client).

mod announced;
mod backfill;
mod bookmark;
pub mod encryption;
pub mod event;
mod feed;
pub mod lookup;
mod unreadable;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod watcher;
mod window;

pub use announced::Announcement;
pub use event::{CacheEvent, Change, EventType, FrameKey, WatchEvent};
pub use snapshot::{Scope, Snapshot, object_key};
pub use watcher::{WatchFrom, WatchRequest, Watcher};

use announced::Announced;
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
use unreadable::Unreadable;
use window::Window;

/// Makes an object of what the store holds: index, selectable fields, the revision. An error says what is wrong.
pub type Decode = Arc<dyn Fn(&Entry) -> Result<Arc<Object>, String> + Send + Sync>;

/// How long a reader waits for a revision that has not come yet, as in Kubernetes.
pub const FRESH_TIMEOUT: Duration = Duration::from_secs(3);

/// Entries in one answer of the engine while listing.
const LIST_PAGE: usize = 10_000;

/// How often a waiting reader asks the store again for its progress; an answer can be lost.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How current an answer has to be: what `resourceVersion` says without `resourceVersionMatch=Exact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// "0": whatever is here.
    Any,
    /// Not older than this revision.
    AtLeast(u64),
    /// Unset: nothing that was written before the request is missing.
    Latest,
}

/// Why the cacher does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first list of the store is not done.
    #[error("storage is (re)initializing")]
    NotReady,
    /// 504 with ResourceVersionTooLarge.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLarge { requested: u64, current: u64 },
    /// 410: the events or the state asked for are gone.
    #[error("too old resource version: {requested} ({oldest})")]
    Expired { requested: u64, oldest: u64 },
    #[error("{key}: {reason}")]
    Undecodable { key: String, reason: String },
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
    /// Objects of the range that are not on this page.
    pub remaining: u64,
    /// Where the next page begins, if there are any.
    pub next: Option<String>,
    pub revision: u64,
}

/// The cache of one row. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cacher(Arc<Shared>);

struct Shared {
    env: Env,
    /// Cancelled when this row, or everything, has to end.
    stopped: CancellationToken,
    storage: Arc<dyn Storage>,
    prefix: Arc<str>,
    decode: Decode,
    announced: Announced,
    unreadable: Unreadable,
    jitter: Random,
    /// The store is to be listed again.
    again: Notify,
    state: Mutex<State>,
    /// Events were appended or cursors fell off: watches look.
    appended: Notify,
    /// The revision advanced, with or without events: readers that wait for it look.
    advanced: Notify,
}

#[derive(Default)]
struct State {
    window: Window,
    ready: bool,
    /// What keeps the cache from following the store, if anything does.
    trouble: Option<String>,
    /// Cancelled when the cache has got what no event tells of: watches that began before have to begin anew.
    lapse: CancellationToken,
}

impl Cacher {
    /// Follows the keys below `prefix` (which ends in `/`) until `env` shuts down.
    pub fn new(env: &Env, storage: Arc<dyn Storage>, prefix: &str, decode: Decode) -> Self {
        let shared = Arc::new(Shared {
            jitter: env.random(&format!("cacher{prefix}")),
            again: Notify::new(),
            env: env.clone(),
            stopped: env.shutdown().child_token(),
            storage,
            prefix: prefix.into(),
            decode,
            announced: Announced::default(),
            unreadable: Unreadable::default(),
            state: Mutex::default(),
            appended: Notify::new(),
            advanced: Notify::new(),
        });
        env.spawn(feed::run(shared.clone()));
        Self(shared)
    }

    /// Ends this row: its watches end and nothing follows the store any more. (A custom resource was removed.)
    pub fn stop(&self) {
        self.0.stopped.cancel();
    }

    pub fn is_ready(&self) -> bool {
        self.0.state.lock().ready
    }

    /// Waits until the first list of the store is done; false when the row is stopped before.
    pub async fn ready(&self) -> bool {
        let ready = self.0.when_advanced(|state| state.ready.then_some(()));
        tokio::select! {
            biased;
            () = ready => true,
            () = self.0.stopped.cancelled() => false,
        }
    }

    /// What keeps the cache from following the store at the moment, for a readiness check.
    pub fn trouble(&self) -> Option<String> {
        self.0.state.lock().trouble.clone()
    }

    /// The current objects, however old: `resourceVersion=0`.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let state = self.0.state.lock();
        if !state.ready {
            return Err(Error::NotReady);
        }
        Ok(self.0.snapshot_of(&state))
    }

    /// Waits until the objects are others than these; for those who look at a whole row again and again. Where the store
    /// was read itself, the cache may come to know these later.
    pub async fn changed(&self, known: &Snapshot) {
        let look = |state: &State| {
            let is_later = state.ready && state.window.revision() >= known.revision;
            (is_later && !self.0.snapshot_of(state).equals(known)).then_some(())
        };
        self.0.when_advanced(look).await;
    }

    /// Waits until the cache holds what was written at a revision of this row, but not for ever: the store may be away.
    pub async fn reached(&self, revision: u64) {
        let look = |state: &State| (state.window.revision() >= revision).then_some(());
        let _ = self.0.env.timeout(FRESH_TIMEOUT, self.0.when_advanced(look)).await;
    }

    /// The current objects, waiting until they are as fresh as asked for.
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

    /// Keys of the row that hold something else than an object, and what is wrong with them.
    pub fn unreadable(&self) -> Vec<(Key, String)> {
        self.0.unreadable.list()
    }

    /// Reads the row again because more of it may be readable now. Watches end if there is, as they were never told of it.
    pub fn read_again(&self) {
        self.0.again.notify_one();
    }

    pub fn has_unreadable(&self) -> bool {
        !self.0.unreadable.is_empty()
    }

    /// From the cache, however old.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Error> {
        Ok(self.snapshot()?.get(namespace, name).cloned())
    }

    /// As the store has it now, without waiting for the cache: an object that the cache holds at the revision that the
    /// store answers is not decoded again.
    pub async fn get_latest(&self, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Error> {
        let key = object_key(&self.0.prefix, namespace, name);
        let Some(entry) = self.0.storage.get(&key).await?.entry else { return Ok(None) };
        let cached = self.0.state.lock().window.objects().get(key.as_str()).cloned();
        match cached.filter(|object| object.revision == entry.mod_revision) {
            Some(object) => Ok(Some(object)),
            None => self.0.decode(&entry).map(Some),
        }
    }

    /// The objects with `start <= key < end` exactly as they were at `revision`, at most `limit` (0: all). Served
    /// from the window if it reaches so far back, else by the engine: only that one's compaction makes it `Expired`.
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
        let objects = range.entries.iter().filter_map(|entry| self.0.readable_then(entry).transpose());
        let objects = objects.collect::<Result<_, _>>()?;
        Ok(Page { objects, remaining, next, revision })
    }

    /// The objects exactly as they were at `revision`, if the window reaches so far back. What the engine has compacted
    /// is gone here, too: how long a page's token is good must not depend on the server that is asked.
    pub async fn snapshot_at(&self, revision: u64) -> Result<Option<Snapshot>, Error> {
        let Some(snapshot) = self.in_window(revision) else { return Ok(None) };
        let (start, end) = (self.0.prefix.to_string(), format!("{}\0", self.0.prefix));
        match self.0.storage.range(RangeRequest { start, end, revision, limit: 1, count_only: true }).await {
            Err(error @ storage::Error::Compacted { .. }) => Err(error.into()),
            // An engine that does not answer has not compacted either, as far as anybody knows.
            Ok(_) | Err(_) => Ok(Some(snapshot)),
        }
    }

    fn in_window(&self, revision: u64) -> Option<Snapshot> {
        let state = self.0.state.lock();
        let objects = state.window.objects_at(revision).filter(|_| state.ready)?;
        Some(Snapshot { prefix: self.0.prefix.clone(), objects, revision })
    }

    /// Starts a watch; waits, if it begins with the current state, until that is as fresh as asked for.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watcher, Error> {
        Watcher::start(self.clone(), request).await
    }

    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// Tells the cache of an object that this server is about to write. `value` is what the store will hold, and has to
    /// decode to the object.
    pub fn announce(&self, key: &Key, value: &Bytes, object: &Object) -> Announcement<'_> {
        self.0.announced.announce(key, value, object)
    }
}

impl Shared {
    fn decode(&self, entry: &Entry) -> Result<Arc<Object>, Error> {
        self.decoded(entry).map_err(|reason| Error::Undecodable { key: entry.key.to_string(), reason })
    }

    /// A mistake in the decoder costs the object at which it panics, and not its whole kind.
    fn decoded(&self, entry: &Entry) -> Result<Arc<Object>, String> {
        caught(|| (self.decode)(entry)).unwrap_or_else(|why| Err(format!("the decoder panicked: {why}")))
    }

    /// The object, unless the key holds something else; that is told, and the rest of the row goes on without it. Only
    /// the feed asks, which sees the values of a key in their order.
    fn readable(&self, entry: &Entry) -> Option<Arc<Object>> {
        if let Some(object) = self.announced.take(entry) {
            let is_decoded = |decoded: Arc<Object>| decoded == object && decoded.index == object.index;
            debug_assert!(self.decode(entry).is_ok_and(is_decoded), "{} was announced as another object", entry.key);
            self.unreadable.forget(&entry.key);
            return Some(object);
        }
        match self.decoded(entry) {
            Ok(object) => {
                self.unreadable.forget(&entry.key);
                Some(object)
            }
            Err(reason) => {
                self.unreadable.tell(&entry.key, entry.mod_revision, reason);
                None
            }
        }
    }

    /// The same of the past, of which nothing is kept in mind: the key may hold something good by now. What cannot be
    /// decrypted is not left out in silence.
    fn readable_then(&self, entry: &Entry) -> Result<Option<Arc<Object>>, Error> {
        match self.decode(entry) {
            Ok(object) => Ok(Some(object)),
            Err(Error::Undecodable { reason, .. }) if !encryption::Unreadable::is(&reason) => {
                tracing::debug!(key = %entry.key, reason, "a stored object of the past cannot be read and is left out");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The row as the store has it, for the feed: what is unreadable now is told, and what no longer is, too.
    async fn list(&self) -> Result<Snapshot, Error> {
        let mut unreadable = BTreeSet::new();
        let listed = self
            .list_by(|entry| {
                let object = self.readable(entry);
                if object.is_none() {
                    unreadable.insert(entry.key.clone());
                }
                object
            })
            .await?;
        self.unreadable.retain(&unreadable);
        Ok(listed)
    }

    /// The row as the store has it. What the cache holds at the same revision is not decoded again.
    async fn list_by(&self, mut decode: impl FnMut(&Entry) -> Option<Arc<Object>>) -> Result<Snapshot, Error> {
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
            // The first page answers at the revision that the rest is then read at.
            request.revision = if request.revision == 0 { range.revision } else { request.revision };
            match range.entries.last() {
                Some(last) if range.more => request.start = format!("{}\0", last.key),
                _ => return Ok(Snapshot { prefix: self.prefix.clone(), objects, revision: request.revision }),
            }
        }
    }

    /// For engines that cannot tell when the cache has everything: the cache if it is fresh anyway, else the store.
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
                // By the time it is answered the feed may know newer values: it alone says what is unreadable.
                return self.list_by(|entry| self.decoded(entry).ok()).await;
            }
            known = self.storage.current_revision().await?;
            if known < revision {
                if self.env.now() >= deadline {
                    return Err(Error::TooLarge { requested: revision, current: known });
                }
                self.env.sleep(ASK_AGAIN).await;
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

    /// Waits until `look` finds something, looking after every advance.
    async fn when_advanced<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
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
        let fresh = self.when_advanced(look);
        let mut fresh = pin!(fresh);
        while self.env.now() < deadline {
            // Nothing may ever be written below this prefix again: only progress tells that the cache is up to date.
            // A failure is no answer either, and asked again.
            let _ = self.storage.request_progress(&self.prefix).await;
            let wait = deadline.saturating_duration_since(self.env.now()).min(ASK_AGAIN);
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
