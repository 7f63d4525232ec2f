//! Sizes: the replicas of a deployment, its surge and unavailability, and the sizes of its replica sets.
//!
//! Corresponds to MaxSurge, MaxUnavailable, ResolveFenceposts and NewRSNewReplicas in
//! pkg/controller/deployment/util/deployment_util.go.

use crate::intstr::{Round, scaled};
use proto::kinds::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};

/// Annotation with `spec.replicas` of the deployment when it last resized the replica set.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation with that number plus the surge: the total of which the replica set's size was a proportion.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

pub fn spec(deployment: &Deployment) -> &DeploymentSpec {
    deployment.spec.as_ref().expect("validation requires a deployment's spec")
}

pub fn replicas(deployment: &Deployment) -> i32 {
    spec(deployment).replicas.unwrap_or(1)
}

pub fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = spec(deployment).strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    strategy.unwrap_or("RollingUpdate") == "RollingUpdate"
}

/// Returns surge and unavailability as counts. Surge rounds up, unavailability down. If both are zero, one pod may be
/// unavailable, because the rollout could not progress otherwise.
fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    let rolling = spec(deployment).strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let replicas = replicas(deployment);
    let surge = rolling.and_then(|rolling| scaled(rolling.max_surge.as_ref()?, replicas, Round::Up)).unwrap_or(0);
    let unavailable =
        rolling.and_then(|rolling| scaled(rolling.max_unavailable.as_ref()?, replicas, Round::Down)).unwrap_or(0);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

pub fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).0 } else { 0 }
}

pub fn max_unavailable(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) && replicas(deployment) > 0 {
        fenceposts(deployment).1.min(replicas(deployment))
    } else {
        0
    }
}

pub fn min_available(deployment: &Deployment) -> i32 {
    replicas(deployment) - max_unavailable(deployment)
}

/// Returns `spec.replicas` of a replica set.
pub fn size(replica_set: &ReplicaSet) -> i32 {
    replica_set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub fn available(replica_set: &ReplicaSet) -> i32 {
    replica_set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Returns `status.replicas` of a replica set.
pub fn actual(replica_set: &ReplicaSet) -> i32 {
    replica_set.status.as_ref().map_or(0, |status| status.replicas)
}

pub fn total<'a>(replica_sets: impl IntoIterator<Item = &'a ReplicaSet>, of: impl Fn(&ReplicaSet) -> i32) -> i32 {
    replica_sets.into_iter().map(of).sum()
}

/// Returns the size to which the new replica set may grow. `all` is the size of all replica sets together.
pub fn new_size(deployment: &Deployment, all: i32, new: i32) -> i32 {
    if !is_rolling(deployment) {
        return replicas(deployment);
    }
    let room = replicas(deployment) + max_surge(deployment) - all;
    if room <= 0 { new } else { new + room.min(replicas(deployment) - new) }
}

pub fn annotation<'a>(replica_set: &'a ReplicaSet, key: &str) -> Option<&'a str> {
    replica_set.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

pub fn annotated_number(replica_set: &ReplicaSet, key: &str) -> Option<i32> {
    annotation(replica_set, key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn surge_rounds_up_and_unavailability_down() {
        let cases = [
            // replicas, maxSurge, maxUnavailable => surge, unavailable
            (10, "25%", "25%", 3, 2),
            (4, "25%", "25%", 1, 1),
            (3, "25%", "25%", 1, 0),
            (1, "25%", "25%", 1, 0),
            (10, "0", "0", 0, 1),
            (10, "0%", "1%", 0, 1),
            (10, "0", "20%", 0, 2),
            (10, "2", "0", 2, 0),
            (3, "100%", "100%", 3, 3),
            (2, "1", "5", 1, 2),
            (0, "25%", "25%", 0, 0),
            (0, "2", "2", 2, 0),
        ];
        for (count, surge, unavailable, expected_surge, expected_unavailable) in cases {
            let deployment = fixture::deployment(count, surge, unavailable);
            let got = (max_surge(&deployment), max_unavailable(&deployment));
            assert_eq!(got, (expected_surge, expected_unavailable), "{count} replicas, {surge}, {unavailable}");
        }
    }

    #[test]
    fn recreate_neither_surges_nor_thins_out() {
        let mut deployment = fixture::deployment(10, "25%", "25%");
        deployment.spec.as_mut().unwrap().strategy.as_mut().unwrap().type_ = Some("Recreate".to_owned());
        assert_eq!((max_surge(&deployment), max_unavailable(&deployment), new_size(&deployment, 10, 0)), (0, 0, 10));
    }

    #[test]
    fn the_new_replica_set_grows_into_the_room_left() {
        let cases = [
            // replicas, maxSurge, all pods, new size => new size
            (10, "3", 0, 0, 10),
            (10, "3", 10, 0, 3),
            (10, "3", 13, 3, 3),
            (10, "3", 13, 0, 0),
            (10, "3", 14, 4, 4),
            (10, "3", 11, 3, 5),
            (10, "3", 10, 9, 10),
            (10, "0", 8, 0, 2),
        ];
        for (count, surge, all, new, expected) in cases {
            let deployment = fixture::deployment(count, surge, "1");
            assert_eq!(
                new_size(&deployment, all, new),
                expected,
                "{count} replicas, surge {surge}, {all} in all, {new} new"
            );
        }
    }
}
