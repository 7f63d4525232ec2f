//! The strategy RollingUpdate: how to resize replica sets within `maxSurge` and `maxUnavailable`.
//!
//! Corresponds to pkg/controller/deployment/rolling.go.

use super::sizes;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};

/// The index of a replica set in a list, and its new size.
pub type Resize = (usize, i32);

/// Returns the next size of the new replica set, if it changes.
pub fn scale_up(deployment: &Deployment, new: &ReplicaSet, old: &[ReplicaSet]) -> Option<i32> {
    let (wanted, size) = (sizes::replicas(deployment), sizes::size(new));
    let next =
        if size > wanted { wanted } else { sizes::new_size(deployment, size + sizes::total(old, sizes::size), size) };
    (next != size).then_some(next)
}

/// Returns the next sizes of the old replica sets. `old` is sorted by age, oldest first.
///
/// Unavailable pods of the new replica set reduce the number of old pods that may be removed. Example: 10 replicas, at
/// most 2 unavailable, surge 3. The new set has 5 pods that never become ready, the old one has 8. 13 - 8 - 5 = 0, so
/// the old pods stay. After an undo the roles change: 13 - 8 - 0 = 5 broken pods may be removed at once.
pub fn scale_down(deployment: &Deployment, new: &ReplicaSet, old: &[ReplicaSet]) -> Vec<Resize> {
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
    remove_unavailable(old, &mut next, removable);
    remove_surplus(new, old, &mut next, min_available);
    (0..old.len()).filter(|&i| next[i] != sizes::size(&old[i])).map(|i| (i, next[i])).collect()
}

/// Removes unavailable pods, which would block the rollout, up to `removable`.
fn remove_unavailable(old: &[ReplicaSet], next: &mut [i32], mut removable: i32) {
    for (replica_set, next) in old.iter().zip(next) {
        let unavailable = (*next - sizes::available(replica_set)).clamp(0, removable.max(0));
        *next -= unavailable;
        removable -= unavailable;
    }
}

/// Removes available pods beyond the minimum, from the oldest replica set first.
fn remove_surplus(new: &ReplicaSet, old: &[ReplicaSet], next: &mut [i32], min_available: i32) {
    let available = sizes::available(new) + sizes::total(old, sizes::available);
    let mut surplus = (available - min_available).max(0);
    for next in next {
        let removed = (*next).min(surplus);
        *next -= removed;
        surplus -= removed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

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
            let got = scale_up(&deployment, &replica_set("new", new, new), &[replica_set("old", old, old)]);
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
            let got = scale_down(&deployment, &replica_set("new", size, available), &sets);
            assert_eq!(got, expected, "unavailable {unavailable}, old {old:?}, new {size}/{available}");
        }
    }
}
