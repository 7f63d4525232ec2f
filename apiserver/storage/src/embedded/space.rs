//! `Space`: checks how full the disk is before a write.
//!
//! A deletion writes pages before it frees any, so some room is reserved for deletions. When less is left, every
//! other write is refused, nothing fails, and deletions make room again. Corresponds to etcd's NOSPACE alarm.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The unit in which the system counts a file's size on disk.
const BLOCK_BYTES: u64 = 512;

/// Bytes reserved for deletions, and for the pages that one commit copies.
pub(super) const RESERVE_BYTES: u64 = 16 << 20;

/// A commit copies the pages around each change: this many bytes for each byte that waits to be written.
const COPY_FACTOR: u64 = 4;

/// Pages are at least half full, so the data takes at most this many times its own size.
const PAGE_OVERHEAD_FACTOR: u64 = 2;

/// Measures the free space. Every write checks it, so the file is examined only when the disk is short.
pub(super) struct Space {
    place: String,
    free: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    occupied: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({})", self.place)
    }
}

impl Space {
    /// Measures the file system that holds the file.
    pub fn of(file: PathBuf) -> Self {
        let place = file.display().to_string();
        let of_disk = file.clone();
        let free = move || rustix::fs::statvfs(&of_disk).ok().map(|about| about.f_bavail * about.f_frsize);
        let occupied = move || std::fs::metadata(&file).map_or(0, |about| about.blocks() * BLOCK_BYTES);
        Self { place, free: Box::new(free), occupied: Box::new(occupied) }
    }

    /// Measures with two functions: `free` returns the unused bytes of the disk, or `None` if they cannot be known;
    /// `occupied` returns the bytes that the store's file occupies, including free pages.
    pub fn measured_by(
        free: impl Fn() -> Option<u64> + Send + Sync + 'static,
        occupied: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { place: "the disk".to_owned(), free: Box::new(free), occupied: Box::new(occupied) }
    }

    /// Checks that `bytes` of values fit into a store that holds `live` bytes; otherwise returns why not.
    pub fn check_room(&self, bytes: u64, live: u64) -> Result<(), String> {
        let Some(free) = (self.free)() else { return Ok(()) };
        let needed = RESERVE_BYTES + bytes * COPY_FACTOR;
        if free >= needed {
            return Ok(());
        }
        // Pages that deletions have emptied in the file are written to again.
        let room = free + (self.occupied)().saturating_sub(live * PAGE_OVERHEAD_FACTOR);
        if room >= needed {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(format!(
            "{}: only deletions are taken: there is room for {} MiB, and {} MiB are kept for them",
            self.place,
            mib(room),
            mib(RESERVE_BYTES)
        ))
    }
}
