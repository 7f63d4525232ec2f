//! The node lifecycle controller at its edge: a look at all nodes every few seconds, and taints as conditions change.
//!
//! Corresponds to Run in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::Heard;
use super::plan::{Look, plan, zone_states};
use super::taints;
use super::zones::{Limits, ZoneState};
use crate::context::Running;
use crate::context::{Actor, Context};
use crate::indexes::{self, PODS_BY_NODE};
use crate::reconcile::{self, Reconciler};
use crate::{actions, options::Settings};
use client::{Lister, Plan, apply};
use component_base::env::Env;
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Nodes whose taints and labels are brought in line at the same time, as many as in kube-controller-manager.
const NODE_WORKERS: usize = 8;

struct Monitor {
    actor: Actor,
    settings: Arc<Settings>,
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    heard: BTreeMap<String, Heard>,
    /// Names and uids of the nodes of the last look.
    known: BTreeMap<String, Arc<Node>>,
    limits: Limits,
    was_lost: bool,
}

pub fn start(context: &Context) -> Running {
    let nodes = context.informers.of::<Node>();
    let leases = context.informers.of_namespace::<Lease>(LEASE_NAMESPACE);
    let pods = context.informers.of::<Pod>();
    indexes::pods_by_node(&pods);
    let queue = context.queue("node_lifecycle_controller");
    nodes.on_event({
        let queue = queue.clone();
        move |event| queue.add(event.object().key())
    });
    let actor = context.act_as("node-controller", "node-controller");
    let monitor = Monitor {
        actor: actor.clone(),
        settings: context.settings.clone(),
        nodes: nodes.lister(),
        leases: leases.lister(),
        pods: pods.lister(),
        heard: BTreeMap::new(),
        known: BTreeMap::new(),
        limits: Limits::default(),
        was_lost: false,
    };
    let tainter = Tainter { nodes: nodes.lister() };
    let env = context.env.clone();
    Box::pin(async move {
        join(monitor.run(env), reconcile::run(actor, queue, NODE_WORKERS, tainter)).await;
    })
}

impl Monitor {
    async fn run(mut self, env: Env) {
        loop {
            self.look(env.wall()).await;
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                () = env.sleep(self.settings.node_monitor_period) => {}
            }
        }
    }

    async fn look(&mut self, now: Timestamp) {
        let nodes = self.nodes.list();
        self.greet(&nodes).await;
        let mut looks = Vec::with_capacity(nodes.len());
        for node in nodes {
            let lease = self.leases.get(LEASE_NAMESPACE, node.name());
            let heard = Heard::update(self.heard.get(node.name()), &node, lease.as_deref(), now);
            let (grace, startup) = (self.settings.node_monitor_grace_period, self.settings.node_startup_grace_period);
            let is_silent = heard.is_silent(grace, startup, now);
            self.heard.insert(node.name().to_owned(), heard);
            let pods = if is_silent { self.pods.by_index(PODS_BY_NODE, node.name()) } else { Vec::new() };
            looks.push(Look { node, is_silent, pods });
        }
        self.forgive(&mut looks, now);
        for plan in plan(&looks, &self.settings, &mut self.limits, now) {
            self.carry_out(&plan).await;
        }
    }

    /// When no node at all was heard of and now one is, the fault was ours: everybody else gets another chance.
    fn forgive(&mut self, looks: &mut [Look], now: Timestamp) {
        let zones = zone_states(looks, &self.settings);
        let is_lost = !zones.is_empty() && zones.values().all(|(state, _)| *state == ZoneState::FullDisruption);
        if self.was_lost && !is_lost {
            self.heard.values_mut().for_each(|heard| heard.refresh(now));
            looks.iter_mut().for_each(|look| look.is_silent = false);
        }
        self.was_lost = is_lost;
    }

    /// Says who came and who went.
    async fn greet(&mut self, nodes: &[Arc<Node>]) {
        let present: BTreeMap<String, Arc<Node>> =
            nodes.iter().map(|node| (node.uid().to_owned(), node.clone())).collect();
        let mut said = Plan::default();
        for node in present.iter().filter(|(uid, _)| !self.known.contains_key(*uid)).map(|(_, node)| node) {
            let name = node.name();
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            said.push(actions::normal(&**node, "RegisteredNode", message));
        }
        for node in self.known.iter().filter(|(uid, _)| !present.contains_key(*uid)).map(|(_, node)| node) {
            let name = node.name();
            self.heard.remove(name);
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            said.push(actions::normal(&**node, "RemovingNode", message));
        }
        self.known = present;
        self.carry_out(&said).await;
    }

    /// What fails is tried again at the next look.
    async fn carry_out(&self, plan: &Plan) {
        if let Err(error) = apply(&self.actor.client, &self.actor.recorder, plan).await {
            tracing::warn!(%error, "node lifecycle");
        }
    }
}

/// Keeps the NoSchedule taints in line with the conditions, as soon as these change.
struct Tainter {
    nodes: Lister<Node>,
}

impl Reconciler for Tainter {
    type Observed = Arc<Node>;

    fn observe(&self, key: &str) -> Option<Arc<Node>> {
        self.nodes.by_key(key)
    }

    fn plan(&self, node: &Arc<Node>, now: Timestamp) -> Plan {
        let taints = taints::no_schedule(node, now);
        Plan { actions: taints.map(|taints| taints::write(node, &taints)).into_iter().collect(), requeue_after: None }
    }
}
