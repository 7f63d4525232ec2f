//! A StatefulSet's status: the counts of its pods, and the revisions that they have.
//!
//! Corresponds to computeReplicaStatus and completeRollingUpdate in pkg/controller/statefulset.

use super::observe::Observed;
use super::pods::{is_running_and_ready, revision_of};
use super::spec::{is_rolling, min_ready_seconds, replicas};
use controller_base::pod;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSetStatus};
use proto::kinds::api::core::v1::Pod;

/// Returns the status. `replaced` is the number of pods that this round deletes because their revision is old.
pub fn calculate(
    observed: &Observed,
    current: &ControllerRevision,
    update: &ControllerRevision,
    replaced: usize,
    now: Timestamp,
) -> StatefulSetStatus {
    let set = &*observed.set;
    let before = set.status.clone().unwrap_or_default();
    let count = |matching: &dyn Fn(&Pod) -> bool| {
        let count = observed.pods.owned.iter().filter(|pod| matching(pod)).count();
        i32::try_from(count).expect("a StatefulSet has fewer than 2^31 pods")
    };
    let min_ready_seconds = min_ready_seconds(set);
    let ready = count(&is_running_and_ready);
    let available = count(&|pod| is_running_and_ready(pod) && pod::is_available(pod, min_ready_seconds, now));
    let at = |revision: &ControllerRevision| count(&|pod| !pod.is_deleting() && revision_of(pod) == revision.name());
    let (mut at_current, at_update) = (at(current), at(update));
    at_current -= i32::try_from(replaced).unwrap_or(0);
    let mut current_name = current.name();
    let (all, wanted) = (count(&|_| true), replicas(set));
    // The rollout is complete: the update revision is now the current one.
    if is_rolling(set) && at_update == wanted && ready == wanted && all == wanted {
        (at_current, current_name) = (at_update, update.name());
    }
    StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: all,
        ready_replicas: present(ready),
        available_replicas: Some(available),
        current_replicas: present(at_current),
        updated_replicas: present(at_update),
        current_revision: Some(current_name.to_owned()),
        update_revision: Some(update.name().to_owned()),
        collision_count: Some(before.collision_count.unwrap_or(0)),
        conditions: before.conditions,
    }
}

/// Omits zero counts, as Kubernetes does.
fn present(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}
