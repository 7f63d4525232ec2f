//! The engine over real etcd processes that are killed, restored, filled up and asked for certificates.

use super::*;
use crate::behaviour::{event_line, written};
use crate::{Event, WatchItem};
use component_base::pki::{Authority, Subject};
use component_base_testing::etcd_process::{self, EtcdProcess};
use component_base_testing::test_needs;
use futures::StreamExt;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

struct Bench {
    env: Env,
    processes: EtcdProcess,
    storage: Arc<Etcd>,
    directory: TempDir,
}

impl Bench {
    /// Starts etcd; `None`, and the test recorded as skipped, if etcd is not installed.
    async fn of(members: usize, quota_bytes: u64) -> Option<Self> {
        if !test_needs::etcd() {
            return None;
        }
        let env = Env::system();
        let directory = tempfile::tempdir().unwrap();
        let process_options = etcd_process::EtcdOptions { members, quota_bytes, tls: None };
        let processes = EtcdProcess::start(directory.path(), &process_options);
        let storage = Etcd::open(&env, &options(processes.urls()), &EtcdTls::default()).await.unwrap();
        Some(Self { env, processes, storage, directory })
    }

    /// Writes the key, however long it takes; after a lost answer it reads the key.
    async fn put(&self, key: &str, value: &str) -> u64 {
        let deadline = self.env.now() + Duration::from_secs(60);
        while self.env.now() < deadline {
            let Ok(read) = self.storage.get(key).await else { continue };
            if let Some(entry) = read.entry.as_ref().filter(|entry| entry.value == value) {
                return entry.mod_revision;
            }
            let at = read.entry.map_or(0, |entry| entry.mod_revision);
            if let Ok(outcome) = self.storage.update(key, at, Bytes::from(value.to_owned()), None).await {
                return written(outcome);
            }
        }
        panic!("{key} could not be written for a minute")
    }
}

/// Reads up to and including an event of `last`.
async fn events_until(env: &Env, watch: &mut Watch, last: &str) -> Vec<Arc<Event>> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while events.last().is_none_or(|event| &*event.key != last) {
        let item = env.timeout(Duration::from_secs(60), watch.next()).await.expect("the watch goes on");
        if let Some(Ok(WatchItem::Events(batch))) = item {
            events.extend(batch);
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_ends_in_a_deletion() {
    let Some(bench) = Bench::of(1, 0).await else { return };
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    for key in ["/a", "/b"] {
        bench.storage.create(key, Bytes::new(), Some(Duration::from_millis(900))).await.unwrap();
    }
    let events = events_until(&bench.env, &mut watch, "/b").await;
    assert_eq!(events.len(), 2);
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let Some(Ok(WatchItem::Events(events))) = watch.next().await else { panic!("it ended") };
        gone.extend(events.iter().filter(|event| event.current.is_none()).map(|event| event.key.to_string()));
    }
    gone.sort();
    assert_eq!(gone, ["/a", "/b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_outlives_etcd_being_killed() {
    let Some(mut bench) = Bench::of(1, 0).await else { return };
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    for round in 0..5 {
        for number in 0..10 {
            bench.put(&format!("/{round}/{number}"), "x").await;
        }
        let events = events_until(&bench.env, &mut watch, &format!("/{round}/9")).await;
        let lines: Vec<_> = events.iter().map(|event| event_line(event)).collect();
        assert_eq!(lines.len(), 10, "{lines:?}");
        bench.processes.kill(0);
        bench.processes.restart(0);
        // The watch was cut, so its reader may have seen an error.
        let after = events.last().unwrap().revision;
        watch = bench.storage.watch("/", after).await.unwrap();
    }
    assert_eq!(bench.storage.current_revision().await.unwrap(), 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_of_three_is_not_missed() {
    let Some(mut bench) = Bench::of(3, 0).await else { return };
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    let mut expected = Vec::new();
    for lost in 0..3 {
        for number in 0..5 {
            bench.put(&format!("/{lost}/{number}"), "x").await;
            expected.push(format!("/{lost}/{number}"));
        }
        bench.processes.kill(lost);
        for number in 5..10 {
            bench.put(&format!("/{lost}/{number}"), "x").await;
            expected.push(format!("/{lost}/{number}"));
        }
        bench.processes.restart(lost);
    }
    bench.put("/end", "").await;
    expected.push("/end".to_owned());
    let events = events_until(&bench.env, &mut watch, "/end").await;
    assert_eq!(events.iter().map(|event| event.key.to_string()).collect::<Vec<_>>(), expected);
    let revisions: Vec<u64> = events.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (2..=32).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_told_in_one_line() {
    if !test_needs::etcd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut processes = EtcdProcess::start(directory.path(), &etcd_process::EtcdOptions::default());
    let url = processes.urls().remove(0);
    processes.kill(0);
    let env = Env::system();
    let error = Etcd::open(&env, &options(vec![url.clone()]), &EtcdTls::default()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("etcd does not answer at {url}: ")), "{error}");
    assert!(error.contains("refused") && !error.contains('\n') && error.len() < 150, "{error}");
    let error = Etcd::open(&env, &options(vec!["no url".to_owned()]), &EtcdTls::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "--etcd-servers: \"no url\": invalid URI: invalid uri character");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_takes_deletions_only() {
    let Some(bench) = Bench::of(1, 2 << 20).await else { return };
    let value = Bytes::from(vec![b'x'; 200 << 10]);
    let mut stored = Vec::new();
    let error = loop {
        let key = format!("/{}", stored.len());
        match bench.storage.create(&key, value.clone(), None).await {
            Ok(outcome) => stored.push((key, written(outcome))),
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::Rejected("etcdserver: mvcc: database space exceeded".to_owned()));
    assert!(!stored.is_empty());
    for (key, revision) in &stored {
        assert_eq!(bench.storage.get(key).await.unwrap().entry.unwrap().mod_revision, *revision);
        written(bench.storage.delete(key, *revision).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_too_large_is_refused_in_etcds_words() {
    let Some(bench) = Bench::of(1, 0).await else { return };
    for (size, words) in
        [(1600 << 10, "etcdserver: request is too large"), (3 << 20, "received message larger than max")]
    {
        let error = bench.storage.create("/a", Bytes::from(vec![b'x'; size]), None).await.unwrap_err();
        assert!(matches!(&error, Error::Rejected(why) if why.contains(words)), "{error:?}");
    }
    assert_eq!(bench.storage.get("/a").await.unwrap().entry, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_the_data_stops_the_engine() {
    let Some(mut bench) = Bench::of(1, 0).await else { return };
    bench.put("/a", "1").await;
    bench.processes.kill(0);
    let copy = bench.directory.path().join("copy");
    copy_tree(bench.processes.data_dir(0), &copy);
    bench.processes.restart(0);
    for value in ["2", "3", "4"] {
        bench.put("/a", value).await;
    }
    bench.processes.kill(0);
    fs::remove_dir_all(bench.processes.data_dir(0)).unwrap();
    copy_tree(&copy, bench.processes.data_dir(0));
    bench.processes.restart(0);
    let error = bench.storage.get("/a").await.unwrap_err();
    assert_eq!(error, bench.storage.stopped().await);
    assert!(error.to_string().contains("went back from revision 5 to 2"), "{error}");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_shown_and_looked_at() {
    if !test_needs::etcd() {
        return;
    }
    component_base::tls::install_provider();
    let env = Env::system();
    let directory = tempfile::tempdir().unwrap();
    let files = ["ca", "cert", "key"].map(|name| directory.path().join(name));
    let authority = Authority::load_or_create(&directory.path().join("pki"), env.wall()).unwrap();
    let names = ["127.0.0.1".to_owned()];
    let subject = Subject { common_name: "etcd", organizations: &[], names: &names };
    let serving = authority.issue(&subject, env.wall()).unwrap();
    for (path, pem) in files.iter().zip([&authority.cert_pem, &serving.cert_pem, &serving.key_pem]) {
        fs::write(path, pem).unwrap();
    }
    let process_options =
        etcd_process::EtcdOptions { tls: Some(files.clone()), ..etcd_process::EtcdOptions::default() };
    let processes = EtcdProcess::start(directory.path(), &process_options);
    let [ca, cert, key] = files.map(Some);
    let known =
        EtcdOptions { etcd_cafile: ca.clone(), etcd_certfile: cert, etcd_keyfile: key, ..options(processes.urls()) };
    let storage = Etcd::open(&env, &known, &known.tls().unwrap()).await.unwrap();
    assert_eq!(written(storage.create("/a", Bytes::new(), None).await.unwrap()), 2);
    let unknown = EtcdOptions { etcd_cafile: ca, ..options(processes.urls()) };
    let distrusting = options(processes.urls());
    let (no_certificate, no_trust) = (unknown.tls().unwrap(), EtcdTls::default());
    // Both fail after the time that a server waits for etcd at its start.
    let (unknown, distrusting) =
        tokio::join!(Etcd::open(&env, &unknown, &no_certificate), Etcd::open(&env, &distrusting, &no_trust),);
    let error = unknown.unwrap_err().to_string();
    assert!(error.starts_with("etcd does not answer at https://") && !error.contains('\n'), "{error}");
    let error = distrusting.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
