//! `RateLimiter`: the wait of a failed key, which grows each time, with an overall limit of keys per second.
//!
//! Corresponds to k8s.io/client-go/util/workqueue/default_rate_limiters.go.

use crate::backoff::Backoff;
use crate::token_bucket::TokenBucket;
use component_base::env::Env;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Back-off of DefaultTypedControllerRateLimiter: 5 ms, doubled with each failure, up to 1000 s.
const PER_KEY: Backoff =
    Backoff { initial: Duration::from_millis(5), factor: 2.0, max: Duration::from_secs(1000), jitter: 0.0 };
/// Limit of all keys together.
const OVERALL_QPS: f64 = 10.0;
const OVERALL_BURST: u32 = 100;

/// Waits for the longer of two times: the key's own back-off and the overall limit.
pub struct RateLimiter<Key> {
    per_key: Backoff,
    failures: BTreeMap<Key, u32>,
    overall: Option<TokenBucket>,
}

impl<Key: Ord + Clone> RateLimiter<Key> {
    pub fn new(env: &Env) -> Self {
        let overall = TokenBucket::new(OVERALL_QPS, OVERALL_BURST, env.now());
        Self { per_key: PER_KEY, failures: BTreeMap::new(), overall: Some(overall) }
    }

    /// Makes a limiter with this back-off and without the overall limit.
    pub fn per_key(initial: Duration, max: Duration) -> Self {
        let per_key = Backoff { initial, factor: 2.0, max, jitter: 0.0 };
        Self { per_key, failures: BTreeMap::new(), overall: None }
    }

    pub(crate) fn when(&mut self, key: &Key, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let own = self.per_key.delay(*failures);
        *failures = failures.saturating_add(1);
        own.max(self.overall.as_mut().map_or(Duration::ZERO, |overall| overall.reserve(now)))
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    pub(crate) fn requeues(&self, key: &Key) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}
