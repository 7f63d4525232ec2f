//! Functions that read a StatefulSet's spec: its ordinals, its update strategy, its history limit.
//!
//! Corresponds to the getters of pkg/controller/statefulset/stateful_set_utils.go.

use crate::intstr::{self, Round};
use proto::kinds::IntOrString;
use proto::kinds::api::apps::v1::{RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec};
use std::ops::Range;

pub fn spec(set: &StatefulSet) -> &StatefulSetSpec {
    set.spec.as_ref().expect("validation requires a StatefulSet's spec")
}

/// Returns the wanted number of pods.
pub fn replicas(set: &StatefulSet) -> i32 {
    spec(set).replicas.unwrap_or(1)
}

/// Returns the ordinals of the wanted pods.
///
/// Example: `ordinals: {start: 5}` and `replicas: 3` give 5, 6 and 7.
pub fn ordinals(set: &StatefulSet) -> Range<i64> {
    let start = i64::from(spec(set).ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0));
    start..start + i64::from(replicas(set))
}

pub fn min_ready_seconds(set: &StatefulSet) -> i32 {
    spec(set).min_ready_seconds.unwrap_or(0)
}

/// Returns true if pods are created and deleted one after another, each only when those before it are available.
pub fn is_ordered(set: &StatefulSet) -> bool {
    spec(set).pod_management_policy.as_deref() != Some("Parallel")
}

/// Returns true if pods of an older revision are replaced. With the strategy OnDelete the user deletes them.
pub fn is_rolling(set: &StatefulSet) -> bool {
    let strategy = spec(set).update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    strategy != Some("OnDelete")
}

pub fn rolling_update(set: &StatefulSet) -> Option<&RollingUpdateStatefulSetStrategy> {
    spec(set).update_strategy.as_ref()?.rolling_update.as_ref()
}

/// Returns the lowest ordinal that a rolling update replaces. The partition counts from the first ordinal.
pub fn first_updated(set: &StatefulSet) -> i64 {
    let partition = rolling_update(set).and_then(|rolling| rolling.partition).unwrap_or(0);
    ordinals(set).start + i64::from(partition)
}

/// Returns how many pods a rolling update may make unavailable, at least 1; `None` if the spec does not say.
///
/// The feature gate MaxUnavailableStatefulSet is not asked: the API server drops the field as long as the gate is off.
pub fn max_unavailable(set: &StatefulSet) -> Option<usize> {
    let value: &IntOrString = rolling_update(set)?.max_unavailable.as_ref()?;
    let count = intstr::scaled(value, replicas(set), Round::Down).unwrap_or(1);
    Some(usize::try_from(count).unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture::int_or_percent;

    #[test]
    fn ordinals_begin_at_the_start() {
        let mut set = sample::set(3);
        assert_eq!(ordinals(&set), 0..3);
        set.spec.as_mut().unwrap().ordinals.get_or_insert_default().start = Some(5);
        assert_eq!(ordinals(&set), 5..8);
        sample::rolling(&mut set).partition = Some(2);
        assert_eq!(first_updated(&set), 7);
        set.spec.as_mut().unwrap().ordinals.get_or_insert_default().start = Some(i32::MAX);
        assert_eq!(ordinals(&set).count(), 3, "no overflow");
    }

    #[test]
    fn at_least_one_pod_may_be_unavailable() {
        let cases = [(None, None), (Some("2"), Some(2)), (Some("50%"), Some(2)), (Some("10%"), Some(1))];
        for (value, expected) in cases {
            let mut set = sample::set(5);
            sample::rolling(&mut set).max_unavailable = value.map(int_or_percent);
            assert_eq!(max_unavailable(&set), expected, "{value:?} of 5");
        }
    }
}
