//! Decides what to do about one object, from the state of its owners and dependents.
//!
//! Corresponds to attemptToDeleteItem and attemptToOrphanWorker in pkg/controller/garbagecollector/garbagecollector.go.

use super::graph::{FOREGROUND, Node, ORPHAN};
use client::{Action, DeleteOptions, Patch, Plan, Preconditions, Propagation};
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use serde_json::json;

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner exists, and does not wait for this object to be deleted.
    Solid,
    /// The owner does not exist, or another object has its name.
    Absent,
    /// The owner is being deleted in the foreground, and waits for its dependents.
    Waiting,
}

/// An object with its present metadata and its resource.
#[derive(Debug)]
pub struct Item<'a> {
    pub gvr: &'a Gvr,
    pub metadata: &'a ObjectMeta,
    pub dependents: &'a [Node],
}

impl Item<'_> {
    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|own| own == finalizer)
    }

    fn patch(&self, metadata: serde_json::Value) -> Action {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let patch = json!({"metadata": metadata});
        Action::Patch {
            gvr: self.gvr.clone(),
            namespace: text(&self.metadata.namespace),
            name: text(&self.metadata.name),
            subresource: None,
            patch: Patch::Merge(patch),
        }
    }

    /// The patch has the uid and resource version, so that it fails if the object has changed.
    fn set_owners(&self, owners: &[OwnerReference]) -> Action {
        let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
        self.patch(json!({
            "uid": self.uid(), "resourceVersion": self.metadata.resource_version, "ownerReferences": owners
        }))
    }

    fn without_finalizer(&self, finalizer: &str) -> Plan {
        let left: Vec<&String> = self.metadata.finalizers.iter().flatten().filter(|own| *own != finalizer).collect();
        let left = if left.is_empty() { json!(null) } else { json!(left) };
        let patch = json!({"uid": self.uid(), "resourceVersion": self.metadata.resource_version, "finalizers": left});
        Plan::of([self.patch(patch)])
    }

    fn delete(&self, propagation: Propagation) -> Action {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let preconditions =
            Preconditions { uid: self.uid().to_owned(), resource_version: text(&self.metadata.resource_version) };
        let options = DeleteOptions { propagation: Some(propagation), preconditions, ..DeleteOptions::default() };
        let (namespace, name) = (text(&self.metadata.namespace), text(&self.metadata.name));
        Action::Delete { gvr: self.gvr.clone(), namespace, name, options }
    }
}

/// Returns the dependents that block the deletion of an object in the foreground.
pub fn blocking<'a>(item: &Item<'a>) -> Vec<&'a Node> {
    let uid = item.uid();
    let blocks = |dependent: &&Node| {
        dependent.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
    };
    item.dependents.iter().filter(blocks).collect()
}

/// Removes the foreground finalizer if no dependent blocks the deletion.
pub fn finish_foreground(item: &Item<'_>) -> Plan {
    if blocking(item).is_empty() && item.has_finalizer(FOREGROUND) {
        item.without_finalizer(FOREGROUND)
    } else {
        Plan::default()
    }
}

/// Plans what to do about an object. `owners` are its references, each with the state of the owner.
pub fn collect(item: &Item<'_>, owners: &[(OwnerReference, OwnerState)]) -> Plan {
    let any = |wanted: OwnerState| owners.iter().any(|(_, state)| *state == wanted);
    let (has_solid, has_absent, has_waiting) =
        (any(OwnerState::Solid), any(OwnerState::Absent), any(OwnerState::Waiting));
    let mut plan = Plan::default();
    if owners.is_empty() || (has_solid && !has_absent && !has_waiting) {
        return plan;
    }
    if has_solid {
        // A solid owner keeps the object. The other references go: a waiting owner would wait for ever.
        let solid: Vec<OwnerReference> =
            owners.iter().filter(|(_, state)| *state == OwnerState::Solid).map(|(owner, _)| owner.clone()).collect();
        plan.push(item.set_owners(&solid));
        return plan;
    }
    if has_waiting && !item.dependents.is_empty() {
        // If a dependent waits for its own dependents, there may be a cycle. This object stops blocking its owners,
        // which breaks the cycle.
        if item.dependents.iter().any(|dependent| dependent.deletes_dependents) {
            let unblocked: Vec<OwnerReference> = owners
                .iter()
                .map(|(owner, _)| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() })
                .collect();
            if owners.iter().any(|(owner, _)| owner.block_owner_deletion == Some(true)) {
                plan.push(item.set_owners(&unblocked));
                return plan;
            }
        }
        plan.push(item.delete(Propagation::Foreground));
        return plan;
    }
    let propagation = if item.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if item.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    plan.push(item.delete(propagation));
    plan
}

/// Removes a dependent's reference to an owner; `None` if it has none.
pub fn release(dependent: &Item<'_>, owner_uid: &str) -> Option<Action> {
    let owners = dependent.metadata.owner_references.as_deref().unwrap_or_default();
    let others: Vec<OwnerReference> = owners.iter().filter(|owner| owner.uid != owner_uid).cloned().collect();
    (others.len() != owners.len()).then(|| dependent.set_owners(&others))
}

/// Removes the orphan finalizer of an owner whose dependents have no reference to it any more.
pub fn finish_orphaning(item: &Item<'_>) -> Plan {
    if item.has_finalizer(ORPHAN) { item.without_finalizer(ORPHAN) } else { Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::OwnerState::{Absent, Solid, Waiting};
    use super::*;
    use controller_base::fixture;
    use expect_test::expect;

    fn gvr() -> Gvr {
        Gvr::new("", "v1", "pods")
    }

    fn dependent(name: &str, blocks: bool, deletes_dependents: bool) -> Node {
        let owner = OwnerReference { block_owner_deletion: Some(blocks), ..fixture::owner("v1", "Pod", "item", true) };
        let mut node = Node { owners: vec![owner], deletes_dependents, ..Node::default() };
        node.identity.uid = format!("uid-{name}");
        node
    }

    fn planned(finalizers: &[&str], owners: &[(&str, OwnerState)], dependents: &[Node]) -> String {
        let mut metadata = fixture::meta("item");
        metadata.finalizers = Some(finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect());
        let gvr = gvr();
        let item = Item { gvr: &gvr, metadata: &metadata, dependents };
        let owners: Vec<_> =
            owners.iter().map(|(name, state)| (fixture::owner("v1", "Pod", name, true), *state)).collect();
        let plan = collect(&item, &owners).to_string();
        plan.trim_end().split(" uid=").next().unwrap().to_owned()
    }

    #[test]
    fn owners_decide_over_an_object() {
        let leaf: &[Node] = &[];
        let with_child = &[dependent("child", true, false)];
        let with_waiting_child = &[dependent("child", true, true)];
        let delete = |how: &str| format!("delete pods default/item {how}");
        let cases: Vec<(&str, Vec<&str>, Vec<(&str, OwnerState)>, &[Node], String)> = vec![
            ("no owners", vec![], vec![], leaf, String::new()),
            ("owned", vec![], vec![("a", Solid)], leaf, String::new()),
            ("owned twice", vec![], vec![("a", Solid), ("b", Solid)], leaf, String::new()),
            ("its owner is absent", vec![], vec![("a", Absent)], leaf, delete("Background")),
            ("all its owners are absent", vec![], vec![("a", Absent), ("b", Absent)], leaf, delete("Background")),
            ("absent, to be orphaned", vec![ORPHAN], vec![("a", Absent)], leaf, delete("Orphan")),
            ("absent, in the foreground", vec![FOREGROUND], vec![("a", Absent)], leaf, delete("Foreground")),
            ("its owner waits for it", vec![], vec![("a", Waiting)], leaf, delete("Background")),
            ("its owner waits and it has dependents", vec![], vec![("a", Waiting)], with_child, delete("Foreground")),
            ("absent, with dependents", vec![], vec![("a", Absent)], with_child, delete("Background")),
            ("one waits, one is absent", vec![], vec![("a", Waiting), ("b", Absent)], with_child, delete("Foreground")),
        ];
        for (what, finalizers, owners, dependents, expected) in cases {
            assert_eq!(planned(&finalizers, &owners, dependents), expected, "{what}");
        }
        let keeps_solid = planned(&[], &[("a", Solid), ("b", Absent), ("c", Waiting)], leaf);
        expect![[r#"merge patch pods default/item {"metadata":{"ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"Pod","name":"a","uid":"uid-a"}],"resourceVersion":"1","uid":"uid-item"}}"#]].assert_eq(&keeps_solid);
        let circle = planned(&[], &[("a", Waiting)], with_waiting_child);
        assert!(circle.contains(r#""blockOwnerDeletion":false"#), "a circle is broken: {circle}");
    }

    #[test]
    fn foreground_deletion_ends_with_the_last_blocking_dependent() {
        let mut metadata = fixture::meta("item");
        metadata.finalizers = Some(vec!["example.com/hold".to_owned(), FOREGROUND.to_owned()]);
        let gvr = gvr();
        let decide = |dependents: &[Node]| {
            let item = Item { gvr: &gvr, metadata: &metadata, dependents };
            let blocking = blocking(&item).iter().map(|dependent| dependent.identity.uid.clone()).collect::<Vec<_>>();
            (finish_foreground(&item).to_string(), blocking)
        };
        let patch = "merge patch pods default/item {\"metadata\":{\"finalizers\":[\"example.com/hold\"],\"resourceVersion\":\"1\",\"uid\":\"uid-item\"}}\n";
        assert_eq!(decide(&[]), (patch.to_owned(), vec![]));
        assert_eq!(decide(&[dependent("a", false, false)]), (patch.to_owned(), vec![]), "it does not block");
        let blocked = decide(&[dependent("a", true, false), dependent("b", true, true)]);
        assert_eq!(blocked, (String::new(), vec!["uid-a".to_owned(), "uid-b".to_owned()]));
    }

    #[test]
    fn orphans_lose_only_the_reference_to_their_owner() {
        let gvr = gvr();
        let mut metadata = fixture::meta("child");
        let owners = ["a", "b"].map(|name| fixture::owner("v1", "Pod", name, false));
        metadata.owner_references = Some(owners.to_vec());
        let item = Item { gvr: &gvr, metadata: &metadata, dependents: &[] };
        let shown = release(&item, "uid-a").unwrap().to_string();
        assert!(shown.contains(r#""name":"b""#) && !shown.contains(r#""name":"a""#), "{shown}");
        assert_eq!(release(&item, "uid-stranger"), None);
    }
}
