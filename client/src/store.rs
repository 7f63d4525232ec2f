//! `Store`: the cached objects of one collection by key, with indexes.
//!
//! Corresponds to ThreadSafeStore and Indexer of k8s.io/client-go/tools/cache.

use crate::cached::{AnyCached, Codec, key_of, split_key};
use crate::packed::{Packed, Packing};
use crate::staging::{Staged, Staging};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Returns the values of an object in one index.
pub(crate) type IndexFn = Box<dyn Fn(&dyn AnyCached) -> Vec<String> + Send + Sync>;

/// A store with one writer, its reflector, and many readers. All objects have one type.
#[derive(Default)]
pub(crate) struct Store {
    contents: RwLock<Contents>,
    /// Set if the store packs objects.
    packing: OnceLock<Packing>,
}

/// An object as the store holds it.
#[derive(Clone)]
enum Held {
    /// With the number of the change that brought it.
    Whole(Arc<dyn AnyCached>, u64),
    Packed(Packed),
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Held>,
    /// Number of changes so far.
    changes: u64,
    /// The last changes, oldest first, with their keys; empty in a store that does not pack.
    recent: VecDeque<(u64, String)>,
    indexes: BTreeMap<&'static str, Index>,
    /// Version of the collection in the store; `None` before the first one is known.
    synced_version: Option<u64>,
}

struct Index {
    values: IndexFn,
    /// Keys of objects, by value.
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

impl Contents {
    /// Removes changes until `whole` are left. Returns the first object that is still as such a change left it.
    fn take_oldest(&mut self, whole: usize) -> Option<(u64, String, Arc<dyn AnyCached>)> {
        while self.recent.len() > whole {
            let (change, key) = self.recent.pop_front()?;
            if let Some(Held::Whole(object, since)) = self.objects.get(&key)
                && *since == change
            {
                return Some((change, key, object.clone()));
            }
        }
        None
    }
}

/// An object that was inserted, and the one that it replaces.
pub(crate) struct Inserted {
    pub object: Arc<dyn AnyCached>,
    pub replaced: Option<Arc<dyn AnyCached>>,
}

/// The objects to read from a store, always in the order of keys.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    All,
    Namespace(&'a str),
    /// The objects with a value in an index.
    Indexed {
        index: &'a str,
        value: &'a str,
    },
}

impl Store {
    /// Adds an index of all objects. A name that exists already changes nothing.
    pub(crate) fn index(&self, name: &'static str, values: IndexFn) {
        let mut contents = self.contents.write();
        let Contents { objects, indexes, .. } = &mut *contents;
        indexes.entry(name).or_insert_with(|| {
            let mut index = Index { values, entries: BTreeMap::new() };
            for (key, held) in &*objects {
                index.insert(key, &*self.whole(held.clone()));
            }
            index
        });
    }

    fn whole(&self, held: Held) -> Arc<dyn AnyCached> {
        match held {
            Held::Whole(object, _) => object,
            Held::Packed(packed) => self.unpack(&packed),
        }
    }

    fn unpack(&self, packed: &Packed) -> Arc<dyn AnyCached> {
        self.packing.get().expect("a store that packs has packed it").unpack(packed)
    }

    /// Lets the store hold the objects of the last `whole` changes whole, and pack all others. Objects that are in the
    /// store already stay whole until they change. A second call changes nothing.
    pub(crate) fn pack_beyond(&self, whole: usize, codec: Codec) {
        self.packing.get_or_init(|| Packing::new(codec, whole));
    }

    /// Packs the objects whose changes are not among the last ones any more.
    fn pack_oldest(&self) {
        let Some(packing) = self.packing.get() else { return };
        loop {
            let oldest = self.contents.write().take_oldest(packing.whole);
            let Some((change, key, object)) = oldest else { return };
            let packed = packing.pack(&*object);
            if let Some(held) = self.contents.write().objects.get_mut(&key)
                && matches!(held, Held::Whole(_, since) if *since == change)
            {
                *held = Held::Packed(packed);
            }
        }
    }

    /// Inserts an object, and returns the one that it replaces.
    pub(crate) fn insert(&self, object: Arc<dyn AnyCached>) -> Option<Arc<dyn AnyCached>> {
        self.insert_as_of(object, None)
    }

    /// Adds an object to a list that is being read.
    pub(crate) fn stage(&self, list: &mut Staging, object: Arc<dyn AnyCached>) {
        list.insert(object, self.packing.get());
    }

    /// Inserts an object of a list that has been read; returns `None` if the store holds the same one packed.
    pub(crate) fn insert_staged(&self, key: &str, staged: Staged) -> Option<Inserted> {
        let (object, packed) = match staged {
            Staged::Whole(object) => (object, None),
            Staged::Packed(packed) => {
                let is_held = match self.contents.read().objects.get(key) {
                    Some(Held::Packed(held)) => *held == packed,
                    _ => false,
                };
                if is_held {
                    return None;
                }
                (self.unpack(&packed), Some(packed))
            }
        };
        let replaced = self.put(object.clone(), packed, None);
        Some(Inserted { object, replaced })
    }

    /// Inserts an object and sets the store's version atomically. Returns the replaced object.
    pub(crate) fn insert_as_of(&self, object: Arc<dyn AnyCached>, version: Option<u64>) -> Option<Arc<dyn AnyCached>> {
        self.put(object, None, version)
    }

    /// Inserts an object, which stays packed if its packed form is given.
    fn put(
        &self,
        object: Arc<dyn AnyCached>,
        packed: Option<Packed>,
        version: Option<u64>,
    ) -> Option<Arc<dyn AnyCached>> {
        let key = key_of(object.meta());
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
        let old = contents.objects.get(&key).cloned();
        let stays = packed.is_some() || matches!(old, Some(Held::Packed(_)));
        let old = old.map(|held| self.whole(held));
        if old.as_ref().is_some_and(|old| stays && is_same_version(&**old, &*object)) {
            return old;
        }
        for index in contents.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, &**old);
            }
            index.insert(&key, &*object);
        }
        contents.changes += 1;
        let change = contents.changes;
        if packed.is_none() && self.packing.get().is_some() {
            contents.recent.push_back((change, key.clone()));
        }
        contents.objects.insert(key, packed.map_or(Held::Whole(object, change), Held::Packed));
        drop(contents);
        self.pack_oldest();
        old
    }

    /// Removes an object and sets the store's version atomically. Returns the removed object.
    pub(crate) fn remove_as_of(&self, key: &str, version: Option<u64>) -> Option<Arc<dyn AnyCached>> {
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
        let old = self.whole(contents.objects.remove(key)?);
        for index in contents.indexes.values_mut() {
            index.remove(key, &*old);
        }
        Some(old)
    }

    /// Sets the store's version, after all changes up to it.
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
        let held = self.contents.read().objects.get(key).cloned();
        held.map(|held| self.whole(held))
    }

    /// Returns objects. Panics if there is no such index, which is a mistake in the program.
    pub(crate) fn read(&self, selection: Selection<'_>) -> impl Iterator<Item = Arc<dyn AnyCached>> {
        // Packed ones are unpacked without the lock.
        self.held(selection).into_iter().map(|held| self.whole(held))
    }

    fn held(&self, selection: Selection<'_>) -> Vec<Held> {
        let contents = self.contents.read();
        match selection {
            Selection::All => contents.objects.values().cloned().collect(),
            Selection::Namespace(namespace) => {
                let from = contents.objects.range(format!("{namespace}/")..);
                from.take_while(|(key, _)| split_key(key).0 == namespace).map(|(_, held)| held.clone()).collect()
            }
            Selection::Indexed { index: name, value } => {
                let index = contents.indexes.get(name).unwrap_or_else(|| panic!("no index {name:?} on this informer"));
                let keys = index.entries.get(value).into_iter().flatten();
                keys.filter_map(|key| contents.objects.get(key).cloned()).collect()
            }
        }
    }

    /// Returns all values in an index.
    pub(crate) fn index_values(&self, name: &str) -> Vec<String> {
        let contents = self.contents.read();
        contents.indexes.get(name).map(|index| index.entries.keys().cloned().collect()).unwrap_or_default()
    }
}

pub(crate) fn is_same_version(old: &dyn AnyCached, new: &dyn AnyCached) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.resource_version.is_some() && old.resource_version == new.resource_version && old.uid == new.uid
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

    fn read(store: &Store, selection: Selection<'_>) -> Vec<Arc<PartialObject>> {
        store.read(selection).map(typed).collect()
    }

    fn labelled<'a>(value: &'a str) -> Selection<'a> {
        Selection::Indexed { index: "labels", value }
    }

    #[test]
    fn a_namespace_is_not_its_neighbours() {
        let store = indexed();
        for (namespace, name) in [("a", "z"), ("a-b", "x"), ("a", "b"), ("", "a"), ("ab", "c")] {
            store.insert(object(namespace, name, &[]));
        }
        let keys: Vec<String> = read(&store, Selection::Namespace("a")).iter().map(|o| o.cache_key()).collect();
        assert_eq!(keys, ["a/b", "a/z"]);
    }

    #[test]
    fn an_index_may_come_late() {
        let store = Store::default();
        store.insert(object("a", "b", &[("app", "web")]));
        store.index("labels", Box::new(|object| labels(typed_ref(object))));
        assert_eq!(read(&store, labelled("app=web")).len(), 1);
    }

    #[test]
    fn the_objects_of_the_last_changes_are_whole() {
        let store = Store::default();
        store.pack_beyond(2, Codec::of::<PartialObject>());
        let of_version = |name: &str, version: &str| {
            let mut object = object("ns", name, &[]);
            Arc::make_mut(&mut object).metadata.resource_version = Some(version.to_owned());
            object
        };
        let whole = || {
            let contents = store.contents.read();
            let whole = contents.objects.iter().filter(|(_, held)| matches!(held, Held::Whole(..)));
            whole.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        for name in ["a", "b", "c"] {
            store.insert(of_version(name, "1"));
        }
        assert_eq!(whole(), ["ns/b", "ns/c"]);
        assert_eq!(store.insert(of_version("b", "2")).map(typed), Some(of_version("b", "1")));
        assert_eq!(whole(), ["ns/b", "ns/c"]);
        assert_eq!(store.insert(of_version("a", "1")).map(typed), Some(of_version("a", "1")));
        assert_eq!(whole(), ["ns/b", "ns/c"], "a list repeats what is packed");
        store.remove_as_of("ns/b", None);
        store.insert(of_version("a", "2"));
        assert_eq!(whole(), ["ns/a"], "the other of the last two changes was to b, which has gone");
        assert_eq!(store.get("ns/a").map(typed), Some(of_version("a", "2")));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8, u8),
        Remove(u8),
    }

    proptest! {
        /// Indexes that were updated step by step equal a rebuild from scratch, and packed objects are as they were.
        #[test]
        fn indexes_equal_a_rebuild(ops in prop::collection::vec(
            prop_oneof![(0u8..6, 0u8..8).prop_map(|(n, l)| Op::Insert(n, l)), (0u8..6).prop_map(Op::Remove)], 0..60), whole in 0usize..6)
        {
            let store = indexed();
            store.pack_beyond(whole, Codec::of::<PartialObject>());
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
            prop_assert_eq!(read(&store, Selection::All), model.values().cloned().collect::<Vec<_>>());
            prop_assert_eq!(store.index_values("labels"), rebuilt.index_values("labels"));
            for value in rebuilt.index_values("labels") {
                prop_assert_eq!(read(&store, labelled(&value)), read(&rebuilt, labelled(&value)));
            }
        }
    }
}
