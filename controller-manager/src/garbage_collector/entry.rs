//! `Entry`: an object as the graph holds it.
//!
//! Corresponds to node in pkg/controller/garbagecollector/graph.go. What objects have in common is held once: the resource and
//! namespace of all objects of a kind, and the owner references of all pods of a ReplicaSet.

use proto::Gvr;
use proto::gvk::split_api_version;
use proto::kinds::metav1::OwnerReference;
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// An object, as the graph shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub identity: Identity,
    pub owners: Vec<OwnerReference>,
    /// True if the object is known from references alone; it may not exist.
    pub is_virtual: bool,
    pub is_deleting: bool,
    /// True if the object is being deleted in the foreground, and waits for its dependents.
    pub deletes_dependents: bool,
}

/// What the identities of objects of one kind and namespace have in common.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub gvr: Option<Gvr>,
}

/// One object; the fields are those of `Node`.
#[derive(Debug, Default, PartialEq)]
pub struct Entry {
    pub origin: Arc<Origin>,
    pub name: Box<str>,
    pub owners: Arc<[OwnerReference]>,
    pub dependents: BTreeSet<Arc<str>>,
    pub is_virtual: bool,
    pub is_deleting: bool,
    pub deletes_dependents: bool,
}

impl Entry {
    pub fn identity(&self, uid: &str) -> Identity {
        Identity {
            api_version: self.origin.api_version.clone(),
            kind: self.origin.kind.clone(),
            namespace: self.origin.namespace.clone(),
            name: self.name.to_string(),
            uid: uid.to_owned(),
            gvr: self.origin.gvr.clone(),
        }
    }

    pub fn node(&self, uid: &str) -> Node {
        Node {
            identity: self.identity(uid),
            owners: self.owners.to_vec(),
            is_virtual: self.is_virtual,
            is_deleting: self.is_deleting,
            deletes_dependents: self.deletes_dependents,
        }
    }

    /// Returns a copy with these dependents. Its name is copied; what objects share stays shared.
    pub fn with_dependents(&self, dependents: BTreeSet<Arc<str>>) -> Self {
        Self {
            origin: self.origin.clone(),
            name: self.name.clone(),
            owners: self.owners.clone(),
            dependents,
            is_virtual: self.is_virtual,
            is_deleting: self.is_deleting,
            deletes_dependents: self.deletes_dependents,
        }
    }

    /// Returns true if a reference in an object of `namespace` matches this object: the same group, kind and name, and the
    /// same namespace or none.
    pub fn is_referred_to(&self, owner: &OwnerReference, namespace: &str) -> bool {
        let own = &*self.origin;
        owner.kind == own.kind
            && *owner.name == *self.name
            && split_api_version(&owner.api_version).0 == split_api_version(&own.api_version).0
            && (own.namespace.is_empty() || own.namespace == namespace)
    }
}
