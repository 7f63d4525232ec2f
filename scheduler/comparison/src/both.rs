//! `Both`, the scheduler and the reference's cluster with the same objects.

use crate::draw::HOSTNAME;
use crate::history::Change;
use crate::world::World;
use client::Lister;
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, Node, Pod};
use scheduler_plugins::dynamic_resources::{self, DeviceClasses};
use scheduler_plugins::fixture::{Objects, TestCluster, info, profile_of};
use scheduler_plugins::storage::Storage as Caches;
use scheduler_reference::{
    Cluster, Decision, Devices, Evaluation, Labels, Named, PluginScores, Preemption, Rejection, Settings, Storage,
    Workloads,
};
use scheduling_framework::cache::{Cache, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FitError, Nomination};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

fn named(mut value: Value, name: &str) -> Value {
    value["metadata"]["name"] = json!(name);
    value["metadata"]["uid"] = json!(name);
    if let Some(labels) = value["metadata"]["labels"].as_object_mut().filter(|labels| labels.contains_key(HOSTNAME)) {
        labels.insert(HOSTNAME.to_owned(), json!(name));
    }
    value
}

fn decoded<T: Kind>(values: &[Value]) -> Vec<T> {
    values.iter().map(|value| T::decode_value(value.clone()).unwrap()).collect()
}

fn shared<T: Kind>(values: &[Value]) -> Vec<Arc<T>> {
    decoded(values).into_iter().map(Arc::new).collect()
}

fn named_objects<T: Kind>(values: &[Value]) -> Named<T> {
    decoded(values).into_iter().collect()
}

/// What both decided about a pod.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why the pod does not fit, for each node; `None` where it fits.
    pub verdicts: BTreeMap<String, Option<Rejection>>,
    /// The scores of the plugins, if more than one node is feasible.
    pub scores: Vec<PluginScores>,
    /// The nodes with the highest sum of scores.
    pub best: BTreeSet<String>,
    /// The victims on each node, if the pod fits nowhere.
    pub preemption: Preemption,
}

/// Fails with a text if two values differ.
fn same<T: PartialEq + Debug>(what: &str, scheduler: &T, reference: &T) -> Result<(), String> {
    let is_same = scheduler == reference;
    is_same.then_some(()).ok_or_else(|| format!("{what}\nscheduler: {scheduler:?}\nreference: {reference:?}"))
}

/// The scheduler and the reference's cluster with the same objects. One scheduler runs a whole history, so that the state
/// between its cycles is compared too.
pub struct Both {
    scheduler: TestCluster,
    cluster: Cluster,
    settings: Settings,
    decisions: usize,
    /// The pods that were scheduled, without names.
    shapes: Vec<Value>,
}

/// Returns what the scheduler's plugins read of a world.
fn objects(world: &World) -> Objects {
    let storage = Caches {
        claims: Lister::of(decoded(&world.claims)),
        classes: Lister::of(decoded(&world.classes)),
        drivers: Lister::of(decoded(&world.drivers)),
        capacities: Lister::of(decoded(&world.capacities)),
        csi_nodes: Lister::of(decoded(&world.csi_nodes)),
        ..Caches::empty().with_volumes(decoded(&world.volumes)).with_attachments(decoded(&world.attachments))
    };
    let mut objects =
        Objects { replica_sets: decoded(&world.replica_sets), budgets: decoded(&world.budgets), ..Objects::default() };
    objects.volumes.sources.storage = storage;
    objects.devices.sources = dynamic_resources::Sources::of(
        Lister::of(decoded(&world.device_claims)),
        DeviceClasses::of(decoded(&world.device_classes)),
        Lister::of(decoded(&world.slices)),
    );
    objects
}

/// Returns the reference's cluster without nodes and pods.
fn cluster(world: &World) -> Cluster {
    let storage = Storage {
        claims: named_objects(&world.claims),
        volumes: named_objects(&world.volumes),
        classes: named_objects(&world.classes),
        drivers: named_objects(&world.drivers),
        capacities: shared(&world.capacities),
        csi_nodes: named_objects(&world.csi_nodes),
        attachments: shared(&world.attachments),
    };
    let devices = Devices {
        claims: named_objects(&world.device_claims),
        classes: named_objects(&world.device_classes),
        slices: decoded(&world.slices).into_iter().collect(),
    };
    Cluster {
        workloads: Arc::new(Workloads { replica_sets: shared(&world.replica_sets), ..Workloads::default() }),
        storage: Arc::new(storage),
        devices: Arc::new(devices),
        budgets: shared(&world.budgets),
        ..Cluster::default()
    }
}

impl Both {
    pub fn new(world: &World) -> Self {
        let profile = profile_of(&world.profile, objects(world));
        let config = world.profile["pluginConfig"].as_array().cloned().unwrap_or_default();
        let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
        let settings = Settings {
            pre_filters: profile.pre_filter.iter().map(|it| it.name().to_owned()).collect(),
            filters: profile.filter.iter().map(|it| it.name().to_owned()).collect(),
            scores: profile.score.iter().map(|(it, weight)| (it.name().to_owned(), *weight)).collect(),
            args: config.iter().map(|it| (name(it), it["args"].clone())).collect(),
        };
        let scheduler = TestCluster::with(profile, []);
        Self { scheduler, cluster: cluster(world), settings, decisions: 0, shapes: Vec::new() }
    }

    pub fn decisions(&self) -> usize {
        self.decisions
    }

    pub fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::SetNode(number, value) => self.set_node(&format!("n{number}"), value.clone()),
            Change::RemoveNode(number) => {
                self.scheduler.cache.remove_node(&format!("n{number}"));
                self.cluster.nodes.remove(&format!("n{number}"));
            }
            Change::Place { pod, node, value } => {
                self.place(&format!("p{pod}"), &format!("n{node}"), value.clone());
            }
            Change::RemovePod(number) => self.remove(&format!("p{number}")),
            Change::SetTeam(is_blue) => self.set_namespace("y", &[("team", if *is_blue { "blue" } else { "red" })]),
            Change::Again(back) => {
                if let Some(at) = self.shapes.len().checked_sub(*back) {
                    let shape = self.shapes[at].clone();
                    self.apply(&Change::Schedule(shape))?;
                }
            }
            Change::Schedule(value) => {
                self.shapes.push(value.clone());
                let name = format!("s{}", self.shapes.len());
                self.schedule(&name, value.clone())?;
            }
        }
        Ok(())
    }

    pub fn set_node(&mut self, name: &str, value: Value) {
        let node = Arc::new(Node::decode_value(named(value, name)).unwrap());
        self.scheduler.cache.set_node(node.clone());
        self.cluster.set_node(node);
    }

    pub fn place(&mut self, name: &str, node: &str, value: Value) {
        let value = named(value, name);
        self.scheduler.place(value.clone(), node);
        self.cluster.place(Arc::new(Pod::decode_value(value).unwrap()), node);
    }

    pub fn set_namespace(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels: Labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        self.scheduler.cache.namespaces.set(&Namespace::decode_value(namespace).unwrap());
        self.cluster.namespaces.insert(name.to_owned(), labels);
    }

    pub fn remove(&mut self, uid: &str) {
        self.scheduler.cache.remove_pod(uid);
        self.cluster.remove(uid);
    }

    /// Schedules a pod, and puts it on its node, or nominates it and removes its victims.
    pub fn schedule(&mut self, name: &str, value: Value) -> Result<Outcome, String> {
        self.decisions += 1;
        let value = named(value, name);
        let (pod, info) = (Arc::new(Pod::decode_value(value.clone()).unwrap()), info(value));
        let Evaluation { verdicts, scores, best } = self.cluster.evaluate(&pod, &self.settings);
        let mut outcome = Outcome { verdicts, scores, best, preemption: Preemption::default() };
        let mut state = CycleState::default();
        match self.scheduler.decide(&info, &mut state) {
            Ok(decision) => {
                let feasible = self.scheduler.names(&decision);
                let scores = decision.scores.into_iter().map(|it| (it.plugin.to_owned(), it.scores)).collect();
                let node = decision.node.clone();
                let checked = Decision { node, feasible, is_complete: true, scores: Some(scores) };
                let wrong = self.cluster.check(&pod, &self.settings, &checked);
                if !wrong.is_empty() || !outcome.best.contains(&checked.node) {
                    return Err(format!("{}: {}\n{checked:?}", pod.key(), wrong.join("; ")));
                }
                self.scheduler.cache.assume(info, &decision.node);
                self.cluster.place(pod, &decision.node);
            }
            Err(FitError::NoNodes) => same("nodes", &0, &self.cluster.nodes.len())?,
            Err(mut error) => {
                let FitError::NoFit { diagnosis, .. } = &error else { return Err(error.to_string()) };
                for (name, verdict) in &outcome.verdicts {
                    let number = self.scheduler.snapshot.index_of(name);
                    let found = number.and_then(|number| diagnosis.of(number)).map(|it| Rejection {
                        plugin: it.plugin,
                        reasons: it.reasons.iter().map(ToString::to_string).collect(),
                        is_resolvable: it.resolvable,
                    });
                    same(&format!("{} on {name}", pod.key()), &found, verdict)?;
                }
                outcome.preemption = self.preempt(&pod, &info, &state, &mut error)?;
            }
        }
        Ok(outcome)
    }

    /// Preempts, and nominates the pod instead of the one before.
    fn preempt(
        &mut self,
        pod: &Arc<Pod>,
        info: &Arc<PodInfo>,
        state: &CycleState,
        error: &mut FitError,
    ) -> Result<Preemption, String> {
        let expected = self.cluster.preempt(pod, &self.settings);
        let TestCluster { profile, snapshot, nominated, .. } = &mut self.scheduler;
        let result = profile.run_post_filters(error, state, info, snapshot, nominated);
        let Nomination::Node(node) = &result.nomination else {
            same(&format!("{} preempts on", pod.key()), &BTreeSet::new(), &expected.best)?;
            return Ok(expected);
        };
        if !expected.best.contains(node) {
            return Err(format!("{} preempts on {node}\nreference: {expected:?}", pod.key()));
        }
        let victims: Vec<String> = result.victims.iter().map(|victim| victim.uid().to_owned()).collect();
        same(&format!("victims of {} on {node}", pod.key()), &victims, &expected.candidates[node].victims)?;
        let before: Vec<String> = self.cluster.nominated.values().flat_map(BTreeMap::keys).cloned().collect();
        before.iter().for_each(|uid| nominated.remove(uid));
        nominated.set(info.clone(), node);
        self.cluster.nominated = [(node.clone(), [(pod.uid().to_owned(), pod.clone())].into())].into();
        victims.iter().for_each(|uid| self.remove(uid));
        Ok(expected)
    }

    /// Compares the cache, which has followed a history, with one that is made from the objects.
    pub fn check_rebuild(&mut self) -> Result<(), String> {
        let mut cache = Cache::default();
        self.cluster.nodes.values().for_each(|node| cache.set_node(node.clone()));
        for (node, pods) in &self.cluster.pods {
            pods.values().for_each(|pod| cache.assume(Arc::new(PodInfo::new(pod.clone())), node));
        }
        let TestCluster { cache: followed, snapshot, .. } = &mut self.scheduler;
        cache.namespaces = followed.namespaces.clone();
        followed.update(snapshot);
        let mut rebuilt = Snapshot::default();
        cache.update(&mut rebuilt);
        snapshot.same_as(&rebuilt).then_some(()).ok_or_else(|| "the cache differs from a rebuild".to_owned())
    }
}
