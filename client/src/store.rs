//! `Store`: the cached objects of one collection by key, with indexes.
//!
//! Corresponds to ThreadSafeStore and Indexer of k8s.io/client-go/tools/cache.

use crate::cached::{AnyCached, Codec, key_of, split_key};
use crate::packed::{Packed, Packing, Whole};
use crate::staging::{Staged, Staging};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// With the number of the change that brought it, or of the read that unpacked it.
    Whole(Arc<dyn AnyCached>, u64),
    Packed(Packed),
}

struct Slot {
    held: Held,
    /// The sweep before which the object was last changed or read.
    used: AtomicU64,
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<Arc<str>, Slot>,
    /// Number of changes so far.
    changes: u64,
    /// The last changes, oldest first, with their keys; empty in a store that does not pack.
    recent: VecDeque<(u64, Arc<str>)>,
    /// Number of sweeps so far.
    sweeps: u64,
    /// Number of objects that were packed since the store was compacted.
    packed: usize,
    indexes: BTreeMap<&'static str, Index>,
    /// Version of the collection in the store; `None` before the first one is known.
    synced_version: Option<u64>,
}

/// Keys of objects, by value.
type Entries = BTreeMap<String, BTreeSet<Arc<str>>>;

struct Index {
    values: IndexFn,
    entries: Entries,
}

impl Index {
    fn insert(&mut self, key: &Arc<str>, object: &dyn AnyCached) {
        self.insert_values(key, (self.values)(object));
    }

    fn insert_values(&mut self, key: &Arc<str>, values: Vec<String>) {
        for value in values {
            self.entries.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &str, object: &dyn AnyCached) {
        self.remove_values(key, &(self.values)(object));
    }

    /// Returns the values that begin with `prefix`, with their keys.
    fn values_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a BTreeSet<Arc<str>>)> {
        let from = self.entries.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(move |(value, _)| value.starts_with(prefix))
    }

    /// Replaces an object by another of the same key. Most changes leave the values as they are.
    fn replace(&mut self, key: &Arc<str>, old: &dyn AnyCached, new: &dyn AnyCached) {
        let (before, after) = ((self.values)(old), (self.values)(new));
        if before != after {
            self.remove_values(key, &before);
            self.insert_values(key, after);
        }
    }

    fn remove_values(&mut self, key: &str, values: &[String]) {
        for value in values {
            if let Some(keys) = self.entries.get_mut(value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.entries.remove(value);
                }
            }
        }
    }
}

impl Contents {
    fn index(&self, name: &str) -> &Index {
        self.indexes.get(name).unwrap_or_else(|| panic!("no index {name:?} on this informer"))
    }

    /// Removes changes until `whole` are left. Returns the first object that is still as such a change left it.
    fn take_oldest(&mut self, whole: usize) -> Option<Unpacked> {
        while self.recent.len() > whole {
            if let Some((unpacked, _)) = self.take_first() {
                return Some(unpacked);
            }
        }
        None
    }

    /// Removes the oldest change. Returns the object and the sweep before which it was last used; `None` if the object is
    /// not as this change left it.
    fn take_first(&mut self) -> Option<(Unpacked, u64)> {
        let (change, key) = self.recent.pop_front()?;
        let slot = self.objects.get(&key)?;
        let Held::Whole(object, since) = &slot.held else { return None };
        let used = slot.used.load(Ordering::Relaxed);
        (*since == change).then(|| (Unpacked { change, key, object: object.clone() }, used))
    }

    /// Holds an object whole from now on. Returns the number of this change.
    fn hold_whole(&mut self, key: &Arc<str>, packs: bool) -> u64 {
        self.changes += 1;
        if packs {
            self.recent.push_back((self.changes, key.clone()));
        }
        self.changes
    }
}

/// An object that is to be packed, as a change left it.
struct Unpacked {
    change: u64,
    key: Arc<str>,
    object: Arc<dyn AnyCached>,
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
    /// The objects with any value in an index that begins with `prefix` and that `wanted` accepts without it.
    Accepted {
        index: &'a str,
        prefix: &'a str,
        wanted: &'a dyn Fn(&str) -> bool,
    },
}

impl Selection<'_> {
    /// Returns true if a read of these objects is about them, and not only a look at every object of the collection.
    fn is_use(&self) -> bool {
        !matches!(self, Selection::All | Selection::Namespace(_))
    }
}

impl Store {
    /// Adds an index of all objects. A name that exists already changes nothing.
    pub(crate) fn index(&self, name: &'static str, values: IndexFn) {
        let mut contents = self.contents.write();
        let Contents { objects, indexes, .. } = &mut *contents;
        indexes.entry(name).or_insert_with(|| {
            let mut index = Index { values, entries: BTreeMap::new() };
            for (key, slot) in &*objects {
                index.insert(key, &*self.whole(slot.held.clone()));
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

    /// Lets the store pack the objects that do not stay `whole`. Objects that are in the store already stay whole until they
    /// change. A second call changes nothing.
    pub(crate) fn pack(&self, whole: Whole, codec: Codec) {
        self.packing.get_or_init(|| Packing::new(codec, whole));
    }

    /// Returns how the store packs objects, if it does.
    pub(crate) fn packing(&self) -> Option<&Packing> {
        self.packing.get()
    }

    /// Packs the objects whose changes are not among the last ones any more.
    fn pack_oldest(&self) {
        let Some(packing) = self.packing.get() else { return };
        loop {
            let oldest = self.contents.write().take_oldest(packing.whole.most);
            let Some(oldest) = oldest else { return };
            self.replace_by_packed(packing, &oldest);
        }
    }

    fn replace_by_packed(&self, packing: &Packing, unpacked: &Unpacked) {
        let packed = packing.pack(&*unpacked.object);
        let mut contents = self.contents.write();
        if let Some(slot) = contents.objects.get_mut(&unpacked.key)
            && matches!(slot.held, Held::Whole(_, since) if since == unpacked.change)
        {
            slot.held = Held::Packed(packed);
            contents.packed += 1;
        }
    }

    /// Begins a sweep. Returns the number of changes to look at: none in a store of few objects.
    pub(crate) fn begin_sweep(&self) -> usize {
        let least = self.packing.get().map_or(usize::MAX, |packing| packing.whole.least);
        let mut contents = self.contents.write();
        contents.sweeps += 1;
        if contents.objects.len() > least { contents.recent.len() } else { 0 }
    }

    /// Looks at so many changes, oldest first. Packs the objects that were not used since the sweep before this one.
    pub(crate) fn sweep(&self, changes: usize) {
        let Some(packing) = self.packing.get() else { return };
        for _ in 0..changes {
            let mut contents = self.contents.write();
            let Some((unpacked, used)) = contents.take_first() else { continue };
            if used + 1 < contents.sweeps {
                drop(contents);
                self.replace_by_packed(packing, &unpacked);
            } else {
                contents.recent.push_back((unpacked.change, unpacked.key));
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
                let is_held = match self.contents.read().objects.get(key).map(|slot| &slot.held) {
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
        let (key, old) = match contents.objects.get_key_value(&*key) {
            Some((key, slot)) => (key.clone(), Some(slot.held.clone())),
            None => (Arc::from(key), None),
        };
        let stays = packed.is_some() || matches!(old, Some(Held::Packed(_)));
        let old = old.map(|held| self.whole(held));
        if old.as_ref().is_some_and(|old| stays && is_same_version(&**old, &*object)) {
            return old;
        }
        for index in contents.indexes.values_mut() {
            match &old {
                Some(old) => index.replace(&key, &**old, &*object),
                None => index.insert(&key, &*object),
            }
        }
        let change = contents.hold_whole(&key, packed.is_none() && self.packing.get().is_some());
        contents.packed += usize::from(packed.is_some());
        let held = packed.map_or(Held::Whole(object, change), Held::Packed);
        let used = AtomicU64::new(contents.sweeps);
        contents.objects.insert(key, Slot { held, used });
        drop(contents);
        self.pack_oldest();
        old
    }

    /// Removes an object and sets the store's version atomically. Returns the removed object.
    pub(crate) fn remove_as_of(&self, key: &str, version: Option<u64>) -> Option<Arc<dyn AnyCached>> {
        let mut contents = self.contents.write();
        contents.synced_version = version.or(contents.synced_version);
        let old = self.whole(contents.objects.remove(key)?.held);
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
        self.contents.read().objects.keys().map(|key| (**key).to_owned()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.contents.read().objects.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<dyn AnyCached>> {
        let contents = self.contents.read();
        let (key, slot) = contents.objects.get_key_value(key)?;
        slot.used.store(contents.sweeps, Ordering::Relaxed);
        let found = (key.clone(), slot.held.clone());
        drop(contents);
        self.unpack_used(vec![found]).pop()
    }

    /// Returns objects. Panics if there is no such index, which is a mistake in the program.
    pub(crate) fn read(&self, selection: Selection<'_>) -> Vec<Arc<dyn AnyCached>> {
        let held = self.held(&selection);
        if selection.is_use() {
            return self.unpack_used(held);
        }
        held.into_iter().map(|(_, held)| self.whole(held)).collect()
    }

    /// Calls a function with each object, one at a time, so that no more than one packed object is unpacked.
    pub(crate) fn each(&self, mut handle: impl FnMut(Arc<dyn AnyCached>)) {
        for (_, held) in self.held(&Selection::All) {
            handle(self.whole(held));
        }
    }

    /// Unpacks objects without the lock. In a store that sweeps they stay whole, because they will be read again.
    fn unpack_used(&self, found: Vec<(Arc<str>, Held)>) -> Vec<Arc<dyn AnyCached>> {
        let stay = self.packing.get().is_some_and(|packing| packing.whole.sweep_every.is_some());
        let mut unpacked = Vec::new();
        let mut objects = Vec::with_capacity(found.len());
        for (key, held) in found {
            if let (Held::Packed(packed), true) = (&held, stay) {
                let object = self.unpack(packed);
                unpacked.push((key, packed.clone(), object.clone()));
                objects.push(object);
            } else {
                objects.push(self.whole(held));
            }
        }
        if !unpacked.is_empty() {
            self.keep_whole(unpacked);
        }
        objects
    }

    /// Holds objects whole that were unpacked, unless they have changed meanwhile.
    fn keep_whole(&self, unpacked: Vec<(Arc<str>, Packed, Arc<dyn AnyCached>)>) {
        let mut contents = self.contents.write();
        for (key, packed, object) in unpacked {
            let is_as_read = match contents.objects.get(&key).map(|slot| &slot.held) {
                Some(Held::Packed(held)) => Arc::ptr_eq(held, &packed),
                _ => false,
            };
            if is_as_read {
                let change = contents.hold_whole(&key, true);
                let used = AtomicU64::new(contents.sweeps);
                contents.objects.insert(key, Slot { held: Held::Whole(object, change), used });
            }
        }
        drop(contents);
        self.pack_oldest();
    }

    fn held(&self, selection: &Selection<'_>) -> Vec<(Arc<str>, Held)> {
        let contents = self.contents.read();
        let of = |(key, slot): (&Arc<str>, &Slot)| (key.clone(), slot.held.clone());
        let used = |key: &Arc<str>| {
            let slot = contents.objects.get(key)?;
            slot.used.store(contents.sweeps, Ordering::Relaxed);
            Some((key.clone(), slot.held.clone()))
        };
        match *selection {
            Selection::All => contents.objects.iter().map(of).collect(),
            Selection::Namespace(namespace) => {
                let prefix = format!("{namespace}/");
                let from = contents.objects.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
                from.take_while(|(key, _)| split_key(key).0 == namespace).map(of).collect()
            }
            Selection::Indexed { index, value } => {
                contents.index(index).entries.get(value).into_iter().flatten().filter_map(used).collect()
            }
            Selection::Accepted { index, prefix, wanted } => {
                let accepted =
                    contents.index(index).values_with(prefix).filter(|(value, _)| wanted(&value[prefix.len()..]));
                let keys: BTreeSet<&Arc<str>> = accepted.flat_map(|(_, keys)| keys).collect();
                keys.into_iter().filter_map(used).collect()
            }
        }
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.contents.read().indexes.contains_key(name)
    }

    /// Returns the number of objects with a value in an index.
    pub(crate) fn count(&self, name: &str, value: &str) -> usize {
        self.contents.read().index(name).entries.get(value).map_or(0, BTreeSet::len)
    }

    /// Calls a function with the rest of each value in an index that begins with `prefix`, and the number of its objects.
    pub(crate) fn counts(&self, name: &str, prefix: &str, mut count: impl FnMut(&str, usize)) {
        for (value, keys) in self.contents.read().index(name).values_with(prefix) {
            count(&value[prefix.len()..], keys.len());
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

mod compaction;
#[cfg(test)]
mod tests;
