//! `Member`: one etcd server, and `Connection`: the calls of one connection to it, in the terms of etcd's own API.
//!
//! Corresponds to the needed part of etcd's api/etcdserverpb/rpc.proto. Tests replace it: a real member is reached
//! through gRPC, a modelled one lives in memory and fails on demand.
//!
//! A connection never reconnects, because another server may answer at the same address afterwards. So what its first
//! status says, of which cluster the server is, holds for all its calls.

use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// The cluster and the revision of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub cluster: u64,
    /// The store's revision when the request was applied.
    pub revision: u64,
}

/// A member's report about itself, for which it does not ask the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub cluster: u64,
    pub version: String,
    /// Size of its database on disk.
    pub size_bytes: u64,
}

/// A key with its value. Keys are bytes here: a foreign key need not be text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Bytes,
    pub create_revision: u64,
    pub mod_revision: u64,
    /// Number of writes since the creation, which counts as the first.
    pub version: u64,
}

/// A linearisable read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery {
    pub start: Vec<u8>,
    /// Exclusive; empty: `start` alone.
    pub end: Vec<u8>,
    /// 0: the current revision.
    pub revision: u64,
    /// 0: no limit.
    pub limit: usize,
    pub count_only: bool,
}

impl RangeQuery {
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self { start: key.into(), end: Vec::new(), revision: 0, limit: 0, count_only: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranged {
    pub header: Header,
    pub kvs: Vec<KeyValue>,
    pub more: bool,
    pub count: u64,
}

/// One transaction: changes the key if it is as expected, and reads it otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    pub key: Vec<u8>,
    pub expected: Expected,
    pub change: KeyChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// 0: the key does not exist.
    ModRevision(u64),
    /// 0: the key does not exist.
    Version(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Lease 0: none.
    Put {
        value: Bytes,
        lease: i64,
    },
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swapped {
    pub header: Header,
    pub succeeded: bool,
    /// The entry that was replaced or deleted; if the swap did not succeed, the current entry.
    pub key_value: Option<KeyValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchQuery {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    /// The first revision whose events are sent.
    pub from: u64,
}

/// One message of a watch. A message with neither events nor an end is progress: all events up to the header's
/// revision have been sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchMessage {
    pub cluster: u64,
    pub revision: u64,
    pub created: bool,
    /// Why the member ended the watch.
    pub canceled: Option<String>,
    /// Not 0: the watch began below this revision, and history up to it is gone.
    pub compacted: u64,
    /// This is the answer to a progress request, and not progress that the member reports on its own.
    pub answers_request: bool,
    pub events: Vec<KeyEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// A deletion has an empty value, and the deletion's revision.
    pub key_value: KeyValue,
    pub is_delete: bool,
    pub previous: Option<KeyValue>,
}

/// The reasons for which a call of a member fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The member was not reached, so nothing has happened.
    Unreachable(String),
    /// The member cannot answer at the moment (there is no leader), so nothing has happened.
    TryLater(String),
    /// The answer did not arrive. The call may have been carried out.
    Lost(String),
    /// The answer did not arrive within the time limit. The call may have been carried out.
    TimedOut(String),
    /// The requested revision is compacted.
    Compacted,
    /// The requested revision is in the future.
    Future,
    /// The lease that a write names is gone; nothing was written.
    NoLease,
    /// The member refuses, and nothing has happened: no space left, too large, not allowed.
    Rejected(String),
}

impl Failure {
    /// Names the member in the failures that do not say it themselves.
    pub fn of(self, url: &str) -> Self {
        let named = |why: String| if why.contains(url) { why } else { format!("etcd at {url}: {why}") };
        match self {
            Self::Unreachable(why) => Self::Unreachable(named(why)),
            Self::TryLater(why) => Self::TryLater(named(why)),
            Self::Lost(why) => Self::Lost(named(why)),
            Self::TimedOut(why) => Self::TimedOut(named(why)),
            other => other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable(why)
            | Self::TryLater(why)
            | Self::Lost(why)
            | Self::TimedOut(why)
            | Self::Rejected(why) => why,
            Self::Compacted => "the revision is compacted",
            Self::Future => "the revision has not come yet",
            Self::NoLease => "the lease is gone",
        })
    }
}

/// An etcd server.
#[async_trait]
pub trait Member: Send + Sync + fmt::Debug {
    /// Its client URL.
    fn url(&self) -> &str;

    /// Returns a new connection. It may be made at its first call, which then fails if the server is not reached.
    async fn connect(&self) -> Result<Arc<dyn Connection>, Failure>;
}

/// The calls of an etcd server over one connection. None of them has a time limit of its own. After the connection has
/// broken, calls fail as `Unreachable`.
#[async_trait]
pub trait Connection: Send + Sync {
    async fn status(&self) -> Result<Status, Failure>;

    async fn range(&self, query: RangeQuery) -> Result<Ranged, Failure>;

    async fn swap(&self, swap: Swap) -> Result<Swapped, Failure>;

    async fn compact(&self, revision: u64) -> Result<Header, Failure>;

    /// Returns the id of a new lease.
    async fn grant_lease(&self, ttl_s: u64) -> Result<i64, Failure>;

    /// Watches with previous values, and with progress that the member reports on its own. Returns before the member
    /// answers.
    async fn watch(&self, query: WatchQuery) -> Result<Box<dyn WatchMessages>, Failure>;
}

/// An open watch; dropping it cancels it.
#[async_trait]
pub trait WatchMessages: Send {
    /// Returns the next message; None when the member ended the stream. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<WatchMessage>, Failure>;

    async fn request_progress(&mut self) -> Result<(), Failure>;
}
