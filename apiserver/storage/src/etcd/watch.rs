//! `Watches`: the watches of an etcd cluster, which go on as long as any member answers.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/etcd3/watcher.go. Each watch is one gRPC stream and a task that moves
//! messages into a queue, so that a reader that does not read delays its own watch and not the connection.
//!
//! A broken stream is resumed at another member. It begins *at* the last revision that was seen and drops all that is
//! not newer. If that revision was compacted meanwhile, etcd then reports it, and does not silently leave out a
//! deletion that compaction removed.

use super::cluster::{Cluster, Repeat};
use super::keys::Keys;
use super::member::{Connection, Failure, KeyEvent, KeyValue, RangeQuery, WatchMessage, WatchMessages, WatchQuery};
use crate::{Entry, Error, Event, Watch, WatchItem, prefix_end};
use component_base::env::Env;
use futures::stream;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Largest number of messages that wait for the reader; etcd puts up to a thousand revisions into one.
const QUEUE_MESSAGES: usize = 64;

/// A watch whose queue stays full for this long is cut. Its reader resumes from etcd's history.
const STALL_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for opening a watch; a healthy member opens it at once.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for learning the compacted revision: a member reports it when it next looks at slow watches.
const COMPACTED_LIMIT: Duration = Duration::from_secs(2);

/// Pause before a stream that broke is opened again.
const PAUSE: Duration = Duration::from_millis(50);

/// After this many breaks without a message the watch ends with an error, and its reader tries again.
const ATTEMPTS: usize = 8;

/// Interval between progress requests. A reliable member does not answer while the watch still reads history, for which
/// it checks every tenth of a second.
const PROGRESS_REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Number of progress requests without an answer after which the watch waits for the next caller.
const MAX_PROGRESS_REQUESTS: u32 = 50;

#[derive(Debug)]
pub struct Watches {
    env: Env,
    cluster: Arc<Cluster>,
    keys: Arc<Keys>,
    live: Mutex<Vec<Weak<Handle>>>,
}

#[derive(Debug)]
struct Handle {
    prefix: String,
    progress_requested: Notify,
}

/// The reasons for which a stream ends.
enum Break {
    /// The reader is gone, or the server shuts down.
    Over,
    /// The reader gets this error.
    Failed(Error),
    /// Another member may be able to go on.
    Broken(Failure),
}

impl Watches {
    pub fn new(env: &Env, cluster: Arc<Cluster>, keys: Arc<Keys>) -> Self {
        Self { env: env.clone(), cluster, keys, live: Mutex::default() }
    }

    /// Starts a watch. Fails at once if history does not reach back to `after`.
    pub async fn start(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        let handle = Arc::new(Handle { prefix: prefix.to_owned(), progress_requested: Notify::new() });
        let (queue, mut items) = mpsc::channel(QUEUE_MESSAGES);
        let follower = Follower {
            env: self.env.clone(),
            cluster: self.cluster.clone(),
            keys: self.keys.clone(),
            handle: handle.clone(),
            query: WatchQuery {
                start: self.keys.in_etcd(prefix),
                end: self.keys.in_etcd(&prefix_end(prefix)),
                from: after,
            },
            after,
            queue,
        };
        follower.check_history().await?;
        {
            let mut live = self.live.lock();
            live.retain(|watch| watch.strong_count() > 0);
            live.push(Arc::downgrade(&handle));
        }
        let shutdown = self.env.shutdown().clone();
        self.env.spawn(follower.run(shutdown));
        Ok(Box::pin(stream::poll_fn(move |context| items.poll_recv(context))))
    }

    pub fn request_progress(&self, prefix: &str) {
        for handle in self.live.lock().iter().filter_map(Weak::upgrade) {
            if handle.prefix.starts_with(prefix) || prefix.starts_with(&handle.prefix) {
                handle.progress_requested.notify_one();
            }
        }
    }
}

/// The task of one watch.
struct Follower {
    env: Env,
    cluster: Arc<Cluster>,
    keys: Arc<Keys>,
    handle: Arc<Handle>,
    query: WatchQuery,
    /// Everything up to this revision has been delivered, or was not requested.
    after: u64,
    queue: mpsc::Sender<Result<WatchItem, Error>>,
}

impl Follower {
    async fn run(mut self, shutdown: CancellationToken) {
        let mut attempts = 0;
        loop {
            let before = self.after;
            let queue = self.queue.clone();
            let ended = self.cluster.ended().clone();
            let reason = tokio::select! {
                biased;
                () = shutdown.cancelled() => Break::Over,
                () = queue.closed() => Break::Over,
                () = ended.cancelled() => Break::Failed(self.cluster.error(Failure::Lost(String::new()))),
                reason = self.follow() => reason,
            };
            attempts = if self.after > before { 0 } else { attempts + 1 };
            let error = match reason {
                Break::Over => return,
                Break::Failed(error) => Some(error),
                Break::Broken(failure) if attempts >= ATTEMPTS => Some(self.cluster.error(failure)),
                Break::Broken(failure) => {
                    tracing::debug!(prefix = self.handle.prefix, after = self.after, %failure, "resuming a watch");
                    self.env.sleep(PAUSE).await;
                    // Calls all members, so that the next attempt begins at one that answers.
                    self.check_history().await.err()
                }
            };
            if let Some(error) = error {
                let _ = self.env.timeout(STALL_LIMIT, queue.send(Err(error))).await;
                return;
            }
        }
    }

    /// Reads at the revision after which the watch begins: etcd reports if it is compacted.
    async fn check_history(&self) -> Result<(), Error> {
        let read = match self.read_at(self.after).await {
            // A watch after a future revision waits. The read at 0 checks that etcd answers.
            Err(Failure::Future) => self.read_at(0).await,
            read => read,
        };
        match read {
            Ok(()) => Ok(()),
            Err(Failure::Compacted) => {
                let compacted = compacted_revision(&self.env, &self.cluster, self.after).await;
                Err(Error::Compacted { requested: self.after, compacted })
            }
            Err(failure) => Err(self.cluster.error(failure)),
        }
    }

    async fn read_at(&self, revision: u64) -> Result<(), Failure> {
        let query = RangeQuery { revision, count_only: true, ..RangeQuery::key(&*self.query.start) };
        let read = self.cluster.call(Repeat::Always, |connection| {
            let query = query.clone();
            async move { connection.range(query).await }
        });
        read.await.map(|_| ())
    }

    /// Follows one stream until it breaks.
    async fn follow(&mut self) -> Break {
        let (index, connection) = match self.cluster.preferred().await {
            Ok(preferred) => preferred,
            Err(failure) => return Break::Broken(failure),
        };
        let query = WatchQuery { from: self.after.max(1), ..self.query.clone() };
        let opened = self.env.timeout(OPEN_LIMIT, connection.watch(query)).await;
        let mut messages = match opened {
            Ok(Ok(messages)) => messages,
            Ok(Err(failure)) => return self.broken(index, &connection, failure),
            Err(_) => {
                let failure = Failure::Lost(format!("no watch within {} s", OPEN_LIMIT.as_secs()));
                return self.broken(index, &connection, failure);
            }
        };
        let handle = self.handle.clone();
        // The time of the next progress request, and how many requests are left.
        let (mut request_at, mut requests_left) = (None, 0);
        loop {
            let message = tokio::select! {
                biased;
                () = handle.progress_requested.notified() => {
                    requests_left = MAX_PROGRESS_REQUESTS;
                    None
                }
                () = until(&self.env, request_at) => None,
                message = messages.next() => Some(message),
            };
            let Some(message) = message else {
                request_at = None;
                if self.cluster.is_progress_trusted(index) && requests_left > 0 {
                    if let Err(failure) = messages.request_progress().await {
                        return self.broken(index, &connection, failure);
                    }
                    requests_left -= 1;
                    request_at = Some(self.env.now() + PROGRESS_REQUEST_INTERVAL);
                }
                continue;
            };
            if matches!(&message, Ok(Some(message)) if message.answers_request) {
                let is_late = request_at.take().is_none();
                // A second request gets a second answer, which brings nothing new.
                if is_late && matches!(&message, Ok(Some(message)) if message.revision <= self.after) {
                    continue;
                }
            }
            let item = match message {
                Ok(Some(message)) => self.item(index, message),
                Ok(None) => Err(Break::Broken(Failure::Lost("the member ended the watch".to_owned()))),
                Err(failure) => return self.broken(index, &connection, failure),
            };
            match item {
                Ok(None) => {}
                Ok(Some(item)) => {
                    if !matches!(self.env.timeout(STALL_LIMIT, self.queue.send(Ok(item))).await, Ok(Ok(()))) {
                        tracing::debug!(prefix = handle.prefix, "a watch was not read and is cut");
                        return Break::Over;
                    }
                }
                Err(reason) => return reason,
            }
        }
    }

    fn broken(&self, index: usize, connection: &Arc<dyn Connection>, failure: Failure) -> Break {
        Break::Broken(self.cluster.drop_connection(index, connection, failure))
    }

    /// Returns the item for the reader, or `None` when the message has no content for it.
    fn item(&mut self, index: usize, message: WatchMessage) -> Result<Option<WatchItem>, Break> {
        self.cluster.check_cluster(index, message.cluster).map_err(Break::Broken)?;
        if message.compacted > 0 {
            let error = Error::Compacted { requested: self.after, compacted: message.compacted };
            return Err(Break::Failed(error));
        }
        if let Some(reason) = message.canceled {
            return Err(Break::Broken(Failure::Lost(reason)));
        }
        if message.created {
            return Ok(None);
        }
        let Some(last) = message.events.last() else {
            if message.answers_request && !self.cluster.is_progress_trusted(index) {
                return Ok(None);
            }
            self.after = self.after.max(message.revision);
            return Ok(Some(WatchItem::Progress(self.after)));
        };
        let (seen, last) = (self.after, last.key_value.mod_revision);
        self.after = self.after.max(last);
        self.cluster.observe_revision(last);
        let new = message.events.into_iter().filter(|event| event.key_value.mod_revision > seen);
        let events: Vec<_> = new.filter_map(|event| self.event(event)).map(Arc::new).collect();
        Ok((!events.is_empty()).then_some(WatchItem::Events(events)))
    }

    fn event(&self, event: KeyEvent) -> Option<Event> {
        let revision = event.key_value.mod_revision;
        let key = self.keys.of_etcd(&event.key_value.key)?;
        let entry = |key_value: KeyValue| Entry {
            key: key.clone(),
            value: key_value.value,
            create_revision: key_value.create_revision,
            mod_revision: key_value.mod_revision,
        };
        Some(Event {
            revision,
            current: (!event.is_delete).then(|| entry(event.key_value)),
            previous: event.previous.map(entry),
            key: key.clone(),
        })
    }
}

/// Waits until `at`, or for ever when it is `None`.
async fn until(env: &Env, at: Option<Instant>) {
    match at {
        Some(at) => env.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the oldest revision that can be read, given that `requested` is compacted. A read does not report it; a
/// watch does.
pub async fn compacted_revision(env: &Env, cluster: &Cluster, requested: u64) -> u64 {
    // No key is ever written at this place.
    let query = WatchQuery { start: vec![0], end: vec![0, 0], from: requested.max(1) };
    let reported = async {
        let (_, connection) = cluster.preferred().await.ok()?;
        let mut messages: Box<dyn WatchMessages> = connection.watch(query).await.ok()?;
        while let Ok(Some(message)) = messages.next().await {
            if message.compacted > 0 {
                return Some(message.compacted);
            }
        }
        None
    };
    env.timeout(COMPACTED_LIMIT, reported).await.ok().flatten().unwrap_or(requested + 1)
}
