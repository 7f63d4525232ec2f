//! A small cluster for tests, with nodes and pods from JSON, and decisions as text.

use crate::cache::{Cache, Snapshot};
use crate::configuration::profile::{DEFAULT_SCHEDULER, ProfileConfiguration};
use crate::cycle::{self, Decision, Rotation};
use crate::framework::{
    Bind, ClusterEvent, CycleState, FitError, Nominated, Nomination, Plugin, PostFilterResult, Profile, Registry,
    assembly,
};
use crate::plugins::default_selector::Workloads;
use crate::plugins::dynamic_resources::{self, DeviceClasses, DynamicResources};
use crate::plugins::volume_binding::{self, VolumeBinding};
use crate::plugins::{self, Sources};
use crate::pod_info::PodInfo;
use async_trait::async_trait;
use client::Lister;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::{Namespace, Node, Pod};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// A Bind plugin that binds nothing, because tests only compare decisions.
struct NoBinder;

impl Plugin for NoBinder {
    fn name(&self) -> &'static str {
        "NoBinder"
    }
}

#[async_trait]
impl Bind for NoBinder {
    async fn bind(&self, _: &PodInfo, _: &str) -> Option<Result<(), String>> {
        None
    }
}

fn none<T: client::Cached>() -> Lister<T> {
    Lister::of([])
}

pub struct Objects {
    pub replica_sets: Vec<ReplicaSet>,
    pub volumes: VolumeBinding,
    pub devices: DynamicResources,
    pub budgets: Vec<PodDisruptionBudget>,
}

impl Default for Objects {
    fn default() -> Self {
        let sources = volume_binding::Sources {
            pods: none(),
            nodes: none(),
            claims: none(),
            volumes: none(),
            classes: none(),
            drivers: none(),
            capacities: none(),
            csi_nodes: none(),
            attachments: none(),
            assumed: Default::default(),
        };
        let volumes = VolumeBinding { args: Default::default(), sources, writer: None };
        let sources = dynamic_resources::Sources::of(none(), DeviceClasses::of([]), none());
        let devices = DynamicResources { sources, random: Random::from_seed(1, "shares"), writer: None };
        Self { replica_sets: Vec::new(), volumes, devices, budgets: Vec::new() }
    }
}

/// Returns the default profile.
pub fn profile(objects: Objects) -> Profile {
    let configuration = ProfileConfiguration::with_defaults(DEFAULT_SCHEDULER);
    assembly::assemble(&configuration, &registry(objects)).unwrap()
}

/// Returns a profile as an entry of `profiles` describes it.
pub fn profile_of(value: &Value, objects: Objects) -> Profile {
    let mut errors = Vec::new();
    let configuration = ProfileConfiguration::read("profiles[0]", value, &mut errors);
    assert_eq!(errors, [""; 0]);
    assembly::assemble(&configuration, &registry(objects)).unwrap()
}

/// Returns Kubernetes' plugins over these objects.
pub fn registry(objects: Objects) -> Registry {
    let workloads = Workloads {
        services: none(),
        replication_controllers: none(),
        replica_sets: Lister::of(objects.replica_sets),
        stateful_sets: none(),
    };
    let (budgets, random) = (Lister::of(objects.budgets), Random::from_seed(1, "preemption"));
    let Objects { volumes, devices, .. } = objects;
    let sources = Sources { workloads, volumes, devices, budgets, random };
    plugins::in_tree(&sources, Arc::new(NoBinder))
}

/// Returns a node with 4 cores, 8 GiB, 110 pods and labels for zone and hostname, with `extra` merged over it.
pub fn node(name: &str, zone: &str, extra: Value) -> Arc<Node> {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "zone": zone});
    let mut node = json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    merge(&mut node, extra);
    Arc::new(Node::decode_value(node).unwrap())
}

/// Returns a pod whose volumes have these claims.
pub fn with_claims(name: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod(name, "1", json!({"volumes": claims.iter().map(volume).collect::<Vec<_>>()}))
}

/// Returns a pod with one container that requests `cpu`, with `spec` merged over it.
pub fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": name.split('-').next()}},
        "spec": {"containers": [container]},
    });
    merge(&mut pod["spec"], spec);
    pod
}

pub fn info(pod: Value) -> Arc<PodInfo> {
    Arc::new(PodInfo::new(Arc::new(Pod::decode_value(pod).unwrap())))
}

pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match value {
                    Value::Null => drop(into.remove(&key)),
                    value => merge(into.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (into, from) => *into = from,
    }
}

pub struct TestCluster {
    pub profile: Profile,
    pub cache: Cache,
    pub snapshot: Snapshot,
    pub nominated: Nominated,
    pub rotation: Rotation,
    random: Random,
}

impl TestCluster {
    pub fn new(nodes: impl IntoIterator<Item = Arc<Node>>) -> Self {
        Self::with(profile(Objects::default()), nodes)
    }

    pub fn with(profile: Profile, nodes: impl IntoIterator<Item = Arc<Node>>) -> Self {
        let mut cache = Cache::default();
        let namespace = json!({"metadata": {"name": "shop", "labels": {"team": "shop"}}});
        cache.namespaces.set(&Namespace::decode_value(namespace).unwrap());
        nodes.into_iter().for_each(|node| cache.set_node(node));
        let random = Random::from_seed(1, "ties");
        let (snapshot, nominated, rotation) = (Snapshot::default(), Nominated::default(), Rotation::default());
        Self { profile, cache, snapshot, nominated, rotation, random }
    }

    /// Adds a pod to a node without the plugins.
    pub fn place(&mut self, mut pod: Value, node: &str) {
        pod["spec"]["nodeName"] = json!(node);
        self.cache.set_pod(info(pod));
    }

    /// Schedules and assumes a pod. Returns the decision as a line.
    pub fn schedule(&mut self, pod: Value) -> String {
        let info = info(pod);
        match self.decide(&info, &mut CycleState::default()) {
            Ok(decision) => {
                self.cache.assume(info.clone(), &decision.node);
                format!("{} -> {}", info.pod.name(), decision.node)
            }
            Err(error) => format!("{}: {error}", info.pod.name()),
        }
    }

    pub fn decide(&mut self, info: &PodInfo, state: &mut CycleState) -> Result<Decision, FitError> {
        self.cache.update(&mut self.snapshot);
        let Self { profile, snapshot, nominated, rotation, random, .. } = self;
        cycle::schedule_one(profile, state, info, snapshot, nominated, rotation, random)
    }

    /// Returns a table with every plugin's normalized score of every feasible node.
    pub fn scores(&mut self, pod: Value) -> String {
        let decision = self.decide(&info(pod), &mut CycleState::default()).unwrap();
        let mut table = String::new();
        write!(table, "{:<36}", "").unwrap();
        decision.feasible.iter().for_each(|node| write!(table, "{node:>5}").unwrap());
        for plugin in &decision.scores {
            write!(table, "\n{:<32}{:>4}", plugin.plugin, format!("x{}", plugin.weight)).unwrap();
            plugin.scores.iter().for_each(|score| write!(table, "{score:>5}").unwrap());
        }
        table + "\n"
    }

    /// Returns the preemption for a pod that no node fits, as a line.
    pub fn preempt(&mut self, pod: Value) -> String {
        let (info, mut state) = (info(pod), CycleState::default());
        let Err(mut error) = self.decide(&info, &mut state) else { return "fits".to_owned() };
        let PostFilterResult { nomination, victims, .. } =
            self.profile.run_post_filters(&mut error, &state, &info, &self.snapshot, &self.nominated);
        let victims: Vec<&str> = victims.iter().map(|victim| victim.pod.name()).collect();
        match nomination {
            Nomination::Node(node) => format!("{node} without [{}]", victims.join(" ")),
            Nomination::Clear => error.to_string(),
            Nomination::Keep => format!("{error} (stays nominated)"),
        }
    }
}

/// Returns the queueing hint of a plugin.
pub fn hint(plugin: &str, pod: &PodInfo, event: &ClusterEvent) -> bool {
    let profile = profile(Objects::default());
    let plugin = profile.plugins.iter().find(|p| p.name() == plugin).unwrap();
    plugin.may_become_schedulable(pod, event)
}
