//! Returns the default selector of a pod: that of its Services and of its controller.
//!
//! Corresponds to helper.DefaultSelector of pkg/scheduler/framework/plugins/helper.

use client::Lister;
use proto::kinds::api::apps::v1::{ReplicaSet, StatefulSet};
use proto::kinds::api::core::v1::{ReplicationController, Service};
use proto::meta::label_selector;
use proto::meta::selector::{Requirement, Selector};
use scheduling_framework::pod_info::PodInfo;

/// The caches of Services and workload controllers.
#[derive(Clone)]
pub struct Workloads {
    pub services: Lister<Service>,
    pub replication_controllers: Lister<ReplicationController>,
    pub replica_sets: Lister<ReplicaSet>,
    pub stateful_sets: Lister<StatefulSet>,
}

impl Workloads {
    /// Returns the pod's selector; empty, which selects everything, for a pod without Services and controller.
    pub fn selector_of(&self, pod: &PodInfo) -> Selector {
        let mut requirements: Vec<Requirement> = Vec::new();
        let mut add = |selector: Selector| {
            for requirement in selector.requirements() {
                if !requirements.contains(requirement) {
                    requirements.push(requirement.clone());
                }
            }
        };
        for service in self.services.in_namespace(pod.namespace()) {
            let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { continue };
            // Most Services select other pods, so the labels are compared before anything is made.
            let matches = selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
            if !selector.is_empty() && matches {
                add(Selector::from_map(selector.clone()));
            }
        }
        if let Some(selector) = self.owners_selector(pod) {
            add(selector);
        }
        Selector::new(requirements)
    }

    fn owners_selector(&self, pod: &PodInfo) -> Option<Selector> {
        let owners = pod.pod.metadata.owner_references.as_ref()?;
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        let typed = |selector: &_| label_selector::from_typed(Some(selector)).ok();
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let found = self.replica_sets.get(pod.namespace(), &owner.name)?;
                typed(&found.spec.as_ref()?.selector)
            }
            "StatefulSet" => {
                let found = self.stateful_sets.get(pod.namespace(), &owner.name)?;
                typed(&found.spec.as_ref()?.selector)
            }
            "ReplicationController" => {
                let found = self.replication_controllers.get(pod.namespace(), &owner.name)?;
                Some(Selector::from_map(found.spec.as_ref()?.selector.clone()?))
            }
            _ => None,
        }
    }
}
