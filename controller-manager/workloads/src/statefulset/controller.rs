//! Starts the StatefulSet controller: its event handlers, and the handling of writes that fail.
//!
//! Corresponds to pkg/controller/statefulset/stateful_set.go.

use super::observe::{Listers, Observed, observe};
use super::spec::spec;
use super::{claims, events, history, identity, plan};
use client::cached::key;
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, Event, Lister, Plan, ReconcileError, Stale, WorkQueue};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{adopters, concerned_controllers, confirm_adoption, is_replaced, may_be_adopted};
use controller_base::descriptor::Setup;
use controller_base::indexes;
use controller_base::pod_control::PodControl;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSet};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use proto::meta::label_selector;
use std::collections::BTreeMap;

struct Controller {
    control: PodControl,
    listers: Listers,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::pods_by_controller(&setup.informer());
    indexes::revisions_by_controller(&setup.informer());
    let listers =
        Listers { sets: setup.lister(), pods: setup.lister(), revisions: setup.lister(), claims: setup.lister() };
    let control = PodControl::new(setup.env, &listers.sets, &listers.pods)
        .reading(&listers.revisions)
        .reading(&listers.claims)
        .with_texts(events::OF_PODS);
    setup.on_event(&queue, {
        let control = control.clone();
        move |event: &Event<StatefulSet>, queue| {
            if is_replaced(event) {
                control.forget(&event.object().key());
            }
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, {
        let (control, sets) = (control.clone(), listers.sets.clone());
        move |event, queue| on_pod(event, queue, &control, &sets)
    });
    setup.on_event(&queue, {
        let sets = listers.sets.clone();
        move |event, queue| on_revision(event, queue, &sets)
    });
    setup.on_event(&queue, {
        let sets = listers.sets.clone();
        move |event, queue| on_claim(event, queue, &sets)
    });
    setup.run(queue, setup.settings.concurrent_statefulset_syncs, Controller { control, listers })
}

/// Adds the set that controls a pod, and the set of which it could be a member: to adopt it, or because its name is free
/// again.
fn on_pod(event: &Event<Pod>, queue: &WorkQueue<String>, control: &PodControl, sets: &Lister<StatefulSet>) {
    control.observe_event::<StatefulSet>(event).into_iter().for_each(|key| queue.add(key));
    if may_be_adopted(event) || matches!(event, Event::Deleted(_)) {
        let pod = event.object();
        let set = identity::split(pod.name()).and_then(|(parent, _)| sets.get(pod.namespace(), parent));
        set.iter().for_each(|set| queue.add(set.key()));
    }
}

fn on_revision(event: &Event<ControllerRevision>, queue: &WorkQueue<String>, sets: &Lister<StatefulSet>) {
    concerned_controllers::<StatefulSet, _>(event).into_iter().for_each(|key| queue.add(key));
    let selects = |set: &StatefulSet, labels: &BTreeMap<String, String>| {
        label_selector::from_typed(Some(&spec(set).selector)).is_ok_and(|selector| selector.matches(labels))
    };
    adopters(sets, event, selects).into_iter().for_each(|key| queue.add(key));
}

/// Adds the set of a claim that is gone: a pod may wait for that, or lack it.
///
/// Deviation: Kubernetes waits until something else happens to the set.
fn on_claim(event: &Event<PersistentVolumeClaim>, queue: &WorkQueue<String>, sets: &Lister<StatefulSet>) {
    if let Event::Deleted(claim) = event {
        let users = sets.filter(claim.namespace(), |set| claims::are_needed(set, claim.name()));
        users.iter().for_each(|set| queue.add(key(set.namespace(), set.name())));
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.control.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        let are_expectations_satisfied = self.control.are_expectations_satisfied(key);
        let observed = observe(key, &self.listers, are_expectations_satisfied);
        if observed.is_none() {
            self.control.forget(key);
        }
        observed
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        confirm_adoption(client, &*observed.set, &observed.pods).await?;
        confirm_adoption(client, &*observed.set, &observed.revisions).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        self.control.apply(actor, key, &*observed.set, plan).await
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        if error.failed.gvr() != Some(&ControllerRevision::gvr()) {
            return plan::plan_after_failure(observed, error, now);
        }
        let Action::Create { object, .. } = &error.failed else { return None };
        if !error.cause.is_already_exists() {
            return plan::plan_revision_refused(&observed.set, error);
        }
        let name = object["metadata"]["name"].as_str()?;
        let present = self.listers.revisions.get(observed.set.namespace(), name)?;
        history::is_collision(&observed.set, object, &present).then(|| plan::plan_collision(&observed.set))
    }
}
