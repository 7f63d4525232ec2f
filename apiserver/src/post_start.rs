//! Post-start hooks: what a server brings about by itself after its start, and what of it is done.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/hooks.go.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// One of them. Each is marked as finished in the one place where that very thing has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    AdmissionInitializer,
    StartInformers,
    FairnessConfigConsumer,
    ApiextensionsInformers,
    ApiextensionsControllers,
    CrdInformerSynced,
    SystemNamespaces,
    ClusterAuthenticationInfo,
    StorageReadiness,
    LegacyTokenTracking,
    ServiceIpRepair,
    BootstrapRoles,
    SystemPriorityClasses,
    FairnessConfigProducer,
    BootstrapController,
    ServiceCidr,
    AggregatorInformers,
    LocalAvailability,
    RemoteAvailability,
    ApiServiceRegistration,
    ApiServiceFirstSync,
    Autoregistration,
}

/// All of them by the names of the original, in its order.
pub const HOOKS: [(Hook, &str); 22] = [
    (Hook::AdmissionInitializer, "poststarthook/start-apiserver-admission-initializer"),
    (Hook::StartInformers, "poststarthook/generic-apiserver-start-informers"),
    (Hook::FairnessConfigConsumer, "poststarthook/priority-and-fairness-config-consumer"),
    (Hook::ApiextensionsInformers, "poststarthook/start-apiextensions-informers"),
    (Hook::ApiextensionsControllers, "poststarthook/start-apiextensions-controllers"),
    (Hook::CrdInformerSynced, "poststarthook/crd-informer-synced"),
    (Hook::SystemNamespaces, "poststarthook/start-system-namespaces-controller"),
    (Hook::ClusterAuthenticationInfo, "poststarthook/start-cluster-authentication-info-controller"),
    (Hook::StorageReadiness, "poststarthook/storage-readiness"),
    (Hook::LegacyTokenTracking, "poststarthook/start-legacy-token-tracking-controller"),
    (Hook::ServiceIpRepair, "poststarthook/start-service-ip-repair-controllers"),
    (Hook::BootstrapRoles, "poststarthook/rbac/bootstrap-roles"),
    (Hook::SystemPriorityClasses, "poststarthook/scheduling/bootstrap-system-priority-classes"),
    (Hook::FairnessConfigProducer, "poststarthook/priority-and-fairness-config-producer"),
    (Hook::BootstrapController, "poststarthook/bootstrap-controller"),
    (Hook::ServiceCidr, "poststarthook/start-kubernetes-service-cidr-controller"),
    (Hook::AggregatorInformers, "poststarthook/start-kube-aggregator-informers"),
    (Hook::LocalAvailability, "poststarthook/apiservice-status-local-available-controller"),
    (Hook::RemoteAvailability, "poststarthook/apiservice-status-remote-available-controller"),
    (Hook::ApiServiceRegistration, "poststarthook/apiservice-registration-controller"),
    (Hook::ApiServiceFirstSync, "poststarthook/apiservice-wait-for-first-sync"),
    (Hook::Autoregistration, "poststarthook/kube-apiserver-autoregistration"),
];

/// Those of one server that have finished.
#[derive(Debug, Default)]
pub struct PostStartHooks(Mutex<BTreeSet<Hook>>);

impl PostStartHooks {
    pub fn finished(&self, hook: Hook) {
        self.0.lock().insert(hook);
    }

    /// In the words of the original.
    pub fn check(&self, hook: Hook) -> Result<(), String> {
        if self.0.lock().contains(&hook) { Ok(()) } else { Err("not finished".into()) }
    }

    #[cfg(test)]
    pub fn forget(&self, hook: Hook) {
        self.0.lock().remove(&hook);
    }
}
