//! `Stage`: the control plane of a trial, without the checks and the faults of `Simulation`.

use super::gangs::{self, Gangs};
use super::loads::{self, Loads};
use super::node_groups::Orders;
use super::pod_state::PodState;
use super::stored::Stored;
use super::transit::{Transit, Travellers, delayed};
use super::world::{Change, World};
use super::{Setup, setup, with_class};
use crate::keys;
use crate::part::Part;
use apiserver::config::{Config, StoreKind};
use apiserver::runtime_config::ApiSwitch;
use client::{Client, Error, Patch, PatchOptions};
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use component_base::options::OriginalFlags;
use component_base::options::feature_gates::GateValues;
use experiments::workload::Deployment;
use futures::StreamExt;
use kubelet_sim::machines::fleet_map;
use modelled_api::answered::{Answered, Requests};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use proto::kinds::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use proto::kinds::api::scheduling::v1::PriorityClass;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use scheduler::explanation::Attempts;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use storage::memory::Memory;
use storage::{Event, RangeRequest, Storage, Watch, WatchItem};

/// Prefixes of the keys that are observed.
const PODS: &str = "/registry/pods/";
const NODES: &str = "/registry/minions/";
pub const AUTHORITY: &str = "apiserver:6443";
/// The same server for those outside the simulation, whose requests take a time of their own.
const OUTER_AUTHORITY: &str = "outside.apiserver:6443";
/// Time of a component's request. It is the same for all, so that both depths agree on what happens first.
pub const LATENCY: Duration = Duration::from_millis(5);
/// Virtual time between two checks of a condition, and the longest wait for one.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Time between the start of the scheduler and the first pod.
pub const SETTLING: Duration = Duration::from_secs(1);
/// Time for which Events are kept, if they are. Those of an hour would be most of a trial's memory.
const EVENT_TTL: Duration = Duration::from_secs(60);
const READY_LIMIT: Duration = Duration::from_secs(1800);

pub struct Stage {
    store: Arc<Memory>,
    admin: Client,
    env: Env,
    initial: BTreeSet<String>,
    /// Why a component has ended by itself.
    failure: Arc<Mutex<Option<String>>>,
    /// The components; the API server is before the scheduler.
    processes: Vec<Env>,
    /// Settings of the schedulers, until they start.
    schedulers: Vec<scheduler::Settings>,
    attempts: Arc<dyn Attempts>,
    keeps_events: bool,
    answered: Arc<Answered>,
}

impl Stage {
    /// Starts every component.
    pub async fn raise(env: &Env, setup: Setup, has_gangs: bool, attempts: Arc<dyn Attempts>) -> Result<Self, String> {
        let Server { store, service, env: server, gates } = serve(env, &setup.feature_gates, has_gangs)?;
        let Network::InProcess(network) = env.network() else { unreachable!("a simulated Env has no sockets") };
        let answered = Arc::new(Answered::default());
        let watch = setup.watch_delay;
        let inner = Transit { request: LATENCY + setup.api_delay, watch, of: Travellers::Components };
        network.register(AUTHORITY, delayed(service.clone(), env, inner, answered.clone()));
        let outer = Transit { request: setup.api_delay, watch, of: Travellers::All };
        network.register(OUTER_AUTHORITY, delayed(service, env, outer, answered.clone()));
        let initial = setup.node_names();
        let admin = connect(env, "kubernetes-admin", "kubectl");
        let mut stage = Self {
            store,
            admin,
            env: env.clone(),
            initial,
            failure: Arc::default(),
            processes: Vec::new(),
            schedulers: Vec::new(),
            attempts,
            keeps_events: setup.keeps_events,
            answered,
        };
        let mut controllers = setup.controllers(keys::authority_pem());
        controllers.feature_gates = gates;
        stage.start(Part::ControllerManager, |client, env| controller_manager::run_with(client, controllers, env));
        let fleet = setup.nodes();
        stage.start(Part::Nodes, |client, env| kubelet_sim::run_with(client, fleet, env));
        stage.processes.push(server);
        stage.schedulers = setup.schedulers(has_gangs);
        Ok(stage)
    }

    fn start<F, E>(&mut self, part: Part, component: impl FnOnce(Client, Env) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        self.start_numbered(part, 1, component);
    }

    fn start_numbered<F, E>(&mut self, part: Part, number: u32, component: impl FnOnce(Client, Env) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let process = self.env.process(&format!("{part}/{number}"));
        let client = connect(&process, part.user(), part.name());
        // They would be half of a trial's requests.
        let client = if self.keeps_events { client } else { client.without_events() };
        let running = component(client, process.clone());
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
            while self.ready_nodes().await? < self.initial.len() && self.failure().is_ok() {
                self.env.sleep(CHECK_PERIOD).await;
            }
            for namespace in namespaces {
                while self.admin.api::<ServiceAccount>(namespace).get("default").await.is_err() {
                    self.env.sleep(CHECK_PERIOD).await;
                }
            }
            Ok::<_, String>(())
        };
        if let Ok(read) = self.env.timeout(READY_LIMIT, ready).await {
            read?;
        } else {
            let ready = self.ready_nodes().await?;
            self.failure()?;
            return Err(format!(
                "after {READY_LIMIT:?} of virtual time {ready} of {} nodes are ready",
                self.initial.len()
            ));
        }
        self.failure()?;
        for priority in priorities.iter().filter(|priority| !setup::is_of_system(**priority)) {
            let name = setup::priority_class(*priority);
            let class = json!({"metadata": {"name": name}, "value": priority});
            let class = PriorityClass::decode_value(class).map_err(|error| error.to_string())?;
            let created = self.admin.api::<PriorityClass>("").create(&class).await;
            created.map_err(|error| format!("priority {priority}: {error}"))?;
        }
        // The schedulers start with all nodes, on a full second, and as long before the first pod as in the other depth.
        let fraction_ns = self.env.wall().subsec_nanosecond().unsigned_abs();
        self.env.sleep(Duration::from_secs(1).saturating_sub(Duration::from_nanos(fraction_ns.into()))).await;
        for (number, settings) in (1..).zip(std::mem::take(&mut self.schedulers)) {
            let attempts = self.attempts.clone();
            self.start_numbered(Part::Scheduler, number, |client, env| {
                scheduler::run_observed(client, settings, env, attempts)
            });
        }
        self.env.sleep(SETTLING).await;
        self.failure()
    }

    /// Lets autoscalers find what the pods of Deployments use.
    pub async fn serve_metrics(&self, loads: &Arc<Loads>) -> Result<(), String> {
        loads.serve();
        metrics_server::register::register(&self.admin, loads::AUTHORITY).await.map_err(|error| error.to_string())
    }

    /// Creates an object as a user does. `what` says in an error what it is.
    async fn create<K: Kind>(&self, what: &str, document: Value) -> Result<(), String> {
        let named = |why: &dyn Display| format!("{what} {}: {why}", document["metadata"]["name"]);
        let object = K::decode_value(document.clone()).map_err(|why| named(&why))?;
        let created = self.admin.api::<K>(object.namespace()).create(&object).await;
        created.map(drop).map_err(|why| named(&why))
    }

    /// Returns the number of nodes that can take pods. It is asked for many times while thousands of nodes start, so it is read
    /// from the store and not listed by the API server.
    async fn ready_nodes(&self) -> Result<usize, String> {
        let nodes = self.store.range(RangeRequest::prefix(NODES)).await.map_err(|error| error.to_string())?;
        let mut ready = 0;
        for node in &nodes.entries {
            let node = read(&node.key, &node.value)?;
            ready += usize::from(node.is_ready() && !node.is_held_back());
        }
        Ok(ready)
    }

    fn failure(&self) -> Result<(), String> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Returns a client with every right.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// Returns a client with every right for somebody outside the simulation. Faults of the wire concern it too.
    pub fn outsider(&self) -> Client {
        connect_to(&self.env, OUTER_AUTHORITY, "kubernetes-admin", "outsider")
    }

    /// Follows what is written below a prefix from now on.
    async fn watch(&self, prefix: &str) -> Result<Watch, String> {
        let now = self.store.current_revision().await.map_err(|error| error.to_string())?;
        self.store.watch(prefix, now).await.map_err(|error| error.to_string())
    }

    /// Returns the control plane with what happens in it from now on.
    pub async fn watched(self, gangs: Gangs) -> Result<ControlPlane, String> {
        let (pods, nodes) = (self.watch(PODS).await?, self.watch(NODES).await?);
        Ok(ControlPlane {
            joined: 0,
            gangs: Mutex::new(gangs),
            initial: self.initial.clone(),
            stage: self,
            pods,
            nodes,
        })
    }
}

/// The API server of a trial.
pub struct Server {
    pub store: Arc<Memory>,
    pub service: HttpService,
    pub env: Env,
    /// Its feature gates.
    pub gates: GateValues,
}

/// Starts an API server with a store in memory.
pub fn serve(env: &Env, gates: &GateValues, has_gangs: bool) -> Result<Server, String> {
    let store = Memory::new(&env.process("store"));
    let server = env.process("apiserver/1");
    let gates = gangs::with_gates(gates, has_gangs);
    let config = Config {
        store: Some(StoreKind::Memory),
        enable_admission_plugins: vec!["NodeRestriction".to_owned()], // as `orrery up` does
        service_account_signing_key: Some(keys::SERVICE_ACCOUNT_KEY.to_owned()),
        event_ttl: EVENT_TTL,
        original: OriginalFlags::of_gates(gates.clone()),
        runtime_config: gangs_api(gangs::are_served(&gates)),
        ..Config::default()
    };
    let api = apiserver::service_on(config, server.clone(), store.clone()).map_err(|error| error.to_string())?;
    Ok(Server { store, service: api.service, env: server, gates })
}

/// A control plane, and what is written to its store.
pub struct ControlPlane {
    stage: Stage,
    pods: Watch,
    nodes: Watch,
    /// Names of the nodes that were there from the start.
    initial: BTreeSet<String>,
    /// Number of nodes that have joined so far.
    joined: u32,
    /// PodGroups that no pod has needed so far.
    gangs: Mutex<Gangs>,
}

impl ControlPlane {
    /// Creates the PodGroup of a pod before its first pod.
    async fn create_group(&self, pod: &Value) -> Result<(), String> {
        let Some(group) = gangs::group_of(pod) else { return Ok(()) };
        let Some(size) = self.gangs.lock().remove(&group) else { return Ok(()) };
        let (namespace, name) = group;
        let class = super::priority(pod).map(setup::priority_class);
        let group = gangs::pod_group(&namespace, &name, size, class);
        self.stage.create::<PodGroup>("podgroup", group).await
    }

    /// Writes what machines are told to be, as `orrery node` does: a template lets a node join, and a word lets it leave and come back.
    async fn write_fleet(&self, changes: &Value) -> Result<(), Error> {
        let maps = self.stage.admin.api::<ConfigMap>(fleet_map::NAMESPACE);
        let patch = Patch::Merge(json!({"data": changes}));
        match maps.patch(fleet_map::NAME, &patch, &PatchOptions::default()).await {
            Err(error) if error.is_not_found() => {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(fleet_map::NAME.to_owned());
                maps.create(&map).await?;
                maps.patch(fleet_map::NAME, &patch, &PatchOptions::default()).await.map(drop)
            }
            written => written.map(drop),
        }
    }
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
        self.create_group(pod).await?;
        let created = self.stage.admin.api::<Pod>(namespace).create(&super::read(&with_class(pod))?).await;
        created.map(|_| ()).map_err(|error: Error| format!("pod {namespace}/{name}: {error}"))
    }

    async fn create_deployment(&self, deployment: &Deployment) -> Result<(), String> {
        let mut document = deployment.document.clone();
        document["spec"]["template"] = with_class(&document["spec"]["template"]);
        self.stage.create::<api::apps::v1::Deployment>("deployment", document).await?;
        match &deployment.autoscaler {
            Some(document) => self.stage.create::<HorizontalPodAutoscaler>("autoscaler", document.clone()).await,
            None => Ok(()),
        }
    }

    async fn change_machines(&mut self, orders: &Orders) -> Result<(), String> {
        let mut changes = Map::new();
        for document in &orders.join {
            let name = document["name"].as_str().unwrap_or_default();
            if self.initial.contains(name) {
                changes.insert(format!("machine.{name}"), Value::Null);
            } else {
                let mut document = document.clone();
                document["podCIDR"] = range_of(self.joined).into();
                self.joined += 1;
                changes.insert(format!("template.{name}"), document.to_string().into());
            }
        }
        for name in &orders.leave {
            if self.initial.contains(name) {
                changes.insert(format!("machine.{name}"), "state: removed".into());
            } else {
                changes.insert(format!("template.{name}"), Value::Null);
            }
        }
        self.write_fleet(&changes.into()).await.map_err(|error| format!("ConfigMap {}: {error}", fleet_map::NAME))
    }

    fn take_answered(&self) -> Requests {
        self.stage.answered.take()
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

/// Returns the range of the pods of a node that joins. It has one at once, because a node that waits for one is not ready for 20 s.
fn range_of(joined: u32) -> String {
    format!("100.{}.{}.0/24", 64 + joined / 256 % 64, joined % 256)
}

fn change(event: &Event) -> Result<Change, String> {
    let stored = event.current.as_ref().map(|entry| read(&event.key, &entry.value)).transpose()?;
    if let Some(node) = event.key.strip_prefix(NODES) {
        return Ok(Change::Node { name: node.to_owned(), is_ready: stored.as_ref().is_some_and(Stored::is_ready) });
    }
    let name = event.key.strip_prefix(PODS).unwrap_or(&event.key).to_owned();
    Ok(Change::Pod { name, state: stored.as_ref().map(PodState::of_stored) })
}

/// Reads a stored pod or node; the error names it.
fn read(key: &str, document: &[u8]) -> Result<Stored, String> {
    Stored::read(document).map_err(|error| format!("{key}: {error}"))
}

/// Returns the switch that serves PodGroups.
fn gangs_api(is_on: bool) -> Vec<ApiSwitch> {
    let switch = is_on.then(|| format!("{}=true", gangs::API).parse());
    switch.into_iter().map(|switch| switch.expect("the switch is well-formed")).collect()
}

pub fn connect(env: &Env, user: &str, agent: &str) -> Client {
    connect_to(env, AUTHORITY, user, agent)
}

fn connect_to(env: &Env, authority: &str, user: &str, agent: &str) -> Client {
    let connection = keys::connection(&format!("https://{authority}"), user);
    Client::connect(env, &connection, agent).expect("an in-process connection needs nothing")
}
