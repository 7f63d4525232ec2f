//! Waits for conditions, with a deadline.

use std::process::Command;

/// Number of checks before a test fails: half a minute with the pauses.
const MAX_CHECKS: u32 = 300;

/// Waits until `condition` holds; panics with `what` if it does not in time.
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(whether(condition), "waited in vain until {what}");
}

/// Waits until `condition` holds; returns false if it does not in time.
pub fn whether(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..MAX_CHECKS {
        if condition() {
            return true;
        }
        pause();
    }
    false
}

/// Pauses between two checks. A child process sleeps, so that no thread of this process does.
pub fn pause() {
    let _ = Command::new("sleep").arg("0.1").status();
}

/// Waits until an asynchronous condition holds, like `until`.
pub async fn until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..MAX_CHECKS {
        if condition().await {
            return;
        }
        pause();
    }
    panic!("waited in vain until {what}");
}
