//! The times at which a watch is due a bookmark.
//!
//! Corresponds to cacheWatcher's nextBookmarkTime in k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go.

use std::time::Duration;
use tokio::time::Instant;

/// Approximate interval between bookmarks.
const EVERY: Duration = Duration::from_secs(60);

/// Time before the end of a watch at which it gets a last bookmark, so that the client resumes from a recent revision.
const BEFORE_END: Duration = Duration::from_secs(2);

/// Fraction by which an interval may be shorter, so that watches that started together do not all wake together.
const JITTER: f64 = 0.25;

/// Returns the time of the next bookmark after `now`; `unit` is uniform in [0, 1). None: the watch ends before one is
/// due.
pub(super) fn next(now: Instant, deadline: Option<Instant>, unit: f64) -> Option<Instant> {
    let periodic = now + EVERY.mul_f64(1.0 - JITTER * unit);
    let Some(deadline) = deadline else { return Some(periodic) };
    let last = deadline.checked_sub(BEFORE_END).filter(|last| *last > now);
    match last {
        Some(last) => Some(periodic.min(last)),
        None => Some(periodic).filter(|periodic| *periodic < deadline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;

    #[tokio::test(start_paused = true)]
    async fn every_minute_and_before_the_end() {
        let now = Env::simulated(1).now();
        let at = |timeout_s: Option<u64>, unit| {
            let deadline = timeout_s.map(|timeout_s| now + Duration::from_secs(timeout_s));
            next(now, deadline, unit).map(|at| (at - now).as_millis())
        };
        let cases = [
            (None, 0.0, Some(60_000)),
            (None, 0.5, Some(52_500)),
            (Some(600), 0.0, Some(60_000)),
            (Some(61), 0.0, Some(59_000)),
            (Some(30), 0.0, Some(28_000)),
            (Some(2), 0.0, None),
            (Some(1), 0.0, None),
        ];
        for (timeout_s, unit, expected) in cases {
            assert_eq!(at(timeout_s, unit), expected, "timeout {timeout_s:?}, jitter {unit}");
        }
    }
}
