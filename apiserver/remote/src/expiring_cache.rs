//! `ExpiringCache`: the responses of other servers, each kept until it expires, and limited in number.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/cache.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// When it is full, expired responses are dropped, or all of them if none has expired.
pub struct ExpiringCache<K, V> {
    limit: usize,
    answers: Mutex<BTreeMap<K, (Instant, V)>>,
}

/// Prints the number of responses and not their content, which says who may do what.
impl<K, V> fmt::Debug for ExpiringCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiringCache").field("answers", &self.answers.lock().len()).finish_non_exhaustive()
    }
}

impl<K: Ord, V: Clone> ExpiringCache<K, V> {
    pub fn new(limit: usize) -> Self {
        Self { limit, answers: Mutex::default() }
    }

    pub fn get(&self, question: &K, now: Instant) -> Option<V> {
        let answers = self.answers.lock();
        let (until, answer) = answers.get(question)?;
        (*until > now).then(|| answer.clone())
    }

    /// Keeps a response, unless its time to live is zero.
    pub fn keep(&self, question: K, answer: V, now: Instant, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let mut answers = self.answers.lock();
        if answers.len() >= self.limit {
            answers.retain(|_, (until, _)| *until > now);
        }
        if answers.len() >= self.limit {
            answers.clear();
        }
        answers.insert(question, (now + ttl, answer));
    }

    pub fn len(&self) -> usize {
        self.answers.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;

    #[tokio::test(start_paused = true)]
    async fn answers_are_good_for_their_time_and_few() {
        let (remembered, began) = (ExpiringCache::new(2), Env::simulated(1).now());
        let second = |second: u64| began + Duration::from_secs(second);
        remembered.keep("never", 0, began, Duration::ZERO);
        assert!(remembered.is_empty());
        remembered.keep("short", 1, began, Duration::from_secs(5));
        remembered.keep("long", 2, began, Duration::from_secs(50));
        assert_eq!((remembered.get(&"short", second(4)), remembered.get(&"short", second(5))), (Some(1), None));
        // Expired responses are dropped first.
        remembered.keep("third", 3, second(6), Duration::from_secs(50));
        assert_eq!((remembered.get(&"long", second(6)), remembered.len()), (Some(2), 2));
        remembered.keep("fourth", 4, second(7), Duration::from_secs(50));
        assert_eq!((remembered.get(&"long", second(7)), remembered.len()), (None, 1));
    }
}
