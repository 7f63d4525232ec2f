//! Post-start hooks: the tasks that a server runs after its start, and which of them have finished.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/hooks.go.

use parking_lot::Mutex;
use proto::resources::Catalogue;
use std::collections::BTreeSet;

/// A post-start hook. Each is marked as finished in the one place that completes its task.
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

/// Every hook with its name in Kubernetes, in the order of Kubernetes.
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
    /// Returns the API group that the hook belongs to. A server that does not serve the group lacks the hook.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::BootstrapRoles => Some("rbac.authorization.k8s.io"),
            Self::SystemPriorityClasses => Some("scheduling.k8s.io"),
            Self::FairnessConfigProducer => Some("flowcontrol.apiserver.k8s.io"),
            _ => None,
        }
    }
}

/// A condition that a server must reach to be ready, beside the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// The objects that every cluster has are written.
    Bootstrapped,
    /// The custom resources whose definitions existed at the start are served.
    CustomResourcesServed,
    /// Every group version that this server serves has had its APIService.
    ApiServicesRegistered,
}

/// The hooks of one server, and the hooks and milestones that are done.
#[derive(Debug)]
pub struct PostStartHooks {
    hooks: Vec<(Hook, &'static str)>,
    finished: Mutex<BTreeSet<Hook>>,
    reached: Mutex<BTreeSet<Milestone>>,
}

impl PostStartHooks {
    /// Returns the hooks of a server that serves these APIs. `is_fair` says whether API Priority and Fairness is on.
    pub fn of(served: &Catalogue, is_fair: bool) -> Self {
        let groups = served.groups();
        let is_served = |group| groups.iter().any(|known| known.group == group);
        let has_hook =
            |hook: Hook| hook.group().is_none_or(is_served) && (is_fair || hook != Hook::FairnessConfigConsumer);
        let hooks = HOOKS.into_iter().filter(|(hook, _)| has_hook(*hook)).collect();
        Self { hooks, finished: Mutex::default(), reached: Mutex::default() }
    }

    /// Returns the hooks with their names, in the order of Kubernetes.
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

    /// Returns the names of the hooks that have not finished, in the order of Kubernetes.
    pub fn unfinished(&self) -> impl Iterator<Item = &'static str> {
        self.hooks.iter().filter(|(hook, _)| self.check(*hook).is_err()).map(|(_, name)| *name)
    }

    /// Returns an error, worded as in Kubernetes, if the hook has not finished.
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
