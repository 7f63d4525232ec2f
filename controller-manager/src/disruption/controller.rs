//! The disruption controller at its edge.
//!
//! Corresponds to pkg/controller/disruption/disruption.go.

use super::observe::{Listers, Observed, ask_for_unknown, observe};
use super::plan::plan;
use super::stale::{StaleDisruptions, announced};
use crate::context::{Context, Running};
use crate::reconcile::{self, Reconciler};
use client::{Client, Event, Plan, ReconcileError, WorkQueue};
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

pub fn start(context: &Context) -> Running {
    let queue = context.queue("disruption");
    let budgets = context.informers.of::<PodDisruptionBudget>();
    let pods = context.informers.of::<Pod>();
    let replication_controllers = context.informers.of::<ReplicationController>();
    let replica_sets = context.informers.of::<ReplicaSet>();
    let deployments = context.informers.of::<Deployment>();
    let stateful_sets = context.informers.of::<StatefulSet>();
    let listers = Listers {
        budgets: budgets.lister(),
        pods: pods.lister(),
        replication_controllers: replication_controllers.lister(),
        replica_sets: replica_sets.lister(),
        deployments: deployments.lister(),
        stateful_sets: stateful_sets.lister(),
    };
    budgets.on_event({
        let queue = queue.clone();
        move |event| queue.add(event.object().key())
    });
    let stale = context.queue("stale_pod_disruption");
    pods.on_event({
        let (queue, stale, listers) = (queue.clone(), stale.clone(), listers.clone());
        move |event| {
            on_pod(&queue, &listers, event);
            if !matches!(event, Event::Deleted(_)) && announced(event.object()).is_some() {
                stale.add(event.object().key());
            }
        }
    });
    // A controller that is scaled changes what its pods' budgets expect.
    deployments.on_event(on_scaled(&queue, &listers, |one: &Deployment, other: &Deployment| {
        one.spec.as_ref().map(|spec| spec.replicas) != other.spec.as_ref().map(|spec| spec.replicas)
    }));
    replica_sets.on_event(on_scaled(&queue, &listers, |one: &ReplicaSet, other: &ReplicaSet| {
        one.spec.as_ref().map(|spec| spec.replicas) != other.spec.as_ref().map(|spec| spec.replicas)
    }));
    replication_controllers.on_event(on_scaled(
        &queue,
        &listers,
        |one: &ReplicationController, other: &ReplicationController| {
            one.spec.as_ref().map(|spec| spec.replicas) != other.spec.as_ref().map(|spec| spec.replicas)
        },
    ));
    stateful_sets.on_event(on_scaled(&queue, &listers, |one: &StatefulSet, other: &StatefulSet| {
        one.spec.as_ref().map(|spec| spec.replicas) != other.spec.as_ref().map(|spec| spec.replicas)
    }));
    let actor = context.act_as("disruption-controller", "controllermanager");
    let announcements = reconcile::run(actor.clone(), stale, 1, StaleDisruptions { pods: pods.lister() });
    let budgets = reconcile::run(actor, queue, 1, Controller { listers });
    Box::pin(async move {
        join(budgets, announcements).await;
    })
}

/// The budgets that cover a pod, before and after.
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
    queue: &WorkQueue<String>,
    listers: &Listers,
    is_scaled: fn(&K, &K) -> bool,
) -> impl Fn(&Event<K>) + use<K> {
    let (queue, budgets) = (queue.clone(), listers.budgets.clone());
    move |event| {
        if !matches!(event, Event::Updated { old, new } if !is_scaled(old, new)) {
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
        ask_for_unknown(client, observed.budget.namespace(), &mut observed.scales).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}
