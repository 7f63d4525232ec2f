//! Starts the pod garbage collector, which runs three times a minute.
//!
//! Corresponds to Run in pkg/controller/podgc/gc_controller.go.

use super::plan::{Observed, Reason, missing_nodes, removals, remove, surplus, turn};
use client::reconcile::{PeriodicReconciler, run_periodically};
use client::{Action, ApplyError, Client, Lister, Plan};
use component_base::metrics::Counters;
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, DELETING, PODS_BY_END, PODS_BY_NODE, TERMINAL};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node has to be missing before the server is asked about it: its replacement may come soon.
const QUARANTINE_S: i64 = 40;
/// Index of terminated pods by the order in which they go.
const ENDED_BY_TURN: &str = "turn";

struct Collector {
    client: Client,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    missing_since: BTreeMap<String, Timestamp>,
    terminated_threshold: usize,
    /// Why the pods of this round go, by uid.
    reasons: BTreeMap<String, Reason>,
    removals: Counters,
    errors: Counters,
}

pub fn start(setup: &Setup<'_>) -> Running {
    indexes::pods_by_node(&setup.informer());
    indexes::pods_by_end(&setup.informer());
    setup.informer::<Pod>().index(ENDED_BY_TURN, |pod| turn(pod).into_iter().collect());
    let actor = setup.actor();
    let metrics = setup.env.metrics();
    let collector = Collector {
        client: actor.client.clone(),
        pods: setup.lister(),
        nodes: setup.lister(),
        missing_since: BTreeMap::new(),
        terminated_threshold: setup.settings.terminated_pod_gc_threshold,
        reasons: BTreeMap::new(),
        removals: metrics.counters(
            "pod_gc_collector_force_delete_pods_total",
            "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
        ),
        errors: metrics.counters(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
        ),
    };
    Box::pin(run_periodically(setup.env.clone(), actor, "pod_garbage_collector", PERIOD, collector))
}

impl PeriodicReconciler for Collector {
    type Observed = Observed;

    async fn observe(&mut self, now: Timestamp) -> Observed {
        let nodes = self.nodes.list();
        let missing = missing_nodes(self.pods.index_values(PODS_BY_NODE), &nodes);
        self.missing_since.retain(|name, _| missing.contains(name));
        let mut deleted_nodes = BTreeSet::new();
        for name in missing {
            let since = *self.missing_since.entry(name.clone()).or_insert(now);
            let is_due = clock::after(since, QUARANTINE_S) <= now;
            if is_due && self.client.api::<Node>("").get(&name).await.is_err_and(|error| error.is_not_found()) {
                deleted_nodes.insert(name);
            }
        }
        let surplus = surplus(self.pods.count_by_index(PODS_BY_END, TERMINAL), self.terminated_threshold);
        let pods = self.concerned_pods(&deleted_nodes, surplus);
        Observed { pods, nodes, deleted_nodes, surplus }
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        let removals = removals(observed);
        self.reasons = removals.iter().map(|removal| (removal.pod.uid().to_owned(), removal.reason)).collect();
        removals.iter().map(|removal| remove(removal, now)).collect()
    }

    fn note_outcome(&mut self, _observed: &Observed, plan: &Plan, result: Result<(), &ApplyError>) {
        let Some(Action::Delete { namespace, options, .. }) = plan.actions.last() else { return };
        let Some(reason) = self.reasons.get(&options.preconditions.uid) else { return };
        let labels = vec![("namespace", namespace.clone()), ("reason", reason.as_str().to_owned())];
        self.removals.get_or_create(&labels).inc();
        if result.is_err() {
            self.errors.get_or_create(&labels).inc();
        }
    }
}

impl Collector {
    /// Returns the pods that may have to go, in the order of their keys. Of all others, which rest, nothing is read: reading the
    /// terminated pods that stay, thousands of them, would take a second.
    fn concerned_pods(&self, deleted_nodes: &BTreeSet<String>, surplus: usize) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.by_index(PODS_BY_END, DELETING);
        pods.extend(self.first_terminated(surplus));
        pods.extend(deleted_nodes.iter().flat_map(|node| self.pods.by_index(PODS_BY_NODE, node)));
        let by_key: BTreeMap<String, Arc<Pod>> = pods.into_iter().map(|pod| (pod.key(), pod)).collect();
        by_key.into_values().collect()
    }

    /// Returns at least so many of the terminated pods, those that go first.
    fn first_terminated(&self, count: usize) -> Vec<Arc<Pod>> {
        let mut pods = Vec::new();
        if count == 0 {
            return pods;
        }
        let mut turns = self.pods.index_values(ENDED_BY_TURN);
        turns.sort();
        for turn in turns {
            pods.extend(self.pods.by_index(ENDED_BY_TURN, &turn));
            if pods.len() >= count {
                break;
            }
        }
        pods
    }
}
