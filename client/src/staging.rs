//! `Staging`: the objects of a list that is still being read, in the form in which the store will hold them.
//!
//! Corresponds to the temporary store of a reflector's WatchList in k8s.io/client-go/tools/cache. A store that packs objects
//! packs those of a list while it is being read, so that a long list is never in memory as a whole.

use crate::cached::{AnyCached, key_of};
use crate::packed::{Packed, Packing};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One object of a list.
pub(crate) enum Staged {
    Whole(Arc<dyn AnyCached>),
    Packed(Packed),
}

/// The objects that were read so far, by key.
#[derive(Default)]
pub(crate) struct Staging {
    objects: BTreeMap<String, Staged>,
    /// Keys of the objects that are whole, in the order in which they were read; empty if the store does not pack.
    whole: VecDeque<String>,
}

impl Staging {
    /// Adds an object, or replaces an earlier state of it. With `packing`, only the last objects stay whole.
    pub(crate) fn insert(&mut self, object: Arc<dyn AnyCached>, packing: Option<&Packing>) {
        let key = key_of(object.meta());
        self.objects.insert(key.clone(), Staged::Whole(object));
        let Some(packing) = packing else { return };
        self.whole.push_back(key);
        while self.whole.len() > packing.whole.least {
            let oldest = self.whole.pop_front().and_then(|key| self.objects.get_mut(&key));
            if let Some(staged) = oldest
                && let Staged::Whole(object) = staged
            {
                *staged = Staged::Packed(packing.pack(&**object));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.objects.remove(key);
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns all objects in the order of their keys.
    pub(crate) fn into_objects(self) -> impl Iterator<Item = (String, Staged)> {
        self.objects.into_iter()
    }
}
