//! The cleaner of PodCertificateRequests deletes those that are old: a kubelet waits for an answer only for minutes.
//!
//! The gate PodCertificateRequest is off by default, and this API server does not serve the kind. Corresponds to pcrcleaner.go of
//! pkg/controller/certificates/cleaner.

use client::reconcile::PeriodicReconciler;
use client::{Action, Client, DeleteOptions, ListOptions, Plan};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Gvr;
use serde_json::Value;
use std::time::Duration;

const GATE: &str = "PodCertificateRequest";
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How long a request is kept.
const KEPT_S: i64 = 15 * 60;

struct Cleaner {
    client: Client,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) {
        return Box::pin(async {});
    }
    let cleaner = Cleaner { client: setup.client.clone() };
    setup.run_where_served(requests(), setup.run_periodically("podcertificaterequestcleaner", PERIOD, cleaner))
}

fn requests() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1beta1", "podcertificaterequests")
}

impl PeriodicReconciler for Cleaner {
    type Observed = Vec<Value>;

    async fn observe(&mut self, _now: Timestamp) -> Vec<Value> {
        let listed = self.client.dynamic(&requests(), "").list(&ListOptions::default()).await;
        let listed = listed.inspect_err(|error| tracing::warn!(%error, "unable to list PodCertificateRequests"));
        listed.map(|list| list.items).unwrap_or_default()
    }

    fn plan(&mut self, observed: &Vec<Value>, now: Timestamp) -> Vec<Plan> {
        plan(observed, now)
    }
}

fn plan(requests: &[Value], now: Timestamp) -> Vec<Plan> {
    let is_old = |request: &&Value| {
        let created = request["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
        created.is_some_and(|created| clock::after(created, KEPT_S) <= now)
    };
    requests.iter().filter(is_old).map(|request| Plan::of([delete(request)])).collect()
}

fn delete(request: &Value) -> Action {
    let text = |field: &str| request["metadata"][field].as_str().unwrap_or_default().to_owned();
    let options = DeleteOptions::with_uid(text("uid"));
    Action::Delete { gvr: requests(), namespace: text("namespace"), name: text("name"), options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::at;
    use serde_json::json;

    #[test]
    fn old_requests_are_deleted() {
        let request = |name: &str, created: i64| {
            let created = at(created).to_string();
            json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created}})
        };
        let planned = plan(&[request("old", 0), request("new", 1)], at(900));
        let planned: Vec<String> = planned.iter().map(ToString::to_string).collect();
        assert_eq!(planned, ["delete podcertificaterequests.certificates.k8s.io shop/old uid=old\n"]);
    }
}
