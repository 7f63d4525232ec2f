//! Tests a server whose etcd fails in different ways: it logs one clear line, and loses nothing.

use crate::bad_start::failure;
use crate::{etcd, program};
use apiserver::Config;
use client::{Client, Informer, Informers, ListOptions};
use component_base::env::Env;
use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use component_base_testing::test_needs;
use e2e::apiserver::ApiServer;
use e2e::processes::free_ports;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use e2e::tcp_proxy::TcpProxy;
use orrery::up::data_dir::DataDir;
use proto::kinds::api::core::v1::ConfigMap;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use storage::etcd::Etcd;
use storage::{RangeRequest, Storage};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn an_etcd_that_does_not_answer_and_two_clusters() {
    let directory = tempfile::tempdir().unwrap();
    let Some(first) = etcd(&directory.path().join("first")) else { return };
    let Some(mut second) = etcd(&directory.path().join("second")) else { return };
    let [one, other] = [&first, &second].map(|etcd| etcd.urls().remove(0));
    let up = |urls: &str| {
        let line = format!("up --store=etcd --data-dir=data --port={} --etcd-endpoints={urls}", free_ports());
        failure(directory.path(), &line)
    };
    let ended = "orrery: apiserver ended (exit status: 1): ";
    let expected = format!("{ended}--etcd-servers: {one} and {other} belong to different clusters");
    assert_eq!(up(&format!("{one},{other}")), (1, expected));
    second.kill(0);
    let (code, said) = up(&other);
    assert_eq!(code, 1);
    assert!(said.starts_with(&format!("{ended}etcd does not answer at {other}: ")), "{said}");
}

/// Starts a server whose etcd is behind a proxy of the test.
async fn start_behind_proxy(directory: &Path, etcd: &EtcdProcess) -> (TcpProxy, ApiServer) {
    let proxy = TcpProxy::start(socket(etcd));
    let url = format!("http://{}", proxy.address());
    let server = ApiServer::start(program(), directory, Store::EtcdAt(&url)).await;
    (proxy, server)
}

fn socket(etcd: &EtcdProcess) -> SocketAddr {
    etcd.urls()[0].strip_prefix("http://").unwrap().parse().unwrap()
}

/// Opens the store directly, without an API server.
async fn storage(etcd: &EtcdProcess) -> Arc<Etcd> {
    let mut options = Config::default().etcd;
    options.etcd_servers = etcd.urls();
    Etcd::open(&Env::system(), &options, &options.tls().unwrap()).await.unwrap()
}

async fn names(client: &Client) -> BTreeSet<String> {
    let listed = send(client, RawRequest::get(CONFIG_MAPS)).await;
    let items = listed.body["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Starts an informer of ConfigMaps.
async fn informer(client: &Client) -> Informer<ConfigMap> {
    let informers = Informers::new(client);
    let informer = informers.of_namespace::<ConfigMap>("default");
    informers.start();
    assert!(informers.synced().await);
    informer
}

/// Waits until an informer's cache has a ConfigMap.
async fn wait_for(informer: &Informer<ConfigMap>, name: &str) {
    e2e::wait::until_async(&format!("the informer sees {name}"), async || {
        tokio::task::yield_now().await;
        informer.lister().get("default", name).is_some()
    })
    .await;
}

async fn is_ready(client: &Client) -> bool {
    send(client, RawRequest::get("/readyz")).await.code == 200
}

async fn send(client: &Client, request: RawRequest) -> Answer {
    request.send(client).await.expect("the server is there")
}

fn config_map(name: &str, text: &str) -> RawRequest {
    RawRequest::post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {"text": text}}).to_string().as_str())
}

/// Returns the lines of the server's log that contain these words.
fn log_lines(server: &ApiServer, words: &str) -> Vec<String> {
    let log = fs::read_to_string(&server.log).unwrap();
    log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_slow_etcd_is_waited_for_and_a_hanging_one_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let (proxy, server) = start_behind_proxy(directory.path(), &etcd).await;
    let admin = server.client(&server.admin);
    assert_eq!(send(&admin, config_map("before", "1")).await.code, 201);
    let informer = informer(&admin).await;

    let key = b"/registry/configmaps/default/slow";
    proxy.hold_at(key);
    let release = e2e::wait::until_async("the write waits", async || {
        tokio::task::yield_now().await;
        let is_held = proxy.holds(key);
        if is_held {
            proxy.release();
        }
        is_held
    });
    let (written, ()) = tokio::join!(send(&admin, config_map("slow", "1")), release);
    assert_eq!(written.code, 201);

    proxy.hold_at(b"/registry/configmaps/default/lost");
    let (lost, read) = tokio::join!(
        send(&admin, config_map("lost", "1")),
        send(&admin, RawRequest::get(&format!("{CONFIG_MAPS}?resourceVersion=0")))
    );
    assert_eq!((lost.code, &lost.body["reason"]), (504, &json!("Timeout")), "it may have been written or not");
    assert_eq!(lost.body["message"], "Timeout: request did not complete within the allotted timeout");
    assert_eq!(read.code, 200, "what the cache may answer, it does");
    let refused = send(&admin, config_map("refused", "1")).await;
    assert_eq!((refused.code, &refused.body["reason"]), (503, &json!("ServiceUnavailable")), "it was not tried");
    assert!(refused.body["message"].as_str().unwrap().contains("no answer within 3 s"), "{}", refused.body["message"]);
    assert_eq!(send(&admin, RawRequest::get("/readyz/etcd")).await.code, 500);
    assert!(!is_ready(&admin).await);

    proxy.release();
    e2e::wait::until_async("the server is ready again", async || is_ready(&admin).await).await;
    assert_eq!(send(&admin, config_map("after", "1")).await.code, 201);
    let mut there = names(&admin).await;
    there.remove("lost");
    assert_eq!(there, ["after", "before", "slow"].map(str::to_owned).into());
    wait_for(&informer, "after").await;
    assert_eq!(log_lines(&server, "etcd does not answer").len(), 1);
    assert_eq!(log_lines(&server, "etcd answers again").len(), 1);
}

#[tokio::test]
async fn an_etcd_of_another_cluster_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let [Some(own), Some(other)] = ["own", "other"].map(|name| etcd(&directory.path().join(name))) else { return };
    let (proxy, server) = start_behind_proxy(directory.path(), &own).await;
    let admin = server.client(&server.admin);
    assert_eq!(send(&admin, config_map("before", "1")).await.code, 201);
    proxy.redirect_to(socket(&other));
    let why = "belongs to another cluster than the one that this server began with";
    e2e::wait::until_async("the server notices", async || {
        let answer = send(&admin, config_map("between", "1")).await;
        assert_ne!(answer.code, 201);
        answer.code == 503 && answer.body["message"].as_str().unwrap().contains(why)
    })
    .await;
    assert_eq!(log_lines(&server, why).iter().filter(|line| line.contains("it is not asked any more")).count(), 1);
    let direct = storage(&other).await;
    assert_eq!(direct.range(RangeRequest::prefix("/")).await.unwrap().entries, []);
    proxy.redirect_to(socket(&own));
    e2e::wait::until_async("the server is ready again", async || is_ready(&admin).await).await;
    assert_eq!(send(&admin, config_map("after", "1")).await.code, 201);
    assert_eq!(names(&admin).await, ["after", "before"].map(str::to_owned).into());
}

#[tokio::test]
async fn an_external_compaction_loses_only_history() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let (proxy, server) = start_behind_proxy(directory.path(), &etcd).await;
    let admin = server.client(&server.admin);
    for name in ["a", "b", "c"] {
        assert_eq!(send(&admin, config_map(name, "1")).await.code, 201);
    }
    let informer = informer(&admin).await;
    let page = send(&admin, RawRequest::get(&format!("{CONFIG_MAPS}?limit=1"))).await.body;
    let [version, token] = ["resourceVersion", "continue"].map(|field| page["metadata"][field].as_str().unwrap());

    // While the server receives nothing from etcd, an object is deleted, another is created, and etcd is compacted.
    let direct = storage(&etcd).await;
    proxy.hold();
    let b = direct.get("/registry/configmaps/default/b").await.unwrap().entry.unwrap();
    let text = String::from_utf8(b.value.to_vec()).unwrap();
    let d = text.replace(r#""name":"b""#, r#""name":"d""#);
    direct.create("/registry/configmaps/default/d", d.into(), None).await.unwrap();
    direct.delete(&b.key, b.mod_revision).await.unwrap();
    direct.compact(direct.current_revision().await.unwrap()).await.unwrap();
    proxy.cut();
    proxy.release();

    wait_for(&informer, "d").await;
    assert_eq!(send(&admin, config_map("e", "1")).await.code, 201);
    wait_for(&informer, "e").await;
    assert!(informer.lister().get("default", "b").is_none());
    assert_eq!(names(&admin).await, ["a", "c", "d", "e"].map(str::to_owned).into());

    let next = |token: &str| RawRequest::get(&format!("{CONFIG_MAPS}?limit=1&continue={token}"));
    let expired = send(&admin, next(token)).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    let fresh = expired.body["metadata"]["continue"].as_str().unwrap();
    let resumed = send(&admin, next(fresh)).await.body;
    assert_eq!(resumed["items"][0]["metadata"]["name"], "c", "it goes on behind a, at the newest revision");
    let api = admin.api::<ConfigMap>("default");
    let from = ListOptions { resource_version: version.to_owned(), ..ListOptions::default() };
    let gone = match api.watch(&from).await {
        Ok(mut watch) => watch.next().await.unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert!(gone.is_gone(), "{gone}");
}

#[tokio::test]
async fn a_full_database_takes_deletions_only() {
    if !test_needs::etcd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = EtcdOptions { quota_bytes: 6 << 20, ..EtcdOptions::default() };
    let etcd = EtcdProcess::start(directory.path(), &options);
    let server = ApiServer::start(program(), directory.path(), Store::Etcd(&etcd)).await;
    let admin = server.client(&server.admin);
    let text = "x".repeat(900 << 10);
    let mut stored = 0;
    let refused = loop {
        let answer = send(&admin, config_map(&format!("m{stored}"), &text)).await;
        if answer.code != 201 {
            break answer;
        }
        stored += 1;
    };
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!("etcdserver: mvcc: database space exceeded")));
    assert!(stored > 0);
    for number in 0..stored {
        let path = format!("{CONFIG_MAPS}/m{number}");
        assert_eq!(send(&admin, RawRequest::get(&path)).await.code, 200);
        assert_eq!(send(&admin, RawRequest::delete(&path, "")).await.code, 200);
    }
    let lines = log_lines(&server, "etcd takes no more writes");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("NOSPACE"), "{lines:?}");
}

#[tokio::test]
async fn a_restored_older_snapshot_ends_the_server_and_a_new_one_starts() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut etcd) = etcd(directory.path()) else { return };
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let mut server = ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), &[]).await;
    let admin = server.client(&server.admin);
    assert_eq!(send(&admin, config_map("old", "1")).await.code, 201);
    etcd.kill(0);
    let (data, copy) = (etcd.data_dir(0).to_owned(), directory.path().join("copy"));
    copy_tree(&data, &copy);
    etcd.restart(0);
    e2e::wait::until_async("etcd takes writes again", async || {
        config_map("new", "1").send(&admin).await.is_ok_and(|answer| answer.code == 201)
    })
    .await;
    etcd.kill(0);
    fs::remove_dir_all(&data).unwrap();
    copy_tree(&copy, &data);
    etcd.restart(0);
    assert_eq!(server.wait().code(), Some(1));
    let log = fs::read_to_string(&server.log).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("apiserver: the store has stopped: etcd at http://"), "{last}");
    assert!(last.contains("it was restored from an older snapshot"), "{last}");
    let again = ApiServer::start_in(program(), data_dir, Store::Etcd(&etcd), &[]).await;
    let admin = again.client(&again.admin);
    assert_eq!(send(&admin, RawRequest::get(&format!("{CONFIG_MAPS}/old"))).await.code, 200);
    assert_eq!(send(&admin, RawRequest::get(&format!("{CONFIG_MAPS}/new"))).await.code, 404);
}

fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn entries_that_are_no_objects_hide_no_other_objects() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let server = ApiServer::start(program(), directory.path(), Store::Etcd(&etcd)).await;
    let admin = server.client(&server.admin);
    assert_eq!(send(&admin, config_map("good", "1")).await.code, 201);
    let direct = storage(&etcd).await;
    for key in ["/registry/configmaps/default/broken", "/registry/configmaps/stray"] {
        direct.create(key, "not json".into(), None).await.unwrap();
    }
    let listed = send(&admin, RawRequest::get("/api/v1/configmaps")).await;
    assert_eq!(listed.code, 200);
    let items = listed.body["items"].as_array().unwrap().iter();
    let ours = items.filter(|item| item["metadata"]["namespace"] != "kube-system");
    let names: Vec<_> = ours.map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["good"]);
    let broken = send(&admin, RawRequest::get(&format!("{CONFIG_MAPS}/broken"))).await;
    assert_eq!((broken.code, &broken.body["reason"]), (500, &json!("InternalError")));
    for key in ["/registry/configmaps/default/broken", "/registry/configmaps/stray"] {
        let lines = log_lines(&server, &format!("key={key} "));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    assert_eq!(send(&admin, config_map("another", "1")).await.code, 201);
}

#[tokio::test]
async fn a_server_logs_that_its_service_range_differs() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let start =
        async |flags: &[&str]| ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), flags).await;
    let first = start(&["--advertise-address=10.0.0.1"]).await;
    let second = start(&["--advertise-address=10.0.0.2", "--service-cluster-ip-range=10.97.0.0/16"]).await;
    let words = "--service-cluster-ip-range is";
    assert_eq!(log_lines(&first, words), [""; 0]);
    let lines = log_lines(&second, words);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(r#"is 10.97.0.0/16 here, and the cluster was set up with ["10.96.0.0/16"]"#),
        "{lines:?}"
    );
    // The cluster's ServiceCIDR decides, so the address of `kubernetes` is in range on both servers.
    assert_eq!(log_lines(&second, "of Service default/kubernetes is outside"), [""; 0]);
}
