//! `Observed`, the objects that one round of the Deployment controller reads.
//!
//! Corresponds to getReplicaSetsForDeployment and getPodMapForDeployment in
//! pkg/controller/deployment/deployment_controller.go.

use super::recreate::PodsByOwner;
use super::sizes;
use client::Lister;
use controller_base::controller_ref::{Claims, controller_of, owner_key};
use controller_base::indexes::PODS_BY_CONTROLLER;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use proto::kinds::api::core::v1::Pod;
use proto::meta::label_selector;
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub deployment: Arc<Deployment>,
    pub replica_sets: Claims<ReplicaSet>,
    /// Pods of the deployment; empty unless its strategy is Recreate, which waits for pods to end.
    pub pods: PodsByOwner,
}

/// The caches that the controller reads.
#[derive(Clone)]
pub struct Listers {
    pub deployments: Lister<Deployment>,
    pub replica_sets: Lister<ReplicaSet>,
    pub pods: Lister<Pod>,
}

/// Reads the caches; `None` if the deployment does not exist.
pub fn observe(key: &str, listers: &Listers) -> Option<Observed> {
    let deployment = listers.deployments.by_key(key)?;
    let selector = label_selector::from_typed(Some(&sizes::spec(&deployment).selector)).ok()?;
    let candidates = listers.replica_sets.in_namespace(deployment.namespace());
    let mut replica_sets = Claims::of(&*deployment, candidates, |labels| selector.matches(labels));
    replica_sets.owned.sort_by(|one, other| by_age(one).cmp(&by_age(other)));
    let pods = if sizes::is_rolling(&deployment) { PodsByOwner::new() } else { pods_by_owner(&replica_sets, listers) };
    Some(Observed { deployment, replica_sets, pods })
}

/// Returns a sort key: oldest first, then by name.
fn by_age(replica_set: &ReplicaSet) -> (Option<&proto::kinds::metav1::Time>, &str) {
    (replica_set.metadata.creation_timestamp.as_ref(), replica_set.name())
}

fn pods_by_owner(replica_sets: &Claims<ReplicaSet>, listers: &Listers) -> PodsByOwner {
    let mut pods = PodsByOwner::new();
    for replica_set in &replica_sets.owned {
        let key = owner_key(ReplicaSet::KIND, replica_set.namespace(), replica_set.name());
        let owned = listers.pods.by_index(PODS_BY_CONTROLLER, &key);
        let owned =
            owned.into_iter().filter(|pod| controller_of(&**pod).is_some_and(|owner| owner.uid == replica_set.uid()));
        pods.insert(replica_set.uid().to_owned(), owned.collect());
    }
    pods
}
