//! What an etcd does to a server that depends on it, seen from outside: one clear line, and nothing else is lost.

use crate::bad_start::complaint;
use crate::{etcd, program};
use apiserver::Config;
use apiserver::storage::Storage;
use apiserver::storage::etcd::Etcd;
use client::Client;
use component_base::env::Env;
use component_base::etcd_process::{EtcdOptions, EtcdProcess};
use e2e::apiserver::ApiServer;
use e2e::ask::{Answer, Ask};
use e2e::processes::free_ports;
use e2e::store::Store;
use orrery::up::data_dir::DataDir;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn nobody_there_and_two_clusters() {
    let directory = tempfile::tempdir().unwrap();
    let first = etcd(&directory.path().join("first"));
    let mut second = etcd(&directory.path().join("second"));
    let [one, other] = [&first, &second].map(|etcd| etcd.urls().remove(0));
    let up = |urls: &str| {
        let line = format!("up --store=etcd --data-dir=data --port={} --etcd-endpoints={urls}", free_ports());
        complaint(directory.path(), &line)
    };
    let ended = "orrery: apiserver ended (exit status: 1): ";
    let expected = format!("{ended}--etcd-servers: {one} and {other} belong to different clusters");
    assert_eq!(up(&format!("{one},{other}")), (1, expected));
    second.kill(0);
    let (code, said) = up(&other);
    assert_eq!(code, 1);
    assert!(said.starts_with(&format!("{ended}etcd does not answer at {other}: ")), "{said}");
}

async fn of(client: &Client, ask: Ask) -> Answer {
    ask.of(client).await.expect("the server is there")
}

fn config_map(name: &str, text: &str) -> Ask {
    Ask::post(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {"text": text}}).to_string().as_str())
}

/// Lines of the server's log with these words.
fn told(server: &ApiServer, words: &str) -> Vec<String> {
    let log = fs::read_to_string(&server.log).unwrap();
    log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_full_database_takes_deletions_only() {
    let directory = tempfile::tempdir().unwrap();
    let options = EtcdOptions { quota_bytes: 6 << 20, ..EtcdOptions::default() };
    let etcd = EtcdProcess::start(directory.path(), &options);
    let server = ApiServer::start(program(), directory.path(), Store::Etcd(&etcd)).await;
    let admin = server.client(&server.admin);
    let text = "x".repeat(900 << 10);
    let mut stored = 0;
    let refused = loop {
        let answer = of(&admin, config_map(&format!("m{stored}"), &text)).await;
        if answer.code != 201 {
            break answer;
        }
        stored += 1;
    };
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!("etcdserver: mvcc: database space exceeded")));
    assert!(stored > 0);
    for number in 0..stored {
        let path = format!("{CONFIG_MAPS}/m{number}");
        assert_eq!(of(&admin, Ask::get(&path)).await.code, 200);
        assert_eq!(of(&admin, Ask::delete(&path, "")).await.code, 200);
    }
    let lines = told(&server, "etcd takes no more writes");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("NOSPACE"), "{lines:?}");
}

#[tokio::test]
async fn an_older_snapshot_ends_the_server_and_a_new_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut etcd = etcd(directory.path());
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let mut server = ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), &[]).await;
    let admin = server.client(&server.admin);
    assert_eq!(of(&admin, config_map("old", "1")).await.code, 201);
    etcd.kill(0);
    let (data, copy) = (etcd.data_dir(0).to_owned(), directory.path().join("copy"));
    copy_tree(&data, &copy);
    etcd.restart(0);
    e2e::wait::until_async("etcd takes writes again", async || {
        config_map("new", "1").of(&admin).await.is_ok_and(|answer| answer.code == 201)
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
    assert_eq!(of(&admin, Ask::get(&format!("{CONFIG_MAPS}/old"))).await.code, 200);
    assert_eq!(of(&admin, Ask::get(&format!("{CONFIG_MAPS}/new"))).await.code, 404);
}

fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn what_is_no_object_hides_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let etcd = etcd(directory.path());
    let server = ApiServer::start(program(), directory.path(), Store::Etcd(&etcd)).await;
    let admin = server.client(&server.admin);
    assert_eq!(of(&admin, config_map("good", "1")).await.code, 201);
    let env = Env::system();
    let mut options = Config::default().etcd;
    options.etcd_servers = etcd.urls();
    let strange = Etcd::open(&env, &options, &options.tls().unwrap()).await.unwrap();
    for key in ["/registry/configmaps/default/broken", "/registry/configmaps/stray"] {
        strange.create(key, "not json".into(), None).await.unwrap();
    }
    let listed = of(&admin, Ask::get("/api/v1/configmaps")).await;
    assert_eq!(listed.code, 200);
    let names: Vec<_> = listed.body["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["good"]);
    let broken = of(&admin, Ask::get(&format!("{CONFIG_MAPS}/broken"))).await;
    assert_eq!((broken.code, &broken.body["reason"]), (500, &json!("InternalError")));
    for key in ["/registry/configmaps/default/broken", "/registry/configmaps/stray"] {
        let lines = told(&server, &format!("key={key} "));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    assert_eq!(of(&admin, config_map("another", "1")).await.code, 201);
}

#[tokio::test]
async fn a_server_with_another_range_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let etcd = etcd(directory.path());
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let start =
        async |flags: &[&str]| ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), flags).await;
    let first = start(&["--advertise-address=10.0.0.1"]).await;
    let second = start(&["--advertise-address=10.0.0.2", "--service-cluster-ip-range=10.97.0.0/16"]).await;
    let words = "--service-cluster-ip-range is";
    assert_eq!(told(&first, words), [""; 0]);
    let lines = told(&second, words);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(r#"is 10.97.0.0/16 here, and the cluster was set up with ["10.96.0.0/16"]"#),
        "{lines:?}"
    );
    assert_eq!(told(&second, "address 10.96.0.1 of Service default/kubernetes is outside this server's").len(), 1);
}
