//! The condition Progressing: whether a rollout progresses, is complete, or has exceeded its deadline.
//!
//! Corresponds to pkg/controller/deployment/progress.go.

use super::sizes;
use super::status::{
    self, PROGRESSING, REPLICA_FAILURE, condition_of, find_condition, remove_condition, set_condition,
};
use controller_base::clock;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use std::time::Duration;

pub const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub const NEW_CREATED: &str = "NewReplicaSetCreated";
pub const NEW_FOUND: &str = "FoundNewReplicaSet";
pub const CREATE_ERROR: &str = "ReplicaSetCreateError";
const UPDATED: &str = "ReplicaSetUpdated";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// A status, and the delay after which to check it again without an event.
#[derive(Debug, PartialEq)]
pub struct Progress {
    pub status: DeploymentStatus,
    pub check_after: Option<Duration>,
}

pub fn deadline_s(deployment: &Deployment) -> Option<i32> {
    sizes::spec(deployment).progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

/// Returns the status of a deployment during a rollout. `deployment.status` has the conditions that this round already
/// set.
pub fn rollout(deployment: &Deployment, all: &[&ReplicaSet], new: Option<&ReplicaSet>, now: Timestamp) -> Progress {
    let mut next = status::calculate(deployment, all, new, now);
    match deadline_s(deployment) {
        None => remove_condition(&mut next, PROGRESSING),
        Some(deadline_s) if !is_rollout_over(deployment, &next) => {
            estimate(deployment, deadline_s, &mut next, new, now)
        }
        Some(_) => {}
    }
    match replica_failure(all, new) {
        Some(failure) => set_condition(&mut next, failure),
        None => remove_condition(&mut next, REPLICA_FAILURE),
    }
    let check_after = next_check(deployment, &next, now);
    Progress { status: next, check_after }
}

/// Returns true if the last rollout was reported complete and no other has begun: there is no progress to estimate.
fn is_rollout_over(deployment: &Deployment, next: &DeploymentStatus) -> bool {
    let current = find_condition(deployment.status.as_ref(), PROGRESSING);
    next.replicas == next.updated_replicas
        && current.is_some_and(|current| current.reason.as_deref() == Some(NEW_AVAILABLE))
}

fn estimate(
    deployment: &Deployment,
    deadline_s: i32,
    next: &mut DeploymentStatus,
    new: Option<&ReplicaSet>,
    now: Timestamp,
) {
    let what = match new {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", deployment.name()),
    };
    if is_complete(deployment, next) {
        let message = format!("{what} has successfully progressed.");
        set_condition(next, condition_of(PROGRESSING, "True", NEW_AVAILABLE, message, now));
    } else if has_progressed(deployment, next) {
        // The deadline counts from lastUpdateTime, which changes with any progress. Status and reason stay the same.
        let mut condition = condition_of(PROGRESSING, "True", UPDATED, format!("{what} is progressing."), now);
        let current = find_condition(deployment.status.as_ref(), PROGRESSING);
        if let Some(current) = current.filter(|current| current.status == "True") {
            condition.last_transition_time = current.last_transition_time.clone();
        }
        remove_condition(next, PROGRESSING);
        set_condition(next, condition);
    } else if has_timed_out(deadline_s, next, now) {
        let message = format!("{what} has timed out progressing.");
        set_condition(next, condition_of(PROGRESSING, "False", TIMED_OUT, message, now));
    }
}

/// Returns true if all pods have the new template and are available.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = sizes::replicas(deployment);
    status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns true if there are more new pods, fewer old ones, or more ready or available ones than in the last status.
fn has_progressed(deployment: &Deployment, next: &DeploymentStatus) -> bool {
    let before = deployment.status.clone().unwrap_or_default();
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    next.updated_replicas > before.updated_replicas
        || old(next) < old(&before)
        || next.ready_replicas > before.ready_replicas
        || next.available_replicas > before.available_replicas
}

fn has_timed_out(deadline_s: i32, next: &DeploymentStatus, now: Timestamp) -> bool {
    let Some(condition) = find_condition(Some(next), PROGRESSING) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => updated_at(condition).is_some_and(|updated| clock::after(updated, deadline_s.into()) < now),
    }
}

fn updated_at(condition: &DeploymentCondition) -> Option<Timestamp> {
    condition.last_update_time.as_ref().map(|time| time.0)
}

/// Returns the delay until one second after the deadline of an incomplete rollout.
fn next_check(deployment: &Deployment, next: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let deadline_s = deadline_s(deployment)?;
    let condition = find_condition(Some(next), PROGRESSING)?;
    if is_complete(deployment, next) || matches!(condition.reason.as_deref(), Some(TIMED_OUT | NEW_AVAILABLE)) {
        return None;
    }
    Some(clock::until(clock::after(updated_at(condition)?, deadline_s.into()), now) + Duration::from_secs(1))
}

/// Returns the failure of the new replica set, or else of any other, as a condition of the deployment.
fn replica_failure(all: &[&ReplicaSet], new: Option<&ReplicaSet>) -> Option<DeploymentCondition> {
    let failure = new.into_iter().chain(all.iter().copied()).find_map(|replica_set| {
        let conditions = replica_set.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE)
    })?;
    Some(DeploymentCondition {
        type_: failure.type_.clone(),
        status: failure.status.clone(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        last_transition_time: failure.last_transition_time.clone(),
        last_update_time: failure.last_transition_time.clone(),
    })
}

/// Records a pause or its end in the condition, so that the pause does not count against the deadline. A rollout that
/// was reported as timed out stays so.
pub fn record_pause(deployment: &mut Deployment, now: Timestamp) {
    if deadline_s(deployment).is_none() {
        return;
    }
    let current = find_condition(deployment.status.as_ref(), PROGRESSING).and_then(|current| current.reason.clone());
    let is_paused = sizes::spec(deployment).paused.unwrap_or(false);
    let condition = match (is_paused, current.as_deref()) {
        (_, Some(TIMED_OUT)) | (true, Some(PAUSED)) => return,
        (true, _) => condition_of(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned(), now),
        (false, Some(PAUSED)) => condition_of(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed".to_owned(), now),
        (false, _) => return,
    };
    set_condition(deployment.status.get_or_insert_default(), condition);
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    /// Returns a deployment of 3 replicas whose condition Progressing was written at second 0.
    fn deployment(reason: &str, counts: Counts) -> Deployment {
        let mut deployment = fixture::deployment(3, "1", "1");
        let mut status = DeploymentStatus {
            replicas: Some(counts.replicas),
            updated_replicas: Some(counts.updated),
            ready_replicas: Some(counts.available),
            available_replicas: Some(counts.available),
            ..DeploymentStatus::default()
        };
        if !reason.is_empty() {
            set_condition(&mut status, condition_of(PROGRESSING, "True", reason, String::new(), fixture::at(0)));
        }
        deployment.status = Some(status);
        deployment
    }

    #[derive(Clone, Copy)]
    struct Counts {
        replicas: i32,
        updated: i32,
        available: i32,
    }

    fn counts(replicas: i32, updated: i32, available: i32) -> Counts {
        Counts { replicas, updated, available }
    }

    /// Returns an old and a new replica set with these counts.
    fn replica_sets(Counts { replicas, updated, available }: Counts) -> (ReplicaSet, ReplicaSet) {
        let old = fixture::replica_set("old", "nginx:0", replicas - updated);
        let mut new = fixture::replica_set("new", "nginx:1", updated);
        let status = new.status.as_mut().unwrap();
        status.ready_replicas = Some(available - (replicas - updated));
        status.available_replicas = status.ready_replicas;
        (old, new)
    }

    #[test]
    fn progressing_tells_how_the_rollout_stands() {
        let created = NEW_CREATED;
        let cases = [
            // reason before, counts before, counts now, second => reason, next check in seconds
            ("nothing yet", "", counts(0, 0, 0), counts(0, 0, 0), 5, None, None),
            ("first pods", created, counts(0, 0, 0), counts(3, 3, 0), 5, Some(UPDATED), Some(601)),
            ("more ready", UPDATED, counts(3, 3, 0), counts(3, 3, 2), 5, Some(UPDATED), Some(601)),
            ("fewer old", UPDATED, counts(4, 2, 3), counts(3, 2, 3), 5, Some(UPDATED), Some(601)),
            ("complete", UPDATED, counts(3, 3, 2), counts(3, 3, 3), 5, Some(NEW_AVAILABLE), None),
            ("stands still", UPDATED, counts(3, 3, 1), counts(3, 3, 1), 200, Some(UPDATED), Some(401)),
            ("on the deadline", UPDATED, counts(3, 3, 1), counts(3, 3, 1), 600, Some(UPDATED), Some(1)),
            ("past the deadline", UPDATED, counts(3, 3, 1), counts(3, 3, 1), 601, Some(TIMED_OUT), None),
            ("moves again", TIMED_OUT, counts(3, 3, 1), counts(3, 3, 2), 700, Some(UPDATED), Some(601)),
            ("a pod is lost later", NEW_AVAILABLE, counts(3, 3, 3), counts(3, 3, 2), 700, Some(NEW_AVAILABLE), None),
        ];
        for (what, reason, before, after, second, expected, check) in cases {
            let deployment = deployment(reason, before);
            let (old, new) = replica_sets(after);
            let progress = rollout(&deployment, &[&old, &new], Some(&new), fixture::at(second));
            let condition = find_condition(Some(&progress.status), PROGRESSING);
            assert_eq!(condition.and_then(|condition| condition.reason.as_deref()), expected, "{what}");
            assert_eq!(progress.check_after.map(|after| after.as_secs()), check, "{what}");
        }
    }

    #[test]
    fn without_a_deadline_there_is_no_condition() {
        let mut deployment = deployment(UPDATED, counts(3, 3, 0));
        deployment.spec.as_mut().unwrap().progress_deadline_seconds = None;
        let (old, new) = replica_sets(counts(3, 3, 1));
        let progress = rollout(&deployment, &[&old, &new], Some(&new), fixture::at(900));
        assert_eq!(find_condition(Some(&progress.status), PROGRESSING), None);
        assert_eq!(progress.check_after, None);
    }

    #[test]
    fn pausing_stops_the_deadline() {
        let cases = [
            (true, UPDATED, PAUSED),
            (true, PAUSED, PAUSED),
            (true, TIMED_OUT, TIMED_OUT),
            (false, PAUSED, RESUMED),
            (false, RESUMED, RESUMED),
            (false, UPDATED, UPDATED),
        ];
        for (paused, before, after) in cases {
            let mut deployment = deployment(before, counts(3, 3, 1));
            deployment.spec.as_mut().unwrap().paused = Some(paused);
            record_pause(&mut deployment, fixture::at(5));
            let condition = find_condition(deployment.status.as_ref(), PROGRESSING).unwrap();
            assert_eq!(condition.reason.as_deref(), Some(after), "paused {paused}, {before}");
        }
    }

    #[test]
    fn failures_of_replica_sets_show_on_the_deployment() {
        let deployment = deployment(UPDATED, counts(3, 3, 0));
        let (old, mut new) = replica_sets(counts(3, 3, 0));
        let failure = proto::kinds::api::apps::v1::ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some("FailedCreate".to_owned()),
            message: Some("exceeded quota".to_owned()),
            last_transition_time: Some(fixture::time(3)),
        };
        new.status.as_mut().unwrap().conditions = Some(vec![failure]);
        let progress = rollout(&deployment, &[&old, &new], Some(&new), fixture::at(5));
        let condition = find_condition(Some(&progress.status), REPLICA_FAILURE).unwrap();
        assert_eq!(
            (condition.reason.as_deref(), condition.message.as_deref()),
            (Some("FailedCreate"), Some("exceeded quota"))
        );
        new.status.as_mut().unwrap().conditions = None;
        let progress = rollout(&deployment, &[&old, &new], Some(&new), fixture::at(5));
        assert_eq!(find_condition(Some(&progress.status), REPLICA_FAILURE), None);
    }
}
