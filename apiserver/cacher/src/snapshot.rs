//! `Snapshot`: the objects of one row at one revision. Taking one costs nothing and holds no lock.
//!
//! Corresponds to the ordered store snapshots of k8s.io/apiserver/pkg/storage/cacher/store_btree.go.

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use proto::object::Object;
use std::ops::Bound;
use std::sync::Arc;
use storage::{Key, prefix_end};

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) prefix: Arc<str>,
    pub(super) objects: OrdMap<Key, Arc<Object>>,
    /// The store revision at which these were all objects of the row.
    pub revision: u64,
}

/// The objects that a request selects: all, those of a namespace, or a single one.
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

    /// Returns the keys of this scope in the row under `prefix`: `start <= key < end`.
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

/// Returns `<prefix><namespace>/<name>`, or `<prefix><name>` in a cluster-scoped row.
pub fn object_key(prefix: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{prefix}{name}") } else { format!("{prefix}{namespace}/{name}") }
}

impl Snapshot {
    /// Returns an object. The namespace is empty in a cluster-scoped row.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(object_key(&self.prefix, namespace, name).as_str())
    }

    /// Returns whether both share the same map, at any revision. Costs nothing; equal objects from two writes may
    /// differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.objects.ptr_eq(&other.objects)
    }

    /// Returns whether both hold the same objects by name and revision. Costs nothing if `is_same` returns true.
    pub fn equals(&self, other: &Self) -> bool {
        let is_one = |(a, b): ((&Key, &Arc<Object>), (&Key, &Arc<Object>))| (a.0, a.1.revision) == (b.0, b.1.revision);
        self.is_same(other) || self.len() == other.len() && self.objects.iter().zip(&other.objects).all(is_one)
    }

    /// Returns the differences from an earlier snapshot of the row, in the order of keys: each object as it was then
    /// and as it is now, of which one may be absent. The cost grows with the number of differences, not of objects.
    pub fn since<'a>(
        &'a self,
        then: &'a Self,
    ) -> impl Iterator<Item = (Option<&'a Arc<Object>>, Option<&'a Arc<Object>>)> {
        then.objects.diff(&self.objects).map(|change| match change {
            DiffItem::Add(_, now) => (None, Some(now)),
            DiffItem::Update { old: (_, then), new: (_, now) } => (Some(then), Some(now)),
            DiffItem::Remove(_, then) => (Some(then), None),
        })
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns every object, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        self.objects.iter()
    }

    /// Returns the objects of one namespace, in the order of keys.
    pub fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        let (start, end) = Scope::namespace(namespace).keys(&self.prefix);
        self.range(&start, &end)
    }

    /// Returns the objects of a scope, in the order of keys.
    pub fn scope<'a>(&'a self, scope: &Scope) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        let (start, end) = scope.keys(&self.prefix);
        self.range(&start, &end)
    }

    /// Returns the objects with `start <= key < end`, in the order of keys: the rest of a list that is read page by
    /// page.
    pub fn range<'a>(&'a self, start: &str, end: &str) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        // A range whose start is not before its end is empty: BTree ranges panic if the bounds are out of order.
        let end = end.max(start);
        self.objects.range::<_, str>((Bound::Included(start), Bound::Excluded(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn snapshot(revisions: &[(&str, u64)]) -> Snapshot {
        let object =
            |name: &str, revision| Object::from_value(json!({"metadata": {"name": name}}), revision, BTreeMap::new());
        let entry = |&(name, revision): &(&str, u64)| (Key::from(name), Arc::new(object(name, revision)));
        Snapshot { prefix: "/".into(), objects: revisions.iter().map(entry).collect(), revision: 0 }
    }

    #[test]
    fn changes_are_what_came_what_went_and_what_has_another_revision() {
        let then = snapshot(&[("a", 1), ("b", 2), ("c", 3)]);
        let now = snapshot(&[("a", 1), ("b", 4), ("d", 5)]);
        let shown: Vec<_> = now
            .since(&then)
            .map(|(then, now)| (then.map(|object| object.revision), now.map(|object| object.revision)))
            .collect();
        assert_eq!(shown, [(Some(2), Some(4)), (Some(3), None), (None, Some(5))]);
        assert_eq!(now.since(&now.clone()).count(), 0);
    }
}
