//! Cluster roles of the components, and of permissions that every user has.
//!
//! Corresponds to plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go. Rules read `verbs groups resources names`.

use super::{EVENTS, RoleRow};

/// The roles of components, and those of all authenticated or unauthenticated users.
pub const COMPONENTS: &[RoleRow] = &[
    (
        "system:auth-delegator",
        &["create authentication.k8s.io tokenreviews", "create authorization.k8s.io subjectaccessreviews"],
    ),
    (
        "system:basic-user",
        &[
            "create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews",
            "create authentication.k8s.io selfsubjectreviews",
        ],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &["create certificates.k8s.io certificatesigningrequests/nodeclient"],
    ),
    (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &["create certificates.k8s.io certificatesigningrequests/selfnodeclient"],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &["approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client"],
    ),
    (
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &["approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet"],
    ),
    (
        "system:certificates.k8s.io:kubelet-serving-approver",
        &["approve certificates.k8s.io signers kubernetes.io/kubelet-serving"],
    ),
    (
        "system:certificates.k8s.io:legacy-unknown-approver",
        &["approve certificates.k8s.io signers kubernetes.io/legacy-unknown"],
    ),
    (
        "system:discovery",
        &["get url /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/"],
    ),
    ("system:heapster", &["get,list,watch core events,namespaces,nodes,pods", "get,list,watch extensions deployments"]),
    ("system:kube-aggregator", &["get,list,watch core endpoints,services"]),
    (
        "system:kube-controller-manager",
        &[
            EVENTS,
            "create coordination.k8s.io leases",
            "get,update coordination.k8s.io leases kube-controller-manager",
            "create core secrets,serviceaccounts",
            "delete core secrets",
            "get core configmaps,namespaces,secrets,serviceaccounts",
            "update core secrets,serviceaccounts",
            "create authentication.k8s.io tokenreviews",
            "create authorization.k8s.io subjectaccessreviews",
            "list,watch * *",
            "create core serviceaccounts/token",
        ],
    ),
    ("system:kube-dns", &["list,watch core endpoints,services"]),
    (
        "system:kube-scheduler",
        &[
            EVENTS,
            "create coordination.k8s.io leases",
            "get,list,update,watch coordination.k8s.io leases kube-scheduler",
            "create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leasecandidates",
            "get,list,watch core nodes",
            "delete,get,list,watch core pods",
            "create core bindings,pods/binding",
            "patch,update core pods/status",
            "get,list,watch core replicationcontrollers,services",
            "get,list,watch apps,extensions replicasets",
            "get,list,watch apps statefulsets",
            "get,list,watch policy poddisruptionbudgets",
            "get,list,watch core persistentvolumeclaims,persistentvolumes",
            "create authentication.k8s.io tokenreviews",
            "create authorization.k8s.io subjectaccessreviews",
            "get,list,watch storage.k8s.io csinodes",
            "get,list,watch storage.k8s.io volumeattachments",
            "get,list,watch core namespaces",
            "get,list,watch storage.k8s.io csidrivers",
            "get,list,watch storage.k8s.io csistoragecapacities",
            "get,list,watch resource.k8s.io deviceclasses",
            "get,list,patch,update,watch resource.k8s.io resourceclaims",
            "get,list,patch,update,watch resource.k8s.io resourceclaims/status",
            "update core pods/finalizers",
            "get,list,watch resource.k8s.io resourceslices",
            "create,delete resource.k8s.io resourceclaims",
            "patch,update resource.k8s.io resourceclaims/binding",
        ],
    ),
    (
        "system:kubelet-api-admin",
        &[
            "get,list,watch core nodes",
            "proxy core nodes",
            "* core nodes/log,nodes/metrics,nodes/proxy,nodes/stats",
            "* core nodes/configz,nodes/healthz,nodes/pods",
        ],
    ),
    (
        "system:monitoring",
        &[
            "get url /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz",
            "get core nodes/metrics",
        ],
    ),
    (
        "system:node",
        &[
            "create authentication.k8s.io tokenreviews",
            "create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews",
            "get,list,watch core services",
            "create,get,list,watch core nodes",
            "patch,update core nodes/status",
            "patch,update core nodes",
            EVENTS,
            "get,list,watch core pods",
            "create,delete core pods",
            "patch,update core pods/status",
            "create core pods/eviction",
            "get,list,watch core configmaps,secrets",
            "get core persistentvolumeclaims,persistentvolumes",
            "get core endpoints",
            "create,get,list,watch certificates.k8s.io certificatesigningrequests",
            "create,delete,get,patch,update coordination.k8s.io leases",
            "get storage.k8s.io volumeattachments",
            "create core serviceaccounts/token",
            "get,patch,update core persistentvolumeclaims/status",
            "get,list,watch storage.k8s.io csidrivers",
            "create,delete,get,patch,update storage.k8s.io csinodes",
            "get,list,watch node.k8s.io runtimeclasses",
            "get resource.k8s.io resourceclaims",
            "deletecollection resource.k8s.io resourceslices",
            "get core serviceaccounts",
        ],
    ),
    ("system:node-bootstrapper", &["create,get,list,watch certificates.k8s.io certificatesigningrequests"]),
    ("system:node-problem-detector", &["get core nodes", "patch core nodes/status", EVENTS]),
    (
        "system:node-proxier",
        &[
            "list,watch core endpoints,services",
            "get,list,watch core nodes",
            EVENTS,
            "list,watch networking.k8s.io servicecidrs",
            "list,watch discovery.k8s.io endpointslices",
        ],
    ),
    (
        "system:persistent-volume-provisioner",
        &[
            "create,delete,get,list,watch core persistentvolumes",
            "get,list,update,watch core persistentvolumeclaims",
            "get,list,watch storage.k8s.io storageclasses",
            "watch core events",
            EVENTS,
        ],
    ),
    ("system:public-info-viewer", &["get url /healthz,/livez,/readyz,/version,/version/"]),
    (
        "system:service-account-issuer-discovery",
        &[
            "get url /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/",
        ],
    ),
    (
        "system:volume-scheduler",
        &[
            "get,list,patch,update,watch core persistentvolumes",
            "get,list,watch storage.k8s.io storageclasses",
            "get,list,patch,update,watch core persistentvolumeclaims",
        ],
    ),
    // Deviation: a simulated node with an identity of its own follows Stages, which say what happens to its pods and to its
    // Node. It may only read them, and they hold nothing secret. What else it follows lies in kube-system.
    ("system:orrery:node", &["list,watch kwok.x-k8s.io stages"]),
    // Deviation: the simulated storage system, which makes, resizes and deletes volumes, is part of the controller manager.
    (
        "system:orrery:volume-provisioner",
        &[
            "create,delete,list,update core persistentvolumes",
            "update core persistentvolumeclaims,persistentvolumeclaims/status",
            "create,update storage.k8s.io csistoragecapacities",
            EVENTS,
        ],
    ),
    // Deviation: the rights of a cloud controller manager are a provider's matter, and not the API server's. Here the provider is
    // simulated and belongs to Orrery. It writes as the ServiceAccounts of its controllers.
    (
        "system:orrery:cloud-controller-manager",
        &[
            "list,watch core nodes,services",
            "create authentication.k8s.io tokenreviews",
            "create authorization.k8s.io subjectaccessreviews",
        ],
    ),
    // Deviation: a process that simulates many nodes has an identity of its own. It watches nodes and pods, and
    // Services with their endpoints for the network of containers; it deletes the Nodes of machines that have left, as
    // a cloud controller does, and publishes ResourceSlices, as the drivers of devices do. All else it does as the node concerned, by constrained impersonation of arbitrary nodes;
    // the Node authorizer judges what a node may do.
    (
        "system:orrery:node-fleet",
        &[
            "list,watch core nodes,pods,services",
            "list,watch discovery.k8s.io endpointslices",
            "list,watch core configmaps orrery-behaviour,orrery-fleet",
            "delete core nodes",
            "create,delete,list,update resource.k8s.io resourceslices",
            "list,watch kwok.x-k8s.io stages",
            "create authentication.k8s.io tokenreviews",
            "create authorization.k8s.io subjectaccessreviews",
            "impersonate:arbitrary-node authentication.k8s.io nodes",
            "impersonate-on:arbitrary-node:create,impersonate-on:arbitrary-node:delete,impersonate-on:arbitrary-node:get,impersonate-on:arbitrary-node:patch,impersonate-on:arbitrary-node:update * *",
        ],
    ),
];
