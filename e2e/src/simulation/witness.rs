//! `Witness`: wraps the store below all faults, and checks each revision when it is written.

use super::history::{History, Moment};
use super::insight::{ASKED, Insight};
use super::safety::Safety;
use super::verdict::Verdict;
use async_trait::async_trait;
use component_base::env::Env;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use storage::memory::Memory;
use storage::{Error, Outcome, Range, RangeRequest, Read, Storage, Watch, WatchItem, Write};

/// Prefix of everything that Kubernetes stores.
const EVERYTHING: &str = "/registry/";

pub struct Witness {
    env: Env,
    inner: Arc<Memory>,
    insight: Insight,
    seen: Mutex<Seen>,
}

struct Seen {
    stream: Watch,
    history: History,
    safety: Safety,
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

impl Witness {
    pub async fn new(env: &Env, inner: Arc<Memory>, verdict: &Verdict) -> Result<Arc<Self>, Error> {
        let stream = inner.watch(EVERYTHING, inner.current_revision().await?).await?;
        let seen = Seen { stream, history: History::default(), safety: Safety::new(verdict) };
        Ok(Arc::new(Self { env: env.clone(), inner, insight: Insight::default(), seen: Mutex::new(seen) }))
    }

    /// Checks the revisions since the last call. The store publishes a write in the same step, so after a write this finds it.
    fn check_new(&self) {
        let now = self.env.wall();
        // A write whose controller went away goes on in a task without that state.
        let known = ASKED.try_with(Clone::clone).ok();
        let mut seen = self.seen.lock();
        let Seen { stream, history, safety } = &mut *seen;
        while let Some(Some(Ok(item))) = stream.next().now_or_never() {
            let WatchItem::Events(events) = item else { continue };
            for event in events {
                safety.judge(&event, now, known.as_ref());
                history.push(now, &event);
            }
        }
    }

    pub fn insight(&self) -> &Insight {
        &self.insight
    }

    /// Returns the changes after a revision.
    pub fn since(&self, after: u64) -> Vec<Moment> {
        self.check_new();
        self.seen.lock().history.since(after).cloned().collect()
    }

    /// Returns the first revision above `after` of keys below `prefix`.
    pub fn next_revision(&self, prefix: &str, after: u64) -> Option<u64> {
        self.seen.lock().history.revisions(prefix, after).next()
    }

    pub fn timeline(&self, key: &str, lines: usize) -> Vec<(Timestamp, String)> {
        self.check_new();
        self.seen.lock().history.timeline(key, lines)
    }

    /// Returns the whole present store.
    pub async fn everything(&self) -> Range {
        self.inner.range(RangeRequest::prefix(EVERYTHING)).await.expect("a memory store answers")
    }
}

#[async_trait]
impl Storage for Witness {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        self.inner.get(key).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        self.inner.range(request).await
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        let outcome = self.inner.write(write).await;
        self.check_new();
        outcome
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        self.inner.watch(prefix, after).await
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        self.inner.current_revision().await
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.inner.request_progress(prefix).await
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn stopped(&self) -> Error {
        self.inner.stopped().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
