//! The EndpointSlice controller at its edge.
//!
//! Corresponds to pkg/controller/endpointslice/endpointslice_controller.go.

use super::desired::backends;
use super::plan::{MANAGED_BY, MANAGER, Observed, SERVICE_NAME, plan};
use super::tracker::Tracker;
use crate::context::Running;
use crate::context::{Actor, Context};
use crate::{actions, service};
use client::{Action, Event, Informer, Lister, Plan, ReconcileError, WorkQueue, apply, run_workers};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, Service};
use proto::kinds::api::discovery::v1::EndpointSlice;
use std::sync::Arc;
use std::time::Duration;

/// Index of this controller's slices by the key of their service.
const BY_SERVICE: &str = "service";
/// When to look again while the cache lags behind this controller's own writes.
const STALE_RETRY: Duration = Duration::from_secs(1);

struct Controller {
    actor: Actor,
    queue: WorkQueue<String>,
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    tracker: Tracker,
    max_per_slice: usize,
}

pub fn start(context: &Context) -> Running {
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(BY_SERVICE, |slice| service_key(slice).into_iter().collect());
    let services = context.informers.of::<Service>();
    let pods = context.informers.of::<Pod>();
    crate::indexes::pods_by_node(&pods);
    let nodes = context.informers.of::<Node>();
    let controller = Arc::new(Controller {
        actor: context.act_as("endpointslice-controller", "endpoint-slice-controller"),
        queue: context.queue("endpoint_slice"),
        services: services.lister(),
        slices: slices.lister(),
        pods: pods.lister(),
        nodes: nodes.lister(),
        tracker: Tracker::default(),
        max_per_slice: context.settings.max_endpoints_per_slice,
    });
    listen(&controller, &services, &slices, &pods, &nodes);
    let (env, workers) = (context.env.clone(), context.settings.concurrent_service_endpoint_syncs);
    Box::pin(async move {
        let queue = controller.queue.clone();
        run_workers(&env, "endpoint_slice", queue, workers, move |key| {
            let controller = controller.clone();
            async move { controller.round(&key).await }
        })
        .await;
    })
}

/// The service that a slice of this controller belongs to.
fn service_key(slice: &EndpointSlice) -> Option<String> {
    let labels = slice.metadata.labels.as_ref()?;
    let service =
        labels.get(SERVICE_NAME).filter(|_| labels.get(MANAGED_BY).is_some_and(|manager| manager == MANAGER))?;
    Some(client::cached::key(slice.namespace(), service))
}

fn listen(
    controller: &Arc<Controller>,
    services: &Informer<Service>,
    slices: &Informer<EndpointSlice>,
    pods: &Informer<Pod>,
    nodes: &Informer<Node>,
) {
    services.on_event({
        let controller = controller.clone();
        move |event| controller.queue.add(event.object().key())
    });
    slices.on_event({
        let controller = controller.clone();
        move |event| controller.on_slice(event)
    });
    pods.on_event({
        let controller = controller.clone();
        move |event| {
            service::concerned(&controller.services, event).into_iter().for_each(|key| controller.queue.add(key))
        }
    });
    // A node that comes may be the one that a pod's endpoint waited for.
    nodes.on_event({
        let controller = controller.clone();
        move |event| controller.on_node(event)
    });
}

impl Controller {
    /// Wakes the service if somebody else wrote its slice, or this controller's write is now seen.
    fn on_slice(&self, event: &Event<EndpointSlice>) {
        let slice = event.object();
        if let (Event::Deleted(_), Some(key)) = (event, service_key(slice)) {
            self.tracker.forget(&key, slice.uid());
        }
        let former = match event {
            Event::Updated { old, .. } => service_key(old),
            _ => None,
        };
        former.into_iter().chain(service_key(slice)).for_each(|key| self.queue.add(key));
    }

    fn on_node(&self, event: &Event<Node>) {
        let labels_changed = match event {
            Event::Updated { old, new } => old.metadata.labels != new.metadata.labels,
            _ => true,
        };
        if !labels_changed {
            return;
        }
        let name = event.object().name();
        for pod in self.pods.by_index(crate::indexes::PODS_BY_NODE, name) {
            service::concerned(&self.services, &Event::Added(pod)).into_iter().for_each(|key| self.queue.add(key));
        }
    }

    async fn round(&self, key: &str) -> Result<(), ReconcileError> {
        let Some(service) = self.services.by_key(key) else {
            // The garbage collector takes the slices.
            self.tracker.forget_service(key);
            return Ok(());
        };
        let Some(observed) = self.observe(key, service) else { return Ok(()) };
        let plan = plan(&observed);
        for action in plan.actions {
            self.carry_out(key, &observed, action).await?;
        }
        match observed.backends.on_unknown_nodes.as_slice() {
            [] => Ok(()),
            pods => Err(ReconcileError::new(format!("skipping pods {pods:?} for service {key}: node not found"))),
        }
    }

    fn observe(&self, key: &str, service: Arc<Service>) -> Option<Observed> {
        let selector = service::selector(&service)?;
        let pods = self.pods.filter(service.namespace(), |pod| service::selects(selector, pod));
        let slices = self.slices.by_index(BY_SERVICE, key);
        if !self.tracker.is_caught_up(key, &slices) {
            // The event that brings the cache up to date wakes the service; the delay is for one that never comes.
            self.queue.add_after(key.to_owned(), STALE_RETRY);
            return None;
        }
        let slices = slices.into_iter().filter(|slice| !slice.is_deleting()).collect();
        let backends = backends(&service, &pods, |node| self.nodes.get("", node));
        Some(Observed { service, backends, slices, max_per_slice: self.max_per_slice })
    }

    async fn carry_out(&self, key: &str, observed: &Observed, action: Action) -> Result<(), ReconcileError> {
        let plan = Plan { actions: vec![action], requeue_after: None };
        match apply(&self.actor.client, &self.actor.recorder, &plan).await {
            Ok(answers) => {
                answers.iter().for_each(|answer| self.tracker.note(key, answer));
                if let [Action::Delete { options, .. }] = plan.actions.as_slice() {
                    self.tracker.forget(key, &options.preconditions.uid);
                }
                Ok(())
            }
            Err(error) if error.cause.is_namespace_terminating() => Ok(()),
            Err(error) => {
                if !error.cause.is_conflict() {
                    let message = format!("Error updating Endpoint Slices for Service {key}: {}", error.cause);
                    let event = actions::warning(&*observed.service, "FailedToUpdateEndpointSlices", message);
                    let plan = Plan { actions: vec![event], requeue_after: None };
                    apply(&self.actor.client, &self.actor.recorder, &plan).await?;
                }
                Err(error.into())
            }
        }
    }
}
