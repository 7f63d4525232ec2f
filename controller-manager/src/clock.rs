//! Arithmetic on wall times as objects carry them: whole seconds.
//!
//! Corresponds to metav1.Time, which is written without a fraction of a second.

use jiff::{SignedDuration, Timestamp};
use proto::kinds::metav1::Time;
use std::time::Duration;

/// The least time after which something is looked at again: less would come before the second is over.
pub const TICK: Duration = Duration::from_secs(1);

/// `now` as it will be read back: conditions compare equal before and after a round through the API.
pub fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the second of a timestamp is a timestamp"))
}

pub fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// How long from `now` until `time`; zero if it has passed.
pub fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

/// How long ago `time` was; zero if it is still to come.
pub fn since(time: Timestamp, now: Timestamp) -> Duration {
    until(now, time)
}
