//! The closed loop: so many clients, each with one request in flight, until all operations are done.

use super::Error;
use client::Client;
use component_base::env::Env;
use futures::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What came of it.
pub struct Load {
    pub took: Duration,
    /// One per operation.
    pub latencies: Vec<Duration>,
    /// Operations that did not succeed, and the first of their errors.
    pub errors: u64,
    pub first_error: Option<client::Error>,
}

impl Load {
    /// For what only prepares a measurement.
    pub fn must_succeed(self) -> Result<Self, Error> {
        match self.first_error {
            Some(error) => Err(error.into()),
            None => Ok(self),
        }
    }
}

/// Runs `operation` for every number below `count`.
pub async fn closed_loop<F>(
    env: &Env,
    clients: &[Client],
    count: usize,
    operation: impl Fn(Client, usize) -> F + Sync,
) -> Load
where
    F: Future<Output = Result<(), client::Error>>,
{
    let next = AtomicUsize::new(0);
    let began = env.now();
    let worker = async |client: &Client| {
        let (mut latencies, mut failed) = (Vec::new(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return (latencies, failed);
            }
            let sent = env.now();
            if let Err(error) = operation(client.clone(), number).await {
                failed.push(error);
            }
            latencies.push(env.now().duration_since(sent));
        }
    };
    let workers = join_all(clients.iter().map(worker)).await;
    let took = env.now().duration_since(began);
    let (latencies, failed): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
    let mut failed = failed.into_iter().flatten();
    let first_error = failed.next();
    let errors = u64::from(first_error.is_some()) + failed.count() as u64;
    Load { took, latencies: latencies.concat(), errors, first_error }
}
