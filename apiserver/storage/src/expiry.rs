//! `Expiry`: the keys with a time to live, in order of their deadlines.
//!
//! Corresponds to etcd's leases, one per key. Deadlines are wall time, so that they survive a restart.

use super::{Change, Key, Storage};
use component_base::env::Env;
use component_base::panics::{caught, caught_in};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Notify;

/// Deletions in flight at a time: an engine with a disk makes them durable together.
const DELETIONS: usize = 256;

/// Pause before an operation that panicked is tried again.
const RETRY_MS: i64 = 5_000;

#[derive(Debug, Default)]
pub(super) struct Expiry {
    by_deadline: BTreeMap<(i64, u64), Key>,
    by_key: BTreeMap<Key, (i64, u64)>,
}

/// A key whose deadline has passed. It is deleted only if it is still at this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    pub key: Key,
    pub mod_revision: u64,
}

impl Expiry {
    /// Records the deadline of a key after each write, or that it has none.
    pub fn set(&mut self, key: &Key, mod_revision: u64, deadline_ms: Option<i64>) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_deadline.remove(&old);
        }
        if let Some(deadline_ms) = deadline_ms {
            self.by_key.insert(key.clone(), (deadline_ms, mod_revision));
            self.by_deadline.insert((deadline_ms, mod_revision), key.clone());
        }
    }

    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.by_deadline.first_key_value().map(|((deadline_ms, _), _)| *deadline_ms)
    }

    /// Removes and returns the keys whose deadline has passed, in order of deadline.
    pub fn take_due(&mut self, now_ms: i64) -> Vec<Expired> {
        let mut due = Vec::new();
        while let Some(first) = self.by_deadline.first_entry() {
            let (deadline_ms, mod_revision) = *first.key();
            if deadline_ms > now_ms {
                break;
            }
            let key = first.remove();
            self.by_key.remove(&key);
            due.push(Expired { key, mod_revision });
        }
        due
    }
}

/// Returns the wall time at which the written key expires, or `None` when the write has no time to live.
pub(super) fn deadline_ms(change: &Change, now_ms: i64) -> Option<i64> {
    match change {
        Change::Put { ttl: Some(ttl), .. } => {
            Some(now_ms.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)))
        }
        _ => None,
    }
}

/// Deletes keys as their deadlines pass, each with a revision of its own, until shutdown. `take_due` returns the due
/// keys and the next deadline; `earlier_deadline` is notified when a key gets an earlier one.
///
/// A panic does not end the task: the keys concerned are tried again, and the others go on.
pub(super) async fn run(
    env: &Env,
    storage: &dyn Storage,
    earlier_deadline: &Notify,
    mut take_due: impl FnMut(i64) -> (Vec<Expired>, Option<i64>),
) {
    let mut due = Vec::new();
    loop {
        let now_ms = env.wall().as_millisecond();
        let retry_ms = now_ms + RETRY_MS;
        let (more, mut next_ms) = caught(|| take_due(now_ms)).unwrap_or_else(|why| {
            tracing::error!(why, "looking for expired keys panicked and is tried again");
            (Vec::new(), Some(retry_ms))
        });
        due.extend(more);
        due = delete(storage, &due).await;
        if !due.is_empty() {
            next_ms = Some(next_ms.map_or(retry_ms, |next_ms| next_ms.min(retry_ms)));
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = earlier_deadline.notified() => {}
            () = until(env, next_ms) => {}
        }
    }
}

/// Deletes expired keys, and returns those whose deletion panicked.
async fn delete(storage: &dyn Storage, due: &[Expired]) -> Vec<Expired> {
    let mut left = Vec::new();
    for due in due.chunks(DELETIONS) {
        // A key that was written meanwhile refuses. A store that has stopped has reported that itself.
        let deletions = due.iter().map(|Expired { key, mod_revision }| storage.delete(key, *mod_revision));
        for (expired, end) in due.iter().zip(join_all(deletions.map(caught_in)).await) {
            if let Err(why) = end {
                tracing::error!(key = %expired.key, why, "deleting an expired key panicked and is tried again");
                left.push(expired.clone());
            }
        }
    }
    left
}

/// Waits until the wall time `deadline_ms`, or for ever when it is `None`.
async fn until(env: &Env, deadline_ms: Option<i64>) {
    match deadline_ms {
        None => std::future::pending().await,
        Some(deadline_ms) => {
            let left_ms = deadline_ms.saturating_sub(env.wall().as_millisecond());
            env.sleep(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RangeRequest;
    use crate::behaviour::{text, written};
    use crate::fault::Fault;
    use crate::memory::Memory;
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn the_last_write_decides() {
        let mut expiry = Expiry::default();
        let (a, b, c): (Key, Key, Key) = ("a".into(), "b".into(), "c".into());
        expiry.set(&a, 2, Some(100));
        expiry.set(&b, 3, Some(50));
        expiry.set(&c, 4, Some(70));
        expiry.set(&a, 5, Some(60));
        expiry.set(&c, 6, None);
        assert_eq!(expiry.next_deadline_ms(), Some(50));
        let due = expiry.take_due(60);
        assert_eq!(due, [Expired { key: b, mod_revision: 3 }, Expired { key: a, mod_revision: 5 }]);
        assert_eq!(expiry.next_deadline_ms(), None);
    }

    /// Keys that were due at the time of the panic are deleted later, and so are those that come due after it.
    #[tokio::test(start_paused = true)]
    async fn a_panic_delays_the_deletions_and_ends_none() {
        let env = Env::simulated(1);
        let fault = Fault::new(&env, Memory::new(&env));
        let (earlier_deadline, mut expiry) = (Arc::new(Notify::new()), Expiry::default());
        let start_ms = env.wall().as_millisecond();
        for (key, after_s) in [("/a", 0), ("/b", 0), ("/c", 100)] {
            let revision = written(fault.create(key, Bytes::new(), None).await.unwrap());
            expiry.set(&key.into(), revision, Some(start_ms + after_s * 1000));
        }
        fault.set_panics(true);
        let (expiring, deleting) = (env.clone(), fault.clone());
        env.spawn(async move {
            let mut looks = 0;
            let take_due = |now_ms| {
                looks += 1;
                assert_ne!(looks, 1, "a mistake in the order of deadlines");
                (expiry.take_due(now_ms), expiry.next_deadline_ms())
            };
            run(&expiring, &*deleting, &earlier_deadline, take_due).await;
        });
        env.sleep(Duration::from_secs(20)).await;
        fault.set_panics(false);
        let left = async || text(&fault.range(RangeRequest::prefix("/")).await.unwrap().entries);
        assert_eq!(left().await, "/a= 2/2, /b= 3/3, /c= 4/4");
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(left().await, "/c= 4/4");
        env.sleep(Duration::from_secs(100)).await;
        assert_eq!(left().await, "");
    }
}
