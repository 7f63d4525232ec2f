//! Tests that watches deliver every change once and in one order, with parallel writers, killed servers, compaction and
//! two servers. At the end a watch is opened from every revision.

mod history;

use crate::{etcd, program};
use client::watch::WatchEvent;
use client::{Client, options::ListOptions};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::rng::Random;
use component_base_testing::etcd_process::EtcdProcess;
use e2e::apiserver::ApiServer;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use futures::future::join_all;
use futures::{StreamExt, stream};
use history::{Event, History, Kind, Object, Session};
use orrery::up::data_dir::DataDir;
use parking_lot::Mutex;
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COLORS: [&str; 2] = ["red", "blue"];
/// Name of the last object. It gets both colors, one after the other, so that every watch sees it.
const END: &str = "end";
const NAMES: usize = 6;
const WRITERS: usize = 3;
const WRITES_PER_WRITER: usize = 120;
const WATCHERS: usize = 8;
const KILLS: usize = 4;
/// Least number of answered writes between two kills; up to twice as many are drawn.
const MIN_WRITES_PER_KILL: usize = 20;
/// Number of parallel watches when one is opened from every revision.
const PARALLEL_WATCHES: usize = 12;
/// Pause before a retry while a server is down.
const RETRY: Duration = Duration::from_millis(50);
const SEED: u64 = 7;

#[tokio::test]
async fn on_the_memory_store() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let expired = check_watches(vec![server], Disturbance::None).await;
    assert_eq!(expired, 0, "no history was lost");
}

#[tokio::test]
async fn on_the_embedded_store_with_kills() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let expired = check_watches(vec![server], Disturbance::Kills).await;
    assert!(expired > 0, "a store that was loaded again has no history");
}

#[tokio::test]
async fn on_etcd_with_two_servers_kills_and_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let start = || ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), &[]);
    let servers = vec![start().await, start().await];
    let expired = check_watches(servers, Disturbance::KillsAndCompaction(&etcd)).await;
    assert!(expired > 0, "what was compacted cannot be told");
}

#[derive(Clone, Copy)]
enum Disturbance<'a> {
    None,
    /// The server is killed repeatedly. Its embedded store loses its history each time.
    Kills,
    /// Two servers are killed in turn, and etcd is compacted.
    KillsAndCompaction(&'a EtcdProcess),
}

/// State that writers, watchers and the disturber share.
struct Shared {
    env: Env,
    clients: Vec<Client>,
    /// Number of answered writes so far.
    answered: watch::Sender<usize>,
    acknowledged: Mutex<Vec<Acknowledged>>,
    sessions: Mutex<Vec<Session>>,
    /// Revisions from which a watch was refused as expired.
    expired: Mutex<Vec<u64>>,
    /// Number of times that the store has lost its history so far.
    epoch: AtomicUsize,
    /// The revision below which history may be lost. It is set when the disturbances have ended.
    lost_below: OnceLock<u64>,
    /// Revision of the last write. It is set after that write.
    last: OnceLock<u64>,
}

/// A write that was answered.
enum Acknowledged {
    Stored(Box<Event>),
    Deleted { uid: String },
}

impl Shared {
    fn random(&self, who: &str, number: usize) -> Random {
        Env::simulated(SEED).random(&format!("{who}/{number}"))
    }

    fn any(&self, random: &Random) -> &Client {
        &self.clients[random.below(self.clients.len())]
    }
}

/// Runs writers, watchers and a disturber, and checks all watches. Returns how many of the last watches, from every
/// revision, were refused as expired.
async fn check_watches(mut servers: Vec<ApiServer>, disturbance: Disturbance<'_>) -> usize {
    let shared = Shared {
        env: servers[0].env.clone(),
        clients: servers.iter().map(|server| server.client(&server.admin)).collect(),
        answered: watch::Sender::new(0),
        acknowledged: Mutex::default(),
        sessions: Mutex::default(),
        expired: Mutex::default(),
        epoch: AtomicUsize::default(),
        lost_below: OnceLock::new(),
        last: OnceLock::new(),
    };
    let begin = revision(&RawRequest::get(CONFIG_MAPS).send(&shared.clients[0]).await.unwrap().body);
    let writers = async {
        join_all((0..WRITERS).map(|writer| write_all(&shared, writer))).await;
        for color in COLORS {
            last_write(&shared, color).await;
        }
        let last = RawRequest::get(&format!("{CONFIG_MAPS}/{END}")).send(&shared.clients[0]).await.unwrap().body;
        shared.last.set(revision(&last)).expect("it is set here alone");
    };
    let watchers = join_all((0..WATCHERS).map(|watcher| follow(&shared, watcher, begin)));
    let disturber = async {
        let lost_below = disturb(&shared, &mut servers, disturbance).await;
        shared.lost_below.set(lost_below).expect("it is set here alone");
    };
    futures::join!(writers, watchers, disturber);
    let lost_below = *shared.lost_below.get().expect("the disturber has ended");

    let sessions = shared.sessions.lock().clone();
    let histories = (0..=shared.epoch.load(Ordering::Relaxed)).map(|epoch| {
        let sessions: Vec<Session> = sessions.iter().filter(|session| session.epoch == epoch).cloned().collect();
        let history = History::merge(&sessions)?;
        sessions.iter().try_for_each(|session| history.check(session))?;
        Ok(history)
    });
    let histories: Result<Vec<History>, String> = histories.collect();
    let histories = histories.unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
    if let [whole] = histories.as_slice() {
        shared.acknowledged.lock().iter().for_each(|written| check_delivered(whole, written));
    }
    assert!(
        shared.expired.lock().iter().all(|revision| *revision < lost_below),
        "a revision from {lost_below} on was refused"
    );
    watch_from_every_revision(&shared, &histories, lost_below).await
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn object(value: &Value) -> Object {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Object {
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        color: text("/metadata/labels/color"),
        word: text("/data/word"),
    }
}

fn config_map(name: &str, color: &str, word: &str) -> String {
    json!({"metadata": {"name": name, "labels": {"color": color}}, "data": {"word": word}}).to_string()
}

/// Creates, changes and deletes objects until the disturbances have ended, and at least [`WRITES_PER_WRITER`] times.
async fn write_all(shared: &Shared, writer: usize) {
    let random = shared.random("writer", writer);
    for number in 0.. {
        if number >= WRITES_PER_WRITER && shared.lost_below.get().is_some() {
            return;
        }
        let name = format!("object-{}", random.below(NAMES));
        let path = format!("{CONFIG_MAPS}/{name}");
        let body = config_map(&name, COLORS[random.below(COLORS.len())], &format!("{writer}-{number}"));
        let (kind, request) = match random.below(4) {
            0 => (Kind::Deleted, RawRequest::delete(&path, "")),
            1 => (Kind::Added, RawRequest::post(CONFIG_MAPS, body)),
            2 => (Kind::Modified, RawRequest::put(&path, body)),
            _ => (Kind::Modified, RawRequest::patch(&path, "application/merge-patch+json", &body)),
        };
        write(shared, &random, kind, &request).await;
    }
}

/// Sends a write. Returns true if it was acknowledged, and records it then.
async fn write(shared: &Shared, random: &Random, kind: Kind, request: &RawRequest) -> bool {
    let Ok(answer) = request.send(shared.any(random)).await else {
        shared.env.sleep(RETRY).await;
        return false;
    };
    if answer.code >= 500 {
        shared.env.sleep(RETRY).await;
    }
    if answer.code >= 300 {
        return false;
    }
    let body = &answer.body;
    shared.acknowledged.lock().push(match kind {
        Kind::Deleted => Acknowledged::Deleted { uid: body["details"]["uid"].as_str().unwrap().to_owned() },
        _ => Acknowledged::Stored(Box::new(Event { revision: revision(body), kind, object: object(body) })),
    });
    shared.answered.send_modify(|count| *count += 1);
    true
}

/// Writes the last object with a color, until it is stored.
async fn last_write(shared: &Shared, color: &str) {
    let random = shared.random("last", 0);
    let path = format!("{CONFIG_MAPS}/{END}");
    let body = config_map(END, color, END);
    let request = match color {
        "red" => RawRequest::post(CONFIG_MAPS, body),
        _ => RawRequest::put(&path, body),
    };
    let is_there = async || {
        write(shared, &random, Kind::Modified, &request).await;
        let found = RawRequest::get(&path).send(shared.any(&random)).await;
        found.is_ok_and(|answer| answer.body["metadata"]["labels"]["color"] == color)
    };
    e2e::wait::until_async("the last object is there", is_there).await;
}

/// Kills servers and compacts the store while the writers write. Returns the revision below which history may be lost.
async fn disturb(shared: &Shared, servers: &mut [ApiServer], disturbance: Disturbance<'_>) -> u64 {
    let mut lost_below = 0;
    if matches!(disturbance, Disturbance::None) {
        return lost_below;
    }
    let random = shared.random("killer", 0);
    let mut answered = shared.answered.subscribe();
    for kill in 1..=KILLS {
        // In total this is less than the number of writes that succeed.
        let enough = *answered.borrow() + MIN_WRITES_PER_KILL + random.below(MIN_WRITES_PER_KILL);
        answered.wait_for(|count| *count >= enough).await.expect("the writers live as long as this");
        let turn = kill % servers.len();
        servers[turn].kill();
        if let Disturbance::Kills = disturbance {
            shared.epoch.fetch_add(1, Ordering::Relaxed);
        }
        if let Disturbance::KillsAndCompaction(etcd) = disturbance {
            lost_below = compact(shared, etcd).await;
        }
        servers[turn].restart().await;
        if let Disturbance::Kills = disturbance {
            lost_below = servers[turn].revision().await.as_str().unwrap().parse().unwrap();
        }
    }
    lost_below
}

/// Compacts etcd up to the last acknowledged write, and returns its revision.
async fn compact(shared: &Shared, etcd: &EtcdProcess) -> u64 {
    let last = shared.acknowledged.lock().iter().filter_map(Acknowledged::revision).max().unwrap();
    let connection = Connection { server: etcd.urls()[0].clone(), ..Connection::default() };
    let client = Client::connect(&shared.env, &connection, "e2e").unwrap();
    let answer =
        RawRequest::post("/v3/kv/compaction", json!({"revision": last}).to_string()).send(&client).await.unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text);
    last
}

impl Acknowledged {
    fn revision(&self) -> Option<u64> {
        match self {
            Self::Stored(event) => Some(event.revision),
            Self::Deleted { .. } => None,
        }
    }
}

/// Checks that a history has an acknowledged write.
fn check_delivered(history: &History, written: &Acknowledged) {
    match written {
        Acknowledged::Stored(written) => {
            let delivered = history.at(written.revision).unwrap_or_else(|| panic!("no watch delivered {written}"));
            assert_eq!(delivered.object, written.object);
        }
        Acknowledged::Deleted { uid } => {
            let is_delivered = history.events().any(|event| event.kind == Kind::Deleted && event.object.uid == *uid);
            assert!(is_delivered, "no watch delivered the deletion of {uid}");
        }
    }
}

/// The beginning of a watch.
enum Start {
    /// After the revision of a list.
    List,
    /// With the initial objects as events.
    InitialEvents,
    /// After this revision.
    Revision(u64),
    /// After this revision, at which the collection was empty.
    AfterEmpty(u64),
}

/// Opens one watch after another until the last object has arrived.
async fn follow(shared: &Shared, watcher: usize, begin: u64) {
    let random = shared.random("watcher", watcher);
    let color = (watcher % 2 == 1).then(|| COLORS[watcher / 2 % COLORS.len()]);
    // The history is merged from the watchers without a color. So they start at its beginning and always go on from the
    // revision that they have reached.
    let mut from = Start::AfterEmpty(begin);
    let (mut seen, mut epoch) = (vec![begin], 0);
    loop {
        let present = shared.epoch.load(Ordering::Relaxed);
        if present > std::mem::replace(&mut epoch, present) && color.is_none() {
            from = Start::InitialEvents; // the store has lost its history, so a new one begins
        }
        let about = format!("watcher {watcher} for {}", color.unwrap_or("everything"));
        let timeout_s = u32::try_from(1 + random.below(3)).expect("a small number");
        let client = shared.any(&random).clone();
        match session(shared, &client, &about, color, from, timeout_s).await {
            WatchResult::Complete(session) => {
                let is_seen = session.events.iter().any(|event| is_last(event, color));
                let is_over = is_seen || shared.last.get().is_some_and(|last| session.reached >= *last);
                seen.extend(session.events.iter().map(|event| event.revision));
                let reached = session.reached;
                shared.sessions.lock().push(session);
                if is_over {
                    return;
                }
                from = match random.below(4) {
                    0 => Start::Revision(seen[random.below(seen.len())]),
                    1 => Start::InitialEvents,
                    2 => Start::List,
                    _ => Start::Revision(reached),
                };
                if color.is_none() {
                    from = Start::Revision(reached);
                }
            }
            WatchResult::Expired(revision) => {
                shared.expired.lock().push(revision);
                from = if random.below(2) == 0 { Start::List } else { Start::InitialEvents };
            }
            WatchResult::Unavailable(again) => {
                shared.env.sleep(RETRY).await;
                from = again;
            }
        }
    }
}

fn is_last(event: &Event, color: Option<&str>) -> bool {
    event.object.name == END && event.object.color == color.unwrap_or(COLORS[1])
}

enum WatchResult {
    Complete(Session),
    Expired(u64),
    /// The server did not answer. The watch is to be opened again in this way.
    Unavailable(Start),
}

/// Reads one watch until it ends or the last object has arrived.
async fn session(
    shared: &Shared,
    client: &Client,
    about: &str,
    color: Option<&str>,
    from: Start,
    timeout_s: u32,
) -> WatchResult {
    let config_maps = Gvr { group: String::new(), version: "v1".into(), resource: "configmaps".into() };
    let api = client.dynamic(&config_maps, "default");
    let selection = ListOptions {
        label_selector: color.map_or_else(String::new, |color| format!("color={color}")),
        timeout_s,
        allow_bookmarks: true,
        ..ListOptions::default()
    };
    let epoch = shared.epoch.load(Ordering::Relaxed);
    let mut session = Session {
        about: about.to_owned(),
        epoch,
        color: color.map(str::to_owned),
        after: 0,
        initial: None,
        events: Vec::new(),
        reached: 0,
    };
    let mut options = selection.clone();
    match from {
        Start::Revision(revision) => session.after = revision,
        Start::AfterEmpty(revision) => (session.after, session.initial) = (revision, Some(Vec::new())),
        Start::List => {
            let listed = ListOptions { timeout_s: 0, allow_bookmarks: false, ..selection };
            let Ok(list) = api.list(&listed).await else { return WatchResult::Unavailable(Start::List) };
            session.after = list.metadata.resource_version.parse().unwrap();
            session.initial = Some(list.items.iter().map(object).collect());
        }
        Start::InitialEvents => {
            session.about.push_str(", streamed");
            options.send_initial_events = true;
            options.resource_version_match = "NotOlderThan".into();
        }
    }
    let is_streamed = options.send_initial_events;
    if !is_streamed {
        options.resource_version = session.after.to_string();
    }
    session.reached = session.after;
    let again = |session: &Session| if is_streamed { Start::InitialEvents } else { Start::Revision(session.after) };
    let mut stream = match api.watch(&options).await {
        // The answer may have come from a server that was killed meanwhile.
        Ok(_) if shared.epoch.load(Ordering::Relaxed) != epoch => return WatchResult::Unavailable(again(&session)),
        Ok(stream) => stream,
        Err(error) if error.is_gone() => return WatchResult::Expired(session.after),
        Err(_) => return WatchResult::Unavailable(again(&session)),
    };
    let mut begun: Option<Vec<Object>> = is_streamed.then(Vec::new);
    while let Some(event) = stream.next().await {
        let (kind, bytes) = match event {
            Ok(WatchEvent::Added(bytes)) => (Kind::Added, bytes),
            Ok(WatchEvent::Modified(bytes)) => (Kind::Modified, bytes),
            Ok(WatchEvent::Deleted(bytes)) => (Kind::Deleted, bytes),
            Ok(WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                let version = resource_version.parse().unwrap();
                assert!(version >= session.reached, "{about}: a bookmark goes back to {version}");
                if initial_events_end {
                    (session.after, session.initial) = (version, begun.take());
                }
                session.reached = version;
                continue;
            }
            Err(error) if error.is_gone() && session.events.is_empty() => return WatchResult::Expired(session.after),
            Err(_) => break,
        };
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        if let Some(initial) = &mut begun {
            assert_eq!(kind, Kind::Added, "{about}: what there is comes as added");
            initial.push(object(&value));
            continue;
        }
        session.reached = revision(&value);
        session.events.push(Event { revision: session.reached, kind, object: object(&value) });
        if session.events.last().is_some_and(|event| is_last(event, color)) {
            break;
        }
    }
    // A watch that broke before the end of its initial objects proves nothing.
    if begun.is_some() || (is_streamed && session.initial.is_none()) {
        shared.env.sleep(RETRY).await;
        return WatchResult::Unavailable(Start::InitialEvents);
    }
    WatchResult::Complete(session)
}

/// Opens a watch from every revision. Checks that it delivers the rest of the history, or is refused because that may
/// be lost. Returns how many were refused.
async fn watch_from_every_revision(shared: &Shared, histories: &[History], lost_below: u64) -> usize {
    let (history, last) =
        (histories.last().expect("a store has a first history"), *shared.last.get().expect("the writers have ended"));
    let revisions = histories.iter().flat_map(History::revisions).filter(|revision| *revision < last);
    let watches = revisions.enumerate().map(|(turn, revision)| {
        let client = &shared.clients[turn % shared.clients.len()];
        async move {
            match session(shared, client, "afterwards", None, Start::Revision(revision), 60).await {
                WatchResult::Complete(session) => {
                    assert_eq!(session.reached, last, "from {revision}");
                    history.check(&session).unwrap();
                    0
                }
                WatchResult::Expired(_) => {
                    assert!(
                        revision < lost_below,
                        "a watch from {revision} was refused, but history from {lost_below} on is kept"
                    );
                    1
                }
                WatchResult::Unavailable(_) => {
                    panic!("the server is there, and a watch from {revision} is not answered")
                }
            }
        }
    });
    let refused: Vec<usize> = stream::iter(watches).buffer_unordered(PARALLEL_WATCHES).collect().await;
    assert!(refused.iter().sum::<usize>() < refused.len(), "every watch was refused");
    refused.iter().sum()
}
