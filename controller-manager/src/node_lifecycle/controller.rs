//! Starts the node lifecycle controller: a check of all nodes every few seconds, and taints as soon as conditions
//! change.
//!
//! Corresponds to Run in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::NodeHealth;
use super::metrics::NodeMetrics;
use super::plan::{NodeCheck, evicted_zone, plan, zone_counts, zone_states};
use super::zones::{self, Limits};
use super::{labels, taints};
use client::reconcile::{self, PeriodicReconciler, Reconciler, run_periodically};
use client::{ApplyError, Event, Lister, Plan};
use component_base::env::Env;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, PODS_BY_NODE};
use controller_base::{actions, options::Settings};
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Namespace of the nodes' Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Nodes whose taints and labels are reconciled concurrently, as in kube-controller-manager.
const NODE_WORKERS: usize = 8;

struct Monitor {
    env: Env,
    settings: Arc<Settings>,
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    health: BTreeMap<String, NodeHealth>,
    /// The nodes of the last check, by uid.
    known: BTreeMap<String, Arc<Node>>,
    limits: Limits,
    /// True if all zones were in full disruption at the last check.
    was_fully_disrupted: bool,
    metrics: NodeMetrics,
}

pub fn start(setup: &Setup<'_>) -> Running {
    indexes::pods_by_node(&setup.informer());
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Node>, queue| queue.add(event.object().key()));
    let monitor = Monitor {
        env: setup.env.clone(),
        settings: setup.settings.clone(),
        nodes: setup.lister(),
        leases: setup.lister(),
        pods: setup.lister(),
        health: BTreeMap::new(),
        known: BTreeMap::new(),
        limits: Limits::default(),
        was_fully_disrupted: false,
        metrics: NodeMetrics::new(setup.env),
    };
    let (actor, period) = (setup.actor(), setup.settings.node_monitor_period);
    let checks = run_periodically(setup.env.clone(), actor.clone(), "node_lifecycle_controller", period, monitor);
    let taints = reconcile::run(actor, queue, NODE_WORKERS, Tainter { nodes: setup.lister() });
    Box::pin(async move {
        join(checks, taints).await;
    })
}

/// All nodes, and those that were added or deleted since the last check.
struct Observed {
    checks: Vec<NodeCheck>,
    added: Vec<Arc<Node>>,
    deleted: Vec<Arc<Node>>,
}

impl PeriodicReconciler for Monitor {
    type Observed = Observed;

    async fn observe(&mut self, now: Timestamp) -> Observed {
        let nodes = self.nodes.list();
        let present: BTreeMap<String, Arc<Node>> =
            nodes.iter().map(|node| (node.uid().to_owned(), node.clone())).collect();
        let added = present.iter().filter(|(uid, _)| !self.known.contains_key(*uid)).map(|(_, node)| node.clone());
        let added: Vec<Arc<Node>> = added.collect();
        let deleted = self.known.iter().filter(|(uid, _)| !present.contains_key(*uid)).map(|(_, node)| node.clone());
        let deleted: Vec<Arc<Node>> = deleted.collect();
        self.known = present;
        for node in &deleted {
            self.health.remove(node.name());
        }
        let mut checks: Vec<NodeCheck> = nodes.into_iter().map(|node| self.check(node, now)).collect();
        self.leave_full_disruption(&mut checks, now);
        self.metrics.set(&zone_counts(&checks));
        Observed { checks, added, deleted }
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        let mut plans = vec![record_changes(&observed.added, &observed.deleted)];
        plans.extend(plan(&observed.checks, &self.settings, &mut self.limits, now));
        plans
    }

    fn note_outcome(&mut self, observed: &Observed, plan: &Plan, result: Result<(), &ApplyError>) {
        if let Some(zone) = evicted_zone(&observed.checks, plan).filter(|_| result.is_ok()) {
            self.metrics.count_eviction(&zone);
        }
    }

    fn note_duration(&mut self, duration: Duration) {
        self.metrics.count_round(duration);
    }
}

impl Monitor {
    fn check(&mut self, node: Arc<Node>, now: Timestamp) -> NodeCheck {
        let begun = self.env.now();
        let lease = self.leases.get(LEASE_NAMESPACE, node.name());
        let health = NodeHealth::update(self.health.get(node.name()), &node, lease.as_deref(), now);
        let (grace, startup) = (self.settings.node_monitor_grace_period, self.settings.node_startup_grace_period);
        let is_overdue = health.is_overdue(grace, startup, now);
        self.health.insert(node.name().to_owned(), health);
        let pods = if is_overdue { self.pods.by_index(PODS_BY_NODE, node.name()) } else { Vec::new() };
        self.metrics.count_check(self.env.now() - begun);
        NodeCheck { node, is_overdue, pods }
    }

    /// If no node reported and now one does, the controller was probably cut off: the grace period of all nodes begins
    /// again.
    fn leave_full_disruption(&mut self, checks: &mut [NodeCheck], now: Timestamp) {
        let is_fully_disrupted = zones::are_all_fully_disrupted(&zone_states(checks, &self.settings));
        if self.was_fully_disrupted && !is_fully_disrupted {
            self.health.values_mut().for_each(|health| health.refresh(now));
            checks.iter_mut().for_each(|check| check.is_overdue = false);
        }
        self.was_fully_disrupted = is_fully_disrupted;
    }
}

/// Records an event for each node that was added or deleted.
fn record_changes(added: &[Arc<Node>], deleted: &[Arc<Node>]) -> Plan {
    let event = |node: &Node, reason: &str, what: String| {
        actions::normal(node, reason, format!("Node {} event: {what}", node.name()))
    };
    let added = added
        .iter()
        .map(|node| event(node, "RegisteredNode", format!("Registered Node {} in Controller", node.name())));
    let deleted = deleted
        .iter()
        .map(|node| event(node, "RemovingNode", format!("Removing Node {} from Controller", node.name())));
    Plan::of(added.chain(deleted))
}

/// Reconciles a node's NoSchedule taints with its conditions, and its deprecated labels with the current ones.
struct Tainter {
    nodes: Lister<Node>,
}

impl Reconciler for Tainter {
    type Observed = Arc<Node>;

    fn observe(&self, key: &str) -> Option<Arc<Node>> {
        self.nodes.by_key(key)
    }

    fn plan(&self, node: &Arc<Node>, now: Timestamp) -> Plan {
        let taints = taints::no_schedule(node, now).map(|taints| taints::write(node, &taints));
        Plan::of(labels::update(node).into_iter().chain(taints))
    }
}
