//! `Stage`: the control plane of a trial, without the checks and the faults of `Simulation`.

use super::pod_state::PodState;
use super::world::{Change, World};
use super::{Setup, with_class};
use crate::keys;
use crate::part::Part;
use crate::ready_nodes;
use apiserver::config::{Config, StoreKind};
use axum::body::Body;
use client::{Client, Error};
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use futures::StreamExt;
use http::{Request, header};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, Pod, ServiceAccount};
use proto::kinds::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use storage::memory::Memory;
use storage::{Event, Storage, Watch, WatchItem};
use tower::ServiceExt;

/// Prefixes of the keys that are observed.
const PODS: &str = "/registry/pods/";
const NODES: &str = "/registry/minions/";
const AUTHORITY: &str = "apiserver:6443";
/// Time of a component's request. It is the same for all, so that both depths agree on what happens first.
pub const LATENCY: Duration = Duration::from_millis(5);
/// Virtual time between two checks of a condition, and the longest wait for one.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Time between the start of the scheduler and the first pod.
pub const SETTLING: Duration = Duration::from_secs(1);
/// Time for which Events are kept. Nobody reads them, and those of an hour would be most of a trial's memory.
const EVENT_TTL: Duration = Duration::from_secs(60);
const READY_LIMIT: Duration = Duration::from_secs(1800);

pub struct Stage {
    store: Arc<Memory>,
    admin: Client,
    env: Env,
    nodes: u32,
    /// Why a component has ended by itself.
    failure: Arc<Mutex<Option<String>>>,
    /// The components; the API server is before the scheduler.
    processes: Vec<Env>,
    /// Settings of the scheduler, until it starts.
    scheduler: Option<scheduler::Settings>,
}

impl Stage {
    /// Starts every component.
    pub async fn raise(env: &Env, setup: Setup) -> Result<Self, String> {
        let store = Memory::new(&env.process("store"));
        let server = env.process("apiserver/1");
        let config = Config {
            store: Some(StoreKind::Memory),
            enable_admission_plugins: vec!["NodeRestriction".to_owned()], // as `orrery up` does
            service_account_signing_key: Some(keys::SERVICE_ACCOUNT_KEY.to_owned()),
            event_ttl: EVENT_TTL,
            ..Config::default()
        };
        let api = apiserver::service_on(config, server.clone(), store.clone()).map_err(|error| error.to_string())?;
        let Network::InProcess(network) = env.network() else { unreachable!("a simulated Env has no sockets") };
        network.register(AUTHORITY, delayed(api.service.clone(), env, setup.api_delay));
        let nodes = u32::try_from(setup.templates.len()).unwrap_or(u32::MAX);
        let admin = connect(env, "kubernetes-admin", "kubectl");
        let mut stage = Self {
            store,
            admin,
            env: env.clone(),
            nodes,
            failure: Arc::default(),
            processes: Vec::new(),
            scheduler: None,
        };
        let controllers = setup.controllers(keys::authority_pem());
        stage.start(Part::ControllerManager, |client, env| controller_manager::run_with(client, controllers, env));
        let fleet = setup.nodes();
        stage.start(Part::Nodes, |client, env| kubelet_sim::run_with(client, fleet, env));
        stage.processes.push(server);
        stage.scheduler = Some(setup.scheduler());
        Ok(stage)
    }

    fn start<F, E>(&mut self, part: Part, component: impl FnOnce(Client, Env) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let process = self.env.process(&format!("{part}/1"));
        let running = component(connect(&process, part.user(), part.name()), process.clone());
        let failure = self.failure.clone();
        process.spawn(async move {
            if let Err(error) = running.await {
                *failure.lock() = Some(format!("{part}: {error}"));
            }
        });
        self.processes.push(process);
    }

    /// Creates the namespaces of pods and a class for each of their priorities, and waits until pods can be created and scheduled.
    pub async fn prepare(&mut self, priorities: &BTreeSet<i64>, namespaces: &BTreeSet<String>) -> Result<(), String> {
        for name in namespaces {
            let namespace = Namespace::decode_value(json!({"metadata": {"name": name}}));
            let namespace = namespace.map_err(|error| format!("namespace {name}: {error}"))?;
            match self.admin.api::<Namespace>("").create(&namespace).await {
                Err(error) if !error.is_already_exists() => return Err(format!("namespace {name}: {error}")),
                _ => {}
            }
        }
        let ready = async {
            while ready_nodes(&self.admin).await < self.nodes && self.failure().is_ok() {
                self.env.sleep(CHECK_PERIOD).await;
            }
            for namespace in namespaces {
                while self.admin.api::<ServiceAccount>(namespace).get("default").await.is_err() {
                    self.env.sleep(CHECK_PERIOD).await;
                }
            }
        };
        if self.env.timeout(READY_LIMIT, ready).await.is_err() {
            let ready = ready_nodes(&self.admin).await;
            self.failure()?;
            return Err(format!("after {READY_LIMIT:?} of virtual time {ready} of {} nodes are ready", self.nodes));
        }
        self.failure()?;
        for priority in priorities {
            let name = format!("{}{priority}", super::PRIORITY_CLASS);
            let class = json!({"metadata": {"name": name}, "value": priority});
            let class = PriorityClass::decode_value(class).map_err(|error| error.to_string())?;
            let created = self.admin.api::<PriorityClass>("").create(&class).await;
            created.map_err(|error| format!("priority {priority}: {error}"))?;
        }
        // The scheduler starts with all nodes, on a full second, and as long before the first pod as in the other depth.
        let scheduler = self.scheduler.take().unwrap_or_default();
        let fraction_ns = self.env.wall().subsec_nanosecond().unsigned_abs();
        self.env.sleep(Duration::from_secs(1).saturating_sub(Duration::from_nanos(fraction_ns.into()))).await;
        self.start(Part::Scheduler, |client, env| scheduler::run_with(client, scheduler, env));
        self.env.sleep(SETTLING).await;
        self.failure()
    }

    fn failure(&self) -> Result<(), String> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Returns a client with every right.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// Follows what is written below a prefix from now on.
    async fn watch(&self, prefix: &str) -> Result<Watch, String> {
        let now = self.store.current_revision().await.map_err(|error| error.to_string())?;
        self.store.watch(prefix, now).await.map_err(|error| error.to_string())
    }

    /// Returns the control plane with what happens in it from now on.
    pub async fn watched(self) -> Result<ControlPlane, String> {
        let (pods, nodes) = (self.watch(PODS).await?, self.watch(NODES).await?);
        Ok(ControlPlane { stage: self, pods, nodes })
    }
}

/// A control plane, and what is written to its store.
pub struct ControlPlane {
    stage: Stage,
    pods: Watch,
    nodes: Watch,
}

impl World for ControlPlane {
    async fn changes(&mut self) -> Result<Vec<Change>, String> {
        loop {
            let item = tokio::select! {
                biased;
                item = self.pods.next() => item,
                item = self.nodes.next() => item,
            };
            match item {
                Some(Ok(WatchItem::Events(events))) => return events.iter().map(|event| change(event)).collect(),
                Some(Ok(WatchItem::Progress(_))) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the watch on the store has ended".to_owned()),
            }
        }
    }

    async fn create_pod(&self, pod: &Value) -> Result<(), String> {
        let namespace = super::namespace(pod);
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let created = self.stage.admin.api::<Pod>(namespace).create(&super::read(&with_class(pod))?).await;
        created.map(|_| ()).map_err(|error: Error| format!("pod {namespace}/{name}: {error}"))
    }

    fn failure(&self) -> Result<(), String> {
        self.stage.failure()
    }

    async fn strike(&self) {
        for process in &self.stage.processes {
            process.kill().await;
        }
    }
}

fn change(event: &Event) -> Result<Change, String> {
    let document = |entry: &storage::Entry| {
        serde_json::from_slice::<Value>(&entry.value).map_err(|error| format!("{}: {error}", event.key))
    };
    let document = event.current.as_ref().map(document).transpose()?;
    if let Some(node) = event.key.strip_prefix(NODES) {
        return Ok(Change::Node { name: node.to_owned(), is_ready: document.as_ref().is_some_and(is_ready) });
    }
    let name = event.key.strip_prefix(PODS).unwrap_or(&event.key).to_owned();
    Ok(Change::Pod { name, state: document.as_ref().map(PodState::of_document) })
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Wraps the server's service, so that requests of components take time.
fn delayed(service: HttpService, env: &Env, more: Duration) -> HttpService {
    let env = env.clone();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (env, service) = (env.clone(), service.clone());
        async move {
            let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
            if agent.and_then(Part::of_user_agent).is_some() {
                env.sleep(LATENCY + more).await;
            }
            service.oneshot(request).await
        }
    }))
}

pub fn connect(env: &Env, user: &str, agent: &str) -> Client {
    let connection = keys::connection(&format!("https://{AUTHORITY}"), user);
    Client::connect(env, &connection, agent).expect("an in-process connection needs nothing")
}
