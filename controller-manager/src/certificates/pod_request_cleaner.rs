//! The cleaner of PodCertificateRequests deletes those that are old: a kubelet waits for an answer only for minutes.
//!
//! Corresponds to pcrcleaner.go of pkg/controller/certificates/cleaner.

use client::reconcile::PeriodicReconciler;
use client::{Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::kinds::api::certificates::v1beta1::PodCertificateRequest;
use std::sync::Arc;
use std::time::Duration;

pub const GATE: &str = "PodCertificateRequest";
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How long a request is kept.
const KEPT_S: i64 = 15 * 60;

struct Cleaner {
    requests: Lister<PodCertificateRequest>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) || !setup.serves::<PodCertificateRequest>() {
        return Box::pin(async {});
    }
    setup.run_periodically("podcertificaterequestcleaner", PERIOD, Cleaner { requests: setup.lister() })
}

impl PeriodicReconciler for Cleaner {
    type Observed = Vec<Arc<PodCertificateRequest>>;

    async fn observe(&mut self, _now: Timestamp) -> Self::Observed {
        self.requests.list()
    }

    fn plan(&mut self, observed: &Self::Observed, now: Timestamp) -> Vec<Plan> {
        plan(observed, now)
    }
}

fn plan(requests: &[Arc<PodCertificateRequest>], now: Timestamp) -> Vec<Plan> {
    let is_old = |request: &&Arc<PodCertificateRequest>| {
        let created = request.metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| clock::after(created.0, KEPT_S) <= now)
    };
    let old = requests.iter().filter(is_old);
    old.map(|request| Plan::of([actions::delete_exactly(&**request)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::{at, meta, time};

    #[test]
    fn old_requests_are_deleted() {
        let request = |name: &str, created: i64| {
            let mut request = PodCertificateRequest { metadata: meta(name), ..PodCertificateRequest::default() };
            request.metadata.creation_timestamp = Some(time(created));
            Arc::new(request)
        };
        let planned = plan(&[request("old", 0), request("new", 1)], at(900));
        let planned: Vec<String> = planned.iter().map(ToString::to_string).collect();
        assert_eq!(planned, ["delete podcertificaterequests.certificates.k8s.io default/old uid=uid-old\n"]);
    }
}
