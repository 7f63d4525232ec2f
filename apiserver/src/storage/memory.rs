//! `Memory`: the engine without a disk, and the model that the others are checked against.
//!
//! Every write is visible when the call returns, so a run under a virtual clock repeats exactly.

use super::expiry::{Expired, Expiry};
use super::mvcc::Mvcc;
use super::watchers::Watchers;
use super::{Change, Error, HISTORY_S, Outcome, Range, RangeRequest, Read, Storage, Watch, Write};
use async_trait::async_trait;
use component_base::env::Env;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Memory {
    env: Env,
    state: Mutex<State>,
    /// An earlier deadline than the expiry task waits for has been set.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct State {
    store: Mvcc,
    watchers: Watchers,
    expiry: Expiry,
}

impl Memory {
    /// An empty store. Its expiry task ends with `env`.
    pub fn new(env: &Env) -> Arc<Self> {
        let memory = Arc::new(Self { env: env.clone(), state: Mutex::default(), sooner: Notify::new() });
        env.spawn(expire(memory.clone()));
        memory
    }

    fn now_ms(&self) -> i64 {
        self.env.wall().as_millisecond()
    }

    fn write_now(&self, write: &Write) -> Outcome {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        let State { store, watchers, expiry } = &mut *state;
        let event = match Mvcc::decide(store.get(&write.key), write, store.revision() + 1) {
            Ok(event) => Arc::new(event),
            Err(refused) => return refused,
        };
        let deadline_ms = deadline_ms(&write.change, now_ms);
        let first = expiry.next_deadline_ms();
        expiry.set(&write.key, event.revision, deadline_ms);
        if deadline_ms.is_some() && expiry.next_deadline_ms() != first {
            self.sooner.notify_one();
        }
        store.apply(event.clone(), now_ms, now_ms - HISTORY_S as i64 * 1000);
        watchers.publish(std::slice::from_ref(&event));
        Outcome::Written { revision: event.revision, previous: event.previous.clone() }
    }
}

/// When the written key expires.
pub(super) fn deadline_ms(change: &Change, now_ms: i64) -> Option<i64> {
    match change {
        Change::Put { ttl: Some(ttl), .. } => {
            Some(now_ms.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)))
        }
        _ => None,
    }
}

/// Deletes keys as their time passes, each with a revision of its own.
async fn expire(memory: Arc<Memory>) {
    let shutdown = memory.env.shutdown().clone();
    loop {
        let (due, next_ms) = {
            let mut state = memory.state.lock();
            (state.expiry.take_due(memory.now_ms()), state.expiry.next_deadline_ms())
        };
        for Expired { key, mod_revision } in due {
            memory.write_now(&Write { key, expected: mod_revision, change: Change::Delete });
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = memory.sooner.notified() => {}
            () = until(&memory.env, next_ms) => {}
        }
    }
}

/// Waits until wall time `deadline_ms`; for ever without one.
pub(super) async fn until(env: &Env, deadline_ms: Option<i64>) {
    match deadline_ms {
        None => std::future::pending().await,
        Some(deadline_ms) => {
            let left_ms = deadline_ms.saturating_sub(env.wall().as_millisecond());
            env.sleep(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))).await;
        }
    }
}

#[async_trait]
impl Storage for Memory {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        let state = self.state.lock();
        Ok(Read { entry: state.store.get(key).cloned(), revision: state.store.revision() })
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        self.state.lock().store.range(&request)
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        Ok(self.write_now(&write))
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        let mut state = self.state.lock();
        let history = state.store.events_after(prefix, after)?;
        Ok(state.watchers.add(prefix, after, history))
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        Ok(self.state.lock().store.revision())
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        let mut state = self.state.lock();
        let revision = state.store.revision();
        state.watchers.progress(prefix, revision);
        Ok(())
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        self.state.lock().store.compact(revision)
    }

    async fn stopped(&self) -> Error {
        std::future::pending().await
    }
}
