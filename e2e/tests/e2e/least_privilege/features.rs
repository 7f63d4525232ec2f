//! The table of a cluster's features, each with the evidence that shows whether it works.

use super::workload::SILENT_NODE;
use serde_json::{Value, json};
use simulator::part::Part;

/// A feature that works or is broken.
pub struct Feature {
    pub name: &'static str,
    pub shown_by: Evidence,
}

/// A way to check a feature.
pub enum Evidence {
    /// Checks all objects of a resource in a namespace: API group, resource, namespace.
    Objects(&'static str, &'static str, &'static str, fn(&[Value]) -> bool),
    /// The caller's request for a path is answered with 200.
    Answer(Caller, &'static str),
    /// Checks the answer to a review that the caller posts to a path.
    Review(Caller, &'static str, fn() -> Value, fn(&Value) -> bool),
    /// A component lets a pod's service account read its `/healthz`.
    Page(Part),
    /// Checks the rules of a node's proxy.
    ProxyRules(fn(&str) -> bool),
}

/// The sender of a request.
pub enum Caller {
    /// A client without credentials.
    Nobody,
    /// A user with groups.
    User(&'static str, &'static [&'static str]),
    /// The service account of a pod.
    Pod,
    Part(Part),
}

use Caller::{Nobody, Pod, User};
use Evidence::{Answer, Objects, Page, ProxyRules, Review};

const fn feature(name: &'static str, shown_by: Evidence) -> Feature {
    Feature { name, shown_by }
}

pub const FEATURES: &[Feature] = &[
    // Pods and nodes.
    feature("a pod gets a node", Objects("", "pods", "default", |all| has(all, "unassigned", "/spec/nodeName"))),
    feature("a pod runs", Objects("", "pods", "default", |all| named(all, "assigned")["status"]["phase"] == "Running")),
    feature(
        "a node renews its lease",
        Objects("coordination.k8s.io", "leases", "kube-node-lease", |all| has(all, "node-0", "/spec/renewTime")),
    ),
    feature("a node gets a pod CIDR", Objects("", "nodes", "", |all| has(all, SILENT_NODE, "/spec/podCIDR"))),
    feature(
        "a node is told how long it may cache",
        Objects("", "nodes", "", |all| has(all, SILENT_NODE, "/metadata/annotations/node.alpha.kubernetes.io~1ttl")),
    ),
    feature(
        "a silent node is tainted",
        Objects("", "nodes", "", |all| {
            items(named(all, SILENT_NODE), "/spec/taints")
                .any(|taint| taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == "NoExecute")
        }),
    ),
    feature(
        "a pod is evicted from a silent node",
        Objects("", "pods", "default", |all| has(all, "on-silent-node", "/metadata/deletionTimestamp")),
    ),
    feature("a volume is attached", Objects("", "nodes", "", |all| has(all, "node-0", "/status/volumesAttached/0"))),
    feature(
        "a template makes a ResourceClaim",
        Objects("resource.k8s.io", "resourceclaims", "default", |all| any_owned_by(all, "with-claim")),
    ),
    feature("a deleted pod ends", Objects("", "pods", "default", |all| !is_there(all, "to-delete"))),
    feature("a pod without a node is deleted", Objects("", "pods", "default", |all| !is_there(all, "orphan"))),
    // Workloads.
    feature(
        "a Deployment makes a ReplicaSet",
        Objects("apps", "replicasets", "default", |all| any_owned_by(all, "deployment")),
    ),
    feature("a ReplicaSet makes pods", Objects("", "pods", "default", |all| any_owned_by(all, "replicaset"))),
    feature(
        "a ReplicationController makes pods",
        Objects("", "pods", "default", |all| any_owned_by(all, "controller")),
    ),
    feature("a StatefulSet makes pods", Objects("", "pods", "default", |all| any_owned_by(all, "statefulset"))),
    feature("a DaemonSet makes pods", Objects("", "pods", "default", |all| any_owned_by(all, "daemons"))),
    feature("a Job makes pods", Objects("", "pods", "default", |all| any_owned_by(all, "job"))),
    feature("a CronJob makes Jobs", Objects("batch", "jobs", "default", |all| any_owned_by(all, "every-minute"))),
    feature("a finished Job is cleaned up", Objects("batch", "jobs", "default", |all| !is_there(all, "brief"))),
    feature(
        "a disruption budget is counted",
        Objects("policy", "poddisruptionbudgets", "default", |all| named(all, "budget")["status"]["expectedPods"] == 1),
    ),
    feature(
        "an autoscaler resizes its target",
        Objects("autoscaling", "horizontalpodautoscalers", "default", |all| {
            named(all, "autoscaler")["status"]["desiredReplicas"] == 2
        }),
    ),
    // Services.
    feature(
        "a Service has Endpoints",
        Objects("", "endpoints", "default", |all| items(named(all, "web"), "/subsets").next().is_some()),
    ),
    feature(
        "a Service has EndpointSlices",
        Objects("discovery.k8s.io", "endpointslices", "default", |all| {
            all.iter()
                .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
                .any(|slice| items(slice, "/endpoints").next().is_some())
        }),
    ),
    feature(
        "Endpoints are mirrored",
        Objects("discovery.k8s.io", "endpointslices", "default", |all| {
            all.iter().any(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "outside")
        }),
    ),
    feature("proxies know a Service", ProxyRules(|rules| rules.contains("default/web"))),
    // Housekeeping.
    feature(
        "a namespace gets a service account",
        Objects("", "serviceaccounts", "new", |all| is_there(all, "default")),
    ),
    feature(
        "a namespace gets the certificate authority",
        Objects("", "configmaps", "new", |all| is_there(all, "kube-root-ca.crt")),
    ),
    feature(
        "a ServiceCIDR is ready",
        Objects("networking.k8s.io", "servicecidrs", "", |all| {
            items(named(all, "kubernetes"), "/status/conditions")
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        }),
    ),
    feature("a namespace ends", Objects("", "namespaces", "", |all| !is_there(all, "ending"))),
    feature(
        "an object without an owner is deleted",
        Objects("", "configmaps", "default", |all| !is_there(all, "left-behind")),
    ),
    feature("a quota is counted", Objects("", "resourcequotas", "new", |all| has(all, "quota", "/status/used"))),
    feature(
        "a role is aggregated",
        Objects("rbac.authorization.k8s.io", "clusterroles", "", |all| {
            items(named(all, "whole"), "/rules").next().is_some()
        }),
    ),
    feature(
        "a Secret is filled with a token",
        Objects("", "secrets", "default", |all| has(all, "robot", "/data/token")),
    ),
    feature(
        "a policy is checked",
        Objects("admissionregistration.k8s.io", "validatingadmissionpolicies", "", |all| {
            has(all, "policy", "/status/observedGeneration")
        }),
    ),
    // Certificates and bootstrap tokens.
    feature("a node joins with a bootstrap token", Objects("", "nodes", "", |all| is_there(all, "guest-0"))),
    feature(
        "a node renews its certificate",
        Objects("certificates.k8s.io", "certificatesigningrequests", "", |all| {
            all.iter().any(|request| {
                request["spec"]["username"] == "system:node:guest-0" && request.pointer("/status/certificate").is_some()
            })
        }),
    ),
    feature(
        "cluster-info is signed",
        Objects("", "configmaps", "kube-public", |all| has(all, "cluster-info", "/data/jws-kubeconfig-abcdef")),
    ),
    feature(
        "an expired token is deleted",
        Objects("", "secrets", "kube-system", |all| !is_there(all, "bootstrap-token-past00")),
    ),
    // Requests that every user may send.
    feature("anybody reads the version", Answer(Nobody, "/version")),
    feature("a user reads discovery", Answer(User("ann", &[]), "/apis")),
    feature(
        "a user reads her user name",
        Review(
            User("ann", &[]),
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            || json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
            |review| review["status"]["userInfo"]["username"] == "ann",
        ),
    ),
    feature("metrics are gathered", Answer(User("prometheus", &["system:monitoring"]), "/metrics")),
    feature("a pod finds the issuer of its token", Answer(Pod, "/.well-known/openid-configuration")),
    // Components' own pages.
    feature("the controller manager shows its pages", Page(Part::ControllerManager)),
    feature("the scheduler shows its pages", Page(Part::Scheduler)),
    feature("nodes' agents show their pages", Page(Part::Nodes)),
    feature("proxies show their pages", Page(Part::Proxies)),
    feature(
        "the API server reads logs of nodes' agents",
        Review(
            Caller::Part(Part::Nodes),
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            || {
                let attributes = json!({"verb": "get", "resource": "nodes", "subresource": "proxy", "name": "node-0"});
                let spec = json!({"user": "kube-apiserver-kubelet-client", "groups": ["system:authenticated"], "resourceAttributes": attributes});
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
            },
            |review| review["status"]["allowed"] == true,
        ),
    ),
];

fn named<'a>(all: &'a [Value], name: &str) -> &'a Value {
    all.iter().find(|object| object["metadata"]["name"] == name).unwrap_or(&Value::Null)
}

fn is_there(all: &[Value], name: &str) -> bool {
    !named(all, name).is_null()
}

fn has(all: &[Value], name: &str, pointer: &str) -> bool {
    named(all, name).pointer(pointer).is_some()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn any_owned_by(all: &[Value], owner: &str) -> bool {
    all.iter().any(|object| items(object, "/metadata/ownerReferences").any(|reference| reference["name"] == owner))
}
