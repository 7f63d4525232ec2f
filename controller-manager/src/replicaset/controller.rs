//! The ReplicaSet and ReplicationController controllers at their edge: batches, expectations and events.
//!
//! Corresponds to pkg/controller/replicaset/replica_set.go.

use super::observe::{Listers, Observed, observe};
use super::plan::{self, Change};
use super::replicated::Replicated;
use super::status::Failure;
use crate::context::{Actor, Context};
use crate::controller_ref::{concerned_controllers, confirm_adoption, controller_of};
use crate::controllers::Running;
use crate::reconcile::is_overtaken;
use crate::{actions, indexes};
use client::{Action, ApplyError, Event, Plan, ReconcileError, UidExpectations, WorkQueue, apply, run_workers};
use futures::future::join_all;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::{Pod, ReplicationController};
use serde_json::Value;
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
    actor: Actor,
    queue: WorkQueue<String>,
    listers: Listers<T>,
    expectations: UidExpectations,
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
        actor: context.act_as(account, component),
        queue: context.queue(name),
        listers: Listers { owners: owners.lister(), pods: pods.lister() },
        expectations: UidExpectations::new(&context.env),
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
            self.expectations.forget(&owner.key());
        }
        self.queue.add(event.object().key());
    }

    /// Counts down what was expected, and wakes whom the pod concerns: its controller, or all that would adopt it.
    fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        let keys = concerned_controllers::<T, _>(event);
        match event {
            Event::Added(_) if !pod.is_deleting() => {
                keys.iter().for_each(|key| self.expectations.creation_observed(key))
            }
            Event::Updated { .. } if !pod.is_deleting() => {}
            _ => keys.iter().for_each(|key| self.expectations.deletion_observed(key, pod.uid())),
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
        let is_caught_up = self.expectations.satisfied(key);
        let Some(observed) = observe(key, &self.listers, is_caught_up) else {
            self.expectations.forget(key);
            return Ok(());
        };
        if !observed.pods.are_settled() {
            if !observed.pods.adopt.is_empty() {
                confirm_adoption(&self.actor.client, &*observed.owner).await?;
            }
            self.carry_out(&actions::settle(&*observed.owner, &observed.pods)).await?;
            return Ok(());
        }
        let env = self.actor.client.env();
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
        let plan = plan::plan_change(change);
        match change {
            Change::Nothing => Ok(()),
            Change::Create { count, .. } => {
                self.expectations.expect_creations(key, *count);
                self.create(key, observed, plan.actions).await
            }
            Change::Delete(pods) => {
                self.expectations.expect_deletions(key, pods.iter().map(|pod| pod.uid().to_owned()));
                self.delete(key, observed, pods, plan.actions).await
            }
        }
    }

    /// In batches of 1, 2, 4, … each of which has to succeed before the next begins.
    async fn create(&self, key: &str, observed: &Observed<T>, actions: Vec<Action>) -> Result<(), ApplyError> {
        let mut left = actions.into_iter();
        let mut remaining = left.len();
        for size in plan::batches(remaining) {
            let batch: Vec<Plan> = left.by_ref().take(size).map(single).collect();
            let results = join_all(batch.iter().map(|plan| self.carry_out(plan))).await;
            remaining -= size;
            let mut failed = None;
            for result in results {
                match result {
                    Ok(answers) => self.say_created(observed, &answers),
                    Err(error) => {
                        self.expectations.creation_observed(key);
                        self.say_failed(observed, "FailedCreate", "creating", &error);
                        failed.get_or_insert(error);
                    }
                }
            }
            if let Some(error) = failed {
                (0..remaining).for_each(|_| self.expectations.creation_observed(key));
                return Err(error);
            }
        }
        Ok(())
    }

    async fn delete(
        &self,
        key: &str,
        observed: &Observed<T>,
        pods: &[Arc<Pod>],
        actions: Vec<Action>,
    ) -> Result<(), ApplyError> {
        let plans: Vec<Plan> = actions.into_iter().map(single).collect();
        let results = join_all(plans.iter().map(|plan| self.carry_out(plan))).await;
        let mut failed = Ok(());
        for (pod, result) in pods.iter().zip(results) {
            match result {
                Ok(_) => self.say(actions::normal(
                    &*observed.owner,
                    "SuccessfulDelete",
                    format!("Deleted pod: {}", pod.name()),
                )),
                Err(error) => {
                    self.expectations.deletion_observed(key, pod.uid());
                    if !error.cause.is_not_found() {
                        self.say_failed(observed, "FailedDelete", "deleting", &error);
                        failed = failed.and(Err(error));
                    }
                }
            }
        }
        failed
    }

    async fn report(
        &self,
        key: &str,
        observed: &Observed<T>,
        failure: Option<&Failure>,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let plan = plan::plan_status(observed, failure, now);
        match self.carry_out(&plan).await {
            Err(error) if !is_overtaken(&error) => return Err(error.into()),
            _ => {}
        }
        if let Some(after) = plan.requeue_after {
            self.queue.add_after(key.to_owned(), after);
        }
        Ok(())
    }

    async fn carry_out(&self, plan: &Plan) -> Result<Vec<Value>, ApplyError> {
        apply(&self.actor.client, &self.actor.recorder, plan).await
    }

    fn say_created(&self, observed: &Observed<T>, answers: &[Value]) {
        for answer in answers {
            let name = answer["metadata"]["name"].as_str().unwrap_or_default();
            self.say(actions::normal(&*observed.owner, "SuccessfulCreate", format!("Created pod: {name}")));
        }
    }

    fn say_failed(&self, observed: &Observed<T>, reason: &str, doing: &str, error: &ApplyError) {
        if !error.cause.is_namespace_terminating() {
            self.say(actions::warning(&*observed.owner, reason, format!("Error {doing}: {}", error.cause)));
        }
    }

    fn say(&self, event: Action) {
        if let Action::Event(event) = event {
            self.actor.recorder.record(event);
        }
    }
}

fn single(action: Action) -> Plan {
    Plan { actions: vec![action], requeue_after: None }
}

fn failure_of(change: &Change, error: &ApplyError) -> Failure {
    let reason = if matches!(change, Change::Delete(_)) { "FailedDelete" } else { "FailedCreate" };
    Failure { reason, message: error.cause.to_string() }
}
