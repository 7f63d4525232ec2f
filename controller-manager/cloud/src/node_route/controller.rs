//! Runs the route controller: once in a period, and when a node gets its range.
//!
//! Corresponds to Run in k8s.io/cloud-provider/controllers/route/route_controller.go.

use super::plan::{Observed, conditions, node_of, orders, pod_cidrs};
use crate::cloud_nodes::cloud_of;
use crate::steps::Order;
use client::{Actor, Event, Lister, Plan, WorkQueue, apply};
use component_base::env::Env;
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use ipnet::IpNet;
use proto::kinds::api::core::v1::Node;
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::problem::Problem;
use std::time::Duration;

/// The only key: routes are compared all at once.
const ROUTES: &str = "routes";

struct Controller {
    env: Env,
    nodes: Lister<Node>,
    cloud: CloudClient,
    actor: Actor,
    cluster_cidrs: Vec<IpNet>,
}

/// Deviation: the original compares routes only once in a period, so that a new node waits for its routes up to 10 s.
pub fn start(setup: &Setup<'_>) -> Running {
    let options = setup.settings.cloud.as_ref().map(|access| &access.options);
    if !setup.settings.allocate_node_cidrs || options.is_some_and(|options| !options.configure_cloud_routes) {
        tracing::info!("no routes: --allocate-node-cidrs and --configure-cloud-routes are both needed");
        return Box::pin(async {});
    }
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Node>, queue| {
        let has_same_range = match event {
            Event::Updated { old, new } => pod_cidrs(old) == pod_cidrs(new),
            Event::Added(_) | Event::Deleted(_) => false,
        };
        if !has_same_range {
            queue.add(ROUTES.to_owned());
        }
    });
    let controller = Controller {
        env: setup.env.clone(),
        nodes: setup.lister(),
        cloud: cloud_of(setup),
        actor: setup.actor(),
        cluster_cidrs: setup.settings.cluster_cidr.clone(),
    };
    let period = options.map_or(Duration::from_secs(10), |options| options.route_reconciliation_period);
    Box::pin(controller.run(queue, period))
}

impl Controller {
    async fn run(self, queue: WorkQueue<String>, period: Duration) {
        let shutdown = self.env.shutdown().clone();
        loop {
            if let Err(problem) = self.round().await {
                tracing::warn!(%problem, "the cloud does not list its routes; trying again");
            }
            let next = async {
                let due = self.env.sleep(period);
                tokio::select! {
                    biased;
                    key = queue.get() => if let Some(key) = key { queue.done(&key) },
                    () = due => {}
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return queue.shut_down(),
                () = next => {}
            }
        }
    }

    async fn round(&self) -> Result<(), Problem> {
        let observed = self.observe().await?;
        let orders = orders(&observed);
        for order in &orders {
            let began = self.env.now();
            if let Err(problem) = order.send(&self.cloud).await {
                self.report(&observed, order, self.env.now().duration_since(began), &problem);
            }
        }
        let observed = if orders.is_empty() { observed } else { self.observe().await? };
        for action in conditions(&observed, self.env.wall()) {
            if let Err(error) = apply(&self.actor.client, &self.actor.recorder, &Plan::of([action])).await {
                tracing::warn!(%error, "trying again in the next round");
            }
        }
        Ok(())
    }

    async fn observe(&self) -> Result<Observed, Problem> {
        let routes = self.cloud.routes().await?;
        Ok(Observed { nodes: self.nodes.list(), routes, cluster_cidrs: self.cluster_cidrs.clone() })
    }

    fn report(&self, observed: &Observed, order: &Order, took: Duration, problem: &Problem) {
        tracing::warn!(%order, %problem, "trying again in the next round");
        let Order::PutRoute(route) = order else { return };
        let Some(node) = node_of(observed, route) else { return };
        let message = format!(
            "Could not create route {} {} for node {} after {took:?}: {problem}",
            route.name, route.destination, route.machine
        );
        if let client::Action::Event(spec) = actions::warning(&**node, "FailedToCreateRoute", message) {
            self.actor.recorder.record(spec);
        }
    }
}
