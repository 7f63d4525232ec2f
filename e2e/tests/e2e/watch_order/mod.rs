//! Watches have no gap and no repeat, and one order: with parallel writers, killed servers, compaction, and two servers; and
//! finally with a watch from every revision.

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
/// What ends every watch: it is of both colors, one after the other.
const END: &str = "end";
const NAMES: usize = 6;
const WRITERS: usize = 3;
const WRITES_PER_WRITER: usize = 120;
const WATCHERS: usize = 8;
const KILLS: usize = 4;
/// Answered between two kills, or up to twice as many.
const MIN_WRITES_PER_KILL: usize = 20;
/// Watches from every revision, so many at once.
const AT_ONCE: usize = 12;
/// How long somebody waits whose server is away.
const RETRY: Duration = Duration::from_millis(50);
const SEED: u64 = 7;

#[tokio::test]
async fn on_the_memory_store() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let expired = watches_tell_what_happened(vec![server], Disturbance::None).await;
    assert_eq!(expired, 0, "nothing was forgotten");
}

#[tokio::test]
async fn on_the_embedded_store_with_kills() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let expired = watches_tell_what_happened(vec![server], Disturbance::Kills).await;
    assert!(expired > 0, "a store that was loaded again has no history");
}

#[tokio::test]
async fn on_etcd_with_two_servers_kills_and_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let start = || ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), &[]);
    let servers = vec![start().await, start().await];
    let expired = watches_tell_what_happened(servers, Disturbance::KillsAndCompaction(&etcd)).await;
    assert!(expired > 0, "what was compacted cannot be told");
}

#[derive(Clone, Copy)]
enum Disturbance<'a> {
    None,
    /// A store in the server forgets its history with it.
    Kills,
    KillsAndCompaction(&'a EtcdProcess),
}

/// What everybody who takes part shares.
struct Field {
    env: Env,
    clients: Vec<Client>,
    /// Writes that were answered so far.
    answered: watch::Sender<usize>,
    acknowledged: Mutex<Vec<Acknowledged>>,
    sessions: Mutex<Vec<Session>>,
    /// Revisions from which a watch was refused, because they are forgotten.
    expired: Mutex<Vec<u64>>,
    /// How often the store has lost its history so far.
    life: AtomicUsize,
    /// Once nobody disturbs any more: the revision below which history may be forgotten.
    forgotten: OnceLock<u64>,
    /// The revision of the last write, once there is one.
    last: OnceLock<u64>,
}

/// A write that was answered.
enum Acknowledged {
    Stored(Box<Event>),
    Deleted { uid: String },
}

impl Field {
    fn random(&self, who: &str, number: usize) -> Random {
        Env::simulated(SEED).random(&format!("{who}/{number}"))
    }

    fn any(&self, random: &Random) -> &Client {
        &self.clients[random.below(self.clients.len())]
    }
}

/// How many of the last watches, from every revision, were refused as forgotten.
async fn watches_tell_what_happened(mut servers: Vec<ApiServer>, disturbance: Disturbance<'_>) -> usize {
    let field = Field {
        env: servers[0].env.clone(),
        clients: servers.iter().map(|server| server.client(&server.admin)).collect(),
        answered: watch::Sender::new(0),
        acknowledged: Mutex::default(),
        sessions: Mutex::default(),
        expired: Mutex::default(),
        life: AtomicUsize::default(),
        forgotten: OnceLock::new(),
        last: OnceLock::new(),
    };
    let begin = revision(&RawRequest::get(CONFIG_MAPS).send(&field.clients[0]).await.unwrap().body);
    let writers = async {
        join_all((0..WRITERS).map(|writer| writes(&field, writer))).await;
        for color in COLORS {
            last_write(&field, color).await;
        }
        let last = RawRequest::get(&format!("{CONFIG_MAPS}/{END}")).send(&field.clients[0]).await.unwrap().body;
        field.last.set(revision(&last)).expect("it is set here alone");
    };
    let watchers = join_all((0..WATCHERS).map(|watcher| follows(&field, watcher, begin)));
    let disturber = async {
        let forgotten = disturbs(&field, &mut servers, disturbance).await;
        field.forgotten.set(forgotten).expect("it is set here alone");
    };
    futures::join!(writers, watchers, disturber);
    let forgotten = *field.forgotten.get().expect("the disturber has ended");

    let sessions = field.sessions.lock().clone();
    let lives = (0..=field.life.load(Ordering::Relaxed)).map(|life| {
        let sessions: Vec<Session> = sessions.iter().filter(|session| session.life == life).cloned().collect();
        let history = History::of(&sessions)?;
        sessions.iter().try_for_each(|session| history.check(session))?;
        Ok(history)
    });
    let lives: Result<Vec<History>, String> = lives.collect();
    let lives = lives.unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
    if let [whole] = lives.as_slice() {
        field.acknowledged.lock().iter().for_each(|written| is_told(whole, written));
    }
    assert!(field.expired.lock().iter().all(|revision| *revision < forgotten), "{forgotten} is remembered");
    from_every_revision(&field, &lives, forgotten).await
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

/// Objects come, change their color and go, while somebody disturbs and then some.
async fn writes(field: &Field, writer: usize) {
    let random = field.random("writer", writer);
    for number in 0.. {
        if number >= WRITES_PER_WRITER && field.forgotten.get().is_some() {
            return;
        }
        let name = format!("object-{}", random.below(NAMES));
        let path = format!("{CONFIG_MAPS}/{name}");
        let body = config_map(&name, COLORS[random.below(COLORS.len())], &format!("{writer}-{number}"));
        let (kind, ask) = match random.below(4) {
            0 => (Kind::Deleted, RawRequest::delete(&path, "")),
            1 => (Kind::Added, RawRequest::post(CONFIG_MAPS, body)),
            2 => (Kind::Modified, RawRequest::put(&path, body)),
            _ => (Kind::Modified, RawRequest::patch(&path, "application/merge-patch+json", &body)),
        };
        write(field, &random, kind, &ask).await;
    }
}

/// False where no answer came, or none that says it was carried out.
async fn write(field: &Field, random: &Random, kind: Kind, ask: &RawRequest) -> bool {
    let Ok(answer) = ask.send(field.any(random)).await else {
        field.env.sleep(RETRY).await;
        return false;
    };
    if answer.code >= 500 {
        field.env.sleep(RETRY).await;
    }
    if answer.code >= 300 {
        return false;
    }
    let body = &answer.body;
    field.acknowledged.lock().push(match kind {
        Kind::Deleted => Acknowledged::Deleted { uid: body["details"]["uid"].as_str().unwrap().to_owned() },
        _ => Acknowledged::Stored(Box::new(Event { revision: revision(body), kind, object: object(body) })),
    });
    field.answered.send_modify(|count| *count += 1);
    true
}

async fn last_write(field: &Field, color: &str) {
    let random = field.random("last", 0);
    let path = format!("{CONFIG_MAPS}/{END}");
    let body = config_map(END, color, END);
    let ask = match color {
        "red" => RawRequest::post(CONFIG_MAPS, body),
        _ => RawRequest::put(&path, body),
    };
    let is_there = async || {
        write(field, &random, Kind::Modified, &ask).await;
        let found = RawRequest::get(&path).send(field.any(&random)).await;
        found.is_ok_and(|answer| answer.body["metadata"]["labels"]["color"] == color)
    };
    e2e::wait::until_async("the last object is there", is_there).await;
}

/// Kills servers while the writers write, and forgets history; answers the revision below which it may be forgotten.
async fn disturbs(field: &Field, servers: &mut [ApiServer], disturbance: Disturbance<'_>) -> u64 {
    let mut forgotten = 0;
    if matches!(disturbance, Disturbance::None) {
        return forgotten;
    }
    let random = field.random("killer", 0);
    let mut answered = field.answered.subscribe();
    for kill in 1..=KILLS {
        // Fewer than writes that find their object, in all.
        let enough = *answered.borrow() + MIN_WRITES_PER_KILL + random.below(MIN_WRITES_PER_KILL);
        answered.wait_for(|count| *count >= enough).await.expect("the writers live as long as this");
        let turn = kill % servers.len();
        servers[turn].kill();
        if let Disturbance::Kills = disturbance {
            field.life.fetch_add(1, Ordering::Relaxed);
        }
        if let Disturbance::KillsAndCompaction(etcd) = disturbance {
            forgotten = compact(field, etcd).await;
        }
        servers[turn].restart().await;
        if let Disturbance::Kills = disturbance {
            forgotten = servers[turn].revision().await.as_str().unwrap().parse().unwrap();
        }
    }
    forgotten
}

/// Forgets what is older than the last write that was answered.
async fn compact(field: &Field, etcd: &EtcdProcess) -> u64 {
    let last = field.acknowledged.lock().iter().filter_map(Acknowledged::revision).max().unwrap();
    let connection = Connection { server: etcd.urls()[0].clone(), ..Connection::default() };
    let client = Client::connect(&field.env, &connection, "e2e").unwrap();
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

fn is_told(history: &History, written: &Acknowledged) {
    match written {
        Acknowledged::Stored(written) => {
            let told = history.at(written.revision).unwrap_or_else(|| panic!("nobody told of {written}"));
            assert_eq!(told.object, written.object);
        }
        Acknowledged::Deleted { uid } => {
            let is_told = history.events().any(|event| event.kind == Kind::Deleted && event.object.uid == *uid);
            assert!(is_told, "nobody told of the end of {uid}");
        }
    }
}

/// Where a watch begins.
enum From {
    /// With a list of its own.
    List,
    /// With the objects that there are, from the watch itself.
    InitialEvents,
    Revision(u64),
    /// After a revision at which there was nothing.
    Nothing(u64),
}

/// One watcher: watch after watch until it has seen the last object.
async fn follows(field: &Field, watcher: usize, begin: u64) {
    let random = field.random("watcher", watcher);
    let color = (watcher % 2 == 1).then(|| COLORS[watcher / 2 % COLORS.len()]);
    // Those without a color tell the history, so they begin with it and go on where they were.
    let mut from = From::Nothing(begin);
    let (mut seen, mut life) = (vec![begin], 0);
    loop {
        let present = field.life.load(Ordering::Relaxed);
        if present > std::mem::replace(&mut life, present) && color.is_none() {
            from = From::InitialEvents; // the history begins anew
        }
        let about = format!("watcher {watcher} for {}", color.unwrap_or("everything"));
        let timeout_s = u32::try_from(1 + random.below(3)).expect("a small number");
        let client = field.any(&random).clone();
        match session(field, &client, &about, color, from, timeout_s).await {
            Watched::Complete(session) => {
                let is_seen = session.events.iter().any(|event| is_last(event, color));
                let is_over = is_seen || field.last.get().is_some_and(|last| session.reached >= *last);
                seen.extend(session.events.iter().map(|event| event.revision));
                let reached = session.reached;
                field.sessions.lock().push(session);
                if is_over {
                    return;
                }
                from = match random.below(4) {
                    0 => From::Revision(seen[random.below(seen.len())]),
                    1 => From::InitialEvents,
                    2 => From::List,
                    _ => From::Revision(reached),
                };
                if color.is_none() {
                    from = From::Revision(reached);
                }
            }
            Watched::Expired(revision) => {
                field.expired.lock().push(revision);
                from = if random.below(2) == 0 { From::List } else { From::InitialEvents };
            }
            Watched::Away(again) => {
                field.env.sleep(RETRY).await;
                from = again;
            }
        }
    }
}

fn is_last(event: &Event, color: Option<&str>) -> bool {
    event.object.name == END && event.object.color == color.unwrap_or(COLORS[1])
}

enum Watched {
    Complete(Session),
    Expired(u64),
    /// The server could not be asked: once more, from the same place.
    Away(From),
}

/// One watch, until it ends or has seen the last object.
async fn session(
    field: &Field,
    client: &Client,
    about: &str,
    color: Option<&str>,
    from: From,
    timeout_s: u32,
) -> Watched {
    let config_maps = Gvr { group: String::new(), version: "v1".into(), resource: "configmaps".into() };
    let api = client.dynamic(&config_maps, "default");
    let selection = ListOptions {
        label_selector: color.map_or_else(String::new, |color| format!("color={color}")),
        timeout_s,
        allow_bookmarks: true,
        ..ListOptions::default()
    };
    let life = field.life.load(Ordering::Relaxed);
    let mut session = Session {
        about: about.to_owned(),
        life,
        color: color.map(str::to_owned),
        after: 0,
        initial: None,
        events: Vec::new(),
        reached: 0,
    };
    let mut options = selection.clone();
    match from {
        From::Revision(revision) => session.after = revision,
        From::Nothing(revision) => (session.after, session.initial) = (revision, Some(Vec::new())),
        From::List => {
            let listed = ListOptions { timeout_s: 0, allow_bookmarks: false, ..selection };
            let Ok(list) = api.list(&listed).await else { return Watched::Away(From::List) };
            session.after = list.metadata.resource_version.parse().unwrap();
            session.initial = Some(list.items.iter().map(object).collect());
        }
        From::InitialEvents => {
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
    let again = |session: &Session| if is_streamed { From::InitialEvents } else { From::Revision(session.after) };
    let mut stream = match api.watch(&options).await {
        // Whose answer came from a server that is gone by now is asked again.
        Ok(_) if field.life.load(Ordering::Relaxed) != life => return Watched::Away(again(&session)),
        Ok(stream) => stream,
        Err(error) if error.is_gone() => return Watched::Expired(session.after),
        Err(_) => return Watched::Away(again(&session)),
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
            Err(error) if error.is_gone() && session.events.is_empty() => return Watched::Expired(session.after),
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
    // A watch that broke before it had shown what there is has told nothing.
    if begun.is_some() || (is_streamed && session.initial.is_none()) {
        field.env.sleep(RETRY).await;
        return Watched::Away(From::InitialEvents);
    }
    Watched::Complete(session)
}

/// A watch from every revision tells the rest of the history, or that it is forgotten; answers how many did that.
async fn from_every_revision(field: &Field, lives: &[History], forgotten: u64) -> usize {
    let (history, last) =
        (lives.last().expect("a store has a life"), *field.last.get().expect("the writers have ended"));
    let revisions = lives.iter().flat_map(History::revisions).filter(|revision| *revision < last);
    let watches = revisions.enumerate().map(|(turn, revision)| {
        let client = &field.clients[turn % field.clients.len()];
        async move {
            match session(field, client, "afterwards", None, From::Revision(revision), 60).await {
                Watched::Complete(session) => {
                    assert_eq!(session.reached, last, "from {revision}");
                    history.check(&session).unwrap();
                    0
                }
                Watched::Expired(_) => {
                    assert!(revision < forgotten, "{revision} is remembered, {forgotten} is the first one that is");
                    1
                }
                Watched::Away(_) => panic!("the server is there, and a watch from {revision} is not answered"),
            }
        }
    });
    let refused: Vec<usize> = stream::iter(watches).buffer_unordered(AT_ONCE).collect().await;
    assert!(refused.iter().sum::<usize>() < refused.len(), "every watch was refused");
    refused.iter().sum()
}
