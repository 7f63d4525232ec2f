//! `Lru`: a map of limited size that drops the least recently used entry.
//!
//! Corresponds to k8s.io/utils/lru.

use std::collections::BTreeMap;

pub(super) struct Lru<K, V> {
    capacity: usize,
    /// Values with the tick of their last use.
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    tick: u64,
}

impl<K: Ord + Copy, V> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: BTreeMap::new(), by_use: BTreeMap::new(), tick: 0 }
    }

    /// Returns the value of a key, made if there is none; counts as a use.
    pub(super) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.tick += 1;
        let known = self.entries.get(&key).and_then(|(used, _)| self.by_use.remove(used));
        if known.is_none()
            && self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(self.tick, key);
        let entry = self.entries.entry(key).or_insert_with(|| (0, make()));
        entry.0 = self.tick;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_is_forgotten() {
        let mut lru = Lru::new(2);
        *lru.get_or_insert_with("a", || 1) += 1;
        lru.get_or_insert_with("b", || 1);
        assert_eq!(*lru.get_or_insert_with("a", || 0), 2);
        lru.get_or_insert_with("c", || 1);
        assert_eq!(*lru.get_or_insert_with("a", || 0), 2);
        assert_eq!(*lru.get_or_insert_with("b", || 0), 0);
    }
}
