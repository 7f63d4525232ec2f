//! The writes and events that follow a decision about a pod.
//!
//! Corresponds to the binding cycle and handleSchedulingFailure of pkg/scheduler/schedule_one.go, and to
//! prepareCandidate of pkg/scheduler/framework/preemption.

use client::{Action, DeleteOptions, EventSpec, EventType, Patch, Regarding};
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodCondition};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use scheduling_framework::Nomination;
use scheduling_framework::pod_info::PodInfo;
use serde_json::{Value, json};
use std::sync::Arc;

/// Reasons for which `PodScheduled` is false.
pub const UNSCHEDULABLE: &str = "Unschedulable";
pub const SCHEDULER_ERROR: &str = "SchedulerError";
/// Longest note of an event that the API accepts.
const MAX_NOTE_BYTES: usize = 1024;

/// Returns the event of a bound pod.
pub fn scheduled_event(pod: &PodInfo, node: &str) -> EventSpec {
    let message = format!("Successfully assigned {} to {node}", pod.key);
    EventSpec::new(&Regarding::of(&*pod.pod), EventType::Normal, "Scheduled", message).action("Binding")
}

/// Returns the event of a pod that is skipped because it is being deleted.
pub fn skipped_event(pod: &PodInfo) -> EventSpec {
    failed_scheduling(pod, format!("skip schedule deleting pod: {}", pod.key))
}

/// Returns the event and the status of a pod without a node.
pub fn failure_actions(
    pod: &PodInfo,
    reason: &str,
    message: &str,
    nomination: &Nomination,
    now: Timestamp,
) -> Vec<Action> {
    let mut actions = vec![Action::Event(failed_scheduling(pod, truncate_note(message)))];
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
    EventSpec::new(&Regarding::of(&*pod.pod), EventType::Warning, "FailedScheduling", message).action("Scheduling")
}

/// Truncates a message that is too long for an event. It then ends in dots.
fn truncate_note(message: &str) -> String {
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

/// Returns the condition `PodScheduled` with status false; `None` if it is unchanged.
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

/// Returns the write that nominates a pod to a node.
pub fn nominate(pod: &PodInfo, node: &str) -> Action {
    patch_status(pod, json!({"nominatedNodeName": node}))
}

/// The writes of a preemption.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Writes that come first.
    pub before: Vec<Action>,
    /// Victims, which do not depend on each other.
    pub victims: Vec<Eviction>,
}

/// The writes that evict one pod.
#[derive(Debug)]
pub struct Eviction {
    pub uid: String,
    pub actions: Vec<Action>,
}

impl Evictions {
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.victims.is_empty()
    }

    pub fn append(&mut self, mut others: Self) {
        self.before.append(&mut others.before);
        self.victims.append(&mut others.victims);
    }
}

/// Evicts the victims of a preemption, with a condition that has the reason. Clears the nominations of pods of lower
/// priority to the node, because they may not fit there any more. `by` names the preemptor.
pub fn evict_victims(
    preemptor: &PodInfo,
    victims: &[Arc<PodInfo>],
    lower: &[Arc<PodInfo>],
    by: &str,
    now: Timestamp,
) -> Evictions {
    let nominated = lower.iter().filter(|pod| !pod.nominated_node_name().is_empty());
    let before = nominated.map(|pod| patch_status(pod, json!({"nominatedNodeName": null}))).collect();
    let scheduler = preemptor.spec().scheduler_name.as_deref().unwrap_or_default();
    let evict = |victim: &Arc<PodInfo>| {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "lastProbeTime": null,
            "lastTransitionTime": Time(now),
            "observedGeneration": victim.pod.metadata.generation,
        });
        let options = DeleteOptions::with_uid(victim.uid());
        let message = format!("Preempted by {by}");
        let regarding = Regarding::of(&*victim.pod);
        let event = EventSpec::new(&regarding, EventType::Normal, "Preempted", message).action("Preempting");
        let event = EventSpec { related: Some(Regarding::of(&*preemptor.pod)), ..event };
        let actions = vec![
            patch_status(victim, json!({"conditions": [condition]})),
            Action::delete::<Pod>(victim.namespace(), victim.pod.name(), options),
            Action::Event(event),
        ];
        Eviction { uid: victim.uid().to_owned(), actions }
    };
    let victims = victims.iter().filter(|victim| !victim.pod.is_deleting()).map(evict).collect();
    Evictions { before, victims }
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
    fn a_failure_is_recorded_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let message = "0/3 nodes are available: 3 Insufficient cpu.";
        let actions = failure_actions(&pod(json!({})), UNSCHEDULABLE, message, &Nomination::Keep, now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: 0/3 nodes are available: 3 Insufficient cpu.
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"0/3 nodes are available: 3 Insufficient cpu.","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}]}}
        "#]].assert_eq(&show(&actions));
        let recorded = json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": "2025-12-31T00:00:00Z", "observedGeneration": 1,
        }]});
        let again = failure_actions(&pod(recorded.clone()), UNSCHEDULABLE, message, &Nomination::Clear, now);
        assert_eq!(again.len(), 1, "the event alone: {}", show(&again));
        // The message changes and the status does not: the transition time stays.
        let other = failure_actions(&pod(recorded), UNSCHEDULABLE, "another", &Nomination::Node("n1".into()), now);
        expect![[r#"
            event Warning FailedScheduling Pod shop/web: another
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2025-12-31T00:00:00Z","message":"another","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}],"nominatedNodeName":"n1"}}
        "#]].assert_eq(&show(&other));
    }

    #[test]
    fn victims_get_a_condition_and_an_event() {
        let metadata =
            json!({"namespace": "shop", "name": "leaving", "uid": "u2", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let leaving = PodInfo::new(Arc::new(Pod::decode_value(json!({"metadata": metadata})).unwrap()));
        let (preemptor, victim, leaving) = (pod(json!({})), Arc::new(pod(json!({}))), Arc::new(leaving));
        let lower = Arc::new(pod(json!({"nominatedNodeName": "n1"})));
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let Evictions { before, victims } =
            evict_victims(&preemptor, &[victim, leaving], &[lower], "pod u1 on node n1", now);
        expect![[r#"
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"nominatedNodeName":null}}
            strategic patch pods/status shop/web {"metadata":{"uid":"u1"},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"default-scheduler: preempting to accommodate a higher priority pod","observedGeneration":1,"reason":"PreemptionByScheduler","status":"True","type":"DisruptionTarget"}]}}
            delete pods shop/web uid=u1
            event Normal Preempted Pod shop/web: Preempted by pod u1 on node n1
        "#]].assert_eq(&show(&before.into_iter().chain(victims.into_iter().flat_map(|victim| victim.actions)).collect::<Vec<_>>()));
        assert_eq!(
            scheduled_event(&preemptor, "n1").to_string(),
            "Normal Scheduled Pod shop/web: Successfully assigned shop/web to n1"
        );
    }

    #[test]
    fn long_messages_are_truncated() {
        let message = format!("0/1 nodes are available: {}", "é".repeat(800));
        let cut = truncate_note(&message);
        assert!(cut.ends_with("é ...") && cut.len() <= MAX_NOTE_BYTES, "{cut}");
        assert_eq!(truncate_note("short"), "short");
    }
}
