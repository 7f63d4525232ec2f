//! `Observed`, the pods that a budget selects, and how many of them their controllers want.
//!
//! Corresponds to getExpectedScale and the finders in pkg/controller/disruption/disruption.go.

use client::{Client, Lister, ReconcileError};
use controller_base::controller_ref::controller_of;
use controller_base::discovery::discover;
use proto::Kind;
use proto::gvk::split_api_version;
use proto::kinds::IntOrString;
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
    pub scales: Scales,
}

/// The sizes of the controllers of a budget's pods. Each controller counts once.
#[derive(Debug, Default)]
pub struct Scales {
    /// Sizes by the controller's uid.
    known: BTreeMap<String, i32>,
    /// Controllers that no cache holds, each with the name of one of its pods.
    unknown: BTreeMap<String, (OwnerReference, String)>,
    /// Names of pods without a controller, which do not count.
    pub unmanaged: Vec<String>,
    /// The reason for which the wanted number of pods is unknown.
    failure: Option<String>,
}

impl Scales {
    /// Returns the scales of one controller, or a failure.
    #[cfg(test)]
    pub fn of(total: Result<i32, &str>) -> Self {
        let known = total.iter().map(|size| ("uid".to_owned(), *size)).collect();
        Self { known, failure: total.err().map(str::to_owned), ..Self::default() }
    }

    /// Returns the number of pods that all controllers want together.
    pub fn total(&self) -> Result<i32, String> {
        let missing = self.unknown.values().next().map(|(_, pod)| format!("found no controllers for pod {pod:?}"));
        match self.failure.clone().or(missing) {
            Some(reason) => Err(reason),
            None => Ok(self.known.values().sum()),
        }
    }
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

/// Reads the caches; `None` if the budget does not exist.
pub fn observe(key: &str, listers: &Listers) -> Option<Observed> {
    let budget = listers.budgets.by_key(key)?;
    let pods = pods_of(&budget, &listers.pods);
    let scales = if needs_scales(&budget) { scales_of(&pods, listers) } else { Scales::default() };
    Some(Observed { budget, pods, scales })
}

/// Returns true if the budget depends on the number of pods that controllers want, and not on the existing pods.
pub fn needs_scales(budget: &PodDisruptionBudget) -> bool {
    budget.spec.as_ref().is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

pub fn pods_of(budget: &PodDisruptionBudget, pods: &Lister<Pod>) -> Vec<Arc<Pod>> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = label_selector::from_typed(selector);
    selector.map(|selector| pods.select(budget.namespace(), &selector)).unwrap_or_default()
}

fn scales_of(pods: &[Arc<Pod>], listers: &Listers) -> Scales {
    let mut scales = Scales::default();
    for pod in pods {
        let Some(owner) = controller_of(&**pod) else {
            scales.unmanaged.push(pod.name().to_owned());
            continue;
        };
        match scale_of(pod.namespace(), owner, listers) {
            Some((uid, size)) => {
                scales.known.insert(uid, size);
            }
            None => {
                scales.unknown.insert(owner.uid.clone(), (owner.clone(), pod.name().to_owned()));
            }
        }
    }
    scales
}

/// Returns the uid and the size of a pod's controller. A replica set of a deployment counts as the deployment.
fn scale_of(namespace: &str, owner: &OwnerReference, listers: &Listers) -> Option<(String, i32)> {
    fn checked<K: Kind>(found: Option<Arc<K>>, owner: &OwnerReference) -> Option<Arc<K>> {
        found.filter(|found| found.uid() == owner.uid)
    }
    match (split_api_version(&owner.api_version).0, owner.kind.as_str()) {
        ("apps" | "extensions", "ReplicaSet") => {
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
        ("", "ReplicationController") => {
            let found = checked(listers.replication_controllers.get(namespace, &owner.name), owner)?;
            Some((owner.uid.clone(), found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        ("apps", "StatefulSet") => {
            let found = checked(listers.stateful_sets.get(namespace, &owner.name), owner)?;
            Some((owner.uid.clone(), found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        _ => None,
    }
}

/// Asks the server for the scale subresource of controllers that no cache holds.
pub async fn request_unknown(client: &Client, namespace: &str, scales: &mut Scales) -> Result<(), ReconcileError> {
    if scales.unknown.is_empty() {
        return Ok(());
    }
    let discovered = discover(client).await?;
    for (owner, _) in scales.unknown.values() {
        let group = split_api_version(&owner.api_version).0;
        let matches = |gvk: &proto::Gvk| gvk.group == group && gvk.kind == owner.kind;
        let Some(resource) = discovered.preferred().find(|resource| matches(&resource.gvk)) else {
            let (kind, version) = (&owner.kind, &owner.api_version);
            scales.failure = Some(format!("no matches for kind {kind:?} in version {version:?}"));
            return Ok(());
        };
        if !resource.subresources.iter().any(|name| name == "scale") {
            let what = resource.gvr.qualified_resource();
            scales.failure = Some(format!("{what} does not implement the scale subresource"));
            return Ok(());
        }
        match client.dynamic(&resource.gvr, namespace).get_scale(&owner.name).await {
            Ok(scale) if scale["metadata"]["uid"] == owner.uid.as_str() => {
                let size = scale["spec"]["replicas"].as_i64().and_then(|size| i32::try_from(size).ok()).unwrap_or(0);
                scales.known.insert(owner.uid.clone(), size);
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let known = &scales.known;
    scales.unknown.retain(|uid, _| !known.contains_key(uid));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::metav1::LabelSelector;

    fn pod(name: &str, kind: &str, owner: &str) -> Pod {
        let mut pod = fixture::pod(name);
        pod.metadata.labels = Some(fixture::labels(&[("app", "web")]));
        if !kind.is_empty() {
            pod.metadata.owner_references = Some(vec![fixture::owner("apps/v1", kind, owner, true)]);
        }
        pod
    }

    fn scales(pods: Vec<Pod>) -> Scales {
        let mut budget = PodDisruptionBudget { metadata: fixture::meta("web"), ..PodDisruptionBudget::default() };
        let selector =
            LabelSelector { match_labels: Some(fixture::labels(&[("app", "web")])), ..LabelSelector::default() };
        let spec = budget.spec.get_or_insert_default();
        spec.selector = Some(selector);
        spec.max_unavailable = Some(IntOrString::Int(1));
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
        observe("default/web", &listers).unwrap().scales
    }

    #[test]
    fn every_controller_counts_once() {
        assert_eq!(scales(vec![]).total(), Ok(0));
        let of_deployment = vec![pod("1", "ReplicaSet", "web-a"), pod("2", "ReplicaSet", "web-b")];
        assert_eq!(scales(of_deployment.clone()).total(), Ok(10), "both replica sets are the deployment's");
        let and_lone = scales([of_deployment, vec![pod("3", "ReplicaSet", "lone"), pod("4", "", "")]].concat());
        assert_eq!(and_lone.total(), Ok(14));
        assert_eq!(and_lone.unmanaged, ["4"]);
        let strange = scales(vec![pod("5", "Database", "pg")]);
        assert_eq!(strange.total(), Err("found no controllers for pod \"5\"".to_owned()));
    }
}
