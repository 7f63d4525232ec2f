//! Adds all objects of a kind to a work queue once in a period, without an event.
//!
//! Corresponds to AddEventHandlerWithResyncPeriod of client-go's informers.

use client::{Lister, WorkQueue};
use component_base::env::Env;
use proto::Kind;
use std::time::Duration;

/// Runs until shutdown. A period of zero adds nothing.
pub async fn resync<K: Kind>(
    env: Env,
    queue: WorkQueue<String>,
    objects: Lister<K>,
    period: Duration,
    is_due: impl Fn(&K) -> bool,
) {
    if period.is_zero() {
        return;
    }
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(period) => {}
        }
        objects.filter("", &is_due).iter().for_each(|object| queue.add(object.key()));
    }
}
