//! The EndpointSlice controller at its edge.
//!
//! Corresponds to pkg/controller/endpointslice/endpointslice_controller.go.

use super::desired::backends;
use super::plan::{MANAGER, Observed, plan};
use super::tracker::{Tracker, service_key};
use crate::context::{Actor, Context, Running};
use crate::indexes::{self, PODS_BY_NODE};
use crate::reconcile::{self, Reconciler};
use crate::{actions, service};
use client::{Action, ApplyError, Event, Informer, Lister, Plan, WorkQueue};
use jiff::Timestamp;
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
    queue: WorkQueue<String>,
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    tracker: Arc<Tracker>,
    max_per_slice: usize,
}

pub fn start(context: &Context) -> Running {
    let queue = context.queue("endpoint_slice");
    let tracker = Arc::new(Tracker::default());
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(BY_SERVICE, |slice| service_key(slice, MANAGER).into_iter().collect());
    let services = context.informers.of::<Service>();
    let pods = context.informers.of::<Pod>();
    indexes::pods_by_node(&pods);
    let nodes = context.informers.of::<Node>();
    services.on_event({
        let queue = queue.clone();
        move |event| queue.add(event.object().key())
    });
    slices.on_event({
        let (queue, tracker) = (queue.clone(), tracker.clone());
        move |event| tracker.wake(event, MANAGER, &queue)
    });
    pods.on_event({
        let (queue, services) = (queue.clone(), services.lister());
        move |event| service::concerned(&services, event).into_iter().for_each(|key| queue.add(key))
    });
    listen_to_nodes(&nodes, &queue, pods.lister(), services.lister());
    let controller = Controller {
        queue: queue.clone(),
        services: services.lister(),
        slices: slices.lister(),
        pods: pods.lister(),
        nodes: nodes.lister(),
        tracker,
        max_per_slice: context.settings.max_endpoints_per_slice,
    };
    let actor = context.act_as("endpointslice-controller", "endpoint-slice-controller");
    Box::pin(reconcile::run(actor, queue, context.settings.concurrent_service_endpoint_syncs, controller))
}

/// A node that comes may be the one that a pod's endpoint waits for, and its labels say in which zone that is.
fn listen_to_nodes(nodes: &Informer<Node>, queue: &WorkQueue<String>, pods: Lister<Pod>, services: Lister<Service>) {
    let queue = queue.clone();
    nodes.on_event(move |event| {
        if matches!(event, Event::Updated { old, new } if old.metadata.labels == new.metadata.labels) {
            return;
        }
        for pod in pods.by_index(PODS_BY_NODE, event.object().name()) {
            service::concerned(&services, &Event::Added(pod)).into_iter().for_each(|key| queue.add(key));
        }
    });
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let Some(service) = self.services.by_key(key) else {
            // The garbage collector takes the slices.
            self.tracker.forget_service(key);
            return None;
        };
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

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }

    async fn apply(&self, actor: &Actor, key: &str, _observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        self.tracker.apply(actor, key, plan).await
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        if error.cause.is_conflict() || error.cause.is_namespace_terminating() {
            return None;
        }
        let service = &*observed.service;
        let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let what = match &error.failed {
            Action::Create { .. } => "create".to_owned(),
            Action::Update { object, .. } => format!("update {}", name(object)),
            Action::Delete { name, .. } => format!("delete {name}"),
            _ => return None,
        };
        let key = service.key();
        let why = format!("failed to {what} EndpointSlice for Service {key}: {}", error.cause);
        let message = format!("Error updating Endpoint Slices for Service {key}: {why}");
        Some(Plan::of([actions::warning(service, "FailedToUpdateEndpointSlices", message)]))
    }
}
