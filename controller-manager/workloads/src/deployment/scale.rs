//! Scales a deployment without a rollout: resizes its only active replica set, or several in proportion.
//!
//! Corresponds to scale and isScalingEvent in pkg/controller/deployment/sync.go.

use super::rolling::Resize;
use super::sizes::{self, DESIRED_REPLICAS, MAX_REPLICAS};
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use std::cmp::Reverse;

/// Returns true if the deployment was scaled after its active replica sets were last resized.
pub fn is_scaling<'a>(deployment: &Deployment, all: impl IntoIterator<Item = &'a ReplicaSet>) -> bool {
    all.into_iter()
        .filter(|replica_set| sizes::size(replica_set) > 0)
        .filter_map(|replica_set| sizes::annotated_number(replica_set, DESIRED_REPLICAS))
        .any(|desired| desired != sizes::replicas(deployment))
}

/// Returns true if the replica set's annotations have the deployment's present size and surge.
pub fn is_size_annotated(deployment: &Deployment, replica_set: &ReplicaSet) -> bool {
    let replicas = sizes::replicas(deployment);
    sizes::annotation(replica_set, DESIRED_REPLICAS) == Some(replicas.to_string().as_str())
        && sizes::annotation(replica_set, MAX_REPLICAS)
            == Some((replicas + sizes::max_surge(deployment)).to_string().as_str())
}

/// Writes the deployment's present size and surge into the replica set's annotations.
pub fn annotate_size(deployment: &Deployment, replica_set: &mut ReplicaSet) {
    let replicas = sizes::replicas(deployment);
    let annotations = replica_set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.to_owned(), replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), (replicas + sizes::max_surge(deployment)).to_string());
}

/// Returns the sizes of replica sets after the deployment was scaled or paused. `all` is sorted by age, oldest first,
/// and `new` is the index of the new one, if it exists. Replica sets may keep their size and need new annotations
/// alone.
pub fn resize(deployment: &Deployment, all: &[ReplicaSet], new: Option<usize>) -> Vec<Resize> {
    let active: Vec<usize> = (0..all.len()).filter(|&i| sizes::size(&all[i]) > 0).collect();
    let wanted = sizes::replicas(deployment);
    if active.len() <= 1 {
        let only = active.first().copied().or(new).or_else(|| newest(all));
        return only.map(|i| (i, wanted)).into_iter().collect();
    }
    if new.is_some_and(|new| is_saturated(deployment, &all[new])) {
        return active.into_iter().filter(|i| Some(*i) != new).map(|i| (i, 0)).collect();
    }
    if sizes::is_rolling(deployment) { distribute(deployment, all, active) } else { Vec::new() }
}

fn newest(all: &[ReplicaSet]) -> Option<usize> {
    (0..all.len()).max_by_key(|&i| (created(&all[i]), Reverse(i)))
}

fn created(replica_set: &ReplicaSet) -> Option<&proto::kinds::metav1::Time> {
    replica_set.metadata.creation_timestamp.as_ref()
}

/// Returns true if the new replica set has all pods that the deployment wants, and all are available.
fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let wanted = sizes::replicas(deployment);
    sizes::size(new) == wanted
        && sizes::annotated_number(new, DESIRED_REPLICAS) == Some(wanted)
        && sizes::available(new) == wanted
}

/// Distributes the pods to add or remove among the active replica sets in proportion to their sizes. The remainder goes
/// to the largest. Of equal ones the newer gains, and the older loses.
fn distribute(deployment: &Deployment, all: &[ReplicaSet], mut active: Vec<usize>) -> Vec<Resize> {
    let wanted = sizes::replicas(deployment);
    let allowed = if wanted > 0 { wanted + sizes::max_surge(deployment) } else { 0 };
    let to_add = allowed - sizes::total(active.iter().map(|&i| &all[i]), sizes::size);
    if to_add > 0 {
        active.sort_by_key(|&i| (Reverse(sizes::size(&all[i])), Reverse(created(&all[i])), all[i].name()));
    } else {
        active.sort_by_key(|&i| (Reverse(sizes::size(&all[i])), created(&all[i]), all[i].name()));
    }
    let mut added = 0;
    let mut resized: Vec<Resize> = Vec::with_capacity(active.len());
    for i in active {
        let proportion = proportion(deployment, &all[i], to_add, added);
        added += proportion;
        resized.push((i, sizes::size(&all[i]) + proportion));
    }
    if let Some((_, largest)) = resized.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    resized
}

/// Returns one replica set's part of `to_add`, of which `added` is already distributed.
fn proportion(deployment: &Deployment, replica_set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    let left = to_add - added;
    if left == 0 {
        return 0;
    }
    let part = fraction(deployment, replica_set);
    if to_add > 0 { part.min(left) } else { part.max(left) }
}

/// Returns the change in a replica set's size if it keeps its proportion of the total, rounded half away from zero.
/// Example: 5 of at most 13 pods; the deployment now allows 26: 5 × 26 / 13 - 5 = 5 more.
fn fraction(deployment: &Deployment, replica_set: &ReplicaSet) -> i32 {
    let size = sizes::size(replica_set);
    if sizes::replicas(deployment) == 0 {
        return -size;
    }
    let total = i64::from(sizes::replicas(deployment) + sizes::max_surge(deployment));
    let observed = || deployment.status.as_ref().and_then(|status| status.replicas);
    let total_before = sizes::annotated_number(replica_set, MAX_REPLICAS).filter(|max| *max != 0).or_else(observed);
    match total_before.map(i64::from) {
        None | Some(0) => 0,
        Some(before) => {
            let scaled = (2 * i64::from(size) * total + before).div_euclid(2 * before);
            i32::try_from(scaled).unwrap_or(i32::MAX) - size
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    /// Returns replica sets of the given sizes, oldest first and the last one new, for a deployment of `before`
    /// replicas.
    fn replica_sets(deployment: &Deployment, before: i32, counts: &[i32]) -> Vec<ReplicaSet> {
        let mut earlier = deployment.clone();
        earlier.spec.as_mut().unwrap().replicas = Some(before);
        let sized = |(age, size): (usize, &i32)| {
            let mut replica_set = fixture::replica_set(&format!("web-{age}"), "nginx:1", *size);
            replica_set.metadata.creation_timestamp = Some(fixture::time(age as i64));
            annotate_size(&earlier, &mut replica_set);
            replica_set
        };
        counts.iter().enumerate().map(sized).collect()
    }

    fn resized(wanted: i32, before: i32, surge: &str, counts: &[i32], new_exists: bool) -> Vec<i32> {
        let deployment = fixture::deployment(wanted, surge, "0");
        let all = replica_sets(&deployment, before, counts);
        let new = (new_exists && !all.is_empty()).then(|| all.len() - 1);
        let mut sizes = counts.to_vec();
        for (i, size) in resize(&deployment, &all, new) {
            sizes[i] = size;
        }
        sizes
    }

    /// The cases that Kubernetes documents for proportional scaling.
    #[test]
    fn scaling_keeps_proportions() {
        let cases: &[(&str, i32, i32, &[i32], &[i32])] = &[
            // what, wanted, before, sizes (old … new) => sizes
            ("one replica set grows", 12, 10, &[10], &[12]),
            ("one replica set shrinks", 5, 10, &[10], &[5]),
            ("grows in proportion", 12, 10, &[5, 5], &[6, 6]),
            ("shrinks in proportion", 8, 10, &[5, 5], &[4, 4]),
            ("rounding goes to the newer", 11, 10, &[5, 5], &[5, 6]),
            ("rounding takes from the older", 9, 10, &[5, 5], &[4, 5]),
            ("three of equal size grow", 18, 15, &[5, 5, 5], &[6, 6, 6]),
            ("three of equal size, one too many", 14, 15, &[5, 5, 5], &[4, 5, 5]),
            ("each in proportion to its size", 26, 20, &[3, 10, 7], &[4, 13, 9]),
            ("to zero", 0, 10, &[5, 5], &[0, 0]),
            ("a small one among large ones", 3, 200, &[2, 98, 100], &[0, 1, 2]),
        ];
        for (what, wanted, before, counts, expected) in cases {
            assert_eq!(resized(*wanted, *before, "0", counts, true), *expected, "{what}");
        }
    }

    #[test]
    fn surge_is_shared_too() {
        // 10 wanted with 3 of surge were 13 pods; 30 wanted with 9 of surge are 39.
        assert_eq!(resized(30, 10, "30%", &[5, 8], true), [15, 24]);
    }

    #[test]
    fn a_saturated_rollout_drops_its_old_pods() {
        let deployment = fixture::deployment(10, "3", "0");
        let all = replica_sets(&deployment, 10, &[3, 10]);
        assert_eq!(resize(&deployment, &all, Some(1)), [(0, 0)]);
    }

    #[test]
    fn with_no_active_replica_set_the_new_one_grows() {
        assert_eq!(resized(10, 0, "0", &[0, 0], true), [0, 10]);
        assert_eq!(resized(10, 0, "0", &[0, 0], false), [0, 10], "without a new one the latest grows");
    }

    #[test]
    fn a_changed_total_is_a_scaling_event() {
        let deployment = fixture::deployment(10, "3", "0");
        let all = replica_sets(&deployment, 10, &[3, 10]);
        assert!(!is_scaling(&deployment, &all));
        assert!(is_scaling(&fixture::deployment(11, "3", "0"), &all));
        let inactive = replica_sets(&deployment, 7, &[0]);
        assert!(!is_scaling(&deployment, &inactive), "replica sets without pods do not count");
    }
}
