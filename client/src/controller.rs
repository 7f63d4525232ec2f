//! The worker loop of controllers: take a key, reconcile it, and retry it later if that failed.
//!
//! Corresponds to the worker functions of k8s.io/kubernetes/pkg/controller.

use crate::error::Error;
use crate::plan::ApplyError;
use crate::work_queue::WorkQueue;
use component_base::env::Env;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tracing::Instrument;

/// The reason why reconciling a key failed. The key is retried with back-off.
#[derive(Debug)]
pub struct ReconcileError(Box<dyn std::error::Error + Send + Sync>);

impl ReconcileError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// Returns an error for a cache that does not have this controller's own writes yet.
    pub fn behind(message: impl Into<String>) -> Self {
        Self(Box::new(Behind(message.into())))
    }

    /// Returns true if the cache is behind this controller's writes, or another client wrote first. The retry will succeed,
    /// so the error is not logged as one.
    pub fn is_expected(&self) -> bool {
        let of_apply = self.0.downcast_ref::<ApplyError>().map(|error| &error.cause);
        self.0.is::<Behind>() || self.0.downcast_ref::<Error>().or(of_apply).is_some_and(Error::is_conflict)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Behind(String);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reconcile function of any controller.
type Reconcile<Key> = Arc<dyn Fn(Key) -> BoxFuture<'static, Result<(), ReconcileError>> + Send + Sync>;

/// Runs `workers` workers until the environment shuts down and the queue's ready keys are done. A reconcile that panics
/// counts as failed; its worker goes on.
pub async fn run_workers<Key, Fut>(
    env: &Env,
    name: &'static str,
    queue: WorkQueue<Key>,
    workers: usize,
    reconcile: impl Fn(Key) -> Fut + Send + Sync + 'static,
) where
    Key: Ord + Clone + fmt::Display + Send + Sync + 'static,
    Fut: Future<Output = Result<(), ReconcileError>> + Send + 'static,
{
    run_boxed(env, name, queue, workers, Arc::new(move |key| Box::pin(reconcile(key)))).await;
}

/// Does the work of `run_workers`, compiled once for each type of key.
async fn run_boxed<Key>(env: &Env, name: &'static str, queue: WorkQueue<Key>, workers: usize, reconcile: Reconcile<Key>)
where
    Key: Ord + Clone + fmt::Display + Send + Sync + 'static,
{
    let running: Vec<_> = (0..workers)
        .map(|_| {
            let (queue, reconcile) = (queue.clone(), reconcile.clone());
            env.spawn(async move {
                while let Some(key) = queue.get().await {
                    work(name, &queue, key, &reconcile).await;
                }
            })
        })
        .collect();
    env.shutdown().cancelled().await;
    queue.shut_down();
    for worker in running {
        // Cannot fail, since panics of reconcile are caught below.
        let _ = worker.await;
    }
}

async fn work<Key>(name: &'static str, queue: &WorkQueue<Key>, key: Key, reconcile: &Reconcile<Key>)
where
    Key: Ord + Clone + fmt::Display + Send + 'static,
{
    let span = tracing::info_span!("reconcile", controller = name, key = %key);
    let begun = std::panic::catch_unwind(AssertUnwindSafe(|| reconcile(key.clone())));
    let result = match begun {
        Ok(future) => AssertUnwindSafe(future).catch_unwind().instrument(span.clone()).await,
        Err(panic) => Err(panic),
    };
    let _entered = span.enter();
    match result {
        Ok(Ok(())) => queue.forget(&key),
        Ok(Err(error)) => {
            if error.is_expected() {
                tracing::debug!(%error, "reconciling again");
            } else {
                tracing::warn!(%error, tries = queue.requeues(&key) + 1, "reconcile failed");
            }
            queue.add_rate_limited(key.clone());
        }
        Err(panic) => {
            tracing::error!(panic = panic_text(&*panic), "reconcile panicked");
            queue.add_rate_limited(key.clone());
        }
    }
    queue.done(&key);
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use proto::Status;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn failures_and_panics_are_tried_again_and_success_forgets() {
        let env = Env::simulated(1);
        let queue = WorkQueue::new(&env, "test");
        queue.add("key".to_owned());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = env.spawn({
            let (env, queue, seen) = (env.clone(), queue.clone(), seen.clone());
            async move {
                let began = env.now();
                let clock = env.clone();
                run_workers(&env, "test", queue, 2, move |key| {
                    let tries = {
                        let mut seen = seen.lock();
                        seen.push((key, clock.now().duration_since(began).as_millis()));
                        seen.len()
                    };
                    assert!(tries != 2, "the second try panics");
                    async move {
                        if tries < 4 {
                            Err(Error::from(Box::new(Status::modified("", "pods", "a"))).into())
                        } else {
                            Ok(())
                        }
                    }
                })
                .await;
            }
        });
        env.sleep(Duration::from_secs(1)).await;
        let key = || "key".to_owned();
        assert_eq!(*seen.lock(), [(key(), 0), (key(), 5), (key(), 15), (key(), 35)]);
        assert_eq!(queue.requeues(&key()), 0);
        env.drain().await;
        task.await.unwrap();
    }
}
