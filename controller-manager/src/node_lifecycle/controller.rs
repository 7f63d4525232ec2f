//! The node lifecycle controller at its edge: a look at all nodes every few seconds, and taints as conditions change.
//!
//! Corresponds to Run in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::Heard;
use super::plan::{Look, plan, zone_states};
use super::zones::{self, Limits};
use super::{labels, taints};
use crate::context::Running;
use crate::descriptor::Setup;
use crate::indexes::{self, PODS_BY_NODE};
use crate::reconcile::{self, Patrol, Reconciler, patrol};
use crate::{actions, options::Settings};
use client::{Event, Lister, Plan};
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Nodes whose taints and labels are brought in line at the same time, as many as in kube-controller-manager.
const NODE_WORKERS: usize = 8;

struct Monitor {
    settings: Arc<Settings>,
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    heard: BTreeMap<String, Heard>,
    /// The nodes of the last look, by uid.
    known: BTreeMap<String, Arc<Node>>,
    limits: Limits,
    was_lost: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    indexes::pods_by_node(&setup.informer());
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Node>, queue| queue.add(event.object().key()));
    let monitor = Monitor {
        settings: setup.settings.clone(),
        nodes: setup.lister(),
        leases: setup.lister(),
        pods: setup.lister(),
        heard: BTreeMap::new(),
        known: BTreeMap::new(),
        limits: Limits::default(),
        was_lost: false,
    };
    let (actor, period) = (setup.actor(), setup.settings.node_monitor_period);
    let looks = patrol(setup.env.clone(), actor.clone(), "node_lifecycle_controller", period, monitor);
    let taints = reconcile::run(actor, queue, NODE_WORKERS, Tainter { nodes: setup.lister() });
    Box::pin(async move {
        join(looks, taints).await;
    })
}

/// All nodes, and who of them was not there at the last look or is not any more.
struct Observed {
    looks: Vec<Look>,
    come: Vec<Arc<Node>>,
    gone: Vec<Arc<Node>>,
}

impl Patrol for Monitor {
    type Observed = Observed;

    async fn observe(&mut self, now: Timestamp) -> Observed {
        let nodes = self.nodes.list();
        let present: BTreeMap<String, Arc<Node>> =
            nodes.iter().map(|node| (node.uid().to_owned(), node.clone())).collect();
        let come = present.iter().filter(|(uid, _)| !self.known.contains_key(*uid)).map(|(_, node)| node.clone());
        let come: Vec<Arc<Node>> = come.collect();
        let gone = self.known.iter().filter(|(uid, _)| !present.contains_key(*uid)).map(|(_, node)| node.clone());
        let gone: Vec<Arc<Node>> = gone.collect();
        self.known = present;
        for node in &gone {
            self.heard.remove(node.name());
        }
        let mut looks: Vec<Look> = nodes.into_iter().map(|node| self.look_at(node, now)).collect();
        self.forgive(&mut looks, now);
        Observed { looks, come, gone }
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        let mut plans = vec![greet(&observed.come, &observed.gone)];
        plans.extend(plan(&observed.looks, &self.settings, &mut self.limits, now));
        plans
    }
}

impl Monitor {
    fn look_at(&mut self, node: Arc<Node>, now: Timestamp) -> Look {
        let lease = self.leases.get(LEASE_NAMESPACE, node.name());
        let heard = Heard::update(self.heard.get(node.name()), &node, lease.as_deref(), now);
        let (grace, startup) = (self.settings.node_monitor_grace_period, self.settings.node_startup_grace_period);
        let is_silent = heard.is_silent(grace, startup, now);
        self.heard.insert(node.name().to_owned(), heard);
        let pods = if is_silent { self.pods.by_index(PODS_BY_NODE, node.name()) } else { Vec::new() };
        Look { node, is_silent, pods }
    }

    /// When no node at all was heard of and now one is, the fault was ours: everybody else gets another chance.
    fn forgive(&mut self, looks: &mut [Look], now: Timestamp) {
        let is_lost = zones::are_all_lost(&zone_states(looks, &self.settings));
        if self.was_lost && !is_lost {
            self.heard.values_mut().for_each(|heard| heard.refresh(now));
            looks.iter_mut().for_each(|look| look.is_silent = false);
        }
        self.was_lost = is_lost;
    }
}

/// Says who came and who went.
fn greet(come: &[Arc<Node>], gone: &[Arc<Node>]) -> Plan {
    let say = |node: &Node, reason: &str, what: String| {
        actions::normal(node, reason, format!("Node {} event: {what}", node.name()))
    };
    let come =
        come.iter().map(|node| say(node, "RegisteredNode", format!("Registered Node {} in Controller", node.name())));
    let gone =
        gone.iter().map(|node| say(node, "RemovingNode", format!("Removing Node {} from Controller", node.name())));
    Plan::of(come.chain(gone))
}

/// Keeps the NoSchedule taints in line with the conditions, and old labels with new ones, as soon as these change.
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
        Plan::of(labels::missing(node).into_iter().chain(taints))
    }
}
