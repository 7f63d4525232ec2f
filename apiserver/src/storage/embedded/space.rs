//! `Space`: how full the disk is, and what it may still be used for.
//!
//! A deletion writes pages before it frees any. So some room is kept for deletions: when less is left, everything else
//! is refused, nothing fails, and whoever deletes gets room back. Corresponds to etcd's NOSPACE alarm.

use std::fmt;
use std::path::PathBuf;

/// What is kept for deletions, and for the pages that one commit copies.
pub(super) const RESERVE_BYTES: u64 = 16 << 20;

/// A commit copies pages around what it changes: so many bytes for each byte that waits to be written.
const COPIES: u64 = 4;

/// Tells how many bytes the disk still takes; None if that cannot be known.
pub(super) struct Space {
    place: String,
    free_bytes: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({})", self.place)
    }
}

impl Space {
    /// Of the file system that holds the folder.
    pub fn of(folder: PathBuf) -> Self {
        let place = folder.display().to_string();
        let measure = move || rustix::fs::statvfs(&folder).ok().map(|about| about.f_bavail * about.f_frsize);
        Self { place, free_bytes: Box::new(measure) }
    }

    /// As told by `free_bytes`.
    pub fn told(free_bytes: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { place: "the disk".to_owned(), free_bytes: Box::new(free_bytes) }
    }

    /// Whether so many bytes of values may be written; otherwise why not.
    pub fn takes(&self, bytes: u64) -> Result<(), String> {
        let Some(free) = (self.free_bytes)() else { return Ok(()) };
        if free >= RESERVE_BYTES + bytes.saturating_mul(COPIES) {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(format!(
            "{}: only deletions are taken: {} MiB are left on the disk, and {} MiB are kept for them",
            self.place,
            mib(free),
            mib(RESERVE_BYTES)
        ))
    }
}
