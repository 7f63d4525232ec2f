//! `Observed`, the objects that one round over a replica set reads.
//!
//! Corresponds to syncReplicaSet and getIndirectlyRelatedPods in pkg/controller/replicaset/replica_set.go.

use super::replicated::Replicated;
use client::Lister;
use controller_base::controller_ref::{Claims, controller_of, owner_key};
use controller_base::indexes::{BY_CONTROLLER_UID, PODS_BY_CONTROLLER, orphans_key};
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed<T> {
    pub owner: Arc<T>,
    /// Active pods: those that the owner has, adopts and releases.
    pub pods: Claims<Pod>,
    /// Number of owned pods that are being deleted and are not terminal.
    pub terminating: usize,
    /// Active pods of all replica sets with the same controller as this one. Empty if it has no controller.
    pub related: Vec<Arc<Pod>>,
    /// True if the cache shows this controller's earlier creations and deletions. Otherwise it creates and deletes no
    /// pod.
    pub are_expectations_satisfied: bool,
}

#[derive(Clone)]
pub struct Listers<T> {
    pub owners: Lister<T>,
    pub pods: Lister<Pod>,
}

/// Reads the caches; `None` if the owner does not exist.
pub fn observe<T: Replicated>(
    key: &str,
    listers: &Listers<T>,
    are_expectations_satisfied: bool,
) -> Option<Observed<T>> {
    let owner = listers.owners.by_key(key)?;
    let selector = owner.selector();
    let own = listers.pods.by_index(PODS_BY_CONTROLLER, &owner_key(T::KIND, owner.namespace(), owner.name()));
    let orphans = listers.pods.by_index(PODS_BY_CONTROLLER, &orphans_key(owner.namespace()));
    let candidates: Vec<Arc<Pod>> = own.into_iter().chain(orphans).collect();
    let (active, others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|pod| controller_base::pod::is_active(pod));
    let leaving = others.into_iter().filter(|pod| controller_base::pod::is_terminating(pod));
    let terminating = Claims::of(&*owner, leaving, |labels| selector.matches(labels)).owned.len();
    let pods = Claims::of(&*owner, active, |labels| selector.matches(labels));
    let related = related_pods(&*owner, listers);
    Some(Observed { owner, pods, terminating, related, are_expectations_satisfied })
}

fn related_pods<T: Replicated>(owner: &T, listers: &Listers<T>) -> Vec<Arc<Pod>> {
    let Some(controller) = controller_of(owner) else { return Vec::new() };
    let siblings = listers.owners.by_index(BY_CONTROLLER_UID, &controller.uid);
    let pods = siblings.iter().flat_map(|sibling| {
        listers.pods.by_index(PODS_BY_CONTROLLER, &owner_key(T::KIND, sibling.namespace(), sibling.name()))
    });
    pods.filter(|pod| controller_base::pod::is_active(pod)).collect()
}
