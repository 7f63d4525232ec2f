//! `AnswerMemory`: limits the memory of responses that are built whole before they are sent.
//!
//! Lists of objects are sent piece by piece. Tables, YAML and indented JSON are not, and they stay in memory as long as a
//! client reads them slowly; so large ones wait for each other. Kubernetes bounds the same memory by the seats that priority and fairness
//! gives to large lists (k8s.io/apiserver/pkg/util/flowcontrol/request/list_work_estimator.go).

use axum::body::Body;
use http_body_util::BodyExt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest size of all such responses together.
const LIMIT_BYTES: usize = 512 << 20;
/// Responses below this size do not count: the limit of requests in flight bounds their number.
const SMALL_BYTES: usize = 1 << 20;
/// Bytes for which one permit of the semaphore stands.
const UNIT_BYTES: usize = 1 << 10;

/// The memory that responses share.
#[derive(Clone, Debug)]
pub struct AnswerMemory {
    units: Arc<Semaphore>,
    limit_bytes: usize,
}

/// Memory that is reserved until this is dropped; `None` for a small response.
#[derive(Debug)]
pub struct Reserved(Option<OwnedSemaphorePermit>);

impl Default for AnswerMemory {
    fn default() -> Self {
        Self::new(LIMIT_BYTES)
    }
}

impl AnswerMemory {
    fn new(limit_bytes: usize) -> Self {
        Self { units: Arc::new(Semaphore::new(limit_bytes / UNIT_BYTES)), limit_bytes }
    }

    /// Waits, in the order of arrival, until a response of about `bytes` fits. A response that is larger than the limit
    /// waits until it is the only one.
    pub async fn reserve(&self, bytes: usize) -> Reserved {
        if bytes < SMALL_BYTES {
            return Reserved(None);
        }
        let units = u32::try_from(bytes.min(self.limit_bytes) / UNIT_BYTES).unwrap_or(u32::MAX);
        let permit = self.units.clone().acquire_many_owned(units).await.expect("nobody closes the semaphore");
        Reserved(Some(permit))
    }
}

impl Reserved {
    /// Returns the body, which keeps the memory reserved until it is dropped.
    pub fn until_sent(self, body: Body) -> Body {
        let Self(Some(permit)) = self else { return body };
        Body::new(body.map_frame(move |frame| {
            let _kept = &permit;
            frame
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn large_answers_wait_until_others_are_sent() {
        let memory = AnswerMemory::new(4 << 20);
        let first = memory.reserve(3 << 20).await.until_sent(Body::from("first"));
        assert!(memory.reserve(SMALL_BYTES - 1).now_or_never().is_some(), "small ones do not wait");
        assert!(memory.reserve(2 << 20).now_or_never().is_none());
        let sent = first.collect().await.unwrap().to_bytes();
        assert_eq!(sent, "first");
        let all = memory.reserve(99 << 20).now_or_never().expect("what is too large goes when it is alone");
        assert!(memory.reserve(SMALL_BYTES).now_or_never().is_none());
        drop(all);
        assert!(memory.reserve(SMALL_BYTES).now_or_never().is_some());
    }
}
