//! Compares the cache with a rebuild from scratch after random sequences of events.

use super::*;
use proptest::prelude::*;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Clone, Debug)]
enum Change {
    SetNode {
        node: u8,
        zone: u8,
        cpu: u8,
    },
    /// A node's kubelet reports without anything new.
    Heartbeat(u8),
    RemoveNode(u8),
    SetPod {
        pod: u8,
        node: u8,
        port: u8,
    },
    RemovePod(u8),
    Assume {
        pod: u8,
        node: u8,
    },
    Forget(u8),
    Snapshot,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let (node, pod) = (0..4_u8, 0..6_u8);
    let change = prop_oneof![
        (node.clone(), 0..2_u8, 1..3_u8).prop_map(|(node, zone, cpu)| Change::SetNode { node, zone, cpu }),
        node.clone().prop_map(Change::Heartbeat),
        node.clone().prop_map(Change::RemoveNode),
        (pod.clone(), node.clone(), 0..3_u8).prop_map(|(pod, node, port)| Change::SetPod { pod, node, port }),
        pod.clone().prop_map(Change::RemovePod),
        (pod.clone(), node).prop_map(|(pod, node)| Change::Assume { pod, node }),
        pod.prop_map(Change::Forget),
        Just(Change::Snapshot),
    ];
    prop::collection::vec(change, 0..60)
}

fn node(number: u8, zone: u8, cpu: u8) -> Arc<Node> {
    let image = json!({"names": [format!("image-{cpu}")], "sizeBytes": 1});
    let node = json!({
        "metadata": {"name": format!("n{number}"), "labels": {ZONE: format!("z{zone}")}},
        "status": {"allocatable": {"cpu": cpu.to_string()}, "images": [image]},
    });
    Arc::new(Node::decode_value(node).unwrap())
}

/// Returns a node with other fields that scheduling does not read.
fn after_heartbeat(node: &Node, number: u32) -> Node {
    let mut node = node.clone();
    node.metadata.resource_version = Some(number.to_string());
    node.status.get_or_insert_default().volumes_in_use = Some(vec![format!("volume-{number}")]);
    node
}

/// Compares what a decision can depend on.
fn counts_as(a: &NodeInfo, b: &NodeInfo) -> bool {
    let without_node = |info: &NodeInfo| {
        let mut info = info.clone();
        info.node = None;
        info
    };
    let is_same_node = match (&a.node, &b.node) {
        (Some(a), Some(b)) => node_parts::are_same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    is_same_node && without_node(a).same_as(&without_node(b)) && a.pods.iter().zip(&b.pods).all(|(a, b)| a.counts_as(b))
}

fn pod(number: u8, node: Option<u8>, port: u8) -> Arc<PodInfo> {
    let term = json!({"topologyKey": "zone", "labelSelector": {}});
    let mut pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "ns", "uid": format!("u{number}")},
        "spec": {"containers": [{
            "name": "c", "ports": [{"containerPort": 1, "hostPort": port}],
            "resources": {"requests": {"cpu": format!("{}m", 100 * (u32::from(number) + 1)), "x.dev/y": port.to_string()}},
        }]},
    });
    if port == 2 {
        let anti = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        pod["spec"]["affinity"] = anti;
    }
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(format!("n{node}"));
    }
    Arc::new(PodInfo::new(Arc::new(Pod::decode_value(pod).unwrap())))
}

/// The ground state from which the cache is derived.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Arc<Node>>,
    /// Node, pod, and true if the pod is assumed.
    pods: BTreeMap<String, (String, Arc<PodInfo>, bool)>,
    heartbeats: u32,
}

impl Model {
    fn rebuilt(&self) -> Snapshot {
        let mut cache = Cache::default();
        for node in self.nodes.values() {
            cache.set_node(node.clone());
        }
        for (node, info, _) in self.pods.values() {
            cache.assume(info.clone(), node);
        }
        let mut snapshot = Snapshot::default();
        cache.update(&mut snapshot);
        snapshot
    }

    fn apply(&mut self, change: &Change, cache: &mut Cache, snapshot: &mut Snapshot) {
        match *change {
            Change::SetNode { node: number, zone, cpu } => {
                let node = node(number, zone, cpu);
                self.nodes.insert(node.name().to_owned(), node.clone());
                cache.set_node(node);
            }
            Change::Heartbeat(number) => {
                let Some(node) = self.nodes.get_mut(&format!("n{number}")) else { return };
                self.heartbeats += 1;
                *node = Arc::new(after_heartbeat(node, self.heartbeats));
                cache.set_node(node.clone());
            }
            Change::RemoveNode(number) => {
                self.nodes.remove(&format!("n{number}"));
                cache.remove_node(&format!("n{number}"));
            }
            Change::SetPod { pod: number, node, port } => {
                let info = pod(number, Some(node), port);
                self.pods.insert(info.uid().to_owned(), (format!("n{node}"), info.clone(), false));
                cache.set_pod(info);
            }
            Change::RemovePod(number) => {
                self.pods.remove(&format!("u{number}"));
                cache.remove_pod(&format!("u{number}"));
            }
            Change::Assume { pod: number, node } => {
                let info = pod(number, None, 1);
                self.pods.insert(info.uid().to_owned(), (format!("n{node}"), info.clone(), true));
                cache.assume(info, &format!("n{node}"));
            }
            Change::Forget(number) => {
                let uid = format!("u{number}");
                if self.pods.get(&uid).is_some_and(|(_, _, assumed)| *assumed) {
                    self.pods.remove(&uid);
                }
                cache.forget(&uid);
            }
            Change::Snapshot => cache.update(snapshot),
        }
    }
}

proptest! {
    #[test]
    fn incremental_equals_rebuilt(changes in changes()) {
        let (mut model, mut cache, mut snapshot) = (Model::default(), Cache::default(), Snapshot::default());
        let mut generations: BTreeMap<u64, Arc<NodeInfo>> = BTreeMap::new();
        for change in &changes {
            model.apply(change, &mut cache, &mut snapshot);
            for (at, info) in snapshot.nodes().iter().enumerate() {
                let same = generations.entry(info.counted_generation).or_insert_with(|| info.clone());
                prop_assert!(counts_as(info, same));
                prop_assert_eq!(snapshot.generations()[at], info.counted_generation);
                let topology = snapshot.topology(ZONE);
                let zone = info.label(ZONE).and_then(|zone| topology.domain(zone));
                prop_assert_eq!(topology.domain_of(at), zone);
            }
        }
        cache.update(&mut snapshot);
        prop_assert!(snapshot.same_as(&model.rebuilt()), "{snapshot:#?}\nrebuilt: {:#?}", model.rebuilt());
    }
}

#[test]
fn nodes_are_ordered_by_zones_in_turn() {
    let mut cache = Cache::default();
    for (number, zone) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        cache.set_node(node(number, zone, 1));
    }
    let mut snapshot = Snapshot::default();
    cache.update(&mut snapshot);
    let names: Vec<&str> = snapshot.nodes().iter().map(|info| info.name()).collect();
    assert_eq!(names, ["n0", "n3", "n1", "n2"]);
}

#[test]
fn a_heartbeat_changes_no_generation() {
    let mut cache = Cache::default();
    cache.set_node(node(0, 0, 1));
    let mut snapshot = Snapshot::default();
    cache.update(&mut snapshot);
    let (generations, version) = (snapshot.generations().to_vec(), snapshot.version());
    cache.set_node(Arc::new(after_heartbeat(&node(0, 0, 1), 1)));
    cache.update(&mut snapshot);
    assert_eq!((snapshot.generations(), snapshot.version()), (&*generations, version));
    assert_eq!(snapshot.nodes()[0].node.as_ref().unwrap().metadata.resource_version.as_deref(), Some("1"));
    cache.set_node(node(0, 0, 2));
    cache.update(&mut snapshot);
    assert_ne!(snapshot.generations(), generations);
}

/// The API server adds the labels of the node's place. Anything else that is new counts.
#[test]
fn a_confirmed_binding_changes_no_generation() {
    let mut cache = Cache::default();
    cache.set_node(node(0, 0, 1));
    cache.assume(pod(1, None, 0), "n0");
    let mut snapshot = Snapshot::default();
    cache.update(&mut snapshot);
    let generations = snapshot.generations().to_vec();
    let place = &cache.node("n0").unwrap().node.as_ref().unwrap().metadata.labels.as_ref().unwrap()[ZONE];
    let bound = |labels: Value| {
        let mut bound = Pod::clone(&pod(1, Some(0), 0).pod);
        bound.metadata.labels = serde_json::from_value(labels).unwrap();
        Arc::new(PodInfo::new(Arc::new(bound)))
    };
    let assumed = cache.node("n0").unwrap().pod("u1").unwrap().labelled();
    assert_eq!(assumed.metadata.labels, Some([(ZONE.to_owned(), place.clone())].into()));
    let (confirmed, labelled) = (bound(json!({ZONE: place})), bound(json!({ZONE: place, "app": "web"})));
    cache.set_pod(confirmed);
    assert!(!cache.is_assumed("u1"));
    cache.update(&mut snapshot);
    assert_eq!(snapshot.generations(), generations);
    cache.set_pod(labelled);
    cache.update(&mut snapshot);
    assert_ne!(snapshot.generations(), generations);
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let mut cache = Cache::default();
    cache.set_node(node(0, 0, 1));
    let mut snapshot = Snapshot::default();
    cache.update(&mut snapshot);
    cache.assume(pod(1, None, 0), "n0");
    assert!(snapshot.nodes()[0].pods.is_empty());
    cache.update(&mut snapshot);
    assert_eq!(snapshot.nodes()[0].requested.milli_cpu, 200);
}
