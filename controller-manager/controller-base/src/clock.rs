//! Arithmetic on wall-clock times in whole seconds, the precision of times in API objects.
//!
//! Corresponds to metav1.Time, which is written without a fraction of a second.

use jiff::{SignedDuration, Timestamp};
use proto::kinds::metav1::Time;
use std::time::Duration;

/// The loop that runs controllers uses the same delay.
pub use client::reconcile::TICK;

/// Returns `now` without its fraction of a second, so that it compares equal after a round trip through the API.
pub fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the second of a timestamp is a timestamp"))
}

pub fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Returns the time from `now` until `time`; zero if `time` has passed.
pub fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

/// Returns the time from `time` until `now`; zero if `time` is still to come.
pub fn since(time: Timestamp, now: Timestamp) -> Duration {
    until(now, time)
}
