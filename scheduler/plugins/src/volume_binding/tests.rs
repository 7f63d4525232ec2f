//! Tests the choice of volumes: cases worked out from the documentation of volume binding modes, storage capacity and node
//! affinity of volumes.

use super::*;
use crate::fixture::{self, Objects, TestCluster, info, node, pod};
use component_helpers::volumes::annotations::{SELECTED_NODE, annotation};
use node_volumes::{BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE};
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass};
use serde_json::{Value, json};

fn with<T: Kind>(mut object: Value, extra: Value) -> T {
    fixture::merge(&mut object, extra);
    T::decode_value(object).unwrap()
}

/// Returns a claim of 10 GiB of the class `late`.
pub fn claim(name: &str, extra: Value) -> PersistentVolumeClaim {
    let spec = json!({"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}}});
    with(
        json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}),
        extra,
    )
}

pub fn bound(name: &str, volume: &str) -> PersistentVolumeClaim {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim(name, json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}))
}

/// Returns a free volume of the class `late`.
pub fn volume(name: &str, size: &str, extra: Value) -> PersistentVolume {
    let spec = json!({"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}});
    let volume = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
        "status": {"phase": "Available"}});
    with(volume, extra)
}

pub fn in_zone(zone: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}})
}

pub fn class(extra: Value) -> StorageClass {
    let class = json!({"metadata": {"name": "late"}, "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer"});
    with(class, extra)
}

fn unprovisioned() -> StorageClass {
    class(json!({"provisioner": "kubernetes.io/no-provisioner"}))
}

#[derive(Default)]
pub struct Storage {
    pub claims: Vec<PersistentVolumeClaim>,
    pub volumes: Vec<PersistentVolume>,
    pub classes: Vec<StorageClass>,
    pub capacities: Option<Vec<CSIStorageCapacity>>,
}

/// The plugin over fixed objects, and two nodes: `n1` in zone `a` and `n2` in zone `b`.
pub fn plugin(storage: Storage) -> VolumeBinding {
    let driver = json!({"metadata": {"name": "disks.example.com"}, "spec": {"storageCapacity": true}});
    let drivers = storage.capacities.is_some().then(|| with(driver, json!({})));
    let mut plugin = Objects::default().volumes;
    let nodes = [("n1", "a"), ("n2", "b")].map(|(name, zone)| (*node(name, zone, json!({}))).clone());
    plugin.sources.nodes = Lister::of(nodes);
    plugin.sources.storage = crate::storage::Storage {
        claims: Lister::of(storage.claims),
        classes: Lister::of(storage.classes),
        drivers: Lister::of(drivers),
        capacities: Lister::of(storage.capacities.unwrap_or_default()),
        ..crate::storage::Storage::empty().with_volumes(storage.volumes)
    };
    plugin
}

pub fn pod_with(claims: &[&str]) -> Value {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    pod("db", "1", json!({"volumes": volumes}))
}

/// Returns what the pod's claims get on each node: `claim=volume`, `claim=new`, or the reasons against the node.
fn choices(plugin: &VolumeBinding, claims: &[&str]) -> [String; 2] {
    let wanted = match pod_claims::read(&plugin.sources, &info(pod_with(claims))) {
        Ok(wanted) => wanted,
        Err(rejection) => return [rejection.reasons.join(", "), String::new()],
    };
    ["n1", "n2"].map(|name| {
        let node = plugin.sources.nodes.get("", name).unwrap();
        match node_volumes::find(&wanted, &node) {
            Err(reasons) => reasons.join(", "),
            Ok(chosen) => {
                let bindings =
                    chosen.bindings.iter().map(|(volume, claim)| format!("{}={}", claim.name(), volume.name()));
                let provisions = chosen.provisions.iter().map(|claim| format!("{}=new", claim.name()));
                bindings.chain(provisions).collect::<Vec<_>>().join(" ")
            }
        }
    })
}

fn check(storage: Storage, claims: &[&str], expected: [&str; 2]) {
    assert_eq!(choices(&plugin(storage), claims), expected);
}

#[test]
fn bound_volumes_decide_the_node() {
    let volumes = vec![volume("disk", "10Gi", in_zone("b"))];
    let storage = Storage { claims: vec![bound("data", "disk")], volumes, ..Storage::default() };
    check(storage, &["data"], [NODE_CONFLICT, ""]);
    let gone = Storage { claims: vec![bound("data", "disk")], ..Storage::default() };
    check(gone, &["data"], ["persistentvolume \"disk\" not found", ""]);
}

#[test]
fn claims_that_cannot_be_used_reject_the_pod() {
    let missing = "persistentvolumeclaim \"data\" not found";
    check(Storage::default(), &["data"], [missing, ""]);
    for (extra, reason) in [
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            "persistentvolumeclaim \"data\" is being deleted",
        ),
        (
            json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}),
            "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v\"",
        ),
        // One that names its volume does not wait for a consumer.
        (json!({"spec": {"volumeName": "v"}}), "pod has unbound immediate PersistentVolumeClaims"),
        (json!({"spec": {"storageClassName": "other"}}), "pod has unbound immediate PersistentVolumeClaims"),
    ] {
        let storage =
            Storage { claims: vec![claim("data", extra)], classes: vec![class(json!({}))], ..Storage::default() };
        check(storage, &["data"], [reason, ""]);
    }
}

#[test]
fn claims_of_generic_ephemeral_volumes_belong_to_their_pod() {
    let ephemeral = json!({"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
    let read = |claims: Vec<PersistentVolumeClaim>| {
        let storage = Storage { claims, classes: vec![class(json!({}))], ..Storage::default() };
        let read = pod_claims::read(&plugin(storage).sources, &info(pod("db", "1", ephemeral.clone())));
        read.map(drop).map_err(|rejection| rejection.reasons.join(", "))
    };
    let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"db-tmp\"";
    assert_eq!(read(Vec::new()), Err(waiting.to_owned()));
    let foreign = "PVC shop/db-tmp was not created for pod shop/db (pod is not owner)";
    assert_eq!(read(vec![claim("db-tmp", json!({}))]), Err(foreign.to_owned()));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "db", "uid": "db", "controller": true});
    assert_eq!(read(vec![claim("db-tmp", json!({"metadata": {"ownerReferences": [owner]}}))]), Ok(()));
}

#[test]
fn the_smallest_volume_in_reach_is_taken_and_each_only_once() {
    let volumes = || {
        vec![
            volume("large-a", "50Gi", in_zone("a")),
            volume("small-a", "10Gi", in_zone("a")),
            volume("tiny-b", "1Gi", in_zone("b")),
            volume("large-b", "20Gi", in_zone("b")),
            volume("taken", "10Gi", json!({"spec": {"claimRef": {"namespace": "shop", "name": "x", "uid": "x"}}})),
            volume("released", "10Gi", json!({"status": {"phase": "Released"}})),
        ]
    };
    let storage = |claims| Storage { claims, volumes: volumes(), classes: vec![unprovisioned()], ..Storage::default() };
    check(storage(vec![claim("data", json!({}))]), &["data"], ["data=small-a", "data=large-b"]);
    // The claim of the smaller size chooses first.
    let larger = json!({"spec": {"resources": {"requests": {"storage": "11Gi"}}}});
    let two = vec![claim("big", larger), claim("data", json!({}))];
    check(storage(two), &["big", "data"], ["data=small-a big=large-a", BIND_CONFLICT]);
}

#[test]
fn a_reserved_volume_leaves_no_choice() {
    let reserved = json!({"spec": {"claimRef": {"namespace": "shop", "name": "data"}}});
    let mut own = volume("own", "90Gi", in_zone("b"));
    own.spec.as_mut().unwrap().claim_ref = with::<PersistentVolume>(json!({}), reserved).spec.unwrap().claim_ref;
    let volumes = vec![volume("free", "10Gi", json!({})), own];
    let storage = Storage {
        claims: vec![claim("data", json!({}))],
        volumes,
        classes: vec![unprovisioned()],
        ..Storage::default()
    };
    check(storage, &["data"], [BIND_CONFLICT, "data=own"]);
}

#[test]
fn what_is_not_there_is_made_where_the_class_allows_it() {
    let with_class =
        |class| Storage { claims: vec![claim("data", json!({}))], classes: vec![class], ..Storage::default() };
    check(with_class(class(json!({}))), &["data"], ["data=new", "data=new"]);
    check(with_class(unprovisioned()), &["data"], [BIND_CONFLICT, BIND_CONFLICT]);
    let in_a = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]);
    check(with_class(class(json!({"allowedTopologies": in_a}))), &["data"], ["data=new", BIND_CONFLICT]);
    // A volume that is being made for another node is not made a second time.
    let chosen = claim("data", json!({"metadata": {"annotations": {SELECTED_NODE: "n2"}}}));
    let storage = Storage { claims: vec![chosen], classes: vec![class(json!({}))], ..Storage::default() };
    check(storage, &["data"], [BIND_CONFLICT, "data=new"]);
}

#[test]
fn a_driver_that_publishes_its_capacity_is_believed() {
    let capacity = |name: &str, zone: &str, fields: Value| -> CSIStorageCapacity {
        let object = json!({"metadata": {"namespace": "kube-system", "name": name}, "storageClassName": "late",
            "nodeTopology": {"matchLabels": {"zone": zone}}});
        with(object, fields)
    };
    let other = json!({"storageClassName": "other", "capacity": "90Gi"});
    for (capacities, expected) in [
        (vec![], [NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE]),
        (vec![capacity("a", "a", json!({"capacity": "10Gi"}))], ["data=new", NOT_ENOUGH_SPACE]),
        (vec![capacity("a", "a", json!({"capacity": "9Gi"}))], [NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE]),
        (vec![capacity("a", "a", json!({}))], [NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE]),
        (
            vec![capacity("a", "a", json!({"capacity": "90Gi", "maximumVolumeSize": "9Gi"}))],
            [NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE],
        ),
        (
            vec![capacity("a", "a", json!({"nodeTopology": null, "capacity": "90Gi"}))],
            [NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE],
        ),
        (
            vec![capacity("a", "a", json!({"nodeTopology": {}, "capacity": "90Gi"})), capacity("o", "b", other)],
            ["data=new", NOT_ENOUGH_SPACE],
        ),
    ] {
        let storage = Storage {
            claims: vec![claim("data", json!({}))],
            classes: vec![class(json!({}))],
            capacities: Some(capacities),
            ..Storage::default()
        };
        check(storage, &["data"], expected);
    }
}

/// Returns a node of the cluster as the filter gets it.
fn on(name: &str) -> NodeInfo {
    let mut info = NodeInfo::default();
    info.set_node(node(name, if name == "n1" { "a" } else { "b" }, json!({})));
    info
}

/// Between the decision and the caches' news of it, no other pod gets the same volume.
#[test]
fn reserved_volumes_are_taken_until_they_are_released() {
    let storage = || Storage {
        claims: vec![claim("data", json!({})), claim("more", json!({}))],
        volumes: vec![volume("disk", "10Gi", json!({}))],
        classes: vec![unprovisioned()],
        ..Storage::default()
    };
    let plugin = plugin(storage());
    let reserve = |name: &str| {
        let (info, mut state) = (info(pod_with(&[name])), CycleState::default());
        plugin.pre_filter(&mut state, &info, &Snapshot::default()).unwrap();
        let found = plugin.filter(&state, &info, &on("n1"));
        let reserved = found.and_then(|()| plugin.reserve(&mut state, &info, "n1"));
        (state, info, reserved.map_err(|rejection| rejection.reasons.join(", ")))
    };
    let (state, first, reserved) = reserve("data");
    assert_eq!((reserved, plugin.pre_bind_pre_flight(&state, &first, "n1")), (Ok(()), PreBindPreFlight::Run));
    assert_eq!(reserve("more").2, Err(BIND_CONFLICT.to_owned()));
    // A pod that shares the claim gets the same volume.
    assert_eq!(choices(&plugin, &["data"]), ["data=disk", "data=disk"]);
    plugin.unreserve(&state, &first, "n1");
    assert_eq!(reserve("more").2, Ok(()));
}

/// A claim whose volume is to be made for one node makes the pods that share it follow.
#[test]
fn a_claim_that_is_asked_for_keeps_its_node() {
    let storage =
        Storage { claims: vec![claim("data", json!({}))], classes: vec![class(json!({}))], ..Storage::default() };
    let plugin = plugin(storage);
    let (info, mut state) = (info(pod_with(&["data"])), CycleState::default());
    plugin.pre_filter(&mut state, &info, &Snapshot::default()).unwrap();
    plugin.filter(&state, &info, &on("n2")).unwrap();
    plugin.reserve(&mut state, &info, "n2").unwrap();
    assert_eq!(choices(&plugin, &["data"]), [BIND_CONFLICT, "data=new"]);
    let asked = plugin.sources.claim("shop", "data").unwrap();
    assert_eq!(annotation(&*asked, SELECTED_NODE), Some("n2"));
}

#[test]
fn the_message_counts_the_nodes_of_each_reason() {
    let storage =
        Storage { claims: vec![claim("data", json!({}))], classes: vec![unprovisioned()], ..Storage::default() };
    let volumes = plugin(storage);
    let nodes = [node("n1", "a", json!({})), node("n2", "b", json!({}))];
    let mut cluster = TestCluster::with(fixture::profile(Objects { volumes, ..Objects::default() }), nodes);
    let said = cluster.schedule(pod_with(&["data"]));
    let expected = format!("db: 0/2 nodes are available: 2 {BIND_CONFLICT}.");
    assert!(said.starts_with(&expected), "{said}");
}
