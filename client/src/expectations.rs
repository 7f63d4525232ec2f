//! Expectations: creations and deletions that a controller has requested and not yet observed.
//!
//! Corresponds to ControllerExpectations and UIDTrackingControllerExpectations of
//! k8s.io/kubernetes/pkg/controller/controller_utils.go.

use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which expectations are dropped, and the controller relies on the cache again.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Counts of expected creations and deletions, by a controller's key. Clones share them.
///
/// A controller that is to create three pods expects three creations before it sends the requests. Event handlers count
/// them down. Until the count is zero or has timed out, the controller's cache is behind.
#[derive(Clone)]
pub struct Expectations {
    env: Env,
    by_key: Arc<Mutex<BTreeMap<String, Expected>>>,
}

#[derive(Clone, Copy)]
struct Expected {
    creations: i64,
    deletions: i64,
    since: Instant,
}

impl Expectations {
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), by_key: Arc::default() }
    }

    /// Sets the expectations, and replaces earlier ones.
    pub fn expect(&self, key: &str, creations: usize, deletions: usize) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let expected = Expected { creations: count(creations), deletions: count(deletions), since: self.env.now() };
        self.by_key.lock().insert(key.to_owned(), expected);
    }

    /// Counts a creation that was observed, or that failed.
    pub fn creation_observed(&self, key: &str) {
        self.change(key, -1, 0);
    }

    pub fn deletion_observed(&self, key: &str) {
        self.change(key, 0, -1);
    }

    /// Raises the expectations without restarting the timeout.
    pub fn raise(&self, key: &str, creations: i64, deletions: i64) {
        self.change(key, creations, deletions);
    }

    pub fn lower(&self, key: &str, creations: i64, deletions: i64) {
        self.change(key, -creations, -deletions);
    }

    fn change(&self, key: &str, creations: i64, deletions: i64) {
        if let Some(expected) = self.by_key.lock().get_mut(key) {
            expected.creations += creations;
            expected.deletions += deletions;
        }
    }

    /// Returns true if the cache can be trusted: nothing is expected, or the expectations have timed out.
    pub fn satisfied(&self, key: &str) -> bool {
        let now = self.env.now();
        self.by_key.lock().get(key).is_none_or(|expected| {
            let fulfilled = expected.creations <= 0 && expected.deletions <= 0;
            fulfilled || now.duration_since(expected.since) > TIMEOUT
        })
    }

    /// Forgets the expectations of a deleted object.
    pub fn forget(&self, key: &str) {
        self.by_key.lock().remove(key);
    }
}

/// Expectations that identify each deletion, because one is observed several times: as a deletion timestamp, and as the
/// final event.
#[derive(Clone)]
pub struct UidExpectations {
    counts: Expectations,
    deleting: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

impl UidExpectations {
    pub fn new(env: &Env) -> Self {
        Self { counts: Expectations::new(env), deleting: Arc::default() }
    }

    /// Sets the expectations. `deleted` are keys or UIDs of the objects about to be deleted.
    pub fn expect(&self, key: &str, creations: usize, deleted: impl IntoIterator<Item = String>) {
        let deleted: BTreeSet<String> = deleted.into_iter().collect();
        self.counts.expect(key, creations, deleted.len());
        self.deleting.lock().insert(key.to_owned(), deleted);
    }

    pub fn creation_observed(&self, key: &str) {
        self.counts.creation_observed(key);
    }

    /// Counts a deletion, only the first time.
    pub fn deletion_observed(&self, key: &str, deleted: &str) {
        let first = self.deleting.lock().get_mut(key).is_some_and(|deleting| deleting.remove(deleted));
        if first {
            self.counts.deletion_observed(key);
        }
    }

    pub fn satisfied(&self, key: &str) -> bool {
        self.counts.satisfied(key)
    }

    pub fn forget(&self, key: &str) {
        self.counts.forget(key);
        self.deleting.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_expected_has_to_come_or_time_has_to_pass() {
        let env = Env::simulated(1);
        let expectations = Expectations::new(&env);
        assert!(expectations.satisfied("rs"));
        expectations.expect("rs", 2, 0);
        expectations.creation_observed("rs");
        assert!(!expectations.satisfied("rs"));
        expectations.creation_observed("rs");
        assert!(expectations.satisfied("rs"));
        expectations.expect("rs", 0, 1);
        assert!(!expectations.satisfied("rs"));
        env.sleep(TIMEOUT + Duration::from_secs(1)).await;
        assert!(expectations.satisfied("rs"));
        expectations.creation_observed("other");
        assert!(expectations.satisfied("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_counts_once() {
        let env = Env::simulated(1);
        let expectations = UidExpectations::new(&env);
        expectations.expect("rs", 0, ["a".to_owned(), "b".to_owned()]);
        expectations.deletion_observed("rs", "a");
        expectations.deletion_observed("rs", "a");
        expectations.deletion_observed("rs", "stranger");
        assert!(!expectations.satisfied("rs"));
        expectations.deletion_observed("rs", "b");
        assert!(expectations.satisfied("rs"));
    }
}
