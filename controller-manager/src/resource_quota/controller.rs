//! Starts the ResourceQuota controller, and connects it with caches, events and monitors.
//!
//! Corresponds to pkg/controller/resourcequota/resource_quota_controller.go.

use super::count::list_usage;
use super::monitors::Monitors;
use super::plan::{Observed, plan};
use client::reconcile::Reconciler;
use client::{ApplyError, Client, Error, Event, ListOptions, Lister, Plan, ReconcileError, WorkQueue, apply};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::ResourceQuota;
use proto::quota::matches_resource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How soon a usage that the API server has raised is compared with the existing objects.
const RECOUNT: Duration = Duration::from_secs(1);

struct Controller {
    quotas: Lister<ResourceQuota>,
    monitors: Arc<Monitors>,
    /// The manager's own identity, under which everything is read.
    reader: Client,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let monitors = Monitors::new(setup.discovered(), queue.clone());
    setup.on_event(&queue, {
        let (monitors, env) = (monitors.clone(), setup.env.clone());
        move |event, queue| on_quota(event, queue, &monitors, env.wall())
    });
    let quotas: Lister<ResourceQuota> = setup.lister();
    let controller = Controller { quotas, monitors, reader: setup.client.clone() };
    let resync = setup.resync::<ResourceQuota>(&queue, setup.settings.resource_quota_sync_period, |_| true);
    let rounds = setup.run(queue, setup.settings.concurrent_resource_quota_syncs, controller);
    Box::pin(async move {
        futures::future::join(rounds, resync).await;
    })
}

fn on_quota(event: &Event<ResourceQuota>, queue: &WorkQueue<String>, monitors: &Monitors, now: Timestamp) {
    let quota = event.object();
    if let Event::Deleted(_) = event {
        return monitors.ledger.lock().forget_quota(quota.namespace(), quota.name());
    }
    let status = quota.encode()["status"].take();
    monitors.observe_quota(quota.namespace(), quota.name(), &status["used"], now);
    match event {
        Event::Updated { old, new } if old.spec == new.spec => queue.add_after(quota.key(), RECOUNT),
        _ => queue.add(quota.key()),
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let quota = self.quotas.by_key(key)?;
        let tree = quota.encode();
        let (counted, countable, listed) = Default::default();
        (!quota.is_deleting()).then_some(Observed { quota, tree, counted, countable, listed })
    }

    /// Counts the usage after the informers of all limited resources have synced. If the usage has been too high for
    /// some time, lists the objects from the server.
    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let limits = limits(&observed.tree);
        if !self.monitors.ensure_synced(&self.reader, &limits).await? {
            return Ok(None);
        }
        let resources = self.monitors.resources(&limits);
        let is_counted =
            |limit: &&String| resources.iter().any(|r| matches_resource(&r.gvr.group, &r.gvr.resource, limit));
        observed.countable = limits.iter().filter(is_counted).cloned().collect();
        let (namespace, name) = (observed.quota.namespace(), observed.quota.name());
        observed.counted = self.monitors.ledger.lock().counted(namespace, name, &observed.tree);
        if observed.due().is_some_and(|due| due <= client.env().wall()) {
            // The lists are newer than the quota: if a creation is charged meanwhile, the status update conflicts. The manager
            // may list quotas, but not get one.
            let named = ListOptions::fields(format!("metadata.name={name}"));
            let fresh = self.reader.api::<ResourceQuota>(namespace).list(&named).await?.items;
            let is_same = |fresh: &ResourceQuota| fresh.resource_version() == observed.quota.resource_version();
            if !fresh.first().is_some_and(is_same) {
                return Ok(None);
            }
            observed.listed = Some(list_usage(&self.reader, namespace, &observed.tree, &resources).await?);
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    /// Drops the releases that the written usage includes. A write without an answer may have succeeded, so its
    /// releases are dropped too: the usage may be too high for a while, but never too low.
    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let result = apply(&actor.client, &actor.recorder, plan).await.map(drop);
        if !matches!(&result, Err(ApplyError { cause: Error::Status(_), .. })) {
            let (namespace, name) = (observed.quota.namespace(), observed.quota.name());
            self.monitors.ledger.lock().drop_releases(namespace, name, observed.counted.releases);
        }
        result
    }
}

fn limits(quota: &Value) -> BTreeSet<String> {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    hard.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}
