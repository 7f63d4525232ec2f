//! The kinds that get edits in any order: how an object begins, which edits it gets, and what is compared in the end.
//!
//! No two edits of a row touch the same field, and each is valid whatever came before it.

use crate::user;
use serde_json::{Map, Value, json};

/// The objects of the store, with their keys.
pub type Stored = [(String, Value)];

/// A kind, and what happens to its objects.
pub struct Row {
    pub group: &'static str,
    pub resource: &'static str,
    /// Prefix of the keys of its objects.
    pub prefix: &'static str,
    pub is_namespaced: bool,
    pub object: fn(&str) -> Value,
    pub edits: fn() -> Vec<Value>,
    /// Returns what does not depend on the order of the edits.
    pub end: fn(&Value, &Stored) -> Value,
}

impl Row {
    pub fn namespace(&self) -> &'static str {
        if self.is_namespaced { "default" } else { "" }
    }
}

pub const ROWS: &[Row] = &[
    Row {
        group: "apps",
        resource: "deployments",
        prefix: "/registry/deployments/default/",
        is_namespaced: true,
        object: |name| workload("Deployment", name),
        edits: edits_of_scaled_workloads,
        end: end_of_workload,
    },
    Row {
        group: "apps",
        resource: "statefulsets",
        prefix: "/registry/statefulsets/default/",
        is_namespaced: true,
        object: |name| workload("StatefulSet", name),
        edits: edits_of_scaled_workloads,
        end: end_of_workload,
    },
    Row {
        group: "apps",
        resource: "daemonsets",
        prefix: "/registry/daemonsets/default/",
        is_namespaced: true,
        object: |name| workload("DaemonSet", name),
        edits: edits_of_workloads,
        end: end_of_workload,
    },
    Row {
        group: "batch",
        resource: "jobs",
        prefix: "/registry/jobs/default/",
        is_namespaced: true,
        object: job,
        edits: || {
            edits(&[
                json!({"spec": {"suspend": false}}),
                json!({"spec": {"parallelism": 2}}),
                json!({"spec": {"activeDeadlineSeconds": 600}}),
                json!({"spec": {"backoffLimit": 3}}),
            ])
        },
        end: |job, stored| {
            let mut spec = job["spec"].clone();
            // The labels of the pods say the UID of the Job.
            (spec["selector"], spec["template"]["metadata"]) = (Value::Null, Value::Null);
            json!({"spec": spec, "status": counts(job), "pods": pods_of(job, stored)})
        },
    },
    Row {
        group: "",
        resource: "services",
        prefix: "/registry/services/specs/default/",
        is_namespaced: true,
        object: |name| in_default(user::service(name)),
        edits: || {
            edits(&[
                json!({"spec": {"type": "NodePort"}}),
                json!({"spec": {"sessionAffinity": "ClientIP"}}),
                json!({"spec": {"publishNotReadyAddresses": true}}),
                json!({"spec": {"internalTrafficPolicy": "Local"}}),
                json!({"spec": {"selector": {"tier": "front"}}}),
            ])
        },
        end: end_of_service,
    },
    Row {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        prefix: "/registry/horizontalpodautoscalers/default/",
        is_namespaced: true,
        object: |name| {
            let mut autoscaler = user::autoscaler(name, 1, 3);
            autoscaler["spec"]["scaleTargetRef"]["name"] = json!(target_of(name));
            autoscaler
        },
        edits: || edits(&[json!({"spec": {"minReplicas": 2}}), json!({"spec": {"maxReplicas": 4}})]),
        end: |autoscaler, _| json!({"spec": autoscaler["spec"], "status": counts(autoscaler)}),
    },
    Row {
        group: "",
        resource: "persistentvolumeclaims",
        prefix: "/registry/persistentvolumeclaims/default/",
        is_namespaced: true,
        object: |name| in_default(user::claim(name, CLASS)),
        edits: || edits(&[json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})]),
        end: |claim, _| {
            let mut spec = claim["spec"].clone();
            spec["volumeName"] = Value::Null;
            json!({"spec": spec, "phase": claim["status"]["phase"], "capacity": claim["status"]["capacity"]})
        },
    },
    Row {
        group: "networking.k8s.io",
        resource: "servicecidrs",
        prefix: "/registry/servicecidrs/",
        is_namespaced: false,
        object: |name| user::service_cidr(name, "10.9.0.0/28"),
        edits: || edits(&[]),
        end: |service_cidr, _| {
            let ready = &service_cidr["status"]["conditions"][0];
            json!({"spec": service_cidr["spec"], "ready": ready["status"]})
        },
    },
];

/// Name of the StorageClass of the claims.
const CLASS: &str = "expandable";

/// Returns the name of the Deployment that a copy of an autoscaler scales. It is no copy.
pub fn target_of(copy: &str) -> String {
    copy.replace("copy", "scaled")
}

/// Returns a class whose volumes can always be made, and can be expanded.
pub fn storage_class() -> Value {
    let mut class = user::storage_class();
    class["metadata"]["name"] = json!(CLASS);
    class["parameters"] = json!({});
    class
}

fn in_default(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("default");
    object
}

fn workload(kind: &str, name: &str) -> Value {
    let mut object = in_default(user::stateful_set(name, 1, "web:1"));
    object["kind"] = json!(kind);
    if let Some(spec) = object["spec"].as_object_mut() {
        let foreign = ["serviceName", "replicas"];
        foreign.iter().filter(|_| kind == "DaemonSet").for_each(|field| drop(spec.remove(*field)));
        foreign[..1].iter().filter(|_| kind == "Deployment").for_each(|field| drop(spec.remove(*field)));
    }
    object
}

/// Returns a Job that does not begin by itself.
fn job(name: &str) -> Value {
    let mut job = in_default(user::job(name, 3, 1));
    job["spec"]["suspend"] = json!(true);
    job
}

/// Returns edits of the spec, and edits that every kind can get.
fn edits(of_spec: &[Value]) -> Vec<Value> {
    let of_any =
        [json!({"metadata": {"annotations": {"edited": "yes"}}}), json!({"metadata": {"labels": {"team": "blue"}}})];
    of_spec.iter().cloned().chain(of_any).collect()
}

fn edits_of_workloads() -> Vec<Value> {
    let of_pods = |spec: Value| json!({"spec": {"template": spec}});
    edits(&[
        of_pods(json!({"spec": {"containers": [{"name": "c", "image": "web:2"}]}})),
        of_pods(json!({"metadata": {"labels": {"tier": "front"}}})),
        of_pods(json!({"spec": {"terminationGracePeriodSeconds": 2}})),
        json!({"spec": {"minReadySeconds": 1}}),
        json!({"spec": {"revisionHistoryLimit": 0}}),
    ])
}

fn edits_of_scaled_workloads() -> Vec<Value> {
    let mut edits = edits_of_workloads();
    edits.push(json!({"spec": {"replicas": 3}}));
    edits
}

fn end_of_workload(object: &Value, stored: &Stored) -> Value {
    json!({"spec": object["spec"], "status": counts(object), "pods": pods_of(object, stored)})
}

/// Returns the numbers in a status, except those that count edits, and zeros, which may be left out.
fn counts(object: &Value) -> Map<String, Value> {
    let numbers = object["status"].as_object().into_iter().flatten().filter(|(field, value)| {
        value.as_i64().is_some_and(|number| number != 0)
            && !matches!(field.as_str(), "observedGeneration" | "collisionCount")
    });
    numbers.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// Returns what the edits decide about the pods of an object.
fn pods_of(object: &Value, stored: &Stored) -> Vec<Value> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let is_deployment = object["kind"] == "Deployment";
    let is_its = |pod: &Value| {
        let owner = &pod["metadata"]["ownerReferences"][0];
        let is_named = |owner: &str| owner == name || (is_deployment && owner.starts_with(&format!("{name}-")));
        let kind = if is_deployment { &json!("ReplicaSet") } else { &object["kind"] };
        owner["kind"] == *kind && owner["name"].as_str().is_some_and(is_named)
    };
    let pods = stored.iter().filter(|(key, pod)| key.starts_with("/registry/pods/") && is_its(pod));
    let end = |pod: &Value| {
        json!({
            "image": pod["spec"]["containers"][0]["image"],
            "tier": pod["metadata"]["labels"]["tier"],
            "grace": pod["spec"]["terminationGracePeriodSeconds"],
            "phase": pod["status"]["phase"],
        })
    };
    pods.map(|(_, pod)| end(pod)).collect()
}

/// Returns the spec of a Service without its addresses and the numbers of its node ports, and how many endpoints it has.
fn end_of_service(service: &Value, stored: &Stored) -> Value {
    let mut spec = service["spec"].clone();
    (spec["clusterIP"], spec["clusterIPs"]) = (Value::Null, Value::Null);
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        port["nodePort"] = json!(!port["nodePort"].is_null());
    }
    let is_its = |key: &str, slice: &Value| {
        key.starts_with("/registry/endpointslices/")
            && slice["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    };
    let slices = stored.iter().filter(|(key, slice)| is_its(key, slice));
    let endpoints: usize = slices.map(|(_, slice)| slice["endpoints"].as_array().map_or(0, Vec::len)).sum();
    json!({"spec": spec, "endpoints": endpoints})
}
