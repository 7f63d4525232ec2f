//! The behaviour suite of `Storage`: tests each promise of the contract on every engine.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/testing/store_tests.go. Time is virtual, except with the writer thread
//! and with a real etcd.

mod faults;
mod reads;
mod watches;
mod writes;

use super::embedded::Embedded;
use super::etcd::Etcd;
use super::etcd::grpc::EtcdTls;
use super::etcd::testing as etcd_tests;
use super::fault::Fault;
use super::memory::Memory;
use super::*;
use crate::etcd::testing::model;
use component_base::env::Env;
use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use component_base_testing::test_needs;
use futures::{FutureExt, StreamExt};
use redb::backends::InMemoryBackend;
use tempfile::TempDir;

/// An empty engine under test.
pub(super) struct Bench {
    pub env: Env,
    pub storage: Arc<dyn Storage>,
    /// Dropped before the directory in which they work.
    _processes: Option<EtcdProcess>,
    _directory: Option<TempDir>,
}

/// Longest time that a real engine may take to deliver an event. Only a failing test waits that long.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl Bench {
    pub async fn memory() -> Self {
        let env = Env::simulated(1);
        Self { storage: Memory::new(&env), env, _processes: None, _directory: None }
    }

    /// The embedded engine on a disk that takes no time.
    pub async fn embedded() -> Self {
        let env = Env::simulated(1);
        let storage = Embedded::open_backend(&env, InMemoryBackend::new()).unwrap();
        Self { storage, env, _processes: None, _directory: None }
    }

    /// The embedded engine as in a real process: a disk, a writer thread, commits of many writes, the wall clock.
    pub async fn threaded() -> Self {
        let env = Env::system();
        let directory = tempfile::tempdir().unwrap();
        let storage = Embedded::open(&env, directory.path()).await.unwrap();
        Self { storage, env, _processes: None, _directory: Some(directory) }
    }

    /// A modelled etcd of the given version.
    pub async fn modelled_etcd(version: &str) -> Self {
        let env = Env::simulated(1);
        let members = model::Model::new(&env, 1).members(3, version);
        let storage = etcd_tests::over(&env, &members).await.unwrap();
        Self { storage, env, _processes: None, _directory: None }
    }

    /// A real etcd with `members` members; `None`, and the test recorded as skipped, if etcd is not installed.
    pub async fn etcd(members: usize) -> Option<Self> {
        if !test_needs::etcd() {
            return None;
        }
        let env = Env::system();
        let directory = tempfile::tempdir().unwrap();
        let processes = EtcdProcess::start(directory.path(), &EtcdOptions { members, ..EtcdOptions::default() });
        let options = etcd_tests::options(processes.urls());
        let storage = Etcd::open(&env, &options, &EtcdTls::default()).await.unwrap();
        Some(Self { storage, env, _processes: Some(processes), _directory: Some(directory) })
    }

    /// A real etcd with reliable progress; `None`, and the test recorded as skipped, if it is not installed.
    pub async fn newer_etcd() -> Option<Self> {
        let program = test_needs::newer_etcd()?;
        let env = Env::system();
        let directory = tempfile::tempdir().unwrap();
        let processes = EtcdProcess::start_program(&program, directory.path(), &EtcdOptions::default());
        let options = etcd_tests::options(processes.urls());
        let storage = Etcd::open(&env, &options, &EtcdTls::default()).await.unwrap();
        assert!(storage.reports_progress(), "$ETCD_NEWER is too old");
        Some(Self { storage, env, _processes: Some(processes), _directory: Some(directory) })
    }

    /// Wraps the engine in the fault engine, with faults off.
    pub fn faultless(self) -> Self {
        Self { storage: Fault::new(&self.env, self.storage.clone()), ..self }
    }

    /// Writes the key whatever it holds, and returns the revision.
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

    /// Lists all entries below `prefix` at a revision (0: now).
    pub async fn list(&self, prefix: &str, revision: u64) -> Result<String, Error> {
        Ok(text(&self.storage.range(RangeRequest::prefix(prefix).at(revision)).await?.entries))
    }

    pub async fn revision(&self) -> u64 {
        self.storage.current_revision().await.unwrap()
    }

    /// Checks that a watch delivers these lines and, as far as can be seen without waiting, nothing else.
    pub async fn expect(&self, watch: &mut Watch, expected: &[impl AsRef<str>]) {
        let mut lines = Vec::new();
        while lines.len() < expected.len() {
            match self.env.timeout(LONGEST_WAIT, watch.next()).await {
                Ok(item) => lines.extend(item_lines(item)),
                Err(_) => break,
            }
        }
        if self.env.is_simulated() {
            // All other tasks finish their work.
            self.env.sleep(Duration::from_millis(1)).await;
        }
        lines.extend(arrived(watch));
        let expected: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
        assert_eq!(lines, expected);
    }

    pub async fn expect_nothing(&self, watch: &mut Watch) {
        self.expect(watch, &[""; 0]).await;
    }
}

pub(super) fn written(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Written { revision, .. } => revision,
        Outcome::Refused(current) => panic!("refused: {current:?}"),
    }
}

/// Prints entries as `key=value created/modified`, separated by commas.
pub(super) fn text(entries: &[Entry]) -> String {
    let one = |entry: &Entry| {
        let value = String::from_utf8_lossy(&entry.value).into_owned();
        format!("{}={value} {}/{}", entry.key, entry.create_revision, entry.mod_revision)
    };
    entries.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns what has arrived at a watch, without waiting for more: one line per event.
pub(super) fn arrived(watch: &mut Watch) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = watch.next().now_or_never() {
        let is_end = item.is_none();
        lines.extend(item_lines(item));
        if is_end {
            break;
        }
    }
    lines
}

fn item_lines(item: Option<Result<WatchItem, Error>>) -> Vec<String> {
    match item {
        Some(Ok(WatchItem::Events(events))) => events.iter().map(|event| event_line(event)).collect(),
        Some(Ok(WatchItem::Progress(revision))) => vec![format!("progress {revision}")],
        Some(Err(error)) => vec![format!("error: {error}")],
        None => vec!["end".to_owned()],
    }
}

pub(super) fn event_line(event: &Event) -> String {
    let value = |entry: &Option<Entry>| {
        entry.as_ref().map_or("-".to_owned(), |entry| String::from_utf8_lossy(&entry.value).into_owned())
    };
    format!("{} {} {} -> {}", event.revision, event.key, value(&event.previous), value(&event.current))
}

/// Runs each case on each engine, as tests named after both. Cases about time run only in virtual time.
macro_rules! on_every_engine {
    ($($case:ident),+ ; $($timed:ident),* $(,)?) => {
        $crate::behaviour::in_virtual_time!(memory, Bench::memory().await, $($case,)+ $($timed,)*);
        $crate::behaviour::in_virtual_time!(embedded, Bench::embedded().await, $($case,)+ $($timed,)*);
        $crate::behaviour::in_virtual_time!(modelled_etcd, Bench::modelled_etcd(model::NEW).await, $($case,)+ $($timed,)*);
        $crate::behaviour::in_virtual_time!(modelled_old_etcd, Bench::modelled_etcd(model::OLD).await, $($case,)+ $($timed,)*);
        $crate::behaviour::in_virtual_time!(memory_under_fault, Bench::memory().await.faultless(), $($case,)+ $($timed,)*);
        $crate::behaviour::in_virtual_time!(embedded_under_fault, Bench::embedded().await.faultless(), $($case,)+ $($timed,)*);
        $crate::behaviour::in_real_time!(embedded_with_its_thread, Some(Bench::threaded().await), $($case,)+);
        $crate::behaviour::in_real_time!(etcd, Bench::etcd(1).await, $($case,)+);
        $crate::behaviour::in_real_time!(etcd_under_fault, Bench::etcd(1).await.map(Bench::faultless), $($case,)+);
        $crate::behaviour::in_real_time!(etcd_of_three, Bench::etcd(3).await, $($case,)+);
        $crate::behaviour::in_real_time!(newer_etcd, Bench::newer_etcd().await, $($case,)+);
    };
}
macro_rules! in_virtual_time {
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
macro_rules! in_real_time {
    ($engine:ident, $bench:expr, $($case:ident,)+) => {
        mod $engine {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(bench) = $bench else { return };
                super::$case(&bench).await;
                bench.storage.close().await;
            })+
        }
    };
}
use {in_real_time, in_virtual_time, on_every_engine};
