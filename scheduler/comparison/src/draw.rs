//! Draws nodes and pods as JSON.

use proptest::prelude::*;
use serde_json::{Value, json};

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
const KEYS: [&str; 3] = [ZONE, HOSTNAME, "rack"];
const APPS: [&str; 2] = ["web", "db"];

pub fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

pub fn node() -> impl Strategy<Value = Value> {
    let labels = (one_of(&["a", "b", ""]), one_of(&["r1", "r2", ""]), prop::bool::weighted(0.9));
    let spec = (one_of(&["", "", "", "", "NoSchedule", "PreferNoSchedule"]), prop::bool::weighted(0.05));
    let status = (
        one_of(&["0", "2", "4", "8"]),
        one_of(&["0", "2Gi", "8Gi", "2Gi", "8Gi", "2Gi", "8Gi", "9E"]),
        1..9_u8,
        prop::bool::ANY,
    );
    (labels, spec, status).prop_map(|((zone, rack, hostname), (taint, cordoned), (cpu, memory, pods, image))| {
        let mut labels = json!({});
        for (key, value) in [(ZONE, zone), ("rack", rack), (HOSTNAME, if hostname { "self" } else { "" })] {
            if !value.is_empty() {
                labels[key] = json!(value);
            }
        }
        let taints: Vec<Value> =
            if taint.is_empty() { vec![] } else { vec![json!({"key": "k", "value": "v", "effect": taint})] };
        let gpus = if pods % 2 == 0 { "2" } else { "0" };
        let images = if image { json!([{"names": ["web:latest"], "sizeBytes": 700 << 20}]) } else { json!([]) };
        json!({
            "metadata": {"labels": labels},
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods.to_string(), "example.com/gpu": gpus},
                "images": images},
        })
    })
}

/// Draws a term of pod affinity.
fn term() -> impl Strategy<Value = Value> {
    let namespaces = one_of(&[
        json!({}),
        json!({"namespaces": ["y"]}),
        json!({"namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}),
    ]);
    (one_of(&KEYS), one_of(&APPS), namespaces, one_of(&["", "", "matchLabelKeys", "mismatchLabelKeys"])).prop_map(
        |(key, app, mut term, keys)| {
            term["topologyKey"] = json!(key);
            term["labelSelector"] = json!({"matchLabels": {"app": app}});
            if !keys.is_empty() {
                term[keys] = json!(["version"]);
            }
            term
        },
    )
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
    let gpu = one_of(&["", "", "", "", "", "1"]);
    (
        one_of(&["", "0", "300m", "1"]),
        one_of(&["", "200Mi", "1Gi", "", "200Mi", "1Gi", "", "200Mi", "5E"]),
        gpu,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(cpu, memory, gpu, port)| {
            let mut container = json!({"name": "c", "image": "web", "resources": {"requests": {}}});
            for (name, amount) in [("cpu", cpu), ("memory", memory), ("example.com/gpu", gpu)] {
                if !amount.is_empty() {
                    container["resources"]["requests"][name] = json!(amount);
                }
            }
            if port {
                container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
            }
            container
        })
}

/// Draws a pod without a name and a node.
pub fn pod() -> impl Strategy<Value = Value> {
    let meta = (one_of(&["x", "y"]), one_of(&APPS), one_of(&["1", "2"]), prop::bool::weighted(0.1), prop::bool::ANY);
    let init = prop::collection::vec((container(), prop::bool::ANY), 0..2);
    let containers = (prop::collection::vec(container(), 1..3), init);
    let node_affinity = one_of(&[
        json!({}),
        json!({}),
        json!({}),
        json!({}),
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}},
            {"weight": 3, "preference": {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}}]}),
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r2"]}]}]}}),
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2", "n9"]}]}]}}),
    ]);
    let tolerations = one_of(&[json!([]), json!([{"operator": "Exists"}]), json!([{"key": "k", "value": "v"}])]);
    let spread = prop::collection::vec(constraint(), 0..3);
    (meta, containers, affinity(), node_affinity, tolerations, spread, extras()).prop_map(
        |((namespace, app, version, deleting, owned), (containers, init), mut affinity, node, tolerations, spread, extras)| {
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
            extras.add_to(&mut pod);
            if owned && namespace == "x" {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}]);
            }
            pod
        },
    )
}

/// What fewer pods have.
#[derive(Clone, Debug)]
struct Extras {
    priority: i32,
    started: u8,
    claims: Vec<u8>,
    devices: Vec<u8>,
    whole_pod: Value,
    overhead: bool,
    resized: Value,
    disk: bool,
}

fn extras() -> impl Strategy<Value = Extras> {
    let rarely =
        |numbers: std::ops::Range<u8>| prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(numbers, 1..3)];
    let whole_pod = one_of(&[Value::Null, Value::Null, json!({"cpu": "2"}), json!({"memory": "1Gi", "cpu": "500m"})]);
    let resized = one_of(&[
        Value::Null,
        Value::Null,
        json!({"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1"}}}),
        json!({"resources": {"requests": {"cpu": "100m", "memory": "2Gi"}}, "infeasible": true}),
    ]);
    let numbers = (one_of(&[0, 0, 5, 10]), 0..4_u8, rarely(0..8), rarely(0..5));
    (numbers, whole_pod, prop::bool::weighted(0.1), resized, prop::bool::weighted(0.1)).prop_map(
        |((priority, started, claims, devices), whole_pod, overhead, resized, disk)| Extras {
            priority,
            started,
            claims,
            devices,
            whole_pod,
            overhead,
            resized,
            disk,
        },
    )
}

impl Extras {
    fn add_to(self, pod: &mut Value) {
        pod["spec"]["priority"] = json!(self.priority);
        pod["status"] = json!({"startTime": format!("2026-01-01T00:00:0{}Z", self.started)});
        let volume = |claim: &u8| json!({"name": format!("v{claim}"), "persistentVolumeClaim": {"claimName": format!("c{claim}")}});
        let mut volumes: Vec<Value> = self.claims.iter().map(volume).collect();
        if self.disk {
            volumes
                .push(json!({"name": "disk", "gcePersistentDisk": {"pdName": "disk", "readOnly": self.priority > 5}}));
        }
        pod["spec"]["volumes"] = json!(volumes);
        let device = |claim: &u8| json!({"name": format!("d{claim}"), "resourceClaimName": format!("d{claim}")});
        pod["spec"]["resourceClaims"] = self.devices.iter().map(device).collect();
        if !self.whole_pod.is_null() {
            pod["spec"]["resources"] = json!({"requests": self.whole_pod});
        }
        if self.overhead {
            pod["spec"]["overhead"] = json!({"cpu": "100m"});
        }
        if let Value::Object(mut status) = self.resized {
            if status.remove("infeasible").is_some() {
                pod["status"]["conditions"] =
                    json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
            }
            status.insert("name".to_owned(), json!("c"));
            pod["status"]["containerStatuses"] = json!([status]);
        }
    }
}
