//! Starts the CronJob controller, and connects it with caches and events.
//!
//! Corresponds to pkg/controller/cronjob/cronjob_controllerv2.go.

use super::plan::{Observed, plan, scheduled_at};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Event, Lister, Plan, apply};
use component_base::metrics::{Histograms, Labels, exponential};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::concerned_controllers;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, BY_CONTROLLER_UID};
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::{CronJob, Job};

const SECONDS: &[f64] = &exponential::<10>(1.0, 2.0);

struct Controller {
    cron_jobs: Lister<CronJob>,
    jobs: Lister<Job>,
    /// How late jobs are created.
    skews: Histograms,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::by_controller_uid::<Job>(&setup.informer());
    setup.on_event(&queue, |event: &Event<CronJob>, queue| {
        // An update of the status alone does not trigger it: the controller itself wrote it.
        if !matches!(event, Event::Updated { old, new } if old.spec == new.spec && old.is_deleting() == new.is_deleting())
        {
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, |event: &Event<Job>, queue| {
        concerned_controllers::<CronJob, _>(event).into_iter().for_each(|key| queue.add(key));
    });
    let name = "cronjob_controller_cronjob_job_creation_skew_duration_seconds";
    let help = "Time between when a cronjob is scheduled to be run, and when the corresponding job is created";
    let skews = setup.env.metrics().histograms(name, help, SECONDS);
    let controller = Controller { cron_jobs: setup.lister(), jobs: setup.lister(), skews };
    setup.run(queue, setup.settings.concurrent_cron_job_syncs, controller)
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let cron_job = self.cron_jobs.by_key(key)?;
        let jobs = self.jobs.by_index(BY_CONTROLLER_UID, cron_job.uid());
        Some(Observed { cron_job, jobs })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, true, now)
    }

    /// Carries the plan out, and counts how late a job is created.
    async fn apply(&self, actor: &Actor, _: &str, _: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        apply(&actor.client, &actor.recorder, plan).await?;
        let now = actor.client.env().wall();
        for scheduled in plan.actions.iter().filter_map(scheduled_at) {
            self.skews.get_or_create(&Labels::new()).observe(clock::since(scheduled, now).as_secs_f64());
        }
        Ok(())
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        let cron_job = &*observed.cron_job;
        match &error.failed {
            // The job of this minute exists and the cache does not show it yet: only the status is to be written.
            Action::Create { .. } if error.cause.is_already_exists() => Some(plan(observed, false, now)),
            Action::Create { .. } if !error.cause.is_namespace_terminating() => {
                let message = format!("Error creating job: {}", error.cause);
                Some(Plan::of([actions::warning(cron_job, "FailedCreate", message)]))
            }
            Action::Delete { name, .. } if !error.cause.is_not_found() => {
                Some(Plan::of([actions::warning(cron_job, "FailedDelete", format!("Deleted job: {name}"))]))
            }
            _ => None,
        }
    }
}
