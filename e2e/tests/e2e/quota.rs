//! Tests quotas with concurrent writers: on every storage engine and through two servers a quota is never exceeded, and
//! deletions free their share. The quota controller runs beside them.

use crate::{etcd, program};
use client::Client;
use component_base::env::Env;
use controller_manager::Settings;
use e2e::apiserver::ApiServer;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use e2e::wait::until_async;
use futures::future::join_all;
use orrery::up::data_dir::DataDir;
use serde_json::json;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";
const LIMIT: usize = 100;

/// Starts the quota controller alone, in this process, with a client of one server.
fn count_quotas(client: &Client) -> Env {
    let env = Env::system();
    let controllers = vec!["resourcequota-controller".to_owned()];
    let settings = Settings { controllers, ..Settings::default() };
    let controller = controller_manager::run_with(client.clone(), settings, env.clone());
    env.spawn(async move { controller.await.expect("the controller runs") });
    env
}

/// Sends a request, and repeats it while the answer is 429.
async fn send(client: &Client, request: &RawRequest) -> Answer {
    loop {
        let answer = request.clone().send(client).await.expect("the server is there");
        if answer.code != 429 {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

/// Creates ConfigMaps with these numbers in parallel. Returns how many were not refused by the quota.
async fn create(clients: &[Client], numbers: Range<usize>) -> usize {
    let creations = numbers.map(|number| {
        let client = &clients[number % clients.len()];
        let request =
            RawRequest::post(CONFIG_MAPS, json!({"metadata": {"name": format!("m{number}")}}).to_string().as_str());
        async move {
            let answer = send(client, &request).await;
            let is_refused = answer.code == 403 && answer.text.contains("exceeded quota: q, requested: configmaps=1");
            assert!(answer.code == 201 || is_refused, "{}", answer.text);
            usize::from(answer.code == 201)
        }
    });
    join_all(creations).await.into_iter().sum()
}

async fn names(client: &Client) -> Vec<String> {
    let list = send(client, &RawRequest::get(CONFIG_MAPS)).await.body;
    let items = list["items"].as_array().expect("it is a list").clone();
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("it has a name").to_owned()).collect()
}

/// Waits until the quota's status has this amount.
async fn used(client: &Client, amount: usize) {
    let is_used = async || {
        let quota = send(client, &RawRequest::get(QUOTA)).await.body;
        quota["status"]["used"]["configmaps"] == json!(amount.to_string())
    };
    until_async(&format!("{amount} are used"), is_used).await;
}

async fn race(servers: &[ApiServer]) {
    let clients: Vec<Client> = servers.iter().map(|server| server.client(&server.admin)).collect();
    let first = &clients[0];
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": LIMIT.to_string()}}});
    let quotas = QUOTA.strip_suffix("/q").expect("it ends so");
    assert_eq!(send(first, &RawRequest::post(quotas, quota.to_string().as_str())).await.code, 201);
    let controller = count_quotas(first);
    used(first, 0).await;

    assert_eq!(create(&clients, 0..1000).await, LIMIT);
    assert_eq!(names(first).await.len(), LIMIT);
    used(first, LIMIT).await;

    // With concurrent deletions and creations, deletions are never refused, and creations get exactly the freed share.
    let gone: Vec<String> = names(first).await.into_iter().take(30).collect();
    let deletions = join_all(gone.iter().map(|name| {
        let request = RawRequest::delete(&format!("{CONFIG_MAPS}/{name}"), "");
        async move { assert_eq!(send(first, &request).await.code, 200) }
    }));
    let (_, made) = tokio::join!(deletions, create(&clients, 1000..1200));
    let left = names(first).await.len();
    assert!(left == LIMIT - 30 + made && left <= LIMIT, "{made} made, {left} there");
    used(first, left).await;
    assert_eq!(create(&clients, 1200..1300).await, LIMIT - left);
    controller.shutdown().cancel();
}

async fn start(directory: &Path, store: Store<'_>, count: usize) -> Vec<ApiServer> {
    let data_dir = Arc::new(DataDir::open(&directory.join("data")).expect("the directory is ours"));
    let mut servers = Vec::new();
    for number in 0..count {
        let address = format!("--advertise-address=10.0.0.{}", number + 1);
        servers.push(ApiServer::start_in(program(), data_dir.clone(), store, &[&address]).await);
    }
    servers
}

#[tokio::test]
async fn a_quota_is_given_out_once_memory() {
    let directory = tempfile::tempdir().unwrap();
    race(&start(directory.path(), Store::Memory, 1).await).await;
}

#[tokio::test]
async fn a_quota_is_given_out_once_embedded() {
    let directory = tempfile::tempdir().unwrap();
    race(&start(directory.path(), Store::Embedded, 1).await).await;
}

#[tokio::test]
async fn a_quota_is_given_out_once_by_two_servers() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    race(&start(directory.path(), Store::Etcd(&etcd), 2).await).await;
}
