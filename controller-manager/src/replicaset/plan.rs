//! One round over a replica set: the pods to create or delete, then the status.
//!
//! Corresponds to manageReplicas in pkg/controller/replicaset/replica_set.go.

use super::observe::Observed;
use super::rank;
use super::replicated::Replicated;
use super::status::{self, Failure};
use crate::pod_control::BURST;
use crate::pod_template::pod_from_template;
use crate::{clock, pod};
use client::{Action, Plan};
use jiff::Timestamp;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// What is to change about the pods of one owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Nothing,
    /// As many of this pod.
    Create {
        pod: Box<Pod>,
        count: usize,
    },
    Delete(Vec<Arc<Pod>>),
}

/// How many pods are missing or too many.
pub fn change<T: Replicated>(observed: &Observed<T>, now: Timestamp) -> Change {
    let owner = &*observed.owner;
    if !observed.is_caught_up || owner.is_deleting() {
        return Change::Nothing;
    }
    let wanted = usize::try_from(owner.replicas()).unwrap_or(0);
    let have = observed.pods.owned.len();
    match owner.template() {
        Some(template) if have < wanted => {
            let pod = Box::new(pod_from_template(template, owner));
            Change::Create { pod, count: (wanted - have).min(BURST) }
        }
        _ if have > wanted => {
            let count = (have - wanted).min(BURST);
            Change::Delete(rank::victims(&observed.pods.owned, &observed.related, count, now))
        }
        _ => Change::Nothing,
    }
}

/// The status after the change was tried.
pub fn plan_status<T: Replicated>(observed: &Observed<T>, failure: Option<&Failure>, now: Timestamp) -> Plan {
    let mut owner = (*observed.owner).clone();
    let status = status::calculate(observed, failure, now);
    // Written once and read back, so that a kind whose status says less does not differ for ever.
    owner.set_status(status);
    let actions =
        if owner.status() == observed.owner.status() { Vec::new() } else { vec![Action::update_status(&owner)] };
    Plan { actions, requeue_after: next_look(observed, now) }
}

/// When the next pod that is ready becomes available.
fn next_look<T: Replicated>(observed: &Observed<T>, now: Timestamp) -> Option<Duration> {
    let min_ready_seconds = observed.owner.min_ready_seconds();
    if min_ready_seconds <= 0 {
        return None;
    }
    let pods = observed.pods.owned.iter().map(|pod| &**pod);
    pod::next_availability(pods, min_ready_seconds, now).map(|after| after.max(clock::TICK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller_ref::Claims;
    use crate::fixture;
    use proto::kinds::api::apps::v1::ReplicaSet;

    fn observed(wanted: i32, have: usize) -> Observed<ReplicaSet> {
        let owner = Arc::new(fixture::replica_set("web", "nginx:1", wanted));
        let owned: Vec<Arc<Pod>> = (0..have).map(|i| Arc::new(fixture::pod(&format!("web-{i:04}")))).collect();
        let related = owned.clone();
        let pods = Claims { owned, adopt: Vec::new(), release: Vec::new() };
        Observed { owner, pods, terminating: 0, related, is_caught_up: true }
    }

    fn summary(change: &Change) -> String {
        match change {
            Change::Nothing => "nothing".to_owned(),
            Change::Create { count, .. } => format!("create {count}"),
            Change::Delete(pods) => format!("delete {}", pods.len()),
        }
    }

    #[test]
    fn the_difference_is_made_up_in_bursts() {
        let cases = [
            (3, 0, "create 3"),
            (3, 2, "create 1"),
            (3, 3, "nothing"),
            (3, 5, "delete 2"),
            (0, 2, "delete 2"),
            (1000, 0, "create 500"),
            (0, 700, "delete 500"),
        ];
        for (wanted, have, expected) in cases {
            let change = change(&observed(wanted, have), fixture::at(0));
            assert_eq!(summary(&change), expected, "{wanted} wanted, {have} there");
        }
    }

    #[test]
    fn nothing_changes_while_the_cache_lags_or_the_owner_goes() {
        let mut lagging = observed(3, 0);
        lagging.is_caught_up = false;
        assert_eq!(change(&lagging, fixture::at(0)), Change::Nothing);
        let mut deleting = observed(3, 0);
        Arc::get_mut(&mut deleting.owner).unwrap().metadata.deletion_timestamp = Some(fixture::time(0));
        assert_eq!(change(&deleting, fixture::at(0)), Change::Nothing);
    }

    #[test]
    fn a_pod_on_its_way_to_availability_is_looked_at_again() {
        let mut observed = observed(1, 0);
        Arc::get_mut(&mut observed.owner).unwrap().spec.as_mut().unwrap().min_ready_seconds = Some(10);
        let mut pod = fixture::pod("web-0");
        fixture::set_ready(&mut pod, fixture::at(4));
        observed.pods.owned = vec![Arc::new(pod)];
        assert_eq!(plan_status(&observed, None, fixture::at(5)).requeue_after, Some(Duration::from_secs(9)));
        assert_eq!(plan_status(&observed, None, fixture::at(14)).requeue_after, None);
    }
}
