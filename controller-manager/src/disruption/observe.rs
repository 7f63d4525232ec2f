//! The pods that a budget covers, and how many of them their controllers want.
//!
//! Corresponds to getExpectedScale and the finders in pkg/controller/disruption/disruption.go.
//! Deviation: the scale of controllers other than Kubernetes' own workloads is not asked for; a budget in percent or
//! with maxUnavailable allows no disruption of their pods.

use crate::controller_ref::controller_of;
use client::Lister;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use proto::kinds::api::core::v1::{Pod, ReplicationController};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::metav1::OwnerReference;
use proto::meta::label_selector;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub budget: Arc<PodDisruptionBudget>,
    pub pods: Vec<Arc<Pod>>,
    /// The pods that all controllers of these pods want together, or why that is not known.
    pub wanted: Result<i32, String>,
}

#[derive(Clone)]
pub struct Listers {
    pub budgets: Lister<PodDisruptionBudget>,
    pub pods: Lister<Pod>,
    pub replication_controllers: Lister<ReplicationController>,
    pub replica_sets: Lister<ReplicaSet>,
    pub deployments: Lister<Deployment>,
    pub stateful_sets: Lister<StatefulSet>,
}

/// Nothing if the budget is gone.
pub fn observe(key: &str, listers: &Listers) -> Option<Observed> {
    let budget = listers.budgets.by_key(key)?;
    let pods = pods_of(&budget, &listers.pods);
    let wanted = wanted(&pods, listers);
    Some(Observed { budget, pods, wanted })
}

pub fn pods_of(budget: &PodDisruptionBudget, pods: &Lister<Pod>) -> Vec<Arc<Pod>> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = label_selector::from_typed(selector);
    selector.map(|selector| pods.select(budget.namespace(), &selector)).unwrap_or_default()
}

/// Every controller counts once. Pods without a controller do not count.
fn wanted(pods: &[Arc<Pod>], listers: &Listers) -> Result<i32, String> {
    let mut by_controller: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&**pod) else { continue };
        let (uid, count) = scale_of(pod.namespace(), owner, listers)
            .ok_or_else(|| format!("found no controllers for pod {:?}", pod.name()))?;
        by_controller.insert(uid, count);
    }
    Ok(by_controller.values().sum())
}

/// The uid and the size of a pod's controller; a replica set of a deployment counts as the deployment.
fn scale_of(namespace: &str, owner: &OwnerReference, listers: &Listers) -> Option<(String, i32)> {
    fn checked<K: Kind>(found: Option<Arc<K>>, owner: &OwnerReference) -> Option<Arc<K>> {
        found.filter(|found| found.uid() == owner.uid)
    }
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let replica_set = checked(listers.replica_sets.get(namespace, &owner.name), owner)?;
            match controller_of(&*replica_set).filter(|above| above.kind == "Deployment") {
                Some(above) => {
                    let deployment = checked(listers.deployments.get(namespace, &above.name), above)?;
                    Some((above.uid.clone(), deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
                }
                None => {
                    Some((owner.uid.clone(), replica_set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
                }
            }
        }
        "ReplicationController" => {
            let found = checked(listers.replication_controllers.get(namespace, &owner.name), owner)?;
            Some((owner.uid.clone(), found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        "StatefulSet" => {
            let found = checked(listers.stateful_sets.get(namespace, &owner.name), owner)?;
            Some((owner.uid.clone(), found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proto::kinds::metav1::LabelSelector;

    fn pod(name: &str, kind: &str, owner: &str) -> Pod {
        let mut pod = fixture::pod(name);
        pod.metadata.labels = Some(fixture::labels(&[("app", "web")]));
        if !kind.is_empty() {
            pod.metadata.owner_references = Some(vec![fixture::owner("apps/v1", kind, owner, true)]);
        }
        pod
    }

    fn wanted_of(pods: Vec<Pod>) -> Result<i32, String> {
        let mut budget = PodDisruptionBudget { metadata: fixture::meta("web"), ..PodDisruptionBudget::default() };
        let selector =
            LabelSelector { match_labels: Some(fixture::labels(&[("app", "web")])), ..LabelSelector::default() };
        budget.spec.get_or_insert_default().selector = Some(selector);
        let mut lone = fixture::replica_set("lone", "nginx:1", 4);
        lone.metadata.owner_references = None;
        let listers = Listers {
            budgets: Lister::of([budget]),
            pods: Lister::of(pods),
            replication_controllers: Lister::of([]),
            replica_sets: Lister::of([
                fixture::replica_set("web-a", "nginx:1", 2),
                fixture::replica_set("web-b", "nginx:1", 1),
                lone,
            ]),
            deployments: Lister::of([fixture::deployment(10, "1", "1")]),
            stateful_sets: Lister::of([]),
        };
        observe("default/web", &listers).unwrap().wanted
    }

    #[test]
    fn every_controller_counts_once() {
        assert_eq!(wanted_of(vec![]), Ok(0));
        let of_deployment = vec![pod("1", "ReplicaSet", "web-a"), pod("2", "ReplicaSet", "web-b")];
        assert_eq!(wanted_of(of_deployment.clone()), Ok(10), "both replica sets are the deployment's");
        let and_lone = [of_deployment, vec![pod("3", "ReplicaSet", "lone"), pod("4", "", "")]].concat();
        assert_eq!(wanted_of(and_lone), Ok(14));
        assert!(wanted_of(vec![pod("5", "Database", "pg")]).is_err());
    }
}
