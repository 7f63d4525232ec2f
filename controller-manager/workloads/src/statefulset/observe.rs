//! `Observed`, the objects that one round over a StatefulSet reads.
//!
//! Corresponds to getPodsForStatefulSet and adoptOrphanRevisions in pkg/controller/statefulset/stateful_set.go.

use super::spec::{ordinals, spec};
use super::{claims, identity};
use crate::controller_revision;
use client::Lister;
use controller_base::controller_ref::{Claims, owner_key};
use controller_base::indexes::{PODS_BY_CONTROLLER, REVISIONS_BY_CONTROLLER, orphans_key};
use controller_base::pod_control::BURST;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSet};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use proto::meta::label_selector;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub set: Arc<StatefulSet>,
    /// The set's pods, and those to adopt or release. A pod belongs to the set if its name and its labels do.
    pub pods: Claims<Pod>,
    /// Sorted by their numbers. None is released.
    pub revisions: Claims<ControllerRevision>,
    /// The pods' claims that exist, by name.
    pub claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// Ordinals without a pod of the set, lowest first. More than one round creates are left out.
    pub missing: Vec<i64>,
    /// Those missing ordinals whose name a pod has that is not the set's.
    pub taken: BTreeSet<i64>,
    /// True if the cache shows this controller's earlier creations and deletions.
    pub are_expectations_satisfied: bool,
}

/// The caches that the controller reads.
#[derive(Clone)]
pub struct Listers {
    pub sets: Lister<StatefulSet>,
    pub pods: Lister<Pod>,
    pub revisions: Lister<ControllerRevision>,
    pub claims: Lister<PersistentVolumeClaim>,
}

/// Reads the caches; `None` if the set does not exist.
pub fn observe(key: &str, listers: &Listers, are_expectations_satisfied: bool) -> Option<Observed> {
    let set = listers.sets.by_key(key)?;
    let selector = label_selector::from_typed(Some(&spec(&set).selector)).ok()?;
    let (own, orphans) = (owner_key(StatefulSet::KIND, set.namespace(), set.name()), orphans_key(set.namespace()));
    let of = |key: &str| listers.pods.by_index(PODS_BY_CONTROLLER, key).into_iter();
    let (members, strangers): (Vec<_>, Vec<_>) =
        of(&own).chain(of(&orphans)).partition(|pod| identity::ordinal(&set, pod).is_some());
    let mut pods = Claims::of(&*set, members, |labels| selector.matches(labels));
    pods.release.extend(Claims::of(&*set, strangers, |_| false).release);

    let of = |key: &str| listers.revisions.by_index(REVISIONS_BY_CONTROLLER, key).into_iter();
    let mut revisions = Claims::of(&*set, of(&own).chain(of(&orphans)), |labels| selector.matches(labels));
    revisions.release.clear();
    controller_revision::sort(&mut revisions.owned);

    let present: BTreeSet<i64> = pods.owned.iter().filter_map(|pod| identity::ordinal(&set, pod)).collect();
    let (missing, taken) = missing_and_taken(&set, &present, &listers.pods);
    let claims = existing_claims(&set, present.iter().chain(&missing), &listers.claims);
    Some(Observed { set, pods, revisions, claims, missing, taken, are_expectations_satisfied })
}

/// Returns the first ordinals without a pod, and those of them whose name another pod has.
fn missing_and_taken(set: &StatefulSet, present: &BTreeSet<i64>, pods: &Lister<Pod>) -> (Vec<i64>, BTreeSet<i64>) {
    let missing: Vec<i64> = ordinals(set).filter(|ordinal| !present.contains(ordinal)).take(BURST).collect();
    let is_taken = |ordinal: &i64| pods.get(set.namespace(), &identity::pod_name(set, *ordinal)).is_some();
    let taken = missing.iter().copied().filter(is_taken).collect();
    (missing, taken)
}

fn existing_claims<'a>(
    set: &StatefulSet,
    ordinals: impl Iterator<Item = &'a i64>,
    claims: &Lister<PersistentVolumeClaim>,
) -> BTreeMap<String, Arc<PersistentVolumeClaim>> {
    let names = ordinals.flat_map(|ordinal| claims::names(set, *ordinal));
    names.filter_map(|name| Some((name.clone(), claims.get(set.namespace(), &name)?))).collect()
}

impl Observed {
    /// Returns the set's pods by their ordinals.
    pub fn by_ordinal(&self) -> BTreeMap<i64, Arc<Pod>> {
        let ordinal = |pod: &Arc<Pod>| Some((identity::ordinal(&self.set, pod)?, pod.clone()));
        self.pods.owned.iter().filter_map(ordinal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture;

    #[test]
    fn names_that_others_have_are_found() {
        let pods = Lister::of([fixture::pod("web-1"), fixture::pod("web-5"), fixture::pod("db-2")]);
        let (missing, taken) = missing_and_taken(&sample::set(4), &BTreeSet::from([0]), &pods);
        assert_eq!((missing, taken), (vec![1, 2, 3], BTreeSet::from([1])));
    }

    #[test]
    fn a_huge_set_is_observed_in_parts() {
        let (missing, _) = missing_and_taken(&sample::set(i32::MAX), &BTreeSet::from([1]), &Lister::of([]));
        assert_eq!((missing.len(), missing[0], missing[1], missing[BURST - 1]), (BURST, 0, 2, 500));
    }

    #[test]
    fn existing_claims_are_found_by_their_names() {
        let claim = |name| PersistentVolumeClaim { metadata: fixture::meta(name), ..PersistentVolumeClaim::default() };
        let claims = Lister::of([claim("www-web-0"), claim("www-web-9"), claim("log-web-0")]);
        let found = existing_claims(&sample::set_with_claims(2, &["www"]), [0, 1].iter(), &claims);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["www-web-0"]);
    }
}
