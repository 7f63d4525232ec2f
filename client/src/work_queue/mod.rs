//! `WorkQueue`: keys to look at, each at most once at a time however often it was added.
//!
//! Three layers as in client-go, in one structure: de-duplication (a key waits once, and is never handed to two
//! workers), delay (a key may be added for later) and rate limits (a key that failed comes back more slowly each
//! time). Corresponds to k8s.io/client-go/util/workqueue.

mod metrics;
pub mod rate_limit;

use crate::work_queue::metrics::QueueMetrics;
use crate::work_queue::rate_limit::RateLimiter;
use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Clones are the same queue.
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
    /// Ready, in order of arrival, each with the time since when.
    queue: VecDeque<(Key, Instant)>,
    /// In `queue`, or added while being processed.
    dirty: BTreeSet<Key>,
    /// Each with the time at which it was taken.
    processing: BTreeMap<Key, Instant>,
    delayed: Delayed<Key>,
    limiter: RateLimiter<Key>,
    metrics: QueueMetrics,
    shutting_down: bool,
}

/// Keys that become ready later; each has one time, the earliest asked for.
struct Delayed<Key> {
    /// The number keeps keys of the same instant in order of arrival.
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
    /// Answers whether a worker should look.
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
        self.queue.push_back((key, now));
        self.metrics.depth.inc();
    }

    fn add_due(&mut self, now: Instant) {
        while let Some(key) = self.delayed.pop_due(now) {
            self.add(key, now);
        }
    }

    fn pop(&mut self, now: Instant) -> Option<Key> {
        let (key, since) = self.queue.pop_front()?;
        self.metrics.depth.dec();
        self.metrics.waited.observe(now.duration_since(since).as_secs_f64());
        self.dirty.remove(&key);
        self.processing.insert(key.clone(), now);
        Some(key)
    }
}

impl<Key: Ord + Clone> Shared<Key> {
    /// What is being worked on grows older without anybody touching the queue.
    fn show_unfinished(&self) -> bool {
        let now = self.env.now();
        let state = self.state.lock();
        let ages_s = || state.processing.values().map(|taken_at| now.duration_since(*taken_at).as_secs_f64());
        state.metrics.unfinished.set(ages_s().sum());
        state.metrics.longest.set(ages_s().fold(0.0, f64::max));
        true
    }
}

/// What a worker that asked for a key is told.
enum Turn<Key> {
    Key(Key),
    Wait(Option<Instant>),
    End,
}

impl<Key: Ord + Clone + Send + 'static> WorkQueue<Key> {
    /// With client-go's default rate limits.
    pub fn new(env: &Env, name: &'static str) -> Self {
        Self::with_limiter(env, name, RateLimiter::new(env))
    }

    pub fn with_limiter(env: &Env, name: &'static str, limiter: RateLimiter<Key>) -> Self {
        let delayed = Delayed { by_time: BTreeMap::new(), by_key: BTreeMap::new(), sequence: 0 };
        let state = State {
            queue: VecDeque::new(),
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

    /// Makes a key ready. One that waits already stays where it is; one that is being processed is ready again
    /// when it is `done`.
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

    /// The next key, which is the caller's until `done`; `None` once the queue is shut down and empty.
    pub async fn get(&self) -> Option<Key> {
        loop {
            // Listening begins before looking, so that no change falls between the two.
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.turn() {
                Turn::Key(key) => return Some(key),
                Turn::End => return None,
                Turn::Wait(None) => changed.await,
                Turn::Wait(Some(at)) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.shared.env.sleep_until(at) => {}
                },
            }
        }
    }

    fn turn(&self) -> Turn<Key> {
        let now = self.shared.env.now();
        let mut state = self.shared.state.lock();
        state.add_due(now);
        match state.pop(now) {
            Some(key) => {
                if !state.queue.is_empty() {
                    // Several keys may have become due at once, with one worker woken.
                    self.shared.changed.notify_one();
                }
                Turn::Key(key)
            }
            None if state.shutting_down => Turn::End,
            None => Turn::Wait(state.delayed.next()),
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

    /// The key is well: its next failure counts as its first.
    pub fn forget(&self, key: &Key) {
        self.shared.state.lock().limiter.forget(key);
    }

    /// How often the key has been added with a rate limit since it was last forgotten.
    pub fn requeues(&self, key: &Key) -> u32 {
        self.shared.state.lock().limiter.requeues(key)
    }

    /// Keys that are ready now.
    pub fn len(&self) -> usize {
        let now = self.shared.env.now();
        let mut state = self.shared.state.lock();
        state.add_due(now);
        state.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes nothing more; workers end when what is ready has been handed out.
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
