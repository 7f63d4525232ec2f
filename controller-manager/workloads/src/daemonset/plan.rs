//! Plans one round over a DaemonSet: its revisions, the pods to create and delete, and the status.
//!
//! Corresponds to syncDaemonSet and updateDaemonSet in pkg/controller/daemon/daemon_controller.go.

use super::changes::PodChanges;
use super::history::{self, History};
use super::manage::manage;
use super::node_pods::{NodePods, group};
use super::observe::{Observed, is_rolling, min_ready_seconds, spec};
use super::rolling::roll;
use super::status;
use client::{Action, ApplyError, Plan};
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, DaemonSet};
use proto::kinds::api::core::v1::Pod;
use proto::kinds::metav1::LabelSelector;

/// Plans what is due: to adopt and release objects, to merge revisions, or else the next step of the rollout. Deletions
/// come before creations, and the status last. A DaemonSet that is being deleted is left alone: the garbage collector may
/// have deleted its revisions before its pods.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    if spec(set).selector == LabelSelector::default() {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        return Plan::of([actions::warning(set, "SelectingAll", message)]);
    }
    if set.is_deleting() {
        return Plan::default();
    }
    if !observed.pods.are_complete() || !observed.revisions.are_complete() {
        let mut plan = actions::adopt_and_release(set, &observed.revisions, None);
        plan.actions.extend(actions::adopt_and_release(set, &observed.pods, None).actions);
        return plan;
    }
    match history::construct(observed) {
        History::Collision => plan_collision(set),
        History::Duplicates(actions) => Plan::of(actions),
        History::Known { hash, old, actions } => {
            let nodes = group(observed);
            let mut plan = Plan::of(actions);
            if observed.are_expectations_satisfied {
                let changes = pod_changes(observed, &nodes, &hash, now);
                plan.actions.extend(changes.deletions(set));
                plan.actions.extend(changes.creations(set, &hash));
                plan.actions.extend(history::clean_up(observed, &old));
                changes.wait.into_iter().for_each(|wait| plan.requeue_within(wait.max(clock::TICK)));
            }
            plan_status(observed, &nodes, &hash, now, &mut plan);
            plan
        }
    }
}

/// Returns the changes that each node needs or, if it needs none, the next step of a rolling update.
fn pod_changes<'a>(observed: &'a Observed, nodes: &[NodePods<'a>], hash: &str, now: Timestamp) -> PodChanges<'a> {
    let changes = manage(observed, nodes, hash, now);
    if !changes.is_empty() || !is_rolling(&observed.set) {
        return changes;
    }
    PodChanges { wait: changes.wait, ..roll(&observed.set, nodes, hash, now) }
}

fn plan_status(observed: &Observed, nodes: &[NodePods<'_>], hash: &str, now: Timestamp, plan: &mut Plan) {
    let mut set = (*observed.set).clone();
    let status = Some(status::calculate(observed, nodes, hash, now));
    if set.status != status {
        set.status = status;
        plan.push(Action::update_status(&set));
    }
    let min_ready_seconds = min_ready_seconds(&set);
    if min_ready_seconds > 0 {
        let pods = nodes.iter().flat_map(|node| node.pods.iter().copied());
        let next = pod::next_availability(pods, min_ready_seconds, now);
        next.into_iter().for_each(|next| plan.requeue_within(next.max(clock::TICK)));
    }
}

/// Raises the collision count, and so changes the hash in the name of the next revision.
fn plan_collision(set: &DaemonSet) -> Plan {
    let mut set = set.clone();
    let status = set.status.get_or_insert_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    Plan::of([Action::update_status(&set)])
}

/// Plans what goes on although an action has failed: after a failed deletion the creations, and always the status.
pub fn plan_after(observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
    let of = |action: &Action, gvr: &proto::Gvr| action.gvr() == Some(gvr);
    match &error.failed {
        failed @ Action::Create { .. } if of(failed, &ControllerRevision::gvr()) => revision_refused(observed, error),
        failed @ (Action::Create { .. } | Action::Delete { .. }) if of(failed, &Pod::gvr()) => {
            let mut rest = plan(observed, now);
            rest.actions.retain(|action| match action {
                Action::Create { gvr, .. } => *gvr == Pod::gvr() && matches!(failed, Action::Delete { .. }),
                Action::UpdateStatus { .. } => true,
                _ => false,
            });
            Some(rest)
        }
        _ => None,
    }
}

/// Reports that the revision cannot be created, without which no pod is.
///
/// Deviation: Kubernetes only logs it.
fn revision_refused(observed: &Observed, error: &ApplyError) -> Option<Plan> {
    let cause = &error.cause;
    if cause.is_already_exists() || cause.is_namespace_terminating() || cause.status().is_none() {
        return None;
    }
    let message = format!("Error creating controller revision: {cause}");
    Some(Plan::of([actions::warning(&*observed.set, "FailedCreate", message)]))
}
