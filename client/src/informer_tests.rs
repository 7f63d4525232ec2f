//! Tests of informers against a misbehaving server: in the end the store equals the collection.

use crate::cached::PartialObject;
use crate::client::Client;
use crate::informer::{Event, Informer};
use crate::informers::Informers;
use client_testing::{FakeServer, Fault, Refusal};
use component_base::env::Env;
use parking_lot::Mutex;
use proptest::prelude::*;
use proto::Status;
use proto::gvk::Gvr;
use proto::kinds::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Secret};
use proto::meta::status::Cause;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct World {
    env: Env,
    server: FakeServer,
    informers: Informers,
}

fn world() -> World {
    let env = Env::simulated(7);
    let server = FakeServer::new(&env);
    let client = Client::from_service(&env, server.service(), "test");
    World { informers: Informers::new(&client), server, env }
}

fn config(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "ns", "name": name, "uid": name}, "data": {"value": value}
    })
}

/// Records the events that a handler gets, as `+a=1`, `~a=2`, `-a`.
fn record(informer: &Informer<ConfigMap>) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = events.clone();
    let value = |c: &ConfigMap| c.data.iter().flatten().map(|(_, v)| v.clone()).collect::<String>();
    informer.on_event(move |event| {
        log.lock().push(match event {
            Event::Added(object) => format!("+{}={}", object.name(), value(object)),
            Event::Updated { new, .. } => format!("~{}={}", new.name(), value(new)),
            Event::Deleted(object) => format!("-{}", object.name()),
        });
    });
    events
}

fn take(events: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    std::mem::take(&mut *events.lock())
}

/// Runs all tasks until each waits for time to pass.
async fn run_tasks(env: &Env) {
    env.sleep(Duration::from_millis(1)).await;
}

fn held(informer: &Informer<ConfigMap>) -> Vec<Value> {
    informer.lister().list().iter().map(|object| object.encode()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_initial_events_and_then_changes() {
    let World { env, server, informers } = world();
    server.put("configmaps", config("a", "1"));
    server.put("secrets", config("not-ours", "1"));
    let informer = informers.of::<ConfigMap>();
    let events = record(&informer);
    assert!(!informer.has_synced());
    informers.start();
    informers.start();
    assert!(informers.synced().await);
    assert_eq!(take(&events), ["+a=1"]);
    server.put("configmaps", config("b", "1"));
    server.put("configmaps", config("a", "2"));
    server.remove("configmaps", "ns/b");
    run_tasks(&env).await;
    assert_eq!(take(&events), ["+b=1", "~a=2", "-b"]);
    assert_eq!(held(&informer), server.list("configmaps"));
    assert_eq!(informer.lister().get("ns", "a").unwrap().name(), "a");
    let lines: Vec<String> = server.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("sendInitialEvents=true") && lines[0].contains("resourceVersionMatch=NotOlderThan"));
    env.drain().await;
    assert!(!informers.of_namespace::<ConfigMap>("later").synced().await);
}

/// Returns the ways in which servers refuse to stream initial events.
fn refusals() -> [Refusal; 4] {
    let no_progress = "a watch stream was requested by the client but the required storage feature is disabled";
    [
        Refusal::Answer(Status::invalid("meta.k8s.io", "ListOptions", "", &[])),
        Refusal::Answer(Status::bad_request("sendInitialEvents is not known")),
        Refusal::Answer(Status::internal("sendInitialEvents is forbidden for watch")),
        Refusal::Event(Status::failure(500, "InternalError", no_progress)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_initial_events_is_listed_and_watched() {
    for refusal in refusals() {
        let World { env, server, informers } = world();
        server.refuse_initial_events(refusal.clone());
        for n in 0..3 {
            server.put("configmaps", config(&format!("c{n}"), "1"));
        }
        let informer = informers.of::<ConfigMap>();
        informers.start();
        // At once, since a refusal causes no back-off.
        run_tasks(&env).await;
        assert!(informer.has_synced(), "{refusal:?}");
        assert_eq!(held(&informer), server.list("configmaps"));
        server.put("configmaps", config("c9", "1"));
        run_tasks(&env).await;
        assert_eq!(held(&informer), server.list("configmaps"), "{refusal:?}");
        let list = "GET /api/v1/configmaps?resourceVersion=0";
        assert_eq!((server.count("sendInitialEvents"), server.count(list)), (1, 1), "{refusal:?}");
        // Its last revision was compacted, so it lists again.
        server.compact();
        server.put("configmaps", config("c8", "1"));
        server.compact();
        server.cut_watches();
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(held(&informer), server.list("configmaps"));
        assert_eq!(server.count("GET /api/v1/configmaps?limit=500"), 1, "{refusal:?}");
        env.drain().await;
    }
}

/// The next start asks for a stream again, since the server may have been replaced by one that streams.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_remembered_for_ever() {
    for refusal in refusals() {
        let World { env, server, informers } = world();
        server.refuse_initial_events(refusal);
        let informer = informers.of::<ConfigMap>();
        informers.start();
        run_tasks(&env).await;
        server.stream_initial_events();
        server.put("configmaps", config("a", "1"));
        server.compact();
        server.cut_watches();
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(held(&informer), server.list("configmaps"));
        assert_eq!((server.count("sendInitialEvents"), server.count("GET /api/v1/configmaps?limit")), (2, 0));
        env.drain().await;
    }
}

/// After other errors a later request may be streamed: it is, and nothing is listed.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_or_behind_is_asked_to_stream_again() {
    let mut behind = Status::timeout("Too large resource version: 7, current: 5", 1);
    behind.details.get_or_insert_default().causes =
        vec![Cause { reason: "ResourceVersionTooLarge".into(), ..Cause::default() }];
    for answer in [Status::too_many_requests("later", 1), behind, Status::expired("too old resource version")] {
        let World { env, server, informers } = world();
        server.put("configmaps", config("a", "1"));
        let case = answer.message.clone();
        server.refuse_initial_events(Refusal::Event(answer));
        let informer = informers.of::<ConfigMap>();
        informers.start();
        run_tasks(&env).await;
        assert!(!informer.has_synced(), "{case}");
        server.stream_initial_events();
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(held(&informer), server.list("configmaps"), "{case}");
        let lists = server.requests().iter().filter(|request| !request.line.contains("watch=true")).count();
        assert_eq!(lists, 0, "{case}");
        env.drain().await;
    }
}

/// If the pages take longer than the server keeps a revision, the list is requested in one piece.
#[tokio::test(start_paused = true)]
async fn a_list_whose_token_expires_is_asked_for_whole() {
    let World { env, server, informers } = world();
    server.refuse_initial_events(refusals()[3].clone());
    let informer = informers.of::<ConfigMap>();
    informers.start();
    run_tasks(&env).await;
    for n in 0..1200 {
        server.put("configmaps", config(&format!("c{n:04}"), "1"));
    }
    server.compact();
    server.fault(Fault {
        path_contains: "continue=",
        answer: Status::expired("The provided continue parameter is too old"),
        retry_after_s: None,
    });
    server.cut_watches();
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(held(&informer).len(), 1200);
    let pages = (server.count("GET /api/v1/configmaps?limit=500"), server.count("continue="));
    assert_eq!(pages, (2, 1), "{:?}", server.requests().iter().map(|r| r.line.clone()).collect::<Vec<_>>());
}

/// A watch that would be refused, or ended, every time is not repeated.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_for_what_it_asks_means_starting_over() {
    let mut ahead = Status::timeout("Too large resource version: 7, current: 5", 1);
    ahead.details.get_or_insert_default().causes =
        vec![Cause { reason: "ResourceVersionTooLarge".into(), ..Cause::default() }];
    for answer in [Status::bad_request("invalid resource version"), Status::internal("cannot be decoded"), ahead] {
        let World { env, server, informers } = world();
        let informer = informers.of::<ConfigMap>();
        informers.start();
        run_tasks(&env).await;
        server.put("configmaps", config("a", "1"));
        run_tasks(&env).await;
        let case = answer.message.clone();
        server.refuse_resuming(answer);
        server.cut_watches();
        server.put("configmaps", config("b", "1"));
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(held(&informer), server.list("configmaps"), "{case}");
        env.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_without_a_list() {
    let World { env, server, informers } = world();
    let informer = informers.of::<ConfigMap>();
    let events = record(&informer);
    informers.start();
    informers.synced().await;
    server.put("configmaps", config("a", "1"));
    env.sleep(Duration::from_secs(2)).await;
    server.cut_watches();
    server.put("configmaps", config("b", "1"));
    run_tasks(&env).await;
    assert_eq!(take(&events), ["+a=1", "+b=1"]);
    assert_eq!(server.count("sendInitialEvents"), 1);
    assert_eq!(server.count("watch=true&resourceVersion=1&"), 1);
}

/// An object that cannot be decoded hides no other, and is not requested again and again.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_left_out() {
    let World { env, server, informers } = world();
    let informer = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    server.put("configmaps", config("a", "1"));
    let mut broken = config("b", "1");
    broken["data"] = json!("not a map");
    server.put("configmaps", broken);
    env.sleep(Duration::from_secs(2)).await;
    server.cut_watches();
    env.sleep(Duration::from_secs(5)).await;
    let names: Vec<String> = informer.lister().list().iter().map(|c| c.name().to_owned()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(server.count("watch=true&resourceVersion=2&"), 1, "{:?}", server.requests());
}

/// A stream with garbage is given up, and the collection is read again.
#[tokio::test(start_paused = true)]
async fn noise_in_a_watch_means_starting_over() {
    let World { env, server, informers } = world();
    let informer = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    server.send_garbage();
    server.put("configmaps", config("a", "1"));
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(held(&informer), server.list("configmaps"));
    assert_eq!(server.count("sendInitialEvents"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_place_to_resume_from() {
    let World { env, server, informers } = world();
    let _informer = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    server.put("secrets", config("elsewhere", "1"));
    server.bookmark("configmaps");
    env.sleep(Duration::from_secs(2)).await;
    server.compact();
    server.cut_watches();
    env.sleep(Duration::from_secs(2)).await;
    assert_eq!(server.count("watch=true&resourceVersion=2&"), 1);
    assert_eq!(server.count("sendInitialEvents"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_means_starting_over_and_nothing_is_said_twice() {
    let World { env, server, informers } = world();
    for name in ["kept", "changed", "removed"] {
        server.put("configmaps", config(name, "1"));
    }
    let informer = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    let events = record(&informer);
    assert_eq!(take(&events), ["+changed=1", "+kept=1", "+removed=1"]);
    server.fault(Fault { path_contains: "watch=true", answer: Status::unavailable("restarting"), retry_after_s: None });
    server.cut_watches();
    run_tasks(&env).await;
    server.put("configmaps", config("changed", "2"));
    server.put("configmaps", config("new", "1"));
    server.remove("configmaps", "ns/removed");
    server.compact();
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(take(&events), ["~changed=2", "+new=1", "-removed"]);
    assert_eq!(held(&informer), server.list("configmaps"));
    assert_eq!(server.count("sendInitialEvents"), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_more_and_more_slowly() {
    let World { env, server, informers } = world();
    let began = env.now();
    for _ in 0..8 {
        server.fault(Fault { path_contains: "configmaps", answer: Status::internal("down"), retry_after_s: None });
    }
    let _informer = informers.of::<ConfigMap>();
    informers.start();
    assert!(informers.synced().await);
    let took = env.now().duration_since(began);
    // 0.8 + 1.6 + 3.2 + 6.4 seconds, each lengthened by up to its double.
    assert!(took > Duration::from_secs(12) && took < Duration::from_secs(24), "{took:?}");
    // Each time a stream is requested and, since it is refused, a list.
    assert_eq!(server.requests().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn watches_ask_to_end_after_five_to_ten_minutes_and_go_on() {
    let World { env, server, informers } = world();
    let informer = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    env.sleep(Duration::from_secs(3600)).await;
    let watches = server.count("watch=true");
    assert!((6..=13).contains(&watches), "{watches}");
    for request in server.requests() {
        let (_, timeout) = request.line.split_once("timeoutSeconds=").unwrap();
        let timeout_s: u64 = timeout.split('&').next().unwrap().parse().unwrap();
        assert!((300..=600).contains(&timeout_s), "{timeout_s}");
    }
    server.put("configmaps", config("a", "1"));
    run_tasks(&env).await;
    assert_eq!(held(&informer).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_informer_serves_all_who_ask_and_a_late_handler_hears_everything() {
    let World { env, server, informers } = world();
    server.put("configmaps", config("a", "1"));
    informers.of::<ConfigMap>().index("value", |c| c.data.iter().flatten().map(|(_, v)| v.clone()).collect());
    informers.start();
    informers.synced().await;
    let late = record(&informers.of::<ConfigMap>());
    assert_eq!(take(&late), ["+a=1"]);
    server.put("configmaps", config("b", "1"));
    run_tasks(&env).await;
    assert_eq!(take(&late), ["+b=1"]);
    assert_eq!(informers.of::<ConfigMap>().lister().by_index("value", "1").len(), 2);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_needs_only_metadata_shares_the_informer_that_is_there() {
    let World { env, server, informers } = world();
    let gvr = ConfigMap::gvr();
    server.put("configmaps", config("a", "1"));
    server.put("secrets", config("b", "1"));
    informers.of::<ConfigMap>();
    informers.of_namespace::<Secret>("ns");
    informers.start();
    assert!(informers.synced().await);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    for gvr in [gvr, Secret::gvr()] {
        let seen = seen.clone();
        informers
            .of_any_form(&gvr)
            .on_event(move |event| seen.lock().push(event.object().meta().name.clone().unwrap()));
    }
    assert_eq!(take(&seen), ["a"], "a late handler gets what is there");
    assert_eq!(server.requests().len(), 2);
    informers.start();
    run_tasks(&env).await;
    assert_eq!(take(&seen), ["b"], "an informer of one namespace has not all");
    server.put("configmaps", config("c", "1"));
    run_tasks(&env).await;
    assert_eq!(take(&seen), ["c"]);
    assert_eq!(server.requests().len(), 3, "one more, for the secrets of all namespaces");
}

#[tokio::test(start_paused = true)]
async fn resync_tells_everything_again() {
    let World { env, server, informers } = world();
    server.put("configmaps", config("a", "1"));
    let events = record(&informers.resync_every(Duration::from_secs(30)).of::<ConfigMap>());
    informers.start();
    informers.synced().await;
    env.sleep(Duration::from_secs(61)).await;
    assert_eq!(take(&events), ["+a=1", "~a=1", "~a=1"]);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_asked_for_and_can_be_stopped() {
    let World { env, server, informers } = world();
    let gvr = Gvr::new("", "v1", "configmaps");
    server.put("configmaps", config("a", "1"));
    let metadata: Informer<PartialObject> = informers.metadata(&gvr);
    let whole = informers.of::<ConfigMap>();
    informers.start();
    informers.synced().await;
    assert_eq!(metadata.lister().list()[0].metadata.uid.as_deref(), Some("a"));
    let accept = server.requests()[0].headers["accept"].to_str().unwrap().to_owned();
    assert!(accept.contains("as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), "{accept}");
    informers.stop(&gvr);
    run_tasks(&env).await;
    server.put("configmaps", config("b", "1"));
    run_tasks(&env).await;
    assert_eq!((metadata.lister().len(), whole.lister().len()), (1, 2));
}

#[derive(Clone, Debug)]
enum ServerAction {
    Put(u8, u8),
    Remove(u8),
    Cut,
    Compact,
    Fail,
    Wait(u16),
}

fn server_action() -> impl Strategy<Value = ServerAction> {
    prop_oneof![
        4 => (0u8..5, any::<u8>()).prop_map(|(name, value)| ServerAction::Put(name, value)),
        2 => (0u8..5).prop_map(ServerAction::Remove),
        1 => Just(ServerAction::Cut),
        1 => Just(ServerAction::Compact),
        1 => Just(ServerAction::Fail),
        2 => (0u16..5000).prop_map(ServerAction::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Once faults have stopped, the store and the handlers' view both equal the collection.
    #[test]
    fn whatever_happens_the_store_ends_equal_to_the_collection(
        steps in prop::collection::vec(server_action(), 0..40), refuses in prop::option::of(0..4usize))
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let World { env, server, informers } = world();
            if let Some(how) = refuses {
                server.refuse_initial_events(refusals()[how].clone());
            }
            let informer = informers.of::<ConfigMap>();
            let told = Arc::new(Mutex::new(std::collections::BTreeMap::new()));
            let model = told.clone();
            informer.on_event(move |event| {
                let mut model = model.lock();
                let object = event.object();
                let before = match event {
                    Event::Deleted(_) => model.remove(&object.key()),
                    _ => model.insert(object.key(), object.encode()),
                };
                assert_eq!(before.is_none(), matches!(event, Event::Added(_)), "{event:?}");
            });
            informers.start();
            for step in steps {
                match step {
                    ServerAction::Put(name, value) => server.put("configmaps", config(&format!("n{name}"), &value.to_string())),
                    ServerAction::Remove(name) => server.remove("configmaps", &format!("ns/n{name}")),
                    ServerAction::Cut => server.cut_watches(),
                    ServerAction::Compact => server.compact(),
                    ServerAction::Fail => {
                        let answer = Status::unavailable("down");
                        server.fault(Fault { path_contains: "configmaps", answer, retry_after_s: None });
                    }
                    ServerAction::Wait(ms) => env.sleep(Duration::from_millis(ms.into())).await,
                }
            }
            // Longer than any pause, and than any watch that has yet to fail.
            env.sleep(Duration::from_secs(7200)).await;
            prop_assert_eq!(held(&informer), server.list("configmaps"));
            prop_assert_eq!(told.lock().values().cloned().collect::<Vec<_>>(), server.list("configmaps"));
            env.drain().await;
            Ok(())
        })?;
    }
}
