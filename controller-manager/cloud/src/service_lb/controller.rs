//! Runs the service controller: on events of Services and Nodes, and after failures with a delay that grows.
//!
//! Corresponds to New, Run and syncService in k8s.io/cloud-provider/controllers/service/controller.go.

use super::backends::{backends, is_eligible};
use super::plan::{Observed, UPDATE_HOSTS, is_concerned, plan};
use super::wanted;
use crate::cloud_nodes::{cloud_of, machine_name};
use crate::steps::{Order, StepError, Steps, carry_out};
use client::{Actor, Event, Lister, ReconcileError, WorkQueue, run_workers};
use component_base::env::Env;
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Service};
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::problem::Problem;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Delays after failures, as in the original.
const SHORTEST_DELAY: Duration = Duration::from_secs(5);
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Most names of nodes in one event.
const MAX_NAMES: usize = 20;

/// Key that stands for all services: the nodes have changed. No key of a service lacks a slash.
const ALL: &str = "all";
/// Key that stands for the load balancers whose service has gone.
const ORPHANS: &str = "orphans";

struct Controller {
    services: Lister<Service>,
    nodes: Lister<Node>,
    cloud: CloudClient,
    actor: Actor,
    queue: WorkQueue<String>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue_with_delays(SHORTEST_DELAY, LONGEST_DELAY);
    setup.on_event(&queue, on_service);
    setup.on_event(&queue, |event: &Event<Node>, queue| {
        if changes_backends(event) {
            queue.add(ALL.to_owned());
        }
    });
    let controller = Arc::new(Controller {
        services: setup.lister(),
        nodes: setup.lister(),
        cloud: cloud_of(setup),
        actor: setup.actor(),
        queue: queue.clone(),
    });
    let workers = setup.settings.cloud.as_ref().map_or(1, |access| access.options.concurrent_service_syncs.max(1));
    Box::pin(run(setup.env.clone(), queue, workers, controller))
}

async fn run(env: Env, queue: WorkQueue<String>, workers: usize, controller: Arc<Controller>) {
    // What was deleted while nobody looked.
    queue.add(ORPHANS.to_owned());
    run_workers(&env, queue.name(), queue, workers, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

fn on_service(event: &Event<Service>, queue: &WorkQueue<String>) {
    let was_concerned = match event {
        Event::Updated { old, .. } => is_concerned(old),
        Event::Added(_) | Event::Deleted(_) => false,
    };
    if matches!(event, Event::Deleted(_)) {
        queue.add(ORPHANS.to_owned());
    } else if was_concerned || is_concerned(event.object()) {
        queue.add(event.object().key());
    }
}

/// Returns true if the event may change the backends of load balancers.
fn changes_backends(event: &Event<Node>) -> bool {
    let backend = |node: &Node| is_eligible(node).then(|| machine_name(node).map(str::to_owned)).flatten();
    match event {
        Event::Updated { old, new } => backend(old) != backend(new),
        Event::Added(_) | Event::Deleted(_) => true,
    }
}

impl Controller {
    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        match key {
            ALL => {
                let services = self.services.list();
                services.iter().filter(|service| is_concerned(service)).for_each(|it| self.queue.add(it.key()));
                Ok(())
            }
            ORPHANS => self.delete_orphans().await,
            key => match self.services.by_key(key) {
                Some(service) => self.reconcile_service(service).await,
                None => Ok(()),
            },
        }
    }

    async fn reconcile_service(&self, service: Arc<Service>) -> Result<(), ReconcileError> {
        let balancer = match self.cloud.load_balancer(&wanted::name(service.uid())).await {
            Ok(balancer) => balancer,
            Err(problem) => {
                let ends = service.is_deleting() || !wanted::is_wanted(&service);
                let what = if ends { "check if load balancer exists before cleanup" } else { "ensure load balancer" };
                return Err(self.fail(&service, format!("failed to {what}: {problem}")));
            }
        };
        let observed = Observed { service, balancer, backends: backends(&self.nodes.list()) };
        let steps = plan(&observed).map_err(|why| self.fail(&observed.service, why))?;
        match carry_out(&self.cloud, &self.actor, &steps).await {
            Ok(()) => {
                self.requeue(&observed.service, &steps);
                Ok(())
            }
            Err(error) if error.is_gone() => Ok(()),
            Err(error) if error.failure == UPDATE_HOSTS => Err(self.fail_hosts(&observed, &error)),
            Err(error) => Err(self.fail(&observed.service, error.to_string())),
        }
    }

    fn requeue(&self, service: &Service, steps: &Steps) {
        if let Some(delay) = steps.requeue_after {
            self.queue.add_after(service.key(), delay);
        }
    }

    /// Reports that a service could not be reconciled, and returns the error that lets it be retried.
    fn fail(&self, service: &Service, why: String) -> ReconcileError {
        let message = format!("Error syncing load balancer: {why}");
        self.record(actions::warning(service, "SyncLoadBalancerFailed", message));
        ReconcileError::new(why)
    }

    fn fail_hosts(&self, observed: &Observed, error: &StepError) -> ReconcileError {
        let message = failed_hosts(&observed.backends, &error.cause.to_string());
        self.record(actions::warning(&*observed.service, "UpdateLoadBalancerFailed", message));
        ReconcileError::new(error.to_string())
    }

    fn record(&self, event: client::Action) {
        if let client::Action::Event(spec) = event {
            self.actor.recorder.record(spec);
        }
    }

    /// Deletes the load balancers whose service does not exist.
    ///
    /// Deviation: the original knows these services from its memory alone, so that a load balancer is left over if the
    /// manager restarts after somebody has removed the finalizer. Here the cloud is asked which load balancers there are.
    async fn delete_orphans(&self) -> Result<(), ReconcileError> {
        let failed = |problem: Problem| {
            ReconcileError::new(format!("failed to delete load balancers without a service: {problem}"))
        };
        let present = self.cloud.load_balancers().await.map_err(failed)?;
        let names = present.iter().map(|balancer| balancer.name.as_str());
        for order in orphans(names, &self.services.list()) {
            tracing::info!(%order, "its service has gone");
            order.send(&self.cloud).await.map_err(failed)?;
        }
        Ok(())
    }
}

/// Returns the orders that delete load balancers which belong to none of the services.
pub fn orphans<'a>(balancers: impl Iterator<Item = &'a str>, services: &[Arc<Service>]) -> Vec<Order> {
    let known: BTreeSet<String> = services.iter().map(|service| wanted::name(service.uid())).collect();
    let left_over = balancers.filter(|name| !known.contains(*name));
    left_over.map(|name| Order::DeleteLoadBalancer { name: name.to_owned() }).collect()
}

fn failed_hosts(names: &[String], why: &str) -> String {
    let mut listed = names[..names.len().min(MAX_NAMES)].join(" ");
    if names.len() > MAX_NAMES {
        listed.push_str(&format!(" <{} more>", names.len() - MAX_NAMES));
    }
    format!(
        "Error updating load balancer with new hosts [{listed}] [node names limited, total number of nodes: {}], error: {why}",
        names.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn a_failure_names_few_hosts() {
        let names: Vec<String> = (0..22).map(|n| format!("n{n}")).collect();
        let expected = "Error updating load balancer with new hosts [n0 n1] [node names limited, total number of nodes: 2], \
                        error: full";
        assert_eq!(failed_hosts(&names[..2], "full"), expected);
        assert!(
            failed_hosts(&names, "full").contains(" n19 <2 more>] [node names limited, total number of nodes: 22]")
        );
    }

    #[test]
    fn nodes_concern_load_balancers_when_a_backend_changes() {
        let node = |id: &str| {
            let mut node = fixture::node("n1");
            node.spec.get_or_insert_default().provider_id = Some(id.to_owned());
            Arc::new(node)
        };
        let updated = |old: &str, new: &str| changes_backends(&Event::Updated { old: node(old), new: node(new) });
        assert!(updated("", "orrery://m1"));
        assert!(!updated("", "orrery://n1"), "a node without an ID is the machine of its name");
        assert!(!updated("orrery://m1", "orrery://m1"));
        assert!(changes_backends(&Event::Added(node(""))));
    }
}
