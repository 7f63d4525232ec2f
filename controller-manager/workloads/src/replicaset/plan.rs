//! Plans one round over a replica set: the pods to create or delete, then the status.
//!
//! Corresponds to syncReplicaSet and manageReplicas in pkg/controller/replicaset/replica_set.go.

use super::observe::{Observed, wanted};
use super::rank;
use super::replicated::Replicated;
use super::status::{self, Failure};
use client::{Action, Plan};
use controller_base::pod_control::BURST;
use controller_base::pod_template::pod_from_template;
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::time::Duration;

pub fn plan<T: Replicated>(observed: &Observed<T>, now: Timestamp) -> Plan {
    if !observed.pods.are_complete() {
        return actions::adopt_and_release(&*observed.owner, &observed.pods, None);
    }
    let mut plan = plan_status(observed, None, now);
    plan.actions.splice(0..0, plan_pods(observed, now));
    plan
}

/// Creates missing pods, or deletes surplus ones.
fn plan_pods<T: Replicated>(observed: &Observed<T>, now: Timestamp) -> Vec<Action> {
    let owner = &*observed.owner;
    if !observed.are_expectations_satisfied || owner.is_deleting() {
        return Vec::new();
    }
    let (wanted, have) = (wanted(owner), observed.counts.active);
    match owner.template() {
        Some(template) if have < wanted => {
            let create = Action::create(&pod_from_template(template, owner));
            vec![create; (wanted - have).min(BURST)]
        }
        _ => {
            // The pods were read after they were counted, and some may have gone meanwhile.
            let count = observed.pods.owned.len().saturating_sub(wanted).min(BURST);
            let surplus = rank::pods_to_delete(&observed.pods.owned, &observed.related, count, now);
            surplus.iter().map(|pod| actions::delete_exactly(&**pod)).collect()
        }
    }
}

/// Returns true if an action is one of `plan_pods`.
pub fn changes_pods(action: &Action) -> bool {
    matches!(action, Action::Create { gvr, .. } | Action::Delete { gvr, .. } if *gvr == Pod::gvr())
}

/// Returns the name of the pod that an action deletes.
pub fn deleted_pod(action: &Action) -> Option<&str> {
    match action {
        Action::Delete { gvr, name, .. } if *gvr == Pod::gvr() => Some(name),
        _ => None,
    }
}

/// Plans the status. `failure` is the reason for which a pod could not be created or deleted.
pub fn plan_status<T: Replicated>(observed: &Observed<T>, failure: Option<&Failure>, now: Timestamp) -> Plan {
    let mut owner = (*observed.owner).clone();
    let status = status::calculate(observed, failure, now);
    // Compares what the kind's status can hold: a ReplicationController's has fewer fields.
    owner.set_status(status);
    let is_same = owner.status() == observed.owner.status();
    let mut plan = Plan::of((!is_same).then(|| Action::update_status(&owner)));
    plan.requeue_after = next_availability(observed, now);
    plan
}

/// Returns the delay until the next ready pod becomes available.
fn next_availability<T: Replicated>(observed: &Observed<T>, now: Timestamp) -> Option<Duration> {
    let min_ready_seconds = observed.owner.min_ready_seconds();
    observed.counts.next_availability(min_ready_seconds, now).map(|after| after.max(clock::TICK))
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counts;
    use super::*;
    use controller_base::controller_ref::Claims;
    use controller_base::fixture;
    use expect_test::expect;
    use proto::kinds::api::apps::v1::ReplicaSet;
    use std::sync::Arc;

    fn observed(wanted: i32, have: usize) -> Observed<ReplicaSet> {
        let owner = Arc::new(fixture::replica_set("web", "nginx:1", wanted));
        let surplus = if have > usize::try_from(wanted).unwrap() { have } else { 0 };
        let owned: Vec<Arc<Pod>> = (0..surplus).map(|i| Arc::new(fixture::pod(&format!("web-{i:04}")))).collect();
        let counts = Counts { active: have, ..Counts::default() };
        let related = owned.clone();
        let pods = Claims { owned, adopt: Vec::new(), release: Vec::new() };
        Observed { owner, counts, pods, related, are_expectations_satisfied: true }
    }

    /// Summarizes the actions on pods with their counts.
    fn summary(observed: &Observed<ReplicaSet>) -> String {
        let plan_pods = plan_pods(observed, fixture::at(0));
        let creations = plan_pods.iter().filter(|action| matches!(action, Action::Create { .. })).count();
        match (creations, plan_pods.len() - creations) {
            (0, 0) => "nothing".to_owned(),
            (creations, 0) => format!("create {creations}"),
            (0, deletions) => format!("delete {deletions}"),
            both => format!("{both:?}"),
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
            assert_eq!(summary(&observed(wanted, have)), expected, "{wanted} wanted, {have} there");
        }
    }

    #[test]
    fn nothing_changes_while_the_cache_lags_or_the_owner_goes() {
        let mut lagging = observed(3, 0);
        lagging.are_expectations_satisfied = false;
        assert_eq!(summary(&lagging), "nothing");
        let mut deleting = observed(3, 0);
        Arc::get_mut(&mut deleting.owner).unwrap().metadata.deletion_timestamp = Some(fixture::time(0));
        assert_eq!(summary(&deleting), "nothing");
    }

    #[test]
    fn a_round_reads_as_a_list() {
        expect![[r#"
            create pods default/web-*
            create pods default/web-*
            update replicasets.apps/status default/web {"observedGeneration":1,"replicas":1,"terminatingReplicas":0}
        "#]]
        .assert_eq(&plan(&observed(3, 1), fixture::at(0)).to_string());
        expect![[r#"
            delete pods default/web-0000 uid=uid-web-0000
            update replicasets.apps/status default/web {"observedGeneration":1,"replicas":3,"terminatingReplicas":0}
        "#]]
        .assert_eq(&plan(&observed(2, 3), fixture::at(0)).to_string());
        let mut settled = observed(1, 1);
        Arc::get_mut(&mut settled.owner).unwrap().set_status(status::calculate(&observed(1, 1), None, fixture::at(0)));
        assert_eq!(plan(&settled, fixture::at(9)).to_string(), "", "nothing changed, nothing is written");
    }

    #[test]
    fn a_pod_on_its_way_to_availability_is_looked_at_again() {
        let mut observed = observed(1, 0);
        Arc::get_mut(&mut observed.owner).unwrap().spec.as_mut().unwrap().min_ready_seconds = Some(10);
        observed.counts = Counts { active: 1, ready: 1, ready_since: vec![fixture::at(4)], ..Counts::default() };
        assert_eq!(plan_status(&observed, None, fixture::at(5)).requeue_after, Some(Duration::from_secs(9)));
        assert_eq!(plan_status(&observed, None, fixture::at(14)).requeue_after, None);
    }
}
