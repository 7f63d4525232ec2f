//! `Member`: one etcd server as this engine talks to it, in the words of etcd's own API.
//!
//! Corresponds to etcd's api/etcdserverpb/rpc.proto, as much of it as is needed. The seam for tests: a real member
//! is reached through gRPC, a modelled one lives in memory and misbehaves on demand.

use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub cluster: u64,
    /// The store's revision when the request was applied.
    pub revision: u64,
}

/// What a member tells of itself, without asking the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub cluster: u64,
    pub version: String,
    /// What its database takes on its disk.
    pub size_bytes: u64,
}

/// Keys are bytes here: a foreign one need not be text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Bytes,
    pub create_revision: u64,
    pub mod_revision: u64,
    /// Writes since the creation, which is the first.
    pub version: u64,
}

/// A linearisable read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery {
    pub start: Vec<u8>,
    /// Exclusive; empty: `start` alone.
    pub end: Vec<u8>,
    /// 0: the current one.
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

/// One transaction: if the key is as expected, change it; if not, read it.
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
    /// What was replaced or deleted; if it did not succeed, what the key holds.
    pub key_value: Option<KeyValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchQuery {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    /// The first revision whose events are wanted.
    pub from: u64,
}

/// One message of a watch. With neither events nor an end it is progress: all events up to the header's revision
/// have been sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchMessage {
    pub cluster: u64,
    pub revision: u64,
    pub created: bool,
    /// Why the member ended the watch.
    pub canceled: Option<String>,
    /// Not 0: the watch began below this revision, and history is gone up to it.
    pub compacted: u64,
    /// The answer to a progress request, in contrast to progress that the member reports on its own.
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

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not reached, so nothing has happened.
    Unreachable(String),
    /// It said that it cannot now (there is no leader), so nothing has happened.
    NotNow(String),
    /// The answer did not come. What was asked may have happened.
    Lost(String),
    /// The same: it was waited for as long as a call may take.
    TimedOut(String),
    /// Asked for a revision that is compacted.
    Compacted,
    /// Asked for a revision that has not come yet.
    Future,
    /// The lease that a write names is gone; nothing was written.
    NoLease,
    /// It does not want to, and nothing has happened: no space left, too large, not allowed.
    Rejected(String),
}

impl Failure {
    /// Names the member in what may be anybody's fault.
    pub fn of(self, url: &str) -> Self {
        let named = |why: String| if why.contains(url) { why } else { format!("etcd at {url}: {why}") };
        match self {
            Self::Unreachable(why) => Self::Unreachable(named(why)),
            Self::NotNow(why) => Self::NotNow(named(why)),
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
            | Self::NotNow(why)
            | Self::Lost(why)
            | Self::TimedOut(why)
            | Self::Rejected(why) => why,
            Self::Compacted => "the revision is compacted",
            Self::Future => "the revision has not come yet",
            Self::NoLease => "the lease is gone",
        })
    }
}

/// None of the calls has a time limit of its own.
#[async_trait]
pub trait Member: Send + Sync + fmt::Debug {
    /// Its client URL.
    fn url(&self) -> &str;

    async fn status(&self) -> Result<Status, Failure>;

    async fn range(&self, query: RangeQuery) -> Result<Ranged, Failure>;

    async fn swap(&self, swap: Swap) -> Result<Swapped, Failure>;

    async fn compact(&self, revision: u64) -> Result<Header, Failure>;

    /// The new lease's id.
    async fn grant_lease(&self, ttl_s: u64) -> Result<i64, Failure>;

    /// With previous values, and with the progress that the member reports on its own. Answers before the member does.
    async fn watch(&self, query: WatchQuery) -> Result<Box<dyn WatchMessages>, Failure>;
}

/// A watch at work; dropping it cancels it.
#[async_trait]
pub trait WatchMessages: Send {
    /// None: the member ended the stream. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<WatchMessage>, Failure>;

    async fn request_progress(&mut self) -> Result<(), Failure>;
}
