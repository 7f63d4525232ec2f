//! Ranks a replica set's pods by the order in which surplus ones are deleted.
//!
//! Corresponds to ActivePodsWithRanks in pkg/controller/controller_utils.go.
//!
//! Deviation: times of the same magnitude count as equal, so that the next criterion decides, and the uid is the last
//! one. In Kubernetes the uid decides between different times of the same magnitude, which can order pods in a cycle.

use controller_base::{clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the `count` pods to delete first. `related` are the pods of all replica sets with the same controller: a pod
/// is deleted earlier if many of them are on its node.
pub fn pods_to_delete(pods: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    if count >= pods.len() {
        return pods.to_vec();
    }
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod::is_active(pod)) {
        *on_node.entry(pod::node_name(pod)).or_default() += 1;
    }
    let mut ranked: Vec<(usize, &Arc<Pod>)> =
        pods.iter().map(|pod| (on_node.get(pod::node_name(pod)).copied().unwrap_or(0), pod)).collect();
    ranked.sort_by(|one, other| compare(one, other, now));
    ranked.into_iter().take(count).map(|(_, pod)| pod.clone()).collect()
}

/// Returns the ages of the ready pods that are deleted, each as a multiple of the age of the youngest ready pod. They stay
/// below two or so, because ages are compared by their magnitude.
pub fn age_ratios(pods: &[Arc<Pod>], deleted: impl Fn(&Pod) -> bool, now: Timestamp) -> Vec<f64> {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let ready: Vec<(&Arc<Pod>, Timestamp)> =
        pods.iter().filter(|pod| pod::is_ready(pod)).filter_map(|pod| Some((pod, created(pod)?))).collect();
    let Some(youngest) = ready.iter().map(|(_, created)| *created).max() else { return Vec::new() };
    let youngest_s = clock::since(youngest, now).as_secs_f64();
    let age_s = |(_, created): &(&Arc<Pod>, Timestamp)| clock::since(*created, now).as_secs_f64();
    // A pod that was created in this very second has no age.
    let ratio = |age_s: f64| if youngest_s > 0.0 { age_s / youngest_s } else { 1.0 };
    ready.iter().filter(|(pod, _)| deleted(pod)).map(|ready| ratio(age_s(ready))).collect()
}

/// Compares two pods: the lesser one is deleted first. The first difference in this order decides:
/// 1. unassigned before assigned to a node;
/// 2. pending before unknown before running;
/// 3. not ready before ready;
/// 4. lower deletion cost before higher;
/// 5. more related pods on the same node before fewer;
/// 6. ready for a shorter time before a longer one, in powers of two of the time;
/// 7. more restarts before fewer;
/// 8. younger before older, in powers of two of the age.
fn compare((rank, pod): &(usize, &Arc<Pod>), (other_rank, other): &(usize, &Arc<Pod>), now: Timestamp) -> Ordering {
    let assigned = |pod: &Pod| !pod::node_name(pod).is_empty();
    assigned(pod)
        .cmp(&assigned(other))
        .then_with(|| phase_order(pod).cmp(&phase_order(other)))
        .then_with(|| pod::is_ready(pod).cmp(&pod::is_ready(other)))
        .then_with(|| pod::deletion_cost(pod).cmp(&pod::deletion_cost(other)))
        .then_with(|| other_rank.cmp(rank))
        .then_with(|| match (pod::ready_since(pod), pod::ready_since(other)) {
            (None, None) => Ordering::Equal,
            (since, other_since) => compare_ages(since, other_since, now),
        })
        .then_with(|| pod::max_restarts(other).cmp(&pod::max_restarts(pod)))
        .then_with(|| compare_ages(created(pod), created(other), now))
        .then_with(|| pod.uid().cmp(other.uid()))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn phase_order(pod: &Pod) -> u8 {
    match pod::phase(pod) {
        "Pending" | "" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// Compares the magnitudes of two ages. If exact ages decided, the youngest pod would always be deleted first, and pods
/// would stay where they were first placed.
fn compare_ages(since: Option<Timestamp>, other_since: Option<Timestamp>, now: Timestamp) -> Ordering {
    match (since, other_since) {
        (Some(since), Some(other_since)) => magnitude(since, now).cmp(&magnitude(other_since, now)),
        (since, other_since) => since.is_some().cmp(&other_since.is_some()),
    }
}

/// Returns the integer part of the binary logarithm of the age in nanoseconds; -1 for an age of zero.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    clock::since(since, now).as_nanos().checked_ilog2().map_or(-1, i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn running(name: &str) -> Pod {
        let mut pod = fixture::pod(name);
        pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
        fixture::set_phase(&mut pod, "Running");
        fixture::set_ready(&mut pod, fixture::at(0));
        pod
    }

    fn with(name: &str, change: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = running(name);
        change(&mut pod);
        pod
    }

    fn restarted(pod: &mut Pod, count: i32) {
        let status = proto::kinds::api::core::v1::ContainerStatus { restart_count: count, ..Default::default() };
        pod.status.as_mut().unwrap().container_statuses = Some(vec![status]);
    }

    /// Each pod of the list is deleted before those that follow it.
    #[test]
    fn pods_go_in_the_documented_order() {
        let second = |second: i64| fixture::at(second);
        let ordered = [
            with("unassigned", |pod| pod.spec.as_mut().unwrap().node_name = None),
            with("pending", |pod| fixture::set_phase(pod, "Pending")),
            with("unknown", |pod| fixture::set_phase(pod, "Unknown")),
            with("not-ready", |pod| pod.status.as_mut().unwrap().conditions = None),
            with("cheap", |pod| fixture::annotate(pod, &[("controller.kubernetes.io/pod-deletion-cost", "-5")])),
            with("crowded", |pod| pod.spec.as_mut().unwrap().node_name = Some("node-2".to_owned())),
            with("ready-lately", |pod| fixture::set_ready(pod, second(990))),
            with("restarted", |pod| restarted(pod, 3)),
            with("young", |pod| pod.metadata.creation_timestamp = Some(fixture::time(900))),
            with("dear", |pod| fixture::annotate(pod, &[("controller.kubernetes.io/pod-deletion-cost", "5")])),
        ];
        let pods: Vec<Arc<Pod>> = ordered.iter().rev().cloned().map(Arc::new).collect();
        let neighbours = (0..9).map(|i| {
            Arc::new(with(&format!("neighbours-{i}"), |pod| {
                pod.spec.as_mut().unwrap().node_name = Some("node-2".to_owned())
            }))
        });
        let related: Vec<Arc<Pod>> = pods.iter().cloned().chain(neighbours).collect();
        // "dear" stands alone at the end: all others are taken.
        let names: Vec<String> =
            pods_to_delete(&pods, &related, 9, second(1000)).iter().map(|pod| pod.name().to_owned()).collect();
        let expected: Vec<&str> = ordered.iter().take(9).map(Kind::name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn ages_of_one_magnitude_are_equal() {
        let pods: Vec<Arc<Pod>> = [("b", 100), ("a", 200), ("c", 996)]
            .map(|(name, since)| Arc::new(with(name, |pod| fixture::set_ready(pod, fixture::at(since)))))
            .into();
        let names: Vec<String> =
            pods_to_delete(&pods, &pods, 2, fixture::at(1000)).iter().map(|pod| pod.name().to_owned()).collect();
        // 900 and 800 seconds are both between 2^39 and 2^40 nanoseconds: the uid decides; 4 seconds are far less.
        assert_eq!(names, ["c", "a"]);
    }

    /// By the uid "a" would go before "m", "m" before "z", and by its restarts "z" before "a".
    #[test]
    fn no_pods_go_before_each_other_in_a_ring() {
        let [a, m, z] = [("a", 100, 0), ("m", 200, 0), ("z", 100, 3)].map(|(name, since, restarts)| {
            Arc::new(with(name, |pod| {
                fixture::set_ready(pod, fixture::at(since));
                restarted(pod, restarts);
            }))
        });
        for pods in [[&a, &m, &z], [&a, &z, &m], [&m, &a, &z], [&m, &z, &a], [&z, &a, &m], [&z, &m, &a]] {
            let pods: Vec<Arc<Pod>> = pods.map(Clone::clone).into();
            let deleted = pods_to_delete(&pods, &pods, 2, fixture::at(1000));
            assert_eq!(deleted.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["z", "a"]);
        }
    }

    #[test]
    fn when_all_go_order_does_not_matter() {
        let pods = [Arc::new(running("a")), Arc::new(running("b"))];
        assert_eq!(pods_to_delete(&pods, &pods, 5, fixture::at(0)).len(), 2);
    }

    #[test]
    fn ages_of_deleted_pods_are_compared_with_the_youngest() {
        let created = |second: i64| move |pod: &mut Pod| pod.metadata.creation_timestamp = Some(fixture::time(second));
        let pods: Vec<Arc<Pod>> = [
            with("old", created(0)),
            with("young", created(60)),
            with("not-ready", |pod| pod.status.as_mut().unwrap().conditions = None),
        ]
        .map(Arc::new)
        .to_vec();
        let ratios = |deleted: &[&str]| age_ratios(&pods, |pod| deleted.contains(&pod.name()), fixture::at(100));
        assert_eq!(ratios(&["young"]), [1.0]);
        assert_eq!(ratios(&["old", "not-ready"]), [2.5]);
        assert_eq!(ratios(&["not-ready"]), [0.0; 0]);
        assert_eq!(age_ratios(&pods[1..2], |_| true, fixture::at(60)), [1.0], "it was made just now");
    }
}
