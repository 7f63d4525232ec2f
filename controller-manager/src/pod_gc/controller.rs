//! Starts the pod garbage collector, which runs three times a minute.
//!
//! Corresponds to Run in pkg/controller/podgc/gc_controller.go.

use super::plan::{Observed, missing_nodes, plan};
use client::reconcile::{PeriodicReconciler, run_periodically};
use client::{Client, Lister, Plan};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node has to be missing before the server is asked about it: its replacement may come soon.
const QUARANTINE_S: i64 = 40;

struct Collector {
    client: Client,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    missing_since: BTreeMap<String, Timestamp>,
    terminated_threshold: usize,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let actor = setup.actor();
    let collector = Collector {
        client: actor.client.clone(),
        pods: setup.lister(),
        nodes: setup.lister(),
        missing_since: BTreeMap::new(),
        terminated_threshold: setup.settings.terminated_pod_gc_threshold,
    };
    Box::pin(run_periodically(setup.env.clone(), actor, "pod_garbage_collector", PERIOD, collector))
}

impl PeriodicReconciler for Collector {
    type Observed = Observed;

    async fn observe(&mut self, now: Timestamp) -> Observed {
        let (pods, nodes) = (self.pods.list(), self.nodes.list());
        let missing = missing_nodes(&pods, &nodes);
        self.missing_since.retain(|name, _| missing.contains(name));
        let mut deleted_nodes = BTreeSet::new();
        for name in missing {
            let since = *self.missing_since.entry(name.clone()).or_insert(now);
            let is_due = clock::after(since, QUARANTINE_S) <= now;
            if is_due && self.client.api::<Node>("").get(&name).await.is_err_and(|error| error.is_not_found()) {
                deleted_nodes.insert(name);
            }
        }
        Observed { pods, nodes, deleted_nodes, terminated_threshold: self.terminated_threshold }
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        plan(observed, now)
    }
}
