//! User-facing cluster roles: cluster-admin, and the parts that are aggregated into admin, edit and view.
//!
//! Corresponds to plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go. Rules read `verbs groups resources names`.

use super::RoleRow;

/// The role cluster-admin and the parts of the aggregated roles.
pub const USER_FACING: &[RoleRow] = &[
    ("cluster-admin", &["* * *", "* url *"]),
    (
        "system:aggregate-to-admin",
        &[
            "create authorization.k8s.io localsubjectaccessreviews",
            "create,delete,deletecollection,get,list,patch,update,watch rbac.authorization.k8s.io rolebindings,roles",
        ],
    ),
    (
        "system:aggregate-to-edit",
        &[
            "get,list,watch core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy",
            "impersonate core serviceaccounts",
            "create,delete,deletecollection,patch,update core pods,pods/attach,pods/exec,pods/portforward,pods/proxy",
            "create core pods/eviction",
            "create,delete,deletecollection,patch,update core configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy",
            "create core serviceaccounts/token",
            "create,delete,deletecollection,patch,update core,events.k8s.io events",
            "create,delete,deletecollection,patch,update apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale",
            "create,delete,deletecollection,patch,update autoscaling horizontalpodautoscalers",
            "create,delete,deletecollection,patch,update batch cronjobs,jobs",
            "create,delete,deletecollection,patch,update extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale,replicationcontrollers/scale",
            "create,delete,deletecollection,patch,update policy poddisruptionbudgets",
            "create,delete,deletecollection,patch,update networking.k8s.io ingresses,networkpolicies",
            "create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leases",
            "create,delete,deletecollection,patch,update resource.k8s.io resourceclaims,resourceclaimtemplates",
        ],
    ),
    (
        "system:aggregate-to-view",
        &[
            "get,list,watch core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status",
            "get,list,watch core bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status",
            "get,list,watch core namespaces",
            "get,list,watch core,events.k8s.io events",
            "get,list,watch discovery.k8s.io endpointslices",
            "get,list,watch apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status",
            "get,list,watch autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status",
            "get,list,watch batch cronjobs,cronjobs/status,jobs,jobs/status",
            "get,list,watch extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,replicationcontrollers/scale",
            "get,list,watch policy poddisruptionbudgets,poddisruptionbudgets/status",
            "get,list,watch networking.k8s.io ingresses,ingresses/status,networkpolicies",
            "get,list,watch resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates",
        ],
    ),
];
