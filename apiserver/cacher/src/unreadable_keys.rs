//! `UnreadableKeys`: the keys of a row whose values are not objects of it.
//!
//! A person may have written past the API server, or a disk may be damaged. One bad value must not make its whole kind
//! unavailable. So it is logged once with its name and left out of lists and watches; a get of it fails.

use crate::DecodeError;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use storage::Key;

#[derive(Debug, Default)]
pub(super) struct UnreadableKeys(Mutex<BTreeMap<Key, UnreadableValue>>);

#[derive(Debug)]
struct UnreadableValue {
    mod_revision: u64,
    reason: DecodeError,
}

impl UnreadableKeys {
    pub fn record(&self, key: &Key, mod_revision: u64, reason: DecodeError) {
        let mut values = self.0.lock();
        if values.get(key).is_some_and(|known| known.mod_revision == mod_revision) {
            return;
        }
        tracing::error!(%key, mod_revision, %reason, "a stored object cannot be read and is left out");
        values.insert(key.clone(), UnreadableValue { mod_revision, reason });
    }

    /// Removes a key that was deleted or is readable again.
    pub fn forget(&self, key: &Key) {
        let mut values = self.0.lock();
        if values.remove(key).is_some() {
            tracing::warn!(%key, "what could not be read is gone");
        }
    }

    /// Removes all keys that are not in a list of the store.
    pub fn retain(&self, there: &BTreeSet<Key>) {
        let gone: Vec<Key> = self.0.lock().keys().filter(|key| !there.contains(*key)).cloned().collect();
        gone.iter().for_each(|key| self.forget(key));
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub fn list(&self) -> Vec<(Key, DecodeError)> {
        self.0.lock().iter().map(|(key, values)| (key.clone(), values.reason.clone())).collect()
    }
}
