//! The owners of a claim, from which follows when the garbage collector deletes it: the retention policy.
//!
//! Corresponds to isClaimOwnerUpToDate and updateClaimOwnerRefForSetAndPod in
//! pkg/controller/statefulset/stateful_set_utils.go.
//!
//! ```text
//!   whenScaled  whenDeleted   owner while the pod is wanted   owner while it is scaled away
//!   Retain      Retain        none                            none
//!   Retain      Delete        the set                         the set
//!   Delete      Retain        none                            the pod
//!   Delete      Delete        the set                         the pod
//! ```

use super::spec::{ordinals, spec};
use controller_base::controller_ref::controller_ref;
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use proto::kinds::metav1::OwnerReference;

/// A pod of the set, which may not exist yet.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    pub set: &'a StatefulSet,
    pub ordinal: i64,
    pub name: &'a str,
    pub pod: Option<&'a Pod>,
}

/// The owner that a claim should have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    Set,
    Pod,
}

fn deletes(set: &StatefulSet, when: &str) -> bool {
    let policy = spec(set).persistent_volume_claim_retention_policy.as_ref();
    let value = match when {
        "scaled" => policy.and_then(|policy| policy.when_scaled.as_deref()),
        _ => policy.and_then(|policy| policy.when_deleted.as_deref()),
    };
    value == Some("Delete")
}

impl Member<'_> {
    fn wanted_owner(&self) -> Owner {
        let is_wanted = ordinals(self.set).contains(&self.ordinal);
        match (deletes(self.set, "scaled"), deletes(self.set, "deleted")) {
            (true, _) if !is_wanted => Owner::Pod,
            (_, true) => Owner::Set,
            (_, false) => Owner::Nobody,
        }
    }

    fn uid(&self) -> &str {
        self.pod.map_or("", Kind::uid)
    }

    /// Returns true if a reference names the set, or an earlier set of its name.
    fn names_set(&self, reference: &OwnerReference) -> bool {
        names::<StatefulSet>(reference, self.set.name())
    }

    /// Returns true if a reference names the pod, or an earlier pod of its name.
    fn names_pod(&self, reference: &OwnerReference) -> bool {
        names::<Pod>(reference, self.name)
    }

    fn is_set(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.set.uid()
    }

    fn is_pod(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.uid()
    }

    /// Returns true if an earlier pod of this name owns the claim: the garbage collector is about to delete it. A new
    /// pod has to wait for that, or it would lose its claim.
    pub fn has_stale_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        deletes(self.set, "scaled") && self.is_owned_by_earlier_pod(claim)
    }

    fn is_owned_by_earlier_pod(&self, claim: &PersistentVolumeClaim) -> bool {
        references(claim).find(|reference| self.names_pod(reference)).is_some_and(|reference| !self.is_pod(reference))
    }

    fn is_owned_by_earlier_set(&self, claim: &PersistentVolumeClaim) -> bool {
        references(claim).find(|reference| self.names_set(reference)).is_some_and(|reference| !self.is_set(reference))
    }

    /// Returns true if the set has a retention policy, and somebody else controls the claim.
    pub fn has_other_controller(&self, claim: &PersistentVolumeClaim) -> bool {
        let has_policy = deletes(self.set, "scaled") || deletes(self.set, "deleted");
        has_policy
            && references(claim).any(|reference| match (self.names_set(reference), self.names_pod(reference)) {
                (true, _) => !self.is_set(reference),
                (_, true) => !self.is_pod(reference),
                _ => reference.controller == Some(true),
            })
    }

    /// Returns true if a claim has the wanted owner, or owners that the set has to leave alone.
    fn has_wanted_owner(&self, claim: &PersistentVolumeClaim) -> bool {
        if self.is_owned_by_earlier_set(claim) || self.is_owned_by_earlier_pod(claim) {
            return true;
        }
        let by_set = references(claim).any(|reference| self.is_set(reference));
        let by_pod = references(claim).any(|reference| self.is_pod(reference));
        if self.has_other_controller(claim) {
            return !by_set && !by_pod;
        }
        let is_ours = |reference: &&OwnerReference| self.is_set(reference) || self.is_pod(reference);
        if references(claim).filter(is_ours).any(|reference| reference.controller != Some(true)) {
            return false;
        }
        let wanted = self.wanted_owner();
        by_set == (wanted == Owner::Set) && by_pod == (wanted == Owner::Pod)
    }

    /// Returns the claim with the wanted owner; `None` if it stays as it is.
    pub fn with_wanted_owner(&self, claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaim> {
        if self.has_wanted_owner(claim) {
            return None;
        }
        let others = references(claim).filter(|reference| !self.names_set(reference) && !self.names_pod(reference));
        let mut owners: Vec<OwnerReference> = others.cloned().collect();
        if !self.has_other_controller(claim) {
            match (self.wanted_owner(), self.pod) {
                (Owner::Set, _) => owners.push(controller_ref(self.set)),
                (Owner::Pod, Some(pod)) => owners.push(controller_ref(pod)),
                _ => {}
            }
        }
        let mut claim = claim.clone();
        claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
        Some(claim)
    }
}

fn references(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &OwnerReference> {
    claim.metadata.owner_references.iter().flatten()
}

fn names<K: Kind>(reference: &OwnerReference, name: &str) -> bool {
    reference.api_version == K::gvk().api_version() && reference.kind == K::KIND && reference.name == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture;

    fn reference(kind: &str, name: &str, uid: &str, controller: bool) -> OwnerReference {
        let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
        OwnerReference { uid: uid.to_owned(), ..fixture::owner(api_version, kind, name, controller) }
    }

    fn claim(owners: &[OwnerReference]) -> PersistentVolumeClaim {
        let mut metadata = fixture::meta("www-web-1");
        metadata.owner_references = (!owners.is_empty()).then(|| owners.to_vec());
        PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() }
    }

    /// Returns the owners of a claim of the pod `web-1` after a round; `=` if it stays as it is.
    fn owners(policy: (&str, &str), replicas: i32, owners: &[OwnerReference]) -> String {
        let set = sample::retaining(sample::set_with_claims(replicas, &["www"]), policy.0, policy.1);
        let pod = fixture::pod("web-1");
        let member = Member { set: &set, ordinal: 1, name: "web-1", pod: Some(&pod) };
        let Some(updated) = member.with_wanted_owner(&claim(owners)) else { return "=".to_owned() };
        assert_eq!(member.with_wanted_owner(&updated), None, "one write is enough");
        let text = |owner: &OwnerReference| format!("{} {}", owner.kind, owner.uid);
        references(&updated).map(text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_policy_decides_about_the_owner() {
        let set = || reference("StatefulSet", "web", "uid-web", true);
        let pod = || reference("Pod", "web-1", "uid-web-1", true);
        let (retain, delete) = ("Retain", "Delete");
        let cases = [
            // whenScaled, whenDeleted => owners while two pods are wanted, and while one is
            (retain, retain, "=", "="),
            (retain, delete, "StatefulSet uid-web", "StatefulSet uid-web"),
            (delete, retain, "=", "Pod uid-web-1"),
            (delete, delete, "StatefulSet uid-web", "Pod uid-web-1"),
        ];
        for (scaled, deleted, wanted, condemned) in cases {
            let case = format!("{scaled} {deleted}");
            assert_eq!(owners((scaled, deleted), 2, &[]), wanted, "{case}");
            assert_eq!(owners((scaled, deleted), 1, &[]), condemned, "{case}");
            // The policy was changed: the former owner goes.
            let from_set = owners((scaled, deleted), 2, &[set()]);
            assert_eq!(from_set, if wanted == "=" { "" } else { "=" }, "{case}");
            let from_pod = owners((scaled, deleted), 2, &[pod()]);
            assert_eq!(from_pod, if wanted == "=" { "" } else { wanted }, "{case}");
        }
    }

    #[test]
    fn other_owners_are_left_alone() {
        let set = |uid: &str, controller| reference("StatefulSet", "web", uid, controller);
        let database = |controller| reference("Database", "db", "uid-db", controller);
        let cases = [
            // owners => owners, if the set's deletion deletes its claims
            (vec![database(false)], "Database uid-db, StatefulSet uid-web"),
            (vec![database(true)], "="),
            (vec![database(true), set("uid-web", false)], "Database uid-db"),
            (vec![set("uid-web", false)], "StatefulSet uid-web"),
            (vec![set("uid-earlier", true)], "="),
            (vec![reference("Pod", "web-1", "uid-earlier", true)], "="),
        ];
        for (before, expected) in cases {
            assert_eq!(owners(("Retain", "Delete"), 2, &before), expected, "{before:?}");
        }
        assert_eq!(owners(("Retain", "Retain"), 2, &[database(true)]), "=");
    }

    #[test]
    fn a_claim_of_an_earlier_pod_is_waited_for() {
        let earlier = claim(&[reference("Pod", "web-1", "uid-earlier", true)]);
        for (scaled, is_stale) in [("Delete", true), ("Retain", false)] {
            let set = sample::retaining(sample::set_with_claims(2, &["www"]), scaled, "Retain");
            let member = Member { set: &set, ordinal: 1, name: "web-1", pod: None };
            assert_eq!(member.has_stale_claim(&earlier), is_stale, "{scaled}");
            assert!(!member.has_stale_claim(&claim(&[])));
        }
    }
}
