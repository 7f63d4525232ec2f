//! `TokenCache`: caches the results of token authentication for a short time.
//!
//! Tokens themselves are not stored: the key is a hash with a random secret. Concurrent requests with the same token
//! share one call. Corresponds to k8s.io/apiserver/pkg/authentication/token/cache.

use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use remote::expiring_cache::ExpiringCache;
use request::UserInfo;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The most results in the cache.
const MAX_KEPT: usize = 4096;
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// User and audiences of a token, `None` for an unknown token, or why the authenticator failed.
pub type TokenResult = Result<Option<(UserInfo, Vec<String>)>, String>;

type Key = [u8; 32];

pub struct TokenCache {
    env: Env,
    secret: [u8; 32],
    success_ttl: Duration,
    failure_ttl: Duration,
    kept: ExpiringCache<Key, TokenResult>,
    asking: Mutex<BTreeMap<Key, Shared<BoxFuture<'static, TokenResult>>>>,
    metrics: Meters,
}

struct Meters {
    requests: Counters,
    durations: Histograms,
    fetches: Counters,
    active: Gauges,
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCache").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

impl TokenCache {
    pub fn new(env: &Env, success_ttl: Duration, failure_ttl: Duration) -> Self {
        let mut secret = [0; 32];
        env.random("apiserver/token-cache").fill(&mut secret);
        let metrics = env.metrics();
        let counters = |name, help| metrics.counters(name, help);
        let meters = Meters {
            requests: counters(
                "authentication_token_cache_request_total",
                "Questions to the cache of tokens by status",
            ),
            durations: metrics.histograms(
                "authentication_token_cache_request_duration_seconds",
                "Time of questions to the cache of tokens by status",
                SECONDS,
            ),
            fetches: counters("authentication_token_cache_fetch_total", "Questions that the cache passed on by status"),
            active: metrics
                .gauges("authentication_token_cache_active_fetch_count", "Questions that wait for an answer by status"),
        };
        Self {
            env: env.clone(),
            secret,
            success_ttl,
            failure_ttl,
            kept: ExpiringCache::new(MAX_KEPT),
            asking: Mutex::default(),
            metrics: meters,
        }
    }

    /// Returns the cached result, or calls `ask`.
    pub async fn get(
        &self,
        token: &str,
        audiences: &[String],
        ask: impl FnOnce() -> BoxFuture<'static, TokenResult>,
    ) -> TokenResult {
        let key = self.key(token, audiences);
        let began = self.env.now();
        if let Some(outcome) = self.kept.get(&key, began) {
            self.count("hit", began);
            return outcome;
        }
        let (question, is_first) = {
            let mut asking = self.asking.lock();
            match asking.get(&key) {
                Some(question) => (question.clone(), false),
                None => {
                    let question = ask().shared();
                    asking.insert(key, question.clone());
                    (question, true)
                }
            }
        };
        let label = |status: &str| vec![("status", status.to_owned())];
        self.metrics.active.get_or_create(&label(if is_first { "in_flight" } else { "blocked" })).inc();
        let guard = WaitingCall { cache: self, key, question: question.clone(), is_first };
        let outcome = question.await;
        if is_first {
            let status = if outcome.is_ok() { "ok" } else { "error" };
            self.metrics.fetches.get_or_create(&label(status)).inc();
            self.keep(key, &outcome);
        }
        drop(guard);
        self.count("miss", began);
        outcome
    }

    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }

    /// Stores a result. Errors are not cached.
    fn keep(&self, key: Key, outcome: &TokenResult) {
        let ttl = match outcome {
            Ok(Some(_)) => self.success_ttl,
            Ok(None) => self.failure_ttl,
            Err(_) => return,
        };
        self.kept.keep(key, outcome.clone(), self.env.now(), ttl);
    }

    fn count(&self, status: &str, began: Instant) {
        let labels = vec![("status", status.to_owned())];
        self.metrics.requests.get_or_create(&labels).inc();
        self.metrics.durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
    }
}

/// A caller that waits for a result. Dropping it, also when the caller is cancelled, ends its part in the shared call.
struct WaitingCall<'a> {
    cache: &'a TokenCache,
    key: Key,
    question: Shared<BoxFuture<'static, TokenResult>>,
    is_first: bool,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let status = if self.is_first { "in_flight" } else { "blocked" };
        self.cache.metrics.active.get_or_create(&vec![("status", status.to_owned())]).dec();
        let mut asking = self.cache.asking.lock();
        // The next caller starts a new call, unless another call has replaced this one.
        if asking.get(&self.key).is_some_and(|known| known.ptr_eq(&self.question)) {
            asking.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn found(name: &str) -> TokenResult {
        Ok(Some((UserInfo::new(name, &[]), vec!["api".to_owned()])))
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_the_same_time_share_an_answer() {
        let env = Env::simulated(1);
        let cache = TokenCache::new(&env, Duration::from_secs(10), Duration::from_secs(1));
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = |outcome: TokenResult| {
            let (asked, env) = (asked.clone(), env.clone());
            move || {
                asked.fetch_add(1, Ordering::Relaxed);
                async move {
                    env.sleep(Duration::from_millis(100)).await;
                    outcome
                }
                .boxed()
            }
        };
        let audiences = ["api".to_owned()];
        let get = |token: &'static str, outcome: TokenResult| cache.get(token, &audiences, ask(outcome));
        let both = tokio::join!(get("a", found("ann")), get("a", found("other")));
        assert_eq!(both, (found("ann"), found("ann")));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        for (token, wait_s, outcome, questions) in [
            ("a", 9, found("ann"), 1),
            ("a", 2, found("ann"), 2),
            ("b", 0, Ok(None), 3),
            ("b", 0, Ok(None), 3),
            ("b", 2, Ok(None), 4),
            ("c", 0, Err("down".to_owned()), 5),
            ("c", 0, Err("down".to_owned()), 6),
        ] {
            env.sleep(Duration::from_secs(wait_s)).await;
            assert_eq!(get(token, outcome.clone()).await, outcome, "{token}");
            assert_eq!(asked.load(Ordering::Relaxed), questions, "{token}");
        }
        // Other audiences need a call of their own.
        cache.get("a", &[], ask(found("ann"))).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 7);
        // A cancelled caller does not cancel the shared call.
        assert!(env.timeout(Duration::from_millis(1), get("d", found("dan"))).await.is_err());
        assert_eq!(get("d", found("dan")).await, found("dan"));
        assert!(cache.asking.lock().is_empty());
        let text = env.metrics().encode();
        assert!(text.contains("authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0"), "{text}");
        assert!(text.contains("authentication_token_cache_request_total{status=\"hit\"} 2"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_and_no_token() {
        let env = Env::simulated(1);
        let cache = TokenCache::new(&env, Duration::from_secs(10), Duration::ZERO);
        for number in 0..=MAX_KEPT {
            cache.get(&format!("token-{number}"), &[], || async { found("ann") }.boxed()).await.unwrap();
        }
        assert_eq!(cache.kept.len(), 1);
        assert_ne!(cache.key("a", &[]), <Key>::from(Sha256::digest("a")));
    }
}
