//! `Lister`: reads from an informer's store, in the order of keys.
//!
//! Corresponds to k8s.io/client-go/listers.

use crate::cached::{Cached, key, typed, typed_ref};
use crate::label_sets;
use crate::store::{Selection, Store};
use proto::meta::selector::Selector;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A read-only view of an informer's store, which may lag behind the server. Objects are shared and immutable.
pub struct Lister<T> {
    store: Arc<Store>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), kind: PhantomData }
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("len", &self.store.len()).finish_non_exhaustive()
    }
}

impl<T: Cached> Lister<T> {
    /// Reads a store whose objects have this type.
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    /// Makes a lister of given objects, for tests.
    pub fn of(objects: impl IntoIterator<Item = T>) -> Self {
        let store = Store::default();
        for object in objects {
            store.insert(Arc::new(object));
        }
        Self::new(Arc::new(store))
    }

    /// Adds an index to a lister of given objects.
    #[must_use]
    pub fn indexed(self, name: &'static str, values: fn(&T) -> Vec<String>) -> Self {
        self.store.index(name, Box::new(move |object| values(typed_ref(object))));
        self
    }

    fn read(&self, selection: Selection<'_>) -> Vec<Arc<T>> {
        self.store.read(selection).into_iter().map(typed).collect()
    }

    /// Returns an object; the namespace of a cluster-scoped one is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.by_key(&key(namespace, name))
    }

    pub fn by_key(&self, key: &str) -> Option<Arc<T>> {
        self.store.get(key).map(typed)
    }

    pub fn list(&self) -> Vec<Arc<T>> {
        self.read(Selection::All)
    }

    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.read(Selection::Namespace(namespace))
    }

    /// Returns the objects with that value in an index.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<T>> {
        self.read(Selection::Indexed { index: name, value })
    }

    /// Returns the number of objects with that value in an index.
    pub fn count_by_index(&self, name: &str, value: &str) -> usize {
        self.store.count(name, value)
    }

    /// Returns the objects with a value in an index that begins with `prefix` and whose rest `wanted` accepts.
    pub fn by_values(&self, index: &str, prefix: &str, wanted: impl Fn(&str) -> bool) -> Vec<Arc<T>> {
        self.read(Selection::Accepted { index, prefix, wanted: &wanted })
    }

    /// Calls a function with the rest of each value in an index that begins with `prefix`, and the number of its objects. No
    /// object is looked at.
    pub fn count_by_values(&self, index: &str, prefix: &str, count: impl FnMut(&str, usize)) {
        self.store.counts(index, prefix, count);
    }

    /// Returns all values in an index.
    pub fn index_values(&self, name: &str) -> Vec<String> {
        self.store.index_values(name)
    }

    /// Returns the collection's version in the store, from the last event or bookmark; `None` before the first one.
    /// Corresponds to LastStoreSyncResourceVersion.
    pub fn synced_version(&self) -> Option<u64> {
        self.store.synced_version()
    }

    /// Returns the objects of a namespace, or of all if it is empty, that a label selector matches.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<T>> {
        self.with_labels(namespace, |labels| selector.matches(labels))
    }

    /// Returns the objects of a namespace, or of all if it is empty, whose labels `wanted` accepts. In a store with an index of
    /// label sets it is asked once for each set, and other objects are not looked at.
    pub fn with_labels(&self, namespace: &str, wanted: impl Fn(&BTreeMap<String, String>) -> bool) -> Vec<Arc<T>> {
        if namespace.is_empty() || !self.store.has_index(label_sets::INDEX) {
            let none = BTreeMap::new();
            return self.filter(namespace, |object| wanted(object.metadata().labels.as_ref().unwrap_or(&none)));
        }
        let accepts = |set: &str| wanted(&label_sets::parse(set));
        let prefix = label_sets::prefix(namespace);
        self.read(Selection::Accepted { index: label_sets::INDEX, prefix: &prefix, wanted: &accepts })
    }

    /// Returns the objects of a namespace, or of all if it is empty, that `wanted` accepts.
    pub fn filter(&self, namespace: &str, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = if namespace.is_empty() { self.list() } else { self.in_namespace(namespace) };
        objects.retain(|object| wanted(object));
        objects
    }
}
