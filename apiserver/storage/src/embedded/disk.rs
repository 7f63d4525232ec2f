//! `Disk`: the part of a store that survives a power loss, in two tables of redb.
//!
//! `entries` maps a key to its current entry; `meta` holds the revision. History is not kept on disk. One commit
//! is one transaction and one sync, so that a crash leaves the store as it was after some commit.

use crate::mvcc::FIRST_REVISION;
use crate::{Entry, Event};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError};
use std::io;
use std::sync::Arc;

const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const REVISION: &str = "revision";

/// Size of redb's page cache. Reads are served from memory, so it needs only the pages that writes pass through.
const PAGE_CACHE_BYTES: usize = 16 << 20;

/// Bytes before the value: create revision, mod revision and deadline (0: none) of 8 bytes each, and a checksum of 4.
const HEADER: usize = 28;

#[derive(Debug)]
pub(super) struct Disk {
    database: Database,
}

/// A change to be made durable.
#[derive(Clone, Debug)]
pub(super) struct DiskWrite {
    pub event: Arc<Event>,
    /// Wall time at which the new entry expires.
    pub deadline_ms: Option<i64>,
}

/// The content of a store when it was opened.
#[derive(Debug)]
pub(super) struct Loaded {
    pub revision: u64,
    pub entries: Vec<(Entry, Option<i64>)>,
}

/// The reason of a failure; `is_damage` distinguishes broken data from a failing device.
#[derive(Debug)]
pub(super) struct DiskError {
    pub is_damage: bool,
    pub reason: String,
}

macro_rules! from_redb {
    ($($error:ty),+) => {$(
        impl From<$error> for DiskError {
            fn from(error: $error) -> Self {
                match error.into() {
                    redb::Error::Io(error) => error.into(),
                    error => Self::damage(error.to_string()),
                }
            }
        }
    )+};
}
from_redb!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::SetDurabilityError
);

impl From<io::Error> for DiskError {
    fn from(error: io::Error) -> Self {
        // A file that is too short or of another kind is damaged, while the device works.
        let is_damage = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof);
        Self { is_damage, reason: error.to_string() }
    }
}

impl DiskError {
    pub fn damage(reason: impl Into<String>) -> Self {
        Self { is_damage: true, reason: reason.into() }
    }
}

impl Disk {
    /// Opens a database after checking every page, or creates one in an empty backend.
    pub fn open(backend: impl StorageBackend) -> Result<Self, DiskError> {
        let mut database = Database::builder().set_cache_size(PAGE_CACHE_BYTES).create_with_backend(backend)?;
        match database.check_integrity()? {
            true => Ok(Self { database }),
            false => Err(DiskError::damage("pages differ from their checksums")),
        }
    }

    /// Writes the empty store into a new database, durably.
    pub fn prepare(&self) -> Result<(), DiskError> {
        self.commit(&[], FIRST_REVISION)
    }

    pub fn load(&self) -> Result<Loaded, DiskError> {
        let transaction = self.database.begin_read()?;
        let revision = match transaction.open_table(META) {
            Ok(meta) => meta.get(REVISION)?.map(|revision| revision.value()),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let revision = revision.ok_or_else(|| DiskError::damage("it does not say at which revision it is"))?;
        let table = transaction.open_table(ENTRIES)?;
        let mut entries = Vec::new();
        for row in table.iter()? {
            let (key, bytes) = row?;
            let (entry, deadline_ms) = decode(key.value(), bytes.value())
                .filter(|(entry, _)| entry.mod_revision <= revision)
                .ok_or_else(|| DiskError::damage(format!("the entry of {} is broken", key.value())))?;
            entries.push((entry, deadline_ms));
        }
        Ok(Loaded { revision, entries })
    }

    /// Makes a batch durable, all or nothing, together with the new revision of the store.
    pub fn commit(&self, batch: &[DiskWrite], revision: u64) -> Result<(), DiskError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        // With two phases, a header that is damaged later counts as damage and not as an interrupted commit.
        transaction.set_two_phase_commit(true);
        {
            let mut entries = transaction.open_table(ENTRIES)?;
            let mut bytes = Vec::new();
            for DiskWrite { event, deadline_ms } in batch {
                match &event.current {
                    Some(entry) => {
                        encode(entry, *deadline_ms, &mut bytes);
                        entries.insert(&*event.key, bytes.as_slice())?;
                    }
                    None => {
                        entries.remove(&*event.key)?;
                    }
                }
            }
            transaction.open_table(META)?.insert(REVISION, revision)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

fn encode(entry: &Entry, deadline_ms: Option<i64>, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend_from_slice(&entry.create_revision.to_le_bytes());
    bytes.extend_from_slice(&entry.mod_revision.to_le_bytes());
    bytes.extend_from_slice(&deadline_ms.unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&checksum(&entry.key, bytes, &entry.value).to_le_bytes());
    bytes.extend_from_slice(&entry.value);
}

/// Returns the entry, or `None` if `encode` did not write these bytes under this key.
fn decode(key: &str, bytes: &[u8]) -> Option<(Entry, Option<i64>)> {
    let (header, value) = bytes.split_at_checked(HEADER)?;
    let number = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes");
    let sum = header[24..].try_into().map(u32::from_le_bytes).expect("four bytes");
    if sum != checksum(key, &header[..24], value) {
        return None;
    }
    let deadline_ms = i64::from_le_bytes(number(16).to_le_bytes());
    let entry = Entry {
        key: key.into(),
        value: bytes::Bytes::copy_from_slice(value),
        create_revision: number(0),
        mod_revision: number(8),
    };
    Some((entry, (deadline_ms != 0).then_some(deadline_ms)))
}

/// Returns the checksum of an entry. redb looks at its own checksums only when it repairs.
fn checksum(key: &str, header: &[u8], value: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_bytes());
    sum.update(header);
    sum.update(value);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back_unless_a_bit_changed() {
        let entry = Entry { key: "/a/b".into(), value: "value".into(), create_revision: 3, mod_revision: 1 << 40 };
        let mut bytes = Vec::new();
        encode(&entry, Some(77), &mut bytes);
        assert_eq!(decode("/a/b", &bytes), Some((entry, Some(77))));
        assert_eq!(decode("/a/c", &bytes), None);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode("/a/b", &bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(decode("/a/b", &bytes[..20]), None);
    }
}
