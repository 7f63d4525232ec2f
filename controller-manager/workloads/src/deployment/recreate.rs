//! The strategy Recreate: all old pods end before the first new pod is created.
//!
//! Corresponds to pkg/controller/deployment/recreate.go.

use super::sizes;
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The deployment's pods by the uid of their replica set.
pub type PodsByOwner = BTreeMap<String, Vec<Arc<Pod>>>;

/// Returns true if a pod of an old template may still run, according to the replica sets' status or to the pods.
pub fn old_pods_running(new: Option<&ReplicaSet>, old: &[ReplicaSet], pods: &PodsByOwner) -> bool {
    if sizes::total(old, sizes::actual) > 0 {
        return true;
    }
    let new_uid = new.map(Kind::uid);
    pods.iter()
        .filter(|(owner, _)| Some(owner.as_str()) != new_uid)
        .any(|(_, pods)| pods.iter().any(|pod| !pod::is_terminal(pod)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn old_pods_run_until_they_ended() {
        let new = fixture::replica_set("new", "nginx:1", 0);
        let cases = [
            // pods counted by the old replica set, owner and phase of the one pod => running
            (0, None, false),
            (1, None, true),
            (0, Some(("uid-old", "Running")), true),
            (0, Some(("uid-old", "Pending")), true),
            (0, Some(("uid-old", "Unknown")), true),
            (0, Some(("uid-old", "Failed")), false),
            (0, Some(("uid-old", "Succeeded")), false),
            (0, Some(("uid-new", "Running")), false),
        ];
        for (counted, pod, expected) in cases {
            let old = fixture::replica_set("old", "nginx:0", counted);
            let mut pods = PodsByOwner::new();
            if let Some((owner, phase)) = pod {
                let mut pod = fixture::pod("p");
                fixture::set_phase(&mut pod, phase);
                pods.insert(owner.to_owned(), vec![Arc::new(pod)]);
            }
            assert_eq!(old_pods_running(Some(&new), &[old], &pods), expected, "{counted} {pod:?}");
        }
    }
}
