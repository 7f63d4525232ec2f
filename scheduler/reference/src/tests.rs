//! Compares the plugins with the reference on random histories of clusters. One scheduler runs a whole history, so that
//! the state between its cycles is tested too.

use super::*;
use proptest::prelude::*;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::Namespace;
use scheduler_plugins::fixture::{Objects, TestCluster, info, profile};
use scheduling_framework::{CycleState, FitError};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const KEYS: [&str; 3] = [ZONE, HOSTNAME, "rack"];
const APPS: [&str; 2] = ["web", "db"];

#[derive(Clone, Debug)]
enum Change {
    SetNode(u8, Value),
    RemoveNode(u8),
    Place { pod: u8, node: u8, value: Value },
    RemovePod(u8),
    SetTeam(bool),
    Schedule(Value),
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn node() -> impl Strategy<Value = Value> {
    let labels = (one_of(&["a", "b", ""]), one_of(&["r1", "r2", ""]), prop::bool::weighted(0.9));
    let spec = (one_of(&["", "", "", "", "NoSchedule", "PreferNoSchedule"]), prop::bool::weighted(0.05));
    let status = (one_of(&["0", "2", "4", "8"]), one_of(&["0", "2Gi", "8Gi"]), 1..9_u8, prop::bool::ANY);
    (labels, spec, status).prop_map(|((zone, rack, hostname), (taint, cordoned), (cpu, memory, pods, image))| {
        let mut labels = json!({});
        for (key, value) in [(ZONE, zone), ("rack", rack), (HOSTNAME, if hostname { "self" } else { "" })] {
            if !value.is_empty() {
                labels[key] = json!(value);
            }
        }
        let taints: Vec<Value> =
            if taint.is_empty() { vec![] } else { vec![json!({"key": "k", "value": "v", "effect": taint})] };
        let images = if image { json!([{"names": ["web:latest"], "sizeBytes": 700 << 20}]) } else { json!([]) };
        json!({
            "metadata": {"labels": labels},
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods.to_string()}, "images": images},
        })
    })
}

/// Generates a term of pod affinity.
fn term() -> impl Strategy<Value = Value> {
    let namespaces = one_of(&[
        json!({}),
        json!({"namespaces": ["y"]}),
        json!({"namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}),
    ]);
    (one_of(&KEYS), one_of(&APPS), namespaces).prop_map(|(key, app, mut term)| {
        term["topologyKey"] = json!(key);
        term["labelSelector"] = json!({"matchLabels": {"app": app}});
        term
    })
}

fn affinity() -> impl Strategy<Value = Value> {
    let required = || prop::collection::vec(term(), 0..3);
    let weighted = (term(), -1..2_i32, one_of(&[1, 2, 50]));
    let preferred = prop::collection::vec(weighted, 0..2);
    (required(), required(), preferred, one_of(&[0, 1, 2, 3])).prop_map(|(mut with, mut without, preferred, kinds)| {
        // Mostly one kind of term, because few pods would fit otherwise.
        if kinds != 1 {
            with.clear();
        }
        if kinds != 2 {
            without.clear();
        }
        let preferred = if kinds == 0 { Vec::new() } else { preferred };
        let kind = |sign: bool| -> Vec<Value> {
            let of_kind = preferred.iter().filter(|(_, s, _)| (*s >= 0) == sign);
            of_kind.map(|(term, _, weight)| json!({"weight": weight, "podAffinityTerm": term})).collect()
        };
        json!({
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": with,
                "preferredDuringSchedulingIgnoredDuringExecution": kind(true)},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": without,
                "preferredDuringSchedulingIgnoredDuringExecution": kind(false)},
        })
    })
}

fn constraint() -> impl Strategy<Value = Value> {
    let selector = one_of(&[json!({"matchLabels": {"app": "web"}}), json!({"matchLabels": {"app": "db"}}), json!({})]);
    let hard = one_of(&["DoNotSchedule", "ScheduleAnyway"]);
    let policies = (one_of(&["Honor", "Ignore"]), one_of(&["Honor", "Ignore"]));
    (one_of(&KEYS), selector, hard, 1..3_i32, prop::option::of(1..4_i32), policies, prop::bool::ANY).prop_map(
        |(key, selector, hard, max_skew, min_domains, (affinity, taints), by_version)| {
            let mut constraint = json!({"topologyKey": key, "labelSelector": selector, "whenUnsatisfiable": hard,
                "maxSkew": max_skew, "nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints});
            if let (Some(min_domains), "DoNotSchedule") = (min_domains, hard) {
                constraint["minDomains"] = json!(min_domains);
            }
            if by_version {
                constraint["matchLabelKeys"] = json!(["version"]);
            }
            constraint
        },
    )
}

fn container() -> impl Strategy<Value = Value> {
    (one_of(&["", "0", "300m", "1"]), one_of(&["", "200Mi", "1Gi"]), prop::bool::weighted(0.1)).prop_map(
        |(cpu, memory, port)| {
            let mut container = json!({"name": "c", "image": "web", "resources": {"requests": {}}});
            for (name, amount) in [("cpu", cpu), ("memory", memory)] {
                if !amount.is_empty() {
                    container["resources"]["requests"][name] = json!(amount);
                }
            }
            if port {
                container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
            }
            container
        },
    )
}

/// Generates a pod without a name and a node.
fn pod() -> impl Strategy<Value = Value> {
    let meta = (one_of(&["x", "y"]), one_of(&APPS), one_of(&["1", "2"]), prop::bool::weighted(0.1), prop::bool::ANY);
    let init = prop::collection::vec((container(), prop::bool::ANY), 0..2);
    let containers = (prop::collection::vec(container(), 1..3), init);
    let node_affinity = one_of(&[
        json!({}),
        json!({}),
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}},
            {"weight": 3, "preference": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}]}),
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r2"]}]}]}}),
    ]);
    let tolerations = one_of(&[json!([]), json!([{"operator": "Exists"}]), json!([{"key": "k", "value": "v"}])]);
    let spread = prop::collection::vec(constraint(), 0..3);
    (meta, containers, affinity(), node_affinity, tolerations, spread).prop_map(
        |((namespace, app, version, deleting, owned), (containers, init), mut affinity, node, tolerations, spread)| {
            affinity["nodeAffinity"] = node;
            let init: Vec<Value> = init
                .into_iter()
                .map(|(mut container, sidecar)| {
                    if sidecar {
                        container["restartPolicy"] = json!("Always");
                    }
                    container
                })
                .collect();
            let mut pod = json!({
                "metadata": {"namespace": namespace, "labels": {"app": app, "version": version}},
                "spec": {"containers": containers, "initContainers": init, "affinity": affinity,
                    "tolerations": tolerations, "topologySpreadConstraints": spread},
            });
            if deleting {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            if owned && namespace == "x" {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}]);
            }
            pod
        },
    )
}

fn history() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => (0..5_u8, node()).prop_map(|(number, value)| Change::SetNode(number, value)),
        1 => (0..5_u8).prop_map(Change::RemoveNode),
        6 => (0..12_u8, 0..5_u8, pod()).prop_map(|(pod, node, value)| Change::Place { pod, node, value }),
        1 => (0..12_u8).prop_map(Change::RemovePod),
        1 => prop::bool::ANY.prop_map(Change::SetTeam),
        6 => pod().prop_map(Change::Schedule),
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

/// The scheduler and the reference's cluster with the same objects.
struct Both {
    world: TestCluster,
    cluster: Cluster,
    scheduled: usize,
}

impl Both {
    fn new() -> Self {
        let workload = Labels::from([("app".to_owned(), "web".to_owned())]);
        let set =
            json!({"metadata": {"namespace": "x", "name": "rs"}, "spec": {"selector": {"matchLabels": workload}}});
        let replica_sets = vec![ReplicaSet::decode_value(set).unwrap()];
        let world = TestCluster::with(profile(Objects { replica_sets, ..Objects::default() }), []);
        Self { world, cluster: Cluster { workload, ..Cluster::default() }, scheduled: 0 }
    }

    fn apply(&mut self, change: Change) -> Result<(), TestCaseError> {
        match change {
            Change::SetNode(number, value) => {
                let node = Node::decode_value(named(value, &format!("n{number}"))).unwrap();
                self.world.cache.set_node(std::sync::Arc::new(node.clone()));
                self.cluster.nodes.insert(node.name().to_owned(), node);
            }
            Change::RemoveNode(number) => {
                self.world.cache.remove_node(&format!("n{number}"));
                self.cluster.nodes.remove(&format!("n{number}"));
            }
            Change::Place { pod, node, value } => {
                let (value, node) = (named(value, &format!("p{pod}")), format!("n{node}"));
                self.world.place(value.clone(), &node);
                self.cluster.pods.insert(format!("p{pod}"), (Pod::decode_value(value).unwrap(), node));
            }
            Change::RemovePod(number) => {
                self.world.cache.remove_pod(&format!("p{number}"));
                self.cluster.pods.remove(&format!("p{number}"));
            }
            Change::SetTeam(blue) => {
                let labels = Labels::from([("team".to_owned(), if blue { "blue" } else { "red" }.to_owned())]);
                let namespace = json!({"metadata": {"name": "y", "labels": labels}});
                self.world.cache.namespaces.set(&Namespace::decode_value(namespace).unwrap());
                self.cluster.namespaces.insert("y".to_owned(), labels);
            }
            Change::Schedule(value) => {
                self.scheduled += 1;
                self.schedule(named(value, &format!("s{}", self.scheduled)))?;
            }
        }
        Ok(())
    }

    fn schedule(&mut self, value: Value) -> Result<(), TestCaseError> {
        let (pod, info) = (Pod::decode_value(value.clone()).unwrap(), info(value));
        match self.world.decide(&info, &mut CycleState::default()) {
            Ok(decision) => {
                for node in self.cluster.nodes.values() {
                    let fits = decision.feasible.iter().any(|name| name == node.name());
                    let verdict = self.cluster.verdict(&pod, node);
                    prop_assert_eq!(fits, verdict.is_none(), "{}: {:?}", node.name(), verdict);
                }
                let fit: Vec<&Node> = decision.feasible.iter().map(|name| &self.cluster.nodes[name]).collect();
                let scores: BTreeMap<_, _> = decision.scores.into_iter().map(|s| (s.plugin, s.scores)).collect();
                if fit.len() > 1 {
                    prop_assert_eq!(scores, self.cluster.scores(&pod, &fit), "{:?}", decision.feasible);
                }
                self.world.cache.assume(info, &decision.node);
                self.cluster.pods.insert(pod.name().to_owned(), (pod, decision.node));
            }
            Err(FitError::NoNodes) => prop_assert!(self.cluster.nodes.is_empty()),
            Err(FitError::NoFit { diagnosis, .. }) => {
                for node in self.cluster.nodes.values() {
                    let rejection = diagnosis.of(node.name());
                    let reasons = rejection.map(|r| (r.plugin, r.reasons.iter().map(ToString::to_string).collect()));
                    prop_assert_eq!(reasons, self.cluster.verdict(&pod, node), "{}", node.name());
                }
            }
        }
        Ok(())
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
    let mut both = Both::new();
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

proptest! {
    #[test]
    fn the_plugins_decide_as_the_reference_does(history in history()) {
        let mut both = Both::new();
        for change in history {
            both.apply(change)?;
        }
    }
}
