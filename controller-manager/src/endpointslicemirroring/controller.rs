//! Starts the EndpointSlice mirroring controller, and connects it with caches and events.
//!
//! Corresponds to pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go.

use super::desired::mirrored;
use super::metrics::MirroringMetrics;
use super::plan::{MANAGER, Observed, may_be_mirrored, plan};
use crate::endpointslice::tracker::{Tracker, service_key};
use client::reconcile::Reconciler;
use client::{ApplyError, Event, Lister, Plan, WorkQueue};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Endpoints, Service};
use proto::kinds::api::discovery::v1::EndpointSlice;
use std::sync::Arc;
use std::time::Duration;

/// Index of this controller's slices by the key of their service.
const BY_MIRRORED_SERVICE: &str = "mirroredService";
/// How soon to reconcile again while the cache is older than this controller's writes.
const STALE_RETRY: Duration = Duration::from_secs(1);

struct Controller {
    queue: WorkQueue<String>,
    services: Lister<Service>,
    endpoints: Lister<Endpoints>,
    slices: Lister<EndpointSlice>,
    tracker: Arc<Tracker>,
    metrics: MirroringMetrics,
    max_per_subset: usize,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let tracker = Arc::new(Tracker::default());
    let by_service = |slice: &EndpointSlice| service_key(slice, MANAGER).into_iter().collect();
    setup.informer().index(BY_MIRRORED_SERVICE, by_service);
    setup.on_event(&queue, |event: &Event<Service>, queue| queue.add(event.object().key()));
    let batch = setup.settings.endpoints.mirroring_endpointslice_updates_batch_period;
    setup.on_event(&queue, move |event: &Event<Endpoints>, queue| {
        let was_mirrored = matches!(event, Event::Updated { old, .. } if may_be_mirrored(old));
        if was_mirrored || may_be_mirrored(event.object()) {
            queue.add_after(event.object().key(), batch);
        }
    });
    setup.on_event(&queue, {
        let tracker = tracker.clone();
        move |event, queue| tracker.observe_event(event, MANAGER, queue)
    });
    let controller = Controller {
        queue: queue.clone(),
        services: setup.lister(),
        endpoints: setup.lister(),
        slices: setup.lister(),
        tracker,
        metrics: MirroringMetrics::new(setup.env),
        max_per_subset: setup.settings.endpoints.mirroring_max_endpoints_per_subset,
    };
    setup.run(queue, setup.settings.endpoints.mirroring_concurrent_service_endpoint_syncs, controller)
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let slices = self.slices.by_index(BY_MIRRORED_SERVICE, key);
        let (service, endpoints) = (self.services.by_key(key), self.endpoints.by_key(key));
        if service.is_none() || endpoints.is_none() {
            self.tracker.forget_service(key);
        } else if !self.tracker.is_up_to_date(key, &slices) {
            // The event that updates the cache adds the key too. The delay is for an event that never comes.
            self.queue.add_after(key.to_owned(), STALE_RETRY);
            return None;
        }
        let slices = slices.into_iter().filter(|slice| !slice.is_deleting()).collect();
        Some(Observed { service, endpoints, slices, max_per_subset: self.max_per_subset })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let begun = actor.client.env().now();
        let applied = self.tracker.apply(actor, key, plan).await;
        self.metrics.count_duration(actor.client.env().now() - begun);
        if applied.is_ok() {
            let Observed { slices, max_per_subset, .. } = observed;
            let mirrored = observed.to_mirror().map(|endpoints| mirrored(endpoints, *max_per_subset));
            self.metrics.count_round(key, slices, mirrored.as_ref(), *max_per_subset, plan);
        }
        applied
    }
}
