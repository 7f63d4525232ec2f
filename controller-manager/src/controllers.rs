//! The table of controllers: what each is called, whose name it writes under, what wakes it and how it starts.
//!
//! Corresponds to NewControllerDescriptors in cmd/kube-controller-manager/app/controllermanager.go.

use crate::bootstrap::{signer, token_cleaner};
use crate::certificates::{approving, cleaner, signing};
use crate::context::{Context, Running};
use crate::{
    clusterrole_aggregation, cronjob, deployment, disruption, endpoints, endpointslice, endpointslicemirroring,
    garbage_collector, job, namespace, node_ipam, node_lifecycle, pod_gc, replicaset, resource_quota,
    root_ca_publisher, serviceaccount, serviceaccount_token, taint_eviction, ttl_after_finished,
    validatingadmissionpolicy_status,
};

pub struct Controller {
    /// As `--controllers` names it.
    pub name: &'static str,
    /// Names that older releases used.
    pub aliases: &'static [&'static str],
    /// Below `kube-system`: the identity of its writes, to which the bootstrap roles are bound.
    pub service_account: &'static str,
    /// The resources whose changes wake it.
    pub triggers: &'static [&'static str],
    pub on_by_default: bool,
    /// Registers with the informers at once; they are started before the answer is awaited.
    pub start: fn(&Context) -> Running,
}

/// In the order in which they start.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "serviceaccount-token-controller",
        aliases: &["serviceaccount-token"],
        service_account: "",
        triggers: &["secrets", "serviceaccounts"],
        on_by_default: true,
        start: serviceaccount_token::start,
    },
    Controller {
        name: "serviceaccount-controller",
        aliases: &["serviceaccount"],
        service_account: "service-account-controller",
        triggers: &["namespaces", "serviceaccounts"],
        on_by_default: true,
        start: serviceaccount::start,
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        aliases: &["root-ca-cert-publisher"],
        service_account: "root-ca-cert-publisher",
        triggers: &["namespaces", "configmaps"],
        on_by_default: true,
        start: root_ca_publisher::start,
    },
    Controller {
        name: "namespace-controller",
        aliases: &["namespace"],
        service_account: "namespace-controller",
        triggers: &["namespaces"],
        on_by_default: true,
        start: namespace::controller::start,
    },
    Controller {
        name: "garbage-collector-controller",
        aliases: &["garbagecollector"],
        service_account: "generic-garbage-collector",
        triggers: &["every resource that can be listed, watched and deleted"],
        on_by_default: true,
        start: garbage_collector::controller::start,
    },
    Controller {
        name: "resourcequota-controller",
        aliases: &["resourcequota"],
        service_account: "resourcequota-controller",
        triggers: &["resourcequotas", "every resource that a quota limits"],
        on_by_default: true,
        start: resource_quota::controller::start,
    },
    Controller {
        name: "endpoints-controller",
        aliases: &["endpoint"],
        service_account: "endpoint-controller",
        triggers: &["services", "endpoints", "pods"],
        on_by_default: true,
        start: endpoints::controller::start,
    },
    Controller {
        name: "endpointslice-controller",
        aliases: &["endpointslice"],
        service_account: "endpointslice-controller",
        triggers: &["services", "endpointslices", "pods", "nodes"],
        on_by_default: true,
        start: endpointslice::controller::start,
    },
    Controller {
        name: "endpointslice-mirroring-controller",
        aliases: &["endpointslicemirroring"],
        service_account: "endpointslicemirroring-controller",
        triggers: &["services", "endpoints", "endpointslices"],
        on_by_default: true,
        start: endpointslicemirroring::controller::start,
    },
    Controller {
        name: "deployment-controller",
        aliases: &["deployment"],
        service_account: "deployment-controller",
        triggers: &["deployments", "replicasets", "pods"],
        on_by_default: true,
        start: deployment::controller::start,
    },
    Controller {
        name: "replicaset-controller",
        aliases: &["replicaset"],
        service_account: "replicaset-controller",
        triggers: &["replicasets", "pods"],
        on_by_default: true,
        start: replicaset::controller::start_replica_sets,
    },
    Controller {
        name: "replicationcontroller-controller",
        aliases: &["replicationcontroller"],
        service_account: "replication-controller",
        triggers: &["replicationcontrollers", "pods"],
        on_by_default: true,
        start: replicaset::controller::start_replication_controllers,
    },
    Controller {
        name: "node-ipam-controller",
        aliases: &["nodeipam"],
        service_account: "node-controller",
        triggers: &["nodes"],
        on_by_default: true,
        start: node_ipam::controller::start,
    },
    Controller {
        name: "node-lifecycle-controller",
        aliases: &["nodelifecycle"],
        service_account: "node-controller",
        triggers: &["nodes", "leases", "pods"],
        on_by_default: true,
        start: node_lifecycle::controller::start,
    },
    Controller {
        name: "taint-eviction-controller",
        aliases: &[],
        service_account: "node-controller",
        triggers: &["nodes", "pods"],
        on_by_default: true,
        start: taint_eviction::controller::start,
    },
    Controller {
        name: "pod-garbage-collector-controller",
        aliases: &["podgc"],
        service_account: "pod-garbage-collector",
        triggers: &["pods", "nodes"],
        on_by_default: true,
        start: pod_gc::controller::start,
    },
    Controller {
        name: "disruption-controller",
        aliases: &["disruption"],
        service_account: "disruption-controller",
        triggers: &[
            "poddisruptionbudgets",
            "pods",
            "deployments",
            "replicasets",
            "replicationcontrollers",
            "statefulsets",
        ],
        on_by_default: true,
        start: disruption::controller::start,
    },
    Controller {
        name: "clusterrole-aggregation-controller",
        aliases: &["clusterrole-aggregation"],
        service_account: "clusterrole-aggregation-controller",
        triggers: &["clusterroles"],
        on_by_default: true,
        start: clusterrole_aggregation::start,
    },
    Controller {
        name: "validatingadmissionpolicy-status-controller",
        aliases: &[],
        service_account: "validatingadmissionpolicy-status-controller",
        triggers: &["validatingadmissionpolicies"],
        on_by_default: true,
        start: validatingadmissionpolicy_status::controller::start,
    },
    Controller {
        name: "job-controller",
        aliases: &["job"],
        service_account: "job-controller",
        triggers: &["jobs", "pods"],
        on_by_default: true,
        start: job::controller::start,
    },
    Controller {
        name: "cronjob-controller",
        aliases: &["cronjob"],
        service_account: "cronjob-controller",
        triggers: &["cronjobs", "jobs"],
        on_by_default: true,
        start: cronjob::controller::start,
    },
    Controller {
        name: "ttl-after-finished-controller",
        aliases: &["ttl-after-finished"],
        service_account: "ttl-after-finished-controller",
        triggers: &["jobs"],
        on_by_default: true,
        start: ttl_after_finished::start,
    },
    Controller {
        name: "certificatesigningrequest-signing-controller",
        aliases: &["csrsigning"],
        service_account: "certificate-controller",
        triggers: &["certificatesigningrequests"],
        on_by_default: true,
        start: signing::start,
    },
    Controller {
        name: "certificatesigningrequest-approving-controller",
        aliases: &["csrapproving"],
        service_account: "certificate-controller",
        triggers: &["certificatesigningrequests"],
        on_by_default: true,
        start: approving::start,
    },
    Controller {
        name: "certificatesigningrequest-cleaner-controller",
        aliases: &["csrcleaner"],
        service_account: "certificate-controller",
        triggers: &["certificatesigningrequests"],
        on_by_default: true,
        start: cleaner::start,
    },
    Controller {
        name: "bootstrap-signer-controller",
        aliases: &["bootstrapsigner"],
        service_account: "bootstrap-signer",
        triggers: &["configmaps", "secrets"],
        on_by_default: false,
        start: signer::start,
    },
    Controller {
        name: "token-cleaner-controller",
        aliases: &["tokencleaner"],
        service_account: "token-cleaner",
        triggers: &["secrets"],
        on_by_default: false,
        start: token_cleaner::start,
    },
];

/// A name in `--controllers` that no controller has.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("--controllers: {0:?} is not in the list of known controllers")]
pub struct UnknownController(pub String);

/// The controllers of a table that `--controllers` asks for. A name that is listed decides, with a dash against the controller;
/// otherwise `*` starts those that are on by default.
pub fn selected(table: &'static [Controller], asked: &[String]) -> Result<Vec<&'static Controller>, UnknownController> {
    for name in asked.iter().filter(|name| *name != "*") {
        let bare = name.strip_prefix('-').unwrap_or(name);
        if !table.iter().any(|controller| controller.is_named(bare)) {
            return Err(UnknownController(bare.to_owned()));
        }
    }
    let has_star = asked.iter().any(|name| name == "*");
    let is_selected = |controller: &&Controller| {
        let decides = |name: &&String| controller.is_named(name.strip_prefix('-').unwrap_or(name));
        match asked.iter().find(decides) {
            Some(name) => !name.starts_with('-'),
            None => has_star && controller.on_by_default,
        }
    };
    Ok(table.iter().filter(is_selected).collect())
}

impl Controller {
    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(asked: &str) -> Result<Vec<&'static str>, UnknownController> {
        let asked: Vec<String> = asked.split(',').map(str::to_owned).collect();
        Ok(selected(CONTROLLERS, &asked)?.iter().map(|controller| controller.name).collect())
    }

    #[test]
    fn the_flag_adds_and_takes_away() {
        let all = names("*").unwrap();
        assert!(all.contains(&"deployment-controller"));
        assert_eq!(
            names("replicaset-controller,deployment").unwrap(),
            ["deployment-controller", "replicaset-controller"]
        );
        let without = names("*,-deployment-controller").unwrap();
        assert_eq!(without.len(), all.len() - 1);
        assert!(!without.contains(&"deployment-controller"));
        assert_eq!(names("-deployment").unwrap(), [] as [&str; 0]);
        assert_eq!(names("*,-nothing"), Err(UnknownController("nothing".to_owned())));
    }

    #[test]
    fn names_are_unique() {
        let names: Vec<&str> = CONTROLLERS
            .iter()
            .flat_map(|controller| controller.aliases.iter().copied().chain([controller.name]))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
