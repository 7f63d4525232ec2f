//! Starts the attach-detach controller: rounds about volumes, and rounds about the reports of nodes.
//!
//! Corresponds to Run in pkg/controller/volume/attachdetach/attach_detach_controller.go.

use super::metrics::{self, ForcedDetaches};
use super::observe::Caches;
use super::place::Place;
use super::triggers::Triggers;
use super::volume_plan::FAILED;
use super::{node_plan, volume_plan};
use client::reconcile::{self, Reconciler};
use client::{Action, ApplyError, Client, ConsistencyStore, Event, Plan, ReconcileError, Stale};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::pod_control::apply_and_record_versions;
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use std::sync::Arc;

/// Volumes, and nodes, that are reconciled concurrently.
const WORKERS: usize = 8;

pub fn start(setup: &Setup<'_>) -> Running {
    let [volumes, nodes] = setup.queues();
    let caches = Arc::new(Caches::new(setup));
    let sync_period = setup.settings.attach_detach.sync_period();
    metrics::register(setup.env, &caches);
    let triggers = Arc::new(Triggers { caches: caches.clone(), volumes, nodes, sync_period });
    watch(setup, &triggers, Triggers::on_pod);
    watch(setup, &triggers, Triggers::on_node);
    watch(setup, &triggers, Triggers::on_claim);
    watch(setup, &triggers, Triggers::on_volume);
    watch(setup, &triggers, Triggers::on_attachment);
    watch(setup, &triggers, Triggers::on_driver);
    let actor = setup.actor();
    let attachments = ConsistencyStore::default().reading(&caches.attachments);
    let reports = ConsistencyStore::default().reading(&caches.nodes);
    let volumes =
        Attacher { caches: caches.clone(), consistency: attachments, forced_detaches: ForcedDetaches::new(setup.env) };
    let nodes = Reporter { caches, consistency: reports };
    let volumes = reconcile::run(actor.clone(), triggers.volumes.clone(), WORKERS, volumes);
    let nodes = reconcile::run(actor, triggers.nodes.clone(), WORKERS, nodes);
    Box::pin(async move {
        join(volumes, nodes).await;
    })
}

fn watch<K: Kind>(setup: &Setup<'_>, triggers: &Arc<Triggers>, handler: fn(&Triggers, &Event<K>)) {
    let shared = triggers.clone();
    setup.on_event(&triggers.volumes, move |event, _| handler(&shared, event));
}

/// Reconciles the attachments of a volume. A round waits until the cache shows those of the one before, so that a volume
/// is never attached to two nodes that may not share it.
struct Attacher {
    caches: Arc<Caches>,
    consistency: ConsistencyStore,
    forced_detaches: ForcedDetaches,
}

impl Reconciler for Attacher {
    type Observed = volume_plan::Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<volume_plan::Observed> {
        self.caches.volume(key)
    }

    /// Reads the nodes whose volume is about to be detached: one of them may have begun to use it again.
    async fn consult(
        &self,
        client: &Client,
        mut observed: volume_plan::Observed,
    ) -> Result<Option<volume_plan::Observed>, ReconcileError> {
        let (now, forces_detach) = (client.env().wall(), observed.forces_detach);
        let leaves = |place: &&mut Place| {
            place.attachment.is_some() && place.departure(forces_detach).is_due(now) && !place.is_reported()
        };
        for place in observed.places.iter_mut().filter(leaves) {
            if place.node.is_none() {
                continue;
            }
            match client.api::<Node>("").get(&place.node_name).await {
                Ok(node) => place.node = Some(Arc::new(node)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &volume_plan::Observed, now: Timestamp) -> Plan {
        volume_plan::plan(observed, now)
    }

    async fn apply(
        &self,
        actor: &Actor,
        key: &str,
        observed: &volume_plan::Observed,
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        apply_and_record_versions(actor, &self.consistency, key, "", &plan.actions).await?;
        self.forced_detaches.count(&observed.places, plan);
        let now = actor.client.env().wall();
        for place in observed.places.iter().filter(|place| reports_failure(plan, place)) {
            match place.attachment {
                Some(_) => self.caches.ledger.failed(key, &place.node_name, now),
                None => self.caches.ledger.refused(key, &place.node_name),
            }
        }
        Ok(())
    }
}

/// Returns true if the plan tells a pod of the place that its volume cannot be attached.
fn reports_failure(plan: &Plan, place: &Place) -> bool {
    let mut failures = plan.actions.iter().filter_map(|action| match action {
        Action::Event(event) if event.reason == FAILED => Some(event.regarding.uid.as_str()),
        _ => None,
    });
    failures.any(|uid| place.pods.iter().any(|pod| pod.uid() == uid))
}

/// Reconciles the list of attached volumes in a node's status.
struct Reporter {
    caches: Arc<Caches>,
    consistency: ConsistencyStore,
}

impl Reconciler for Reporter {
    type Observed = node_plan::Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<node_plan::Observed> {
        self.caches.node(key)
    }

    fn plan(&self, observed: &node_plan::Observed, now: Timestamp) -> Plan {
        node_plan::plan(observed, now)
    }

    async fn apply(
        &self,
        actor: &Actor,
        key: &str,
        _observed: &node_plan::Observed,
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        apply_and_record_versions(actor, &self.consistency, key, "", &plan.actions).await
    }
}
