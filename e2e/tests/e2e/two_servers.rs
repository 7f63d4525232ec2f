//! Tests two API servers on one etcd: each reads the other's writes, nothing is allocated twice, and each works alone.

use crate::{etcd, program};
use client::Client;
use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use component_base_testing::test_needs;
use e2e::apiserver::ApiServer;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use futures::future::join_all;
use orrery::up::data_dir::DataDir;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Starts two servers with the same certificates on their own ports.
async fn pair(directory: &Path, etcd: &EtcdProcess, flags: &[&str]) -> [ApiServer; 2] {
    let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
    let start = async |address: &str| {
        let flags = [&[address], flags].concat();
        ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(etcd), &flags).await
    };
    [start("--advertise-address=10.0.0.1").await, start("--advertise-address=10.0.0.2").await]
}

/// Sends a request. Returns the code and the body of the answer; the code is 0 if there was no answer.
async fn send(client: &Client, request: RawRequest) -> (u16, Value) {
    request.send(client).await.map_or((0, Value::Null), |answer| (answer.code, answer.body))
}

fn config_map(name: &str) -> RawRequest {
    RawRequest::post(CONFIG_MAPS, json!({"metadata": {"name": name}}).to_string().as_str())
}

/// Creates a ConfigMap, and retries like a client after a lost answer or 429.
async fn store(client: &Client, name: &str) {
    let is_stored = async || matches!(send(client, config_map(name)).await.0, 201 | 409);
    e2e::wait::until_async(&format!("{name} is stored"), is_stored).await;
}

async fn addresses(client: &Client) -> Vec<String> {
    let subset = send(client, RawRequest::get(ENDPOINTS)).await.1["subsets"].clone();
    let subsets = subset.as_array().cloned().unwrap_or_default();
    let all = subsets.iter().flat_map(|subset| subset["addresses"].as_array().cloned().unwrap_or_default());
    let mut all: Vec<String> = all.map(|address| address["ip"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn two_servers_are_one_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let flags = ["--service-cluster-ip-range=10.96.0.0/26,fd00::/122", "--service-node-port-range=30000-30049"];
    let [mut first, second] = pair(directory.path(), &etcd, &flags).await;
    let clients = [first.client(&first.admin), second.client(&second.admin)];

    for turn in 0..40 {
        let (writer, reader) = (&clients[turn % 2], &clients[(turn + 1) % 2]);
        let name = format!("m{turn}");
        assert_eq!(send(writer, config_map(&name)).await.0, 201);
        assert_eq!(send(reader, RawRequest::get(&format!("{CONFIG_MAPS}/{name}"))).await.0, 200);
        let listed = send(reader, RawRequest::get(CONFIG_MAPS)).await.1;
        assert_eq!(listed["items"].as_array().unwrap().len(), turn + 1);
        assert_eq!(send(reader, config_map(&name)).await.0, 409);
    }

    let services = (0..50).map(|number| {
        let body = json!({
            "metadata": {"name": format!("s{number}")},
            "spec": {"type": "NodePort", "ports": [{"port": 80}], "ipFamilyPolicy": "PreferDualStack"},
        });
        let client = &clients[number % 2];
        async move { send(client, RawRequest::post(SERVICES, body.to_string().as_str())).await }
    });
    let made = join_all(services).await;
    assert!(made.iter().all(|(code, _)| *code == 201), "{made:?}");
    for field in ["/spec/clusterIPs/0", "/spec/clusterIPs/1", "/spec/ports/0/nodePort"] {
        let given: BTreeSet<String> = made.iter().map(|(_, body)| body.pointer(field).unwrap().to_string()).collect();
        assert_eq!(given.len(), 50, "{field}");
    }

    assert_eq!(addresses(&clients[1]).await, ["10.0.0.1", "10.0.0.2"]);
    first.stop();
    assert_eq!(addresses(&clients[1]).await, ["10.0.0.2"]);
    let listed = send(&clients[1], RawRequest::get(SERVICES)).await.1;
    assert_eq!(listed["items"].as_array().unwrap().len(), 51);
}

#[tokio::test]
async fn servers_log_that_their_flags_differ() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let start =
        async |flags: &[&str]| ApiServer::start_in(program(), data_dir.clone(), Store::Etcd(&etcd), flags).await;
    let first = start(&["--advertise-address=10.0.0.1"]).await;
    let _same = start(&["--advertise-address=10.0.0.2", "--event-ttl=2h"]).await;
    let others = [
        "--advertise-address=10.0.0.3",
        "--authorization-mode=AlwaysAllow",
        "--service-node-port-range=31000-31999",
        "--service-account-issuer=https://other.example,https://kubernetes.default.svc",
    ];
    let third = start(&others).await;
    let log_lines = |server: &ApiServer, address: &str| -> Vec<String> {
        let log = std::fs::read_to_string(&server.log).unwrap();
        let words = format!("another API server, at {address}:");
        log.lines().filter(|line| line.contains(&words)).map(str::to_owned).collect()
    };
    // The first server logs the third one when it renews its own lease.
    for (server, others) in [(&third, ["10.0.0.1", "10.0.0.2"].as_slice()), (&first, &["10.0.0.3"])] {
        e2e::wait::until("the server has logged the others", || {
            others.iter().all(|other| !log_lines(server, other).is_empty())
        });
    }
    let line = log_lines(&first, "10.0.0.3").pop().unwrap();
    let (_, said) = line.split_once("has other flags: ").unwrap();
    assert_eq!(
        said,
        "--service-account-issuer is https://kubernetes.default.svc here and \
         https://other.example,https://kubernetes.default.svc there, --authorization-mode is Node,RBAC here and \
         AlwaysAllow there, --service-node-port-range is 30000-32767 here and 31000-31999 there. What a client gets \
         depends on whom it asks"
    );
    let line = log_lines(&third, "10.0.0.1").pop().unwrap();
    assert!(!line.contains("issuer"), "what the first one makes is accepted: {line}");
    assert_eq!(log_lines(&first, "10.0.0.2"), [""; 0]);
}

#[tokio::test]
async fn writes_go_on_without_a_member_and_without_a_server() {
    if !test_needs::etcd() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut etcd = EtcdProcess::start(directory.path(), &EtcdOptions { members: 3, ..EtcdOptions::default() });
    let [mut first, second] = pair(directory.path(), &etcd, &[]).await;
    let clients = [first.client(&first.admin), second.client(&second.admin)];
    let mut wanted = BTreeSet::new();
    for lost in 0..3 {
        for number in 0..10 {
            if number == 3 {
                etcd.kill(lost);
            }
            let name = format!("l{lost}-{number}");
            store(&clients[number % 2], &name).await;
            wanted.insert(name);
        }
        etcd.restart(lost);
    }
    first.kill();
    for number in 0..10 {
        let name = format!("k-{number}");
        store(&clients[1], &name).await;
        wanted.insert(name);
    }
    let listed = send(&clients[1], RawRequest::get(CONFIG_MAPS)).await.1;
    let names = listed["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    assert_eq!(names.map(str::to_owned).collect::<BTreeSet<_>>(), wanted);
}
