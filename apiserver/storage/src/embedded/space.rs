//! `Space`: how full the disk is, and what it may still be used for.
//!
//! A deletion writes pages before it frees any. So some room is kept for deletions: when less is left, everything else
//! is refused, nothing fails, and whoever deletes gets room back. Corresponds to etcd's NOSPACE alarm.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// In which a file's size on disk is counted.
const BLOCK_BYTES: u64 = 512;

/// What is kept for deletions, and for the pages that one commit copies.
pub(super) const RESERVE_BYTES: u64 = 16 << 20;

/// A commit copies pages around what it changes: so many bytes for each byte that waits to be written.
const COPIES: u64 = 4;

/// Pages are at least half full, so that the data takes at most so many times its own size.
const PAGES: u64 = 2;

/// Measures the room. Every write asks, so the file is only looked at when the disk is short.
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
    /// Of the file system that holds the file.
    pub fn of(file: PathBuf) -> Self {
        let place = file.display().to_string();
        let of_disk = file.clone();
        let free = move || rustix::fs::statvfs(&of_disk).ok().map(|about| about.f_bavail * about.f_frsize);
        let occupied = move || std::fs::metadata(&file).map_or(0, |about| about.blocks() * BLOCK_BYTES);
        Self { place, free: Box::new(free), occupied: Box::new(occupied) }
    }

    /// Bytes that nobody uses, None if that cannot be known, and bytes that the store's file occupies, used or not.
    pub fn told(
        free: impl Fn() -> Option<u64> + Send + Sync + 'static,
        occupied: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { place: "the disk".to_owned(), free: Box::new(free), occupied: Box::new(occupied) }
    }

    /// Whether so many bytes of values may be written to a store that holds `live` bytes; otherwise why not.
    pub fn takes(&self, bytes: u64, live: u64) -> Result<(), String> {
        let Some(free) = (self.free)() else { return Ok(()) };
        let wanted = RESERVE_BYTES + bytes * COPIES;
        if free >= wanted {
            return Ok(());
        }
        // What deletions have left empty in the file is written to again.
        let room = free + (self.occupied)().saturating_sub(live * PAGES);
        if room >= wanted {
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
