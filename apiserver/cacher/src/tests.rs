//! The cacher over the memory engine in virtual time, and over real etcds.

mod faults;
mod histories;
mod progress;

use super::*;
use bytes::Bytes;
use std::collections::BTreeMap;
use storage::Outcome;
use storage::memory::Memory;

pub(super) const PREFIX: &str = "/registry/pods/";

/// A store, the cache of its pods, and methods to change and watch them.
pub(super) struct Bench {
    pub env: Env,
    pub storage: Arc<dyn Storage>,
    pub cacher: Cacher,
}

pub(super) fn decoder() -> Decode {
    Arc::new(|entry| {
        let value = serde_json::from_slice(&entry.value).map_err(|error| error.to_string())?;
        Ok(Arc::new(Object::from_value(value, entry.mod_revision, BTreeMap::new())))
    })
}

/// Returns a pod with one label, for the key `ns/name`.
pub(super) fn pod(key: &str, color: &str) -> Bytes {
    let (namespace, name) = key.split_once('/').unwrap();
    let value = serde_json::json!({"metadata": {"name": name, "namespace": namespace, "labels": {"color": color}}});
    Bytes::from(proto::wire::json::to_canonical(&value))
}

impl Bench {
    pub async fn new() -> Self {
        let env = Env::simulated(7);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        Self::over(env, storage).await
    }

    pub async fn over(env: Env, storage: Arc<dyn Storage>) -> Self {
        let cacher = Cacher::new(&env, storage.clone(), PREFIX, decoder());
        assert!(cacher.ready().await);
        Self { env, storage, cacher }
    }

    /// Writes `ns/name` with this color, or deletes it; returns the revision.
    pub async fn set(&self, key: &str, color: Option<&str>) -> u64 {
        let path = format!("{PREFIX}{key}");
        let at = self.storage.get(&path).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
        let written = match color {
            Some(color) => self.storage.update(&path, at, pod(key, color), None).await.unwrap(),
            None => self.storage.delete(&path, at).await.unwrap(),
        };
        let Outcome::Written { revision, .. } = written else { panic!("{key} was {written:?}") };
        revision
    }

    /// Writes a key of another row.
    pub async fn set_elsewhere(&self) -> u64 {
        let key = format!("/registry/nodes/{}", self.storage.current_revision().await.unwrap());
        let written = self.storage.create(&key, Bytes::from_static(b"{}"), None).await.unwrap();
        let Outcome::Written { revision, .. } = written else { panic!("{key} was {written:?}") };
        revision
    }

    pub async fn watch(&self, request: WatchRequest) -> Watcher {
        self.cacher.watch(request).await.unwrap()
    }
}

pub(super) fn colored(color: &str) -> Option<watcher::Predicate> {
    let color = color.to_owned();
    Some(Arc::new(move |object: &Object| object.index.labels.get("color") == Some(&color)))
}

pub(super) fn line(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Changed(change) => {
            let index = &change.object.index;
            let (namespace, name, color) = (&index.namespace, &index.name, &index.labels["color"]);
            format!("{} {namespace}/{name} {color} {}", change.kind, change.object.revision)
        }
        WatchEvent::Bookmark { revision, initial_events_end: true } => format!("BOOKMARK {revision} end"),
        WatchEvent::Bookmark { revision, .. } => format!("BOOKMARK {revision}"),
    }
}

/// Returns the next `count` events, or fewer if the watch ends before.
pub(super) async fn take(watcher: &mut Watcher, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        match watcher.next().await {
            Ok(Some(events)) => lines.extend(events.iter().map(line)),
            Ok(None) => break,
            Err(error) => {
                lines.push(format!("ERROR {error}"));
                break;
            }
        }
    }
    lines
}

fn names(snapshot: &Snapshot) -> String {
    let texts: Vec<_> =
        snapshot.iter().map(|(key, object)| format!("{}@{}", &key[PREFIX.len()..], object.revision)).collect();
    texts.join(" ")
}

#[tokio::test(start_paused = true)]
async fn reads_are_as_fresh_as_asked_for() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    bench.set("x/b", Some("red")).await;
    assert_eq!(names(&bench.cacher.read(Freshness::Latest).await.unwrap()), "x/a@2 x/b@3");
    let old = bench.cacher.snapshot().unwrap();
    bench.set("x/a", None).await;
    bench.set("w/c", Some("blue")).await;
    let elsewhere = bench.set_elsewhere().await;
    let fresh = bench.cacher.read(Freshness::AtLeast(elsewhere)).await.unwrap();
    assert_eq!(
        (names(&fresh).as_str(), fresh.revision),
        ("w/c@5 x/b@3", 6),
        "progress reaches beyond the row's last event"
    );
    assert_eq!(names(&old), "x/a@2 x/b@3", "a snapshot does not change");
    assert_eq!(fresh.in_namespace("x").count(), 1);
    assert_eq!(fresh.get("w", "c").unwrap().revision, 5);
    assert!(fresh.get("x", "a").is_none());

    let before = bench.env.now();
    let error = bench.cacher.read(Freshness::AtLeast(99)).await.unwrap_err();
    assert_eq!(error, Error::TooLarge { requested: 99, current: 6 });
    assert_eq!(bench.env.now() - before, FRESH_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_latest_object_is_read_without_waiting() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    // The feed has not run yet.
    assert!(bench.cacher.get("x", "a").unwrap().is_none());
    assert_eq!(bench.cacher.get_latest("x", "a").await.unwrap().unwrap().revision, 2);
    bench.cacher.read(Freshness::Latest).await.unwrap();
    let cached = bench.cacher.get("x", "a").unwrap().unwrap();
    let latest = bench.cacher.get_latest("x", "a").await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&cached, &latest), "one object per revision");
}

#[tokio::test(start_paused = true)]
async fn exact_reads_come_from_the_window_or_the_engine() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    bench.set("x/b", Some("red")).await;
    bench.set("x/a", None).await;
    bench.set("x/c", Some("red")).await;
    // A second cacher begins at the head: older states come from the engine.
    let late = Cacher::new(&bench.env, bench.storage.clone(), PREFIX, decoder());
    late.ready().await;
    bench.cacher.read(Freshness::Latest).await.unwrap();
    assert!(late.snapshot_at(3).await.unwrap().is_none());
    assert!(bench.cacher.snapshot_at(3).await.unwrap().is_some());
    let (start, end) = Scope::all().keys(PREFIX);
    for cacher in [&bench.cacher, &late] {
        let page = |revision, limit| cacher.read_exact(revision, &start, &end, limit);
        let text = |page: Page| {
            let names: Vec<_> = page.objects.iter().map(|object| object.index.name.clone()).collect();
            format!("{} +{}", names.join(" "), page.remaining)
        };
        assert_eq!(text(page(1, 0).await.unwrap()), " +0");
        assert_eq!(text(page(3, 0).await.unwrap()), "a b +0");
        assert_eq!(text(page(3, 1).await.unwrap()), "a +1");
        assert_eq!(text(page(5, 1).await.unwrap()), "b +1");
        assert_eq!(page(9, 0).await.unwrap_err(), Error::TooLarge { requested: 9, current: 5 });
    }
    bench.storage.compact(4).await.unwrap();
    for cacher in [&bench.cacher, &late] {
        let gone = cacher.read_exact(3, &start, &end, 0).await.unwrap_err();
        assert_eq!(gone, Error::Expired { requested: 3, oldest: 4 }, "whatever the window still holds");
        assert_eq!(cacher.read_exact(4, &start, &end, 0).await.unwrap().objects.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_starts_where_it_is_told() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    bench.set("x/b", Some("red")).await;
    let end = |watch: WatchRequest| WatchRequest { bookmarks: true, initial_events_end: true, ..watch };
    let cases = [
        (WatchRequest::new(WatchFrom::of(None, None)), vec!["ADDED x/a red 2", "ADDED x/b red 3", "ADDED x/c red 4"]),
        (WatchRequest::new(WatchFrom::of(Some(2), None)), vec!["ADDED x/b red 3", "ADDED x/c red 4"]),
        (WatchRequest::new(WatchFrom::of(None, Some(false))), vec!["ADDED x/c red 4"]),
        (WatchRequest::new(WatchFrom::of(Some(2), Some(false))), vec!["ADDED x/b red 3", "ADDED x/c red 4"]),
        (
            end(WatchRequest::new(WatchFrom::of(None, Some(true)))),
            vec!["ADDED x/a red 2", "ADDED x/b red 3", "BOOKMARK 3 end", "ADDED x/c red 4"],
        ),
        (
            WatchRequest { scope: Scope::object("x", "b"), ..WatchRequest::new(WatchFrom::of(None, None)) },
            vec!["ADDED x/b red 3", "DELETED x/b red 5"],
        ),
        (
            WatchRequest { scope: Scope::namespace("y"), ..end(WatchRequest::new(WatchFrom::of(Some(3), Some(true)))) },
            vec!["BOOKMARK 3 end", "ADDED y/a red 6"],
        ),
    ];
    let mut watches = Vec::new();
    for (request, expected) in cases {
        watches.push((bench.watch(request.clone()).await, request, expected));
    }
    bench.set("x/c", Some("red")).await;
    bench.set("x/b", None).await;
    bench.set("y/a", Some("red")).await;
    for (mut watch, request, expected) in watches {
        let mut seen = take(&mut watch, expected.len()).await;
        seen.truncate(expected.len());
        assert_eq!(seen, expected, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_decides_what_a_watch_sees() {
    let bench = Bench::new().await;
    let request = WatchRequest { predicate: colored("red"), ..WatchRequest::new(WatchFrom::of(None, None)) };
    let mut watch = bench.watch(request).await;
    for color in [Some("red"), Some("red"), Some("blue"), Some("blue"), Some("red"), None] {
        bench.set("x/a", color).await;
    }
    let expected =
        ["ADDED x/a red 2", "MODIFIED x/a red 3", "DELETED x/a red 4", "ADDED x/a red 6", "DELETED x/a red 7"];
    assert_eq!(take(&mut watch, 5).await, expected);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_tell_how_far_a_quiet_row_is() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    let request = WatchRequest {
        bookmarks: true,
        deadline: Some(bench.env.now() + Duration::from_secs(75)),
        ..WatchRequest::new(WatchFrom::of(None, None))
    };
    let mut watch = bench.watch(request).await;
    let began = bench.env.now();
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/a red 2"]);
    bench.set_elsewhere().await;
    bench.set_elsewhere().await;
    assert_eq!(take(&mut watch, 1).await, ["BOOKMARK 4"]);
    let first_s = (bench.env.now() - began).as_secs();
    assert!((45..=60).contains(&first_s), "{first_s} s");
    bench.set_elsewhere().await;
    assert_eq!(take(&mut watch, 1).await, ["BOOKMARK 5"]);
    assert_eq!((bench.env.now() - began).as_secs(), 73, "shortly before the end");
    assert!(take(&mut watch, 1).await.is_empty(), "the watch ends at its deadline");
    assert_eq!((bench.env.now() - began).as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_a_future_revision_waits() {
    let bench = Bench::new().await;
    let request = WatchRequest {
        bookmarks: true,
        deadline: Some(bench.env.now() + Duration::from_secs(600)),
        ..WatchRequest::new(WatchFrom::of(Some(3), None))
    };
    let mut watch = bench.watch(request).await;
    bench.set("x/a", Some("red")).await;
    bench.env.sleep(Duration::from_secs(300)).await;
    bench.set("x/b", Some("red")).await;
    bench.set("x/c", Some("red")).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/c red 4"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_a_bookmark_when_the_server_stops() {
    let bench = Bench::new().await;
    let watches =
        [true, false].map(|bookmarks| WatchRequest { bookmarks, ..WatchRequest::new(WatchFrom::of(None, None)) });
    let [mut with, mut without] = [bench.watch(watches[0].clone()).await, bench.watch(watches[1].clone()).await];
    bench.set("x/a", Some("red")).await;
    bench.cacher.read(Freshness::Latest).await.unwrap();
    bench.env.drain().await;
    assert_eq!(take(&mut with, 9).await, ["ADDED x/a red 2", "BOOKMARK 2"]);
    assert_eq!(take(&mut without, 9).await, ["ADDED x/a red 2"]);
}

#[tokio::test(start_paused = true)]
async fn frames_are_shared_by_watches() {
    let bench = Bench::new().await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await);
    }
    bench.set("x/a", Some("red")).await;
    let key =
        Arc::new(FrameKey { version: "v1".into(), media_type: "application/json".into(), transform: String::new() });
    let mut built = 0;
    for watch in &mut watches {
        let events = watch.next().await.unwrap().unwrap();
        let WatchEvent::Changed(change) = &events[0] else { panic!("{events:?}") };
        change.frame(&key, |_, object| {
            built += 1;
            object.to_wire().concat().into()
        });
    }
    assert_eq!(built, 1);
}
