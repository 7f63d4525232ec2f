//! Volumes: concepts/storage/persistent-volumes, storage-classes, storage-capacity and storage-limits.

use super::{Tiny, node, pod};
use crate::draw::ZONE;
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

const DRIVER: &str = "disks.example.com";

fn claim(name: &str, class: &str, volume: &str, size: &str) -> Value {
    let mut claim = json!({
        "metadata": {"namespace": "x", "name": name, "uid": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    });
    if !volume.is_empty() {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = json!(volume);
    }
    claim
}

fn volume(name: &str, class: &str, size: &str, extra: Value) -> Value {
    let mut volume = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "csi": {"driver": DRIVER, "volumeHandle": name}},
        "status": {"phase": "Available"},
    });
    merge(&mut volume, extra);
    volume
}

fn class(name: &str, provisioner: &str, mode: &str, extra: Value) -> Value {
    let mut class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    merge(&mut class, extra);
    class
}

fn using(claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod(json!({"volumes": claims.iter().map(volume).collect::<Vec<_>>()}))
}

fn in_zone(zone: &str) -> Value {
    let here = json!([{"key": ZONE, "operator": "In", "values": [zone]}]);
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}}}})
}

/// One node in each of the zones a, b and c, and one in no zone.
fn zones() -> Tiny {
    let without = node("a", json!({"metadata": {"labels": {ZONE: null}}}));
    let of = |zone: &str| node(zone, json!({}));
    Tiny { nodes: vec![("a1", of("a")), ("b1", of("b")), ("c1", of("c")), ("none", without)], ..Tiny::default() }
}

#[test]
fn a_bound_volume_decides_where_its_pod_runs() {
    let mut tiny = zones();
    let labelled = |zones: &str| json!({"metadata": {"labels": {ZONE: zones}}});
    tiny.world.claims = ["anywhere", "affine", "zone-a", "zones-a-b", "gone"]
        .iter()
        .map(|name| claim(name, "", if *name == "gone" { "missing" } else { name }, "1Gi"))
        .collect();
    tiny.world.volumes = vec![
        volume("anywhere", "", "1Gi", json!({})),
        volume("affine", "", "1Gi", in_zone("b")),
        volume("zone-a", "", "1Gi", labelled("a")),
        volume("zones-a-b", "", "1Gi", labelled("a__b")),
    ];
    tiny.check_feasible(&[
        ("a volume without constraints is reachable from everywhere", using(&["anywhere"]), "a1 b1 c1 none"),
        ("the node affinity of a volume selects nodes", using(&["affine"]), "b1"),
        ("a label names the zone; a node without zone labels is not judged", using(&["zone-a"]), "a1 none"),
        ("two underscores separate zones", using(&["zones-a-b"]), "a1 b1 none"),
        ("all volumes have to be reachable", using(&["affine", "zones-a-b"]), "b1"),
        ("no node is in two zones", using(&["affine", "zone-a"]), ""),
        ("the volume of a claim is gone", using(&["gone"]), ""),
        ("a claim that does not exist", using(&["none"]), ""),
    ]);
}

#[test]
fn claims_that_wait_for_their_first_consumer() {
    let mut tiny = zones();
    let none = json!({});
    let topology = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]});
    tiny.world.classes = vec![
        class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", none.clone()),
        class("made", DRIVER, "WaitForFirstConsumer", none.clone()),
        class("allowed", "other.example.com", "WaitForFirstConsumer", topology),
        class("soon", DRIVER, "Immediate", none.clone()),
    ];
    tiny.world.drivers = vec![json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": true}})];
    tiny.world.capacities = [("a", "2Gi"), ("b", "50Gi")]
        .map(|(zone, capacity)| {
            json!({"metadata": {"namespace": "kube-system", "name": zone}, "storageClassName": "made",
                "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": capacity})
        })
        .into();
    tiny.world.volumes = vec![
        volume("small", "local", "2Gi", in_zone("a")),
        volume("large", "local", "10Gi", in_zone("b")),
        volume("other", "local", "10Gi", {
            let mut there = in_zone("c");
            there["spec"]["claimRef"] = json!({"namespace": "x", "name": "another"});
            there
        }),
    ];
    tiny.world.claims = vec![
        claim("local-1", "local", "", "1Gi"),
        claim("local-5", "local", "", "5Gi"),
        claim("made-1", "made", "", "1Gi"),
        claim("made-5", "made", "", "5Gi"),
        claim("allowed", "allowed", "", "1Gi"),
        claim("soon", "soon", "", "1Gi"),
    ];
    tiny.check_feasible(&[
        (
            "local volumes are where they are; one that is reserved for another claim is taken",
            using(&["local-1"]),
            "a1 b1",
        ),
        ("a volume is at least as large as the claim", using(&["local-5"]), "b1"),
        ("each claim takes a volume of its own", using(&["local-1", "local-5"]), ""),
        ("a volume is made where the driver has capacity", using(&["made-1"]), "a1 b1"),
        ("5Gi are only in zone b", using(&["made-5"]), "b1"),
        (
            "a volume is made where the class allows it; a driver without storage capacity is trusted",
            using(&["allowed"]),
            "b1 c1",
        ),
        ("both kinds at once", using(&["made-1", "local-5"]), "b1"),
        ("an immediate claim has to be bound first", using(&["soon"]), ""),
    ]);
}

/// With the gate StorageCapacityScoring. The numbers of the shape are those of the documentation of RequestedToCapacityRatio.
#[test]
fn a_shape_scores_nodes_by_the_use_of_their_storage() {
    let mut tiny = zones();
    let full_first = json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]});
    tiny.world.profile = json!({"pluginConfig": [{"name": "VolumeBinding", "args": full_first}]});
    tiny.world.classes = vec![
        class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", json!({})),
        class("made", DRIVER, "WaitForFirstConsumer", json!({})),
    ];
    tiny.world.drivers = vec![json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": true}})];
    tiny.world.capacities = [("a", "10Gi"), ("b", "40Gi")]
        .map(|(zone, capacity)| {
            json!({"metadata": {"namespace": "kube-system", "name": zone}, "storageClassName": "made",
                "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": capacity})
        })
        .into();
    tiny.world.volumes = vec![
        volume("small", "local", "2Gi", in_zone("a")),
        volume("large", "local", "10Gi", in_zone("b")),
        volume("bound", "", "1Gi", json!({})),
    ];
    tiny.world.claims = vec![
        claim("local-1", "local", "", "1Gi"),
        claim("made-4", "made", "", "4Gi"),
        claim("bound", "", "bound", "1Gi"),
    ];
    tiny.check_scores(
        "VolumeBinding",
        &[
            ("half of one volume, and a tenth of the other", using(&["local-1"]), "a1=50 b1=10"),
            ("4Gi of 10Gi, and of 40Gi", using(&["made-4"]), "a1=40 b1=10"),
            ("a volume that is there hides what is to be made", using(&["local-1", "made-4"]), "a1=50 b1=10"),
            ("a claim that is bound does not count", using(&["bound"]), "a1=0 b1=0 c1=0 none=0"),
        ],
    );
}

#[test]
fn drivers_attach_so_many_volumes() {
    let mut tiny = zones();
    let names = ["v1", "v2", "v3"];
    tiny.world.claims = names.map(|name| claim(name, "", name, "1Gi")).into();
    tiny.world.volumes = names.map(|name| volume(name, "", "1Gi", json!({}))).into();
    let csi_node = |name: &str, count: i32| json!({"metadata": {"name": name}, "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}]}});
    tiny.world.csi_nodes = vec![csi_node("a1", 1), csi_node("b1", 2)];
    tiny.pods = vec![("old", "a1", using(&["v1"])), ("older", "b1", using(&["v1"]))];
    tiny.check_feasible(&[
        ("a1 has one volume and may have one; nodes without a limit take any number", using(&["v2"]), "b1 c1 none"),
        ("two more are too many for b1", using(&["v2", "v3"]), "c1 none"),
        ("a volume that is attached already counts once", using(&["v1"]), "a1 b1 c1 none"),
        ("together with one that is not", using(&["v1", "v2"]), "b1 c1 none"),
        ("pods without volumes are not limited", pod(json!({})), "a1 b1 c1 none"),
    ]);
}

#[test]
fn pods_that_cannot_share_a_disk() {
    let mut tiny = zones();
    let disk = |read_only: bool| {
        pod(json!({"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": read_only}}]}))
    };
    let block_store = || pod(json!({"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "e"}}]}));
    tiny.pods = vec![("reader", "a1", disk(true)), ("writer", "b1", disk(false)), ("store", "c1", block_store())];
    tiny.check_feasible(&[
        ("readers share a disk with readers only", disk(true), "a1 c1 none"),
        ("a writer shares it with nobody", disk(false), "c1 none"),
        ("a block store is never shared on a node", block_store(), "a1 b1 none"),
    ]);
}
