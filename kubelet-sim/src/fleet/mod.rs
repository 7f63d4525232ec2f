//! The fleet: a kubelet for each simulated node, two work queues, and one informer each for nodes and pods.
//!
//! Corresponds to many runs of pkg/kubelet.Run. A node has no task of its own: its next action waits in a queue until
//! it is due, and a few workers serve all nodes. Read `kubelet` (one node), `node_tasks` and `pod_sync`, then `Fleet`.

pub mod kubelet;
pub mod members;
pub mod power;
pub mod machines;
pub mod node_tasks;
mod pod_volumes;
pub mod pod_sync;
mod volumes;
pub mod stages;
pub mod watched;
pub mod pressure;
pub mod mirror;
mod static_sync;
mod device_driver;
pub mod runtime_class;
pub mod rival;
pub mod cluster;

use crate::behaviour::rules::Rules;
use crate::config::{Latency, Settings};
use crate::eviction::manager::EvictionSettings;
use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::machines::{Machines, failure_draws};
use crate::fleet::members::Members;
use crate::fleet::node_tasks::NodeTask;
use crate::fleet::pod_sync::Shared;
use crate::fleet::pressure::{MONITORING_PERIOD, PressureSettings};
use crate::fleet::stages::Driver;
use crate::image_gc::ImageGcSettings;
use crate::lease;
use crate::machines::failures::FailureSchedule;
use crate::network::services::Services;
use crate::objects::ObjectCache;
use crate::plan::{self, NodePlan};
use crate::runtime::Runtime;
use crate::runtime::container::NodeContext;
use crate::static_pods::table::StaticPods;
use ::stages::current::CurrentStages;
use ::stages::runs::StageRuns;
use ::stages::stage::Subject;
use client::work_queue::rate_limit::RateLimiter;
use client::{
    Client, Event, EventType, Informers, ListOptions, Lister, ReconcileError, Recorder, Regarding, WorkQueue,
    run_workers,
};
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::RwLock;
use pod_life::conditions;
use pod_life::memory::PodMemory;
use pod_life::needs::resolver::ClusterDns;
use pod_life::notes::NodeTermination;
use pod_life::preemption;
use pod_life::progress::ProbeCounts;
use pod_life::resize;
use pod_life::story::usage::Requests;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// Name of the index of pods by the node that they are bound to.
const BY_NODE: &str = "spec.nodeName";
/// Nodes that write their lease or status at the same time. 10,000 leases in 10 s are one write a millisecond.
const NODE_WORKERS: usize = 32;
/// Leases are renewed at multiples of this, so that the leases of many nodes share system calls and commits of the store.
const LEASE_TICK: Duration = Duration::from_millis(100);
/// Tasks that write the events of all nodes.
const EVENT_WRITERS: u32 = 8;
/// Events that may wait to be written, for each node: enough for all pods of a full node to start at once.
const EVENTS_PER_NODE: usize = 500;
/// How long the fleet waits at its start for the ConfigMap about its machines.
const FIRST_READ: Duration = Duration::from_secs(2);
/// The caches hold the objects of so many changes whole, the last ones. A typed pod takes twenty times the memory of a packed one.
const WHOLE_PODS: usize = 1000;
/// The same for nodes. Each step of a pod reads its node, so more of them stay whole: about twenty megabytes.
const WHOLE_NODES: usize = 2000;
/// Lengthens periods at random, so that nodes that began together drift apart.
const JITTER: f64 = 0.04;
/// First and longest delay before a failed task is tried again. Each node counts for itself. A shared limit, or a delay
/// of minutes, would keep healthy nodes from renewing their leases after the API server was away.
const NODE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));
/// The same for a failed sync of a pod.
const POD_RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// All simulated nodes of the process, and the caches and queues that they share.
pub struct Fleet {
    env: Env,
    settings: Settings,
    pressure: PressureSettings,
    members: Members,
    machines: Machines,
    recorder: Recorder,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    memory: Arc<PodMemory>,
    static_pods: StaticPods,
    runtime: Runtime,
    objects: ObjectCache,
    client: Client,
    started: Timestamp,
    stages: CurrentStages,
    stage_runs: StageRuns,
    services: Services,
    /// A client without an identity, for containers.
    api_server: OnceLock<Client>,
    rules: RwLock<Arc<Rules>>,
    node_queue: WorkQueue<NodeTask>,
    pod_queue: WorkQueue<String>,
    random: Random,
    /// Notifies about every change of a pod.
    changes: watch::Sender<()>,
}

impl Fleet {
    /// Runs the fleet until the environment shuts down.
    pub async fn run(client: Client, settings: Settings, env: Env) {
        let (fleet, informers) = Self::new(client, settings, env);
        fleet.start(informers).await;
    }

    /// Returns a fleet that knows no object yet, and the informers to start it with.
    pub fn new(client: Client, settings: Settings, env: Env) -> (Arc<Self>, Informers) {
        let informers = Informers::new(&client);
        // The authorizer lets a node read only itself and its own pods.
        let (node_fields, pod_fields) = match settings.own_node() {
            Some(name) => (format!("metadata.name={name}"), format!("spec.nodeName={name}")),
            None => (String::new(), "spec.nodeName!=".to_owned()),
        };
        let nodes = informers.of_selected::<Node>(&ListOptions::fields(&node_fields));
        let pods = informers.of_selected::<Pod>(&ListOptions::fields(&pod_fields));
        nodes.pack_beyond(WHOLE_NODES);
        pods.pack_beyond(WHOLE_PODS);
        pods.index(BY_NODE, |pod| vec![node_name(pod).to_owned()]);

        let queue_length = EVENTS_PER_NODE * plan::node_count(&settings).div_ceil(EVENT_WRITERS).max(1) as usize;
        let recorder = Recorder::of_agents(&client, "kubelet", EVENT_WRITERS as usize, queue_length);
        let kubelet = |plan| SimulatedKubelet::new(&client, &recorder, plan, env.wall());
        let plans = NodePlan::all(&settings);
        let failures = FailureSchedule::new(settings.failure_models.clone(), failure_draws(&env));
        let machines = Machines::new(&plans, failures, env.now());
        let members = Members::new(plans.into_iter().map(kubelet));
        let memory = Arc::new(PodMemory::default());
        let pod_queue = WorkQueue::with_limiter(&env, "pods", limiter(POD_RETRY));
        // A pod that has begun to start goes on before the next one begins. While more pods start than the machine can
        // write, few are in between, and what is remembered of those in between is most of what pods take.
        let known = memory.clone();
        pod_queue.prefer(move |key: &String| known.knows(key));
        let fleet = Arc::new(Fleet {
            members,
            machines,
            recorder,
            nodes: nodes.lister(),
            pods: pods.lister(),
            memory,
            static_pods: StaticPods::default(),
            runtime: Runtime::new(settings.volume_dir.clone(), env.wall()),
            objects: ObjectCache::default(),
            services: Services::new(&client),
            api_server: OnceLock::new(),
            client,
            started: env.wall(),
            stages: CurrentStages::new(settings.stages.clone()),
            stage_runs: StageRuns::new(stages::draws(&env)),
            rules: RwLock::default(),
            node_queue: WorkQueue::with_limiter(&env, "nodes", limiter(NODE_RETRY)),
            pod_queue,
            random: env.random("kubelet-sim/jitter"),
            changes: watch::Sender::new(()),
            pressure: PressureSettings {
                eviction: EvictionSettings::of(&settings).expect("the settings have been checked"),
                images: ImageGcSettings::of(&settings),
            },
            env,
            settings,
        });
        let handler = fleet.clone();
        nodes.on_event(move |event| handler.on_node(event));
        let handler = fleet.clone();
        pods.on_event(move |event| handler.on_pod(event));
        (fleet, informers)
    }

    /// Lets containers reach the API server by a client that has no identity.
    pub fn open_gateway(&self, anonymous: Client) {
        let _ = self.api_server.set(anonymous);
    }

    /// Starts the informers, and works until the environment shuts down.
    pub async fn start(self: Arc<Self>, informers: Informers) {
        informers.start();
        self.follow_behaviour().await;
        self.follow_machines(FIRST_READ).await;
        if informers.synced().await {
            self.work().await;
        }
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns how long things take on a node.
    pub fn latency_of(&self, node: &str) -> Latency {
        self.members.named(node).map_or_else(|| self.settings.latency.clone(), |kubelet| kubelet.latency())
    }

    fn cluster_dns(&self) -> ClusterDns {
        let servers = self.settings.cluster_dns.iter().map(ToString::to_string).collect();
        ClusterDns { servers, domain: self.settings.cluster_domain.clone() }
    }

    /// Returns how long a stream may be silent before it is closed.
    pub fn idle_limit(&self) -> Duration {
        self.settings.streaming_connection_idle_timeout
    }

    /// Returns the client that writes as this node; `None` when the node is not of this fleet.
    pub fn client_of(&self, node: &str) -> Option<Client> {
        self.members.named(node).map(|kubelet| kubelet.client.clone())
    }

    pub fn node_names(&self) -> Vec<String> {
        self.members.names()
    }

    /// Returns a node as the API server has it.
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get("", name)
    }

    pub fn pods_of(&self, node: &str) -> Option<Vec<Arc<Pod>>> {
        self.members.has(node).then(|| self.pods_on(node))
    }

    /// Finds a pod on a node of this fleet; returns it with its latest known status.
    pub fn find(&self, node: &str, namespace: &str, name: &str) -> Option<(Arc<Pod>, PodStatus)> {
        self.members.index_of(node)?;
        if let Some(known) = self.static_pods.get(&format!("{namespace}/{name}")).filter(|known| known.node == node) {
            return Some((known.pod, known.status));
        }
        let pod = self.pods.get(namespace, name).filter(|pod| node_name(pod) == node)?;
        let (status, _) = self.memory.status_of(&pod);
        Some((self.with_rules(pod), status))
    }

    /// Returns what a node has for the processes of its containers.
    pub fn context_of(&self, node: &str) -> NodeContext<'_> {
        self.context(node, self.nodes.get("", node).as_deref())
    }

    /// Returns the same for a node that was read already.
    fn context(&self, name: &str, node: Option<&Node>) -> NodeContext<'_> {
        NodeContext {
            name: name.to_owned(),
            client: self.client_of(name),
            allocatable: node.and_then(|node| node.status.as_ref()?.allocatable.clone()),
            dns: self.cluster_dns(),
            objects: &self.objects,
            runtime: &self.runtime,
            cluster: self,
            env: &self.env,
        }
    }

    /// Returns what a container of a pod has served that began at this time.
    pub fn served(&self, pod_uid: &str, container: &str, started_at: Timestamp) -> Requests {
        self.runtime.traffic.requests(pod_uid, container, started_at, self.env.wall())
    }

    /// Syncs a pod soon, because its processes may have changed.
    pub fn wake(&self, pod: &Pod) {
        self.pod_queue.add(pod.key());
    }

    /// Returns the running pods of a node with the probes of their present runs, by container and kind of probe.
    pub fn probes_of(&self, node: &str) -> Option<Vec<(Arc<Pod>, BTreeMap<(String, &'static str), ProbeCounts>)>> {
        let kubelet = self.members.named(node)?;
        let now = self.env.wall();
        let probes = |pod: Arc<Pod>| {
            let (status, _) = self.memory.status_of(&pod);
            let probes = pod_sync::observe_probes(&kubelet, &pod, &status, &kubelet.latency(), now);
            (pod, probes)
        };
        Some(self.pods_on(node).into_iter().map(probes).collect())
    }

    /// Returns when the node was created.
    pub fn created_at(&self, node: &str) -> Option<Timestamp> {
        Some(self.nodes.get("", node)?.metadata.creation_timestamp.as_ref()?.0)
    }

    /// Returns a receiver that wakes with every change of a pod.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    async fn work(self: Arc<Self>) {
        if self.settings.own_node().is_none() {
            self.env.spawn(self.clone().drop_left_over_slices());
        }
        for (at, kubelet) in self.members.present() {
            if kubelet.power.is_reachable() {
                self.register(at);
            }
        }
        let (env, fleet) = (self.env.clone(), self.clone());
        let node_queue = run_workers(&env, "node", self.node_queue.clone(), NODE_WORKERS, move |task| {
            let fleet = fleet.clone();
            async move { fleet.run_node_task(task).await }
        });
        let workers = self.settings.concurrent_pod_syncs.max(1);
        let (env, fleet) = (self.env.clone(), self.clone());
        let pods = run_workers(&env, "pod", self.pod_queue.clone(), workers, move |key| {
            let fleet = fleet.clone();
            async move { fleet.sync_pod(key).await }
        });
        futures::join!(node_queue, pods);
    }

    fn on_node(&self, event: &Event<Node>) {
        let Some(at) = self.members.index_of(event.object().name()) else { return };
        match event {
            Event::Added(node) | Event::Updated { new: node, .. } => {
                self.observe_node(at, node);
                self.retry_mounts(event);
                // The report after the registration found no node if this event came later.
                if matches!(event, Event::Added(_)) {
                    self.node_queue.add(NodeTask::ReportStatus(at));
                }
            }
            Event::Deleted(node) => self.members.at(at).forget_node(node.uid()),
        }
    }

    /// Observes a node as the API server has it. It comes from the informer or from the registration, in either order.
    fn observe_node(&self, at: usize, node: &Node) {
        if self.members.at(at).observe_node(node, self.env.wall()) {
            self.use_range(at);
        }
        if self.stages.has(Subject::Node) {
            self.node_queue.add(NodeTask::PlayStage(at));
        }
    }

    /// Lets pods use a new range of addresses.
    fn use_range(&self, at: usize) {
        for pod in self.pods.by_index(BY_NODE, &self.members.at(at).machine.name) {
            self.members.at(at).recover(&pod, self.env.wall());
            self.pod_queue.add(pod.key());
        }
        self.node_queue.add(NodeTask::ReportStatus(at));
    }

    fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        // Pods on other fleets' nodes are left alone.
        let Some(at) = self.members.index_of(node_name(pod)) else { return };
        match event {
            // Nothing runs in a mirror pod.
            _ if mirror::is_mirror(pod) => {}
            Event::Deleted(_) => {
                self.members.at(at).release(pod.uid());
                self.runtime.release(pod.uid());
                self.retry_resizes(at);
                self.report_volumes(at);
            }
            Event::Added(_) => self.members.at(at).recover(pod, self.env.wall()),
            Event::Updated { old, .. } if old.uid() != pod.uid() => self.members.at(at).release(old.uid()),
            Event::Updated { .. } => {}
        }
        if pressure::is_watched(&self.with_rules(pod.clone())) {
            self.watch_pressure(at);
        }
        self.pod_queue.add(pod.key());
        self.changes.send_replace(());
    }

    /// Begins to check a node's pressures, unless it is checked already.
    fn watch_pressure(&self, at: usize) {
        if !self.members.at(at).checks_pressure.swap(true, Ordering::AcqRel) {
            self.node_queue.add_after(NodeTask::CheckPressure(at), MONITORING_PERIOD);
        }
    }

    fn check_pressure(&self, at: usize) {
        let kubelet = &*self.members.at(at);
        let pods = self.pods_on(&kubelet.machine.name);
        let checked = pressure::check(kubelet, &self.pressure, &pods, &self.memory, &self.env);
        if checked.changed {
            self.node_queue.add(NodeTask::ReportStatus(at));
        }
        checked.evicted.iter().for_each(|pod| self.pod_queue.add(pod.key()));
        kubelet.checks_pressure.store(checked.goes_on, Ordering::Release);
        if checked.goes_on {
            self.node_queue.add_after(NodeTask::CheckPressure(at), MONITORING_PERIOD);
        }
    }

    /// Lets pods of a node try again that wait for other resources.
    fn retry_resizes(&self, at: usize) {
        for pod in self.pods.by_index(BY_NODE, &self.members.at(at).machine.name) {
            let pending = pod.status.as_ref().and_then(|status| conditions::find(status, resize::PENDING));
            if pending.is_some_and(|condition| condition.reason.as_deref() == Some("Deferred")) {
                self.pod_queue.add(pod.key());
            }
        }
    }

    async fn run_node_task(&self, task: NodeTask) -> Result<(), ReconcileError> {
        let kubelet = &*self.members.at(task.index());
        let cannot = if task.is_remote() { !kubelet.power.is_reachable() } else { !kubelet.power.is_on() };
        if cannot && !matches!(task, NodeTask::Leave(_)) {
            return Ok(()); // The task comes back with the machine.
        }
        let next = match task {
            NodeTask::Leave(_) => return self.delete_node(kubelet).await,
            NodeTask::ShutDown(at) => {
                if let Some(after) = self.shut_down(at, kubelet) {
                    self.node_queue.add_after(task, after);
                }
                return Ok(());
            }
            NodeTask::Register(at) => {
                let node = node_tasks::register(kubelet, &self.env).await?;
                self.observe_node(at, &node);
                self.node_queue.add(NodeTask::RenewLease(at));
                self.node_queue.add(NodeTask::ReportStatus(at));
                self.node_queue.add(NodeTask::ReadManifests(at));
                if !kubelet.machine.devices.is_empty() && self.settings.own_node().is_none() {
                    self.node_queue.add(NodeTask::PublishDevices(at));
                }
                let after = node_tasks::fall_back_after(&node, self.env.wall());
                self.node_queue.add_after(NodeTask::FallBack(at), after);
                return Ok(());
            }
            NodeTask::FallBack(at) => {
                if node_tasks::fall_back(kubelet) {
                    self.use_range(at);
                }
                return Ok(());
            }
            NodeTask::CheckPressure(at) => {
                self.check_pressure(at);
                return Ok(());
            }
            NodeTask::ReadManifests(_) => {
                self.read_manifests(kubelet).await;
                if !kubelet.manifests.is_empty() {
                    self.node_queue.add_after(task, kubelet.manifests.period());
                }
                return Ok(());
            }
            NodeTask::PublishDevices(_) => {
                self.publish_devices(kubelet).await?;
                return Ok(());
            }
            NodeTask::PlayStage(_) => {
                if let Some(after) = self.play_node(kubelet).await? {
                    self.node_queue.add_after(task, after.max(Duration::from_millis(1)));
                }
                return Ok(());
            }
            NodeTask::ReportStatus(_) if self.stage_runs.is_in_stage(&kubelet.machine.name) => {
                self.settings.node_status_update_frequency
            }
            NodeTask::RenewLease(_) => {
                node_tasks::renew_lease(kubelet, &self.settings, &self.env).await?;
                lease::renew_interval(self.settings.node_lease_duration)
            }
            NodeTask::ReportStatus(_) => {
                // As with a kubelet, a node that was deleted stays deleted until its agent starts again.
                if let Some(node) = self.nodes.get("", &kubelet.machine.name) {
                    self.settle_volumes(kubelet);
                    node_tasks::report_status(kubelet, &node, &self.settings, &self.env, &self.random).await?;
                }
                self.settings.node_status_update_frequency
            }
        };
        let next = self.random.jitter(next, JITTER);
        let is_lease = matches!(task, NodeTask::RenewLease(_));
        self.node_queue.add_after(task, if is_lease { self.until_tick(next) } else { next });
        Ok(())
    }

    /// Returns the time from now until the first tick for leases after a time has passed.
    fn until_tick(&self, after: Duration) -> Duration {
        let since_start = Duration::try_from(self.env.wall().duration_since(self.started)).unwrap_or(Duration::ZERO);
        let rest_ns = (since_start + after).as_nanos() % LEASE_TICK.as_nanos();
        after + LEASE_TICK.saturating_sub(Duration::from_nanos(u64::try_from(rest_ns).unwrap_or(0)))
    }

    /// Ends a pod of a node because a critical one needs its resources.
    fn preempt(&self, kubelet: &SimulatedKubelet, key: &str) {
        let Some(pod) = self.pods.by_key(key) else { return };
        kubelet.recorder.event(&Regarding::of(&*pod), EventType::Warning, preemption::REASON, preemption::MESSAGE);
        let grace_s = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let termination = NodeTermination {
            asked_at: self.env.wall(),
            grace: Duration::from_secs(grace_s.and_then(|s| u64::try_from(s).ok()).unwrap_or(0)),
            reason: preemption::REASON,
            message: preemption::MESSAGE.to_owned(),
            disruption: Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned()),
        };
        self.memory.terminate(&pod, termination);
        self.pod_queue.add(key.to_owned());
    }

    async fn sync_pod(&self, key: String) -> Result<(), ReconcileError> {
        if let Some(known) = self.static_pods.get(&key) {
            return self.sync_static_pod(key, known).await;
        }
        let Some(pod) = self.pods.by_key(&key) else {
            self.memory.forget(&key);
            self.stage_runs.forget(&key);
            return Ok(());
        };
        let Some(at) = self.members.index_of(node_name(&pod)) else { return Ok(()) };
        let kubelet = &*self.members.at(at);
        if !kubelet.power.is_on() {
            return Ok(()); // The pod goes on with its machine.
        }
        let is_cut_off = kubelet.power.link().is_cut();
        if is_cut_off && self.stages.has(Subject::Pod) {
            return Ok(()); // Stages do nothing but write.
        }
        let Some(pod) = kubelet.power.pod_as_known(pod) else { return Ok(()) };
        if self.delete_orphan(kubelet, &pod).await? {
            return Ok(());
        }
        // For an agent, a node that was deleted is still as it was registered.
        let node =
            self.nodes.get("", &kubelet.machine.name).unwrap_or_else(|| Arc::new(kubelet.initial_node(&self.env)));
        let Fleet { memory, objects, env, .. } = self;
        let preempt = |key: &str| self.preempt(kubelet, key);
        let context = self.context(&kubelet.machine.name, Some(&node));
        let shared = Shared { memory, objects, env, context, latency: &kubelet.latency(), preempt: &preempt };
        let synced = match self.play_pod(kubelet, &node, &pod).await? {
            Driver::Stages(after) => Ok(after),
            Driver::Kubelet => pod_sync::sync(kubelet, &node, &self.with_rules(pod.clone()), &shared).await,
        };
        if self.pods.by_key(&key).is_none_or(|present| present.uid() != pod.uid()) {
            // The pod was deleted meanwhile: release what the sync has just given to it.
            kubelet.release(pod.uid());
        }
        self.report_volumes(at);
        let (next, error) = match synced {
            Ok(next) => (next, None),
            // It is reported once the machine is connected again.
            Err(unreported) => (unreported.next, Some(unreported.error).filter(|_| !is_cut_off)),
        };
        if let Some(after) = next {
            self.pod_queue.add_after(key, after.max(Duration::from_millis(1)));
        }
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn limiter<Key: Ord + Clone>((initial, max): (Duration, Duration)) -> RateLimiter<Key> {
    RateLimiter::per_key(initial, max)
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
