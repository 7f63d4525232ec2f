//! `Mvcc`: the keys of a store with a bounded history, in memory. Pure: no IO, and time comes as an argument.
//!
//! Corresponds to etcd's server/storage/mvcc (key index and store in one).
//!
//! Every key has a chain of versions, oldest first; a deletion is a version without a value. An example with history
//! from revision 5 on, after `put a` (3), `put a` (6), `delete a` (8), `put b` (9):
//!
//! ```text
//! a: 3 put, 6 put, 8 deleted      b: 9 put        compacted: 5, revision: 9
//! ```
//!
//! A read at R takes the last version at or below R of each chain. Version 3 is needed while 5 can be read. It is
//! dropped when 6 becomes the oldest readable revision. The whole chain of `a` is dropped when 8 does.

use super::{Change, Entry, Error, Event, Key, Outcome, Range, RangeRequest, Write};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Revision of a new store.
pub(super) const FIRST_REVISION: u64 = 1;

/// History beyond this many bytes of values is dropped early: a simulation of ten thousand nodes writes thousands of
/// times a second.
const HISTORY_BYTES: usize = 256 << 20;

#[derive(Debug)]
pub(super) struct Mvcc {
    keys: BTreeMap<Key, Vec<Version>>,
    /// Every event above `compacted`, in order.
    history: VecDeque<Remembered>,
    history_bytes: usize,
    /// The newest revision.
    revision: u64,
    /// The oldest revision that can be read and watched from.
    compacted: u64,
}

/// The entry of a key from `revision` on. None: the key does not exist.
#[derive(Debug)]
struct Version {
    revision: u64,
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Remembered {
    at_ms: i64,
    event: Arc<Event>,
}

impl Version {
    fn bytes(&self) -> usize {
        self.entry.as_ref().map_or(0, |entry| entry.value.len())
    }
}

impl Default for Mvcc {
    fn default() -> Self {
        Self::loaded(FIRST_REVISION, [])
    }
}

impl Mvcc {
    /// Builds a store from the entries on disk, which are those at `revision`, without history below it.
    pub fn loaded(revision: u64, entries: impl IntoIterator<Item = Entry>) -> Self {
        let chain =
            |entry: Entry| (entry.key.clone(), vec![Version { revision: entry.mod_revision, entry: Some(entry) }]);
        Self {
            keys: entries.into_iter().map(chain).collect(),
            history: VecDeque::new(),
            history_bytes: 0,
            revision,
            compacted: revision,
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.keys.get(key)?.last()?.entry.as_ref()
    }

    /// Returns the event that `write` causes at `revision`, or the refusal. `current` is the key's entry.
    pub fn decide(current: Option<&Entry>, write: &Write, revision: u64) -> Result<Event, Outcome> {
        let at = current.map_or(0, |entry| entry.mod_revision);
        // Deleting a key that is expected not to exist changes nothing, so there is no revision to answer with.
        let nothing_to_delete = current.is_none() && write.change == Change::Delete;
        if at != write.expected || nothing_to_delete {
            return Err(Outcome::Refused(current.cloned()));
        }
        let entry = match &write.change {
            Change::Put { value, .. } => Some(Entry {
                key: write.key.clone(),
                value: value.clone(),
                create_revision: current.map_or(revision, |entry| entry.create_revision),
                mod_revision: revision,
            }),
            Change::Delete => None,
        };
        Ok(Event { revision, key: write.key.clone(), current: entry, previous: current.cloned() })
    }

    /// Makes the next event visible, and forgets history that is older than `keep_from_ms`.
    pub fn apply(&mut self, event: Arc<Event>, at_ms: i64, keep_from_ms: i64) {
        debug_assert_eq!(event.revision, self.revision + 1, "revisions have no gap");
        self.revision = event.revision;
        self.history_bytes += event.previous.as_ref().map_or(0, |entry| entry.value.len());
        let version = Version { revision: event.revision, entry: event.current.clone() };
        self.keys.entry(event.key.clone()).or_default().push(version);
        self.history.push_back(Remembered { at_ms, event });
        self.forget_before(keep_from_ms);
        while self.history_bytes > HISTORY_BYTES {
            self.forget_oldest();
        }
    }

    /// Forgets events older than `keep_from_ms`. Reads call it too: history ends in time, also when nothing is written.
    pub fn forget_before(&mut self, keep_from_ms: i64) {
        while self.history.front().is_some_and(|oldest| oldest.at_ms < keep_from_ms) {
            self.forget_oldest();
        }
    }

    /// Forgets the versions that only reads below `revision` can see.
    pub fn compact(&mut self, revision: u64) -> Result<(), Error> {
        if revision > self.revision {
            return Err(Error::FutureRevision { requested: revision, current: self.revision });
        }
        while self.history.front().is_some_and(|oldest| oldest.event.revision <= revision) {
            self.forget_oldest();
        }
        self.compacted = self.compacted.max(revision);
        Ok(())
    }

    /// Makes the oldest event's revision the oldest readable one, and drops the versions that it replaced.
    fn forget_oldest(&mut self) {
        let Some(Remembered { event, .. }) = self.history.pop_front() else { return };
        self.compacted = event.revision;
        let chain = self.keys.get_mut(&event.key).expect("a remembered event has its version");
        let replaced = chain.iter().take_while(|version| version.revision < event.revision).count();
        self.history_bytes -= chain.drain(..replaced).map(|version| version.bytes()).sum::<usize>();
        if chain[0].entry.is_none() {
            chain.remove(0);
        }
        if chain.is_empty() {
            self.keys.remove(&event.key);
        }
    }

    pub fn range(&self, request: &RangeRequest) -> Result<Range, Error> {
        let at = match request.revision {
            0 => self.revision,
            requested if requested > self.revision => {
                return Err(Error::FutureRevision { requested, current: self.revision });
            }
            requested if requested < self.compacted => {
                return Err(Error::Compacted { requested, compacted: self.compacted });
            }
            requested => requested,
        };
        let mut range = Range { entries: Vec::new(), more: false, count: 0, revision: self.revision };
        if request.start >= request.end {
            return Ok(range);
        }
        let bounds = (Bound::Included(request.start.as_str()), Bound::Excluded(request.end.as_str()));
        for (_, chain) in self.keys.range::<str, _>(bounds) {
            let Some(entry) = version_at(chain, at) else { continue };
            range.count += 1;
            if request.count_only {
                continue;
            }
            if request.limit == 0 || range.entries.len() < request.limit {
                range.entries.push(entry.clone());
            } else {
                range.more = true;
            }
        }
        Ok(range)
    }

    /// Returns the remembered events above `after` under `prefix`.
    pub fn events_after(&self, prefix: &str, after: u64) -> Result<Vec<Arc<Event>>, Error> {
        if after < self.compacted {
            return Err(Error::Compacted { requested: after, compacted: self.compacted });
        }
        let first = self.history.partition_point(|remembered| remembered.event.revision <= after);
        let events = self.history.range(first..).map(|remembered| &remembered.event);
        Ok(events.filter(|event| event.key.starts_with(prefix)).cloned().collect())
    }
}

/// Returns the entry at `revision`, if the key existed. The newest version is the usual answer, so the search begins
/// there.
fn version_at(chain: &[Version], revision: u64) -> Option<&Entry> {
    chain.iter().rev().find(|version| version.revision <= revision)?.entry.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Applies `put key=value` or `delete key` at second `at_s`, with five seconds of history.
    fn step(store: &mut Mvcc, key: &str, value: Option<&str>, at_s: i64) {
        let expected = store.get(key).map_or(0, |entry| entry.mod_revision);
        let change = match value {
            Some(value) => Change::Put { value: Bytes::copy_from_slice(value.as_bytes()), ttl: None },
            None => Change::Delete,
        };
        let write = Write { key: key.into(), expected, change };
        let event = Mvcc::decide(store.get(key), &write, store.revision + 1).unwrap();
        store.apply(Arc::new(event), at_s * 1000, (at_s - 5) * 1000);
    }

    fn read(store: &Mvcc, revision: u64) -> Result<String, Error> {
        let range =
            store.range(&RangeRequest { start: "a".into(), end: "z".into(), revision, limit: 0, count_only: false })?;
        let text =
            |entry: Entry| format!("{}={}@{}", entry.key, String::from_utf8_lossy(&entry.value), entry.mod_revision);
        Ok(range.entries.into_iter().map(text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_revision_reads_as_it_was_until_it_is_compacted() {
        let mut store = Mvcc::default();
        step(&mut store, "a", Some("x"), 0);
        step(&mut store, "b", Some("y"), 1);
        step(&mut store, "a", None, 2);
        step(&mut store, "a", Some("z"), 3);
        let whole = ["", "a=x@2", "a=x@2 b=y@3", "b=y@3", "a=z@5 b=y@3"];
        for (revision, expected) in (1..).zip(whole) {
            assert_eq!(read(&store, revision).unwrap(), expected, "at {revision}");
        }
        for compacted in 2..=5 {
            store.compact(compacted).unwrap();
            for (revision, expected) in (1..).zip(whole) {
                let gone = Error::Compacted { requested: revision, compacted };
                let outcome = if revision < compacted { Err(gone) } else { Ok(expected.to_owned()) };
                assert_eq!(read(&store, revision), outcome, "at {revision} after compacting {compacted}");
            }
        }
        assert_eq!(store.history_bytes, 0);
        assert!(store.history.is_empty());
    }

    #[test]
    fn history_ends_with_its_time() {
        let mut store = Mvcc::default();
        for at_s in 0..10 {
            step(&mut store, "a", (at_s % 2 == 0).then_some("x"), at_s);
        }
        // The write of second 3 is the last one older than five seconds before second 9.
        assert_eq!(store.compacted, 5);
        assert_eq!(store.keys["a"].len(), 6, "six events remembered, and a deletion at the oldest needs no version");
    }

    #[test]
    fn a_deleted_key_leaves_nothing_behind() {
        let mut store = Mvcc::default();
        step(&mut store, "a", Some("x"), 0);
        step(&mut store, "a", None, 0);
        store.compact(3).unwrap();
        assert!(store.keys.is_empty());
    }
}
