//! Starts the taint eviction controller, and remembers the pods whose eviction is scheduled.
//!
//! Corresponds to Run in pkg/controller/tainteviction/taint_eviction.go.

use super::plan::{Eviction, Observed, eviction, plan};
use client::reconcile::Reconciler;
use client::{Event, Lister, Plan};
use component_base::env::Env;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, PODS_BY_NODE};
use controller_base::pod;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// Pods that are reconciled concurrently, as in kube-controller-manager.
const WORKERS: usize = 8;

struct Controller {
    env: Env,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    memory: Mutex<Memory>,
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
    let controller =
        Controller { env: setup.env.clone(), nodes: setup.lister(), pods: setup.lister(), memory: Mutex::default() };
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
}
