//! `Leases`: the leases behind times to live. Keys that expire at about the same time share one, because each costs
//! etcd work.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/etcd3/lease_manager.go, with its numbers. A lease lasts a little longer
//! than requested, so that writes in the next moments can join it. For a time to live of an hour that is a minute, so
//! an Event lives between 60 and 61 minutes.

use super::cluster::{Cluster, Repeat};
use super::member::Failure;
use component_base::env::Env;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Largest number of keys on one lease: its end deletes them all in one revision.
const KEYS: u32 = 1000;

#[derive(Debug)]
pub struct Leases {
    env: Env,
    cluster: Arc<Cluster>,
    /// `--lease-reuse-duration-seconds`
    reuse_s: u64,
    /// Locked while a lease is granted, so that waiting writes can share it.
    last: Mutex<Option<Lease>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    id: i64,
    /// Counted from before the request, so the lease ends no earlier.
    expires: Instant,
    keys: u32,
}

/// Returns by how much the lease may outlive the requested time.
fn extra_s(ttl_s: u64, reuse_s: u64) -> u64 {
    (ttl_s / 20).min(reuse_s)
}

impl Lease {
    /// Returns whether a key that is to live for `ttl_s` from `now` on may join.
    fn can_join(&self, ttl_s: u64, reuse_s: u64, now: Instant) -> bool {
        let earliest = now + Duration::from_secs(ttl_s);
        let latest = earliest + Duration::from_secs(extra_s(ttl_s, reuse_s));
        earliest < self.expires && self.expires < latest && self.keys < KEYS
    }
}

impl Leases {
    pub fn new(env: &Env, cluster: Arc<Cluster>, reuse_s: u64) -> Self {
        Self { env: env.clone(), cluster, reuse_s, last: Mutex::default() }
    }

    /// Returns a lease for a key that is written now: it ends when `ttl` has passed, or a little later.
    pub async fn lease_for(&self, ttl: Duration) -> Result<i64, Failure> {
        let ttl_s = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let mut last = self.last.lock().await;
        let now = self.env.now();
        if let Some(lease) = last.as_mut().filter(|lease| lease.can_join(ttl_s, self.reuse_s, now)) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let granted_s = ttl_s + extra_s(ttl_s, self.reuse_s);
        // A lease whose answer was lost ends by itself.
        let id = self
            .cluster
            .call(Repeat::Always, |connection| async move { connection.grant_lease(granted_s).await })
            .await?;
        *last = Some(Lease { id, expires: now + Duration::from_secs(granted_s), keys: 1 });
        Ok(id)
    }

    /// Drops a lease that etcd no longer knows.
    pub async fn forget(&self, id: i64) {
        self.last.lock().await.take_if(|lease| lease.id == id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_shared_by_what_expires_at_about_the_same_time() {
        let env = Env::simulated(1);
        let granted = env.now();
        let hour = 3600;
        assert_eq!((extra_s(hour, 60), extra_s(100, 60), extra_s(19, 60), extra_s(hour, 10)), (60, 5, 0, 10));
        let lease = Lease { id: 1, expires: granted + Duration::from_secs(hour + 60), keys: 1 };
        let cases = [
            (1, hour, 1, true),
            (59, hour, 1, true),
            (60, hour, 1, false),
            (1, hour, KEYS, false),
            (30, hour - 60, 1, false),
            (1, hour + 60, 1, false),
            (90, hour - 60, 1, true),
        ];
        for (after_s, ttl_s, keys, suits) in cases {
            let now = granted + Duration::from_secs(after_s);
            assert_eq!(Lease { keys, ..lease }.can_join(ttl_s, 60, now), suits, "after {after_s} s for {ttl_s} s");
        }
    }
}
