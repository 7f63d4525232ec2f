//! `CheckedStore`: wraps the memory store, below all faults, and checks each revision when it is written.

use super::controller_caches::{ControllerCaches, REQUESTER};
use super::history::{History, TimedEvent};
use super::safety::Safety;
use super::violations::Violations;
use async_trait::async_trait;
use component_base::env::Env;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use parking_lot::Mutex;
use simulated_cloud::running::RunningCloud;
use std::sync::Arc;
use storage::memory::Memory;
use storage::{Error, Outcome, Range, RangeRequest, Read, Storage, Watch, WatchItem, Write};

/// Prefix of everything that Kubernetes stores.
const EVERYTHING: &str = "/registry/";

pub struct CheckedStore {
    env: Env,
    inner: Arc<Memory>,
    caches: ControllerCaches,
    checked: Mutex<Checked>,
}

/// The revisions that were checked so far, and the state of the checks.
struct Checked {
    stream: Watch,
    history: History,
    safety: Safety,
}

impl std::fmt::Debug for CheckedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedStore").finish_non_exhaustive()
    }
}

impl CheckedStore {
    pub async fn new(
        env: &Env,
        inner: Arc<Memory>,
        violations: &Violations,
        cloud: Option<&RunningCloud>,
    ) -> Result<Arc<Self>, Error> {
        let stream = inner.watch(EVERYTHING, inner.current_revision().await?).await?;
        let checked = Checked { stream, history: History::default(), safety: Safety::new(violations, cloud) };
        Ok(Arc::new(Self {
            env: env.clone(),
            inner,
            caches: ControllerCaches::default(),
            checked: Mutex::new(checked),
        }))
    }

    /// Checks the revisions since the last call. The store publishes a write at once, so a call after a write checks
    /// it.
    fn check_new(&self) {
        let now = self.env.wall();
        // A write of another client has no such state, nor has a write that goes on after its controller went away.
        let writer = REQUESTER.try_with(Clone::clone).ok();
        let mut checked = self.checked.lock();
        let Checked { stream, history, safety } = &mut *checked;
        while let Some(Some(Ok(item))) = stream.next().now_or_never() {
            let WatchItem::Events(events) = item else { continue };
            for event in events {
                safety.check(&event, now, writer.as_ref());
                history.push(now, &event);
            }
        }
    }

    pub fn caches(&self) -> &ControllerCaches {
        &self.caches
    }

    /// Returns the changes after a revision.
    pub fn since(&self, after: u64) -> Vec<TimedEvent> {
        self.check_new();
        self.checked.lock().history.since(after).cloned().collect()
    }

    /// Returns the first revision after `after` whose key has the prefix.
    pub fn next_revision(&self, prefix: &str, after: u64) -> Option<u64> {
        self.checked.lock().history.revisions(prefix, after).next()
    }

    pub fn timeline(&self, key: &str, lines: usize) -> Vec<(Timestamp, String)> {
        self.check_new();
        self.checked.lock().history.timeline(key, lines)
    }

    /// Returns the whole present content of the store.
    pub async fn snapshot(&self) -> Range {
        self.inner.range(RangeRequest::prefix(EVERYTHING)).await.expect("a memory store answers")
    }
}

#[async_trait]
impl Storage for CheckedStore {
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
