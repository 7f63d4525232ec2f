//! Random histories over a store with faults: the cache equals a rebuild, and every watch sees exactly its events,
//! from any start and with any number of resumptions.

use super::*;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use storage::etcd::testing as etcd_tests;
use storage::etcd::testing::model;
use storage::etcd::testing::model::Model;
use storage::fault::{Fault, Faults};
use storage::{Event, RangeRequest, WatchItem};

const COLORS: [&str; 3] = ["red", "green", "blue"];

/// The real events, as the engine itself reports them.
type Truth = Arc<Mutex<Vec<RecordedEvent>>>;

struct RecordedEvent {
    event: Arc<Event>,
    object: Option<Arc<Object>>,
}

/// Makes random writes until `changes` are done, with lost answers and refusals among them.
async fn churn(env: Env, storage: Arc<dyn Storage>, stream: String, changes: usize) {
    let random = env.random(&stream);
    for _ in 0..changes {
        let key = format!("{}/{}", ["x", "y"][random.below(2)], random.below(5));
        let (key, path) = (key.clone(), format!("{PREFIX}{key}"));
        let Ok(read) = storage.get(&path).await else { continue };
        let at = read.entry.map_or(0, |entry| entry.mod_revision);
        let ttl = (random.below(8) == 0).then(|| Duration::from_millis(random.u64() % 3000));
        // An error needs no handling: the next round reads again.
        let _ = match random.below(10) {
            0 => storage.create(&format!("/registry/nodes/{}", random.uid()), Bytes::new(), None).await,
            1 | 2 => storage.delete(&path, at).await,
            _ => storage.update(&path, at, pod(&key, COLORS[random.below(3)]), ttl).await,
        };
        if random.below(40) == 0 {
            let _ = storage.compact(read.revision.saturating_sub(random.u64() % 30)).await;
        }
        // Mostly busy, sometimes quiet for as long as the interval of bookmarks.
        let longest_ms = if random.below(25) == 0 { 40_000 } else { 20 };
        env.sleep(Duration::from_millis(random.u64() % longest_ms)).await;
    }
}

/// Cuts the cache off from the store and compacts the events that it then misses, so that it has to list again.
async fn lose_history(env: Env, fault: Arc<Fault>, engine: Arc<dyn Storage>) {
    for _ in 0..6 {
        env.sleep(Duration::from_secs(7)).await;
        fault.cut_watches();
        env.sleep(Duration::from_millis(30)).await;
        engine.compact(engine.current_revision().await.unwrap()).await.unwrap();
    }
}

/// Returns what a watch of this color in this scope has to see after a revision.
fn expected(truth: &[RecordedEvent], after: u64, scope: &Scope, color: Option<&str>) -> Vec<String> {
    let (start, end) = scope.keys(PREFIX);
    let mut current: BTreeMap<String, Arc<Object>> = BTreeMap::new();
    let mut lines = Vec::new();
    for RecordedEvent { event, object: now } in truth {
        if *event.key < *start || *event.key >= *end {
            continue;
        }
        let matching = |object: &Arc<Object>| color.is_none_or(|color| object.index.labels["color"] == color);
        let before = match now {
            Some(object) => current.insert(event.key.to_string(), object.clone()),
            None => current.remove(&*event.key),
        };
        let (before, now) = (before.filter(matching), now.clone().filter(matching));
        let shown = match (before, now) {
            (None, None) => continue,
            (None, Some(object)) => ("ADDED", object),
            (Some(_), Some(object)) => ("MODIFIED", object),
            (Some(last), None) => ("DELETED", last),
        };
        if event.revision > after {
            let (kind, object) = shown;
            let index = &object.index;
            let (namespace, name, color) = (&index.namespace, &index.name, &index.labels["color"]);
            lines.push(format!("{kind} {namespace}/{name} {color} {}", event.revision));
        }
    }
    lines
}

fn revision_of(line: &str) -> u64 {
    line.trim_end_matches(" end").rsplit(' ').next().unwrap().parse().unwrap()
}

/// A client that watches, is cut and resumes at random, and checks every line against the real events.
struct Client {
    cacher: Cacher,
    truth: Truth,
    scope: Scope,
    color: Option<&'static str>,
    /// The revision from which it would resume.
    seen: u64,
    resumed: usize,
    relisted: usize,
}

impl Client {
    fn request(&self, from: WatchFrom) -> WatchRequest {
        let predicate = self.color.and_then(colored);
        WatchRequest { scope: self.scope.clone(), predicate, bookmarks: true, ..WatchRequest::new(from) }
    }

    /// Reads the current state, which the rebuild at the end checks.
    async fn relist(&mut self) {
        self.relisted += 1;
        if let Ok(snapshot) = self.cacher.read(Freshness::Any).await {
            self.seen = snapshot.revision;
        }
    }

    /// Watches until some batches have arrived.
    async fn watch(&mut self, batches: usize) {
        let mut watch = match self.cacher.watch(self.request(WatchFrom::After(self.seen))).await {
            Ok(watch) => watch,
            Err(Error::Expired { .. }) => return self.relist().await,
            Err(_) => return,
        };
        self.resumed += 1;
        let (after, mut lines) = (self.seen, Vec::new());
        for _ in 0..batches {
            match watch.next().await {
                Ok(Some(events)) => {
                    for line in events.iter().map(line) {
                        assert!(revision_of(&line) >= self.seen, "{line} after {}", self.seen);
                        self.seen = revision_of(&line);
                        lines.push(line);
                    }
                }
                Ok(None) => break,
                Err(Error::Expired { .. }) => {
                    self.check(after, &lines);
                    return self.relist().await;
                }
                Err(_) => break,
            }
        }
        self.check(after, &lines);
    }

    /// Checks that the lines are all events up to the last line, once and in order, and nothing else.
    fn check(&self, after: u64, lines: &[String]) {
        let events: Vec<_> = lines.iter().filter(|line| !line.starts_with("BOOKMARK")).cloned().collect();
        let mut required = expected(&self.truth.lock(), after, &self.scope, self.color);
        required.retain(|line| revision_of(line) <= self.seen);
        assert_eq!(events, required, "after {after} to {}: {lines:?}", self.seen);
    }
}

/// Runs a history and returns how often a client had to list again. Without an etcd version the store is in memory.
async fn history(seed: u64, etcd: Option<&str>) -> usize {
    let env = Env::simulated(seed);
    let engine: Arc<dyn Storage> = match etcd {
        None => Memory::new(&env),
        Some(version) => etcd_tests::over(&env, &Model::new(&env, 1).members(3, version)).await.unwrap(),
    };
    let truth = Truth::default();
    let mut reported = engine.watch(PREFIX, 1).await.unwrap();
    let written = truth.clone();
    env.spawn(async move {
        while let Some(item) = reported.next().await {
            if let WatchItem::Events(events) = item.unwrap() {
                let decode = decoder();
                let decoded = |event: Arc<Event>| RecordedEvent {
                    object: event.current.as_ref().map(|entry| decode(entry).unwrap()),
                    event,
                };
                written.lock().extend(events.into_iter().map(decoded));
            }
        }
    });
    let fault = Fault::new(&env, engine.clone());
    let bench = Bench::over(env.clone(), fault.clone()).await;
    fault.set(Faults {
        lost_request: 0.02,
        lost_answer: 0.05,
        delay: 0.2,
        longest_delay: Duration::from_millis(60),
        cut_watch: 0.03,
    });
    let scopes = [Scope::all(), Scope::namespace("x"), Scope::object("y", "3")];
    let until = env.child();
    let clients: Vec<_> = (0..9)
        .map(|number| {
            let mut client = Client {
                cacher: bench.cacher.clone(),
                truth: truth.clone(),
                scope: scopes[number % 3].clone(),
                color: [None, Some("red"), Some("blue")][number / 3],
                seen: 1,
                resumed: 0,
                relisted: 0,
            };
            let (env, random) = (env.clone(), env.random(&format!("client {number}")));
            let until = until.shutdown().clone();
            env.clone().spawn(async move {
                while !until.is_cancelled() {
                    let batches = 1 + random.below(12);
                    // A cut connection drops the watch at any point.
                    let limit = Duration::from_millis(random.u64() % [3000, 200_000][random.below(2)]);
                    let _ = env.timeout(limit, client.watch(batches)).await;
                    env.sleep(Duration::from_millis(random.u64() % 100)).await;
                }
                (client.resumed, client.relisted)
            })
        })
        .collect();
    env.spawn(lose_history(env.clone(), fault.clone(), engine));
    let writers = (0..3).map(|writer| churn(env.clone(), fault.clone(), format!("writer {writer}"), 150));
    futures::future::join_all(writers.collect::<Vec<_>>()).await;
    // The faults stop: everything catches up.
    fault.set(Faults::default());
    env.sleep(Duration::from_secs(20)).await;
    until.shutdown().cancel();
    let (mut resumed, mut relisted) = (0, 0);
    for client in clients {
        let done = client.await.unwrap();
        (resumed, relisted) = (resumed + done.0, relisted + done.1);
    }
    let snapshot = bench.cacher.read(Freshness::Latest).await.unwrap();
    equals_a_rebuild(&bench, &snapshot).await;
    let reported = std::mem::take(&mut *truth.lock());
    every_start_sees_the_rest(&bench, &reported).await;
    env.shutdown().cancel();
    assert!(resumed > 9, "seed {seed}: {resumed} resumed");
    relisted
}

/// Checks that the cache that followed every event equals a cache that has just listed the store.
async fn equals_a_rebuild(bench: &Bench, snapshot: &Snapshot) {
    let text = |key: &str, object: &Object| format!("{key}@{} {:?}", object.revision, object.bytes());
    let cached: Vec<_> = snapshot.iter().map(|(key, object)| text(key, object)).collect();
    let (range, decode) = (bench.storage.range(RangeRequest::prefix(PREFIX)).await.unwrap(), decoder());
    let stored: Vec<_> = range.entries.iter().map(|entry| text(&entry.key, &decode(entry).unwrap())).collect();
    assert_eq!(cached, stored);
    assert_eq!(snapshot.revision, range.revision);
}

/// Checks that a watch from each revision sees all later events, or fails as too old, which it does below one revision.
async fn every_start_sees_the_rest(bench: &Bench, truth: &[RecordedEvent]) {
    let head = bench.storage.current_revision().await.unwrap();
    for color in [None, Some("green")] {
        let whole = expected(truth, 0, &Scope::all(), color);
        let mut served = 0;
        for after in 1..=head {
            let request =
                WatchRequest { predicate: color.and_then(colored), ..WatchRequest::new(WatchFrom::After(after)) };
            let mut watch = match bench.cacher.watch(request).await {
                Ok(watch) => watch,
                Err(Error::Expired { .. }) => {
                    assert_eq!(served, 0, "{after} is expired, but an older one was not");
                    continue;
                }
                Err(error) => panic!("after {after}: {error}"),
            };
            served += 1;
            let mut lines = Vec::new();
            let mut known = usize::MAX;
            while lines.len() != known {
                known = lines.len();
                // Reading history takes no virtual time.
                bench.env.sleep(Duration::from_millis(1)).await;
                while let Some(Ok(Some(events))) = watch.next().now_or_never() {
                    lines.extend(events.iter().map(line));
                }
            }
            let rest: Vec<_> = whole.iter().filter(|line| revision_of(line) > after).cloned().collect();
            assert_eq!(lines, rest, "after {after}");
        }
        assert!(served > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_its_events_once_and_in_order() {
    let mut relisted = 0;
    for seed in 0..12 {
        relisted += history(seed, None).await;
    }
    assert!(relisted > 0, "no history was ever lost");
}

#[tokio::test(start_paused = true)]
async fn over_etcd_a_watch_sees_its_events_once_and_in_order() {
    for version in [model::NEW, model::OLD] {
        for seed in 0..6 {
            history(seed, Some(version)).await;
        }
    }
}
