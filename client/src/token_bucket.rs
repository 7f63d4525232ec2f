//! `TokenBucket`: limits the average rate and the burst of requests.
//!
//! Corresponds to golang.org/x/time/rate and k8s.io/client-go/util/flowcontrol.

use component_base::env::Env;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A bucket whose tokens can be reserved in advance, with a wait.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub fn new(qps: f64, burst: u32, now: Instant) -> Self {
        Self { qps, burst: f64::from(burst), tokens: f64::from(burst), filled_at: now }
    }

    fn fill(&mut self, now: Instant) {
        let passed_s = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed_s * self.qps).min(self.burst);
        self.filled_at = now;
    }

    /// Takes a token, and returns the wait until it may be used.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.qps) }
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }
}

/// A bucket that several callers share.
#[derive(Clone)]
pub(crate) struct SharedBucket(Arc<Mutex<TokenBucket>>);

impl SharedBucket {
    pub(crate) fn new(env: &Env, qps: f64, burst: u32) -> Self {
        Self(Arc::new(Mutex::new(TokenBucket::new(qps, burst, env.now()))))
    }

    pub(crate) async fn wait(&self, env: &Env) {
        let wait = self.0.lock().reserve(env.now());
        if !wait.is_zero() {
            env.sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_the_rest_waits_its_turn() {
        let env = Env::simulated(1);
        let mut bucket = TokenBucket::new(10.0, 3, env.now());
        let waits_ms: Vec<u128> = (0..5).map(|_| bucket.reserve(env.now()).as_millis()).collect();
        assert_eq!(waits_ms, [0, 0, 0, 100, 200]);
        assert!(!bucket.try_take(env.now()));
        env.sleep(Duration::from_millis(300)).await;
        assert!(bucket.try_take(env.now()));
        assert!(!bucket.try_take(env.now()));
    }
}
