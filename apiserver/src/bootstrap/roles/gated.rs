//! Rules that roles have only where a feature gate is on, and roles that exist only then.
//!
//! Corresponds to the conditions in plugin/pkg/auth/authorizer/rbac/bootstrappolicy. Rules read `verbs groups resources names`.

use super::EVENTS;
use strategy::gates::Gates;

/// A gate, a cluster role, and rules of the role.
type GatedRow = (&'static str, &'static str, &'static [&'static str]);

const ROWS: &[GatedRow] = &[
    ("ClusterTrustBundle", "system:node", &["get,list,watch certificates.k8s.io clustertrustbundles"]),
    (
        "ClusterTrustBundle",
        "system:cluster-trust-bundle-discovery",
        &["get,list,watch certificates.k8s.io clustertrustbundles"],
    ),
    (
        "ClusterTrustBundle",
        "system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
        &[
            "attest certificates.k8s.io signers kubernetes.io/kube-apiserver-serving",
            "create,delete,list,update,watch certificates.k8s.io clustertrustbundles",
            EVENTS,
        ],
    ),
    ("PodCertificateRequest", "system:node", &["create,get,list,watch certificates.k8s.io podcertificaterequests"]),
    (
        "PodCertificateRequest",
        "system:controller:podcertificaterequestcleaner",
        &["delete,get,list,watch certificates.k8s.io podcertificaterequests"],
    ),
    (
        "DRADeviceTaintRules",
        "system:controller:device-taint-eviction-controller",
        &["get,list,watch resource.k8s.io devicetaintrules", "patch,update resource.k8s.io devicetaintrules/status"],
    ),
    ("DRADeviceTaintRules", "system:kube-scheduler", &["get,list,watch resource.k8s.io devicetaintrules"]),
    (
        "GenericWorkload",
        "system:kube-scheduler",
        &["get,list,watch scheduling.k8s.io podgroups,workloads", "patch,update scheduling.k8s.io podgroups/status"],
    ),
    (
        "GenericWorkload",
        "system:controller:podgroup-protection-controller",
        &["get,list,update,watch scheduling.k8s.io podgroups", "get,list,watch core pods"],
    ),
    (
        "StorageVersionMigrator",
        "system:controller:storage-version-migrator-controller",
        &["list,patch * *", "update storagemigration.k8s.io storageversionmigrations/status"],
    ),
    (
        "StorageVersionAPI",
        "system:controller:storage-version-garbage-collector",
        &[
            "get,list,watch coordination.k8s.io leases",
            "delete,get,list,watch internal.apiserver.k8s.io storageversions",
            "get,update internal.apiserver.k8s.io storageversions/status",
        ],
    ),
];

/// Adds the rules and roles of the gates that are on.
pub fn extend(roles: &mut Vec<(String, Vec<&'static str>)>, gates: &Gates) {
    for (_, name, rules) in ROWS.iter().filter(|(gate, ..)| gates.is_on(gate)) {
        match roles.iter_mut().find(|(role, _)| role == name) {
            Some((_, known)) => known.extend(*rules),
            None => roles.push(((*name).to_owned(), rules.to_vec())),
        }
    }
}

/// Returns the names of the gates in the table.
#[cfg(test)]
pub fn gates() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(gate, ..)| *gate)
}
