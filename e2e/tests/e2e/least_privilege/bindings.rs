//! The table of bindings with the features that break without each, and of bindings that Orrery does not need, with the
//! reasons.

/// A binding that is needed.
pub struct Needed {
    /// `name`, or `namespace/name`.
    pub binding: &'static str,
    /// Who is refused without it. Others ask about somebody's rights, so that nobody is refused anything.
    pub is_refused: Refused,
    /// The features that are not there without it.
    pub breaks: &'static [&'static str],
}

/// Whose requests are answered with 403.
pub enum Refused {
    /// The binding's subjects.
    Subjects,
    /// Nobody: the rights that it gives are asked about in reviews.
    Nobody,
}

use Refused::{Nobody, Subjects};

const fn needed(binding: &'static str, is_refused: Refused, breaks: &'static [&'static str]) -> Needed {
    Needed { binding, is_refused, breaks }
}

/// Where the manager reads nothing, no controller does anything. Nodes stay as they come, with the taint of new ones
/// and without a range of addresses; a pod that is bound to one waits for the ConfigMap `kube-root-ca.crt`.
const WITHOUT_CONTROLLERS: &[&str] = &[
    "Endpoints are mirrored",
    "a CronJob makes Jobs",
    "a Deployment makes a ReplicaSet",
    "a Job makes pods",
    "a ReplicaSet makes pods",
    "a ReplicationController makes pods",
    "a Secret is filled with a token",
    "a Service has EndpointSlices",
    "a Service has Endpoints",
    "a disruption budget is counted",
    "a finished Job is cleaned up",
    "a namespace ends",
    "a namespace is given an account",
    "a namespace is told whom to trust",
    "a node is given a range of addresses",
    "a node renews its certificate",
    "a pod is evicted from a silent node",
    "a pod is given a node",
    "a pod runs",
    "a pod without a node is deleted",
    "a policy is checked",
    "a quota is counted",
    "a role is aggregated",
    "a silent node is tainted",
    "a token that has ended is deleted",
    "an invited node joins",
    "cluster-info is signed",
    "the controller manager shows its pages",
    "what has no owner is deleted",
];

/// Where no node says anything, all are silent, and then nobody is evicted: it may be the controllers who hear nothing.
const WITHOUT_NODES: &[&str] = &[
    "a Service has EndpointSlices",
    "a Service has Endpoints",
    "a disruption budget is counted",
    "a finished Job is cleaned up",
    "a node renews its certificate",
    "a node renews its lease",
    "a pod is evicted from a silent node",
    "a pod is given a node",
    "a pod runs",
    "a silent node is tainted",
    "an invited node joins",
    "nodes' agents show their pages",
    "the API server reads logs of nodes' agents",
];

/// The collector, the quotas and who checks policies have to find out first what there is. Who cleans up a Job leaves
/// its pods to the collector.
const WITHOUT_DISCOVERY: &[&str] = &[
    "a finished Job is cleaned up",
    "a namespace ends",
    "a policy is checked",
    "a quota is counted",
    "a user finds out what there is",
    "what has no owner is deleted",
];

/// New nodes keep their taint, and choose the addresses of pods themselves.
const WITHOUT_NODE_CONTROLLERS: &[&str] = &[
    "a finished Job is cleaned up",
    "a node is given a range of addresses",
    "a pod is evicted from a silent node",
    "a pod is given a node",
    "a silent node is tainted",
];

pub const NEEDED: &[Needed] = &[
    // Components.
    needed("system:kube-controller-manager", Subjects, WITHOUT_CONTROLLERS),
    needed(
        "system:kube-scheduler",
        Subjects,
        &["a finished Job is cleaned up", "a pod is given a node", "the scheduler shows its pages"],
    ),
    needed("system:volume-scheduler", Subjects, &["a finished Job is cleaned up", "a pod is given a node"]),
    needed("system:orrery:node-fleet", Subjects, WITHOUT_NODES),
    needed("system:node-proxier", Subjects, &["proxies know a Service"]),
    needed("system:auth-delegator", Subjects, &["proxies show their pages"]),
    needed("system:kubelet-api-admin", Nobody, &["the API server reads logs of nodes' agents"]),
    // Everybody.
    needed("system:basic-user", Subjects, &["a user finds out who she is"]),
    needed("system:discovery", Subjects, WITHOUT_DISCOVERY),
    needed("system:public-info-viewer", Subjects, &["anybody reads the version"]),
    needed("system:monitoring", Subjects, &["metrics are gathered"]),
    needed("system:service-account-issuer-discovery", Subjects, &["a pod finds the issuer of its token"]),
    // Controllers.
    needed("system:controller:node-controller", Subjects, WITHOUT_NODE_CONTROLLERS),
    needed("system:controller:pod-garbage-collector", Subjects, &["a pod without a node is deleted"]),
    needed("system:controller:deployment-controller", Subjects, &["a Deployment makes a ReplicaSet"]),
    needed("system:controller:replicaset-controller", Subjects, &["a ReplicaSet makes pods"]),
    needed("system:controller:replication-controller", Subjects, &["a ReplicationController makes pods"]),
    needed("system:controller:job-controller", Subjects, &["a Job makes pods", "a finished Job is cleaned up"]),
    needed("system:controller:cronjob-controller", Subjects, &["a CronJob makes Jobs"]),
    needed("system:controller:ttl-after-finished-controller", Subjects, &["a finished Job is cleaned up"]),
    needed("system:controller:disruption-controller", Subjects, &["a disruption budget is counted"]),
    needed("system:controller:endpoint-controller", Subjects, &["a Service has Endpoints"]),
    needed("system:controller:endpointslice-controller", Subjects, &["a Service has EndpointSlices"]),
    needed("system:controller:endpointslicemirroring-controller", Subjects, &["Endpoints are mirrored"]),
    needed("system:controller:service-account-controller", Subjects, &["a namespace is given an account"]),
    // Every pod with a token of its account mounts the ConfigMap beside it.
    needed(
        "system:controller:root-ca-cert-publisher",
        Subjects,
        &[
            "a Service has EndpointSlices",
            "a Service has Endpoints",
            "a finished Job is cleaned up",
            "a namespace is told whom to trust",
            "a pod runs",
        ],
    ),
    needed("system:controller:namespace-controller", Subjects, &["a namespace ends"]),
    needed(
        "system:controller:generic-garbage-collector",
        Subjects,
        &["a finished Job is cleaned up", "what has no owner is deleted"],
    ),
    needed("system:controller:resourcequota-controller", Subjects, &["a quota is counted"]),
    needed("system:controller:clusterrole-aggregation-controller", Subjects, &["a role is aggregated"]),
    needed("system:controller:validatingadmissionpolicy-status-controller", Subjects, &["a policy is checked"]),
    // Certificates and invitations.
    needed(
        "system:controller:certificate-controller",
        Subjects,
        &["an invited node joins", "a node renews its certificate"],
    ),
    needed("kube-public/system:controller:bootstrap-signer", Subjects, &["cluster-info is signed"]),
    needed("kube-system/system:controller:token-cleaner", Subjects, &["a token that has ended is deleted"]),
    needed("invited-ask", Subjects, &["an invited node joins", "a node renews its certificate"]),
    needed("invited-are-approved", Nobody, &["an invited node joins", "a node renews its certificate"]),
    needed("nodes-are-approved", Nobody, &["a node renews its certificate"]),
];

const NO_CONTROLLER: &str = "there is no such controller";
const AS_MANAGER: &str = "everything is read under the manager's own name";

/// With the reason why nothing here asks for what they allow.
pub const IDLE: &[(&str, &str)] = &[
    ("cluster-admin", "system:masters is not asked about; the binding is there to be read"),
    ("system:node", "nodes are judged by the Node authorizer; nobody is bound to it"),
    ("system:kube-dns", "names of Services are answered by nobody here"),
    (
        "kube-system/system::extension-apiserver-authentication-reader",
        "components are told of the authorities by their flags",
    ),
    ("kube-system/system::leader-locking-kube-controller-manager", "its cluster role has its Lease, too"),
    ("kube-system/system::leader-locking-kube-scheduler", "its cluster role has its Lease, too"),
    ("kube-system/system:controller:bootstrap-signer", AS_MANAGER),
    ("kube-system/system:controller:cloud-provider", "the simulated cloud has no configuration"),
    ("system:controller:service-controller", "it is the cloud's manager's, which a cluster without a cloud has not"),
    ("system:controller:route-controller", NO_CONTROLLER),
    ("system:controller:attachdetach-controller", NO_CONTROLLER),
    ("system:controller:daemon-set-controller", NO_CONTROLLER),
    ("system:controller:device-taint-eviction-controller", NO_CONTROLLER),
    ("system:controller:ephemeral-volume-controller", NO_CONTROLLER),
    ("system:controller:expand-controller", NO_CONTROLLER),
    ("system:controller:horizontal-pod-autoscaler", NO_CONTROLLER),
    ("system:controller:legacy-service-account-token-cleaner", NO_CONTROLLER),
    ("system:controller:persistent-volume-binder", NO_CONTROLLER),
    ("system:controller:pv-protection-controller", NO_CONTROLLER),
    ("system:controller:pvc-protection-controller", NO_CONTROLLER),
    ("system:controller:resource-claim-controller", NO_CONTROLLER),
    ("system:controller:selinux-warning-controller", NO_CONTROLLER),
    ("system:controller:service-ca-cert-publisher", NO_CONTROLLER),
    ("system:controller:service-cidrs-controller", NO_CONTROLLER),
    ("system:controller:statefulset-controller", NO_CONTROLLER),
    ("system:controller:ttl-controller", NO_CONTROLLER),
    ("system:controller:volumeattributesclass-protection-controller", NO_CONTROLLER),
];
