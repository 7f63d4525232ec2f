//! Plans one round over a cron job: the old jobs to delete, the job to create, and the status.
//!
//! Corresponds to syncCronJob in pkg/controller/cronjob/cronjob_controllerv2.go.
//! Deviation: every round determines the active jobs from the jobs themselves, so there is no UnexpectedJob and no
//! MissingJob event. A schedule without a time zone is in UTC.

use super::missed::{NeverDue, missed};
use super::schedule::{self, Schedule};
use client::{Action, DeleteOptions, Plan, Propagation};
use controller_base::controller_ref::controller_ref;
use controller_base::{actions, clock};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proto::Kind;
use proto::kinds::api::batch::v1::{CronJob, CronJobSpec, Job};
use proto::kinds::api::core::v1::ObjectReference;
use proto::kinds::metav1::{ObjectMeta, Time};
use std::sync::Arc;
use std::time::Duration;

const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Returns the time for which an action creates a job; `None` for another action.
pub fn scheduled_at(action: &Action) -> Option<Timestamp> {
    let Action::Create { object, .. } = action else { return None };
    object["metadata"]["annotations"][SCHEDULED_TIMESTAMP].as_str()?.parse().ok()
}

#[derive(Debug)]
pub struct Observed {
    pub cron_job: Arc<CronJob>,
    /// The jobs that it controls, sorted by name.
    pub jobs: Vec<Arc<Job>>,
}

/// Returns `Complete` or `Failed`, or `None` while the job runs.
fn end_of(job: &Job) -> Option<&str> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is_end = |type_: &str| matches!(type_, "Complete" | "Failed");
    let end = conditions.iter().find(|condition| is_end(&condition.type_) && condition.status == "True")?;
    Some(&end.type_)
}

/// `with_creation` is false after the server has answered that the job already exists.
pub fn plan(observed: &Observed, with_creation: bool, now: Timestamp) -> Plan {
    let cron_job = &*observed.cron_job;
    let mut plan = Plan::default();
    let mut updated = cron_job.clone();
    let mut active: Vec<Arc<Job>> = observed.jobs.iter().filter(|job| end_of(job).is_none()).cloned().collect();
    record_ended(observed, &mut updated, &mut plan);
    delete_old(observed, &mut plan);
    if !cron_job.is_deleting() {
        schedule(cron_job, &mut active, &mut updated, with_creation, now, &mut plan);
    }
    let references: Vec<ObjectReference> = active.iter().map(|job| reference(job)).collect();
    updated.status.get_or_insert_default().active = (!references.is_empty()).then_some(references);
    if updated.status.clone().unwrap_or_default() != cron_job.status.clone().unwrap_or_default() {
        plan.push(Action::update_status(&updated));
    }
    plan
}

fn spec(cron_job: &CronJob) -> &CronJobSpec {
    &cron_job.spec
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some(Job::gvk().api_version()),
        kind: Some(Job::KIND.to_owned()),
        namespace: Some(job.namespace().to_owned()),
        name: Some(job.name().to_owned()),
        uid: Some(job.uid().to_owned()),
        // A version would change the cron job's status with every write of the job.
        resource_version: None,
        ..ObjectReference::default()
    }
}

/// Records an event for each job that has ended since the last write of the status, and the last successful time.
fn record_ended(observed: &Observed, updated: &mut CronJob, plan: &mut Plan) {
    let before = observed.cron_job.status.clone().unwrap_or_default();
    let was_active = |job: &Job| before.active.iter().flatten().any(|active| active.uid.as_deref() == Some(job.uid()));
    for job in &observed.jobs {
        let Some(end) = end_of(job) else { continue };
        if was_active(job) {
            let message = format!("Saw completed job: {}, condition: {end}", job.name());
            plan.push(actions::normal(&*observed.cron_job, "SawCompletedJob", message));
        }
        let completed =
            job.status.as_ref().and_then(|status| status.completion_time.clone()).filter(|_| end == "Complete");
        let status = updated.status.get_or_insert_default();
        if completed > status.last_successful_time {
            status.last_successful_time = completed;
        }
    }
}

/// Deletes the jobs beyond the history limits, the oldest first.
fn delete_old(observed: &Observed, plan: &mut Plan) {
    let spec = spec(&observed.cron_job);
    let limits = [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    for (end, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let mut ended: Vec<&Arc<Job>> =
            observed.jobs.iter().filter(|job| end_of(job) == Some(end) && !job.is_deleting()).collect();
        let started = |job: &Job| job.status.as_ref().and_then(|status| status.start_time.clone());
        ended.sort_by_key(|job| (started(job), job.name().to_owned()));
        let surplus = ended.len().saturating_sub(limit);
        ended.into_iter().take(surplus).for_each(|job| delete(&observed.cron_job, job, plan));
    }
}

fn delete(cron_job: &CronJob, job: &Job, plan: &mut Plan) {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::with_uid(job.uid()) };
    plan.push(actions::delete(job, options));
    plan.push(actions::normal(cron_job, "SuccessfulDelete", format!("Deleted job {}", job.name())));
}

/// Creates the job of the last missed time, if the concurrency policy allows it, and requeues for the next time.
fn schedule(
    cron_job: &CronJob,
    active: &mut Vec<Arc<Job>>,
    updated: &mut CronJob,
    with_creation: bool,
    now: Timestamp,
    plan: &mut Plan,
) {
    let spec = spec(cron_job);
    if spec.suspend.unwrap_or(false) {
        return;
    }
    let (schedule, zone) = match parse(spec) {
        Ok(parsed) => parsed,
        Err((reason, message)) => return plan.push(actions::warning(cron_job, reason, message)),
    };
    if let Some(next) = schedule.next(now, &zone) {
        plan.requeue_after = Some(clock::until(next, now) + Duration::from_millis(100));
    }
    let last = cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let since = last.or(cron_job.metadata.creation_timestamp.as_ref()).map_or(now, |time| time.0);
    let missed = match missed(&schedule, &zone, since, spec.starting_deadline_seconds, now) {
        Ok(Some(missed)) => missed,
        Ok(None) => return,
        Err(NeverDue) => {
            let reason = "time difference between two schedules is less than 1 second";
            let message = format!("invalid schedule: {} : {reason}", spec.schedule);
            return plan.push(actions::warning(cron_job, "InvalidSchedule", message));
        }
    };
    if missed.are_many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.push(actions::warning(cron_job, "TooManyMissedTimes", message));
    }
    let due = missed.last;
    let name = format!("{}-{}", cron_job.name(), due.as_second().div_euclid(60));
    if active.iter().any(|job| job.name() == name) || last.is_some_and(|last| last.0 == due) {
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            return plan.push(actions::normal(cron_job, "JobAlreadyActive", message));
        }
        Some("Replace") => active.drain(..).for_each(|job| delete(cron_job, &job, plan)),
        _ => {}
    }
    if with_creation {
        plan.push(Action::create(&new_job(cron_job, &name, due, &zone)));
        plan.push(actions::normal(cron_job, "SuccessfulCreate", format!("Created job {name}")));
    }
    updated.status.get_or_insert_default().last_schedule_time = Some(Time(due));
}

/// Returns the schedule and its time zone, or the reason and message of a warning.
fn parse(spec: &CronJobSpec) -> Result<(Schedule, TimeZone), (&'static str, String)> {
    let zone = match &spec.time_zone {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(name)
            .map_err(|_| ("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}")))?,
    };
    let schedule = schedule::parse(&spec.schedule)
        .map_err(|error| ("UnparseableSchedule", format!("unparseable schedule: {:?} : {error}", spec.schedule)))?;
    Ok((schedule, zone))
}

fn new_job(cron_job: &CronJob, name: &str, due: Timestamp, zone: &TimeZone) -> Job {
    let template = &spec(cron_job).job_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    let local = due.to_zoned(zone.clone());
    let stamp =
        if *zone == TimeZone::UTC { due.to_string() } else { local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string() };
    annotations.insert(SCHEDULED_TIMESTAMP.to_owned(), stamp);
    Job {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(cron_job.namespace().to_owned()),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.clone().unwrap_or_default()),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::batch::v1::JobCondition;

    /// The cron job's schedule is every minute. Its creation time is the tests' epoch, a full minute.
    fn observed(policy: &str, jobs: Vec<Job>, change: impl FnOnce(&mut CronJob)) -> Observed {
        let mut cron_job = CronJob { metadata: fixture::meta("tick"), ..CronJob::default() };
        cron_job.spec.schedule = "* * * * *".to_owned();
        cron_job.spec.concurrency_policy = Some(policy.to_owned());
        cron_job.spec.successful_jobs_history_limit = Some(3);
        cron_job.spec.failed_jobs_history_limit = Some(1);
        change(&mut cron_job);
        Observed { cron_job: Arc::new(cron_job), jobs: jobs.into_iter().map(Arc::new).collect() }
    }

    fn job(name: &str, end: Option<&str>, second: i64) -> Job {
        let mut job = Job { metadata: fixture::meta(name), ..Job::default() };
        let status = job.status.get_or_insert_default();
        status.start_time = Some(fixture::time(second));
        status.completion_time = end.map(|_| fixture::time(second + 5));
        status.conditions = end.map(|end| {
            vec![JobCondition { type_: end.to_owned(), status: "True".to_owned(), ..JobCondition::default() }]
        });
        job
    }

    fn lines(plan: &Plan) -> Vec<String> {
        plan.actions
            .iter()
            .map(|action| action.to_string().split(" {").next().unwrap().replace("CronJob default/tick: ", ""))
            .collect()
    }

    /// Returns the name of the job that is due `offset` minutes after the tests' epoch.
    fn minute(offset: i64) -> String {
        format!("tick-{}", fixture::at(0).as_second() / 60 + offset)
    }

    #[test]
    fn a_job_is_made_when_its_minute_has_come() {
        let early = plan(&observed("Allow", vec![], |_| {}), true, fixture::at(30));
        assert_eq!(lines(&early), [] as [String; 0]);
        assert_eq!(early.requeue_after, Some(Duration::from_millis(30_100)));
        let due = plan(&observed("Allow", vec![], |_| {}), true, fixture::at(61));
        let name = minute(1);
        let expected = [
            format!("create jobs.batch default/{name}"),
            format!("event Normal SuccessfulCreate Created job {name}"),
            "update cronjobs.batch/status default/tick".to_owned(),
        ];
        assert_eq!(lines(&due), expected);
        let done = observed("Allow", vec![], |cron_job| {
            cron_job.status.get_or_insert_default().last_schedule_time = Some(fixture::time(60));
        });
        assert_eq!(lines(&plan(&done, true, fixture::at(61))), [] as [String; 0]);
    }

    #[test]
    fn concurrency_is_as_asked() {
        let running = || vec![job("tick-1", None, 0)];
        let names = |policy: &str| lines(&plan(&observed(policy, running(), |_| {}), true, fixture::at(61)));
        assert_eq!(names("Allow")[0], format!("create jobs.batch default/{}", minute(1)));
        assert_eq!(
            names("Forbid")[0],
            "event Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"
        );
        assert_eq!(names("Replace")[0], "delete jobs.batch default/tick-1 Background uid=uid-tick-1");
        assert_eq!(names("Replace")[2], format!("create jobs.batch default/{}", minute(1)));
    }

    #[test]
    fn suspended_late_or_unparseable_cron_jobs_create_no_job() {
        let quiet = observed("Allow", vec![], |cron_job| cron_job.spec.suspend = Some(true));
        assert_eq!(lines(&plan(&quiet, true, fixture::at(61))), [] as [String; 0]);
        let late = observed("Allow", vec![], |cron_job| {
            cron_job.spec.schedule = "0 * * * *".to_owned();
            cron_job.spec.starting_deadline_seconds = Some(30);
        });
        assert_eq!(lines(&plan(&late, true, fixture::at(3640))), [] as [String; 0]);
        let unreadable = observed("Allow", vec![], |cron_job| cron_job.spec.time_zone = Some("Atlantis".to_owned()));
        let event = "event Warning UnknownTimeZone invalid timeZone: \"Atlantis\": unknown time zone Atlantis";
        assert_eq!(lines(&plan(&unreadable, true, fixture::at(61))), [event]);
        let never = observed("Allow", vec![], |cron_job| cron_job.spec.schedule = "59 23 31 2 *".to_owned());
        let plan = plan(&never, true, fixture::at(61));
        let event = "event Warning InvalidSchedule invalid schedule: 59 23 31 2 * : \
                    time difference between two schedules is less than 1 second";
        assert_eq!(lines(&plan), [event]);
        assert_eq!(plan.requeue_after, None);
    }

    #[test]
    fn history_is_limited_and_ends_are_noted() {
        let complete = (0..5).map(|i| job(&format!("tick-{i}"), Some("Complete"), i));
        let failed = (5..7).map(|i| job(&format!("tick-{i}"), Some("Failed"), i));
        let observed = observed("Allow", complete.chain(failed).collect(), |cron_job| {
            let status = cron_job.status.get_or_insert_default();
            status.last_schedule_time = Some(fixture::time(0));
            status.active = Some(vec![reference(&job("tick-4", None, 4))]);
        });
        let plan = plan(&observed, true, fixture::at(30));
        let deleted: Vec<String> = lines(&plan).into_iter().filter(|line| line.starts_with("delete")).collect();
        let expected = ["tick-0", "tick-1", "tick-5"]
            .map(|name| format!("delete jobs.batch default/{name} Background uid=uid-{name}"));
        assert_eq!(deleted, expected);
        assert_eq!(lines(&plan)[0], "event Normal SawCompletedJob Saw completed job: tick-4, condition: Complete");
        let Some(Action::UpdateStatus { object, .. }) = plan.actions.last() else { panic!("{plan}") };
        assert_eq!(object["status"]["active"], serde_json::Value::Null);
        assert_eq!(object["status"]["lastSuccessfulTime"], "2026-01-01T00:00:09Z");
    }
}
