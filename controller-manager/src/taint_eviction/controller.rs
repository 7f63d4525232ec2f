//! Starts the taint eviction controller, and remembers the pods whose eviction is scheduled.
//!
//! Corresponds to Run in pkg/controller/tainteviction/taint_eviction.go.

use super::plan::{Observed, eviction, plan};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Event, Lister, Plan, apply};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::eviction::Eviction;
use controller_base::indexes::{self, PODS_BY_NODE};
use controller_base::pod;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// Pods that are reconciled concurrently, as in kube-controller-manager.
const WORKERS: usize = 8;
/// From 5 milliseconds to 4 minutes.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];

struct Controller {
    env: Env,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    memory: Mutex<Memory>,
    deletions: Counters,
    /// Time from when a pod was to go to its deletion.
    lateness: Histograms,
}

#[derive(Default)]
struct Memory {
    /// By node, the time at which taints without `timeAdded` were first observed.
    undated: BTreeMap<String, Timestamp>,
    /// Keys of the pods whose eviction is scheduled.
    scheduled: BTreeSet<String>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    indexes::pods_by_node(&setup.informer());
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Pod>, queue| {
        if concerns_tolerance(event) {
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, {
        let pods: Lister<Pod> = setup.lister();
        move |event: &Event<Node>, queue| {
            let is_same = matches!(event, Event::Updated { old, new } if taints(old) == taints(new));
            if !is_same {
                pods.by_index(PODS_BY_NODE, event.object().name()).iter().for_each(|pod| queue.add(pod.key()));
            }
        }
    });
    let metrics = setup.env.metrics();
    let help = "Total number of Pods deleted by TaintEvictionController since its start.";
    let deletions = metrics.counters("taint_eviction_controller_pod_deletions_total", help);
    let help = "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its \
                deletion via TaintEvictionController.";
    let lateness = metrics.histograms("taint_eviction_controller_pod_deletion_duration_seconds", help, SECONDS);
    let controller = Controller {
        env: setup.env.clone(),
        nodes: setup.lister(),
        pods: setup.lister(),
        memory: Mutex::default(),
        deletions,
        lateness,
    };
    setup.run(queue, WORKERS, controller)
}

fn taints(node: &Node) -> Option<&Vec<proto::kinds::api::core::v1::Taint>> {
    node.spec.as_ref()?.taints.as_ref()
}

fn concerns_tolerance(event: &Event<Pod>) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    match event {
        Event::Added(pod) => !pod::node_name(pod).is_empty(),
        Event::Updated { old, new } => {
            pod::node_name(old) != pod::node_name(new) || tolerations(old) != tolerations(new)
        }
        Event::Deleted(_) => true,
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let mut memory = self.memory.lock();
        let Some(pod) = self.pods.by_key(key) else {
            memory.scheduled.remove(key);
            return None;
        };
        let node_name = pod::node_name(&pod);
        let node = self.nodes.get("", node_name).filter(|_| !node_name.is_empty());
        let now = self.env.wall();
        let undated = node.as_deref().and_then(taints).into_iter().flatten();
        let observed_since = if undated.clone().any(|taint| taint.effect == "NoExecute" && taint.time_added.is_none()) {
            *memory.undated.entry(node_name.to_owned()).or_insert(now)
        } else {
            memory.undated.remove(node_name);
            now
        };
        let mut observed = Observed { pod, node, observed_since, was_scheduled: false };
        observed.was_scheduled = match eviction(&observed) {
            Eviction::At(_) => !memory.scheduled.insert(key.to_owned()),
            Eviction::Never => memory.scheduled.remove(key),
        };
        Some(observed)
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        apply(&actor.client, &actor.recorder, plan).await?;
        let is_deletion = |action: &Action| matches!(action, Action::Delete { .. });
        if let (true, Eviction::At(time)) = (plan.actions.iter().any(is_deletion), eviction(observed)) {
            self.deletions.get_or_create(&vec![]).inc();
            let late = self.env.wall().duration_since(time);
            self.lateness.get_or_create(&vec![]).observe(late.as_secs_f64());
        }
        Ok(())
    }
}
