//! How many requests are worked on at once; the rest is told to come back.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/filters/maxinflight.go. Requests without a deadline (watch, log, exec)
//! and those of `system:masters` are exempt.
//!
//! Deviation: priority and fairness is not there yet: FlowSchemas and PriorityLevelConfigurations are kept, not obeyed.

use crate::authn::UserInfo;
use crate::authn::user_info::MASTERS;
use crate::request::info::RequestInfo;
use proto::Status;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seconds after which a refused client may try again.
const RETRY_AFTER_S: u32 = 1;

/// Seats for reads and for writes.
#[derive(Clone, Debug)]
pub struct FlowControl {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// A seat, kept until the answer is made; `None` for exempt requests.
pub type Seat = Option<OwnedSemaphorePermit>;

impl FlowControl {
    /// `--max-requests-inflight` and `--max-mutating-requests-inflight`; 0 means no limit.
    pub fn new(max_reads: usize, max_writes: usize) -> Self {
        let seats = |limit: usize| Arc::new(Semaphore::new(if limit == 0 { Semaphore::MAX_PERMITS } else { limit }));
        Self { reads: seats(max_reads), writes: seats(max_writes) }
    }

    /// A seat, or 429.
    pub fn enter(&self, info: &RequestInfo, user: &UserInfo) -> Result<Seat, Status> {
        if info.is_long_running() || user.in_group(MASTERS) {
            return Ok(None);
        }
        let seats = if info.is_mutating() { &self.writes } else { &self.reads };
        match seats.clone().try_acquire_owned() {
            Ok(seat) => Ok(Some(seat)),
            Err(_) => Err(Status::too_many_requests("Too many requests, please try again later.", RETRY_AFTER_S)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn seats_run_out_and_come_back() {
        let control = FlowControl::new(1, 1);
        let ann = UserInfo::new("ann", &[]);
        let list = RequestInfo::of(&Method::GET, "/api/v1/pods", "");
        let watch = RequestInfo::of(&Method::GET, "/api/v1/pods", "watch=1");
        let seat = control.enter(&list, &ann).unwrap();
        let refused = control.enter(&list, &ann).unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, Some(1)));
        assert!(control.enter(&watch, &ann).unwrap().is_none());
        assert!(control.enter(&list, &UserInfo::apiserver()).unwrap().is_none());
        drop(seat);
        assert!(control.enter(&list, &ann).unwrap().is_some());
    }
}
