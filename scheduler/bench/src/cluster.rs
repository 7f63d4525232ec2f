//! `BenchCluster`, nodes and pods in memory with the scheduler's cache and the default profile.

use crate::objects::StoredObjects;
use client::Lister;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_plugins::dynamic_resources::{self, DeviceClasses};
use scheduler_plugins::fixture::{Objects, profile};
use scheduler_plugins::storage::Storage;
use scheduling_framework::cache::{Cache, Snapshot};
use scheduling_framework::cycle::{self, Decision, Rotation};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, Nominated, Nomination, Profile};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of bindings that are written while later pods are scheduled.
const IN_FLIGHT: usize = 16;

/// What an attempt has come to.
pub enum Attempted {
    Placed {
        node: String,
        /// Numbers of the nodes on which the pod fits, as far as the cycle searched; `None` if nobody wants them.
        feasible: Option<Vec<usize>>,
    },
    /// The pods that are evicted. The next attempt takes their place.
    Preempting(Vec<Arc<PodInfo>>),
    Failed,
}

pub struct BenchCluster {
    profile: Profile,
    cache: Cache,
    snapshot: Snapshot,
    nominated: Nominated,
    rotation: Rotation,
    random: Random,
    /// Placements that no event has confirmed yet.
    unconfirmed: VecDeque<(Value, String)>,
}

pub fn decoded<T: Kind>(object: Value) -> T {
    T::decode_value(object).expect("the benchmark's objects are valid")
}

/// Returns what the plugins read.
fn objects(stored: &StoredObjects) -> Objects {
    let mut objects = Objects::default();
    objects.volumes.sources.storage = Storage {
        claims: Lister::of(all_decoded(&stored.claims)),
        csi_nodes: Lister::of(all_decoded(&stored.csi_nodes)),
        ..Storage::empty().with_volumes(all_decoded(&stored.volumes))
    };
    objects.devices.sources = dynamic_resources::Sources::of(
        Lister::of(all_decoded(&stored.device_claims)),
        DeviceClasses::of(all_decoded(&stored.device_classes)),
        Lister::of(all_decoded(&stored.slices)),
    );
    objects
}

pub fn all_decoded<T: Kind>(objects: &[Value]) -> Vec<T> {
    objects.iter().cloned().map(decoded).collect()
}

impl BenchCluster {
    pub fn new(nodes: impl Iterator<Item = Value>, stored: &StoredObjects) -> Self {
        let mut cache = Cache::default();
        nodes.for_each(|node| cache.set_node(Arc::new(decoded::<Node>(node))));
        let mut snapshot = Snapshot::default();
        cache.update(&mut snapshot);
        Self {
            profile: profile(objects(stored)),
            cache,
            snapshot,
            nominated: Nominated::default(),
            rotation: Rotation::default(),
            random: Random::from_seed(1, "ties"),
            unconfirmed: VecDeque::new(),
        }
    }

    pub fn place(&mut self, mut pod: Value, node: &str) {
        pod["spec"]["nodeName"] = node.into();
        self.cache.set_pod(Arc::new(PodInfo::new(Arc::new(decoded::<Pod>(pod)))));
    }

    /// Tries a pod once, with preemption if no node fits. An attempt frees all that nobody wants.
    pub fn attempt(&mut self, pod: &Arc<PodInfo>, wants_feasible: bool) -> Attempted {
        let mut state = CycleState::default();
        state.only_totals = true;
        self.cache.update(&mut self.snapshot);
        let Self { profile, snapshot, nominated, rotation, random, .. } = self;
        match cycle::schedule_one(profile, &mut state, pod, snapshot, nominated, rotation, random) {
            Ok(decision) => {
                state.end_search();
                if profile.run_reserve(&mut state, pod, &decision.node).is_err() {
                    return Attempted::Failed;
                }
                self.cache.assume(pod.clone(), &decision.node);
                let Decision { node, feasible, .. } = decision;
                Attempted::Placed { node, feasible: wants_feasible.then_some(feasible) }
            }
            Err(mut error) => {
                let result = profile.run_post_filters(&mut error, &state, pod, snapshot, nominated);
                if !matches!(result.nomination, Nomination::Node(_)) {
                    return Attempted::Failed;
                }
                result.victims.iter().for_each(|victim| drop(self.cache.remove_pod(victim.uid())));
                Attempted::Preempting(result.victims)
            }
        }
    }

    /// Returns the name of a node by its number in decisions.
    pub fn name(&self, number: usize) -> String {
        self.snapshot.nodes()[number].name().to_owned()
    }

    /// Records that a binding is being written. The oldest one is confirmed, as by an event of a watch.
    pub fn bound(&mut self, pod: Value, node: String) {
        self.unconfirmed.push_back((pod, node));
        if self.unconfirmed.len() > IN_FLIGHT
            && let Some((pod, node)) = self.unconfirmed.pop_front()
        {
            self.place(pod, &node);
        }
    }
}
