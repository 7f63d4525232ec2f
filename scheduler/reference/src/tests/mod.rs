//! Compares the plugins with the reference on random histories of clusters. One scheduler runs a whole history, so that
//! the state between its cycles is tested too.
//!
//! `PROPTEST_CASES=10000 cargo test --release -p scheduler-reference` tries many more histories.

mod draw;
mod world;

use super::*;
use client::Lister;
use draw::{node, pod};
use proptest::prelude::*;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::Namespace;
use scheduler_plugins::dynamic_resources::{self, DeviceClasses};
use scheduler_plugins::fixture::{Objects, TestCluster, info, profile_of};
use scheduler_plugins::storage::Storage as Caches;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FitError, Nomination};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use world::{World, world};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const KEYS: [&str; 3] = [ZONE, HOSTNAME, "rack"];
const APPS: [&str; 2] = ["web", "db"];

#[derive(Clone, Debug)]
enum Change {
    SetNode(u8, Value),
    RemoveNode(u8),
    Place {
        pod: u8,
        node: u8,
        value: Value,
    },
    RemovePod(u8),
    SetTeam(bool),
    Schedule(Value),
    /// Schedules a pod of the shape of one of the last pods, for which something was kept.
    Again(usize),
}

fn history() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => (0..5_u8, node()).prop_map(|(number, value)| Change::SetNode(number, value)),
        1 => (0..5_u8).prop_map(Change::RemoveNode),
        6 => (0..12_u8, 0..5_u8, pod()).prop_map(|(pod, node, value)| Change::Place { pod, node, value }),
        1 => (0..12_u8).prop_map(Change::RemovePod),
        1 => prop::bool::ANY.prop_map(Change::SetTeam),
        6 => pod().prop_map(Change::Schedule),
        6 => (1..4_usize).prop_map(Change::Again),
    ];
    prop::collection::vec(change, 0..40)
}

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

/// The scheduler and the reference's cluster with the same objects.
struct Both {
    scheduler: TestCluster,
    cluster: Cluster,
    settings: Settings,
    scheduled: usize,
    /// The pods that were scheduled, without names.
    shapes: Vec<Value>,
}

impl Both {
    fn new(world: &World) -> Self {
        let sets = [json!({"metadata": {"namespace": "x", "name": "rs"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}})];
        let gpu = [json!({"metadata": {"name": "gpu"}, "spec": {}})];
        let caches = Caches {
            claims: Lister::of(decoded(&world.claims)),
            classes: Lister::of(decoded(&world::classes())),
            drivers: Lister::of(decoded(&world::drivers())),
            capacities: Lister::of(decoded(&world.capacities)),
            csi_nodes: Lister::of(decoded(&world.csi_nodes)),
            ..Caches::empty().with_volumes(decoded(&world.volumes)).with_attachments(decoded(&world.attachments))
        };
        let mut objects = Objects {
            replica_sets: decoded::<ReplicaSet>(&sets),
            budgets: decoded(&world.budgets),
            ..Objects::default()
        };
        objects.volumes.sources.storage = caches;
        objects.devices.sources = dynamic_resources::Sources::of(
            Lister::of(decoded(&world.device_claims)),
            DeviceClasses::of(decoded(&gpu)),
            Lister::of(decoded(&world.slices)),
        );
        let cluster = Cluster {
            workloads: Arc::new(Workloads { replica_sets: shared(&sets), ..Workloads::default() }),
            storage: Arc::new(Storage {
                claims: shared(&world.claims),
                volumes: shared(&world.volumes),
                classes: shared(&world::classes()),
                drivers: shared(&world::drivers()),
                capacities: shared(&world.capacities),
                csi_nodes: shared(&world.csi_nodes),
                attachments: shared(&world.attachments),
            }),
            devices: Arc::new(Devices {
                claims: shared(&world.device_claims),
                classes: shared(&gpu),
                slices: shared(&world.slices),
            }),
            budgets: shared(&world.budgets),
            ..Cluster::default()
        };
        let profile = profile_of(&world.profile, objects);
        let config = world.profile["pluginConfig"].as_array().cloned().unwrap_or_default();
        let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
        let settings = Settings {
            pre_filters: profile.pre_filter.iter().map(|it| it.name().to_owned()).collect(),
            filters: profile.filter.iter().map(|it| it.name().to_owned()).collect(),
            scores: profile.score.iter().map(|(it, weight)| (it.name().to_owned(), *weight)).collect(),
            args: config.iter().map(|it| (name(it), it["args"].clone())).collect(),
        };
        Self { scheduler: TestCluster::with(profile, []), cluster, settings, scheduled: 0, shapes: Vec::new() }
    }

    fn apply(&mut self, change: Change) -> Result<(), TestCaseError> {
        match change {
            Change::SetNode(number, value) => {
                let node = Arc::new(Node::decode_value(named(value, &format!("n{number}"))).unwrap());
                self.scheduler.cache.set_node(node.clone());
                self.cluster.set_node(node);
            }
            Change::RemoveNode(number) => {
                self.scheduler.cache.remove_node(&format!("n{number}"));
                self.cluster.nodes.remove(&format!("n{number}"));
            }
            Change::Place { pod, node, value } => {
                let (value, node) = (named(value, &format!("p{pod}")), format!("n{node}"));
                self.scheduler.place(value.clone(), &node);
                self.cluster.place(Arc::new(Pod::decode_value(value).unwrap()), &node);
            }
            Change::RemovePod(number) => self.remove(&format!("p{number}")),
            Change::SetTeam(blue) => {
                let labels = Labels::from([("team".to_owned(), if blue { "blue" } else { "red" }.to_owned())]);
                let namespace = json!({"metadata": {"name": "y", "labels": labels}});
                self.scheduler.cache.namespaces.set(&Namespace::decode_value(namespace).unwrap());
                self.cluster.namespaces.insert("y".to_owned(), labels);
            }
            Change::Again(back) => {
                if let Some(at) = self.shapes.len().checked_sub(back) {
                    let shape = self.shapes[at].clone();
                    self.apply(Change::Schedule(shape))?;
                }
            }
            Change::Schedule(value) => {
                self.scheduled += 1;
                self.shapes.push(value.clone());
                self.schedule(named(value, &format!("s{}", self.scheduled)))?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, uid: &str) {
        self.scheduler.cache.remove_pod(uid);
        self.cluster.remove(uid);
    }

    fn schedule(&mut self, value: Value) -> Result<(), TestCaseError> {
        let (pod, info) = (Arc::new(Pod::decode_value(value.clone()).unwrap()), info(value));
        let evaluation = self.cluster.evaluate(&pod, &self.settings);
        let mut state = CycleState::default();
        match self.scheduler.decide(&info, &mut state) {
            Ok(decision) => {
                let feasible = self.scheduler.names(&decision);
                let scores = decision.scores.into_iter().map(|it| (it.plugin.to_owned(), it.scores)).collect();
                let node = decision.node.clone();
                let checked = Decision { node, feasible, is_complete: true, scores };
                let wrong = self.cluster.check(&pod, &self.settings, &checked);
                prop_assert!(wrong.is_empty(), "{:?}: {:?}", wrong, checked);
                prop_assert!(evaluation.best.contains(&checked.node));
                self.scheduler.cache.assume(info, &decision.node);
                self.cluster.place(pod, &decision.node);
            }
            Err(FitError::NoNodes) => prop_assert!(self.cluster.nodes.is_empty()),
            Err(mut error) => {
                let FitError::NoFit { diagnosis, .. } = &error else { return Ok(()) };
                for (name, verdict) in &evaluation.verdicts {
                    let number = self.scheduler.snapshot.index_of(name);
                    let found = number.and_then(|number| diagnosis.of(number)).map(|it| Rejection {
                        plugin: it.plugin,
                        reasons: it.reasons.iter().map(ToString::to_string).collect(),
                        is_resolvable: it.resolvable,
                    });
                    prop_assert_eq!(&found, verdict, "{}", name);
                }
                self.preempt(&pod, &info, &state, &mut error)?;
            }
        }
        Ok(())
    }

    /// Preempts, and nominates the pod instead of the one before.
    fn preempt(
        &mut self,
        pod: &Arc<Pod>,
        info: &Arc<PodInfo>,
        state: &CycleState,
        error: &mut FitError,
    ) -> Result<(), TestCaseError> {
        let expected = self.cluster.preempt(pod, &self.settings);
        let TestCluster { profile, snapshot, nominated, .. } = &mut self.scheduler;
        let result = profile.run_post_filters(error, state, info, snapshot, nominated);
        let Nomination::Node(node) = &result.nomination else {
            prop_assert_eq!(expected.best, BTreeSet::new());
            return Ok(());
        };
        prop_assert!(expected.best.contains(node), "{}: {:?}", node, expected);
        let victims: Vec<String> = result.victims.iter().map(|victim| victim.uid().to_owned()).collect();
        prop_assert_eq!(&victims, &expected.candidates[node].victims, "{}", node);
        let before: Vec<String> = self.cluster.nominated.values().flat_map(BTreeMap::keys).cloned().collect();
        before.iter().for_each(|uid| nominated.remove(uid));
        nominated.set(info.clone(), node);
        self.cluster.nominated = [(node.clone(), [(pod.uid().to_owned(), pod.clone())].into())].into();
        victims.iter().for_each(|uid| self.remove(uid));
        Ok(())
    }
}

fn empty_world() -> World {
    World {
        claims: Vec::new(),
        volumes: Vec::new(),
        attachments: Vec::new(),
        capacities: Vec::new(),
        csi_nodes: Vec::new(),
        slices: Vec::new(),
        device_claims: Vec::new(),
        budgets: Vec::new(),
        profile: json!({}),
    }
}

/// A node that lacks the topology key of one constraint counts for no other: its pods do not make its zone look fuller.
#[test]
fn a_node_without_a_host_name_does_not_count_for_its_zone() {
    let node = |zone: &str, has_host_name: bool| {
        let mut node = json!({
            "metadata": {"labels": {ZONE: zone}},
            "status": {"allocatable": {"cpu": "2", "memory": "2Gi", "pods": "9"}},
        });
        if has_host_name {
            node["metadata"]["labels"][HOSTNAME] = json!("self");
        }
        node
    };
    let spread = |key: &str| {
        json!({
            "labelSelector": {"matchLabels": {"app": "web"}}, "maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
        })
    };
    let pod = json!({
        "metadata": {"namespace": "y", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "topologySpreadConstraints": [spread(HOSTNAME), spread(ZONE)]},
    });
    let mut both = Both::new(&empty_world());
    for change in [
        Change::SetNode(0, node("a", true)),
        Change::SetNode(3, node("b", true)),
        Change::SetNode(4, node("a", false)),
        Change::Place { pod: 0, node: 4, value: pod.clone() },
        Change::Schedule(pod),
    ] {
        both.apply(change).unwrap();
    }
}

/// A wrong decision is found, whatever is wrong with it.
#[test]
fn a_wrong_decision_is_named() {
    let node = |name: &str, cpu: &str| {
        let node =
            json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}});
        Arc::new(Node::decode_value(node).unwrap())
    };
    let mut cluster = Cluster::default();
    [("small", "1"), ("large", "8"), ("middle", "4")]
        .into_iter()
        .for_each(|(name, cpu)| cluster.set_node(node(name, cpu)));
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}});
    let pod = json!({"metadata": {"namespace": "x", "name": "p", "uid": "p"}, "spec": {"containers": [container]}});
    let pod = Pod::decode_value(pod).unwrap();
    let settings = Settings { scores: vec![("NodeResourcesFit".to_owned(), 1)], ..Settings::default() };
    let evaluation = cluster.evaluate(&pod, &settings);
    assert_eq!(evaluation.best, ["large".to_owned()].into());
    // Of 8 cores 75 percent are free with the pod, and of 4 cores 50; of 8 GiB of memory 87.
    let scores = [("NodeResourcesFit".to_owned(), vec![81, 68])].into();
    let right = Decision {
        node: "large".to_owned(),
        feasible: ["large", "middle"].map(str::to_owned).into(),
        is_complete: true,
        scores,
    };
    assert_eq!(cluster.check(&pod, &settings, &right), [""; 0]);
    let wrong = |decision: Decision| cluster.check(&pod, &settings, &decision).join("; ");
    assert_eq!(wrong(Decision { node: "middle".to_owned(), ..right.clone() }), "middle is not among the best");
    let feasible = vec!["large".to_owned(), "small".to_owned()];
    assert_eq!(
        wrong(Decision { feasible, ..right.clone() }),
        "the pod fits on middle too; the pod does not fit on small: Insufficient cpu (NodeResourcesFit)"
    );
    let scores = [("NodeResourcesFit".to_owned(), vec![81, 70])].into();
    assert_eq!(wrong(Decision { scores, ..right }), "NodeResourcesFit scores [81, 70] and not [81, 68]");
}

proptest! {
    #[test]
    fn the_plugins_decide_as_the_reference_does(world in world(), history in history()) {
        let mut both = Both::new(&world);
        for change in history {
            both.apply(change)?;
        }
    }
}
