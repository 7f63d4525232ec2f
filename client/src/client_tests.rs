//! Tests of requests as the server receives them: identities, retries, tokens, and applied plans.

use crate::client::Client;
use crate::controller::run_workers;
use crate::error::Error;
use crate::events::{EventSpec, EventType, Recorder, Regarding};
use crate::informers::Informers;
use crate::leader::{LeaderElection, identity};
use crate::link::Link;
use crate::options::{DeleteOptions, ListOptions, Patch, PatchOptions};
use crate::plan::{Action, Plan, apply};
use crate::service_account_tokens::ServiceAccountTokens;
use crate::token::FixedToken;
use crate::work_queue::WorkQueue;
use client_testing::{FakeServer, Fault, Recorded};
use component_base::env::Env;
use component_base::http::{Body, HttpService};
use component_base::kubeconfig::Connection;
use component_base::network::{ConnectionInfo, Network};
use component_base_testing::fixtures;
use proto::Status;
use proto::gvk::Gvr;
use proto::kinds::Kind;
use proto::kinds::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn server() -> (Env, FakeServer, Client) {
    let env = Env::simulated(3);
    let server = FakeServer::new(&env);
    let client = Client::from_service(&env, server.service(), "test/1.0");
    (env, server, client)
}

fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.into());
    config.metadata.namespace = Some("ns".into());
    config
}

#[tokio::test(start_paused = true)]
async fn verbs_go_where_kubernetes_has_them() {
    let (_, server, client) = server();
    let api = client.api::<ConfigMap>("ns");
    let created = api.create(&config("a")).await.unwrap();
    assert!(api.create(&config("a")).await.unwrap_err().is_already_exists());
    // An API of all namespaces writes to the object's own namespace.
    let mut changed = client.api::<ConfigMap>("").update(&created).await.unwrap();
    assert!(api.update(&created).await.unwrap_err().is_conflict());
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    changed = api.update(&changed).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"k": null, "l": "w"}}));
    let patched = api.patch("a", &patch, &PatchOptions::default()).await.unwrap();
    assert_eq!(patched.data.unwrap(), [("l".to_owned(), "w".to_owned())].into());
    assert_ne!(patched.metadata.resource_version, changed.metadata.resource_version);
    let apply = Patch::Apply { value: json!({"data": {"m": "x"}}), manager: "me".into(), force: true };
    api.patch("a", &apply, &PatchOptions::default()).await.unwrap();
    api.delete("a", &DeleteOptions::with_uid("u")).await.unwrap();
    assert!(api.get("a").await.unwrap_err().is_not_found());
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "POST /api/v1/namespaces/ns/configmaps",
            "POST /api/v1/namespaces/ns/configmaps",
            "PUT /api/v1/namespaces/ns/configmaps/a",
            "PUT /api/v1/namespaces/ns/configmaps/a",
            "PUT /api/v1/namespaces/ns/configmaps/a",
            "PATCH /api/v1/namespaces/ns/configmaps/a",
            "PATCH /api/v1/namespaces/ns/configmaps/a?fieldManager=me&force=true",
            "DELETE /api/v1/namespaces/ns/configmaps/a",
            "GET /api/v1/namespaces/ns/configmaps/a",
        ]
    );
    assert_eq!(requests[5].headers["content-type"], "application/merge-patch+json");
    assert_eq!(requests[6].headers["content-type"], "application/apply-patch+yaml");
    let body: Value = serde_json::from_slice(&requests[7].body).unwrap();
    assert_eq!(body["preconditions"], json!({"uid": "u"}));
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&body["kind"], &body["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

/// Thousands of requests wait at once, and each moves with the task that sends it.
#[tokio::test]
async fn a_request_carries_no_room_for_what_few_need() {
    let (_, _, client) = server();
    let call = crate::request::Call::new(http::Method::GET, "/");
    let bytes = size_of_val(&client.call(&call));
    assert!(bytes < 3 << 10, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages() {
    let (_, server, client) = server();
    for n in 0..5 {
        server.put("configmaps", config(&format!("c{n}")).encode());
    }
    let api = client.api::<ConfigMap>("ns");
    let mut options = ListOptions { limit: 2, ..ListOptions::labels("app in (a,b)") };
    let mut names = Vec::new();
    loop {
        let page = api.list(&options).await.unwrap();
        names.extend(page.items.iter().map(|item| item.name().to_owned()));
        options.continue_token = page.metadata.continue_token;
        if options.continue_token.is_empty() {
            assert_eq!(page.metadata.resource_version, "5");
            break;
        }
    }
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"]);
    assert_eq!(server.count("limit=2"), 3);
    assert_eq!(server.count("labelSelector=app%20in%20%28a,b%29"), 3);
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_its_identity() {
    let (_, server, client) = server();
    let node = client.impersonating("system:node:n1", &["system:nodes", "system:authenticated"]);
    let _ = node.api::<ConfigMap>("ns").get("a").await;
    let _ = client.with_user_agent("other/2").api::<ConfigMap>("ns").get("a").await;
    let requests = server.requests();
    let groups: Vec<_> = requests[0].headers.get_all("impersonate-group").iter().collect();
    assert_eq!(requests[0].headers["impersonate-user"], "system:node:n1");
    assert_eq!(groups, ["system:nodes", "system:authenticated"]);
    assert_eq!(requests[0].headers["user-agent"], "test/1.0");
    assert_eq!(requests[1].headers["user-agent"], "other/2");
    assert!(!requests[1].headers.contains_key("impersonate-user"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_is_asked_again_and_others_are_not() {
    let (env, server, client) = server();
    let api = client.api::<ConfigMap>("ns");
    for _ in 0..2 {
        let answer = Status::too_many_requests("later", 3);
        server.fault(Fault { path_contains: "POST", answer, retry_after_s: Some(3) });
    }
    let began = env.now();
    api.create(&config("a")).await.unwrap();
    assert_eq!(env.now().duration_since(began), Duration::from_secs(6));
    server.fault(Fault { path_contains: "POST", answer: Status::internal("broken"), retry_after_s: None });
    assert_eq!(api.create(&config("b")).await.unwrap_err().code(), 500);
    for _ in 0..11 {
        let answer = Status::too_many_requests("later", 1);
        server.fault(Fault { path_contains: "POST", answer, retry_after_s: Some(1) });
    }
    assert!(api.create(&config("b")).await.unwrap_err().is_too_many_requests());
}

#[tokio::test(start_paused = true)]
async fn requests_keep_to_their_rate() {
    let (env, _, client) = server();
    let client = client.with_rate_limit(10.0, 5);
    let began = env.now();
    for _ in 0..15 {
        let _ = client.api::<ConfigMap>("ns").get("a").await;
    }
    assert_eq!(env.now().duration_since(began), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn in_process_servers_are_found_by_authority_and_may_come_and_go() {
    let (env, server, _) = server();
    let Network::InProcess(registry) = env.network() else { panic!("simulations have no sockets") };
    let connection = Connection {
        server: "https://apiserver:6443/prefix/".into(),
        token: Some("t".into()),
        ..Connection::default()
    };
    let client = Client::connect(&env, &connection, "test").unwrap();
    let api = client.api::<ConfigMap>("ns");
    let refused = api.get("a").await.unwrap_err();
    assert!(matches!(refused, Error::Transport(_)));
    assert_eq!(
        refused.to_string(),
        "GET /prefix/api/v1/namespaces/ns/configmaps/a: connect apiserver:6443: connection refused"
    );
    registry.register("apiserver:6443", server.service());
    let _ = api.get("a").await;
    assert_eq!(server.requests()[0].headers["authorization"], "Bearer t");
    registry.remove("apiserver:6443");
    assert!(matches!(api.get("a").await, Err(Error::Transport(_))));
    assert!(Client::connect(&env, &Connection { server: "nowhere".into(), ..connection }, "test").is_err());
}

/// A server that gets a certificate would ignore the token.
#[tokio::test(start_paused = true)]
async fn with_a_token_the_certificate_is_not_shown() {
    let (env, _, _) = server();
    let Network::InProcess(registry) = env.network() else { panic!("simulations have no sockets") };
    let service = tower::service_fn(|request: http::Request<Body>| async move {
        let peer = request.extensions().get::<ConnectionInfo>().unwrap();
        let shown = json!({"data": {"certificates": peer.peer_certificates.len().to_string()}}).to_string();
        Ok(http::Response::new(Body::from(shown)))
    });
    registry.register("apiserver:6443", HttpService::new(service));
    let connection = fixtures::connection("https://apiserver:6443", "system:kube-controller-manager");
    let client = Client::connect(&env, &connection, "test").unwrap();
    let certificates = async |client: &Client| {
        client.api::<ConfigMap>("ns").get("a").await.unwrap().data.unwrap()["certificates"].clone()
    };
    assert_eq!(certificates(&client).await, "1");
    assert_eq!(certificates(&client.with_token_source(Arc::new(FixedToken::new("t")))).await, "0");
}

#[tokio::test(start_paused = true)]
async fn service_account_tokens_are_requested_once_and_again_at_four_fifths_of_their_life() {
    let (env, server, client) = server();
    let tokens = Arc::new(ServiceAccountTokens::new(&client, "kube-system", "job-controller"));
    let account = client.with_token_source(tokens);
    let api = account.api::<ConfigMap>("ns");
    server.fault(Fault {
        path_contains: "job-controller/token",
        answer: Status::not_found("", "serviceaccounts", "job-controller"),
        retry_after_s: None,
    });
    let _ = api.get("a").await;
    assert!(server.get("serviceaccounts", "kube-system/job-controller").is_some());
    let _ = api.get("a").await;
    let requested = || server.count("/api/v1/namespaces/kube-system/serviceaccounts/job-controller/token");
    assert_eq!(requested(), 2);
    env.sleep(Duration::from_secs(2879)).await;
    let _ = api.get("a").await;
    assert_eq!(requested(), 2);
    env.sleep(Duration::from_secs(2)).await;
    let _ = api.get("a").await;
    assert_eq!(requested(), 3);
    let used: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("GET"))
        .map(|request| request.headers["authorization"].to_str().unwrap().to_owned())
        .collect();
    assert_eq!((&used[0], &used[1]), (&used[2], &used[0]));
    assert_ne!(used[3], used[0]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_the_server_refuses_is_replaced_once() {
    let (_, server, client) = server();
    let account = client.with_token_source(Arc::new(ServiceAccountTokens::new(&client, "ns", "sa")));
    server.put("configmaps", config("a").encode());
    let unauthorized = || Fault { path_contains: "configmaps", answer: Status::unauthorized(), retry_after_s: None };
    server.fault(unauthorized());
    account.api::<ConfigMap>("ns").get("a").await.unwrap();
    assert_eq!(server.count("/token"), 2);
    server.fault(unauthorized());
    server.fault(unauthorized());
    assert!(account.api::<ConfigMap>("ns").get("a").await.unwrap_err().is_unauthorized());
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_carried_out_in_order_up_to_the_first_failure() {
    let (env, server, client) = server();
    let recorder = Recorder::new(&client, "test", "");
    let event = EventSpec::new(&Regarding::of(&config("a")), EventType::Normal, "Done", "done");
    let mut plan = Plan {
        actions: vec![
            Action::create(&config("a")),
            Action::patch::<ConfigMap>("ns", "a", Patch::Merge(json!({"data": {"k": "v"}}))),
            Action::Event(event),
            Action::delete::<ConfigMap>("ns", "a", DeleteOptions::default()),
        ],
        requeue_after: None,
    };
    let answers = apply(&client, &recorder, &plan).await.unwrap();
    assert_eq!(answers[1]["data"], json!({"k": "v"}));
    assert_eq!(answers[2..], [Value::Null, Value::Null]);
    plan.actions = vec![
        Action::create(&config("b")),
        Action::delete::<ConfigMap>("ns", "missing", DeleteOptions::default()),
        Action::create(&config("c")),
    ];
    let error = apply(&client, &recorder, &plan).await.unwrap_err();
    assert_eq!(error.done, 1);
    assert_eq!(error.to_string(), "delete configmaps ns/missing: configmaps \"missing\" not found");
    assert!(server.get("configmaps", "ns/b").is_some() && server.get("configmaps", "ns/c").is_none());
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(server.list("events").len(), 1);
    env.drain().await;
}

/// Everybody who writes as this client, or as one that is made from it, forgets.
#[tokio::test(start_paused = true)]
async fn a_client_without_events_writes_none() {
    let (env, server, client) = server();
    let recorder = Recorder::new(&client.without_events().impersonating("somebody", &[]), "test", "");
    let agents = Recorder::of_agents(&client.without_events(), "kubelet", 2, 10);
    for recorder in [&recorder, &agents, &agents.on_behalf_of(&client, "host-1")] {
        recorder.event(&Regarding::of(&config("web")), EventType::Normal, "Done", "done");
        recorder.record_shared(EventSpec::new(&Regarding::default(), EventType::Normal, "Done", "done"));
        recorder.send_held();
    }
    env.sleep(Duration::from_secs(15)).await;
    assert!(server.list("events").is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_are_written_counted_and_survive_a_server_that_is_away() {
    let (env, server, _) = server();
    let Network::InProcess(registry) = env.network() else { panic!("simulations have no sockets") };
    let connection = Connection { server: "https://apiserver:6443".into(), ..Connection::default() };
    let client = Client::connect(&env, &connection, "test").unwrap();
    let recorder = Recorder::new(&client, "scheduler", "host-1");
    let mut pod = Regarding::of(&config("web"));
    pod.field_path = "spec.containers{web}".into();
    recorder.event(&pod, EventType::Warning, "Failed", "it failed");
    env.sleep(Duration::from_secs(15)).await;
    registry.register("apiserver:6443", server.service());
    env.sleep(Duration::from_secs(15)).await;
    recorder.event(&pod, EventType::Warning, "Failed", "it failed");
    env.sleep(Duration::from_secs(1)).await;
    let events = server.list("events");
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."));
    for (pointer, expected) in [
        ("/metadata/namespace", json!("ns")),
        ("/involvedObject/kind", json!("ConfigMap")),
        ("/involvedObject/fieldPath", json!("spec.containers{web}")),
        ("/type", json!("Warning")),
        ("/reason", json!("Failed")),
        ("/count", json!(2)),
        ("/firstTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/lastTimestamp", json!("2026-01-01T00:00:30Z")),
        ("/source", json!({"component": "scheduler", "host": "host-1"})),
        ("/reportingComponent", json!("scheduler")),
    ] {
        assert_eq!(event.pointer(pointer), Some(&expected), "{pointer}");
    }
    // The event has expired, and a new one continues its count.
    server.remove("events", &format!("ns/{}", event["metadata"]["name"].as_str().unwrap()));
    recorder.event(&pod, EventType::Warning, "Failed", "it failed");
    // The event is still queued when shutdown begins, and is written all the same.
    env.drain().await;
    assert_eq!(server.list("events")[0]["count"], 3);
}

/// What kube-scheduler writes about a pod that does not fit, five times.
#[tokio::test(start_paused = true)]
async fn repeats_of_a_recorder_of_series_are_one_event_with_a_series() {
    let (env, server, client) = server();
    let recorder = Recorder::of_series(&client, "default-scheduler");
    let (about, related) = (Regarding::of(&config("web")), Regarding::of(&config("other")));
    let spec = EventSpec::new(&about, EventType::Warning, "FailedScheduling", "it does not fit").action("Scheduling");
    let spec = EventSpec { related: Some(related), ..spec };
    recorder.record(spec.clone());
    env.sleep(Duration::from_secs(1)).await;
    let mut expected = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-localhost",
        "action": "Scheduling", "reason": "FailedScheduling", "note": "it does not fit", "type": "Warning",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "web"},
        "related": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "other"},
    });
    let written = || {
        let mut events = server.list("events.events.k8s.io");
        assert_eq!(events.len(), 1);
        let name = events[0].as_object_mut().unwrap().remove("metadata").unwrap()["name"].clone();
        (events.remove(0), name.as_str().unwrap().to_owned())
    };
    assert_eq!(written().0, expected);
    (0..4).for_each(|_| recorder.record(spec.clone()));
    env.sleep(Duration::from_secs(1)).await;
    expected["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
    assert_eq!(written().0, expected);
    // The event is gone when its series has ended, and is created again with the last number.
    server.remove("events.events.k8s.io", &format!("ns/{}", written().1));
    env.sleep(Duration::from_secs(720)).await;
    expected["series"]["count"] = json!(5);
    assert_eq!(written().0, expected);
    env.drain().await;
}

/// Two agents share a queue; the link of the first can be cut.
fn two_agents(client: &Client) -> (Link, Recorder, Recorder) {
    let (fleet, link) = (Recorder::of_agents(client, "kubelet", 1, 10), Link::default());
    let lost = fleet.on_behalf_of(&client.over_link(&link), "lost");
    (link, lost, fleet.on_behalf_of(client, "other"))
}

fn note(recorder: &Recorder, reason: &str) {
    recorder.event(&Regarding::of(&config("web")), EventType::Normal, reason, reason);
}

/// Returns the reasons of all events, each with its count.
fn reasons(server: &FakeServer) -> Vec<String> {
    let events = server.list("events");
    let mut reasons: Vec<String> =
        events.iter().map(|event| format!("{} {}", event["reason"].as_str().unwrap(), event["count"])).collect();
    reasons.sort();
    reasons
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_cut_off_holds_up_no_events_but_its_own() {
    let (env, server, client) = server();
    let (link, lost, other) = two_agents(&client);
    note(&lost, "Queued");
    link.set_cut(true);
    note(&lost, "Held");
    note(&other, "Seen");
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(reasons(&server), ["Seen 1"]);
    link.set_cut(false);
    lost.send_held();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(reasons(&server), ["Held 1", "Queued 1", "Seen 1"]);
    env.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_agent_is_cut_off_meanwhile_holds_up_no_others() {
    let (env, server, client) = server();
    let (link, lost, other) = two_agents(&client);
    let answer = Status::too_many_requests("later", 3);
    server.fault(Fault { path_contains: "events", answer, retry_after_s: Some(3) });
    note(&lost, "Tried");
    env.sleep(Duration::from_secs(1)).await;
    link.set_cut(true);
    note(&lost, "Held");
    note(&other, "Seen");
    env.sleep(Duration::from_secs(15)).await;
    assert_eq!(reasons(&server), ["Seen 1"]);
    env.sleep(Duration::from_secs(600)).await;
    link.set_cut(false);
    lost.send_held();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(reasons(&server), ["Held 1", "Seen 1", "Tried 1"]);
    env.drain().await;
}

/// Returns every background request of an hour with faults, with its time.
fn an_hour(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(seed);
        let began = env.now();
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let informers = Informers::new(&client);
        let queue = WorkQueue::new(&env, "test");
        let ready = queue.clone();
        informers.of::<ConfigMap>().on_event(move |event| ready.add(event.object().key()));
        informers.start();
        let recorder = Recorder::new(&client, "test", "");
        let (leading, recorder) = (env.clone(), recorder.clone());
        let writer = client.clone();
        env.spawn(async move {
            let election = LeaderElection::new("test", "ns", &identity(&leading, "host"));
            let lead = move |env: Env| async move {
                run_workers(&env, "test", queue, 3, move |key| {
                    recorder.event(&Regarding::of(&config(&key)), EventType::Normal, "Seen", key.clone());
                    let writer = writer.clone();
                    async move { Ok(writer.api::<ConfigMap>("ns").create(&config("copy")).await.map(drop)?) }
                })
                .await;
            };
            election.run(&leading, &client, lead).await.expect("faults are short");
        });
        for n in 0..60 {
            env.sleep(Duration::from_secs(60)).await;
            server.put("configmaps", config(&format!("c{}", n % 7)).encode());
            match n % 4 {
                0 => server.cut_watches(),
                1 => server.compact(),
                2 => server.fault(Fault { path_contains: "", answer: Status::internal("down"), retry_after_s: None }),
                _ => {}
            }
        }
        env.drain().await;
        let line = |r: &Recorded| format!("{:?} {} {:?}", r.at.duration_since(began), r.line, r.body);
        server.requests().iter().map(line).collect()
    })
}

#[test]
fn the_same_seed_asks_the_same_at_the_same_time() {
    let first = an_hour(1);
    assert!(first.len() > 1000, "{}", first.len());
    assert_eq!(first, an_hour(1));
    assert_ne!(first, an_hour(2));
}

#[tokio::test(start_paused = true)]
async fn trees_have_the_same_verbs() {
    let (_, server, client) = server();
    let api = client.dynamic(&Gvr::new("example.org", "v1", "widgets"), "ns");
    api.create(&json!({"metadata": {"name": "a"}, "spec": 1})).await.unwrap();
    assert_eq!(api.get("a").await.unwrap()["spec"], 1);
    assert_eq!(api.list(&ListOptions::default()).await.unwrap().items.len(), 1);
    assert!(matches!(api.update(&json!({"metadata": {}})).await, Err(Error::Decode(_))));
    assert_eq!(server.requests()[0].line, "POST /apis/example.org/v1/namespaces/ns/widgets");
}
