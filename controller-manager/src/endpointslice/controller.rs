//! Starts the EndpointSlice controller, and connects it with caches and events.
//!
//! Corresponds to pkg/controller/endpointslice/endpointslice_controller.go.

use super::desired::backends;
use super::metrics::ServiceMetrics;
use super::plan::{MANAGER, Observed, plan};
use super::topology;
use super::tracker::{Tracker, service_key};
use crate::service;
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Event, Lister, Plan, WorkQueue};
use controller_base::actions;
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, PODS_BY_NODE};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, Service};
use proto::kinds::api::discovery::v1::EndpointSlice;
use std::sync::Arc;
use std::time::Duration;

/// Index of this controller's slices by the key of their service.
const BY_SERVICE: &str = "service";
/// How soon to reconcile again while the cache is older than this controller's writes.
const STALE_RETRY: Duration = Duration::from_secs(1);

struct Controller {
    queue: WorkQueue<String>,
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    tracker: Arc<Tracker>,
    metrics: ServiceMetrics,
    max_per_slice: usize,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let tracker = Arc::new(Tracker::default());
    setup.informer().index(BY_SERVICE, |slice: &EndpointSlice| service_key(slice, MANAGER).into_iter().collect());
    indexes::pods_by_node(&setup.informer());
    setup.informer::<Pod>().index_label_sets();
    let (services, pods): (Lister<Service>, Lister<Pod>) = (setup.lister(), setup.lister());
    setup.on_event(&queue, |event: &Event<Service>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, {
        let tracker = tracker.clone();
        move |event, queue| tracker.observe_event(event, MANAGER, queue)
    });
    setup.on_event(&queue, {
        let services = services.clone();
        let batch = setup.settings.endpoints.endpointslice_updates_batch_period;
        move |event, queue| {
            service::concerned_services(&services, event).into_iter().for_each(|key| queue.add_after(key, batch));
        }
    });
    setup.on_event(&queue, {
        let (services, pods) = (services.clone(), pods.clone());
        move |event, queue| on_node(event, queue, &pods, &services)
    });
    let controller = Controller {
        queue: queue.clone(),
        services,
        slices: setup.lister(),
        pods,
        nodes: setup.lister(),
        tracker,
        metrics: ServiceMetrics::new(setup.env),
        max_per_slice: setup.settings.endpoints.max_endpoints_per_slice,
    };
    setup.run(queue, setup.settings.endpoints.concurrent_service_endpoint_syncs, controller)
}

/// Adds the services of a node's pods. Endpoints wait for the node of their pod, and its labels have their zone. Adds also the
/// services whose hints depend on the CPU of all nodes.
fn on_node(event: &Event<Node>, queue: &WorkQueue<String>, pods: &Lister<Pod>, services: &Lister<Service>) {
    if !matches!(event, Event::Updated { old, new } if !topology::concerns_hints(old, new)) {
        services.filter("", topology::is_auto).iter().for_each(|service| queue.add(service.key()));
    }
    if matches!(event, Event::Updated { old, new } if old.metadata.labels == new.metadata.labels) {
        return;
    }
    for pod in pods.by_index(PODS_BY_NODE, event.object().name()) {
        service::concerned_services(services, &Event::Added(pod)).into_iter().for_each(|key| queue.add(key));
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let Some(service) = self.services.by_key(key) else {
            // The garbage collector deletes the slices.
            self.tracker.forget_service(key);
            self.metrics.forget(key);
            return None;
        };
        let selector = service::selector(&service)?;
        let pods = service::selected_pods(&self.pods, service.namespace(), selector);
        let slices = self.slices.by_index(BY_SERVICE, key);
        if !self.tracker.is_up_to_date(key, &slices) {
            // The event that updates the cache adds the key too. The delay is for an event that never comes.
            self.metrics.count_sync("stale");
            self.queue.add_after(key.to_owned(), STALE_RETRY);
            return None;
        }
        let slices = slices.into_iter().filter(|slice| !slice.is_deleting()).collect();
        let backends = backends(&service, &pods, |node| self.nodes.get("", node));
        let shares = match topology::is_auto(&service) {
            true => topology::shares(self.nodes.filter("", |_| true).iter().map(|node| &**node)),
            false => None,
        };
        Some(Observed { service, backends, slices, max_per_slice: self.max_per_slice, shares })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let applied = self.tracker.apply(actor, key, plan).await;
        self.metrics.count_sync(if applied.is_ok() { "success" } else { "error" });
        if applied.is_ok() {
            let Observed { service, slices, backends, max_per_slice, .. } = observed;
            self.metrics.count_round(service, slices, &backends.desired, *max_per_slice, plan);
        }
        applied
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
        let reason = format!("failed to {what} EndpointSlice for Service {key}: {}", error.cause);
        let message = format!("Error updating Endpoint Slices for Service {key}: {reason}");
        Some(Plan::of([actions::warning(service, "FailedToUpdateEndpointSlices", message)]))
    }
}
