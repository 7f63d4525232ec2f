//! The whole control plane inside one process: in-memory transport, virtual time, one seed.
//!
//! The same component code as in the processes; what differs is the `Env`. Same seed, same log, byte for byte.

use apiserver::config::{Config, RequestLog, StoreKind};
use client::{Client, ListOptions, Patch, PatchOptions};
use component_base::env::Env;
use component_base::fixtures;
use component_base::network::Network;
use parking_lot::Mutex;
use proto::kinds::api::apps::v1::Deployment;
use proto::kinds::api::core::v1::Node;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The API server's name in the in-process network.
const AUTHORITY: &str = "apiserver:6443";
/// Virtual time in which a condition has to come true.
const PATIENCE: Duration = Duration::from_secs(600);
/// Virtual time between two looks at a condition.
const LOOK: Duration = Duration::from_millis(500);

/// A running cluster.
#[derive(Clone)]
pub struct Simulation {
    env: Env,
    log: Arc<Mutex<Vec<String>>>,
}

impl Simulation {
    /// An API server and nobody else.
    pub fn apiserver_alone<T>(seed: u64, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        in_virtual_time(async {
            let simulation = Self::start(seed).await;
            let outcome = scenario(&simulation).await;
            simulation.env.drain().await;
            outcome
        })
    }

    /// Every component, with `nodes` nodes that are ready when the scenario begins.
    pub fn whole<T>(seed: u64, nodes: u32, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        in_virtual_time(async {
            let simulation = Self::start(seed).await;
            simulation.start_components(nodes);
            simulation.until("all nodes are ready", async |client| ready_nodes(client).await == nodes).await;
            let outcome = scenario(&simulation).await;
            simulation.env.drain().await;
            outcome
        })
    }

    async fn start(seed: u64) -> Self {
        let env = Env::simulated(seed);
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = log.clone();
        let config = Config {
            store: Some(StoreKind::Memory),
            enable_admission_plugins: vec!["NodeRestriction".to_owned()], // as `orrery up` does
            request_log: Some(RequestLog(Arc::new(move |line| sink.lock().push(line)))),
            ..Config::default()
        };
        let server = apiserver::service(config, env.clone()).await.expect("a memory store starts");
        let Network::InProcess(registry) = env.network() else { unreachable!("a simulated Env has no sockets") };
        registry.register(AUTHORITY, server.service.clone());
        Self { env, log }
    }

    /// Starts everybody but the API server, each under its own identity.
    fn start_components(&self, nodes: u32) {
        let env = self.env.clone();
        let client = self.client("system:kube-controller-manager");
        self.env.spawn(async move {
            let settings = controller_manager::Settings::default();
            controller_manager::run_with(client, settings, env).await.expect("the controller manager runs to the end");
        });
        let (env, client) = (self.env.clone(), self.client("system:kube-scheduler"));
        self.env.spawn(async move {
            let settings = scheduler::Settings::default();
            scheduler::run_with(client, settings, env).await.expect("the scheduler runs to the end");
        });
        let (env, client) = (self.env.clone(), self.client("system:orrery:node-fleet"));
        self.env.spawn(async move {
            let settings = kubelet_sim::Settings { nodes, ..kubelet_sim::Settings::default() };
            kubelet_sim::run_with(client, settings, env).await.expect("the nodes run to the end");
        });
        let (env, client) = (self.env.clone(), self.client("system:kube-proxy"));
        self.env.spawn(async move {
            let settings = proxy_sim::Settings::default();
            proxy_sim::run_with(client, settings, env).await.expect("the proxies run to the end");
        });
    }

    /// A client with the certificate of a user.
    pub fn client(&self, user: &str) -> Client {
        let connection = fixtures::connection(&format!("https://{AUTHORITY}"), user);
        Client::connect(&self.env, &connection, user).expect("the API server is registered")
    }

    pub fn admin(&self) -> Client {
        self.client("kubernetes-admin")
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// One line per request and per delivered watch event, so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// Looks every half second of virtual time until `condition` holds.
    /// Panics by name, with the end of the log, when it does not in ten minutes.
    pub async fn until(&self, what: &str, condition: impl AsyncFn(&Client) -> bool) {
        let admin = self.admin();
        let waiting = async {
            while !condition(&admin).await {
                self.env.sleep(LOOK).await;
            }
        };
        if self.env.timeout(PATIENCE, waiting).await.is_err() {
            let log = self.log();
            let end = log[log.len().saturating_sub(200)..].join("\n");
            panic!("waited {PATIENCE:?} of virtual time in vain until {what}; the log ends:\n{end}");
        }
    }
}

/// One thread, and a clock that moves only when everybody waits.
fn in_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO needs nothing").block_on(scenario)
}

async fn ready_nodes(client: &Client) -> u32 {
    let Ok(nodes) = client.api::<Node>("").list(&ListOptions::default()).await else { return 0 };
    let ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
            && node.spec.as_ref().is_none_or(|spec| spec.taints.is_none())
    };
    u32::try_from(nodes.items.iter().filter(ready).count()).unwrap_or(u32::MAX)
}

fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

/// Deploys `replicas` pods, exposes them, and rolls a new image out.
pub async fn roll_out(simulation: &Simulation, name: &str, replicas: i32) {
    let admin = simulation.admin();
    let gvr = proto::Gvr::new("apps", "v1", "deployments");
    let deployments = admin.dynamic(&gvr, "default");
    deployments.create(&deployment(name, replicas, "web:1")).await.expect("a valid Deployment is created");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    });
    let services = admin.dynamic(&proto::Gvr::new("", "v1", "services"), "default");
    services.create(&service).await.expect("a valid Service is created");
    available(simulation, name, replicas).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    let patched = deployments.patch(name, &Patch::Strategic(image), &PatchOptions::default()).await;
    patched.expect("a valid patch is accepted");
    available(simulation, name, replicas).await;
}

/// Until the rollout is complete, as `kubectl rollout status` understands it.
async fn available(simulation: &Simulation, name: &str, replicas: i32) {
    let what = format!("{replicas} replicas of {name} are available");
    simulation
        .until(&what, async |client| {
            let Ok(deployment) = client.api::<Deployment>("default").get(name).await else { return false };
            let Some(status) = deployment.status else { return false };
            status.observed_generation == deployment.metadata.generation
                && status.updated_replicas == Some(replicas)
                && status.replicas == Some(replicas)
                && status.available_replicas == Some(replicas)
        })
        .await;
}
