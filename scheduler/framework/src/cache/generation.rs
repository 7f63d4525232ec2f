//! Numbers that tell the states of nodes and snapshots apart.
//!
//! Corresponds to nextGeneration of pkg/scheduler/framework. No decision depends on a number, only on its equality.

use std::sync::atomic::{AtomicU64, Ordering};

static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a number that nobody else in this process gets. It is never zero.
pub fn next() -> u64 {
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
