//! After the decision: what is written to the API server, and told, about a pod that has or has not found its node.
//!
//! Corresponds to the binding cycle and handleSchedulingFailure of pkg/scheduler/schedule_one.go, and to
//! prepareCandidate of pkg/scheduler/framework/preemption.

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

/// Tells that the pod is bound.
pub fn bound(pod: &PodInfo, node: &str) -> EventSpec {
    let message = format!("Successfully assigned {} to {node}", pod.key);
    let mut event = EventSpec::new(&Regarding::of(&*pod.pod), EventType::Normal, "Scheduled", message);
    event.action = "Binding".to_owned();
    event
}

/// Tells that the pod has found no node, and notes it in its status. `nominated` is where room is being made for it:
/// `None` leaves the status as it is there.
pub fn failed(pod: &PodInfo, reason: &str, message: &str, nominated: Option<&str>, now: Timestamp) -> Vec<Action> {
    let mut event = EventSpec::new(&Regarding::of(&*pod.pod), EventType::Warning, "FailedScheduling", message);
    event.action = "Scheduling".to_owned();
    let mut actions = vec![Action::Event(event)];
    let mut status = json!({});
    if let Some(condition) = changed_condition(&pod.pod, reason, message, now) {
        status["conditions"] = json!([condition]);
    }
    if let Some(node) = nominated.filter(|node| *node != pod.nominated_node_name()) {
        status["nominatedNodeName"] = json!(node);
    }
    if status != json!({}) {
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        actions.push(Action::patch_status::<Pod>(pod.namespace(), pod.pod.name(), Patch::Strategic(patch)));
    }
    actions
}

/// `PodScheduled` as false, unless it is just so already.
fn changed_condition(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let old = conditions.iter().find(|c| c.type_ == "PodScheduled");
    let same = |old: &PodCondition| {
        old.status == "False" && old.reason.as_deref() == Some(reason) && old.message.as_deref() == Some(message)
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

/// Evicts the pods that have to make room, after noting in their status why.
pub fn evict(
    preemptor: &PodInfo,
    victims: &[Arc<PodInfo>],
    node: &str,
    scheduler: &str,
    now: Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for victim in victims {
        let (namespace, name) = (victim.namespace(), victim.pod.name());
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": Time(now),
            "observedGeneration": victim.pod.metadata.generation,
        });
        let patch = json!({"metadata": {"uid": victim.uid()}, "status": {"conditions": [condition]}});
        actions.push(Action::patch_status::<Pod>(namespace, name, Patch::Strategic(patch)));
        actions.push(Action::delete::<Pod>(namespace, name, DeleteOptions::with_uid(victim.uid())));
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
        PodInfo::new(Arc::new(Pod::decode_value(json!({"metadata": metadata, "status": status})).unwrap()))
    }

    fn show(actions: &[Action]) -> String {
        actions.iter().map(|action| format!("{action}\n")).collect()
    }

    #[test]
    fn a_failure_is_told_and_noted_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let message = "0/3 nodes are available: 3 Insufficient cpu.";
        let actions = failed(&pod(json!({})), UNSCHEDULABLE, message, None, now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: 0/3 nodes are available: 3 Insufficient cpu.
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"0/3 nodes are available: 3 Insufficient cpu.","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}]}}
        "#]].assert_eq(&show(&actions));
        let noted = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": "2025-12-31T00:00:00Z",
        }]});
        let again = failed(&pod(noted.clone()), UNSCHEDULABLE, message, Some(""), now);
        assert_eq!(again.len(), 1, "the event alone: {}", show(&again));
        // Another message, the same state: the time of the transition stays.
        let other = failed(&pod(noted), UNSCHEDULABLE, "another", Some("n1"), now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: another
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2025-12-31T00:00:00Z","message":"another","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}],"nominatedNodeName":"n1"}}
        "#]].assert_eq(&show(&other));
    }

    #[test]
    fn victims_are_told_why_they_go() {
        let (preemptor, victim) = (pod(json!({})), Arc::new(pod(json!({}))));
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        expect![[r#"
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"default-scheduler: preempting to accommodate a higher priority pod","observedGeneration":1,"reason":"PreemptionByScheduler","status":"True","type":"DisruptionTarget"}]}}
            delete pods shop/web uid=u1
            event Normal Preempted Pod shop/web: Preempted by pod u1 on node n1
        "#]].assert_eq(&show(&evict(&preemptor, &[victim], "n1", "default-scheduler", now)));
        assert_eq!(
            bound(&preemptor, "n1").to_string(),
            "Normal Scheduled Pod shop/web: Successfully assigned shop/web to n1"
        );
    }
}
