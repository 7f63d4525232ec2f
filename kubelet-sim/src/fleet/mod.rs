//! The fleet: a row for each simulated node, two work queues, and one informer each for nodes and pods.
//!
//! Corresponds to many runs of pkg/kubelet.Run. A node has no task of its own: its next action waits in a queue until
//! it is due, and a few workers serve all nodes. Read `row` (one node), `node_tasks` and `pod_sync`, then `Fleet`.

pub mod row;
pub mod node_tasks;
pub mod pod_sync;
pub mod objects;

use crate::certificate::CertificateManager;
use crate::config::{Latency, Settings};
use crate::fleet::node_tasks::NodeTask;
use crate::fleet::objects::ObjectCache;
use crate::fleet::pod_sync::Shared;
use crate::fleet::row::NodeRow;
use crate::lease;
use crate::pod::conditions;
use crate::pod::memory::PodMemory;
use crate::pod::needs::downward::Allocatable;
use crate::pod::needs::references::{Objects, Reference};
use crate::pod::needs::resolver::ClusterDns;
use crate::pod::progress::ProbeCounts;
use crate::pod::resize;
use crate::runtime::Runtime;
use client::work_queue::rate_limit::RateLimiter;
use client::{Client, Event, Informers, ListOptions, Lister, ReconcileError, Recorder, WorkQueue, run_workers};
use component_base::env::Env;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Name of the index of pods by the node that they are bound to.
const BY_NODE: &str = "spec.nodeName";
/// Nodes that write their lease or status at the same time. 10,000 leases in 10 s are one write a millisecond.
const NODE_WORKERS: usize = 8;
/// Events that may wait to be written, for each node: enough for all pods of a full node to start at once.
const EVENTS_PER_NODE: usize = 500;
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
    rows: Vec<NodeRow>,
    by_name: BTreeMap<String, usize>,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    memory: PodMemory,
    runtime: Runtime,
    objects: ObjectCache,
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
        pods.index(BY_NODE, |pod| vec![node_name(pod).to_owned()]);

        let queue_length = EVENTS_PER_NODE * settings.nodes as usize;
        let recorder = Recorder::with_queue_length(&client, "kubelet", "", queue_length);
        let row = |number| NodeRow::new(&client, &recorder, &settings, number);
        let rows: Vec<NodeRow> = (settings.first_node..settings.first_node + settings.nodes).map(row).collect();
        let fleet = Arc::new(Fleet {
            by_name: rows.iter().enumerate().map(|(at, row)| (row.machine.name.clone(), at)).collect(),
            rows,
            nodes: nodes.lister(),
            pods: pods.lister(),
            memory: PodMemory::default(),
            runtime: Runtime::default(),
            objects: ObjectCache::default(),
            node_queue: WorkQueue::with_limiter(&env, "nodes", limiter(NODE_RETRY)),
            pod_queue: WorkQueue::with_limiter(&env, "pods", limiter(POD_RETRY)),
            random: env.random("kubelet-sim/jitter"),
            changes: watch::Sender::new(()),
            env,
            settings,
        });
        let handler = fleet.clone();
        nodes.on_event(move |event| handler.on_node(event));
        let handler = fleet.clone();
        pods.on_event(move |event| handler.on_pod(event));
        (fleet, informers)
    }

    /// Starts the informers, and works until the environment shuts down.
    pub async fn start(self: Arc<Self>, informers: Informers) {
        informers.start();
        if informers.synced().await {
            self.work().await;
        }
    }

    /// Returns the processes of containers that somebody has looked at.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub fn latency(&self) -> &Latency {
        &self.settings.latency
    }

    pub fn cluster_dns(&self) -> ClusterDns {
        let servers = self.settings.cluster_dns.iter().map(ToString::to_string).collect();
        ClusterDns { servers, domain: self.settings.cluster_domain.clone() }
    }

    /// Returns how long a stream may be silent before it is closed.
    pub fn idle_limit(&self) -> Duration {
        self.settings.streaming_connection_idle_timeout
    }

    /// Returns the client that writes as this node; `None` when the node is not of this fleet.
    pub fn client_of(&self, node: &str) -> Option<Client> {
        self.by_name.get(node).map(|&at| self.rows[at].client.clone())
    }

    pub fn pods_of(&self, node: &str) -> Option<Vec<Arc<Pod>>> {
        self.by_name.get(node).map(|_| self.pods.by_index(BY_NODE, node))
    }

    /// Finds a pod on a node of this fleet; returns it with its latest known status.
    pub fn find(&self, node: &str, namespace: &str, name: &str) -> Option<(Arc<Pod>, PodStatus)> {
        self.by_name.get(node)?;
        let pod = self.pods.get(namespace, name).filter(|pod| node_name(pod) == node)?;
        let (status, _) = self.memory.status_of(&pod);
        Some((pod, status))
    }

    /// Reads the ConfigMaps and Secrets that a pod refers to, with its node's identity.
    pub async fn objects_of(&self, node: &Client, namespace: &str, references: BTreeSet<Reference>) -> Objects {
        self.objects.read(node, &self.env, namespace, references, Timestamp::UNIX_EPOCH).await
    }

    /// Returns the running pods of a node with the probes of their present runs, by container and kind of probe.
    pub fn probes_of(&self, node: &str) -> Option<Vec<(Arc<Pod>, BTreeMap<(String, &'static str), ProbeCounts>)>> {
        let row = &self.rows[*self.by_name.get(node)?];
        let now = self.env.wall();
        let probes = |pod: Arc<Pod>| {
            let (status, _) = self.memory.status_of(&pod);
            let probes = pod_sync::observe_probes(row, &pod, &status, &self.settings.latency, now);
            (pod, probes)
        };
        Some(self.pods.by_index(BY_NODE, node).into_iter().map(probes).collect())
    }

    /// Returns when the node was created.
    pub fn created_at(&self, node: &str) -> Option<Timestamp> {
        Some(self.nodes.get("", node)?.metadata.creation_timestamp.as_ref()?.0)
    }

    /// Returns what pods on the node may use; it stands in for limits that a container does not have.
    pub fn allocatable_of(&self, node: &str) -> Option<Allocatable> {
        self.nodes.get("", node)?.status.as_ref()?.allocatable.clone()
    }

    /// Returns a receiver that wakes with every change of a pod.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    async fn work(self: Arc<Self>) {
        for (at, row) in self.rows.iter().enumerate() {
            let node_queue = self.node_queue.clone();
            let register = move || node_queue.add(NodeTask::Register(at));
            match (&self.settings.bootstrap, &row.renewal) {
                (Some(bootstrap), Some(renewal)) => {
                    let manager = CertificateManager {
                        env: self.env.clone(),
                        bootstrap: bootstrap.clone(),
                        node: row.machine.name.clone(),
                        renewal: renewal.clone(),
                        random: self.env.random(&format!("kubelet-sim/certificate/{}", row.machine.name)),
                    };
                    self.env.spawn(manager.run(register));
                }
                _ => register(),
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
        let (Event::Added(node) | Event::Updated { new: node, .. }) = event else { return };
        if let Some(&at) = self.by_name.get(node.name()) {
            self.observe_node(at, node);
        }
    }

    /// Observes a node as the API server has it. It comes from the informer or from the registration, in either order.
    fn observe_node(&self, at: usize, node: &Node) {
        if self.rows[at].observe_node(node) {
            self.use_range(at);
        }
    }

    /// Lets pods use a new range of addresses.
    fn use_range(&self, at: usize) {
        for pod in self.pods.by_index(BY_NODE, &self.rows[at].machine.name) {
            self.rows[at].recover(&pod);
            self.pod_queue.add(pod.key());
        }
        self.node_queue.add(NodeTask::ReportStatus(at));
    }

    fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        // Pods on other fleets' nodes are left alone.
        let Some(&at) = self.by_name.get(node_name(pod)) else { return };
        match event {
            Event::Deleted(_) => {
                self.rows[at].release(pod.uid());
                self.retry_resizes(at);
            }
            Event::Added(_) => self.rows[at].recover(pod),
            Event::Updated { old, .. } if old.uid() != pod.uid() => self.rows[at].release(old.uid()),
            Event::Updated { .. } => {}
        }
        self.pod_queue.add(pod.key());
        self.changes.send_replace(());
    }

    /// Lets pods of a node try again that wait for other resources.
    fn retry_resizes(&self, at: usize) {
        for pod in self.pods.by_index(BY_NODE, &self.rows[at].machine.name) {
            let pending = pod.status.as_ref().and_then(|status| conditions::find(status, resize::PENDING));
            if pending.is_some_and(|condition| condition.reason.as_deref() == Some("Deferred")) {
                self.pod_queue.add(pod.key());
            }
        }
    }

    async fn run_node_task(&self, task: NodeTask) -> Result<(), ReconcileError> {
        let row = &self.rows[task.row()];
        let next = match task {
            NodeTask::Register(at) => {
                let node = node_tasks::register(row, &self.env).await?;
                self.observe_node(at, &node);
                self.node_queue.add(NodeTask::RenewLease(at));
                self.node_queue.add(NodeTask::ReportStatus(at));
                let after = node_tasks::fall_back_after(&node, self.env.wall());
                self.node_queue.add_after(NodeTask::FallBack(at), after);
                return Ok(());
            }
            NodeTask::FallBack(at) => {
                if node_tasks::fall_back(row) {
                    self.use_range(at);
                }
                return Ok(());
            }
            NodeTask::RenewLease(_) => {
                node_tasks::renew_lease(row, &self.settings, &self.env).await?;
                lease::renew_interval(self.settings.node_lease_duration)
            }
            NodeTask::ReportStatus(_) => {
                // As with a kubelet, a node that was deleted stays deleted until its agent starts again.
                if let Some(node) = self.nodes.get("", &row.machine.name) {
                    node_tasks::report_status(row, &node, &self.settings, &self.env, &self.random).await?;
                }
                self.settings.node_status_update_frequency
            }
        };
        self.node_queue.add_after(task, self.random.jitter(next, JITTER));
        Ok(())
    }

    async fn sync_pod(&self, key: String) -> Result<(), ReconcileError> {
        let Some(pod) = self.pods.by_key(&key) else {
            self.memory.forget(&key);
            return Ok(());
        };
        let Some(&at) = self.by_name.get(node_name(&pod)) else { return Ok(()) };
        let row = &self.rows[at];
        // For an agent, a node that was deleted is still as it was registered.
        let node = self.nodes.get("", &row.machine.name).unwrap_or_else(|| Arc::new(row.initial_node(&self.env)));
        let Fleet { memory, objects, env, settings, .. } = self;
        let shared = Shared { memory, objects, env, latency: &settings.latency };
        let synced = pod_sync::sync(row, &node, &pod, &shared).await;
        if self.pods.by_key(&key).is_none_or(|present| present.uid() != pod.uid()) {
            // The pod was deleted meanwhile: release what the sync has just given to it.
            row.release(pod.uid());
        }
        if let Some(after) = synced? {
            self.pod_queue.add_after(key, after.max(Duration::from_millis(1)));
        }
        Ok(())
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
