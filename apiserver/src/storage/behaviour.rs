//! The behaviour suite of `Storage`: the contract, promise by promise, run on every engine.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/testing/store_tests.go. Everything here runs in virtual time.

mod reads;
mod watches;
mod writes;

use super::embedded::Embedded;
use super::fault::Fault;
use super::memory::Memory;
use super::*;
use component_base::env::Env;
use futures::{FutureExt, StreamExt};
use tempfile::TempDir;

/// An engine to be tested, empty.
pub(super) struct Bench {
    pub env: Env,
    pub storage: Arc<dyn Storage>,
    _directory: Option<TempDir>,
}

impl Bench {
    pub async fn memory() -> Self {
        let env = Env::simulated(1);
        Self { storage: Memory::new(&env), env, _directory: None }
    }

    pub async fn embedded() -> Self {
        let env = Env::simulated(1);
        let directory = tempfile::tempdir().unwrap();
        let storage = Embedded::open(&env, directory.path()).await.unwrap();
        Self { storage, env, _directory: Some(directory) }
    }

    /// As in a real process: a writer thread, commits of many writes, the wall clock.
    pub async fn threaded() -> Self {
        let env = Env::system();
        let directory = tempfile::tempdir().unwrap();
        let storage = Embedded::open(&env, directory.path()).await.unwrap();
        Self { storage, env, _directory: Some(directory) }
    }

    /// The same engine under the fault engine, with faults off.
    pub fn faultless(self) -> Self {
        Self { storage: Fault::new(&self.env, self.storage.clone()), ..self }
    }

    /// Writes the key whatever it holds; the revision.
    pub async fn put(&self, key: &str, value: &str) -> u64 {
        self.put_for(key, value, None).await
    }

    pub async fn put_for(&self, key: &str, value: &str, ttl: Option<Duration>) -> u64 {
        let expected = self.at(key).await;
        written(self.storage.update(key, expected, Bytes::from(value.to_owned()), ttl).await.unwrap())
    }

    pub async fn remove(&self, key: &str) -> u64 {
        let expected = self.at(key).await;
        written(self.storage.delete(key, expected).await.unwrap())
    }

    async fn at(&self, key: &str) -> u64 {
        self.storage.get(key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision)
    }

    /// Everything below `prefix` at a revision (0: now).
    pub async fn list(&self, prefix: &str, revision: u64) -> Result<String, Error> {
        Ok(text(&self.storage.range(RangeRequest::prefix(prefix).at(revision)).await?.entries))
    }

    pub async fn revision(&self) -> u64 {
        self.storage.current_revision().await.unwrap()
    }
}

pub(super) fn written(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Written { revision, .. } => revision,
        Outcome::Refused(current) => panic!("refused: {current:?}"),
    }
}

/// `key=value created/modified`, one after the other.
pub(super) fn text(entries: &[Entry]) -> String {
    let one = |entry: &Entry| {
        let value = String::from_utf8_lossy(&entry.value).into_owned();
        format!("{}={value} {}/{}", entry.key, entry.create_revision, entry.mod_revision)
    };
    entries.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What has arrived at a watch, without waiting for more: one line per event.
pub(super) fn arrived(watch: &mut Watch) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = watch.next().now_or_never() {
        match item {
            Some(Ok(WatchItem::Events(events))) => lines.extend(events.iter().map(|event| event_line(event))),
            Some(Ok(WatchItem::Progress(revision))) => lines.push(format!("progress {revision}")),
            Some(Err(error)) => lines.push(format!("error: {error}")),
            None => {
                lines.push("end".to_owned());
                break;
            }
        }
    }
    lines
}

pub(super) fn event_line(event: &Event) -> String {
    let value = |entry: &Option<Entry>| {
        entry.as_ref().map_or("-".to_owned(), |entry| String::from_utf8_lossy(&entry.value).into_owned())
    };
    format!("{} {} {} -> {}", event.revision, event.key, value(&event.previous), value(&event.current))
}

/// Runs each case on each engine, as tests named after both; cases about time only where that is virtual.
macro_rules! on_every_engine {
    ($($case:ident),+ ; $($timed:ident),* $(,)?) => {
        $crate::storage::behaviour::on_engine!(memory, Bench::memory().await, $($case,)+ $($timed,)*);
        $crate::storage::behaviour::on_engine!(embedded, Bench::embedded().await, $($case,)+ $($timed,)*);
        $crate::storage::behaviour::on_engine!(memory_under_fault, Bench::memory().await.faultless(), $($case,)+ $($timed,)*);
        $crate::storage::behaviour::on_engine!(embedded_under_fault, Bench::embedded().await.faultless(), $($case,)+ $($timed,)*);
        mod embedded_with_its_thread {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let bench = Bench::threaded().await;
                super::$case(&bench).await;
                bench.storage.close().await;
            })+
        }
    };
}
macro_rules! on_engine {
    ($engine:ident, $bench:expr, $($case:ident,)+) => {
        mod $engine {
            use super::*;
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::$case(&$bench).await;
            })+
        }
    };
}
use {on_engine, on_every_engine};
