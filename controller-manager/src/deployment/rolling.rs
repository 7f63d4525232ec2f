//! The rolling update: which replica set grows or shrinks next, so that neither too many pods exist nor too few serve.
//!
//! Corresponds to pkg/controller/deployment/rolling.go.

use super::sizes;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};

/// A replica set's place in the list that it came from, and the size it gets.
pub type Resize = (usize, i32);

/// The new replica set's next size, if it changes.
pub fn grow(deployment: &Deployment, new: &ReplicaSet, old: &[ReplicaSet]) -> Option<i32> {
    let (wanted, size) = (sizes::replicas(deployment), sizes::size(new));
    let next =
        if size > wanted { wanted } else { sizes::new_size(deployment, size + sizes::total(old, sizes::size), size) };
    (next != size).then_some(next)
}

/// The old replica sets' next sizes. `old` is sorted by age, oldest first.
///
/// Pods of the new replica set that do not serve yet count against what may be taken away. Example: 10 replicas, 2 may
/// be unavailable, surge 3. The new set has 5 pods that never become ready, the old one 8: 13 - 8 - 5 = 0, so the old
/// pods stay. After an undo the roles change: 13 - 8 - 0 = 5 broken pods may go at once.
pub fn shrink(deployment: &Deployment, new: &ReplicaSet, old: &[ReplicaSet]) -> Vec<Resize> {
    let in_old = sizes::total(old, sizes::size);
    if in_old == 0 {
        return Vec::new();
    }
    let min_available = sizes::min_available(deployment);
    let new_unavailable = sizes::size(new) - sizes::available(new);
    let removable = in_old + sizes::size(new) - min_available - new_unavailable;
    if removable <= 0 {
        return Vec::new();
    }
    let mut next: Vec<i32> = old.iter().map(sizes::size).collect();
    drop_unhealthy(old, &mut next, removable);
    drop_surplus(new, old, &mut next, min_available);
    (0..old.len()).filter(|&i| next[i] != sizes::size(&old[i])).map(|i| (i, next[i])).collect()
}

/// Pods that do not serve can go without harm; left there they would block the rollout.
fn drop_unhealthy(old: &[ReplicaSet], next: &mut [i32], mut removable: i32) {
    for (replica_set, next) in old.iter().zip(next) {
        let unhealthy = (*next - sizes::available(replica_set)).clamp(0, removable.max(0));
        *next -= unhealthy;
        removable -= unhealthy;
    }
}

/// Serving pods beyond the minimum go, oldest replica set first.
fn drop_surplus(new: &ReplicaSet, old: &[ReplicaSet], next: &mut [i32], min_available: i32) {
    let available = sizes::available(new) + sizes::total(old, sizes::available);
    let mut surplus = (available - min_available).max(0);
    for next in next {
        let dropped = (*next).min(surplus);
        *next -= dropped;
        surplus -= dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn replica_set(name: &str, size: i32, available: i32) -> ReplicaSet {
        let mut replica_set = fixture::replica_set(name, "nginx:1", size);
        replica_set.status.as_mut().unwrap().available_replicas = Some(available);
        replica_set
    }

    #[test]
    fn new_grows_within_the_surge() {
        let cases = [
            // replicas, maxSurge, old, new => new
            (10, "0", 10, 0, None),
            (10, "2", 10, 0, Some(2)),
            (10, "2", 5, 0, Some(7)),
            (10, "2", 10, 2, None),
            (10, "2", 2, 10, None),
            (10, "2", 2, 11, Some(10)),
            (10, "25%", 10, 0, Some(3)),
            (0, "25%", 0, 3, Some(0)),
        ];
        for (count, surge, old, new, expected) in cases {
            let deployment = fixture::deployment(count, surge, "1");
            let got = grow(&deployment, &replica_set("new", new, new), &[replica_set("old", old, old)]);
            assert_eq!(got, expected, "{count} replicas, surge {surge}, old {old}, new {new}");
        }
    }

    #[test]
    fn old_shrinks_as_far_as_availability_allows() {
        let cases = [
            // maxUnavailable of 10, (old size, available)…, (new size, available) => sizes of old
            ("0", vec![(10, 10)], (0, 0), vec![]),
            ("2", vec![(10, 10)], (0, 0), vec![(0, 8)]),
            ("2", vec![(10, 8)], (0, 0), vec![(0, 8)]),
            ("2", vec![(10, 10)], (3, 0), vec![(0, 8)]),
            ("2", vec![(8, 8)], (5, 0), vec![]),
            ("2", vec![(8, 7)], (5, 0), vec![]),
            ("2", vec![(8, 8)], (5, 5), vec![(0, 3)]),
            ("2", vec![(5, 0)], (8, 7), vec![(0, 1)]),
            ("2", vec![(8, 8), (3, 0)], (0, 0), vec![(1, 0)]),
            ("0", vec![(3, 3), (4, 4)], (6, 6), vec![(0, 0)]),
            ("0", vec![(1, 1), (4, 4)], (8, 8), vec![(0, 0), (1, 2)]),
            ("0", vec![(0, 0), (4, 4)], (8, 8), vec![(1, 2)]),
        ];
        for (unavailable, old, (size, available), expected) in cases {
            let deployment = fixture::deployment(10, "3", unavailable);
            let sets: Vec<_> = old.iter().map(|(size, available)| replica_set("old", *size, *available)).collect();
            let got = shrink(&deployment, &replica_set("new", size, available), &sets);
            assert_eq!(got, expected, "unavailable {unavailable}, old {old:?}, new {size}/{available}");
        }
    }
}
