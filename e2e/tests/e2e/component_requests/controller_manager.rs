//! Requests of kube-controller-manager until its controllers run: it becomes the leader, reads the trusted certificate
//! authorities, and requests a token for every controller.

use super::row::{ACCEPT, Caller, FIRST_LIST, JSON, Program, Row, STREAMED_LIST};
use serde_json::{Value, json};

const MANAGER: Program =
    Program { name: "kube-controller-manager", part: "", caller: Caller::User("system:kube-controller-manager", "") };
const LEADER: Program = MANAGER.part("leader-election");

/// Names of the controllers' service accounts.
const ACCOUNTS: [&str; 22] = [
    "attachdetach-controller",
    "certificate-controller",
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpointslice-controller",
    "generic-garbage-collector",
    "horizontal-pod-autoscaler",
    "job-controller",
    "namespace-controller",
    "node-controller",
    "persistent-volume-binder",
    "pod-garbage-collector",
    "replicaset-controller",
    "replication-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "service-account-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
];

pub fn rows() -> Vec<Row> {
    let mut rows = [elects(), delegates()].into_iter().flatten().collect::<Vec<_>>();
    rows.extend(ACCOUNTS.into_iter().flat_map(gets_a_token));
    rows
}

fn lease(holder: &str, revision: Value, renewed_s: u32) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system", "resourceVersion": revision},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": format!("2026-01-01T00:00:0{renewed_s}.000000Z"), "leaseTransitions": 0
        }
    })
}

/// Acquires the Lease, renews it, and conflicts with another writer.
fn elects() -> Vec<Row> {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let mine = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager?timeout=5s";
    let event = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": "kube-controller-manager.18a1", "namespace": "kube-system"},
        "involvedObject": {
            "kind": "Lease", "namespace": "kube-system", "name": "kube-controller-manager",
            "apiVersion": "coordination.k8s.io/v1", "resourceVersion": "{lease.revision}"
        },
        "reason": "LeaderElection", "message": "m1_uuid became leader",
        "source": {"component": "kube-controller-manager"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1, "type": "Normal",
        "eventTime": null, "reportingComponent": "kube-controller-manager", "reportingInstance": ""
    });
    vec![
        LEADER.get(mine).code(404).sees("/details/kind", "leases").sees("/reason", "NotFound"),
        LEADER
            .post(leases, lease("m1", Value::Null, 0))
            .keeps("lease.first", "/metadata/resourceVersion")
            .sees("/spec/acquireTime", "2026-01-01T00:00:00.000000Z"),
        LEADER.post(leases, lease("m2", Value::Null, 0)).code(409).sees("/reason", "AlreadyExists"),
        LEADER
            .put(mine, lease("m1", json!("{lease.first}"), 2))
            .sees("/spec/renewTime", "2026-01-01T00:00:02.000000Z")
            .keeps("lease.revision", "/metadata/resourceVersion"),
        LEADER
            .put(mine, lease("m2", json!("{lease.first}"), 3))
            .code(409)
            .sees("/reason", "Conflict")
            .sees("/details/name", "kube-controller-manager"),
        LEADER.get(mine).accept("application/vnd.kubernetes.protobuf, */*").sees("/spec/holderIdentity", "m1"),
        LEADER.post("/api/v1/namespaces/kube-system/events", event).sees("/count", 1),
    ]
}

/// Delegates authentication and authorization on its own port: reads certificate authorities from a ConfigMap, and
/// sends reviews.
fn delegates() -> Vec<Row> {
    let authentication = "/api/v1/namespaces/kube-system/configmaps";
    let one = "fieldSelector=metadata.name%3Dextension-apiserver-authentication";
    let access = |user: &str, verb: &str| {
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "nonResourceAttributes": {"path": "/metrics", "verb": verb},
                "user": user, "groups": ["system:authenticated"]
            },
            "status": {"allowed": false}
        })
    };
    let token = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": {"token": "nobody's"}, "status": {"user": {}}
    });
    vec![
        MANAGER
            .get(format!("{authentication}?{one}&{FIRST_LIST}"))
            .sees("/items/0/metadata/name", "extension-apiserver-authentication")
            .sees("/items/1", Value::Null),
        MANAGER
            .watch(format!("{authentication}?{one}&{STREAMED_LIST}"), 2)
            .sees("/0/object/metadata/name", "extension-apiserver-authentication")
            .sees("/1/type", "BOOKMARK"),
        // One of its roles permits this ConfigMap only.
        MANAGER.get(format!("{authentication}/extension-apiserver-authentication")),
        MANAGER
            .post("/apis/authorization.k8s.io/v1/subjectaccessreviews?timeout=10s", access("ada", "get"))
            .sees("/kind", "SubjectAccessReview")
            .sees("/status/allowed", false),
        MANAGER
            .post(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews?timeout=10s",
                access("system:kube-controller-manager", "post"),
            )
            .sees("/spec/nonResourceAttributes/verb", "post"),
        MANAGER
            .post("/apis/authentication.k8s.io/v1/tokenreviews?timeout=10s", token)
            .sees("/kind", "TokenReview")
            .sees("/status/authenticated", Value::Null)
            .sees("/status/error", "invalid bearer token"),
    ]
}

/// Creates the service account of a controller, requests a token for it, and uses the token.
fn gets_a_token(name: &'static str) -> Vec<Row> {
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "kube-system", "creationTimestamp": null}
    });
    let request = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": {"audiences": null, "expirationSeconds": 3600, "boundObjectRef": null},
        "status": {"token": "", "expirationTimestamp": null}
    });
    let itself = Program { caller: Caller::Token(name), ..MANAGER };
    let who = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "status": {"userInfo": {}}
    });
    vec![
        MANAGER.get(format!("{accounts}/{name}")).accept("application/json, */*").code(404),
        MANAGER.post(accounts, account).accept("application/json, */*"),
        MANAGER
            .post(format!("{accounts}/{name}/token"), request)
            .accept(JSON)
            .sees("/kind", "TokenRequest")
            .sees("/spec/expirationSeconds", 3600)
            .keeps(name, "/status/token"),
        itself
            .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", who)
            .accept(ACCEPT)
            .sees("/status/userInfo/username", format!("system:serviceaccount:kube-system:{name}")),
    ]
}
