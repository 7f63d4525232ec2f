//! Several API servers on one modelled etcd, in virtual time.

use crate::config::Config;
use crate::testing::Api;
use component_base::env::Env;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use storage::etcd::Etcd;
use storage::etcd::testing::model::{Model, ModelMember, NEW};
use storage::etcd::testing::over;
use storage::{Change, RangeRequest, Storage, Write};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// An etcd, and servers that each reach it through a member of their own.
struct Setup {
    /// The environment of the test itself; each server has its own.
    env: Env,
    model: Arc<Model>,
}

struct Server {
    api: Api,
    env: Env,
    storage: Arc<Etcd>,
    member: Arc<ModelMember>,
}

impl Setup {
    fn new() -> Self {
        let env = Env::simulated(1);
        Self { model: Model::new(&env, 7), env }
    }

    /// Starts a server. All servers draw the same random numbers, so that they try the same addresses.
    async fn server(&self, advertised: &str, port: u16, set: impl FnOnce(&mut Config)) -> Server {
        let env = Env::simulated(2);
        let members = self.model.members(1, NEW);
        let storage = over(&env, &members).await.unwrap();
        let mut config = Config { advertise_address: Some(advertised.parse().unwrap()), ..Config::default() };
        config.serving.secure_port = Some(port);
        set(&mut config);
        let api = Api::on(&env, storage.clone(), config).await;
        Server { api, env, storage, member: members[0].clone() }
    }

    async fn pair(&self) -> [Server; 2] {
        [self.server("10.0.0.1", 6443, |_| {}).await, self.server("10.0.0.2", 6443, |_| {}).await]
    }

    async fn pass(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }
}

impl Server {
    /// Returns the endpoints of the `kubernetes` Service as `ip:port`, which its Endpoints and EndpointSlice both list.
    async fn endpoints(&self) -> Vec<String> {
        let endpoints = self.api.get("/api/v1/namespaces/default/endpoints/kubernetes").await.body;
        let mut found = Vec::new();
        for subset in endpoints["subsets"].as_array().unwrap() {
            for address in subset["addresses"].as_array().unwrap() {
                found.push(format!("{}:{}", address["ip"].as_str().unwrap(), subset["ports"][0]["port"]));
            }
        }
        let slice = self.api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.body;
        let listed = |of: &Value| {
            let port = of["ports"][0]["port"].clone();
            let all = of["endpoints"].as_array().unwrap().iter();
            all.map(|one| format!("{}:{port}", one["addresses"][0].as_str().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(listed(&slice), found);
        found
    }
}

fn service(name: &str, kind: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}})
}

/// Returns the cluster IP and the first node port of a Service.
fn allocated(service: &Value) -> (String, u64) {
    let spec = &service["spec"];
    (spec["clusterIP"].as_str().unwrap().to_owned(), spec["ports"][0]["nodePort"].as_u64().unwrap_or(0))
}

/// Returns the keys that reserve them.
fn reservations(service: &Value) -> [String; 2] {
    let (address, port) = allocated(service);
    [format!("/registry/ipaddresses/{address}"), format!("/registry/ranges/servicenodeports/{port}")]
}

#[tokio::test(start_paused = true)]
async fn the_kubernetes_service_leads_to_every_living_server() {
    let setup = Setup::new();
    let [first, second] = setup.pair().await;
    setup.pass(10).await;
    for server in [&first, &second] {
        assert_eq!(server.endpoints().await, ["10.0.0.1:6443", "10.0.0.2:6443"]);
    }
    // The first server no longer reaches its etcd member, as if it were killed.
    first.member.kill();
    setup.pass(26).await;
    assert_eq!(second.endpoints().await, ["10.0.0.2:6443"]);
    first.member.set(|switches| switches.is_down = false);
    setup.pass(26).await;
    assert_eq!(second.endpoints().await, ["10.0.0.1:6443", "10.0.0.2:6443"]);
    // A server that stops removes its address at once. The address of the last server stays.
    first.api.server.server.lifecycle.ending.cancel();
    first.api.server.server.lifecycle.bootstrap_ended.cancelled().await;
    assert_eq!(second.endpoints().await, ["10.0.0.2:6443"]);
    second.api.server.server.lifecycle.ending.cancel();
    second.api.server.server.lifecycle.bootstrap_ended.cancelled().await;
    assert_eq!(second.endpoints().await, ["10.0.0.2:6443"]);
    let left = second.storage.range(RangeRequest::prefix("/registry/masterleases/")).await.unwrap();
    assert_eq!(left.entries, []);
}

#[tokio::test(start_paused = true)]
async fn two_servers_at_one_address_do_not_take_turns() {
    let setup = Setup::new();
    let first = setup.server("127.0.0.1", 7000, |_| {}).await;
    let second = setup.server("127.0.0.1", 7001, |_| {}).await;
    for _ in 0..10 {
        setup.pass(7).await;
        assert_eq!(second.endpoints().await, ["127.0.0.1:7000"]);
    }
    first.member.kill();
    setup.pass(26).await;
    assert_eq!(second.endpoints().await, ["127.0.0.1:7001"], "it takes over");
    first.member.set(|switches| switches.is_down = false);
    setup.pass(30).await;
    assert_eq!(first.endpoints().await, ["127.0.0.1:7001"], "and is left alone now");
}

#[tokio::test(start_paused = true)]
async fn what_one_server_wrote_the_other_reads() {
    let setup = Setup::new();
    let servers = setup.pair().await;
    for turn in 0..20 {
        let [writer, reader] = [&servers[turn % 2].api, &servers[(turn + 1) % 2].api];
        let name = format!("m{turn}");
        let made = writer.create(CONFIG_MAPS, json!({"metadata": {"name": name}})).await;
        let path = format!("{CONFIG_MAPS}/{name}");
        assert_eq!(reader.get(&path).await.body["metadata"]["uid"], made["metadata"]["uid"]);
        let listed = reader.get(CONFIG_MAPS).await.body;
        assert_eq!(listed["items"].as_array().unwrap().len(), turn + 1);
        let old = made["metadata"]["resourceVersion"].clone();
        let change = |of: &str| json!({"metadata": {"name": name, "resourceVersion": old}, "data": {"a": of}});
        let [won, lost] = [(reader, "1"), (writer, "2")];
        assert_eq!(won.0.ask(http::Method::PUT, &path, change(won.1), &[]).await.code, 200);
        assert_eq!(lost.0.ask(http::Method::PUT, &path, change(lost.1), &[]).await.code, 409);
        assert_eq!(writer.get(&path).await.body["data"]["a"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_and_ports_never_collide() {
    let setup = Setup::new();
    let small = |config: &mut Config| {
        config.service_cluster_ip_range = vec!["10.96.0.0/26".parse().unwrap()];
        config.service_node_port_range = "30000-30059".to_owned();
    };
    let servers = [setup.server("10.0.0.1", 6443, small).await, setup.server("10.0.0.2", 6443, small).await];
    for server in &servers {
        server.member.set(|switches| switches.delay = Duration::from_millis(3));
    }
    let names: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    let made = join_all(names.iter().enumerate().map(|(turn, name)| {
        let api = &servers[turn % 2].api;
        async move { allocated(&api.create(SERVICES, service(name, "NodePort")).await) }
    }));
    let made = made.await;
    let addresses: BTreeSet<_> = made.iter().map(|(address, _)| address).collect();
    let ports: BTreeSet<_> = made.iter().map(|(_, port)| port).collect();
    assert_eq!((addresses.len(), ports.len()), (60, 60));
    let full = servers[0].api.post(SERVICES, service("one-more", "NodePort")).await;
    assert!(full.message().contains("range is full"), "{}", full.text);
    assert_eq!(
        servers[1].api.get(ADDRESSES).await.body["items"].as_array().unwrap().len(),
        61,
        "with the server's own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_answer_was_lost_keeps_its_address() {
    let setup = Setup::new();
    let [first, second] = setup.pair().await;
    let mut kept = 0;
    // The lost answer belongs to another of its writes in each round.
    for round in 0..60 {
        let name = format!("s{round}");
        let member = first.member.clone();
        setup.env.spawn({
            let env = setup.env.clone();
            async move {
                env.sleep(Duration::from_millis(round)).await;
                member.set(|switches| switches.loses_answers = true);
                env.sleep(Duration::from_millis(8)).await;
                member.set(|switches| switches.loses_answers = false);
            }
        });
        first.member.set(|switches| switches.delay = Duration::from_millis(3));
        first.api.post(SERVICES, service(&name, "NodePort")).await;
        setup.pass(1).await;
        let stored = second.api.get(&format!("{SERVICES}/{name}")).await;
        if stored.code == 200 {
            kept += 1;
            for key in reservations(&stored.body) {
                assert!(second.storage.get(&key).await.unwrap().entry.is_some(), "{key} of {name} is not reserved");
            }
        }
    }
    first.member.set(|switches| switches.delay = Duration::ZERO);
    let listed = second.api.get(SERVICES).await.body;
    let services = listed["items"].as_array().unwrap();
    assert!((10..60).contains(&kept), "some of them got through: {kept}");
    // The repair loop releases reservations that no Service uses.
    setup.pass(4 * 180).await;
    let reserved = second.api.get(ADDRESSES).await.body["items"].as_array().unwrap().len();
    assert_eq!(reserved, services.len());
    let ports = second.storage.range(RangeRequest::prefix("/registry/ranges/servicenodeports/")).await.unwrap();
    assert_eq!(ports.entries.len(), services.len() - 1, "the kubernetes Service has none");
}

#[tokio::test(start_paused = true)]
async fn unused_reservations_are_released_and_missing_ones_restored() {
    let setup = Setup::new();
    let [first, second] = setup.pair().await;
    let of_used = reservations(&first.api.create(SERVICES, service("web", "NodePort")).await);
    let claim = json!({"namespace": "default", "name": "never-stored"}).to_string();
    let leaked = "/registry/ranges/servicenodeports/31999";
    second.storage.create(leaked, claim.into(), None).await.unwrap();
    for key in &of_used {
        let at = second.storage.get(key).await.unwrap().entry.unwrap().mod_revision;
        let gone = Write { key: key.as_str().into(), expected: at, change: Change::Delete };
        second.storage.write(gone).await.unwrap();
    }
    let is_there = async |key: &str| second.storage.get(key).await.unwrap().entry.is_some();
    setup.pass(200).await;
    for key in &of_used {
        assert!(is_there(key).await, "{key} is reserved again");
    }
    assert!(is_there(leaked).await, "a write may be about to use it");
    setup.pass(3 * 180).await;
    assert!(!is_there(leaked).await);
    assert!(is_there(&of_used[0]).await && is_there(&of_used[1]).await);
    drop((first.env, second.env));
}
