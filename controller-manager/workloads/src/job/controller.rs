//! Starts the Job controller, and removes the finalizers of pods whose job no longer exists.
//!
//! Corresponds to pkg/controller/job/job_controller.go.

use super::metrics::JobMetrics;
use super::observe::{Observed, has_finalizer, is_finished, is_pod_of_job, observe};
use super::plan::{plan, release};
use client::reconcile::{self, Reconciler};
use client::{ApplyError, Client, Event, Lister, Plan, ReconcileError, Stale, WorkQueue};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{
    confirm_adoption, controller_of, controller_queue_key, is_controlled_by, owner_key,
};
use controller_base::descriptor::Setup;
use controller_base::pod_control::{Creations, PodControl};
use controller_base::{clock, indexes};
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

#[derive(Clone)]
struct Listers {
    jobs: Lister<Job>,
    pods: Lister<Pod>,
}

struct Controller {
    control: PodControl,
    listers: Listers,
    metrics: JobMetrics,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let [queue, orphans] = setup.queues();
    indexes::pods_by_controller(&setup.informer());
    let listers = Listers { jobs: setup.lister(), pods: setup.lister() };
    let control = PodControl::new(setup.env, &listers.jobs, &listers.pods);
    let metrics = JobMetrics::new(setup.env);
    setup.on_event(&queue, {
        let (orphans, control, pods) = (orphans.clone(), control.clone(), listers.pods.clone());
        let metrics = metrics.clone();
        move |event, queue| {
            metrics.count_managed_elsewhere(event);
            on_job(event, queue, &orphans, &control, &pods);
        }
    });
    setup.on_event(&queue, {
        let (orphans, control, jobs) = (orphans.clone(), control.clone(), listers.jobs.clone());
        let metrics = metrics.clone();
        move |event: &Event<Pod>, queue| {
            metrics.count_tracked_ends(event);
            // The pods of a job often end together: a short delay lets one round count them.
            control.observe_event::<Job>(event).into_iter().for_each(|key| queue.add_after(key, clock::TICK));
            let pod = event.object();
            if has_finalizer(pod) && !matches!(event, Event::Deleted(_)) && is_orphan(pod, &jobs) {
                orphans.add(pod.key());
            }
        }
    });
    let actor = setup.actor();
    let workers = setup.settings.concurrent_job_syncs;
    let releases = reconcile::run(actor.clone(), orphans, 1, Orphans { listers: listers.clone() });
    let rounds = reconcile::run(actor, queue, workers, Controller { control, listers, metrics });
    Box::pin(async move {
        join(rounds, releases).await;
    })
}

fn on_job(
    event: &Event<Job>,
    queue: &WorkQueue<String>,
    orphans: &WorkQueue<String>,
    control: &PodControl,
    pods: &Lister<Pod>,
) {
    let job = event.object();
    if let Event::Deleted(job) = event {
        control.forget(&job.key());
        let left = pods.by_index(indexes::PODS_BY_CONTROLLER, &owner_key(Job::KIND, job.namespace(), job.name()));
        left.iter().filter(|pod| has_finalizer(pod)).for_each(|pod| orphans.add(pod.key()));
    }
    queue.add(job.key());
}

/// Returns true if no job in the cache will count the pod.
fn is_orphan(pod: &Pod, jobs: &Lister<Job>) -> bool {
    let job = controller_queue_key::<Job>(pod).and_then(|key| jobs.by_key(&key));
    job.filter(|job| is_controlled_by(pod, job.uid())).is_none_or(|job| is_finished(&job))
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.control.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        let is_satisfied = self.control.are_expectations_satisfied(key);
        observe(key, &self.listers.jobs, &self.listers.pods, is_satisfied)
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        confirm_adoption(client, &*observed.job, &observed.pods).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let begun = actor.client.env().now();
        let mut creations = Creations::default();
        let result = self.control.apply_and_count(actor, key, &*observed.job, plan, &mut creations).await;
        let duration = actor.client.env().now() - begun;
        self.metrics.count_round(observed, plan, duration, result.as_ref().err());
        self.metrics.count_creations(observed, plan, creations);
        result
    }
}

/// Removes the finalizer of pods that no job will count. Its keys are those of pods.
struct Orphans {
    listers: Listers,
}

impl Reconciler for Orphans {
    type Observed = Arc<Pod>;

    fn observe(&self, key: &str) -> Option<Arc<Pod>> {
        let pod = self.listers.pods.by_key(key)?;
        (has_finalizer(&pod) && is_orphan(&pod, &self.listers.jobs)).then_some(pod)
    }

    /// Asks the server for the pod's job, because the cache may show a pod before its job.
    async fn consult(&self, client: &Client, pod: Arc<Pod>) -> Result<Option<Arc<Pod>>, ReconcileError> {
        let Some(owner) = controller_of(&*pod).filter(|_| is_pod_of_job(&pod)) else { return Ok(Some(pod)) };
        match client.api::<Job>(pod.namespace()).get(&owner.name).await {
            Ok(job) if job.uid() == owner.uid && !is_finished(&job) => Ok(None),
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Some(pod)),
        }
    }

    fn plan(&self, pod: &Arc<Pod>, _now: Timestamp) -> Plan {
        Plan::of([release(pod)])
    }
}
