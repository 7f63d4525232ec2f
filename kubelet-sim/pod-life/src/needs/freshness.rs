//! For how long what was read of an object is good enough. Pure.
//!
//! Corresponds to isObjectOlder and the time to live of pkg/kubelet/util/manager.

use proto::kinds::jiff::{SignedDuration, Timestamp};

/// The age at which an object is read again: the kubelet's default for the strategy `Cache`.
pub const MAX_AGE: SignedDuration = SignedDuration::from_secs(60);

/// True if an object that was asked for at `read_at` serves a pod that needs what there was at `since`, or later.
pub fn is_fresh(read_at: Timestamp, since: Timestamp, now: Timestamp) -> bool {
    read_at >= since && now.duration_since(read_at) < MAX_AGE
}
