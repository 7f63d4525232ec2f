//! Compaction: copies the small parts of a store, after many of its objects were packed.
//!
//! Nothing in client-go corresponds to it. An allocator keeps a page as long as one object on it lives. While thousands of
//! objects come, their keys and the nodes of the maps lie between the texts of whole objects. Those go when the objects are
//! packed, and the keys alone keep almost every page. Copies made at one time lie on pages of their own.

use super::{Entries, Held, Index, Slot, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store is copied after this part of its objects was packed.
const PACKED_PART: usize = 64;

impl Store {
    /// Copies everything but whole objects, if enough objects were packed since the last time.
    pub(crate) fn compact(&self) {
        let mut contents = self.contents.write();
        if contents.packed == 0 || contents.packed * PACKED_PART < contents.objects.len() {
            return;
        }
        contents.packed = 0;
        // The copies must not fill the holes that their originals leave, so those go last.
        let objects: BTreeMap<Arc<str>, Slot> = contents.objects.iter().map(copy).collect();
        let of = |key: &Arc<str>| objects.get_key_value(key).map_or_else(|| key.clone(), |(key, _)| key.clone());
        let recent = contents.recent.iter().map(|(change, key)| (*change, of(key))).collect();
        let mut entries: Vec<Entries> = contents.indexes.values().map(|index| index.copied(of)).collect();
        for (index, copied) in contents.indexes.values_mut().zip(&mut entries) {
            std::mem::swap(&mut index.entries, copied);
        }
        let originals =
            (std::mem::replace(&mut contents.objects, objects), std::mem::replace(&mut contents.recent, recent));
        drop(contents);
        drop((originals, entries));
    }
}

fn copy((key, slot): (&Arc<str>, &Slot)) -> (Arc<str>, Slot) {
    let held = match &slot.held {
        Held::Whole(object, since) => Held::Whole(object.clone(), *since),
        Held::Packed(packed) => Held::Packed(Arc::from(&**packed)),
    };
    (Arc::from(&**key), Slot { held, used: AtomicU64::new(slot.used.load(Ordering::Relaxed)) })
}

impl Index {
    /// Returns a copy of all entries, whose keys `of` gives.
    fn copied(&self, of: impl Fn(&Arc<str>) -> Arc<str>) -> Entries {
        let copied = |(value, keys): (&String, &BTreeSet<Arc<str>>)| (value.clone(), keys.iter().map(&of).collect());
        self.entries.iter().map(copied).collect()
    }
}
