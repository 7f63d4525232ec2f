//! `Space`: counts the bytes of one volume and hands out the numbers of its nodes.
//!
//! Corresponds to the superblock of a file system.

use super::disk::Disk;
use super::error::FileError;
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk, and the bytes that its files hold as far as this process knows.
#[derive(Clone, Debug)]
pub struct MountedDisk {
    pub disk: Arc<dyn Disk>,
    pub used_bytes: Arc<AtomicU64>,
}

impl MountedDisk {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        let used_bytes = Arc::new(AtomicU64::new(disk.used_bytes()));
        Self { disk, used_bytes }
    }
}

#[derive(Debug)]
pub struct Space {
    pub limit_bytes: u64,
    /// Where the nodes are; `None` for a volume in memory.
    pub disk: Option<Arc<dyn Disk>>,
    /// Until when changes are without effect, because an earlier process has made them on the disk: the programs that run
    /// again from their start make them once more.
    replayed_until: Timestamp,
    used_bytes: Arc<AtomicU64>,
    last_id: AtomicU64,
}

impl Space {
    /// Makes the space of a volume in memory.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            disk: None,
            replayed_until: Timestamp::MIN,
            used_bytes: Arc::default(),
            last_id: AtomicU64::new(0),
        })
    }

    /// Makes the space of a volume on a disk. All who use the disk share the count of bytes.
    pub fn of_disk(mounted: MountedDisk, limit_bytes: u64, replayed_until: Timestamp) -> Arc<Self> {
        let MountedDisk { disk, used_bytes } = mounted;
        Arc::new(Self { limit_bytes, disk: Some(disk), replayed_until, used_bytes, last_id: AtomicU64::new(0) })
    }

    /// Returns true if a change at this time is without effect.
    pub fn is_replayed(&self, at: Timestamp) -> bool {
        at < self.replayed_until
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of the next node in memory.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts content that exists, whether it fits or not.
    pub fn add(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records that content has grown or shrunk; refuses what does not fit.
    pub fn resize(&self, from: usize, to: usize) -> Result<(), FileError> {
        let after = |used: u64| used.saturating_sub(from as u64) + to as u64;
        let mut used = after(self.used_bytes());
        if to > from && used > self.limit_bytes {
            // Another process may have made room on the disk.
            used = self.disk.as_ref().map_or(used, |disk| after(disk.used_bytes()));
            if used > self.limit_bytes {
                return Err(FileError::NoSpace);
            }
        }
        self.used_bytes.store(used, Ordering::Relaxed);
        Ok(())
    }
}
