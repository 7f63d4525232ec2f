//! Consistent reads over a real etcd: from the cache if its members' progress is reliable, otherwise from the store.
//!
//! Corresponds to the feature ConsistentListFromCache of kube-apiserver.

use super::*;
use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use component_base_testing::test_needs;
use futures::future::join;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::etcd::Etcd;
use storage::etcd::grpc::EtcdTls;
use storage::etcd::testing as etcd_tests;
use storage::metered::Metered;

/// Number of objects that are written, each followed by a write of another row.
const WRITES: usize = 40;

/// The cache of pods over an etcd, with its calls counted.
async fn over(processes: &EtcdProcess) -> Bench {
    let env = Env::system();
    let etcd = Etcd::open(&env, &etcd_tests::options(processes.urls()), &EtcdTls::default()).await.unwrap();
    let row = (PREFIX.to_owned(), (String::new(), "pods".to_owned()));
    let storage = Metered::new(&env, etcd, std::iter::once(row));
    Bench::over(env, storage).await
}

/// Returns how often the whole row was read from the store.
fn lists(bench: &Bench) -> usize {
    let metrics = bench.env.metrics().encode();
    let of_row = r#"etcd_requests_total{group="",operation="list",resource="pods"} "#;
    metrics.lines().find_map(|line| line.strip_prefix(of_row)?.parse().ok()).unwrap_or(0)
}

/// Reads objects just after their write, and again when only another row has changed, while other readers never pause.
async fn nothing_written_is_missed(bench: &Bench) {
    let done = AtomicBool::new(false);
    let write = async {
        for number in 1..=WRITES {
            let written = bench.set(&format!("x/{number:02}"), Some("red")).await;
            let read = bench.cacher.read(Freshness::Latest).await.unwrap();
            assert_eq!(names(&read).split(' ').count(), number, "after revision {written}: {}", names(&read));
            let elsewhere = bench.set_elsewhere().await;
            let read = bench.cacher.read(Freshness::Latest).await.unwrap();
            assert!(read.revision >= elsewhere, "{} after {elsewhere}", read.revision);
        }
        done.store(true, Ordering::Relaxed);
    };
    let read = async {
        let mut last = 0;
        while !done.load(Ordering::Relaxed) {
            let revision = bench.storage.current_revision().await.unwrap();
            let read = bench.cacher.read(Freshness::Latest).await.unwrap();
            assert!(read.revision >= revision.max(last), "{} after {revision} and {last}", read.revision);
            last = read.revision;
        }
    };
    join(write, read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_etcd_keeps_the_cache_fresh_enough_for_consistent_reads() {
    let Some(program) = test_needs::newer_etcd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let three = EtcdOptions { members: 3, ..EtcdOptions::default() };
    let processes = EtcdProcess::start_program(&program, directory.path(), &three);
    let bench = over(&processes).await;
    assert!(bench.storage.reports_progress());
    let before = lists(&bench);
    nothing_written_is_missed(&bench).await;
    assert_eq!(lists(&bench), before, "the cache answered every read");
}

/// The etcd in PATH may be one without reliable progress, such as Debian 12's 3.4.23.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_etcd_is_read_itself() {
    if !test_needs::etcd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let processes = EtcdProcess::start(directory.path(), &EtcdOptions::default());
    let bench = over(&processes).await;
    let before = lists(&bench);
    nothing_written_is_missed(&bench).await;
    let listed = lists(&bench) - before;
    // A change of another row reaches this cache only as progress.
    if bench.storage.reports_progress() {
        assert_eq!(listed, 0);
    } else {
        assert!(listed >= WRITES, "{listed} reads of the store");
    }
}
