//! The condition `PodGroupScheduled` of PodGroups.
//!
//! Corresponds to updatePodGroupCondition of pkg/scheduler/schedule_one_podgroup.go.

use client::{Action, Patch};
use proto::Kind;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::{Condition, Time};
use serde_json::json;

const TYPE: &str = "PodGroupScheduled";

/// Returns the write of the condition; `None` if it stays as it is. A group that was scheduled once stays so, whatever
/// becomes of later pods.
pub fn scheduled(group: &PodGroup, is_true: bool, reason: &str, message: &str, now: Timestamp) -> Option<Action> {
    let status = if is_true { "True" } else { "False" };
    let conditions = group.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let old = conditions.iter().find(|condition| condition.type_ == TYPE);
    let same = |old: &Condition| {
        old.status == status
            && old.reason == reason
            && old.message == message
            && old.observed_generation == group.metadata.generation
    };
    if old.is_some_and(|old| same(old) || old.status == "True" && !is_true) {
        return None;
    }
    let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let condition = json!({
        "type": TYPE,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since.unwrap_or(Time(now)),
        "observedGeneration": group.metadata.generation,
    });
    let patch = json!({"metadata": {"uid": group.uid()}, "status": {"conditions": [condition]}});
    Some(Action::patch_status::<PodGroup>(group.namespace(), group.name(), Patch::Strategic(patch)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduling_framework::fixture;
    use serde_json::Value;

    fn group(condition: &Value) -> PodGroup {
        let mut group = (*fixture::gang("g", 2)).clone();
        let mut value = serde_json::to_value(&group).unwrap();
        if !condition.is_null() {
            value["status"] = json!({"conditions": [condition]});
            group = PodGroup::decode_value(value).unwrap();
        }
        group
    }

    #[test]
    fn the_condition_is_written_when_it_changes() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let old = |status: &str, reason: &str| json!({"type": TYPE, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"});
        for (present, is_true, reason, message, expected) in [
            (Value::Null, true, "Scheduled", "", "True since 2026"),
            (Value::Null, false, "Unschedulable", "m", "False since 2026"),
            (old("False", "Unschedulable"), false, "Unschedulable", "m", "-"),
            (old("False", "Unschedulable"), false, "Unschedulable", "other", "False since 2025"),
            (old("False", "Unschedulable"), true, "Scheduled", "", "True since 2026"),
            (old("True", "Scheduled"), false, "Unschedulable", "m", "-"),
            (old("True", "Scheduled"), true, "Scheduled", "m", "-"),
        ] {
            let written = match scheduled(&group(&present), is_true, reason, message, now) {
                Some(Action::Patch { patch: Patch::Strategic(patch), .. }) => {
                    let condition = &patch["status"]["conditions"][0];
                    let since = condition["lastTransitionTime"].as_str().unwrap();
                    format!("{} since {}", condition["status"].as_str().unwrap(), &since[..4])
                }
                Some(other) => panic!("{other}"),
                None => "-".to_owned(),
            };
            assert_eq!(written, expected, "{present} {is_true} {message}");
        }
    }
}
