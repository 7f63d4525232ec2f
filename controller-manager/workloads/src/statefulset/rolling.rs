//! The strategy RollingUpdate: which pods of an older revision are deleted next, from the highest ordinal down.
//!
//! Corresponds to the end of updateStatefulSet and to updateStatefulSetAfterInvariantEstablished in
//! pkg/controller/statefulset/stateful_set_control.go.
//!
//! A pod of the new revision that never becomes available blocks the rollout, also if the template is then changed back:
//! an ordered set does not come this far while a pod is unavailable. The broken pod has to be deleted by hand. Kubernetes
//! documents this as "forced rollback".

use super::pods::{is_unavailable, revision_of};
use super::spec::{first_updated, is_rolling, max_unavailable, min_ready_seconds};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

/// Returns the pods to delete. `replicas` are the wanted ordinals, lowest first, with their pods; `None` for one that
/// does not exist.
pub fn to_replace<'a>(
    set: &StatefulSet,
    replicas: impl DoubleEndedIterator<Item = (i64, Option<&'a Arc<Pod>>)>,
    update: &str,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if !is_rolling(set) {
        return Vec::new();
    }
    let is_unavailable =
        |pod: Option<&Arc<Pod>>| pod.is_none_or(|pod| is_unavailable(pod, min_ready_seconds(set), now));
    let is_outdated = |pod: &Arc<Pod>| revision_of(pod) != update && !pod.is_deleting();
    let first = first_updated(set);
    let descending = replicas.rev();
    let Some(max_unavailable) = max_unavailable(set) else {
        // One after another: the highest outdated pod, if those above it are available.
        for (_, pod) in descending.take_while(|(ordinal, _)| *ordinal >= first) {
            match pod {
                Some(pod) if is_outdated(pod) => return vec![pod.clone()],
                pod if is_unavailable(pod) => break,
                _ => {}
            }
        }
        return Vec::new();
    };
    let replicas: Vec<(i64, Option<&Arc<Pod>>)> = descending.collect();
    let unavailable = replicas.iter().filter(|(_, pod)| is_unavailable(*pod)).count();
    let updated = replicas.into_iter().take_while(|(ordinal, _)| *ordinal >= first).filter_map(|(_, pod)| pod);
    updated.filter(|pod| is_outdated(pod)).take(max_unavailable.saturating_sub(unavailable)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::{sample, spec};
    use controller_base::fixture::{self, int_or_percent};

    /// Returns the ordinals of the pods to delete. `pods` are those of the ordinals from 0; `-` for one that is missing.
    fn replaced(set: &StatefulSet, pods: &str) -> String {
        let pod = |(i, text): (usize, &str)| {
            let ordinal = i64::try_from(i).unwrap();
            (ordinal, (text != "-").then(|| Arc::new(sample::pod(set, &format!("{ordinal}@{text}")))))
        };
        let pods: Vec<(i64, Option<Arc<Pod>>)> = pods.split(' ').enumerate().map(pod).collect();
        let found = to_replace(set, pods.iter().map(|(o, pod)| (*o, pod.as_ref())), "new", fixture::at(100));
        found.iter().map(|pod| pod.name().trim_start_matches("web-").to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_are_replaced_from_the_highest_ordinal_down() {
        let cases = [
            // partition, pods => deleted
            (0, "oldr oldr oldr", "2"),
            (0, "oldr oldr oldt", ""),
            (0, "oldr oldr -", ""),
            (0, "oldr oldr newp", ""),
            (0, "oldr oldr newb", ""),
            (0, "oldr oldr newr", "1"),
            (0, "oldb oldr newr", "1"),
            (0, "oldr oldb newr", "1"),
            (0, "oldr newr newr", "0"),
            (0, "newr newr newr", ""),
            (1, "oldr newr newr", ""),
            (2, "oldr oldr oldr", "2"),
            (3, "oldr oldr oldr", ""),
            (9, "oldr oldr oldr", ""),
        ];
        for (partition, pods, expected) in cases {
            let mut set = sample::set(3);
            sample::rolling(&mut set).partition = Some(partition);
            assert_eq!(replaced(&set, pods), expected, "partition {partition}, {pods}");
        }
    }

    #[test]
    fn unavailable_pods_use_up_the_limit() {
        let cases = [
            // maxUnavailable of 5, partition, pods => deleted
            ("1", 0, "oldr oldr oldr oldr oldr", "4"),
            ("2", 0, "oldr oldr oldr oldr oldr", "4 3"),
            ("50%", 0, "oldr oldr oldr oldr oldr", "4 3"),
            ("2", 0, "oldr oldr oldr oldr newp", "3"),
            ("2", 0, "oldr oldr oldr oldt newp", ""),
            ("2", 0, "oldr oldr oldr - -", ""),
            ("2", 0, "oldb oldr oldr oldr oldr", "4"),
            ("2", 0, "oldb oldb oldr oldr oldr", ""),
            ("3", 3, "oldr oldr oldr oldr oldr", "4 3"),
            ("100%", 0, "oldr newr oldr newr oldr", "4 2 0"),
        ];
        for (limit, partition, pods, expected) in cases {
            let mut set = sample::set(5);
            let rolling = sample::rolling(&mut set);
            (rolling.max_unavailable, rolling.partition) = (Some(int_or_percent(limit)), Some(partition));
            assert_eq!(replaced(&set, pods), expected, "{limit}, partition {partition}, {pods}");
        }
    }

    #[test]
    fn on_delete_replaces_nothing() {
        let mut set = sample::set(3);
        set.spec.as_mut().unwrap().update_strategy = Some(sample::on_delete());
        assert!(!spec::is_rolling(&set));
        assert_eq!(replaced(&set, "oldr oldr oldr"), "");
    }

    #[test]
    fn a_ready_pod_is_waited_for_until_it_is_available() {
        for (seconds, expected) in [(100, "1"), (101, "")] {
            let mut set = sample::set(3);
            set.spec.as_mut().unwrap().min_ready_seconds = Some(seconds);
            assert_eq!(replaced(&set, "oldr oldr newr"), expected, "ready for 100 of {seconds} s");
        }
    }
}
