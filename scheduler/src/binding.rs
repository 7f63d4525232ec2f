//! After the decision: what is written to the API server, and told, about a pod that has or has not found its node.
//!
//! Corresponds to the binding cycle and handleSchedulingFailure of pkg/scheduler/schedule_one.go, and to
//! prepareCandidate of pkg/scheduler/framework/preemption.

use crate::framework::Nomination;
use crate::pod_info::PodInfo;
use client::{Action, DeleteOptions, EventSpec, EventType, Patch, Regarding};
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodCondition};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use serde_json::{Value, json};
use std::sync::Arc;

/// Why `PodScheduled` is false.
pub const UNSCHEDULABLE: &str = "Unschedulable";
pub const SCHEDULER_ERROR: &str = "SchedulerError";
/// The API takes no longer note in an event.
const MAX_NOTE_BYTES: usize = 1024;

/// Tells that the pod is bound.
pub fn bound(pod: &PodInfo, node: &str) -> EventSpec {
    let message = format!("Successfully assigned {} to {node}", pod.key);
    let mut event = EventSpec::new(&Regarding::of(&*pod.pod), EventType::Normal, "Scheduled", message);
    event.action = "Binding".to_owned();
    event
}

/// Tells that the pod is not looked at because it is going away.
pub fn skipped(pod: &PodInfo) -> EventSpec {
    failed_scheduling(pod, format!("skip schedule deleting pod: {}", pod.key))
}

/// Tells that the pod has found no node, and notes it in its status.
pub fn failed(pod: &PodInfo, reason: &str, message: &str, nomination: &Nomination, now: Timestamp) -> Vec<Action> {
    let mut actions = vec![Action::Event(failed_scheduling(pod, within_limit(message)))];
    let mut status = json!({});
    if let Some(condition) = changed_condition(&pod.pod, reason, message, now) {
        status["conditions"] = json!([condition]);
    }
    match nomination {
        Nomination::Node(node) if node != pod.nominated_node_name() => status["nominatedNodeName"] = json!(node),
        Nomination::Clear if !pod.nominated_node_name().is_empty() => status["nominatedNodeName"] = Value::Null,
        _ => {}
    }
    if status != json!({}) {
        actions.push(patch_status(pod, status));
    }
    actions
}

fn failed_scheduling(pod: &PodInfo, message: String) -> EventSpec {
    let mut event = EventSpec::new(&Regarding::of(&*pod.pod), EventType::Warning, "FailedScheduling", message);
    event.action = "Scheduling".to_owned();
    event
}

/// What is too long for an event ends in dots.
fn within_limit(message: &str) -> String {
    const DOTS: &str = " ...";
    if message.len() <= MAX_NOTE_BYTES {
        return message.to_owned();
    }
    let mut end = MAX_NOTE_BYTES - DOTS.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{DOTS}", &message[..end])
}

fn patch_status(pod: &PodInfo, status: Value) -> Action {
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
    Action::patch_status::<Pod>(pod.namespace(), pod.pod.name(), Patch::Strategic(patch))
}

/// `PodScheduled` as false, unless it is just so already.
fn changed_condition(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let old = conditions.iter().find(|c| c.type_ == "PodScheduled");
    let same = |old: &PodCondition| {
        old.status == "False"
            && old.reason.as_deref() == Some(reason)
            && old.message.as_deref() == Some(message)
            && old.observed_generation == pod.metadata.generation
    };
    if old.is_some_and(same) {
        return None;
    }
    let since = old.filter(|old| old.status == "False").and_then(|old| old.last_transition_time.clone());
    Some(json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or(Time(now)),
        "observedGeneration": pod.metadata.generation,
    }))
}

/// Evicts the pods that have to make room, after noting in their status why, and takes back the nominations of less
/// important pods to the node: they are better off elsewhere.
pub fn make_room(
    preemptor: &PodInfo,
    victims: &[Arc<PodInfo>],
    behind: &[Arc<PodInfo>],
    node: &str,
    now: Timestamp,
) -> Vec<Action> {
    let nominated = behind.iter().filter(|pod| !pod.nominated_node_name().is_empty());
    let mut actions: Vec<Action> = nominated.map(|pod| patch_status(pod, json!({"nominatedNodeName": null}))).collect();
    let scheduler = preemptor.spec().scheduler_name.as_deref().unwrap_or_default();
    for victim in victims.iter().filter(|victim| !victim.pod.is_deleting()) {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "lastProbeTime": null,
            "lastTransitionTime": Time(now),
            "observedGeneration": victim.pod.metadata.generation,
        });
        actions.push(patch_status(victim, json!({"conditions": [condition]})));
        let options = DeleteOptions::with_uid(victim.uid());
        actions.push(Action::delete::<Pod>(victim.namespace(), victim.pod.name(), options));
        let message = format!("Preempted by pod {} on node {node}", preemptor.uid());
        let mut event = EventSpec::new(&Regarding::of(&*victim.pod), EventType::Normal, "Preempted", message);
        event.action = "Preempting".to_owned();
        actions.push(Action::Event(event));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn pod(status: Value) -> PodInfo {
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "u1", "generation": 1});
        let pod = json!({"metadata": metadata, "spec": {"containers": [], "schedulerName": "default-scheduler"}, "status": status});
        PodInfo::new(Arc::new(Pod::decode_value(pod).unwrap()))
    }

    fn show(actions: &[Action]) -> String {
        actions.iter().map(|action| format!("{action}\n")).collect()
    }

    #[test]
    fn a_failure_is_told_and_noted_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let message = "0/3 nodes are available: 3 Insufficient cpu.";
        let actions = failed(&pod(json!({})), UNSCHEDULABLE, message, &Nomination::Keep, now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: 0/3 nodes are available: 3 Insufficient cpu.
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"0/3 nodes are available: 3 Insufficient cpu.","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}]}}
        "#]].assert_eq(&show(&actions));
        let noted = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": "2025-12-31T00:00:00Z", "observedGeneration": 1,
        }]});
        let again = failed(&pod(noted.clone()), UNSCHEDULABLE, message, &Nomination::Clear, now);
        assert_eq!(again.len(), 1, "the event alone: {}", show(&again));
        // Another message, the same state: the time of the transition stays.
        let other = failed(&pod(noted), UNSCHEDULABLE, "another", &Nomination::Node("n1".into()), now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: another
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2025-12-31T00:00:00Z","message":"another","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}],"nominatedNodeName":"n1"}}
        "#]].assert_eq(&show(&other));
    }

    #[test]
    fn victims_are_told_why_they_go() {
        let metadata =
            json!({"namespace": "shop", "name": "leaving", "uid": "u2", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let leaving = PodInfo::new(Arc::new(Pod::decode_value(json!({"metadata": metadata})).unwrap()));
        let (preemptor, victim, leaving) = (pod(json!({})), Arc::new(pod(json!({}))), Arc::new(leaving));
        let behind = Arc::new(pod(json!({"nominatedNodeName": "n1"})));
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        expect![[r#"
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"nominatedNodeName":null}}
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"default-scheduler: preempting to accommodate a higher priority pod","observedGeneration":1,"reason":"PreemptionByScheduler","status":"True","type":"DisruptionTarget"}]}}
            delete pods shop/web uid=u1
            event Normal Preempted Pod shop/web: Preempted by pod u1 on node n1
        "#]].assert_eq(&show(&make_room(&preemptor, &[victim, leaving], &[behind], "n1", now)));
        assert_eq!(
            bound(&preemptor, "n1").to_string(),
            "Normal Scheduled Pod shop/web: Successfully assigned shop/web to n1"
        );
    }

    #[test]
    fn what_is_too_long_for_an_event_is_cut() {
        let message = format!("0/1 nodes are available: {}", "é".repeat(800));
        let cut = within_limit(&message);
        assert!(cut.ends_with("é ...") && cut.len() <= MAX_NOTE_BYTES, "{cut}");
        assert_eq!(within_limit("short"), "short");
    }
}
