//! The store: revisioned bytes under ordered keys. It is the only ground state of the cluster.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/interfaces.go, as narrow as etcd's own model allows. Objects, selectors
//! and `resourceVersion` belong to the registry and the cacher above.
//!
//! Reading order: this file (the trait [`Storage`] and its contract); `mvcc`, `watchers` and `expiry` (keys with their
//! history, open watches, times to live); the three engines, which are [`memory`] (for simulations and tests, and the
//! model that the others are checked against), [`embedded`] (durable on one disk) and [`etcd`] (shared by several API
//! servers); [`metered`] and [`fault`], which wrap any engine; `behaviour`, the test suite that runs on all of them.

mod mvcc;
mod watchers;
mod expiry;
pub mod memory;
pub mod embedded;
pub mod etcd;
pub mod metered;
pub mod fault;
#[cfg(test)]
mod behaviour;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;

/// How long the embedded and memory engines keep history: as long as an API server keeps it in etcd.
pub const HISTORY_S: u64 = 300;

/// Returns the time at which the kept history begins.
fn keep_from_ms(now_ms: i64) -> i64 {
    now_ms - HISTORY_S as i64 * 1000
}

/// A key is a path: `/registry/<prefix>/<namespace>/<name>`. It is shared, because every event and entry holds one.
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

/// The answer to `get`: the entry of the key when the store was at `revision`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub entry: Option<Entry>,
    pub revision: u64,
}

/// The keys to read: `start <= key < end`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    pub start: String,
    /// Exclusive.
    pub end: String,
    /// 0: the current revision.
    pub revision: u64,
    /// The largest number of entries to return; 0: all.
    pub limit: usize,
    /// Return `count` alone, without entries.
    pub count_only: bool,
}

impl RangeRequest {
    /// Selects every key that begins with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        Self { start: prefix.to_owned(), end: prefix_end(prefix), revision: 0, limit: 0, count_only: false }
    }

    /// Selects the rest of the range, from `start` on.
    pub fn starting_at(self, start: &str) -> Self {
        Self { start: start.to_owned(), ..self }
    }

    /// Reads the state of the store at `revision`.
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

/// Returns the smallest key after all keys that begin with `prefix`, which must end in an ASCII character.
pub fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix is not empty") += 1;
    String::from_utf8(end).expect("a prefix ends in an ASCII character below DEL")
}

/// The answer to `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub entries: Vec<Entry>,
    /// The limit left out some keys of the range.
    pub more: bool,
    /// Number of keys in the whole range, whatever the limit.
    pub count: u64,
    /// The store's revision when it answered. The entries are those of the requested revision.
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
    /// A key with a time to live is deleted when that time has passed since this write. A later write also replaces
    /// the time to live: without one the key stays.
    Put {
        value: Bytes,
        ttl: Option<Duration>,
    },
    Delete,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write is durable and has this revision; `previous` is the entry that it replaced or deleted.
    Written { revision: u64, previous: Option<Entry> },
    /// Nothing was written, because the key was not at the expected revision. It holds this entry, or does not exist.
    Refused(Option<Entry>),
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: u64,
    pub key: Key,
    /// None: the key was deleted.
    pub current: Option<Entry>,
    /// The entry before the change. None: the key was created, or the engine has compacted that entry.
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

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// Never empty, in order of revision; events of one revision are never split over two batches.
    Events(Vec<Arc<Event>>),
    /// Every event up to and including this revision has been delivered.
    Progress(u64),
}

/// A watch stream. An error is its last item. After `Unavailable`, or an end without an error, start a new watch after
/// the last revision seen.
pub type Watch = BoxStream<'static, Result<WatchItem, Error>>;

/// The reasons for which a call of the store fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The requested history is gone; the oldest revision that can still be read is `compacted`.
    #[error("required revision {requested} has been compacted, the oldest is {compacted}")]
    Compacted { requested: u64, compacted: u64 },
    #[error("required revision {requested} is a future revision, the store is at {current}")]
    FutureRevision { requested: u64, current: u64 },
    /// The connection or the answer was lost. A write may or may not have happened: read the key before trying again.
    #[error("the store did not answer: {0}")]
    Unavailable(String),
    /// As `Unavailable`, after a long wait.
    #[error("the store did not answer: {0}")]
    TimedOut(String),
    /// The store does not accept this write: it is too large, or no space is left. Nothing was written.
    #[error("{0}")]
    Rejected(String),
    /// The engine has stopped for good (a sync failed, or it was closed): the process has to end.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}

/// The interface of every engine.
///
/// # The ordering contract
///
/// It is written for etcd. Every engine keeps it, and the behaviour suite checks it.
///
/// 1. **One counter.** Revisions belong to the whole store, whatever the key. Each successful write takes the next
///    revision; a refused write takes none; an expiry is a delete and takes one. There is no gap and no reuse, also
///    across restarts. A new store is at revision 1, so that no revision is ever 0 and 0 can mean "any".
///    (An engine that is shared with others may change several keys in one revision, or skip revisions. Callers
///    must not rely on a gapless sequence *below one prefix*.)
/// 2. **Compare-and-swap on one key.** A write happens if and only if the key's `mod_revision` is the expected
///    one, in the total order of revisions; 0 means that the key is absent. `Refused` carries a state of the key that
///    was true at the time of the call or after it.
/// 3. **Durable before visible.** Nothing can be observed (by `get`, `range`, `watch`, `current_revision`, a
///    refusal, or the writer's own answer) before it would survive a power loss.
/// 4. **Linearisable.** A read with revision 0 that starts after a write was answered sees that write. The
///    `revision` of an answer is one at which the answer was true.
/// 5. **A watch** `after` revision R under a prefix yields every event above R under that prefix exactly once, in
///    order of revision, from history and live alike. It ends only with an error, by being dropped, or by being cut.
///    A watch that is not read does not delay writers or other watches: the engine may cut it.
/// 6. **Progress(P)** comes after every event up to P and promises that no other event up to P will follow.
///    An engine with `reports_progress` sends it soon after `request_progress`, and P is then at least what
///    `current_revision` answered before. Other engines send it at any time, or never.
/// 7. **Compaction.** After `compact(C)`, reads at revisions below C and watches after revisions below C fail with
///    `Compacted`; C itself can be read and watched from. Engines also compact by themselves (see [`HISTORY_S`]).
///    Current entries are never compacted.
/// 8. **The future.** A read at a revision above the current one fails with `FutureRevision`. A watch after a future
///    revision waits: it yields nothing until that revision has passed.
/// 9. **Lost answers.** An error from a write says nothing about whether it happened.
/// 10. **Stopping.** An engine that can no longer promise durability stops: every call fails with `Stopped`, every
///     watch ends with it, and `stopped` resolves. The process has to end.
#[async_trait]
pub trait Storage: Send + Sync + std::fmt::Debug + 'static {
    async fn get(&self, key: &str) -> Result<Read, Error>;

    async fn range(&self, request: RangeRequest) -> Result<Range, Error>;

    /// Changes one key. Nothing else changes the store; `create`, `update` and `delete` are its three uses.
    async fn write(&self, write: Write) -> Result<Outcome, Error>;

    /// Watches the events under `prefix` with revisions above `after`.
    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error>;

    /// Returns the newest revision that is durable and visible.
    async fn current_revision(&self) -> Result<u64, Error>;

    /// Returns whether the engine answers `request_progress` reliably. An old etcd does not, so a caller that must miss
    /// nothing reads the store instead. The result may change while an engine runs, because members can be replaced.
    fn reports_progress(&self) -> bool {
        true
    }

    /// Returns whether other API servers may use the same store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns why the store did not answer the last call, or `None` when it did.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns the size of the store on its disk, or `None` when the engine does not know it.
    async fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Asks that watches under `prefix` report their progress soon. (An engine may send progress to other watches too.)
    async fn request_progress(&self, prefix: &str) -> Result<(), Error>;

    /// Forgets history below `revision`. Compacting again at the same or a lower revision is no error.
    async fn compact(&self, revision: u64) -> Result<(), Error>;

    /// Resolves when the engine has stopped for good. The process then has to end with this error as its last line.
    async fn stopped(&self) -> Error;

    /// Makes accepted writes durable, and releases files and locks. Later calls fail with `Stopped`.
    async fn close(&self);

    /// Writes a key that does not exist; answers `Refused(Some(entry))` if it does.
    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected: 0, change: Change::Put { value, ttl } }).await
    }

    /// Replaces the value that `expected` wrote.
    async fn update(&self, key: &str, expected: u64, value: Bytes, ttl: Option<Duration>) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected, change: Change::Put { value, ttl } }).await
    }

    /// Deletes the value that `expected` wrote; `Written::previous` is the deleted entry.
    async fn delete(&self, key: &str, expected: u64) -> Result<Outcome, Error> {
        self.write(Write { key: key.into(), expected, change: Change::Delete }).await
    }
}
