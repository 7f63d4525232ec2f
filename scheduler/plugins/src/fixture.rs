//! A small cluster for tests, with decisions as text.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

pub use scheduling_framework::fixture::{gang, info, merge, node, pod, pod_group, with_claims};

use crate::default_selector::Workloads;
use crate::dynamic_resources::{self, DeviceClasses, DynamicResources};
use crate::storage::Storage;
use crate::volume_binding::{self, VolumeBinding};
use crate::{Sources, in_tree};
use async_trait::async_trait;
use client::Lister;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::{Namespace, Node};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use scheduling_framework::cache::{Cache, Snapshot};
use scheduling_framework::configuration::profile::{DEFAULT_SCHEDULER, ProfileConfiguration};
use scheduling_framework::cycle::{self, Decision, Rotation};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    Bind, ClusterEvent, CycleState, FitError, Nominated, Nomination, Plugin, PostFilterResult, Profile, Registry,
    assembly,
};
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
    async fn bind(&self, _: &CycleState, _: &PodInfo, _: &str) -> Option<Result<(), String>> {
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
        let sources = volume_binding::Sources::new(none(), none(), Storage::empty());
        let volumes = VolumeBinding { args: Default::default(), sources, writer: None };
        let sources = dynamic_resources::Sources::of(none(), DeviceClasses::of([]), none());
        let devices = DynamicResources {
            sources,
            random: Random::from_seed(1, "shares"),
            max_steps: crate::dynamic_resources::MAX_STEPS,
            writer: None,
        };
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
    in_tree(&sources, Arc::new(NoBinder))
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

    /// Returns the names of the nodes on which the pod fits.
    pub fn names(&self, decision: &Decision) -> Vec<String> {
        decision.feasible.iter().map(|node| self.snapshot.nodes()[*node].name().to_owned()).collect()
    }

    /// Returns a table with every plugin's normalized score of every feasible node.
    pub fn scores(&mut self, pod: Value) -> String {
        let decision = self.decide(&info(pod), &mut CycleState::default()).unwrap();
        let mut table = String::new();
        write!(table, "{:<36}", "").unwrap();
        self.names(&decision).iter().for_each(|node| write!(table, "{node:>5}").unwrap());
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
