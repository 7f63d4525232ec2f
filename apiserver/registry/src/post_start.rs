//! Post-start hooks: what a server brings about by itself after its start, and what of it is done.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/hooks.go.

use parking_lot::Mutex;
use proto::resources::Catalogue;
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

impl Hook {
    /// The API group that brings the hook along; without that group there is no such hook.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::BootstrapRoles => Some("rbac.authorization.k8s.io"),
            Self::SystemPriorityClasses => Some("scheduling.k8s.io"),
            Self::FairnessConfigProducer => Some("flowcontrol.apiserver.k8s.io"),
            _ => None,
        }
    }
}

/// A condition of readiness beside the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// The objects that every cluster has are written.
    Bootstrapped,
    /// The definitions that were there at the start are served.
    CustomResourcesServed,
    /// There has been an APIService for every version that this server serves.
    ApiServicesRegistered,
}

/// The hooks of one server, and which of them and of the milestones are done.
#[derive(Debug)]
pub struct PostStartHooks {
    hooks: Vec<(Hook, &'static str)>,
    finished: Mutex<BTreeSet<Hook>>,
    reached: Mutex<BTreeSet<Milestone>>,
}

impl PostStartHooks {
    /// The hooks of a server that serves these APIs. Without priority and fairness nothing follows its configuration.
    pub fn of(served: &Catalogue, is_fair: bool) -> Self {
        let groups = served.groups();
        let is_served = |group| groups.iter().any(|known| known.group == group);
        let is_there =
            |hook: Hook| hook.group().is_none_or(is_served) && (is_fair || hook != Hook::FairnessConfigConsumer);
        let hooks = HOOKS.into_iter().filter(|(hook, _)| is_there(*hook)).collect();
        Self { hooks, finished: Mutex::default(), reached: Mutex::default() }
    }

    /// All of them by name, in the original's order.
    pub fn iter(&self) -> impl Iterator<Item = (Hook, &'static str)> {
        self.hooks.iter().copied()
    }

    pub fn finished(&self, hook: Hook) {
        self.finished.lock().insert(hook);
    }

    pub fn reach(&self, milestone: Milestone) {
        self.reached.lock().insert(milestone);
    }

    pub fn has_reached(&self, milestone: Milestone) -> bool {
        self.reached.lock().contains(&milestone)
    }

    /// The hooks that have not finished, by name, in the original's order.
    pub fn unfinished(&self) -> impl Iterator<Item = &'static str> {
        self.hooks.iter().filter(|(hook, _)| self.check(*hook).is_err()).map(|(_, name)| *name)
    }

    /// In the words of the original.
    pub fn check(&self, hook: Hook) -> Result<(), String> {
        if self.finished.lock().contains(&hook) { Ok(()) } else { Err("not finished".into()) }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn forget(&self, hook: Hook) {
        self.finished.lock().remove(&hook);
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn fall_back(&self, milestone: Milestone) {
        self.reached.lock().remove(&milestone);
    }
}
