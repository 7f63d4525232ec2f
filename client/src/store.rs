//! `Store`: the objects of one collection by key, with indexes, all derived from what the server said.
//!
//! Corresponds to ThreadSafeStore and Indexer of k8s.io/client-go/tools/cache.

use crate::cached::{AnyCached, key_of, split_key};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values under which an object is found in one index.
pub(crate) type IndexFn = Box<dyn Fn(&dyn AnyCached) -> Vec<String> + Send + Sync>;

/// Written by one reflector, read by anybody. All objects are of one type.
#[derive(Default)]
pub(crate) struct Store {
    contents: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Arc<dyn AnyCached>>,
    indexes: BTreeMap<&'static str, Index>,
    /// The version of the collection that the objects are as of; `None` before the first one is known.
    synced_version: Option<u64>,
}

struct Index {
    values: IndexFn,
    /// Keys of objects by value.
    entries: BTreeMap<String, BTreeSet<String>>,
}

impl Index {
    fn insert(&mut self, key: &str, object: &dyn AnyCached) {
        for value in (self.values)(object) {
            self.entries.entry(value).or_default().insert(key.to_owned());
        }
    }

    fn remove(&mut self, key: &str, object: &dyn AnyCached) {
        for value in (self.values)(object) {
            if let Some(keys) = self.entries.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.entries.remove(&value);
                }
            }
        }
    }
}

/// Which objects of a store are asked for; always in the order of keys.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    All,
    Namespace(&'a str),
    /// Those that an index files under a value.
    Indexed {
        index: &'a str,
        value: &'a str,
    },
}

impl Store {
    /// Adds an index, filled from what is there. The same name again changes nothing.
    pub(crate) fn index(&self, name: &'static str, values: IndexFn) {
        let mut contents = self.contents.write();
        let Contents { objects, indexes, .. } = &mut *contents;
        indexes.entry(name).or_insert_with(|| {
            let mut index = Index { values, entries: BTreeMap::new() };
            for (key, object) in &*objects {
                index.insert(key, &**object);
            }
            index
        });
    }

    /// Answers what was there before.
    pub(crate) fn insert(&self, object: Arc<dyn AnyCached>) -> Option<Arc<dyn AnyCached>> {
        self.insert_as_of(object, None)
    }

    /// The same, and the store is as of `version` from then on: nobody sees one without the other.
    pub(crate) fn insert_as_of(&self, object: Arc<dyn AnyCached>, version: Option<u64>) -> Option<Arc<dyn AnyCached>> {
        let key = key_of(object.meta());
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
        let old = contents.objects.insert(key.clone(), object.clone());
        for index in contents.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, &**old);
            }
            index.insert(&key, &*object);
        }
        old
    }

    /// Takes out an object, and answers what was there; with the version as for `insert_as_of`.
    pub(crate) fn remove_as_of(&self, key: &str, version: Option<u64>) -> Option<Arc<dyn AnyCached>> {
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
        let old = contents.objects.remove(key)?;
        for index in contents.indexes.values_mut() {
            index.remove(key, &*old);
        }
        Some(old)
    }

    /// Everything up to `version` has come.
    pub(crate) fn advance(&self, version: Option<u64>) {
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
    }

    pub(crate) fn synced_version(&self) -> Option<u64> {
        self.contents.read().synced_version
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.contents.read().objects.keys().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.contents.read().objects.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<dyn AnyCached>> {
        self.contents.read().objects.get(key).cloned()
    }

    /// Hands each to `take`, which must not ask the store again. Panics where there is no such index: a mistake in the
    /// program, not in its input.
    pub(crate) fn each(&self, which: Which<'_>, take: &mut dyn FnMut(&Arc<dyn AnyCached>)) {
        let contents = self.contents.read();
        match which {
            Which::All => contents.objects.values().for_each(take),
            Which::Namespace(namespace) => {
                let from = contents.objects.range(format!("{namespace}/")..);
                from.take_while(|(key, _)| split_key(key).0 == namespace).for_each(|(_, object)| take(object));
            }
            Which::Indexed { index: name, value } => {
                let index = contents.indexes.get(name).unwrap_or_else(|| panic!("no index {name:?} on this informer"));
                let keys = index.entries.get(value).into_iter().flatten();
                keys.filter_map(|key| contents.objects.get(key)).for_each(take);
            }
        }
    }

    /// All values of an index that some object has.
    pub(crate) fn index_values(&self, name: &str) -> Vec<String> {
        let contents = self.contents.read();
        contents.indexes.get(name).map(|index| index.entries.keys().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::{Cached, PartialObject, typed, typed_ref};
    use proptest::prelude::*;

    fn object(namespace: &str, name: &str, labels: &[(&str, &str)]) -> Arc<PartialObject> {
        let mut object = PartialObject::default();
        object.metadata.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        object.metadata.name = Some(name.to_owned());
        object.metadata.labels = Some(labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect());
        Arc::new(object)
    }

    fn labels(object: &PartialObject) -> Vec<String> {
        object.metadata.labels.iter().flatten().map(|(k, v)| format!("{k}={v}")).collect()
    }

    fn indexed() -> Store {
        let store = Store::default();
        store.index("labels", Box::new(|object| labels(typed_ref(object))));
        store
    }

    fn read(store: &Store, which: Which<'_>) -> Vec<Arc<PartialObject>> {
        let mut found = Vec::new();
        store.each(which, &mut |object| found.push(typed(object.clone())));
        found
    }

    fn labelled<'a>(value: &'a str) -> Which<'a> {
        Which::Indexed { index: "labels", value }
    }

    #[test]
    fn a_namespace_is_not_its_neighbours() {
        let store = indexed();
        for (namespace, name) in [("a", "z"), ("a-b", "x"), ("a", "b"), ("", "a"), ("ab", "c")] {
            store.insert(object(namespace, name, &[]));
        }
        let keys: Vec<String> = read(&store, Which::Namespace("a")).iter().map(|o| o.cache_key()).collect();
        assert_eq!(keys, ["a/b", "a/z"]);
    }

    #[test]
    fn an_index_may_come_late() {
        let store = Store::default();
        store.insert(object("a", "b", &[("app", "web")]));
        store.index("labels", Box::new(|object| labels(typed_ref(object))));
        assert_eq!(read(&store, labelled("app=web")).len(), 1);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8, u8),
        Remove(u8),
    }

    proptest! {
        /// The invariant of derived state: kept step by step, it equals a rebuild from scratch.
        #[test]
        fn indexes_equal_a_rebuild(ops in prop::collection::vec(
            prop_oneof![(0u8..6, 0u8..8).prop_map(|(n, l)| Op::Insert(n, l)), (0u8..6).prop_map(Op::Remove)], 0..60))
        {
            let store = indexed();
            let mut model: BTreeMap<String, Arc<PartialObject>> = BTreeMap::new();
            for op in ops {
                match op {
                    Op::Insert(name, bits) => {
                        let values = [("a", "1"), ("b", "1"), ("b", "2")];
                        let chosen: Vec<_> =
                            values.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, v)| *v).collect();
                        let object = object("ns", &format!("n{name}"), &chosen);
                        prop_assert_eq!(store.insert(object.clone()).map(typed), model.insert(object.cache_key(), object));
                    }
                    Op::Remove(name) => {
                        let key = format!("ns/n{name}");
                        prop_assert_eq!(store.remove_as_of(&key, None).map(typed), model.remove(&key));
                    }
                }
            }
            let rebuilt = indexed();
            for object in model.values() {
                rebuilt.insert(object.clone());
            }
            prop_assert_eq!(read(&store, Which::All), model.values().cloned().collect::<Vec<_>>());
            prop_assert_eq!(store.index_values("labels"), rebuilt.index_values("labels"));
            for value in rebuilt.index_values("labels") {
                prop_assert_eq!(read(&store, labelled(&value)), read(&rebuilt, labelled(&value)));
            }
        }
    }
}
