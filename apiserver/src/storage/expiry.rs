//! `Expiry`: which keys have a time to live, and whose is next.
//!
//! Corresponds to etcd's leases, one per key. Deadlines are wall time, so that they outlive a restart.

use super::Key;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Expiry {
    by_deadline: BTreeMap<(i64, u64), Key>,
    by_key: BTreeMap<Key, (i64, u64)>,
}

/// A key whose time has passed, if it is still at this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    pub key: Key,
    pub mod_revision: u64,
}

impl Expiry {
    /// After each write of a key: its new deadline, or that it has none.
    pub fn set(&mut self, key: &Key, mod_revision: u64, deadline_ms: Option<i64>) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_deadline.remove(&old);
        }
        if let Some(deadline_ms) = deadline_ms {
            self.by_key.insert(key.clone(), (deadline_ms, mod_revision));
            self.by_deadline.insert((deadline_ms, mod_revision), key.clone());
        }
    }

    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.by_deadline.first_key_value().map(|((deadline_ms, _), _)| *deadline_ms)
    }

    /// Takes out the keys whose deadline has come, in order of deadline.
    pub fn take_due(&mut self, now_ms: i64) -> Vec<Expired> {
        let mut due = Vec::new();
        while let Some(first) = self.by_deadline.first_entry() {
            let (deadline_ms, mod_revision) = *first.key();
            if deadline_ms > now_ms {
                break;
            }
            let key = first.remove();
            self.by_key.remove(&key);
            due.push(Expired { key, mod_revision });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_decides() {
        let mut expiry = Expiry::default();
        let (a, b, c): (Key, Key, Key) = ("a".into(), "b".into(), "c".into());
        expiry.set(&a, 2, Some(100));
        expiry.set(&b, 3, Some(50));
        expiry.set(&c, 4, Some(70));
        expiry.set(&a, 5, Some(60));
        expiry.set(&c, 6, None);
        assert_eq!(expiry.next_deadline_ms(), Some(50));
        let due = expiry.take_due(60);
        assert_eq!(due, [Expired { key: b, mod_revision: 3 }, Expired { key: a, mod_revision: 5 }]);
        assert_eq!(expiry.next_deadline_ms(), None);
    }
}
