//! `Announced`: what this server itself is writing, so that the feed need not decode what the write path has at hand.
//!
//! A value of the store is taken for an announced object only if it is, byte for byte, what was announced for its key:
//! then it would decode to that object, under its own revision. What never comes back is forgotten.
//! Corresponds to nothing in Kubernetes, whose cacher decodes every event of etcd.

use bytes::Bytes;
use parking_lot::Mutex;
use proto::object::Object;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{Entry, Key};

/// Writes that are under way, or done and not reported yet. More of them are decoded when they come.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Announced(Mutex<BTreeMap<Key, Arc<Write>>>);

#[derive(Debug)]
struct Write {
    /// As the store will hold it.
    value: Bytes,
    object: Object,
}

/// One announcement. It is taken back where the write does not come to pass.
#[derive(Debug)]
pub struct Announcement<'a> {
    announced: &'a Announced,
    key: Key,
    write: Arc<Write>,
    done: bool,
}

impl Announced {
    /// Tells that `object` is about to be written, as `value`. Only the last announcement of a key counts.
    pub fn announce(&self, key: &Key, value: &Bytes, object: &Object) -> Announcement<'_> {
        let write = Arc::new(Write { value: value.clone(), object: object.without_tree() });
        let mut writes = self.0.lock();
        if writes.len() < MOST || writes.contains_key(key) {
            writes.insert(key.clone(), write.clone());
        }
        Announcement { announced: self, key: key.clone(), write, done: false }
    }

    /// The object of an entry that was announced; only once.
    pub fn take(&self, entry: &Entry) -> Option<Arc<Object>> {
        let mut writes = self.0.lock();
        writes.get(&entry.key).filter(|write| write.value == entry.value)?;
        let write = writes.remove(&entry.key)?;
        drop(writes);
        Some(Arc::new(write.object.copy_at(entry.mod_revision)))
    }

    /// What was not reported until now may never be.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Announcement<'_> {
    /// It was written, and will be reported.
    pub fn written(mut self) {
        self.done = true;
    }
}

impl Drop for Announcement<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut writes = self.announced.0.lock();
        if writes.get(&self.key).is_some_and(|write| Arc::ptr_eq(write, &self.write)) {
            writes.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(mark: &str) -> Object {
        Object::from_value(json!({"metadata": {"name": "a"}, "mark": mark}), 0, BTreeMap::new())
    }

    fn entry(object: &Object, mod_revision: u64) -> Entry {
        Entry { key: "/a".into(), value: object.bytes().clone(), create_revision: 1, mod_revision }
    }

    #[test]
    fn only_the_very_bytes_are_taken_and_only_once() {
        let (announced, key) = (Announced::default(), Key::from("/a"));
        let (mine, other) = (object("mine"), object("other"));
        announced.announce(&key, mine.bytes(), &mine).written();
        assert_eq!(announced.take(&entry(&other, 7)), None);
        let taken = announced.take(&entry(&mine, 8)).unwrap();
        assert_eq!((taken.revision, taken.bytes()), (8, mine.bytes()));
        assert_eq!(announced.take(&entry(&mine, 9)), None);
    }

    #[test]
    fn what_is_not_written_is_forgotten_unless_another_write_follows() {
        let (announced, key) = (Announced::default(), Key::from("/a"));
        let (first, second) = (object("first"), object("second"));
        let refused = announced.announce(&key, first.bytes(), &first);
        let written = announced.announce(&key, second.bytes(), &second);
        drop(refused);
        written.written();
        assert!(announced.take(&entry(&second, 7)).is_some());
        drop(announced.announce(&key, first.bytes(), &first));
        assert_eq!(announced.take(&entry(&first, 8)), None);
    }

    #[test]
    fn what_never_comes_back_is_bounded() {
        let announced = Announced::default();
        for number in 0..2 * MOST {
            let object = object("mine");
            announced.announce(&format!("/{number}").into(), object.bytes(), &object).written();
        }
        assert_eq!(announced.0.lock().len(), MOST);
        announced.clear();
        assert!(announced.0.lock().is_empty());
    }
}
