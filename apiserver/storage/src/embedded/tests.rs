//! Promises of the embedded engine beyond the contract: recovery, its directory, and how it stops.

mod damage;
mod fragile;
mod group_commit;
mod modes;
mod model;
mod panics;
mod power_loss;

use super::*;
use crate::behaviour::{arrived, text, written};
use bytes::Bytes;
use fragile::Fragile;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

async fn open(env: &Env, root: &Path) -> Result<Arc<Embedded>, String> {
    Embedded::open(env, root).await.map_err(|error| error.to_string().replace(&root.display().to_string(), "DIR"))
}

async fn put(storage: &Embedded, key: &str, value: &str) -> u64 {
    let at = storage.get(key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
    written(storage.update(key, at, Bytes::from(value.to_owned()), None).await.unwrap())
}

async fn everything(storage: &Embedded) -> String {
    text(&storage.range(RangeRequest::prefix("/")).await.unwrap().entries)
}

/// Time limit that turns a hanging test into a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes from several tasks until every one of them is refused, and returns the number of answered writes.
async fn write_until_refused(env: &Env, store: &Arc<Embedded>, writers: usize) -> u64 {
    let write = |writer: usize| {
        let store = store.clone();
        env.spawn(async move {
            let mut answered = 0;
            while store.create(&format!("/{writer}/{answered}"), Bytes::new(), None).await.is_ok() {
                answered += 1;
            }
            answered
        })
    };
    let writing: Vec<_> = (0..writers).map(write).collect();
    let mut answered = 0;
    for writer in writing {
        answered += env.timeout(LIMIT, writer).await.expect("no write waits for ever").unwrap();
    }
    answered
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_opens_as_it_was() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let store = open(&env, directory.path()).await.unwrap();
    put(&store, "/a", "1").await;
    put(&store, "/b", "1").await;
    put(&store, "/a", "2").await;
    store.delete("/b", 3).await.unwrap();
    store.close().await;
    assert_eq!(store.get("/a").await, Err(Error::Stopped("it was closed".to_owned())));
    let again = open(&env, directory.path()).await.unwrap();
    assert_eq!(everything(&again).await, "/a=2 2/4");
    assert_eq!(again.current_revision().await.unwrap(), 5, "a deletion leaves its revision");
    assert_eq!(
        again.watch("/", 4).await.err(),
        Some(Error::Compacted { requested: 4, compacted: 5 }),
        "history is not kept on disk"
    );
    let mut watch = again.watch("/", 5).await.unwrap();
    assert_eq!(put(&again, "/b", "3").await, 6);
    assert_eq!(arrived(&mut watch), ["6 /b - -> 3"]);
}

#[tokio::test(start_paused = true)]
async fn times_to_live_outlast_a_restart() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let store = open(&env, directory.path()).await.unwrap();
    store.create("/short", Bytes::new(), Some(Duration::from_secs(10))).await.unwrap();
    store.create("/long", Bytes::new(), Some(Duration::from_secs(100))).await.unwrap();
    store.close().await;
    env.sleep(Duration::from_secs(20)).await;
    let again = open(&env, directory.path()).await.unwrap();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(everything(&again).await, "/long= 3/3", "what expired meanwhile goes at once");
    env.sleep(Duration::from_secs(80)).await;
    assert_eq!(everything(&again).await, "");
    assert_eq!(again.current_revision().await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn only_one_may_have_it_open() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let store = open(&env, directory.path()).await.unwrap();
    assert_eq!(open(&env, directory.path()).await.unwrap_err(), "DIR: in use by another process");
    store.close().await;
    open(&env, directory.path()).await.unwrap();
}

/// Damages the files of a store with a hundred keys. Returns how opening it fails, after checking that nothing was
/// changed.
async fn spoiled(spoil: impl Fn(&Path)) -> String {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let store = open(&env, directory.path()).await.unwrap();
    for number in 0..100 {
        put(&store, &format!("/{number}"), &"x".repeat(number * 10)).await;
    }
    store.close().await;
    spoil(directory.path());
    let files = || ["format", "store.redb"].map(|name| fs::read(directory.path().join(name)).ok());
    let before = files();
    let error = open(&env, directory.path()).await.unwrap_err();
    assert!(before == files(), "nothing is overwritten after: {error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

#[tokio::test(start_paused = true)]
async fn a_later_format_is_left_alone() {
    let error = spoiled(|root| fs::write(root.join("format"), "2\n").unwrap()).await;
    assert_eq!(error, "DIR/format: written in format 2 by a later version; this one reads up to format 1");
}

#[tokio::test(start_paused = true)]
async fn damage_is_told_in_one_line() {
    let spoil_data = |spoil: fn(&mut Vec<u8>)| {
        move |root: &Path| {
            let path = root.join("store.redb");
            let mut bytes = fs::read(&path).unwrap();
            spoil(&mut bytes);
            fs::write(&path, bytes).unwrap();
        }
    };
    let error = spoiled(|root| fs::write(root.join("format"), "one\n").unwrap()).await;
    assert_eq!(error, "DIR/format: damaged: it is no format number");
    let error = spoiled(|root| fs::remove_file(root.join("format")).unwrap()).await;
    assert!(error.starts_with("DIR: not empty, and not a directory of this program"), "{error}");
    let spoilers: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes[..4].fill(b'?'),
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.truncate(100),
        |bytes| *bytes = b"not a database".to_vec(),
        |bytes| bytes.iter_mut().filter(|byte| **byte == b'x').for_each(|byte| *byte = b'y'),
    ];
    for spoil in spoilers {
        let error = spoiled(spoil_data(spoil)).await;
        assert!(error.starts_with("DIR/store.redb: damaged: "), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_was_cut_short_starts_over() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    fs::write(directory.path().join("format"), "1\n").unwrap();
    fs::write(directory.path().join("store.redb.new"), "half a header").unwrap();
    let store = open(&env, directory.path()).await.unwrap();
    assert_eq!(put(&store, "/a", "1").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_stops_the_engine() {
    let (env, backend) = (Env::simulated(1), Fragile::default());
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    put(&store, "/a", "1").await;
    let mut watch = store.watch("/", 2).await.unwrap();
    backend.fail_after(0);
    let error = store.create("/b", Bytes::new(), None).await.unwrap_err();
    assert_eq!(error.to_string(), "the store has stopped: writing to disk failed: the device is gone");
    assert_eq!(store.stopped().await, error, "the process hears of it");
    assert_eq!(store.get("/a").await, Err(error.clone()));
    assert_eq!(store.create("/c", Bytes::new(), None).await, Err(error.clone()));
    assert_eq!(arrived(&mut watch), [format!("error: {error}"), "end".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn when_space_is_low_there_is_room_for_deletions() {
    let (env, free) = (Env::simulated(1), Arc::new(AtomicU64::new(1 << 30)));
    let occupied = Arc::new(AtomicU64::new(0));
    let (told_free, told_occupied) = (free.clone(), occupied.clone());
    let space = Space::measured_by(
        move || Some(told_free.load(Ordering::Relaxed)),
        move || told_occupied.load(Ordering::Relaxed),
    );
    let store = Embedded::open_with_space(&env, Fragile::default(), space).unwrap();
    put(&store, "/a", "1").await;
    put(&store, "/b", "1").await;
    free.store(space::RESERVE_BYTES, Ordering::Relaxed);
    let full = Error::Rejected(
        "the disk: only deletions are taken: there is room for 16 MiB, and 16 MiB are kept for them".to_owned(),
    );
    assert_eq!(store.create("/c", "1".into(), None).await, Err(full.clone()));
    assert_eq!(store.update("/a", 2, "2".into(), None).await, Err(full));
    assert_eq!(store.current_revision().await, Ok(3), "what was refused takes no revision");
    assert_eq!(written(store.delete("/a", 2).await.unwrap()), 4);
    occupied.store(space::RESERVE_BYTES, Ordering::Relaxed);
    assert_eq!(put(&store, "/b", "2").await, 5, "what the file holds and does not use is room too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_stops_every_waiting_write() {
    let (env, backend) = (Env::system(), Fragile::default());
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    backend.fail_after(40);
    let answered = write_until_refused(&env, &store, 50).await;
    assert!(matches!(store.stopped().await, Error::Stopped(_)));
    store.close().await;
    let again = Embedded::open_backend(&env, backend.after_power_loss(&env.random("loss"))).unwrap();
    assert!(again.current_revision().await.unwrap() > answered, "what was answered is there");
    again.close().await;
}
