//! `Announcements`: the writes of this server that are in progress, so that the feed need not decode their objects
//! again.
//!
//! A value from the store stands for an announced object only if it equals, byte for byte, the announced value of its
//! key. It would then decode to that object, under its own revision. An announcement whose write never comes back is
//! dropped. Kubernetes has nothing like it: its cacher decodes every event of etcd.

use bytes::Bytes;
use parking_lot::Mutex;
use proto::object::Object;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{Entry, Key};

/// Largest number of writes that are in progress or not reported yet. Further ones are decoded when they come.
const MAX_ANNOUNCEMENTS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Announcements(Mutex<BTreeMap<Key, Arc<AnnouncedWrite>>>);

#[derive(Debug)]
struct AnnouncedWrite {
    /// The value in the store.
    value: Bytes,
    object: Object,
}

/// The announcement of one write. Dropping it without `written` withdraws it.
#[derive(Debug)]
pub struct Announcement<'a> {
    announced: &'a Announcements,
    key: Key,
    write: Arc<AnnouncedWrite>,
    done: bool,
}

impl Announcements {
    /// Announces that `object` is about to be written, as `value`. Only the last announcement of a key counts.
    pub fn announce(&self, key: &Key, value: &Bytes, object: &Object) -> Announcement<'_> {
        let write = Arc::new(AnnouncedWrite { value: value.clone(), object: object.without_tree() });
        let mut writes = self.0.lock();
        if writes.len() < MAX_ANNOUNCEMENTS || writes.contains_key(key) {
            writes.insert(key.clone(), write.clone());
        }
        Announcement { announced: self, key: key.clone(), write, done: false }
    }

    /// Returns the object of an entry that was announced, once.
    pub fn take(&self, entry: &Entry) -> Option<Arc<Object>> {
        let mut writes = self.0.lock();
        writes.get(&entry.key).filter(|write| write.value == entry.value)?;
        let write = writes.remove(&entry.key)?;
        drop(writes);
        Some(Arc::new(write.object.copy_at(entry.mod_revision)))
    }

    /// Drops all announcements: their events may never come.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Announcement<'_> {
    /// Keeps the announcement: the object was written, and the store will report it.
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
        let (announced, key) = (Announcements::default(), Key::from("/a"));
        let (mine, other) = (object("mine"), object("other"));
        announced.announce(&key, mine.bytes(), &mine).written();
        assert_eq!(announced.take(&entry(&other, 7)), None);
        let taken = announced.take(&entry(&mine, 8)).unwrap();
        assert_eq!((taken.revision, taken.bytes()), (8, mine.bytes()));
        assert_eq!(announced.take(&entry(&mine, 9)), None);
    }

    #[test]
    fn what_is_not_written_is_forgotten_unless_another_write_follows() {
        let (announced, key) = (Announcements::default(), Key::from("/a"));
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
        let announced = Announcements::default();
        for number in 0..2 * MAX_ANNOUNCEMENTS {
            let object = object("mine");
            announced.announce(&format!("/{number}").into(), object.bytes(), &object).written();
        }
        assert_eq!(announced.0.lock().len(), MAX_ANNOUNCEMENTS);
        announced.clear();
        assert!(announced.0.lock().is_empty());
    }
}
