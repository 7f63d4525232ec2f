//! `Observed`, the objects that one round over a replica set reads.
//!
//! Corresponds to syncReplicaSet and getIndirectlyRelatedPods in pkg/controller/replicaset/replica_set.go.

use super::counts::Counts;
use super::replicated::Replicated;
use client::Lister;
use controller_base::controller_ref::{Claims, controller_of, owner_key};
use controller_base::indexes::{BY_CONTROLLER_UID, PODS_BY_CONTROLLER};
use controller_base::pod;
use controller_base::pod_state::{self, Activity, PodState, Whose};
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

/// A round looks at pods only if it may do something to them. All others are counted by the index of their states, since
/// an owner has thousands of pods, and nearly all are packed.
#[derive(Debug)]
pub struct Observed<T> {
    pub owner: Arc<T>,
    pub counts: Counts,
    /// Active pods to adopt and to release, and those of the owner if it has more than it wants.
    pub pods: Claims<Pod>,
    /// Active pods of all replica sets with the same controller as this one. Empty if it has no controller, or no surplus.
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
    let is_own = |state: &PodState| selector.matches(&state.labels);
    let is_active = |state: &PodState| state.activity == Activity::Active;
    let (own, orphans) = (Whose::Controller(owner.uid()), Whose::Nobody(owner.namespace()));

    let mut counts = Counts::default();
    pod_state::count(&listers.pods, own, |state, pods| {
        if is_own(&state) {
            counts.add(&*owner, &state, pods);
        }
    });
    let select = |whose, wanted: &dyn Fn(&PodState) -> bool| pod_state::select(&listers.pods, whose, wanted);
    if owner.min_ready_seconds() > 0 {
        let ready = select(own, &|state| is_active(state) && state.is_ready && is_own(state));
        counts.ready_since = ready.iter().filter_map(|pod| pod::ready_since(pod)).collect();
    }
    let mut pods = Claims { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    if !owner.is_deleting() {
        pods.adopt = select(orphans, &|state| is_active(state) && is_own(state));
        pods.release = select(own, &|state| is_active(state) && !is_own(state));
    }
    let mut related = Vec::new();
    if are_expectations_satisfied && counts.active > wanted(&*owner) {
        pods.owned = select(own, &|state| is_active(state) && is_own(state));
        related = related_pods(&*owner, listers);
    }
    Some(Observed { owner, counts, pods, related, are_expectations_satisfied })
}

/// Returns the number of pods that the owner should have.
pub fn wanted<T: Replicated>(owner: &T) -> usize {
    usize::try_from(owner.replicas()).unwrap_or(0)
}

fn related_pods<T: Replicated>(owner: &T, listers: &Listers<T>) -> Vec<Arc<Pod>> {
    let Some(controller) = controller_of(owner) else { return Vec::new() };
    let siblings = listers.owners.by_index(BY_CONTROLLER_UID, &controller.uid);
    let pods = siblings.iter().flat_map(|sibling| {
        listers.pods.by_index(PODS_BY_CONTROLLER, &owner_key(T::KIND, sibling.namespace(), sibling.name()))
    });
    pods.filter(|pod| pod::is_active(pod)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::Kind;
    use proto::kinds::api::apps::v1::ReplicaSet;

    /// Returns a pod of the replica set `web`, with these labels.
    fn pod(name: &str, app: &str, change: &dyn Fn(&mut Pod)) -> Pod {
        let mut pod = fixture::pod(name);
        pod.metadata.labels = Some(fixture::labels(&[("app", app)]));
        pod.metadata.owner_references = Some(vec![fixture::owner("apps/v1", "ReplicaSet", "web", true)]);
        change(&mut pod);
        pod
    }

    fn ready(second: i64) -> impl Fn(&mut Pod) {
        move |pod| fixture::set_ready(pod, fixture::at(second))
    }

    fn observed(owner: ReplicaSet, are_expectations_satisfied: bool) -> Observed<ReplicaSet> {
        let pods = Lister::of([
            pod("a", "web", &ready(1)),
            pod("b", "web", &ready(2)),
            pod("c", "web", &|_| ()),
            pod("leaving", "web", &|pod| pod.metadata.deletion_timestamp = Some(fixture::time(0))),
            pod("over", "web", &|pod| fixture::set_phase(pod, "Succeeded")),
            pod("relabelled", "db", &ready(3)),
            pod("relabelled-leaving", "db", &|pod| pod.metadata.deletion_timestamp = Some(fixture::time(0))),
            pod("orphan", "web", &|pod| pod.metadata.owner_references = None),
            pod("orphan-over", "web", &|pod| {
                pod.metadata.owner_references = None;
                fixture::set_phase(pod, "Failed");
            }),
            pod("other", "web", &|pod| {
                pod.metadata.owner_references = Some(vec![fixture::owner("apps/v1", "ReplicaSet", "db", true)]);
            }),
        ]);
        let pods = pods.indexed(PODS_BY_CONTROLLER, |pod| {
            controller_of(pod).map(|owner| owner_key(&owner.kind, pod.namespace(), &owner.name)).into_iter().collect()
        });
        let owners = Lister::of([owner]).indexed(BY_CONTROLLER_UID, |owner| {
            controller_of(owner).map(|owner| owner.uid.clone()).into_iter().collect()
        });
        let listers = Listers { owners, pods: pod_state::indexed(pods) };
        observe("default/web", &listers, are_expectations_satisfied).unwrap()
    }

    fn names(pods: &[Arc<Pod>]) -> String {
        pods.iter().map(|pod| pod.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_are_counted_and_only_those_in_question_are_read() {
        let observed = observed(fixture::replica_set("web", "nginx:1", 3), true);
        let counts = Counts { active: 3, fully_labeled: 3, ready: 2, ready_since: Vec::new(), terminating: 1 };
        assert_eq!(observed.counts, counts);
        assert_eq!(names(&observed.pods.adopt), "orphan");
        assert_eq!(names(&observed.pods.release), "relabelled");
        assert_eq!((names(&observed.pods.owned), observed.related.len()), (String::new(), 0));
    }

    #[test]
    fn surplus_pods_are_read() {
        let owner = fixture::replica_set("web", "nginx:1", 1);
        let surplus = observed(owner.clone(), true);
        assert_eq!(names(&surplus.pods.owned), "a b c");
        assert_eq!(names(&surplus.related), "a b c relabelled");
        assert_eq!(names(&observed(owner, false).pods.owned), "", "none is deleted while the cache lags");
    }

    #[test]
    fn an_owner_that_goes_counts_its_pods_and_claims_none() {
        let mut owner = fixture::replica_set("web", "nginx:1", 3);
        owner.metadata.deletion_timestamp = Some(fixture::time(0));
        let observed = observed(owner, true);
        assert_eq!(observed.counts.active, 3);
        assert!(observed.pods.are_complete());
    }

    #[test]
    fn times_are_read_where_pods_become_available_later() {
        let mut owner = fixture::replica_set("web", "nginx:1", 3);
        owner.spec.as_mut().unwrap().min_ready_seconds = Some(10);
        assert_eq!(observed(owner, true).counts.ready_since, [fixture::at(1), fixture::at(2)]);
    }
}
