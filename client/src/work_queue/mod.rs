//! `WorkQueue`: keys to reconcile, each at most once at a time, however often it was added.
//!
//! It has client-go's three layers in one structure: de-duplication (a key is queued once, and never given to two
//! workers), delay (a key may be added for later) and rate limits (a key that failed waits longer each time). Corresponds
//! to k8s.io/client-go/util/workqueue.

mod metrics;
pub mod rate_limit;
mod ready;

use crate::work_queue::metrics::QueueMetrics;
use crate::work_queue::rate_limit::RateLimiter;
use crate::work_queue::ready::Ready;
use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A work queue; clones are the same queue.
pub struct WorkQueue<Key> {
    shared: Arc<Shared<Key>>,
}

impl<Key> Clone for WorkQueue<Key> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

struct Shared<Key> {
    env: Env,
    name: &'static str,
    state: Mutex<State<Key>>,
    changed: Notify,
}

struct State<Key> {
    ready: Ready<Key>,
    /// Keys that are in `ready`, or were added while being processed.
    dirty: BTreeSet<Key>,
    /// Keys being processed, with the time at which they were taken.
    processing: BTreeMap<Key, Instant>,
    delayed: Delayed<Key>,
    limiter: RateLimiter<Key>,
    metrics: QueueMetrics,
    shutting_down: bool,
}

/// Keys that become ready later, each at the earliest requested time.
struct Delayed<Key> {
    /// The number keeps keys of one instant in order of arrival.
    by_time: BTreeMap<(Instant, u64), Key>,
    by_key: BTreeMap<Key, (Instant, u64)>,
    sequence: u64,
}

impl<Key: Ord + Clone> Delayed<Key> {
    fn insert(&mut self, key: Key, at: Instant) {
        match self.by_key.get(&key) {
            Some((earlier, _)) if *earlier <= at => return,
            Some(later) => {
                self.by_time.remove(later);
            }
            None => {}
        }
        let place = (at, self.sequence);
        self.sequence += 1;
        self.by_key.insert(key.clone(), place);
        self.by_time.insert(place, key);
    }

    fn pop_due(&mut self, now: Instant) -> Option<Key> {
        let first = self.by_time.first_entry().filter(|entry| entry.key().0 <= now)?;
        let key = first.remove();
        self.by_key.remove(&key);
        Some(key)
    }

    fn next(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }
}

impl<Key: Ord + Clone> State<Key> {
    /// Adds a key; returns true if a worker should be woken.
    fn add(&mut self, key: Key, now: Instant) -> bool {
        if self.shutting_down || !self.dirty.insert(key.clone()) {
            return false;
        }
        self.metrics.adds.inc();
        if self.processing.contains_key(&key) {
            return false;
        }
        self.enqueue(key, now);
        true
    }

    fn enqueue(&mut self, key: Key, now: Instant) {
        self.ready.push(key, now);
        self.metrics.depth.inc();
    }

    fn add_due(&mut self, now: Instant) {
        while let Some(key) = self.delayed.pop_due(now) {
            self.add(key, now);
        }
    }

    fn pop(&mut self, now: Instant) -> Option<Key> {
        let (key, since) = self.ready.pop()?;
        self.metrics.depth.dec();
        self.metrics.waited.observe(now.duration_since(since).as_secs_f64());
        self.dirty.remove(&key);
        self.processing.insert(key.clone(), now);
        Some(key)
    }
}

impl<Key: Ord + Clone> Shared<Key> {
    /// Updates the ages of the keys being processed, which grow without any call. Returns false once the queue is done.
    fn show_unfinished(&self) -> bool {
        let now = self.env.now();
        let state = self.state.lock();
        let ages_s = || state.processing.values().map(|taken_at| now.duration_since(*taken_at).as_secs_f64());
        state.metrics.unfinished.set(ages_s().sum());
        state.metrics.longest.set(ages_s().fold(0.0, f64::max));
        true
    }
}

/// Result of a worker's request for a key.
enum NextKey<Key> {
    Key(Key),
    Wait(Option<Instant>),
    End,
}

impl<Key: Ord + Clone + Send + 'static> WorkQueue<Key> {
    /// Makes a queue with client-go's default rate limits.
    pub fn new(env: &Env, name: &'static str) -> Self {
        Self::with_limiter(env, name, RateLimiter::new(env))
    }

    pub fn with_limiter(env: &Env, name: &'static str, limiter: RateLimiter<Key>) -> Self {
        let delayed = Delayed { by_time: BTreeMap::new(), by_key: BTreeMap::new(), sequence: 0 };
        let state = State {
            ready: Ready::new(),
            dirty: BTreeSet::new(),
            processing: BTreeMap::new(),
            delayed,
            limiter,
            metrics: QueueMetrics::new(env, name),
            shutting_down: false,
        };
        let shared = Arc::new(Shared { env: env.clone(), name, state: Mutex::new(state), changed: Notify::new() });
        let looked_at = Arc::downgrade(&shared);
        env.metrics().before_encoding(move || looked_at.upgrade().is_some_and(|shared| shared.show_unfinished()));
        Self { shared }
    }

    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Hands out the keys that `prefers` returns true for before the others, which get a sixteenth of the turns at least.
    /// `prefers` is called when a key becomes ready, and must not use the queue.
    pub fn prefer(&self, prefers: impl Fn(&Key) -> bool + Send + Sync + 'static) {
        self.shared.state.lock().ready.prefer(Box::new(prefers));
    }

    /// Makes a key ready. A queued key keeps its place; one that is being processed becomes ready again when it is `done`.
    pub fn add(&self, key: Key) {
        let now = self.shared.env.now();
        if self.shared.state.lock().add(key, now) {
            self.shared.changed.notify_one();
        }
    }

    /// Makes a key ready later.
    pub fn add_after(&self, key: Key, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = self.shared.env.now() + delay;
        let mut state = self.shared.state.lock();
        if !state.shutting_down {
            state.delayed.insert(key, at);
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// Makes a key ready once its rate limit allows; each call without a `forget` waits longer.
    pub fn add_rate_limited(&self, key: Key) {
        let now = self.shared.env.now();
        let delay = {
            let mut state = self.shared.state.lock();
            state.metrics.retries.inc();
            state.limiter.when(&key, now)
        };
        self.add_after(key, delay);
    }

    /// Returns the next key, which belongs to the caller until `done`; `None` once the queue is shut down and empty.
    pub async fn get(&self) -> Option<Key> {
        loop {
            // Subscribes before checking, so that no change is missed.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.next_key() {
                NextKey::Key(key) => return Some(key),
                NextKey::End => return None,
                NextKey::Wait(None) => changed.await,
                NextKey::Wait(Some(at)) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.shared.env.sleep_until(at) => {}
                },
            }
        }
    }

    fn next_key(&self) -> NextKey<Key> {
        let now = self.shared.env.now();
        let mut state = self.shared.state.lock();
        state.add_due(now);
        match state.pop(now) {
            Some(key) => {
                if !state.ready.is_empty() {
                    // Several keys may have become due at once, while only one worker was woken.
                    self.shared.changed.notify_one();
                }
                NextKey::Key(key)
            }
            None if state.shutting_down => NextKey::End,
            None => NextKey::Wait(state.delayed.next()),
        }
    }

    /// Ends the processing of a key; it is ready again at once if it was added meanwhile.
    pub fn done(&self, key: &Key) {
        let now = self.shared.env.now();
        let mut state = self.shared.state.lock();
        if let Some(taken_at) = state.processing.remove(key) {
            state.metrics.worked.observe(now.duration_since(taken_at).as_secs_f64());
        }
        if state.dirty.contains(key) {
            state.enqueue(key.clone(), now);
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    /// Resets a key's rate limit, so that its next failure counts as the first.
    pub fn forget(&self, key: &Key) {
        self.shared.state.lock().limiter.forget(key);
    }

    /// Returns how often the key was added with a rate limit since the last `forget`.
    pub fn requeues(&self, key: &Key) -> u32 {
        self.shared.state.lock().limiter.requeues(key)
    }

    /// Returns the number of ready keys.
    pub fn len(&self) -> usize {
        let now = self.shared.env.now();
        let mut state = self.shared.state.lock();
        state.add_due(now);
        state.ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts no more keys; workers end when the ready ones have been handed out.
    pub fn shut_down(&self) {
        self.shared.state.lock().shutting_down = true;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.lock().shutting_down
    }
}

#[cfg(test)]
mod tests;
