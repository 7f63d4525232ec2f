//! Plans one round over a StatefulSet.
//!
//! Corresponds to sync and UpdateStatefulSet in pkg/controller/statefulset. In order:
//!
//! 1. Adopts and releases pods and revisions.
//! 2. Records the template as a revision, or gives an older revision of the same template the newest number.
//! 3. Creates, deletes and corrects pods and their claims (`replicas`), and replaces pods of older revisions (`rolling`).
//! 4. Writes the status.
//! 5. Deletes old revisions.
//!
//! A round ends after the first or the second step if there was something to do. The next one sees the result.

use super::history::{self, UpdateRevision};
use super::observe::Observed;
use super::replicas::{self, PodPlan};
use super::{claims, events, identity, spec, status};
use client::{Action, ApplyError, Plan};
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSet};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use std::sync::Arc;
use std::time::Duration;

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    if !observed.pods.are_complete() || !observed.revisions.are_complete() {
        let mut plan = actions::adopt_and_release(set, &observed.revisions, None);
        plan.actions.extend(actions::adopt_and_release(set, &observed.pods, None).actions);
        return plan;
    }
    if !observed.are_expectations_satisfied {
        return Plan::default();
    }
    let update = match history::update_revision(set, &observed.revisions.owned) {
        UpdateRevision::Present(revision) => revision,
        // A set that is being deleted is not updated any more.
        _ if set.is_deleting() => return Plan::default(),
        UpdateRevision::Renumbered(revision) => return Plan::of([Action::update(&revision)]),
        UpdateRevision::New(revision) => return Plan::of([Action::create(&revision)]),
    };
    let current = history::current_revision(set, &observed.revisions.owned, &update);
    let pods = if set.is_deleting() {
        PodPlan::default()
    } else {
        replicas::plan(observed, &history::restored(set, &current), &history::restored(set, &update), now)
    };
    let mut plan = plan_status(observed, &current, &update, pods.replaced, now);
    plan.actions.splice(0..0, pods.actions);
    plan
}

/// Plans the status and the end of old revisions.
fn plan_status(
    observed: &Observed,
    current: &Arc<ControllerRevision>,
    update: &Arc<ControllerRevision>,
    replaced: usize,
    now: Timestamp,
) -> Plan {
    let mut set = (*observed.set).clone();
    let status = status::calculate(observed, current, update, replaced, now);
    let is_same = set.status.as_ref() == Some(&status);
    set.status = Some(status);
    let mut plan = Plan::of((!is_same).then(|| Action::update_status(&set)));
    let old = history::beyond_limit(&set, &observed.revisions.owned, &observed.pods.owned, [&**current, &**update]);
    plan.actions.extend(old.iter().map(|revision| actions::delete_exactly(&**revision)));
    plan.requeue_after = next_availability(observed, now);
    plan
}

/// Returns the delay until the next ready pod becomes available.
fn next_availability(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let min_ready_seconds = spec::min_ready_seconds(&observed.set);
    if min_ready_seconds <= 0 {
        return None;
    }
    let pods = observed.pods.owned.iter().map(|pod| &**pod);
    pod::next_availability(pods, min_ready_seconds, now).map(|after| after.max(clock::TICK))
}

/// Plans the events about a failed write of a claim or pod, and the status as far as it is known. `PodControl` records
/// the failures to create and delete pods.
pub fn plan_after_failure(observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
    let set = &*observed.set;
    let update = match history::update_revision(set, &observed.revisions.owned) {
        UpdateRevision::Present(revision) if concerns_pods(&error.failed) => revision,
        _ => return None,
    };
    let current = history::current_revision(set, &observed.revisions.owned, &update);
    let mut plan = plan_status(observed, &current, &update, 0, now);
    if !error.cause.is_namespace_terminating() {
        plan.actions.splice(0..0, failure_events(set, error));
    }
    Some(plan)
}

/// Plans an event that says why the revision cannot be created, without which no pod is.
///
/// Deviation: Kubernetes only logs it.
pub fn plan_revision_refused(set: &StatefulSet, error: &ApplyError) -> Option<Plan> {
    let cause = &error.cause;
    let is_refused = cause.status().is_some() && !cause.is_namespace_terminating();
    is_refused.then(|| Plan::of([events::revision_create_failed(set, &cause.to_string())]))
}

fn concerns_pods(action: &Action) -> bool {
    action.gvr().is_some_and(|gvr| *gvr == Pod::gvr() || *gvr == PersistentVolumeClaim::gvr())
}

fn failure_events(set: &StatefulSet, error: &ApplyError) -> Vec<Action> {
    let (Action::Create { gvr, object, .. } | Action::Update { gvr, object, .. }) = &error.failed else {
        return Vec::new();
    };
    // The next round sees what has changed.
    if error.cause.is_conflict() || error.cause.is_already_exists() {
        return Vec::new();
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let cause = error.cause.to_string();
    let is_pod = *gvr == Pod::gvr();
    let pod = if is_pod { name.to_owned() } else { pod_of_claim(set, name) };
    match &error.failed {
        Action::Create { .. } if is_pod => Vec::new(),
        Action::Create { .. } => vec![
            events::claim_create_failed(set, name, &pod, &cause),
            events::pod_create_failed(set, &pod, &format!("failed to create PVC {name}: {cause}")),
        ],
        _ if is_pod => vec![events::pod_update_failed(set, &pod, &cause)],
        _ => {
            let cause = format!("could not update claim {name} for delete policy ownerRefs: {cause}");
            vec![events::pod_update_failed(set, &pod, &cause)]
        }
    }
}

fn pod_of_claim(set: &StatefulSet, claim: &str) -> String {
    claims::ordinal_of(set, claim).map(|ordinal| identity::pod_name(set, ordinal)).unwrap_or_default()
}

/// Raises the collision count, and so changes the name of the next revision: another object has it.
pub fn plan_collision(set: &StatefulSet) -> Plan {
    let mut set = set.clone();
    let status = set.status.get_or_insert_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    Plan::of([Action::update_status(&set)])
}
