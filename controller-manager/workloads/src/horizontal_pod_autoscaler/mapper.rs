//! `Mapper`: what the API server serves, read again when it may have changed.
//!
//! Corresponds to the deferred discovery RESTMapper of cmd/kube-controller-manager, which is reset every 30 seconds.

use client::{Client, Error};
use controller_base::discovery::{Discovered, discover};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time after which discovery is read again, as in kube-controller-manager.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// The last discovery documents. Workers that ask at the same time share one request.
#[derive(Debug, Default)]
pub struct Mapper {
    last: Mutex<Option<(Instant, Arc<Discovered>)>>,
}

impl Mapper {
    pub async fn discovered(&self, client: &Client) -> Result<Arc<Discovered>, Error> {
        let now = client.env().now();
        let mut last = self.last.lock().await;
        if let Some((_, discovered)) = last.as_ref().filter(|(read_at, _)| now.duration_since(*read_at) < FRESH_FOR) {
            return Ok(discovered.clone());
        }
        let discovered = Arc::new(discover(client).await?);
        *last = Some((now, discovered.clone()));
        Ok(discovered)
    }
}
