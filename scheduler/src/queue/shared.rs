//! `SharedQueue`, a scheduling queue that tasks share. Event handlers change it, and the scheduling loop waits for its
//! pods.
//!
//! Corresponds to PriorityQueue.Pop and its flush goroutines.

use crate::queue::{QueuedPod, SchedulingQueue};
use component_base::env::Env;
use parking_lot::Mutex;
use scheduling_framework::Profiles;
use std::sync::Arc;
use tokio::sync::Notify;

pub struct SharedQueue {
    env: Env,
    inner: Mutex<SchedulingQueue>,
    changed: Notify,
}

impl SharedQueue {
    pub fn new(env: &Env, profiles: Arc<Profiles>) -> Self {
        let inner = Mutex::new(SchedulingQueue::new(profiles, env.now()));
        Self { env: env.clone(), inner, changed: Notify::new() }
    }

    /// Runs `change` on the queue, and wakes the scheduling loop.
    pub fn with<T>(&self, change: impl FnOnce(&mut SchedulingQueue, tokio::time::Instant) -> T) -> T {
        let now = self.env.now();
        let mut queue = self.inner.lock();
        queue.present = now;
        let result = change(&mut queue, now);
        drop(queue);
        self.changed.notify_one();
        result
    }

    /// Waits for the next pod; `None` on shutdown.
    pub async fn pop(&self) -> Option<QueuedPod> {
        loop {
            if self.env.shutdown().is_cancelled() {
                return None;
            }
            let due = {
                let mut queue = self.inner.lock();
                queue.present = self.env.now();
                let now = queue.present;
                if let Some(pod) = queue.pop(now) {
                    return Some(pod);
                }
                queue.next_due()
            };
            let timer = async {
                match due {
                    Some(due) => self.env.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.env.shutdown().cancelled() => return None,
                () = self.changed.notified() => {}
                () = timer => {}
            }
        }
    }
}
