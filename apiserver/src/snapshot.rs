//! Snapshots of the whole store: one file in a format for every engine, with a checksum.
//!
//! ```text
//! orrery-snapshot 1 4711                      format, revision
//! 35 213 4698                                 lengths of key and value, revision of the last write
//! /registry/configmaps/default/settings
//! {"apiVersion":"v1","data":{…},…}
//! …
//! end 812 9f86d081884c7d65…                   number of entries, SHA-256 of everything before this line
//! ```
//!
//! Administrators get a snapshot from a running server. A server that starts on an empty store can restore it. Restored
//! objects have new resource versions, in the order of the old ones. Corresponds to `etcdctl snapshot`.

use bytes::Bytes;
use futures::future::ready;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use registry::row::EVENT_TTL;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use storage::{Entry, Outcome, RangeRequest, Storage};

/// URL path under which a running server serves a snapshot.
pub const PATH: &str = "/orrery/snapshot";
const NAME: &str = "orrery-snapshot";
/// The format that this version writes. Later versions may write a higher one.
const FORMAT: u32 = 1;
const ROOT: &str = "/registry/";
const EVENTS: &str = "/registry/events/";
/// Leases of API servers. They are not restored, because those servers have ended.
const MASTER_LEASES: &str = "/registry/masterleases/";
/// Key that exists during a restore. A store that still has it was restored in part only.
const RESTORING: &str = "/registry/orrery/restoring";
/// Entries of one read.
const PAGE: usize = 500;
/// Concurrent writes of a restore.
const WRITES: usize = 64;

/// A snapshot that cannot be restored. Nothing has been written, except possibly with `Store`.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("not a snapshot")]
    Foreign,
    #[error("written in format {0} by a later version; this one reads up to format {FORMAT}")]
    LaterFormat(u32),
    #[error("damaged: {0}")]
    Damaged(&'static str),
    #[error("the store is not empty: a snapshot is restored into an empty one")]
    NotEmpty,
    #[error("a restore into this store was cut short: empty it, and restore again")]
    CutShort,
    #[error(transparent)]
    Store(#[from] storage::Error),
}

/// Streams a snapshot of the store at its current revision.
pub fn save(storage: Arc<dyn Storage>) -> impl Stream<Item = Result<Bytes, storage::Error>> + Send {
    stream::try_unfold(Some(Saving::default()), move |saving| {
        let storage = storage.clone();
        async move {
            let Some(saving) = saving else { return Ok(None) };
            saving.next(storage.as_ref()).await.map(Some)
        }
    })
}

/// Progress of a snapshot that is being written.
#[derive(Default)]
struct Saving {
    /// Revision of the first page, at which all pages are read; 0 before it.
    revision: u64,
    /// First key of the next page.
    start: Option<String>,
    entries: u64,
    hash: Sha256,
}

impl Saving {
    /// Writes the next page; the last one has the line `end`.
    async fn next(mut self, storage: &dyn Storage) -> Result<(Bytes, Option<Self>), storage::Error> {
        let mut request = RangeRequest::prefix(ROOT).at(self.revision).limit(PAGE);
        if let Some(start) = &self.start {
            request = request.starting_at(start);
        }
        let page = storage.range(request).await?;
        let mut text = Vec::new();
        if self.revision == 0 {
            self.revision = page.revision;
            text.extend_from_slice(format!("{NAME} {FORMAT} {}\n", self.revision).as_bytes());
        }
        for entry in &page.entries {
            append(&mut text, entry);
        }
        self.entries += page.entries.len() as u64;
        self.hash.update(&text);
        self.start = page.entries.last().map(|entry| format!("{}\0", entry.key));
        if page.more {
            return Ok((text.into(), Some(self)));
        }
        let hash = hex(&self.hash.clone().finalize());
        text.extend_from_slice(format!("end {} {hash}\n", self.entries).as_bytes());
        Ok((text.into(), None))
    }
}

fn append(text: &mut Vec<u8>, entry: &Entry) {
    let line = format!("{} {} {}\n{}\n", entry.key.len(), entry.value.len(), entry.mod_revision, entry.key);
    text.extend_from_slice(line.as_bytes());
    text.extend_from_slice(&entry.value);
    text.push(b'\n');
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A complete snapshot.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    /// Revision of the store from which it was taken.
    pub revision: u64,
    /// Keys and values, in the order in which they were written.
    entries: Vec<(String, Bytes)>,
}

impl Snapshot {
    /// Reads a file and checks that it is complete.
    pub fn parse(file: &Bytes) -> Result<Self, SnapshotError> {
        let mut rest = Reader { file, place: 0 };
        let first = rest.line().and_then(|line| line.strip_prefix(NAME)).ok_or(SnapshotError::Foreign)?;
        let numbers: Vec<&str> = first.split_whitespace().collect();
        let format = numbers.first().and_then(|text| text.parse().ok()).ok_or(SnapshotError::Foreign)?;
        if format > FORMAT {
            return Err(SnapshotError::LaterFormat(format));
        }
        let damaged = SnapshotError::Damaged;
        let revision = numbers.get(1).and_then(|text| text.parse().ok()).ok_or(damaged("its first line"))?;
        let mut entries: Vec<(u64, String, Bytes)> = Vec::new();
        loop {
            let before = rest.place;
            let line = rest.line().ok_or(damaged("it is cut off"))?;
            if let Some(end) = line.strip_prefix("end ") {
                let expected = format!("{} {}", entries.len(), hex(&Sha256::digest(&file[..before])));
                if end != expected || rest.place != file.len() {
                    return Err(damaged("its checksum is wrong"));
                }
                break;
            }
            let numbers: Vec<u64> = line.split(' ').filter_map(|text| text.parse().ok()).collect();
            let [key_bytes, value_bytes, mod_revision] = numbers[..] else { return Err(damaged("a line of lengths")) };
            let key = rest.part(key_bytes).and_then(|key| String::from_utf8(key.to_vec()).ok());
            let value = rest.part(value_bytes);
            let (Some(key), Some(value)) = (key, value) else { return Err(damaged("it is cut off")) };
            entries.push((mod_revision, key, value));
        }
        entries.sort_by_key(|(mod_revision, _, _)| *mod_revision);
        Ok(Self { revision, entries: entries.into_iter().map(|(_, key, value)| (key, value)).collect() })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the entries into an empty store.
    pub async fn restore(&self, storage: &dyn Storage) -> Result<(), SnapshotError> {
        check(storage).await?;
        let held = storage.range(RangeRequest::prefix(ROOT).count_only()).await?;
        if held.count > 0 {
            return Err(SnapshotError::NotEmpty);
        }
        let marked = written(storage.create(RESTORING, Bytes::new(), None).await?)?;
        let writes = stream::iter(&self.entries)
            .filter(|(key, _)| ready(!key.starts_with(MASTER_LEASES)))
            .map(|(key, value)| storage.create(key, value.clone(), ttl(key)));
        writes
            .buffered(WRITES)
            .map_err(SnapshotError::from)
            .try_for_each(async |outcome| written(outcome).map(drop))
            .await?;
        written(storage.delete(RESTORING, marked).await?).map(drop)
    }
}

/// Refuses a store whose last restore was cut short.
pub async fn check(storage: &dyn Storage) -> Result<(), SnapshotError> {
    if storage.get(RESTORING).await?.entry.is_some() { Err(SnapshotError::CutShort) } else { Ok(()) }
}

/// Returns the time to live of a restored key. Events get the full time, because a snapshot has no remaining times.
fn ttl(key: &str) -> Option<Duration> {
    key.starts_with(EVENTS).then_some(EVENT_TTL)
}

/// Returns the revision of a write, or an error if the key existed.
fn written(outcome: Outcome) -> Result<u64, SnapshotError> {
    match outcome {
        Outcome::Written { revision, .. } => Ok(revision),
        Outcome::Refused(_) => Err(SnapshotError::NotEmpty),
    }
}

/// Reads a file piece by piece.
struct Reader<'a> {
    file: &'a Bytes,
    place: usize,
}

impl<'a> Reader<'a> {
    /// Reads a line, without its line break.
    fn line(&mut self) -> Option<&'a str> {
        let rest = &self.file[self.place..];
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        self.place += length + 1;
        std::str::from_utf8(&rest[..length]).ok()
    }

    /// Reads `length` bytes and the line break after them.
    fn part(&mut self, length: u64) -> Option<Bytes> {
        let end = self.place.checked_add(usize::try_from(length).ok()?)?;
        if self.file.get(end) != Some(&b'\n') {
            return None;
        }
        let part = self.file.slice(self.place..end);
        self.place = end + 1;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use storage::memory::Memory;

    /// Makes a store with more than a page of keys. One was written twice, and one was deleted.
    async fn filled() -> Arc<dyn Storage> {
        let storage = Memory::new(&Env::simulated(1));
        for n in 0..PAGE + 7 {
            storage.create(&format!("/registry/things/{n:04}"), format!("{{\"n\":{n}}}\n").into(), None).await.unwrap();
        }
        let first = storage.get("/registry/things/0000").await.unwrap().entry.unwrap();
        storage.update(&first.key, first.mod_revision, Bytes::from_static(b"last"), None).await.unwrap();
        let gone = storage.get("/registry/things/0001").await.unwrap().entry.unwrap();
        storage.delete(&gone.key, gone.mod_revision).await.unwrap();
        storage
    }

    async fn saved(storage: Arc<dyn Storage>) -> Bytes {
        let parts: Vec<Bytes> = save(storage).try_collect().await.unwrap();
        parts.concat().into()
    }

    async fn held(storage: &dyn Storage) -> Vec<(String, Bytes)> {
        let mut entries = storage.range(RangeRequest::prefix(ROOT)).await.unwrap().entries;
        entries.sort_by_key(|entry| entry.mod_revision);
        entries.into_iter().map(|entry| (entry.key.to_string(), entry.value)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_saved_comes_back_in_the_order_in_which_it_was_written() {
        let storage = filled().await;
        let file = saved(storage.clone()).await;
        let snapshot = Snapshot::parse(&file).unwrap();
        assert_eq!((snapshot.len(), snapshot.revision), (PAGE + 6, storage.current_revision().await.unwrap()));
        let other = Memory::new(&Env::simulated(2));
        snapshot.restore(other.as_ref()).await.unwrap();
        assert_eq!(held(other.as_ref()).await, held(storage.as_ref()).await);
        assert_eq!(held(other.as_ref()).await.last().unwrap().0, "/registry/things/0000");
        check(other.as_ref()).await.unwrap();
        let again = snapshot.restore(other.as_ref()).await.unwrap_err();
        assert_eq!(again.to_string(), "the store is not empty: a snapshot is restored into an empty one");
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_store_has_a_snapshot_too() {
        let storage = Memory::new(&Env::simulated(1));
        assert!(Snapshot::parse(&saved(storage).await).unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn events_still_end_and_servers_have_ended() {
        let storage = Memory::new(&Env::simulated(1));
        storage.create("/registry/masterleases/192.0.2.1", Bytes::from_static(b"{}"), None).await.unwrap();
        storage.create("/registry/events/default/e", Bytes::from_static(b"{}"), Some(EVENT_TTL)).await.unwrap();
        let file = saved(storage).await;
        let env = Env::simulated(2);
        let other = Memory::new(&env);
        Snapshot::parse(&file).unwrap().restore(other.as_ref()).await.unwrap();
        assert_eq!(held(other.as_ref()).await.len(), 1);
        env.sleep(EVENT_TTL * 2).await;
        assert_eq!(held(other.as_ref()).await.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_whole_is_refused() {
        let file = saved(filled().await).await;
        for cut in [0, 10, 40, 1000, file.len() - 70, file.len() - 1] {
            Snapshot::parse(&file.slice(..cut)).unwrap_err();
        }
        for place in (0..file.len()).step_by(61) {
            let mut bytes = file.to_vec();
            bytes[place] ^= 1;
            Snapshot::parse(&bytes.into()).unwrap_err();
        }
        for (text, expected) in [
            ("", "not a snapshot"),
            ("apiVersion: v1\n", "not a snapshot"),
            ("orrery-snapshot 2 7\n", "written in format 2 by a later version; this one reads up to format 1"),
            ("orrery-snapshot 1\n", "damaged: its first line"),
            ("orrery-snapshot 1 7\n", "damaged: it is cut off"),
            ("orrery-snapshot 1 7\n99999999999999999999 1 1\n", "damaged: a line of lengths"),
            ("orrery-snapshot 1 7\n18446744073709551615 1 1\nx", "damaged: it is cut off"),
            ("orrery-snapshot 1 7\nend 0 00\n", "damaged: its checksum is wrong"),
        ] {
            let error = Snapshot::parse(&Bytes::from_static(text.as_bytes())).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_was_filled_in_part_is_not_served() {
        let storage = Memory::new(&Env::simulated(1));
        storage.create(RESTORING, Bytes::new(), None).await.unwrap();
        let error = check(storage.as_ref()).await.unwrap_err().to_string();
        assert_eq!(error, "a restore into this store was cut short: empty it, and restore again");
    }
}
