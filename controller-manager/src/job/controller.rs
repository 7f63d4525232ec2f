//! The Job controller at its edge, and what becomes of pods whose job is gone.
//!
//! Corresponds to pkg/controller/job/job_controller.go.

use super::observe::{has_finalizer, is_finished, is_pod_of_job, observe};
use super::plan::{plan, release};
use super::pods::Change;
use crate::context::Context;
use crate::context::Running;
use crate::controller_ref::{concerned_controllers, confirm_adoption, controller_queue_key};
use crate::pod_control::PodControl;
use crate::reconcile::is_overtaken;
use crate::{actions, indexes};
use client::{Action, ApplyError, Event, Lister, Plan, ReconcileError, UidExpectations, WorkQueue, run_workers};
use futures::future::join;
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

struct Controller {
    control: PodControl,
    queue: WorkQueue<String>,
    /// Keys of pods that nobody will count any more.
    orphans: WorkQueue<String>,
    jobs: Lister<Job>,
    pods: Lister<Pod>,
}

pub fn start(context: &Context) -> Running {
    let jobs = context.informers.of::<Job>();
    let pods = context.informers.of::<Pod>();
    indexes::pods_by_controller(&pods);
    let controller = Arc::new(Controller {
        control: PodControl {
            actor: context.act_as("job-controller", "job-controller"),
            expectations: UidExpectations::new(&context.env),
        },
        queue: context.queue("job"),
        orphans: context.queue("job_orphan_pod"),
        jobs: jobs.lister(),
        pods: pods.lister(),
    });
    jobs.on_event({
        let controller = controller.clone();
        move |event| controller.on_job(event)
    });
    pods.on_event({
        let controller = controller.clone();
        move |event| controller.on_pod(event)
    });
    let (env, workers) = (context.env.clone(), context.settings.concurrent_job_syncs);
    Box::pin(async move {
        let (rounds, releases) = (controller.clone(), controller.clone());
        let (queue, orphans) = (controller.queue.clone(), controller.orphans.clone());
        let jobs = run_workers(&env, "job", queue, workers, move |key| {
            let controller = rounds.clone();
            async move { controller.round(key).await }
        });
        let orphans = run_workers(&env, "job_orphan_pod", orphans, 1, move |key| {
            let controller = releases.clone();
            async move { controller.release_orphan(&key).await }
        });
        join(jobs, orphans).await;
    })
}

impl Controller {
    fn on_job(&self, event: &Event<Job>) {
        let job = event.object();
        if let Event::Deleted(job) = event {
            self.control.expectations.forget(&job.key());
            let owner = crate::controller_ref::owner_key(Job::KIND, job.namespace(), job.name());
            let left = self.pods.by_index(indexes::PODS_BY_CONTROLLER, &owner);
            left.iter().filter(|pod| has_finalizer(pod)).for_each(|pod| self.orphans.add(pod.key()));
        }
        self.queue.add(job.key());
    }

    fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        let keys = concerned_controllers::<Job, _>(event);
        match event {
            Event::Added(_) if !pod.is_deleting() => {
                keys.iter().for_each(|key| self.control.expectations.creation_observed(key));
            }
            Event::Updated { .. } if !pod.is_deleting() => {}
            _ => keys.iter().for_each(|key| self.control.expectations.deletion_observed(key, pod.uid())),
        }
        if has_finalizer(pod) && !matches!(event, Event::Deleted(_)) && self.is_orphan(pod) {
            self.orphans.add(pod.key());
        }
        keys.into_iter().for_each(|key| self.queue.add(key));
    }

    /// Whether no job will ever count the pod.
    fn is_orphan(&self, pod: &Pod) -> bool {
        let job = controller_queue_key::<Job>(pod).and_then(|key| self.jobs.by_key(&key));
        let own = job.filter(|job| crate::controller_ref::is_controlled_by(pod, job.uid()));
        own.is_none_or(|job| is_finished(&job))
    }

    /// A pod may be seen before its job: the server is asked before the pod is let go of.
    async fn release_orphan(&self, key: &str) -> Result<(), ReconcileError> {
        let Some(pod) = self.pods.by_key(key).filter(|pod| has_finalizer(pod) && self.is_orphan(pod)) else {
            return Ok(());
        };
        if is_pod_of_job(&pod)
            && let Some(owner) = crate::controller_ref::controller_of(&*pod)
        {
            match self.control.actor.client.api::<Job>(pod.namespace()).get(&owner.name).await {
                Ok(job) if job.uid() == owner.uid && !is_finished(&job) => return Ok(()),
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        self.carry_out_plan(&single(release(&pod))).await
    }

    async fn round(&self, key: String) -> Result<(), ReconcileError> {
        // Asked before the cache is read: what comes in between makes the cache look older than it is, never newer.
        let is_caught_up = self.control.expectations.satisfied(&key);
        let Some(observed) = observe(&key, &self.jobs, &self.pods, is_caught_up) else { return Ok(()) };
        if !observed.pods.are_settled() {
            if !observed.pods.adopt.is_empty() {
                confirm_adoption(&self.control.actor.client, &*observed.job).await?;
            }
            return self.carry_out_plan(&actions::settle(&*observed.job, &observed.pods)).await;
        }
        let round = plan(&observed, self.control.actor.client.env().wall());
        self.carry_out_plan(&round.plan).await?;
        if let Some(after) = round.plan.requeue_after {
            self.queue.add_after(key.clone(), after);
        }
        match self.change_pods(&key, &observed.job, round.change).await {
            Err(error) if !error.cause.is_namespace_terminating() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn change_pods(&self, key: &str, job: &Job, change: Change) -> Result<(), ApplyError> {
        self.control.delete(key, job, &change.delete).await?;
        self.control.create(key, job, change.create).await
    }

    async fn carry_out_plan(&self, plan: &Plan) -> Result<(), ReconcileError> {
        match self.control.carry_out(plan).await {
            Err(error) if !is_overtaken(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn single(action: Action) -> Plan {
    Plan { actions: vec![action], requeue_after: None }
}
