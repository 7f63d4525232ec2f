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

    /// Runs `change` on the queue. Wakes the scheduling loop if a pod is ready then, or will be sooner than before. Most
    /// changes do neither, such as the end of a binding.
    pub fn with<T>(&self, change: impl FnOnce(&mut SchedulingQueue, tokio::time::Instant) -> T) -> T {
        let now = self.env.now();
        let mut queue = self.inner.lock();
        queue.present = now;
        let due = queue.next_due();
        let result = change(&mut queue, now);
        let is_sooner = queue.next_due().is_some_and(|next| due.is_none_or(|due| next < due));
        let wakes = is_sooner || queue.has_ready();
        drop(queue);
        if wakes {
            self.changed.notify_one();
        }
        result
    }

    /// Returns true if `pop` would not wait.
    pub fn has_ready(&self) -> bool {
        self.inner.lock().has_ready()
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
