//! `RunToCompletion`: a write that has begun runs to its end, even if its client has gone away.
//!
//! A server drops the work for a request when its connection ends. In the middle of a write that would leak what is
//! reserved for the object, such as addresses and ports. Corresponds to FinishRequest of
//! k8s.io/apiserver/pkg/endpoints/handlers/finisher, whose goroutine outlives the request.

use component_base::env::Env;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that goes on as a task of its own when it is dropped before its end. If it was never polled, it does not
/// start.
pub struct RunToCompletion<T: Send + 'static> {
    env: Env,
    /// None during a poll, and after the end.
    work: Option<BoxFuture<'static, T>>,
    has_begun: bool,
}

impl<T: Send + 'static> RunToCompletion<T> {
    pub fn new(env: &Env, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { env: env.clone(), work: Some(work.boxed()), has_begun: false }
    }
}

impl<T: Send + 'static> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        // Taken out during the poll: a future that panics must not be polled again in `drop`.
        let mut work = self.work.take().expect("nobody polls a future after its end");
        let polled = work.poll_unpin(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        // When the runtime itself ends, no task can be started.
        if let Some(work) = self.work.take().filter(|_| self.has_begun && Handle::try_current().is_ok()) {
            self.env.spawn(work.map(drop));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn only_what_has_begun_goes_on() {
        let env = Env::simulated(1);
        for (is_polled, is_done) in [(true, true), (false, false)] {
            let done = Arc::new(AtomicBool::new(false));
            let (world, ends) = (env.clone(), done.clone());
            let work = async move {
                world.sleep(Duration::from_secs(5)).await;
                ends.store(true, Ordering::Relaxed);
            };
            let mut work = RunToCompletion::new(&env, work);
            if is_polled {
                env.timeout(Duration::from_secs(1), &mut work).await.unwrap_err();
            }
            drop(work);
            env.sleep(Duration::from_secs(10)).await;
            assert_eq!(done.load(Ordering::Relaxed), is_done);
        }
        let quick = RunToCompletion::new(&env, async { 7 });
        assert_eq!(quick.await, 7);
    }
}
