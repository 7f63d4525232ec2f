//! Limits the number of concurrent requests when API Priority and Fairness is switched off; the rest is rejected.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/filters/maxinflight.go. Requests without a deadline (watch, log, exec)
//! and those of `system:masters` are exempt.

use super::queue_set::Refused;
use request::UserInfo;
use request::info::RequestInfo;
use request::user_info::MASTERS;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits for read-only and for mutating requests.
#[derive(Clone, Debug)]
pub struct MaxInFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// The limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSeat(pub Refused);

impl MaxInFlight {
    /// `--max-requests-inflight` and `--max-mutating-requests-inflight`; 0 means no limit.
    pub fn new(max_reads: usize, max_writes: usize) -> Self {
        let seats = |limit: usize| Arc::new(Semaphore::new(if limit == 0 { Semaphore::MAX_PERMITS } else { limit }));
        Self { reads: seats(max_reads), writes: seats(max_writes) }
    }

    /// Returns a seat, to be kept until the response is complete; `Ok(None)` for exempt requests.
    pub fn enter(&self, info: &RequestInfo, user: &UserInfo) -> Result<Option<OwnedSemaphorePermit>, NoSeat> {
        if info.is_long_running() || user.in_group(MASTERS) {
            return Ok(None);
        }
        let seats = if info.is_mutating() { &self.writes } else { &self.reads };
        seats.clone().try_acquire_owned().map(Some).map_err(|_| NoSeat(Refused::ConcurrencyLimit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn seats_run_out_and_come_back() {
        let control = MaxInFlight::new(1, 1);
        let ann = UserInfo::new("ann", &[]);
        let list = RequestInfo::of(&Method::GET, "/api/v1/pods", "");
        let watch = RequestInfo::of(&Method::GET, "/api/v1/pods", "watch=1");
        let seat = control.enter(&list, &ann).unwrap();
        assert_eq!(control.enter(&list, &ann).unwrap_err(), NoSeat(Refused::ConcurrencyLimit));
        assert!(control.enter(&watch, &ann).unwrap().is_none());
        assert!(control.enter(&list, &UserInfo::apiserver()).unwrap().is_none());
        drop(seat);
        assert!(control.enter(&list, &ann).unwrap().is_some());
    }
}
