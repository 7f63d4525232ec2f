//! `Graph`, the owners and dependents of all objects that can be deleted. Watch events of their metadata update it.
//!
//! Corresponds to pkg/controller/garbagecollector/graph.go and graph_builder.go. The graph is derived state and may be
//! stale, so the server is asked for an absent owner before anything is deleted.

use super::entry::{Entry, Origin};
pub use super::entry::{Identity, Node};
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// Work that a change of the graph causes.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// The object may have to be deleted, or its references or finalizers changed.
    AttemptDelete(String),
    /// The object's dependents are to be orphaned.
    AttemptOrphan(String),
    /// The dependent refers to an owner in another namespace: an event reports it.
    ReportInvalidNamespace { dependent: Identity, owner: OwnerReference },
}

/// The graph is copied after so many objects came, and this part of all: see `compact`.
const ADDED_LEAST: usize = 1_000;
const ADDED_PART: usize = 16;

/// All objects by uid.
#[derive(Debug, Default)]
pub struct Graph {
    entries: BTreeMap<Arc<str>, Entry>,
    origins: BTreeSet<Arc<Origin>>,
    /// Number of objects that came since the graph was compacted.
    added: usize,
}

impl Graph {
    pub fn node(&self, uid: &str) -> Option<Node> {
        self.entries.get(uid).map(|entry| entry.node(uid))
    }

    /// Returns true if other objects refer to this one as their owner.
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| !entry.dependents.is_empty())
    }

    pub fn dependents(&self, uid: &str) -> Vec<Node> {
        let dependents = self.entries.get(uid).into_iter().flat_map(|entry| &entry.dependents);
        dependents.filter_map(|uid| self.node(uid)).collect()
    }

    /// Returns the identities that the dependents of a virtual owner claim, each with the uids of those dependents.
    pub fn claimed_identities(&self, uid: &str) -> Vec<(Identity, Vec<String>)> {
        let mut claimed: Vec<(Identity, Vec<String>)> = Vec::new();
        for dependent in self.dependents(uid) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == uid) {
                let identity = referenced_identity(owner, &dependent.identity.namespace);
                match claimed.iter_mut().find(|(other, _)| *other == identity) {
                    Some((_, dependents)) => dependents.push(dependent.identity.uid.clone()),
                    None => claimed.push((identity, vec![dependent.identity.uid.clone()])),
                }
            }
        }
        claimed
    }

    /// Adds or updates an object, and returns the work that follows.
    pub fn observe(&mut self, gvr: &Gvr, api_version: &str, kind: &str, metadata: &ObjectMeta) -> Vec<Work> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let origin = self.origin(Origin {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: text(&metadata.namespace),
            gvr: Some(gvr.clone()),
        });
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let owners = self.owners(uid, metadata.owner_references.as_deref().unwrap_or_default());
        let uid = self.add(uid);
        // An owner may have thousands of dependents, which stay as they are.
        let entry = self.entries.entry(uid.clone()).or_default();
        let was_virtual = entry.is_virtual;
        let owners_before = std::mem::replace(&mut entry.owners, owners.clone());
        entry.origin = origin;
        let name = metadata.name.as_deref().unwrap_or_default();
        if *entry.name != *name {
            entry.name = name.into();
        }
        entry.is_virtual = false;
        entry.is_deleting = metadata.deletion_timestamp.is_some();
        let waits_for =
            |finalizer: &str| entry.is_deleting && metadata.finalizers.iter().flatten().any(|own| own == finalizer);
        let (orphans, foreground) = (waits_for(ORPHAN), waits_for(FOREGROUND));
        entry.deletes_dependents = foreground;
        let mut work = Vec::new();
        self.unblock_owners(&owners_before, &owners, &mut work);
        self.relink(&uid, &owners_before, &owners, &mut work);
        if was_virtual {
            self.check_references_to(&uid, &mut work);
        }
        if orphans {
            work.push(Work::AttemptOrphan(uid.to_string()));
        } else if foreground {
            work.extend(self.entries[&uid].dependents.iter().map(attempt));
            work.push(attempt(&uid));
        }
        work
    }

    /// Returns the origin that is equal to this one and shared by all.
    fn origin(&mut self, origin: Origin) -> Arc<Origin> {
        if let Some(shared) = self.origins.get(&origin) {
            return shared.clone();
        }
        let origin = Arc::new(origin);
        self.origins.insert(origin.clone());
        origin
    }

    /// Returns the owner references of an object. They are shared with its former state, or with the first of the objects
    /// that have the same first owner, if those are equal.
    fn owners(&self, uid: &str, owners: &[OwnerReference]) -> Arc<[OwnerReference]> {
        let sibling = owners.first().and_then(|owner| self.entries.get(&*owner.uid)?.dependents.first());
        let others = [Some(uid), sibling.map(|uid| &**uid)].into_iter().flatten();
        let mut equal = others.filter_map(|uid| self.entries.get(uid)).filter(|entry| *entry.owners == *owners);
        match equal.next() {
            Some(entry) => entry.owners.clone(),
            None if owners.is_empty() => Arc::default(),
            None => owners.into(),
        }
    }

    /// Adds an object if it is unknown. Returns its uid.
    fn add(&mut self, uid: &str) -> Arc<str> {
        if let Some((uid, _)) = self.entries.get_key_value(uid) {
            return uid.clone();
        }
        self.added += 1;
        let uid: Arc<str> = uid.into();
        self.entries.insert(uid.clone(), Entry::default());
        uid
    }

    /// Removes a deleted object. Returns work for its dependents, and for owners that wait for it.
    pub fn remove(&mut self, uid: &str) -> Vec<Work> {
        let Some(entry) = self.take(uid) else { return Vec::new() };
        let mut work: Vec<Work> = entry.dependents.iter().map(attempt).collect();
        for owner in &*entry.owners {
            self.unlink(uid, &owner.uid);
            if self.entries.get(&*owner.uid).is_some_and(|owner| owner.deletes_dependents) {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            }
        }
        work
    }

    /// Removes an entry, and its origin if no other entry has that.
    fn take(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        let is_last = Arc::strong_count(&entry.origin) == 2;
        if is_last {
            self.origins.remove(&entry.origin);
        }
        Some(entry)
    }

    /// Updates the edges to the owners. An owner that was never observed gets a virtual node, and is looked up.
    fn relink(&mut self, uid: &Arc<str>, before: &[OwnerReference], after: &[OwnerReference], work: &mut Vec<Work>) {
        for owner in before.iter().filter(|owner| !after.iter().any(|other| other.uid == owner.uid)) {
            self.unlink(uid, &owner.uid);
        }
        for owner in after {
            let is_new = !before.iter().any(|other| other.uid == owner.uid);
            if !self.entries.contains_key(&*owner.uid) {
                self.add_virtual(owner, &self.entries[uid].origin.clone());
            }
            let Some(entry) = self.entries.get_mut(&*owner.uid) else { continue };
            entry.dependents.insert(uid.clone());
            let (is_virtual, deletes_dependents) = (entry.is_virtual, entry.deletes_dependents);
            if !is_new {
                continue;
            }
            if is_virtual {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            } else {
                work.extend(self.check_reference(uid, owner));
                if deletes_dependents {
                    work.push(attempt(uid));
                }
            }
        }
    }

    /// Adds an owner that is known from a reference alone, in an object with the origin `dependent`.
    fn add_virtual(&mut self, owner: &OwnerReference, dependent: &Origin) {
        let origin = self.origin(Origin {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: dependent.namespace.clone(),
            gvr: None,
        });
        let uid = self.add(&owner.uid);
        let entry = Entry { origin, name: owner.name.as_str().into(), is_virtual: true, ..Entry::default() };
        self.entries.insert(uid, entry);
    }

    /// Removes an edge. A virtual node without dependents is removed too.
    fn unlink(&mut self, uid: &str, owner_uid: &str) {
        let Some(owner) = self.entries.get_mut(owner_uid) else { return };
        owner.dependents.remove(uid);
        if owner.is_virtual && owner.dependents.is_empty() {
            self.take(owner_uid);
        }
    }

    /// Adds owners that wait for their dependents, if a reference to them was removed or no longer blocks.
    fn unblock_owners(&self, before: &[OwnerReference], after: &[OwnerReference], work: &mut Vec<Work>) {
        let blocks = |owner: &OwnerReference| owner.block_owner_deletion == Some(true);
        for owner in before.iter().filter(|owner| blocks(owner)) {
            let still = after.iter().any(|other| other.uid == owner.uid && blocks(other));
            if !still && self.entries.contains_key(&*owner.uid) {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            }
        }
    }

    /// Adds the dependents whose reference does not match an owner that was just observed.
    fn check_references_to(&self, uid: &str, work: &mut Vec<Work>) {
        for dependent in &self.entries[uid].dependents {
            let owners = self.entries.get(dependent).into_iter().flat_map(|entry| &*entry.owners);
            for owner in owners.filter(|owner| owner.uid == uid) {
                work.extend(self.check_reference(dependent, owner));
            }
        }
    }

    /// Returns the work for a dependent whose reference does not match the present owner.
    fn check_reference(&self, dependent: &Arc<str>, owner: &OwnerReference) -> Vec<Work> {
        let (entry, present) = (&self.entries[dependent], &self.entries[&*owner.uid]);
        let (namespace, owners_namespace) = (&entry.origin.namespace, &present.origin.namespace);
        if present.is_referred_to(owner, namespace) {
            return Vec::new();
        }
        let mut work = vec![attempt(dependent)];
        if !owners_namespace.is_empty() && owners_namespace != namespace {
            work.push(Work::ReportInvalidNamespace { dependent: entry.identity(dependent), owner: owner.clone() });
        }
        work
    }

    /// Returns true if the graph shows nothing to do about an object: it does not wait for dependents, and all its
    /// owners exist, match its references, and do not wait for it.
    pub fn is_kept_by_owners(&self, node: &Node) -> bool {
        let keeps = |owner: &OwnerReference| {
            self.entries.get(&*owner.uid).is_some_and(|present| {
                !present.is_virtual
                    && !present.deletes_dependents
                    && present.is_referred_to(owner, &node.identity.namespace)
            })
        };
        !node.is_virtual && !node.deletes_dependents && node.owners.iter().all(keeps)
    }

    /// Copies the graph, if many objects came since the last time. The allocator keeps a page as long as one object on it
    /// lives, and copies that are made at one time lie on fewer pages than entries that came among other things.
    pub fn compact(&mut self) {
        if self.added < ADDED_LEAST || self.added * ADDED_PART < self.entries.len() {
            return;
        }
        self.added = 0;
        let uids: BTreeSet<Arc<str>> = self.entries.keys().map(|uid| Arc::from(&**uid)).collect();
        let copied = |uid: &Arc<str>| uids.get(uid).unwrap_or(uid).clone();
        let copy = |(uid, entry): (&Arc<str>, &Entry)| {
            let dependents = entry.dependents.iter().map(copied).collect();
            (copied(uid), entry.with_dependents(dependents))
        };
        self.entries = self.entries.iter().map(copy).collect();
    }
}

fn attempt(uid: &Arc<str>) -> Work {
    Work::AttemptDelete(uid.to_string())
}

/// Returns the identity of an owner according to a reference in an object of `namespace`.
pub fn referenced_identity(owner: &OwnerReference, namespace: &str) -> Identity {
    Identity {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: namespace.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        gvr: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn gvr(resource: &str) -> Gvr {
        Gvr::new("", "v1", resource)
    }

    /// Returns an object of kind `Thing` in `default` with these owners. With a finalizer, it is being deleted.
    fn thing(name: &str, owners: &[&str], finalizer: Option<&str>) -> ObjectMeta {
        let mut metadata = fixture::meta(name);
        metadata.owner_references =
            Some(owners.iter().map(|owner| fixture::owner("v1", "Thing", owner, true)).collect());
        if let Some(finalizer) = finalizer {
            metadata.deletion_timestamp = Some(fixture::time(0));
            metadata.finalizers = Some(vec![finalizer.to_owned()]);
        }
        metadata
    }

    fn observe(graph: &mut Graph, metadata: &ObjectMeta) -> String {
        shown(graph.observe(&gvr("things"), "v1", "Thing", metadata))
    }

    fn shown(work: Vec<Work>) -> String {
        let shown = work.iter().map(|work| match work {
            Work::AttemptDelete(uid) => uid.replace("uid-", "delete? "),
            Work::AttemptOrphan(uid) => uid.replace("uid-", "orphan "),
            Work::ReportInvalidNamespace { dependent, owner } => format!("report {} of {}", owner.name, dependent.name),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn an_owner_that_was_not_seen_is_looked_for() {
        let mut graph = Graph::default();
        assert_eq!(observe(&mut graph, &thing("child", &["parent"], None)), "delete? parent");
        assert!(graph.node("uid-parent").unwrap().is_virtual);
        assert!(!graph.is_kept_by_owners(&graph.node("uid-child").unwrap()));
        assert_eq!(observe(&mut graph, &thing("parent", &[], None)), "");
        assert!(graph.is_kept_by_owners(&graph.node("uid-child").unwrap()));
        assert_eq!(shown(graph.remove("uid-parent")), "delete? child");
    }

    #[test]
    fn a_virtual_owner_found_absent_releases_its_dependents_to_deletion() {
        let mut graph = Graph::default();
        observe(&mut graph, &thing("child", &["parent"], None));
        assert_eq!(shown(graph.remove("uid-parent")), "delete? child");
    }

    #[test]
    fn foreground_deletion_wakes_dependents_and_waits_for_them() {
        let mut graph = Graph::default();
        observe(&mut graph, &thing("parent", &[], None));
        observe(&mut graph, &thing("child", &["parent"], None));
        assert_eq!(observe(&mut graph, &thing("parent", &[], Some(FOREGROUND))), "delete? child, delete? parent");
        assert_eq!(
            observe(&mut graph, &thing("late", &["parent"], None)),
            "delete? late",
            "a late dependent is deleted too"
        );
        assert_eq!(shown(graph.remove("uid-child")), "delete? parent");
    }

    #[test]
    fn orphaning_comes_before_everything_else() {
        let mut graph = Graph::default();
        observe(&mut graph, &thing("parent", &[], None));
        observe(&mut graph, &thing("child", &["parent"], None));
        assert_eq!(observe(&mut graph, &thing("parent", &[], Some(ORPHAN))), "orphan parent");
    }

    #[test]
    fn a_reference_that_goes_frees_the_owner() {
        let mut graph = Graph::default();
        observe(&mut graph, &thing("parent", &[], Some(FOREGROUND)));
        observe(&mut graph, &thing("child", &["parent"], None));
        assert_eq!(observe(&mut graph, &thing("child", &[], None)), "delete? parent");
        assert!(graph.dependents("uid-parent").is_empty());
    }

    #[test]
    fn a_reference_across_namespaces_is_wrong() {
        let mut graph = Graph::default();
        let mut parent = thing("parent", &[], None);
        parent.namespace = Some("elsewhere".to_owned());
        observe(&mut graph, &parent);
        assert_eq!(observe(&mut graph, &thing("child", &["parent"], None)), "delete? child, report parent of child");
        let mut other = Graph::default();
        observe(&mut other, &thing("child", &["parent"], None));
        assert_eq!(
            observe(&mut other, &parent),
            "delete? child, report parent of child",
            "also when the owner is seen later"
        );
    }

    #[test]
    fn dependents_may_disagree_about_an_owner_that_was_not_seen() {
        let mut graph = Graph::default();
        let (one, mut other) = (thing("a", &["parent"], None), thing("b", &["parent"], None));
        other.namespace = Some("elsewhere".to_owned());
        assert_eq!(observe(&mut graph, &one), "delete? parent");
        assert_eq!(
            observe(&mut graph, &other),
            "delete? parent",
            "looked up again, under the identity that the other one claims"
        );
        let claimed = graph.claimed_identities("uid-parent");
        let claimed: Vec<String> =
            claimed.iter().map(|(who, by)| format!("{}/{} by {}", who.namespace, who.name, by.join(" "))).collect();
        assert_eq!(claimed, ["default/parent by uid-a", "elsewhere/parent by uid-b"]);
        graph.remove("uid-a");
        assert!(graph.node("uid-parent").is_some(), "a dependent still refers to it");
        graph.remove("uid-b");
        assert!(graph.node("uid-parent").is_none());
    }

    /// The final graph does not depend on the order in which objects are observed.
    #[test]
    fn the_graph_is_the_same_whatever_comes_first() {
        let objects = [thing("a", &[], None), thing("b", &["a"], None), thing("c", &["a", "b"], None)];
        let build = |order: &[usize]| {
            let mut graph = Graph::default();
            for i in order {
                observe(&mut graph, &objects[*i]);
            }
            graph.entries
        };
        let expected = build(&[0, 1, 2]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(build(&order), expected, "{order:?}");
        }
    }

    #[test]
    fn objects_share_what_they_have_in_common() {
        let mut graph = Graph::default();
        for name in ["a", "b"] {
            observe(&mut graph, &thing(name, &["parent"], None));
        }
        let [a, b] = ["uid-a", "uid-b"].map(|uid| &graph.entries[uid]);
        assert!(Arc::ptr_eq(&a.owners, &b.owners) && Arc::ptr_eq(&a.origin, &b.origin));
        assert_eq!(graph.origins.len(), 2, "the parent was not observed");
        for uid in ["uid-a", "uid-b"] {
            graph.remove(uid);
        }
        assert!(graph.entries.is_empty() && graph.origins.is_empty());
    }

    #[test]
    fn a_copy_is_equal() {
        let build = || {
            let mut graph = Graph::default();
            for number in 0..=ADDED_LEAST {
                observe(&mut graph, &thing(&format!("child-{number}"), &["parent"], None));
            }
            graph
        };
        let mut graph = build();
        graph.compact();
        assert_eq!(graph.added, 0);
        assert_eq!(graph.entries, build().entries);
        assert_eq!(graph.dependents("uid-parent").len(), ADDED_LEAST + 1);
    }
}
