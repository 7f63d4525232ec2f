//! Waiting for a condition, with a deadline.

use std::process::Command;

/// Looks before giving up; with the pause between two looks this is half a minute.
const LOOKS: u32 = 300;

/// Looks until `condition` holds; panics by name when it does not in time.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if condition() {
            return;
        }
        pause();
    }
    panic!("waited in vain until {what}");
}

/// Between two looks. A process of its own waits, so that nothing here sleeps a thread.
pub fn pause() {
    let _ = Command::new("sleep").arg("0.1").status();
}

/// The same for a condition that is asked for.
pub async fn until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..LOOKS {
        if condition().await {
            return;
        }
        pause();
    }
    panic!("waited in vain until {what}");
}
