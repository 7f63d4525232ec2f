//! `Graph`, the owners and dependents of all objects that can be deleted. Watch events of their metadata update it.
//!
//! Corresponds to pkg/controller/garbagecollector/graph.go and graph_builder.go. The graph is derived state and may be
//! stale, so the server is asked for an absent owner before anything is deleted.

use proto::Gvr;
use proto::gvk::split_api_version;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet};

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// The identity of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-scoped objects. For an object known from references alone, the namespace of its dependent.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Known after the object itself was observed.
    pub gvr: Option<Gvr>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub identity: Identity,
    pub owners: Vec<OwnerReference>,
    pub dependents: BTreeSet<String>,
    /// True if the object is known from references alone; it may not exist.
    pub is_virtual: bool,
    pub is_deleting: bool,
    /// True if the object is being deleted in the foreground, and waits for its dependents.
    pub deletes_dependents: bool,
}

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

#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<String, Node>,
}

impl Graph {
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<Node> {
        let dependents = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        dependents.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
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
        let uid = text(&metadata.uid);
        let identity = Identity {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: uid.clone(),
            gvr: Some(gvr.clone()),
        };
        let owners = metadata.owner_references.clone().unwrap_or_default();
        let mut work = Vec::new();
        let is_known = self.nodes.contains_key(&uid);
        // A node may have thousands of dependents, which stay as they are.
        let node = self.nodes.entry(uid.clone()).or_default();
        let was_virtual = is_known && node.is_virtual;
        let owners_before = std::mem::replace(&mut node.owners, owners.clone());
        node.identity = identity;
        node.is_virtual = false;
        node.is_deleting = metadata.deletion_timestamp.is_some();
        let waits_for =
            |finalizer: &str| node.is_deleting && metadata.finalizers.iter().flatten().any(|own| own == finalizer);
        let (orphans, foreground) = (waits_for(ORPHAN), waits_for(FOREGROUND));
        node.deletes_dependents = foreground;
        self.unblock_owners(&owners_before, &owners, &mut work);
        self.relink(&uid, &owners_before, &owners, &mut work);
        if was_virtual {
            self.check_references_to(&uid, &mut work);
        }
        if orphans {
            work.push(Work::AttemptOrphan(uid));
        } else if foreground {
            let dependents = self.nodes[&uid].dependents.iter().cloned().map(Work::AttemptDelete);
            work.extend(dependents.collect::<Vec<_>>());
            work.push(Work::AttemptDelete(uid));
        }
        work
    }

    /// Removes a deleted object. Returns work for its dependents, and for owners that wait for it.
    pub fn remove(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut work: Vec<Work> = node.dependents.iter().cloned().map(Work::AttemptDelete).collect();
        for owner in &node.owners {
            self.unlink(uid, &owner.uid);
            if self.nodes.get(&owner.uid).is_some_and(|owner| owner.deletes_dependents) {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            }
        }
        work
    }

    /// Updates the edges to the owners. An owner that was never observed gets a virtual node, and is looked up.
    fn relink(&mut self, uid: &str, before: &[OwnerReference], after: &[OwnerReference], work: &mut Vec<Work>) {
        for owner in before.iter().filter(|owner| !after.iter().any(|other| other.uid == owner.uid)) {
            self.unlink(uid, &owner.uid);
        }
        let namespace = self.nodes[uid].identity.namespace.clone();
        let identity = self.nodes[uid].identity.clone();
        for owner in after {
            let is_new = !before.iter().any(|other| other.uid == owner.uid);
            let node = self.nodes.entry(owner.uid.clone()).or_insert_with(|| Node {
                identity: referenced_identity(owner, &namespace),
                is_virtual: true,
                ..Node::default()
            });
            node.dependents.insert(uid.to_owned());
            if !is_new {
                continue;
            }
            if node.is_virtual {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            } else {
                work.extend(check_reference(&identity, owner, &node.identity));
                if node.deletes_dependents {
                    work.push(Work::AttemptDelete(uid.to_owned()));
                }
            }
        }
    }

    /// Removes an edge. A virtual node without dependents is removed too.
    fn unlink(&mut self, uid: &str, owner_uid: &str) {
        let Some(owner) = self.nodes.get_mut(owner_uid) else { return };
        owner.dependents.remove(uid);
        if owner.is_virtual && owner.dependents.is_empty() {
            self.nodes.remove(owner_uid);
        }
    }

    /// Adds owners that wait for their dependents, if a reference to them was removed or no longer blocks.
    fn unblock_owners(&self, before: &[OwnerReference], after: &[OwnerReference], work: &mut Vec<Work>) {
        let blocks = |owner: &OwnerReference| owner.block_owner_deletion == Some(true);
        for owner in before.iter().filter(|owner| blocks(owner)) {
            let still = after.iter().any(|other| other.uid == owner.uid && blocks(other));
            if !still && self.nodes.contains_key(&owner.uid) {
                work.push(Work::AttemptDelete(owner.uid.clone()));
            }
        }
    }

    /// Adds the dependents whose reference does not match an owner that was just observed.
    fn check_references_to(&self, uid: &str, work: &mut Vec<Work>) {
        let present = &self.nodes[uid];
        for dependent in present.dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for owner in dependent.owners.iter().filter(|owner| owner.uid == uid) {
                work.extend(check_reference(&dependent.identity, owner, &present.identity));
            }
        }
    }

    /// Returns true if the graph shows nothing to do about an object: it does not wait for dependents, and all its
    /// owners exist, match its references, and do not wait for it.
    pub fn is_kept_by_owners(&self, node: &Node) -> bool {
        let keeps = |owner: &OwnerReference| {
            self.nodes.get(&owner.uid).is_some_and(|present| {
                !present.is_virtual
                    && !present.deletes_dependents
                    && refers_to(owner, &node.identity.namespace, &present.identity)
            })
        };
        !node.is_virtual && !node.deletes_dependents && node.owners.iter().all(keeps)
    }
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

/// Returns the work for a dependent whose reference does not match the present owner.
fn check_reference(dependent: &Identity, owner: &OwnerReference, present: &Identity) -> Vec<Work> {
    if refers_to(owner, &dependent.namespace, present) {
        return Vec::new();
    }
    let mut work = vec![Work::AttemptDelete(dependent.uid.clone())];
    if !present.namespace.is_empty() && present.namespace != dependent.namespace {
        work.push(Work::ReportInvalidNamespace { dependent: dependent.clone(), owner: owner.clone() });
    }
    work
}

/// Returns true if a reference in an object of `namespace` matches this object: the same group, kind and name, and the
/// same namespace or none.
fn refers_to(owner: &OwnerReference, namespace: &str, identity: &Identity) -> bool {
    let group = |api_version: &str| split_api_version(api_version).0.to_owned();
    owner.kind == identity.kind
        && owner.name == identity.name
        && group(&owner.api_version) == group(&identity.api_version)
        && (identity.namespace.is_empty() || identity.namespace == namespace)
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
        assert!(!graph.is_kept_by_owners(graph.node("uid-child").unwrap()));
        assert_eq!(observe(&mut graph, &thing("parent", &[], None)), "");
        assert!(graph.is_kept_by_owners(graph.node("uid-child").unwrap()));
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
            graph.nodes
        };
        let expected = build(&[0, 1, 2]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(build(&order), expected, "{order:?}");
        }
    }
}
