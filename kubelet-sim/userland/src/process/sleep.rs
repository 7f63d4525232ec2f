//! Waits for a virtual time.

use super::kernel::Kernel;
use jiff::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Ends at a time; never when it has none. A timer that is dropped is removed from the clock.
pub struct Sleep {
    kernel: Arc<Kernel>,
    until: Option<Timestamp>,
    timer: Option<(Timestamp, u64)>,
}

impl Sleep {
    pub fn new(kernel: &Arc<Kernel>, until: Option<Timestamp>) -> Self {
        Self { kernel: kernel.clone(), until, timer: None }
    }

    fn forget(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.kernel.clock.lock().timers.remove(&timer);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        self.forget();
        let kernel = self.kernel.clone();
        let mut clock = kernel.clock.lock();
        if clock.now >= until {
            return Poll::Ready(());
        }
        clock.last_timer += 1;
        let timer = (until, clock.last_timer);
        clock.timers.insert(timer, cx.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
