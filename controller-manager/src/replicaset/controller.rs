//! The ReplicaSet and ReplicationController controllers at their edge.
//!
//! Corresponds to pkg/controller/replicaset/replica_set.go.

use super::observe::{Listers, Observed, observe};
use super::plan::{self, Change};
use super::replicated::Replicated;
use super::status::Failure;
use crate::context::Context;
use crate::context::Running;
use crate::controller_ref::{concerned_controllers, confirm_adoption, controller_of};
use crate::pod_control::PodControl;
use crate::reconcile::is_overtaken;
use crate::{actions, indexes};
use client::{ApplyError, Event, ReconcileError, UidExpectations, WorkQueue, run_workers};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::{Pod, ReplicationController};
use std::sync::Arc;

pub fn start_replica_sets(context: &Context) -> Running {
    let workers = context.settings.concurrent_replicaset_syncs;
    start::<ReplicaSet>(context, "replicaset", "replicaset-controller", "replicaset-controller", workers)
}

pub fn start_replication_controllers(context: &Context) -> Running {
    let workers = context.settings.concurrent_rc_syncs;
    start::<ReplicationController>(
        context,
        "replicationmanager",
        "replication-controller",
        "replication-controller",
        workers,
    )
}

struct Controller<T> {
    control: PodControl,
    queue: WorkQueue<String>,
    listers: Listers<T>,
}

fn start<T: Replicated>(
    context: &Context,
    name: &'static str,
    account: &str,
    component: &str,
    workers: usize,
) -> Running {
    let owners = context.informers.of::<T>();
    let pods = context.informers.of::<Pod>();
    indexes::pods_by_controller(&pods);
    indexes::by_controller_uid(&owners);
    let controller = Arc::new(Controller {
        control: PodControl {
            actor: context.act_as(account, component),
            expectations: UidExpectations::new(&context.env),
        },
        queue: context.queue(name),
        listers: Listers { owners: owners.lister(), pods: pods.lister() },
    });
    owners.on_event({
        let controller = controller.clone();
        move |event| controller.on_owner(event)
    });
    pods.on_event({
        let controller = controller.clone();
        move |event| controller.on_pod(event)
    });
    let env = context.env.clone();
    Box::pin(async move {
        let queue = controller.queue.clone();
        run_workers(&env, name, queue, workers, move |key| {
            let controller = controller.clone();
            async move { controller.round(&key).await }
        })
        .await;
    })
}

impl<T: Replicated> Controller<T> {
    fn on_owner(&self, event: &Event<T>) {
        if let Event::Deleted(owner) = event {
            self.control.expectations.forget(&owner.key());
        }
        self.queue.add(event.object().key());
    }

    /// Counts down what was expected, and wakes whom the pod concerns: its controller, or all that would adopt it.
    fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        let keys = concerned_controllers::<T, _>(event);
        match event {
            Event::Added(_) if !pod.is_deleting() => {
                keys.iter().for_each(|key| self.control.expectations.creation_observed(key))
            }
            Event::Updated { .. } if !pod.is_deleting() => {}
            _ => keys.iter().for_each(|key| self.control.expectations.deletion_observed(key, pod.uid())),
        }
        if keys.is_empty() && controller_of(&**pod).is_none() && !matches!(event, Event::Deleted(_)) {
            self.adopters(pod).for_each(|key| self.queue.add(key));
        }
        keys.into_iter().for_each(|key| self.queue.add(key));
    }

    fn adopters(&self, pod: &Pod) -> impl Iterator<Item = String> {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let owners = self.listers.owners.in_namespace(pod.namespace()).into_iter();
        owners.filter(move |owner| !labels.is_empty() && owner.selector().matches(&labels)).map(|owner| owner.key())
    }

    async fn round(&self, key: &str) -> Result<(), ReconcileError> {
        // Asked before the cache is read: what comes in between makes the cache look older than it is, never newer.
        let is_caught_up = self.control.expectations.satisfied(key);
        let Some(observed) = observe(key, &self.listers, is_caught_up) else {
            self.control.expectations.forget(key);
            return Ok(());
        };
        if !observed.pods.are_settled() {
            if !observed.pods.adopt.is_empty() {
                confirm_adoption(&self.control.actor.client, &*observed.owner).await?;
            }
            self.control.carry_out(&actions::settle(&*observed.owner, &observed.pods)).await?;
            return Ok(());
        }
        let env = self.control.actor.client.env();
        let change = plan::change(&observed, env.wall());
        let result = self.change_pods(key, &observed, &change).await;
        let failure = result.as_ref().err().map(|error| failure_of(&change, error));
        self.report(key, &observed, failure.as_ref(), env.wall()).await?;
        match result {
            Err(error) if !error.cause.is_namespace_terminating() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn change_pods(&self, key: &str, observed: &Observed<T>, change: &Change) -> Result<(), ApplyError> {
        let owner = &*observed.owner;
        match change {
            Change::Nothing => Ok(()),
            Change::Create { pod, count } => self.control.create(key, owner, vec![(**pod).clone(); *count]).await,
            Change::Delete(pods) => self.control.delete(key, owner, pods).await,
        }
    }

    async fn report(
        &self,
        key: &str,
        observed: &Observed<T>,
        failure: Option<&Failure>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let plan = plan::plan_status(observed, failure, now);
        match self.control.carry_out(&plan).await {
            Err(error) if !is_overtaken(&error) => return Err(error.into()),
            _ => {}
        }
        if let Some(after) = plan.requeue_after {
            self.queue.add_after(key.to_owned(), after);
        }
        Ok(())
    }
}

fn failure_of(change: &Change, error: &ApplyError) -> Failure {
    let reason = if matches!(change, Change::Delete(_)) { "FailedDelete" } else { "FailedCreate" };
    Failure { reason, message: error.cause.to_string() }
}
