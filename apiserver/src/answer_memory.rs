//! `AnswerMemory`: how many bytes of answers may stand in memory because they are made whole before they are sent.
//!
//! Lists of objects go out piece by piece. Tables, YAML and indented JSON do not, and a client that reads slowly keeps
//! them; so large ones wait for each other. Kubernetes bounds the same memory by the seats that priority and fairness
//! gives to large lists (k8s.io/apiserver/pkg/util/flowcontrol/request/list_work_estimator.go).

use axum::body::Body;
use http_body_util::BodyExt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All such answers together.
const LIMIT_BYTES: usize = 512 << 20;
/// Answers below this do not count: their number is limited by the requests in flight.
const SMALL_BYTES: usize = 1 << 20;
/// A permit stands for so many bytes.
const UNIT_BYTES: usize = 1 << 10;

#[derive(Clone, Debug)]
pub struct AnswerMemory {
    units: Arc<Semaphore>,
    limit_bytes: usize,
}

/// Memory that is taken until this is dropped.
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

    /// Waits, in the order of arrival, until an answer of about so many bytes may be made. One that is larger than
    /// everything there is waits until it is alone.
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
    /// Keeps the memory as long as the body is there.
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
