//! `Lister`: reads from an informer's store, in the order of keys.
//!
//! Corresponds to k8s.io/client-go/listers.

use crate::cached::{Cached, key, typed};
use crate::store::{Store, Which};
use proto::meta::selector::Selector;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What the server said last, as far as this process has heard. Objects are shared and never change in place.
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
    /// Of a store that holds objects of this type.
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    /// A lister of given objects, for tests of what only reads.
    pub fn of(objects: impl IntoIterator<Item = T>) -> Self {
        let store = Store::default();
        for object in objects {
            store.insert(Arc::new(object));
        }
        Self::new(Arc::new(store))
    }

    fn read(&self, which: Which<'_>) -> Vec<Arc<T>> {
        let mut found = Vec::new();
        self.store.each(which, &mut |object| found.push(typed(object.clone())));
        found
    }

    /// An empty namespace is a cluster-scoped object's.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.by_key(&key(namespace, name))
    }

    pub fn by_key(&self, key: &str) -> Option<Arc<T>> {
        self.store.get(key).map(typed)
    }

    pub fn list(&self) -> Vec<Arc<T>> {
        self.read(Which::All)
    }

    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.read(Which::Namespace(namespace))
    }

    /// The objects that the index of that name files under `value`.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<T>> {
        self.read(Which::Indexed { index: name, value })
    }

    /// All values of an index that some object has.
    pub fn index_values(&self, name: &str) -> Vec<String> {
        self.store.index_values(name)
    }

    /// The version of the collection that the objects are as of, as the last event or bookmark said; `None` before the
    /// first one. Corresponds to LastStoreSyncResourceVersion.
    pub fn synced_version(&self) -> Option<u64> {
        self.store.synced_version()
    }

    /// Those of a namespace (of all, where it is empty) whose labels the selector matches.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<T>> {
        let none = BTreeMap::new();
        self.filter(namespace, |object| selector.matches(object.metadata().labels.as_ref().unwrap_or(&none)))
    }

    /// Those of a namespace (of all, where it is empty) that `wanted` accepts.
    pub fn filter(&self, namespace: &str, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = if namespace.is_empty() { self.list() } else { self.in_namespace(namespace) };
        objects.retain(|object| wanted(object));
        objects
    }
}
