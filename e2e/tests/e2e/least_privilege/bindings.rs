//! Two tables of bindings: those that Orrery needs, each with the features that break without it, and the unused ones
//! with the reasons.

/// A binding that is needed.
pub struct Needed {
    /// `name`, or `namespace/name`.
    pub binding: &'static str,
    /// The callers whose requests are refused without it.
    pub is_refused: Refused,
    /// Names of the features that break without it.
    pub breaks: &'static [&'static str],
}

/// The callers whose requests are answered with 403.
pub enum Refused {
    /// The binding's subjects.
    Subjects,
    /// No caller, since the binding's permissions are only checked in reviews.
    Nobody,
}

use Refused::{Nobody, Subjects};

const fn needed(binding: &'static str, is_refused: Refused, breaks: &'static [&'static str]) -> Needed {
    Needed { binding, is_refused, breaks }
}

/// Features that break when the controller manager cannot read: no controller does anything. New nodes keep their taint
/// and get no pod CIDR. A pod that is bound to a node waits for the ConfigMap `kube-root-ca.crt`.
const WITHOUT_CONTROLLERS: &[&str] = &[
    "Endpoints are mirrored",
    "a CronJob makes Jobs",
    "a DaemonSet makes pods",
    "a Deployment makes a ReplicaSet",
    "a Job makes pods",
    "a ReplicaSet makes pods",
    "a ReplicationController makes pods",
    "a Secret is filled with a token",
    "a Service has EndpointSlices",
    "a Service has Endpoints",
    "a ServiceCIDR is ready",
    "a StatefulSet makes pods",
    "a disruption budget is counted",
    "a finished Job is cleaned up",
    "a namespace ends",
    "a namespace gets a service account",
    "a namespace gets the certificate authority",
    "a node gets a pod CIDR",
    "a node is told how long it may cache",
    "a node renews its certificate",
    "a pod is evicted from a silent node",
    "a pod gets a node",
    "a pod runs",
    "a pod without a node is deleted",
    "a policy is checked",
    "a quota is counted",
    "a role is aggregated",
    "a silent node is tainted",
    "a template makes a ResourceClaim",
    "an autoscaler resizes its target",
    "a volume is attached",
    "an expired token is deleted",
    "a node joins with a bootstrap token",
    "cluster-info is signed",
    "the controller manager shows its pages",
    "an object without an owner is deleted",
];

/// Features that break when no node reports. No pod is evicted then: if all nodes are silent, the fault may be the
/// controllers' connection.
const WITHOUT_NODES: &[&str] = &[
    "a Service has EndpointSlices",
    "a Service has Endpoints",
    "a disruption budget is counted",
    "a finished Job is cleaned up",
    "a node renews its certificate",
    "a node renews its lease",
    "a pod is evicted from a silent node",
    "a pod gets a node",
    "a pod runs",
    "a silent node is tainted",
    "a volume is attached",
    "a node joins with a bootstrap token",
    "nodes' agents show their pages",
    "the API server reads logs of nodes' agents",
];

/// Features that break without discovery, which the garbage collector, the quotas, the policy checker and the autoscaler
/// need. The cleanup of a finished Job leaves its pods to the garbage collector.
const WITHOUT_DISCOVERY: &[&str] = &[
    "a finished Job is cleaned up",
    "a namespace ends",
    "a policy is checked",
    "a quota is counted",
    "a user reads discovery",
    "an autoscaler resizes its target",
    "an object without an owner is deleted",
];

/// Features that break without the node controllers: new nodes keep their taint, and choose pod addresses themselves.
const WITHOUT_NODE_CONTROLLERS: &[&str] = &[
    "a finished Job is cleaned up",
    "a node gets a pod CIDR",
    "a pod is evicted from a silent node",
    "a pod gets a node",
    "a silent node is tainted",
];

pub const NEEDED: &[Needed] = &[
    // Components.
    needed("system:kube-controller-manager", Subjects, WITHOUT_CONTROLLERS),
    needed(
        "system:kube-scheduler",
        Subjects,
        &["a finished Job is cleaned up", "a pod gets a node", "the scheduler shows its pages"],
    ),
    needed("system:volume-scheduler", Subjects, &["a finished Job is cleaned up", "a pod gets a node"]),
    needed("system:orrery:node-fleet", Subjects, WITHOUT_NODES),
    needed("system:node-proxier", Subjects, &["proxies know a Service"]),
    needed("system:auth-delegator", Subjects, &["proxies show their pages"]),
    needed("system:kubelet-api-admin", Nobody, &["the API server reads logs of nodes' agents"]),
    // All users.
    needed("system:basic-user", Subjects, &["a user reads her user name"]),
    needed("system:discovery", Subjects, WITHOUT_DISCOVERY),
    needed("system:public-info-viewer", Subjects, &["anybody reads the version"]),
    needed("system:monitoring", Subjects, &["metrics are gathered"]),
    needed("system:service-account-issuer-discovery", Subjects, &["a pod finds the issuer of its token"]),
    // Controllers.
    needed("system:controller:node-controller", Subjects, WITHOUT_NODE_CONTROLLERS),
    needed("system:controller:ttl-controller", Subjects, &["a node is told how long it may cache"]),
    needed("system:controller:resource-claim-controller", Subjects, &["a template makes a ResourceClaim"]),
    needed("system:controller:pod-garbage-collector", Subjects, &["a pod without a node is deleted"]),
    needed("system:controller:persistent-volume-binder", Subjects, &["a volume is attached"]),
    needed("system:controller:attachdetach-controller", Subjects, &["a volume is attached"]),
    needed("system:controller:simulated-csi-attacher", Subjects, &["a volume is attached"]),
    needed("system:controller:deployment-controller", Subjects, &["a Deployment makes a ReplicaSet"]),
    needed("system:controller:replicaset-controller", Subjects, &["a ReplicaSet makes pods"]),
    needed("system:controller:replication-controller", Subjects, &["a ReplicationController makes pods"]),
    needed("system:controller:statefulset-controller", Subjects, &["a StatefulSet makes pods"]),
    needed("system:controller:daemon-set-controller", Subjects, &["a DaemonSet makes pods"]),
    needed("system:controller:job-controller", Subjects, &["a Job makes pods", "a finished Job is cleaned up"]),
    needed("system:controller:cronjob-controller", Subjects, &["a CronJob makes Jobs"]),
    needed("system:controller:ttl-after-finished-controller", Subjects, &["a finished Job is cleaned up"]),
    needed("system:controller:disruption-controller", Subjects, &["a disruption budget is counted"]),
    needed("system:controller:horizontal-pod-autoscaler", Subjects, &["an autoscaler resizes its target"]),
    needed("system:controller:endpoint-controller", Subjects, &["a Service has Endpoints"]),
    needed("system:controller:endpointslice-controller", Subjects, &["a Service has EndpointSlices"]),
    needed("system:controller:endpointslicemirroring-controller", Subjects, &["Endpoints are mirrored"]),
    needed("system:controller:service-cidrs-controller", Subjects, &["a ServiceCIDR is ready"]),
    needed("system:controller:service-account-controller", Subjects, &["a namespace gets a service account"]),
    // Every pod with a service account token also mounts the ConfigMap with the certificate authority.
    needed(
        "system:controller:root-ca-cert-publisher",
        Subjects,
        &[
            "a Service has EndpointSlices",
            "a Service has Endpoints",
            "a finished Job is cleaned up",
            "a namespace gets the certificate authority",
            "a pod runs",
        ],
    ),
    needed("system:controller:namespace-controller", Subjects, &["a namespace ends"]),
    needed(
        "system:controller:generic-garbage-collector",
        Subjects,
        &["a finished Job is cleaned up", "an object without an owner is deleted"],
    ),
    needed("system:controller:resourcequota-controller", Subjects, &["a quota is counted"]),
    needed("system:controller:clusterrole-aggregation-controller", Subjects, &["a role is aggregated"]),
    needed("system:controller:validatingadmissionpolicy-status-controller", Subjects, &["a policy is checked"]),
    // Certificates and bootstrap tokens.
    needed(
        "system:controller:certificate-controller",
        Subjects,
        &["a node joins with a bootstrap token", "a node renews its certificate"],
    ),
    needed("kube-public/system:controller:bootstrap-signer", Subjects, &["cluster-info is signed"]),
    needed("kube-system/system:controller:token-cleaner", Subjects, &["an expired token is deleted"]),
    needed(
        "kubeadm:kubelet-bootstrap",
        Subjects,
        &["a node joins with a bootstrap token", "a node renews its certificate"],
    ),
    needed(
        "kubeadm:node-autoapprove-bootstrap",
        Nobody,
        &["a node joins with a bootstrap token", "a node renews its certificate"],
    ),
    needed("kubeadm:node-autoapprove-certificate-rotation", Nobody, &["a node renews its certificate"]),
];

const NOTHING_TO_DO: &str = "no claim here grows, is deleted, or is made by a class or a pod";
const NO_CONTROLLER: &str = "there is no such controller";
const AS_MANAGER: &str = "the manager reads everything under its own user name";
/// `cloud` has one, and asserts that nothing is refused to it.
const OF_CLOUD: &str = "only the cloud controller manager uses it, and it does not run here";
/// `node_behaviour` has such nodes.
const OF_SINGLE_NODES: &str = "only a process with the identity of one node uses it, and none runs here";

/// Bindings whose permissions nothing here uses, with the reasons.
pub const UNUSED: &[(&str, &str)] = &[
    ("cluster-admin", "system:masters is allowed everything without a check; the binding is only for readers"),
    ("system:node", "the Node authorizer decides about nodes; the binding has no subjects"),
    ("system:kube-dns", "no DNS server answers names of Services here"),
    ("kube-system/system::extension-apiserver-authentication-reader", "components get the authorities by their flags"),
    ("kube-system/system::leader-locking-kube-controller-manager", "its cluster role has its Lease, too"),
    ("kube-system/system::leader-locking-kube-scheduler", "its cluster role has its Lease, too"),
    ("kube-system/system:controller:bootstrap-signer", AS_MANAGER),
    ("kube-system/system:controller:cloud-provider", "the simulated cloud has no configuration"),
    ("kube-system/system:orrery:node", OF_SINGLE_NODES),
    ("system:orrery:node", OF_SINGLE_NODES),
    ("system:controller:service-controller", OF_CLOUD),
    ("system:controller:route-controller", OF_CLOUD),
    ("system:orrery:cloud-controller-manager", OF_CLOUD),
    ("kube-system/system:orrery:cloud-controller-manager", OF_CLOUD),
    ("kube-system/system:orrery:simulated-machine", OF_CLOUD),
    ("system:controller:device-taint-eviction-controller", "no device here has a taint"),
    ("system:controller:ephemeral-volume-controller", NOTHING_TO_DO),
    ("system:controller:expand-controller", NOTHING_TO_DO),
    ("system:controller:legacy-service-account-token-cleaner", "no token here is a year old"),
    ("system:controller:pv-protection-controller", NOTHING_TO_DO),
    ("system:controller:pvc-protection-controller", NOTHING_TO_DO),
    ("system:controller:selinux-warning-controller", NO_CONTROLLER),
    ("system:controller:service-ca-cert-publisher", NO_CONTROLLER),
    ("system:controller:volumeattributesclass-protection-controller", NOTHING_TO_DO),
    ("system:orrery:volume-provisioner", NOTHING_TO_DO),
];
