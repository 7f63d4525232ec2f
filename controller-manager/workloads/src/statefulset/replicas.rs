//! Plans the pods of one round: creates missing ones, replaces ended ones, deletes those that are no longer wanted.
//!
//! Corresponds to processReplica and processCondemned in pkg/controller/statefulset/stateful_set_control.go.
//!
//! An ordered set goes through its pods one after another and stops at the first that is not available. A parallel set
//! goes on:
//!
//! ```text
//!   pods 0 to 3 are wanted   ordered                           parallel
//!   0 available, 1 missing   creates 1 and stops               creates 1, 2 and 3
//!   0 available, 1 pending   waits                             creates 2 and 3
//!   0 to 5 available         deletes 5 and stops               deletes 5 and 4
//! ```

use super::observe::Observed;
use super::ownership::Member;
use super::pods::{self, Revision};
use super::spec::{is_ordered, min_ready_seconds, ordinals};
use super::{claims, events, identity, rolling};
use client::Action;
use controller_base::{actions, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a round does to pods and claims.
#[derive(Debug, Default)]
pub struct PodPlan {
    pub actions: Vec<Action>,
    /// Number of pods that are deleted because their revision is old.
    pub replaced: usize,
}

/// Tells an ordered set that its round is over.
#[derive(Debug)]
struct Stop;

/// What follows after one pod: the next one, or nothing more in this round.
type Next = Result<(), Stop>;

pub fn plan(observed: &Observed, current: &Revision, update: &Revision, now: Timestamp) -> PodPlan {
    let set = &*observed.set;
    let mut round =
        Round { observed, set, pods: observed.by_ordinal(), current, update, now, plan: PodPlan::default() };
    // A round that stops early has planned all that it does.
    let _ = round.run();
    round.plan
}

struct Round<'a> {
    observed: &'a Observed,
    set: &'a StatefulSet,
    pods: BTreeMap<i64, Arc<Pod>>,
    current: &'a Revision,
    update: &'a Revision,
    now: Timestamp,
    plan: PodPlan,
}

impl Round<'_> {
    fn run(&mut self) -> Next {
        let wanted = ordinals(self.set);
        let is_wanted = |ordinal: &i64| wanted.contains(ordinal);
        let present = self.pods.keys().filter(|ordinal| is_wanted(ordinal));
        let in_order: BTreeSet<i64> = present.chain(&self.observed.missing).copied().collect();
        for ordinal in in_order {
            self.replica(ordinal)?;
        }
        let condemned = self.pods.iter().filter(|(ordinal, _)| !is_wanted(ordinal));
        let condemned: Vec<(i64, Arc<Pod>)> = condemned.map(|(ordinal, pod)| (*ordinal, pod.clone())).collect();
        for (ordinal, pod) in &condemned {
            self.set_claim_owners(*ordinal, Some(pod));
        }
        let lowest_unavailable = condemned.iter().map(|(_, pod)| pod).find(|pod| self.is_unavailable(pod));
        for (_, pod) in condemned.iter().rev() {
            self.condemned(pod, lowest_unavailable)?;
        }
        self.replace_outdated();
        Ok(())
    }

    fn stop_if_ordered(&self) -> Next {
        if is_ordered(self.set) { Err(Stop) } else { Ok(()) }
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        pods::is_unavailable(pod, min_ready_seconds(self.set), self.now)
    }

    /// Brings one wanted pod nearer to what it should be.
    fn replica(&mut self, ordinal: i64) -> Next {
        let Some(pod) = self.pods.get(&ordinal).cloned() else {
            self.create(ordinal);
            return self.stop_if_ordered();
        };
        // A pod is replaced once it has ended, however it ended. The next one can only come when this one is gone.
        if pod::is_terminal(&pod) {
            if !pod.is_deleting() {
                self.plan.actions.push(actions::delete_exactly(&*pod));
            }
            return self.stop_if_ordered();
        }
        if pod::phase(&pod) == "Pending" {
            self.create_claims(ordinal, Some(&pod));
        }
        let are_owners_changed = self.set_claim_owners(ordinal, Some(&pod));
        if self.is_unavailable(&pod) {
            self.stop_if_ordered()?;
        }
        let corrected = pods::corrected(self.set, &pod, ordinal);
        self.plan.actions.extend(corrected.iter().map(Action::update));
        if are_owners_changed || corrected.is_some() {
            self.plan.actions.push(events::pod_updated(self.set, pod.name()));
        }
        Ok(())
    }

    /// Creates a missing pod, after its claims. Waits while its name or one of its claims is somebody else's.
    fn create(&mut self, ordinal: i64) {
        let name = identity::pod_name(self.set, ordinal);
        if let Some(cause) = self.obstacle(ordinal, &name) {
            self.plan.actions.push(events::pod_create_failed(self.set, &name, &cause));
            return;
        }
        let member = Member { set: self.set, ordinal, name: &name, pod: None };
        if self.claims_of(ordinal).any(|claim| member.has_stale_claim(claim)) {
            return;
        }
        self.create_claims(ordinal, None);
        self.set_claim_owners(ordinal, None);
        let is_current = pods::needs_current_revision(self.set, ordinal);
        let revision = if is_current { self.current } else { self.update };
        self.plan.actions.push(Action::create(&pods::new_pod(self.set, revision, ordinal)));
    }

    /// Returns the reason why a pod cannot be created yet.
    ///
    /// Deviation: the pod is created when the reason is gone. Kubernetes tries again and again, and a name that is in use
    /// gets no event.
    fn obstacle(&self, ordinal: i64, name: &str) -> Option<String> {
        if self.observed.taken.contains(&ordinal) {
            return Some(format!("pods {name:?} already exists"));
        }
        let deleting = self.claims_of(ordinal).find(|claim| claim.is_deleting());
        deleting.map(|claim| format!("pvc {} is being deleted", claim.name()))
    }

    /// Returns the claims of a pod that exist.
    fn claims_of(&self, ordinal: i64) -> impl Iterator<Item = &Arc<PersistentVolumeClaim>> {
        claims::names(self.set, ordinal).filter_map(|name| self.observed.claims.get(&name))
    }

    /// Creates the claims that a pod lacks, with the owner that the retention policy wants.
    fn create_claims(&mut self, ordinal: i64, pod: Option<&Pod>) {
        let name = identity::pod_name(self.set, ordinal);
        let member = Member { set: self.set, ordinal, name: &name, pod };
        for claim in claims::new_claims(self.set, ordinal) {
            if !self.observed.claims.contains_key(claim.name()) {
                let claim = member.with_wanted_owner(&claim).unwrap_or(claim);
                self.plan.actions.push(Action::create(&claim));
                self.plan.actions.push(events::claim_created(self.set, claim.name(), &name));
            }
        }
    }

    /// Gives each claim of a pod the owner that the retention policy wants. Returns true if one changes.
    fn set_claim_owners(&mut self, ordinal: i64, pod: Option<&Pod>) -> bool {
        let name = identity::pod_name(self.set, ordinal);
        let member = Member { set: self.set, ordinal, name: &name, pod };
        let mut changes = Vec::new();
        for claim in self.claims_of(ordinal) {
            let Some(updated) = member.with_wanted_owner(claim) else { continue };
            if member.has_other_controller(claim) {
                changes.push(events::conflicting_controller(self.set, claim.name()));
            }
            changes.push(Action::update(&updated));
        }
        let are_changed = !changes.is_empty();
        self.plan.actions.append(&mut changes);
        are_changed
    }

    /// Deletes a pod that is no longer wanted. In an ordered set it goes only when the one above it is gone, and when no
    /// pod below it is unavailable.
    fn condemned(&mut self, pod: &Arc<Pod>, lowest_unavailable: Option<&Arc<Pod>>) -> Next {
        if pod.is_deleting() {
            return self.stop_if_ordered();
        }
        if self.is_unavailable(pod) && lowest_unavailable.is_some_and(|lowest| lowest.name() != pod.name()) {
            self.stop_if_ordered()?;
        }
        self.plan.actions.push(actions::delete_exactly(&**pod));
        self.stop_if_ordered()
    }

    /// Deletes pods of an old revision. The next rounds create them anew.
    fn replace_outdated(&mut self) {
        let replicas = ordinals(self.set).map(|ordinal| (ordinal, self.pods.get(&ordinal)));
        let outdated = rolling::to_replace(self.set, replicas, &self.update.name, self.now);
        self.plan.replaced = outdated.len();
        self.plan.actions.extend(outdated.iter().map(|pod| actions::delete_exactly(&**pod)));
    }
}
