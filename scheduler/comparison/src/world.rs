//! Draws the rest of a cluster: volumes, devices, disruption budgets, and the profile.

use crate::draw::{ZONE, one_of};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Everything but nodes and pods. It stays the same while pods come and go.
#[derive(Clone, Debug)]
pub struct World {
    pub replica_sets: Vec<Value>,
    pub classes: Vec<Value>,
    pub drivers: Vec<Value>,
    pub device_classes: Vec<Value>,
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub attachments: Vec<Value>,
    pub capacities: Vec<Value>,
    pub csi_nodes: Vec<Value>,
    pub slices: Vec<Value>,
    pub device_claims: Vec<Value>,
    pub budgets: Vec<Value>,
    pub profile: Value,
}

impl Default for World {
    fn default() -> Self {
        let none = Vec::new;
        Self {
            replica_sets: none(),
            classes: none(),
            drivers: none(),
            device_classes: none(),
            claims: none(),
            volumes: none(),
            attachments: none(),
            capacities: none(),
            csi_nodes: none(),
            slices: none(),
            device_claims: none(),
            budgets: none(),
            profile: json!({}),
        }
    }
}

impl World {
    /// Returns the objects with their kinds, and the profile.
    pub fn objects(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let kinds = [
            ("ReplicaSet", &self.replica_sets),
            ("StorageClass", &self.classes),
            ("CSIDriver", &self.drivers),
            ("DeviceClass", &self.device_classes),
            ("PersistentVolumeClaim", &self.claims),
            ("PersistentVolume", &self.volumes),
            ("VolumeAttachment", &self.attachments),
            ("CSIStorageCapacity", &self.capacities),
            ("CSINode", &self.csi_nodes),
            ("ResourceSlice", &self.slices),
            ("ResourceClaim", &self.device_claims),
            ("PodDisruptionBudget", &self.budgets),
        ];
        let objects = kinds.into_iter().flat_map(|(kind, all)| all.iter().map(move |object| (kind, object)));
        objects.chain([("profile", &self.profile)])
    }
}

fn replica_sets() -> Vec<Value> {
    vec![json!({"metadata": {"namespace": "x", "name": "rs"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}})]
}

fn classes() -> Vec<Value> {
    let class = |name: &str, provisioner: &str, mode: &str| json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    vec![
        class("made", "disks.example.com", "WaitForFirstConsumer"),
        class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        class("soon", "disks.example.com", "Immediate"),
    ]
}

fn drivers() -> Vec<Value> {
    vec![json!({"metadata": {"name": "disks.example.com"}, "spec": {"storageCapacity": true}})]
}

/// Returns the class of all devices, and one that backs a resource of pods.
fn device_classes(is_backed: bool) -> Vec<Value> {
    let backing = json!({"metadata": {"name": "backing"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    let all = json!({"metadata": {"name": "gpu"}, "spec": {}});
    if is_backed { vec![all, backing] } else { vec![all] }
}

fn claim(number: usize) -> impl Strategy<Value = Value> {
    let kind = one_of(&["bound", "bound", "made", "made", "local", "local", "local", "soon", "lost", "selected"]);
    let modes = one_of(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"]);
    (kind, modes, one_of(&["1Gi", "5Gi", "20Gi"]), 0..6_usize).prop_map(move |(kind, mode, size, volume)| {
        let class = if ["made", "local", "soon"].contains(&kind) { kind } else { "made" };
        let mut claim = json!({
            "metadata": {"namespace": "x", "name": format!("c{number}"), "uid": format!("c{number}")},
            "spec": {"storageClassName": class, "accessModes": [mode], "resources": {"requests": {"storage": size}}},
        });
        match kind {
            "bound" => {
                claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
                claim["spec"]["volumeName"] = json!(format!("v{volume}"));
            }
            "lost" => claim["status"] = json!({"phase": "Lost"}),
            "selected" => {
                claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": format!("n{volume}")});
            }
            _ => {}
        }
        claim
    })
}

fn volume(number: usize) -> impl Strategy<Value = Value> {
    let place = one_of(&["", "affinity", "label"]);
    let reference = one_of(&["", "", "", "c0", "c1"]);
    (place, one_of(&["a", "b"]), one_of(&["2Gi", "10Gi", "50Gi"]), reference, one_of(&["local", "made"])).prop_map(
        move |(place, zone, size, reference, class)| {
            let mut volume = json!({
                "metadata": {"name": format!("v{number}"), "uid": format!("v{number}")},
                "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "capacity": {"storage": size},
                    "csi": {"driver": "disks.example.com", "volumeHandle": format!("v{number}")}},
                "status": {"phase": "Available"},
            });
            match place {
                "affinity" => {
                    let here = json!([{"key": ZONE, "operator": "In", "values": [zone]}]);
                    volume["spec"]["nodeAffinity"] =
                        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}});
                }
                "label" => volume["metadata"]["labels"] = json!({ZONE: format!("{zone}__c")}),
                _ => {}
            }
            if !reference.is_empty() {
                volume["spec"]["claimRef"] = json!({"namespace": "x", "name": reference});
            }
            volume
        },
    )
}

fn csi_node(number: usize) -> impl Strategy<Value = Value> {
    prop::option::of(0..4_i32).prop_map(move |count| {
        let mut driver = json!({"name": "disks.example.com", "nodeID": "id"});
        if let Some(count) = count {
            driver["allocatable"] = json!({"count": count});
        }
        json!({"metadata": {"name": format!("n{number}")}, "spec": {"drivers": [driver]}})
    })
}

fn capacity(number: usize) -> impl Strategy<Value = Value> {
    (one_of(&["a", "b"]), one_of(&["2Gi", "50Gi"])).prop_map(move |(zone, size)| {
        json!({"metadata": {"namespace": "kube-system", "name": format!("k{number}")}, "storageClassName": "made",
            "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": size})
    })
}

/// Draws the slice of a node with up to three devices.
fn slice(number: usize) -> impl Strategy<Value = Value> {
    let device = (one_of(&["A", "B"]), prop::bool::weighted(0.15), prop::option::weighted(0.3, 1..4_i64), 0..3_i64);
    prop::collection::vec(device, 0..4).prop_map(move |devices| {
        let device = |(place, (model, is_tainted, shared, units)): (usize, &(&str, bool, Option<i64>, i64))| {
            let mut device = json!({"name": format!("g{place}"), "attributes": {"model": {"string": model}}});
            if *is_tainted {
                device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
            }
            if let Some(capacity) = shared {
                device["allowMultipleAllocations"] = json!(true);
                device["capacity"] =
                    json!({"units": {"value": capacity.to_string(), "requestPolicy": {"default": "1"}}});
            } else {
                device["capacity"] = json!({"units": {"value": "9"}});
            }
            if *units > 0 {
                device["consumesCounters"] =
                    json!([{"counterSet": "set", "counters": {"power": {"value": units.to_string()}}}]);
            }
            device
        };
        let devices: Value = devices.iter().enumerate().map(device).collect();
        let name = format!("n{number}");
        let counters = json!([{"name": "set", "counters": {"power": {"value": "3"}}}]);
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 2});
        json!([
            {"metadata": {"name": format!("{name}-devices")},
                "spec": {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}},
            {"metadata": {"name": format!("{name}-counters")},
                "spec": {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "sharedCounters": counters}},
        ])
    })
}

fn device_claim(number: usize) -> impl Strategy<Value = Value> {
    let request = (one_of(&["", "A", "B"]), 1..3_i64, prop::bool::weighted(0.2), prop::bool::weighted(0.1), 0..3_i64);
    let several = prop::collection::vec(request, 1..3);
    let constraint = one_of(&["", "", "matchAttribute", "distinctAttribute"]);
    (several, prop::bool::weighted(0.3), constraint, prop::option::weighted(0.2, (0..5_u8, 0..2_u8))).prop_map(
        move |(requests, is_list, constraint, allocated)| {
            let one = |name: String, (model, count, tolerates, is_admin, units): &(&str, i64, bool, bool, i64)| {
                let mut one = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
                    "capacity": {"requests": {"units": units.to_string()}}});
                if !model.is_empty() {
                    let expression = format!("device.attributes['gpu.example.com'].model == '{model}'");
                    one["selectors"] = json!([{"cel": {"expression": expression}}]);
                }
                if *tolerates {
                    one["tolerations"] = json!([{"operator": "Exists"}]);
                }
                match is_list {
                    true => one["name"] = json!(name),
                    false if *is_admin => one["adminAccess"] = json!(true),
                    false => {}
                }
                one
            };
            let requests: Value = match is_list {
                true => {
                    let listed: Value = requests.iter().enumerate().map(|(n, it)| one(format!("a{n}"), it)).collect();
                    json!([{"name": "r0", "firstAvailable": listed}])
                }
                false => {
                    let named = |(n, it): (usize, &(&str, i64, bool, bool, i64))| {
                        json!({"name": format!("r{n}"), "exactly": one(String::new(), it)})
                    };
                    requests.iter().enumerate().map(named).collect()
                }
            };
            let mut claim = json!({
                "metadata": {"namespace": "x", "name": format!("d{number}"), "uid": format!("d{number}")},
                "spec": {"devices": {"requests": requests}},
            });
            if !constraint.is_empty() {
                claim["spec"]["devices"]["constraints"] = json!([{constraint: "gpu.example.com/model"}]);
            }
            if let Some((node, device)) = allocated {
                let node = format!("n{node}");
                let result =
                    json!({"request": "r0", "driver": "gpu.example.com", "pool": node, "device": format!("g{device}")});
                let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
                claim["status"] = json!({"allocation": {"devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}});
            }
            claim
        },
    )
}

fn budget(number: usize) -> impl Strategy<Value = Value> {
    (one_of(&["web", "db"]), 0..2_i32).prop_map(move |(app, allowed)| {
        json!({"metadata": {"namespace": "x", "name": format!("b{number}")},
            "spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}})
    })
}

/// Draws the arguments of plugins, and weights.
fn profile() -> impl Strategy<Value = Value> {
    let ratio = json!({"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 10, "score": 0}, {"utilization": 60, "score": 9}, {"utilization": 90, "score": 4}]}});
    let fit = one_of(&[
        json!({}),
        json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 5}]}}),
        json!({"scoringStrategy": ratio, "ignoredResources": ["example.com/gpu"]}),
        json!({"ignoredResourceGroups": ["example.com"]}),
    ]);
    let preferred = json!([{"weight": 5, "preference": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}}]);
    let required =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]}]});
    let affinity = one_of(&[
        json!({}),
        json!({}),
        json!({"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
        json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
    ]);
    let pods = (one_of(&[0, 1, 50]), prop::bool::ANY);
    let listed = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]);
    let spread = one_of(&[json!({}), json!({"defaultingType": "List", "defaultConstraints": listed})]);
    let balance = one_of(&[
        json!({}),
        json!({"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]}),
    ]);
    let binding = one_of(&[
        json!({}),
        json!({"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}),
        json!({"shape": [{"utilization": 20, "score": 0}, {"utilization": 70, "score": 10}, {"utilization": 90, "score": 3}]}),
    ]);
    let disabled = one_of(&["", "", "", "InterPodAffinity", "PodTopologySpread", "ImageLocality"]);
    (fit, affinity, pods, spread, balance, (binding, disabled)).prop_map(
        |(fit, affinity, (hard, ignores), spread, balance, (binding, disabled))| {
            let pods = json!({"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignores});
            let args = [
                ("NodeResourcesFit", fit),
                ("NodeAffinity", affinity),
                ("InterPodAffinity", pods),
                ("PodTopologySpread", spread),
                ("NodeResourcesBalancedAllocation", balance),
                ("VolumeBinding", binding),
            ];
            let config: Value = args.into_iter().map(|(name, args)| json!({"name": name, "args": args})).collect();
            let mut profile = json!({"pluginConfig": config});
            if !disabled.is_empty() {
                profile["plugins"] = json!({"multiPoint": {"disabled": [{"name": disabled}]}});
            }
            profile
        },
    )
}

/// Draws as many objects as there are numbers.
fn several<S: Strategy<Value = Value>>(count: usize, of: fn(usize) -> S) -> impl Strategy<Value = Vec<Value>> {
    (0..count).map(of).collect::<Vec<S>>()
}

pub fn world() -> impl Strategy<Value = World> {
    let storage = (several(7, claim), several(6, volume), several(5, csi_node), several(2, capacity));
    let attachments = prop::collection::vec((0..6_u8, 0..5_u8), 0..3);
    let devices = (several(5, slice), several(4, device_claim), prop::bool::ANY);
    (storage, attachments, devices, several(2, budget), profile()).prop_map(
        |((claims, volumes, csi_nodes, capacities), attachments, devices, budgets, profile)| {
            let (slices, device_claims, is_backed) = devices;
            let attachment = |(number, (volume, node)): (usize, (u8, u8))| {
                json!({"metadata": {"name": format!("a{number}")}, "spec": {"attacher": "disks.example.com",
                    "nodeName": format!("n{node}"), "source": {"persistentVolumeName": format!("v{volume}")}}})
            };
            let attachments = attachments.into_iter().enumerate().map(attachment).collect();
            let slices = slices.into_iter().flat_map(|pair| pair.as_array().cloned().unwrap_or_default()).collect();
            World {
                replica_sets: replica_sets(),
                classes: classes(),
                drivers: drivers(),
                device_classes: device_classes(is_backed),
                claims,
                volumes,
                attachments,
                capacities,
                csi_nodes,
                slices,
                device_claims,
                budgets,
                profile,
            }
        },
    )
}
