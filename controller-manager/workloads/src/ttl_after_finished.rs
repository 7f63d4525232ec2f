//! The TTL-after-finished controller deletes finished jobs after their `ttlSecondsAfterFinished`.
//!
//! Corresponds to pkg/controller/ttlafterfinished.

use client::reconcile::Reconciler;
use client::{ApplyError, Client, DeleteOptions, Event, Lister, Plan, Propagation, ReconcileError, apply};
use component_base::metrics::Histograms;
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use std::sync::Arc;

/// From 0.1 seconds to about an hour, twofold each.
const SECONDS: &[f64] = &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2];

struct Controller {
    jobs: Lister<Job>,
    /// Time from the end of a job's TTL to its deletion.
    lateness: Histograms,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Job>, queue| {
        if !matches!(event, Event::Deleted(_)) && expires_at(event.object()).is_some() {
            queue.add(event.object().key());
        }
    });
    let help = "The time it took to delete the job since it became eligible for deletion";
    let name = "ttl_after_finished_controller_job_deletion_duration_seconds";
    let lateness = setup.env.metrics().histograms(name, help, SECONDS);
    let controller = Controller { jobs: setup.lister(), lateness };
    setup.run(queue, setup.settings.concurrent_ttl_after_finished_syncs, controller)
}

/// Returns the time at which the job is to be deleted. `None` if it has no TTL, has not finished, or is being deleted.
pub fn expires_at(job: &Job) -> Option<Timestamp> {
    if job.is_deleting() {
        return None;
    }
    let ttl_s = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let finished = conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")?;
    Some(clock::after(finished.last_transition_time.as_ref()?.0, ttl_s.into()))
}

pub fn plan(job: &Job, now: Timestamp) -> Plan {
    match expires_at(job) {
        None => Plan::default(),
        Some(time) if time > now => Plan { actions: Vec::new(), requeue_after: Some(clock::until(time, now)) },
        Some(_) => {
            let options =
                DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::with_uid(job.uid()) };
            Plan::of([actions::delete(job, options)])
        }
    }
}

impl Reconciler for Controller {
    type Observed = Arc<Job>;

    fn observe(&self, key: &str) -> Option<Arc<Job>> {
        self.jobs.by_key(key)
    }

    /// Asks the server for the job that is due: its TTL may be newer than the cache.
    async fn consult(&self, client: &Client, job: Arc<Job>) -> Result<Option<Arc<Job>>, ReconcileError> {
        let is_due = expires_at(&job).is_some_and(|time| time <= client.env().wall());
        if !is_due {
            return Ok(Some(job));
        }
        match client.api::<Job>(job.namespace()).get(job.name()).await {
            Ok(fresh) => Ok(Some(Arc::new(fresh))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn plan(&self, job: &Arc<Job>, now: Timestamp) -> Plan {
        plan(job, now)
    }

    async fn apply(&self, actor: &Actor, _key: &str, job: &Arc<Job>, plan: &Plan) -> Result<(), ApplyError> {
        apply(&actor.client, &actor.recorder, plan).await?;
        if let Some(time) = expires_at(job).filter(|_| !plan.actions.is_empty()) {
            let late = actor.client.env().wall().duration_since(time);
            self.lateness.get_or_create(&vec![]).observe(late.as_secs_f64());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::batch::v1::JobCondition;

    #[test]
    fn finished_jobs_go_when_their_time_is_over() {
        let later = "look again after 50s\n";
        let delete = "delete jobs.batch default/sum Foreground uid=uid-sum\n";
        let cases = [
            // ttl, condition, second => plan
            (None, Some("Complete"), 500, ""),
            (Some(100), None, 500, ""),
            (Some(100), Some("Suspended"), 500, ""),
            (Some(100), Some("Complete"), 60, later),
            (Some(100), Some("Complete"), 110, delete),
            (Some(0), Some("Failed"), 10, delete),
        ];
        for (ttl, condition, second, expected) in cases {
            let mut job = Job { metadata: fixture::meta("sum"), ..Job::default() };
            job.spec.get_or_insert_default().ttl_seconds_after_finished = ttl;
            let condition = condition.map(|type_| JobCondition {
                type_: type_.to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(fixture::time(10)),
                ..JobCondition::default()
            });
            job.status.get_or_insert_default().conditions = Some(condition.into_iter().collect());
            assert_eq!(plan(&job, fixture::at(second)).to_string(), expected, "{ttl:?} {second}");
        }
    }
}
