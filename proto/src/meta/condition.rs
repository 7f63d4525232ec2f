//! Conditions: the latest observations of an object's state, one per type.
//!
//! Corresponds to k8s.io/apimachinery/pkg/api/meta/conditions.go and the condition helpers of each controller. All of
//! them change `lastTransitionTime` only when `status` changes.

use crate::kinds::api;
use crate::kinds::metav1;
use jiff::Timestamp;
use serde_json::Value;

/// A typed condition.
pub trait Condition: Clone {
    fn kind(&self) -> &str;
    fn status(&self) -> &str;
    fn transition_time(&self) -> Option<Timestamp>;
    fn set_transition_time(&mut self, time: Timestamp);
}

macro_rules! conditions {
    ($($ty:path: $($optional:ident)?;)+) => {$(
        impl Condition for $ty {
            fn kind(&self) -> &str {
                &self.type_
            }

            fn status(&self) -> &str {
                &self.status
            }

            fn transition_time(&self) -> Option<Timestamp> {
                conditions!(@get self.last_transition_time, $($optional)?)
            }

            fn set_transition_time(&mut self, time: Timestamp) {
                self.last_transition_time = conditions!(@wrap metav1::Time(time), $($optional)?);
            }
        }
    )+};
    (@get $field:expr, optional) => { $field.as_ref().map(|time| time.0) };
    (@get $field:expr,) => { Some($field.0) };
    (@wrap $time:expr, optional) => { Some($time) };
    (@wrap $time:expr,) => { $time };
}

conditions! {
    metav1::Condition: ;
    api::apps::v1::DaemonSetCondition: optional;
    api::apps::v1::DeploymentCondition: optional;
    api::apps::v1::ReplicaSetCondition: optional;
    api::apps::v1::StatefulSetCondition: optional;
    api::autoscaling::v2::HorizontalPodAutoscalerCondition: optional;
    api::batch::v1::JobCondition: optional;
    api::core::v1::NamespaceCondition: optional;
    api::core::v1::NodeCondition: optional;
    api::core::v1::PersistentVolumeClaimCondition: optional;
    api::core::v1::PodCondition: optional;
    api::core::v1::ReplicationControllerCondition: optional;
}

pub fn find<'a, C: Condition>(conditions: &'a [C], kind: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.kind() == kind)
}

pub fn is_true<C: Condition>(conditions: &[C], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status() == "True")
}

/// Replaces the condition of the same type, or adds it. It keeps the transition time of the old condition if the status
/// is the same. Otherwise its transition time is `now`.
pub fn set<C: Condition>(conditions: &mut Vec<C>, mut condition: C, now: Timestamp) {
    let place = conditions.iter().position(|old| old.kind() == condition.kind());
    let unchanged = place.map(|i| &conditions[i]).filter(|old| old.status() == condition.status());
    condition.set_transition_time(unchanged.and_then(Condition::transition_time).unwrap_or(now));
    match place {
        Some(i) => conditions[i] = condition,
        None => conditions.push(condition),
    }
}

/// Returns the condition of a type from an object's JSON.
pub fn find_value<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::api::core::v1::PodCondition;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: &str, reason: &str) -> PodCondition {
        PodCondition {
            type_: "Ready".into(),
            status: status.into(),
            reason: Some(reason.into()),
            ..PodCondition::default()
        }
    }

    #[test]
    fn transition_time_moves_with_the_status_alone() {
        let mut conditions = vec![];
        let mut times = vec![];
        for (i, (status, reason)) in
            [("False", "a"), ("False", "b"), ("True", "b"), ("True", "c")].into_iter().enumerate()
        {
            set(&mut conditions, ready(status, reason), at(i64::try_from(i).unwrap()));
            assert_eq!(conditions.len(), 1);
            assert_eq!(conditions[0].reason.as_deref(), Some(reason));
            times.push(conditions[0].transition_time().unwrap().as_second());
        }
        assert_eq!(times, [0, 0, 2, 2]);
        assert!(is_true(&conditions, "Ready") && !is_true(&conditions, "Initialized"));
    }

    #[test]
    fn a_condition_of_a_tree_is_found_by_type() {
        let object = json!({"status": {"conditions": [{"type": "Ready"}, {"type": "Available", "status": "True"}]}});
        assert_eq!(find_value(&object, "Available").unwrap()["status"], "True");
        assert_eq!(find_value(&object, "Progressing"), None);
        assert_eq!(find_value(&json!({}), "Available"), None);
    }
}
