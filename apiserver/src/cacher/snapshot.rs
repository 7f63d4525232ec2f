//! `Snapshot`: the objects of one row at one revision. Taking one costs nothing and holds no lock.
//!
//! Corresponds to the ordered store snapshots of k8s.io/apiserver/pkg/storage/cacher/store_btree.go.

use crate::storage::{Key, prefix_end};
use imbl::OrdMap;
use proto::object::Object;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) prefix: Arc<str>,
    pub(super) objects: OrdMap<Key, Arc<Object>>,
    /// The store revision at which these were all the row's objects.
    pub revision: u64,
}

/// Which objects a request is about: all, those of a namespace, or the one of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Empty: all namespaces, or a cluster-scoped row.
    pub namespace: String,
    pub name: Option<String>,
}

impl Scope {
    pub fn all() -> Self {
        Self::default()
    }

    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: None }
    }

    pub fn object(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: Some(name.to_owned()) }
    }

    /// The keys of this scope in the row under `prefix`: `start <= key < end`.
    pub fn keys(&self, prefix: &str) -> (String, String) {
        match &self.name {
            Some(name) => {
                let key = object_key(prefix, &self.namespace, name);
                let end = format!("{key}\0");
                (key, end)
            }
            None if self.namespace.is_empty() => (prefix.to_owned(), prefix_end(prefix)),
            None => {
                let start = format!("{prefix}{}/", self.namespace);
                let end = prefix_end(&start);
                (start, end)
            }
        }
    }
}

/// `<prefix><namespace>/<name>`, or `<prefix><name>` in a cluster-scoped row.
pub fn object_key(prefix: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{prefix}{name}") } else { format!("{prefix}{namespace}/{name}") }
}

impl Snapshot {
    /// The namespace is empty in a cluster-scoped row.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(object_key(&self.prefix, namespace, name).as_str())
    }

    /// The same objects, if perhaps at another revision. Costs nothing; equal contents from two writes may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.objects.ptr_eq(&other.objects)
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every object, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        self.objects.iter()
    }

    /// The objects of one namespace, in the order of keys.
    pub fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        let (start, end) = Scope::namespace(namespace).keys(&self.prefix);
        self.range(&start, &end)
    }

    /// The objects of a scope, in the order of keys.
    pub fn scope<'a>(&'a self, scope: &Scope) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        let (start, end) = scope.keys(&self.prefix);
        self.range(&start, &end)
    }

    /// Those with `start <= key < end`, in the order of keys: the rest of a list that is read page by page.
    pub fn range<'a>(&'a self, start: &str, end: &str) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        // An empty range is a start without an end: BTree ranges refuse bounds that are out of order.
        let end = end.max(start);
        self.objects.range::<_, str>((Bound::Included(start), Bound::Excluded(end)))
    }
}
