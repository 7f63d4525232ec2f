//! Tests the controllers of a cloud under faults: the cloud is slow, fails and is full, and the controllers are killed. The cluster
//! and the cloud run in one process and in virtual time.
//!
//! At every step, no load balancer outlives its Service. Once the faults stop, the cloud has what the cluster asks for, and
//! nothing more is written.

use apiserver::config::Config;
use clap::Parser;
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use component_base::env::Env;
use component_base::options;
use component_base::rng::Random;
use component_base_testing::fixtures;
use controller_base::cloud_options::CloudAccess;
use e2e::in_process::InProcess;
use e2e::simulation::part::Part;
use kubelet_sim::config::CloudProvider;
use proto::Gvr;
use serde_json::{Value, json};
use simulated_cloud::model::{Holdings, Power, Settings};
use simulated_cloud::running::RunningCloud;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: [u64; 2] = [1, 2];
const EDITS: usize = 40;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const CLOUD: &str = "https://cloud-sim:10300";
/// Time in which everything converges after the last fault: back-offs grow to five minutes, and silent nodes are noticed after
/// less than one.
const CONVERGENCE: Duration = Duration::from_secs(1800);
const QUIET: Duration = Duration::from_secs(600);

#[derive(Parser)]
struct CloudSim {
    #[command(flatten)]
    config: simulated_cloud::Config,
}

/// A cluster and its cloud.
struct World {
    cluster: InProcess,
    cloud: RunningCloud,
    admin: Client,
    chance: Random,
    parts: Vec<Env>,
    /// The process of the cloud's controllers, and how often they have started.
    controllers: (Env, u32),
}

fn controllers(cluster: &InProcess, number: u32) -> Env {
    let process = cluster.process(&format!("cloud-controller-manager/{number}"));
    let user = "system:cloud-controller-manager";
    let cloud = Client::connect(&process, &fixtures::connection(CLOUD, user), "e2e").unwrap();
    let mut settings = controller_manager::Settings {
        cloud: Some(CloudAccess { client: cloud, options: options::defaults() }),
        ..controller_manager::Settings::default()
    };
    settings.leader_election.leader_elect = false; // there is only one
    let client = cluster.client(&process, user).with_user_agent("cloud-controller-manager");
    let running = controller_manager::cloud::run_with(client, settings, process.clone());
    process.spawn(async move { running.await.unwrap() });
    process
}

impl World {
    async fn start(seed: u64) -> Self {
        let cluster = InProcess::start(seed, Config::default()).await;
        let manager = cluster.process("controller-manager/1");
        let mut settings = controller_manager::Settings::default();
        settings.leader_election.leader_elect = false;
        let running = |client| controller_manager::run_with(client, settings, manager.clone());
        cluster.run(Part::ControllerManager, &manager, running);
        let nodes = cluster.process("nodes/1");
        let cloud_provider = CloudProvider::External;
        let settings = kubelet_sim::Settings { nodes: 3, cloud_provider, ..kubelet_sim::Settings::default() };
        cluster.run(Part::Nodes, &nodes, |client| kubelet_sim::run_with(client, settings, nodes.clone()));
        let provider = cluster.process("cloud-sim/1");
        let config = CloudSim::parse_from(["cloud-sim", "--group=node=3:1:5"]).config;
        let cloud = simulated_cloud::run::start(&config, &provider).await.unwrap();
        let (admin, chance) = (cluster.admin(), cluster.env.random("e2e/cloud"));
        let controllers = (controllers(&cluster, 1), 1);
        Self { cluster, cloud, admin, chance, parts: vec![manager, nodes, provider], controllers }
    }

    fn set(&self, settings: Settings) {
        self.cloud.change_at_once(|cloud| cloud.set_settings(settings)).unwrap();
    }

    fn holdings(&self) -> Holdings {
        self.cloud.look(|cloud| cloud.holdings().clone())
    }

    async fn list(&self, resource: &str) -> Vec<Value> {
        self.admin.dynamic(&Gvr::new("", "v1", resource), "").list(&ListOptions::default()).await.unwrap().items
    }

    /// Somebody changes something. What is not there is left alone.
    async fn edit(&mut self) {
        let name = NAMES[self.chance.below(NAMES.len())];
        let services = self.admin.dynamic(&Gvr::new("", "v1", "services"), "default");
        let nodes = self.admin.dynamic(&Gvr::new("", "v1", "nodes"), "");
        let node = format!("node-{}", self.chance.below(3));
        let patch = |patch: Value| Patch::Merge(patch);
        match self.chance.below(9) {
            0 | 1 => {
                let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}});
                let _ = services
                    .create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}))
                    .await;
            }
            2 => drop(services.delete(name, &DeleteOptions::default()).await),
            3 => {
                let type_ = ["LoadBalancer", "ClusterIP"][self.chance.below(2)];
                let patch = patch(json!({"spec": {"type": type_}}));
                let _ = services.patch(name, &patch, &PatchOptions::default()).await;
            }
            4 => {
                let patch = patch(json!({"spec": {"ports": [{"port": 80 + self.chance.below(3), "protocol": "TCP"}]}}));
                let _ = services.patch(name, &patch, &PatchOptions::default()).await;
            }
            5 => {
                let value = if self.chance.below(2) == 0 { json!("") } else { Value::Null };
                let labels = json!({"node.kubernetes.io/exclude-from-external-load-balancers": value});
                let patch = patch(json!({"metadata": {"labels": labels}}));
                let _ = nodes.patch(&node, &patch, &PatchOptions::default()).await;
            }
            6 => {
                let size = 2 + u32::try_from(self.chance.below(4)).unwrap();
                self.cloud.change_at_once(|cloud| cloud.scale("node", size)).unwrap();
            }
            7 => {
                let power = [Power::Running, Power::Stopped][self.chance.below(2)];
                let _ = self.cloud.change_at_once(|cloud| cloud.set_power(&node, power));
            }
            _ => {
                self.controllers.0.kill().await;
                let number = self.controllers.1 + 1;
                self.controllers = (controllers(&self.cluster, number), number);
            }
        }
    }

    /// Every load balancer has its Service. The Services are read first: one that is deleted later has lost its load balancer
    /// before.
    async fn check(&self) {
        let services = self.list("services").await;
        let names: BTreeSet<String> = services.iter().map(balancer_of).collect();
        let balancers = self.holdings().load_balancers;
        let orphans: Vec<&String> = balancers.keys().filter(|name| !names.contains(*name)).collect();
        assert_eq!(orphans, [""; 0], "load balancers without a Service");
    }

    /// Returns what differs between what the cluster asks for and what the cloud has.
    async fn differences(&self) -> Vec<String> {
        let (services, nodes, holdings) = (self.list("services").await, self.list("nodes").await, self.holdings());
        let mut found = Vec::new();
        let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
        let eligible = nodes.iter().filter(|node| node["metadata"]["labels"][excluded].is_null());
        let backends: Vec<&str> = eligible.map(name_of).collect();
        let mut balancers = holdings.load_balancers;
        for service in services.iter().filter(|service| service["spec"]["type"] == "LoadBalancer") {
            let Some(balancer) = balancers.remove(&balancer_of(service)) else {
                found.push(format!("service {} has no load balancer", name_of(service)));
                continue;
            };
            let ingress = json!([{"ip": balancer.address, "ipMode": "VIP"}]);
            if service["status"]["loadBalancer"]["ingress"] != ingress {
                found.push(format!("service {} does not have {}", name_of(service), balancer.address));
            }
            let ports = service["spec"]["ports"].as_array().unwrap();
            let is_same = |(port, of_cloud): (&Value, &simulated_cloud::model::BalancedPort)| {
                port["port"] == of_cloud.port && port["nodePort"] == json!(of_cloud.node_port)
            };
            if balancer.spec.backends != backends || !ports.iter().zip(&balancer.spec.ports).all(is_same) {
                found.push(format!("{balancer:?} is not that of service {} on {backends:?}", name_of(service)));
            }
        }
        found.extend(balancers.keys().map(|name| format!("load balancer {name} is left over")));
        let machines: Vec<&str> = holdings.machines.keys().map(String::as_str).collect();
        let names: Vec<&str> = nodes.iter().map(name_of).collect();
        if names != machines {
            found.push(format!("nodes {names:?}, machines {machines:?}"));
        }
        found.extend(nodes.iter().filter(|node| !is_settled(node)).map(|node| format!("node {node}")));
        let wanted: BTreeMap<&str, &str> =
            nodes.iter().filter_map(|node| Some((node["spec"]["podCIDR"].as_str()?, name_of(node)))).collect();
        let routes: BTreeMap<&str, &str> =
            holdings.routes.values().map(|route| (route.destination.as_str(), route.machine.as_str())).collect();
        if wanted != routes {
            found.push(format!("ranges {wanted:?}, routes {routes:?}"));
        }
        found
    }

    /// Ends all faults, and waits until nothing differs any more.
    async fn converge(&self) {
        self.set(Settings::default());
        for machine in self.holdings().machines.keys() {
            self.cloud.change_at_once(|cloud| cloud.set_power(machine, Power::Running)).unwrap();
        }
        let mut waited = Duration::ZERO;
        loop {
            let differences = self.differences().await;
            if differences.is_empty() {
                return;
            }
            assert!(waited < CONVERGENCE, "{}", differences.join("\n"));
            self.cluster.env.sleep(Duration::from_secs(10)).await;
            waited += Duration::from_secs(10);
        }
    }

    /// Returns the versions of what the cloud's controllers write.
    async fn versions(&self) -> Vec<String> {
        let (services, maps) = (self.list("services").await, self.list("configmaps").await);
        let version = |object: &Value| format!("{} {}", name_of(object), object["metadata"]["resourceVersion"]);
        services.iter().chain(&maps).map(version).collect()
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn balancer_of(service: &Value) -> String {
    let mut name = format!("a{}", service["metadata"]["uid"].as_str().unwrap().replace('-', ""));
    name.truncate(32);
    name
}

/// Returns true if the node is ready, named, without taints, and has its route.
fn is_settled(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let is = |type_: &str, status: &str| {
        conditions.iter().any(|condition| condition["type"] == type_ && condition["status"] == status)
    };
    let id = format!("orrery://{}", name_of(node));
    node["spec"]["taints"].is_null()
        && node["spec"]["providerID"] == id
        && is("Ready", "True")
        && is("NetworkUnavailable", "False")
}

#[tokio::test(start_paused = true)]
async fn the_cloud_has_what_the_cluster_asks_for_once_faults_stop() {
    let mut balancers = 0;
    for seed in SEEDS {
        let mut world = World::start(seed).await;
        world.converge().await;
        world.set(Settings { latency_ms: 200, fault_rate: 0.2, load_balancer_quota: 2, ..Settings::default() });
        for _ in 0..EDITS {
            world.edit().await;
            world.check().await;
            let pause = Duration::from_millis(u64::try_from(world.chance.below(20_000)).unwrap());
            world.cluster.env.sleep(pause).await;
            world.check().await;
        }
        world.converge().await;
        // Events and the last reports of nodes may come a little later.
        world.cluster.env.sleep(Duration::from_secs(60)).await;
        let (versions, holdings) = (world.versions().await, world.holdings());
        world.cluster.env.sleep(QUIET).await;
        assert_eq!((world.versions().await, world.holdings()), (versions, holdings), "something is written at rest");
        balancers += world.holdings().load_balancers.len();
        let World { cluster, mut parts, controllers, .. } = world;
        parts.push(controllers.0);
        cluster.stop(&parts).await;
    }
    assert!(balancers > 0, "no user has asked for anything that lasted");
}
