//! Starts the disruption controller, and connects it with caches and events.
//!
//! Corresponds to pkg/controller/disruption/disruption.go.

use super::observe::{Listers, Observed, observe, request_unknown};
use super::plan::plan;
use super::stale::{StaleDisruptions, disruption_target};
use client::reconcile::{self, Reconciler};
use client::{Client, Event, Plan, ReconcileError, WorkQueue};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use proto::kinds::api::core::v1::{Pod, ReplicationController};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::meta::label_selector;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Controller {
    listers: Listers,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let [queue, stale] = setup.queues();
    setup.informer::<Pod>().index_label_sets();
    let listers = Listers {
        budgets: setup.lister(),
        pods: setup.lister(),
        replication_controllers: setup.lister(),
        replica_sets: setup.lister(),
        deployments: setup.lister(),
        stateful_sets: setup.lister(),
    };
    setup.on_event(&queue, |event: &Event<PodDisruptionBudget>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, {
        let (stale, listers) = (stale.clone(), listers.clone());
        move |event, queue| {
            on_pod(queue, &listers, event);
            if !matches!(event, Event::Deleted(_)) && disruption_target(event.object()).is_some() {
                stale.add(event.object().key());
            }
        }
    });
    // The expected number of a budget's pods changes when their controller is scaled.
    setup.on_event(&queue, on_scaled(&listers, |set: &ReplicationController| set.spec.as_ref()?.replicas));
    setup.on_event(&queue, on_scaled(&listers, |set: &ReplicaSet| set.spec.as_ref()?.replicas));
    setup.on_event(&queue, on_scaled(&listers, |set: &Deployment| set.spec.as_ref()?.replicas));
    setup.on_event(&queue, on_scaled(&listers, |set: &StatefulSet| set.spec.as_ref()?.replicas));
    let actor = setup.actor();
    let conditions = reconcile::run(actor.clone(), stale, 1, StaleDisruptions { pods: setup.lister() });
    let budgets = reconcile::run(actor, queue, 1, Controller { listers });
    Box::pin(async move {
        join(budgets, conditions).await;
    })
}

/// Adds the budgets that select the pod before or after the event.
fn on_pod(queue: &WorkQueue<String>, listers: &Listers, event: &Event<Pod>) {
    let pods: Vec<&Arc<Pod>> = match event {
        Event::Added(pod) | Event::Deleted(pod) => vec![pod],
        Event::Updated { old, new } => vec![old, new],
    };
    let no_labels = BTreeMap::new();
    for budget in listers.budgets.in_namespace(event.object().namespace()) {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let Ok(selector) = label_selector::from_typed(selector) else { continue };
        if pods.iter().any(|pod| selector.matches(pod.metadata.labels.as_ref().unwrap_or(&no_labels))) {
            queue.add(budget.key());
        }
    }
}

fn on_scaled<K: Kind>(
    listers: &Listers,
    replicas: fn(&K) -> Option<i32>,
) -> impl Fn(&Event<K>, &WorkQueue<String>) + use<K> {
    let budgets = listers.budgets.clone();
    move |event, queue| {
        if !matches!(event, Event::Updated { old, new } if replicas(old) == replicas(new)) {
            budgets.in_namespace(event.object().namespace()).iter().for_each(|budget| queue.add(budget.key()));
        }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        observe(key, &self.listers)
    }

    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        request_unknown(client, observed.budget.namespace(), &mut observed.scales).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}
