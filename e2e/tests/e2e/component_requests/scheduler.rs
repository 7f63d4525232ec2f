//! Requests of kube-scheduler: it finds no node for a pod, records an Event, and then finds a node.

use super::row::{ACCEPT, Caller, FIRST_LIST, PROTOBUF, Program, Row, STRATEGIC};
use serde_json::{Value, json};

const PROGRAM: Program =
    Program { name: "kube-scheduler", part: "", caller: Caller::User("system:kube-scheduler", "") };
const SCHEDULER: Program = PROGRAM.part("scheduler");
const LEADER: Program = PROGRAM.part("leader-election");
const ADMIN: Program = Program { name: "kubectl", part: "", caller: Caller::Admin };
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Collections that the scheduler lists.
const COLLECTIONS: [&str; 15] = [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/api/v1/replicationcontrollers",
    "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/resource.k8s.io/v1/resourceclaims",
];

pub fn rows() -> Vec<Row> {
    let pending = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
    let mut rows: Vec<Row> = COLLECTIONS
        .iter()
        .map(|path| SCHEDULER.get(format!("{path}?{FIRST_LIST}")).sees("/apiVersion", version(path)))
        .collect();
    rows.push(SCHEDULER.get(format!("{pending}&{FIRST_LIST}")).sees("/items/0/metadata/uid", "{pod.uid}"));
    rows.extend(elects());
    rows.extend(refuses());
    rows.extend(binds());
    rows
}

fn version(path: &str) -> String {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    if parts[0] == "api" { parts[1].to_owned() } else { format!("{}/{}", parts[1], parts[2]) }
}

fn elects() -> Vec<Row> {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "m1_uuid", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.123456Z",
            "renewTime": "2026-01-01T00:00:00.123456Z", "leaseTransitions": 0
        }
    });
    vec![
        LEADER.get(format!("{leases}/kube-scheduler?timeout=5s")).code(404),
        LEADER.post(leases, lease).sees("/spec/renewTime", "2026-01-01T00:00:00.123456Z"),
    ]
}

/// Finds no suitable node, and reports that in the pod's condition and in a repeated Event.
fn refuses() -> Vec<Row> {
    let message = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
    let condition = json!({"status": {
        "$setElementOrder/conditions": [{"type": "PodScheduled"}],
        "conditions": [{
            "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z", "message": message,
            "observedGeneration": 1, "reason": "Unschedulable", "status": "False", "type": "PodScheduled"
        }]
    }});
    let nominate = json!({"status": {"nominatedNodeName": "n1"}});
    let event = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": "{pod}.18a1", "namespace": "default", "creationTimestamp": null},
        "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-m1", "action": "Scheduling", "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod", "namespace": "default", "name": "{pod}", "uid": "{pod.uid}", "apiVersion": "v1",
            "resourceVersion": "1"
        },
        "note": message, "type": "Warning", "deprecatedSource": {},
        "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null
    });
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000001Z"}});
    let pod = "/api/v1/namespaces/default/pods/{pod}/status";
    vec![
        SCHEDULER
            .patch(pod, STRATEGIC, condition)
            .sees("/status/conditions/0/reason", "Unschedulable")
            .sees("/status/phase", "Pending"),
        SCHEDULER.patch(pod, STRATEGIC, nominate).sees("/status/nominatedNodeName", "n1"),
        SCHEDULER.post(EVENTS, event.clone()).sees("/note", message).sees("/series", Value::Null),
        SCHEDULER
            .patch(format!("{EVENTS}/{{pod}}.18a1"), STRATEGIC, series)
            .sees("/series/count", 2)
            .sees("/reason", "FailedScheduling"),
        SCHEDULER.get("/api/v1/namespaces/default/events/{pod}.18a1").code(403),
    ]
}

/// Binds pods to a node. The second binding is encoded as protobuf, as the scheduler does by default.
fn binds() -> Vec<Row> {
    let bindings = "/api/v1/namespaces/default/pods/{pod}/binding";
    let binding = |node: &str| {
        json!({
            "kind": "Binding", "apiVersion": "v1",
            "metadata": {"name": "{pod}", "namespace": "default", "uid": "{pod.uid}", "creationTimestamp": null},
            "target": {"kind": "Node", "name": node}
        })
    };
    let other = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "other"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    });
    vec![
        SCHEDULER.post(bindings, binding("n1")).sees("/kind", "Status").sees("/status", "Success"),
        SCHEDULER.post(bindings, binding("n2")).code(409).sees("/reason", "Conflict"),
        SCHEDULER
            .get("/api/v1/namespaces/default/pods/{pod}")
            .accept("application/vnd.kubernetes.protobuf, */*")
            .sees("/spec/nodeName", "n1")
            .sees("/status/conditions/0/status", "True"),
        ADMIN.post("/api/v1/namespaces/default/pods", other),
        SCHEDULER
            .post("/api/v1/namespaces/default/pods/other/binding", Value::Null)
            .body(PROTOBUF, binding_in_protobuf("other", "n1"))
            .accept(ACCEPT)
            .sees("/status", "Success"),
        SCHEDULER.get("/api/v1/namespaces/default/pods/other").sees("/spec/nodeName", "n1"),
    ]
}

/// Encodes a Binding. `metadata.name` is field 1 of field 1. In `target`, which is field 2, the kind is field 1 and the
/// name field 3.
fn binding_in_protobuf(name: &str, node: &str) -> Vec<u8> {
    let target = [field(1, b"Node"), field(3, node.as_bytes())].concat();
    let binding = [field(1, &field(1, name.as_bytes())), field(2, &target)].concat();
    let kind = [field(1, b"v1"), field(2, b"Binding")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &binding)].concat()
}

/// Encodes a field with fewer than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    [&[(number << 3) | 2, length], bytes].concat()
}
