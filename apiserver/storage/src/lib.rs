//! `Storage`: revisioned bytes under ordered keys, the only ground state of the cluster.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/interfaces.go, as narrow as etcd's own model allows: everything
//! above (objects, selectors, `resourceVersion`) belongs to the registry and the cacher.
//!
//! Engines: [`memory`] (simulations, tests, and the model for the others), [`embedded`] (durable on one disk),
//! [`etcd`] (shared by several API servers).
//! [`fault`] and [`metered`] wrap any of them. One suite, `behaviour`, runs on all.

#[cfg(test)]
mod behaviour;
pub mod embedded;
pub mod etcd;
mod expiry;
pub mod fault;
pub mod memory;
pub mod metered;
mod mvcc;
mod watchers;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;

/// How long the embedded and memory engines keep history: as long as an API server on etcd does.
pub const HISTORY_S: u64 = 300;

/// The time at which that history begins.
fn keep_from_ms(now_ms: i64) -> i64 {
    now_ms - HISTORY_S as i64 * 1000
}

/// Keys are paths: `/registry/<prefix>/<namespace>/<name>`. Shared, because every event and entry holds one.
pub type Key = Arc<str>;

/// One key at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub value: Bytes,
    /// The revision that created the key, or created it again after its last deletion.
    pub create_revision: u64,
    /// The revision that wrote this value.
    pub mod_revision: u64,
}

/// The answer to `get`: what the key held when the store was at `revision`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub entry: Option<Entry>,
    pub revision: u64,
}

/// Which keys to read: `start <= key < end`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    pub start: String,
    /// Exclusive.
    pub end: String,
    /// 0: the current revision.
    pub revision: u64,
    /// At most so many entries; 0: all.
    pub limit: usize,
    /// Entries are left out of the answer, only `count` is filled in.
    pub count_only: bool,
}

impl RangeRequest {
    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        Self { start: prefix.to_owned(), end: prefix_end(prefix), revision: 0, limit: 0, count_only: false }
    }

    /// The rest of the range, from `start` on.
    pub fn starting_at(self, start: &str) -> Self {
        Self { start: start.to_owned(), ..self }
    }

    /// As the store was at `revision`.
    pub fn at(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    pub fn count_only(self) -> Self {
        Self { count_only: true, ..self }
    }
}

/// The smallest key after all keys that begin with `prefix`, which must end in an ASCII character.
pub fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix is not empty") += 1;
    String::from_utf8(end).expect("a prefix ends in an ASCII character below DEL")
}

/// The answer to `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub entries: Vec<Entry>,
    /// Keys of the range were left out because of the limit.
    pub more: bool,
    /// Keys in the whole range, whatever the limit.
    pub count: u64,
    /// The store's revision when it answered; the entries are those of the revision asked for.
    pub revision: u64,
}

/// A compare-and-swap on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: Key,
    /// The `mod_revision` that the key must have; 0: the key must not exist.
    pub expected: u64,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// With a time to live the key is deleted once that has passed since this write. A later write replaces
    /// the time to live too: without one the key stays.
    Put {
        value: Bytes,
        ttl: Option<Duration>,
    },
    Delete,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write is durable and has this revision; `previous` is what it replaced or deleted.
    Written { revision: u64, previous: Option<Entry> },
    /// Nothing was written: the key was not at the expected revision, but is this, or does not exist.
    Refused(Option<Entry>),
}

/// One key changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: u64,
    pub key: Key,
    /// None: the key was deleted.
    pub current: Option<Entry>,
    /// What the key held before; None if it was created, or if the engine has compacted it away meanwhile.
    pub previous: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

impl Event {
    pub fn kind(&self) -> EventKind {
        if self.current.is_some() { EventKind::Put } else { EventKind::Delete }
    }
}

/// What a watch yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// Never empty, in order of revision; events of one revision are never split over two batches.
    Events(Vec<Arc<Event>>),
    /// Every event up to and including this revision has been delivered.
    Progress(u64),
}

/// An error is the last item. After `Unavailable`, or an end without error, watch again after the last revision seen.
pub type Watch = BoxStream<'static, Result<WatchItem, Error>>;

/// Why the store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The history asked for is gone; the oldest revision that can still be read is `compacted`.
    #[error("required revision {requested} has been compacted, the oldest is {compacted}")]
    Compacted { requested: u64, compacted: u64 },
    #[error("required revision {requested} is a future revision, the store is at {current}")]
    FutureRevision { requested: u64, current: u64 },
    /// The connection or the answer was lost. A write may or may not have happened: read before trying again.
    #[error("the store did not answer: {0}")]
    Unavailable(String),
    /// The same after a long wait.
    #[error("the store did not answer: {0}")]
    TimedOut(String),
    /// The store does not want this write: it is too large, or there is no space left. Nothing was written.
    #[error("{0}")]
    Rejected(String),
    /// The engine has stopped for good (a sync failed, or it was closed): the process has to end.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}

/// # The ordering contract
///
/// Written for etcd; every engine keeps it and the behaviour suite checks it.
///
/// 1. **One counter.** Revisions are the whole store's, whatever the key. Each successful write takes the next
///    one; a refused write takes none; an expiry is a delete and takes one. There is no gap and no reuse, also
///    across restarts. A new store is at revision 1, so that no revision is ever 0 and 0 can mean "any".
///    (An engine shared with others may let several keys change in one revision, or skip revisions; nothing
///    above may rely on a gapless sequence *below one prefix*.)
/// 2. **Compare-and-swap on one key.** A write happens if and only if the key's `mod_revision` is the expected
///    one, 0 meaning absence, in the total order of revisions. `Refused` carries a state that did hold at or
///    after the time of the call.
/// 3. **Durable before visible.** Nothing can be observed (by `get`, `range`, `watch`, `current_revision`, a
///    refusal, or the writer's own answer) before it would survive a power loss.
/// 4. **Linearisable.** A read with revision 0 that starts after a write was answered sees that write. The
///    `revision` of an answer is one at which the answer was true.
/// 5. **A watch** `after` revision R under a prefix yields every event with a revision above R under that prefix,
///    exactly once, in order of revision, history and live events alike, and ends only with an error, by being
///    dropped, or by being cut. A watch that is not read does not delay writers or other watches: it may be cut.
/// 6. **Progress(P)** comes after every event up to P and promises that no other event up to P will follow.
///    Where `reports_progress`, it is sent soon after `request_progress`; P is then at least what `current_revision`
///    answered before. Elsewhere it comes when the engine likes, or never.
/// 7. **Compaction.** After `compact(C)`, reads at revisions below C and watches after revisions below C fail with
///    `Compacted`; C itself can be read and watched from. Engines compact by themselves (see [`HISTORY_S`]).
///    Current entries are never compacted.
/// 8. **The future.** A read at a revision above the current one fails with `FutureRevision`. A watch after a future
///    revision waits: it yields nothing until that revision has passed.
/// 9. **Lost answers.** An error from a write says nothing about whether it happened.
/// 10. **Stopping.** An engine that cannot promise durability any more stops: every call fails with `Stopped`, every
///     watch ends with it, and `stopped` resolves. The process has to end.
#[async_trait]
pub trait Storage: Send + Sync + std::fmt::Debug + 'static {
    async fn get(&self, key: &str) -> Result<Read, Error>;

    async fn range(&self, request: RangeRequest) -> Result<Range, Error>;

    /// The one way in which anything changes; `create`, `update` and `delete` are its three uses.
    async fn write(&self, write: Write) -> Result<Outcome, Error>;

    /// Events under `prefix` with revisions above `after`.
    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error>;

    /// The newest revision that is durable and visible.
    async fn current_revision(&self) -> Result<u64, Error>;

    /// Whether `request_progress` is answered. An old etcd's answers cannot be trusted, so whoever has to know that
    /// nothing is missing reads the store instead. May change while an engine runs: a member may be an older one.
    fn reports_progress(&self) -> bool {
        true
    }

    /// Whether other API servers may be at work on the same store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Why it did not answer when it was last asked, if so.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What the store takes on its disk, where it has one that answers.
    async fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Asks that watches under `prefix` report their progress soon. (An engine may tell other watches too.)
    async fn request_progress(&self, prefix: &str) -> Result<(), Error>;

    /// Forgets history below `revision`. Compacting what is compacted already is no error.
    async fn compact(&self, revision: u64) -> Result<(), Error>;

    /// Resolves when the engine has stopped for good; the process then has to end with this as its last line.
    async fn stopped(&self) -> Error;

    /// Makes what was accepted durable, and gives up files and locks. Later calls fail with `Stopped`.
    async fn close(&self);

    /// Writes a key that does not exist; `Refused(Some(entry))` if it does.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected: 0, change: Change::Put { value, ttl } }).await
    }

    /// Replaces the value that `expected` wrote.
    async fn update(&self, key: &str, expected: u64, value: Bytes, ttl: Option<Duration>) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected, change: Change::Put { value, ttl } }).await
    }

    /// Deletes the value that `expected` wrote; `Written::previous` is what was deleted.
    async fn delete(&self, key: &str, expected: u64) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected, change: Change::Delete }).await
    }
}
