//! `Memory`: the engine without a disk, and the model that the others are checked against.
//!
//! Every write is visible when the call returns, so a run under a virtual clock repeats exactly.

use super::expiry::{self, Expiry};
use super::keep_from_ms;
use super::mvcc::Mvcc;
use super::watchers::Watchers;
use super::{Error, Outcome, Range, RangeRequest, Read, Storage, Watch, Write};
use async_trait::async_trait;
use component_base::env::Env;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Memory {
    env: Env,
    /// Locked for the whole of a write, so that watches see its event together with its entry.
    state: Mutex<State>,
    /// Notified when a key gets an earlier deadline than the one that the expiry task waits for.
    earlier_deadline: Notify,
}

#[derive(Debug, Default)]
struct State {
    store: Mvcc,
    watchers: Watchers,
    expiry: Expiry,
}

impl Memory {
    /// Creates an empty store. Its expiry task ends with `env`.
    pub fn new(env: &Env) -> Arc<Self> {
        let memory = Arc::new(Self { env: env.clone(), state: Mutex::default(), earlier_deadline: Notify::new() });
        let expiring = memory.clone();
        env.spawn(async move {
            let take_due = |now_ms| {
                let mut state = expiring.state.lock();
                (state.expiry.take_due(now_ms), state.expiry.next_deadline_ms())
            };
            expiry::run(&expiring.env, &*expiring, &expiring.earlier_deadline, take_due).await;
        });
        memory
    }

    fn write_now(&self, write: &Write) -> Outcome {
        let now_ms = self.env.wall().as_millisecond();
        let mut state = self.state.lock();
        let State { store, watchers, expiry } = &mut *state;
        let event = match Mvcc::decide(store.get(&write.key), write, store.revision() + 1) {
            Ok(event) => Arc::new(event),
            Err(refused) => return refused,
        };
        let deadline_ms = expiry::deadline_ms(&write.change, now_ms);
        let first = expiry.next_deadline_ms();
        expiry.set(&write.key, event.revision, deadline_ms);
        if deadline_ms.is_some() && expiry.next_deadline_ms() != first {
            self.earlier_deadline.notify_one();
        }
        store.apply(event.clone(), now_ms, keep_from_ms(now_ms));
        watchers.publish(std::slice::from_ref(&event));
        Outcome::Written { revision: event.revision, previous: event.previous.clone() }
    }
}

#[async_trait]
impl Storage for Memory {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        let state = self.state.lock();
        Ok(Read { entry: state.store.get(key).cloned(), revision: state.store.revision() })
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        let mut state = self.state.lock();
        state.store.forget_before(keep_from_ms(self.env.wall().as_millisecond()));
        state.store.range(&request)
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        Ok(self.write_now(&write))
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        let mut state = self.state.lock();
        state.store.forget_before(keep_from_ms(self.env.wall().as_millisecond()));
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

    /// Does nothing: a store without a disk holds no files.
    async fn close(&self) {}
}
