//! `Reflector`: lists and watches one collection, and keeps a store equal to it in spite of lost connections.
//!
//! It is a state machine: each step takes the state by value and returns the next.
//!
//! ```text
//!   Start ──► Initial (streams) ──► (end bookmark) ──► Following ◄──► Watch
//!     │            │ refused                                             │ 410
//!     └──► List ◄──┘                                                     └────► Start
//!           └──────────────────────────────────────────────────────► Watch
//! ```
//!
//! A server refuses to stream initial events in one of two ways. With the feature gate off it answers 422 (old servers:
//! 400). On an etcd that cannot be asked for progress it answers 200, and the stream's only event is an error with code
//! 500. In both cases a list succeeds where the same request may fail again.
//!
//! Corresponds to k8s.io/client-go/tools/cache/reflector.go.

use crate::backoff::Backoff;
use crate::cached::{AnyCached, Cached, Codec, PartialObject};
use crate::dynamic::DynamicApi;
use crate::error::Error;
use crate::options::ListOptions;
use crate::staging::Staging;
use crate::watch::{Watch, WatchEvent};
use bytes::Bytes;
use component_base::env::Env;
use component_base::rng::Random;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// client-go's back-off: the pause after a failure grows to 30 s, and starts anew after two minutes without a failure.
const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(800), factor: 2.0, max: Duration::from_secs(30), jitter: 1.0 };
const BACKOFF_RESET: Duration = Duration::from_secs(120);
/// A watch asks the server to end it after this time or up to twice as long, so that watchers spread over the servers.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Time after its requested end at which a silent watch counts as dead.
const WATCH_OVERTIME: Duration = Duration::from_secs(30);
/// Objects in one page of a list that is not served from the server's cache.
const PAGE_LIMIT: u32 = 500;
/// A watch that ends sooner than this without an event counts as a failure.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Receives the changes of a collection, each with the collection's version after it.
pub(crate) trait Sink: Send + Sync {
    /// Adds an object to a list that is still being read.
    fn stage(&self, list: &mut Staging, object: Arc<dyn AnyCached>);
    /// Sets the whole collection as of one revision.
    fn replace(&self, list: Staging, version: &str);
    fn upsert(&self, object: Arc<dyn AnyCached>, version: &str);
    fn remove(&self, key: &str, last: Option<Arc<dyn AnyCached>>, version: &str);
    /// Records that nothing has changed up to this version.
    fn advance(&self, version: &str);
}

enum State {
    /// The store is not usable: stream or list the collection, not older than `from` (empty: the newest).
    Start { from: String },
    /// The server refused to stream initial events this time.
    List { from: String },
    /// The server streams the objects that there are; they are complete with the bookmark that ends them.
    Initial { from: String, watch: Watch, until: Instant, list: Staging },
    /// The store is as of `version`: watch from there.
    Watch { version: String },
    /// The watch is open, and its events go to the store.
    Following { version: String, watch: Watch, began: Instant, until: Instant, events: u64 },
}

/// A failed step: the error and the state to go on with.
struct Failure {
    next: State,
    error: Option<Error>,
}

/// Keeps a sink equal to one collection of the API server.
pub(crate) struct Reflector<S> {
    api: DynamicApi,
    selection: ListOptions,
    codec: Codec,
    sink: S,
    random: Random,
}

impl<S: Sink> Reflector<S> {
    pub(crate) fn new(api: DynamicApi, selection: ListOptions, codec: Codec, sink: S) -> Self {
        let stream = format!(
            "client/reflector/{}/{}/{}/{}/{}",
            api.client().user_agent(),
            api.gvr(),
            api.namespace(),
            selection.label_selector,
            selection.field_selector
        );
        let random = api.client().env().random(&stream);
        Self { api, selection, codec, sink, random }
    }

    fn env(&self) -> &Env {
        self.api.client().env()
    }

    /// Runs until the future is dropped.
    pub(crate) async fn run(&self) {
        // The first list may be of any revision that the server has cached.
        let mut state = State::Start { from: "0".into() };
        let mut attempt = 0;
        let mut failed_at = self.env().now();
        loop {
            match self.step(state).await {
                Ok(next) => state = next,
                Err(Failure { next, error }) => {
                    let now = self.env().now();
                    if now.duration_since(failed_at) > BACKOFF_RESET {
                        attempt = 0;
                    }
                    failed_at = now;
                    let pause = BACKOFF.jittered(attempt, &self.random);
                    attempt += 1;
                    if let Some(error) = error {
                        tracing::warn!(collection = %self.api.gvr(), %error, ?pause, "following a collection failed");
                    }
                    self.env().sleep(pause).await;
                    state = next;
                }
            }
        }
    }

    async fn step(&self, state: State) -> Result<State, Failure> {
        match state {
            State::Start { from } => self.start(from).await,
            State::List { from } => self.list(from).await,
            State::Initial { from, watch, until, list } => self.initial(from, watch, until, list).await,
            State::Watch { version } => self.watch(version).await,
            State::Following { version, watch, began, until, events } => {
                self.follow(version, watch, began, until, events).await
            }
        }
    }

    async fn start(&self, from: String) -> Result<State, Failure> {
        let (options, until) = self.watch_options(ListOptions {
            // Without a version the stream of initial events is consistent; "0" would allow stale objects.
            resource_version: if from == "0" { String::new() } else { from.clone() },
            resource_version_match: "NotOlderThan".into(),
            send_initial_events: true,
            ..self.selection.clone()
        });
        match self.api.watch_as(&options, self.codec.accept_watch).await {
            Ok(watch) => Ok(State::Initial { from, watch, until, list: Staging::default() }),
            Err(error) if may_stream_later(&error) => Err(restart(from, error)),
            Err(error) => Ok(self.list_instead(from, &error)),
        }
    }

    /// Returns the next state after the stream of initial events was refused, or failed for good.
    fn list_instead(&self, from: String, error: &Error) -> State {
        tracing::info!(collection = %self.api.gvr(), %error, "no stream of initial events: listing instead");
        State::List { from }
    }

    async fn initial(
        &self,
        from: String,
        mut watch: Watch,
        until: Instant,
        mut list: Staging,
    ) -> Result<State, Failure> {
        loop {
            let event = match self.next_event(&mut watch, until).await {
                Some(Ok(event)) => event,
                Some(Err(error)) if may_stream_later(&error) => return Err(restart(from, error)),
                Some(Err(error)) => return Ok(self.list_instead(from, &error)),
                // The stream ended before the collection was complete.
                None => return Err(Failure { next: State::Start { from }, error: None }),
            };
            match event {
                WatchEvent::Added(bytes) | WatchEvent::Modified(bytes) => {
                    if let Some(object) = self.decode(&bytes) {
                        self.sink.stage(&mut list, object);
                    }
                }
                WatchEvent::Deleted(bytes) => {
                    if let Some(object) = self.decode_partial(&bytes) {
                        list.remove(&object.cache_key());
                    }
                }
                WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                    self.sink.replace(list, &resource_version);
                    let began = self.env().now();
                    return Ok(State::Following { version: resource_version, watch, began, until, events: 1 });
                }
                WatchEvent::Bookmark { .. } => {}
            }
        }
    }

    async fn list(&self, from: String) -> Result<State, Failure> {
        let mut options = ListOptions {
            // "0" is answered whole from the server's cache; a limit would bypass the cache.
            limit: if from == "0" { 0 } else { PAGE_LIMIT },
            resource_version: from.clone(),
            ..self.selection.clone()
        };
        let mut list = Staging::default();
        loop {
            let stage = |bytes: &[u8]| {
                self.decode(bytes).into_iter().for_each(|object| self.sink.stage(&mut list, object));
                Ok(())
            };
            let page = self.api.list_as(&options, self.codec.accept_list, stage).await;
            let page = match page {
                // The server compacted the token's revision while the pages were read.
                Err(error) if error.is_gone() && options.limit > 0 && !options.continue_token.is_empty() => {
                    list = Staging::default();
                    options = ListOptions { resource_version: from.clone(), ..self.selection.clone() };
                    continue;
                }
                page => page.map_err(|error| restart(from.clone(), error))?,
            };
            if page.metadata.continue_token.is_empty() {
                self.sink.replace(list, &page.metadata.resource_version);
                return Ok(State::Watch { version: page.metadata.resource_version });
            }
            options.continue_token = page.metadata.continue_token;
            // The token contains the revision.
            options.resource_version.clear();
        }
    }

    async fn watch(&self, version: String) -> Result<State, Failure> {
        let (options, until) =
            self.watch_options(ListOptions { resource_version: version.clone(), ..self.selection.clone() });
        match self.api.watch_as(&options, self.codec.accept_watch).await {
            Ok(watch) => Ok(State::Following { version, watch, began: self.env().now(), until, events: 0 }),
            Err(error) => Err(resume(version, error)),
        }
    }

    async fn follow(
        &self,
        mut version: String,
        mut watch: Watch,
        began: Instant,
        until: Instant,
        mut events: u64,
    ) -> Result<State, Failure> {
        loop {
            let event = match self.next_event(&mut watch, until).await {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(resume(version, error)),
                None if events == 0 && self.env().now().duration_since(began) < SHORTEST_WATCH => {
                    return Err(Failure { next: State::Watch { version }, error: None });
                }
                None => return Ok(State::Watch { version }),
            };
            events += 1;
            match event {
                WatchEvent::Added(bytes) | WatchEvent::Modified(bytes) => match self.decode(&bytes) {
                    Some(object) => {
                        version = object.meta().resource_version.clone().unwrap_or(version);
                        self.sink.upsert(object, &version);
                    }
                    // Skipped, and not requested again.
                    None => {
                        version = self.decode_partial(&bytes).and_then(version_of).unwrap_or(version);
                        self.sink.advance(&version);
                    }
                },
                WatchEvent::Deleted(bytes) => {
                    if let Some(partial) = self.decode_partial(&bytes) {
                        let key = partial.cache_key();
                        version = version_of(partial).unwrap_or(version);
                        self.sink.remove(&key, self.decode(&bytes), &version);
                    }
                }
                WatchEvent::Bookmark { resource_version, .. } => {
                    version = resource_version;
                    self.sink.advance(&version);
                }
            }
        }
    }

    /// Returns the next event; `None` also if the server should have ended the watch long ago.
    async fn next_event(&self, watch: &mut Watch, until: Instant) -> Option<Result<WatchEvent, Error>> {
        let left = until.saturating_duration_since(self.env().now());
        self.env().timeout(left, watch.next()).await.unwrap_or(None)
    }

    fn watch_options(&self, options: ListOptions) -> (ListOptions, Instant) {
        let timeout = self.random.jitter(MIN_WATCH_TIMEOUT, 1.0);
        let timeout_s = u32::try_from(timeout.as_secs()).expect("minutes fit");
        let until = self.env().now() + timeout + WATCH_OVERTIME;
        (ListOptions { timeout_s, allow_bookmarks: true, ..options }, until)
    }

    /// Deviation: an object that cannot be decoded is reported and left out, so that one bad object does not hide
    /// all others; client-go's reflector starts over until it is gone.
    fn decode(&self, bytes: &[u8]) -> Option<Arc<dyn AnyCached>> {
        match (self.codec.decode)(bytes) {
            Ok(object) => Some(object),
            Err(error) => {
                let key = PartialObject::decode(bytes).map(|partial| partial.cache_key()).unwrap_or_default();
                tracing::error!(collection = %self.api.gvr(), key, %error, "an object cannot be decoded");
                None
            }
        }
    }

    fn decode_partial(&self, bytes: &Bytes) -> Option<PartialObject> {
        match PartialObject::decode(bytes) {
            Ok(partial) => Some(partial),
            Err(error) => {
                tracing::error!(collection = %self.api.gvr(), %error, "an event's object has no metadata");
                None
            }
        }
    }
}

/// Returns true if a failed stream of initial events may succeed later: the server is unreachable or busy, or does not
/// have the requested revision.
fn may_stream_later(error: &Error) -> bool {
    match error {
        Error::Transport(_) | Error::Lost(_) => true,
        Error::Status(_) => error.is_too_many_requests() || is_other_version(error),
        Error::Decode(_) => false,
    }
}

/// Returns to the start; for the newest revision if the requested one was compacted or does not exist yet.
fn restart(from: String, error: Error) -> Failure {
    let from = if is_other_version(&error) { String::new() } else { from };
    Failure { next: State::Start { from }, error: Some(error) }
}

/// Resumes the watch at its last version, unless the server cannot serve the following events: then it starts over, since
/// the next watch would fail too.
fn resume(version: String, error: Error) -> Failure {
    if error.is_gone() {
        return Failure { next: State::Start { from: String::new() }, error: None };
    }
    let is_lasting = match &error {
        Error::Decode(_) => true,
        Error::Status(_) => is_other_version(&error) || matches!(error.code(), 400 | 422 | 500),
        Error::Transport(_) | Error::Lost(_) => false,
    };
    let next = if is_lasting { State::Start { from: String::new() } } else { State::Watch { version } };
    Failure { next, error: Some(error) }
}

fn version_of(object: PartialObject) -> Option<String> {
    object.metadata.resource_version
}

/// Returns true if the server does not have the requested revision: it was compacted, or the server is behind, or its
/// store was restored.
fn is_other_version(error: &Error) -> bool {
    let causes = error.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
    error.is_gone() || causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge"))
}
