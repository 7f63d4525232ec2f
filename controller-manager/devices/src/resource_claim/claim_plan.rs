//! Plans the release of a claim: reservations of pods that are done, its allocation, its finalizer and the claim itself.
//!
//! Corresponds to syncClaim in pkg/controller/resourceclaim/controller.go.
//!
//! Deviation: a consumer that is no pod keeps its reservation. Kubernetes then fails to sync the claim for ever, so that
//! the reservations of pods are not released either.

use crate::pod_claims::{FINALIZER, allocation, consumers, has_finalizer, is_done};
use client::{Action, DeleteOptions, Plan};
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::ResourceClaim;
use std::sync::Arc;

/// Whether a consumer still needs the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Needed,
    /// The pod is gone, or none of its containers will run again.
    Over,
    /// The cache may not show the pod yet.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Observed {
    pub claim: Arc<ResourceClaim>,
    /// The need of each consumer in `status.reservedFor`.
    pub needs: Vec<Need>,
    /// The pod for which the claim was made.
    pub owner: Option<Arc<Pod>>,
}

pub fn plan(observed: &Observed) -> Plan {
    let claim = &*observed.claim;
    let mut plan = Plan::default();
    let valid = consumers(claim).iter().zip(&observed.needs).filter(|(_, need)| **need != Need::Over);
    let valid: Vec<_> = valid.map(|(consumer, _)| consumer.clone()).collect();
    let is_unused = valid.is_empty();
    let is_released = valid.len() < consumers(claim).len();
    // An allocated claim that was never used is left alone: a scheduler may be about to reserve it.
    let deallocates = has_finalizer(claim) && is_unused && (is_released || claim.is_deleting());
    let mut freed = claim.clone();
    if is_released || (deallocates && allocation(claim).is_some()) {
        let status = freed.status.get_or_insert_default();
        status.reserved_for = if is_unused { None } else { Some(valid) };
        if deallocates {
            status.allocation = None;
        }
        plan.push(Action::update_status(&freed));
    }
    if deallocates && allocation(&freed).is_none() {
        freed.metadata.finalizers.iter_mut().for_each(|all| all.retain(|finalizer| finalizer != FINALIZER));
        plan.push(Action::update(&freed));
    }
    let owner_is_done = observed.owner.as_ref().is_some_and(|pod| is_done(pod));
    if is_unused && owner_is_done && !claim.is_deleting() {
        plan.push(actions::delete(claim, DeleteOptions::with_uid(claim.uid())));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{allocate, claim, own_claim, own_entry, pod_with};
    use controller_base::fixture::{set_phase, time};

    fn planned(claim: &ResourceClaim, needs: &[Need], owner: Option<&Pod>) -> Vec<String> {
        let observed =
            Observed { claim: Arc::new(claim.clone()), needs: needs.to_vec(), owner: owner.cloned().map(Arc::new) };
        plan(&observed).actions.iter().map(ToString::to_string).collect()
    }

    const FREED: &str = "update resourceclaims.resource.k8s.io/status default/one {}";
    const UNPROTECTED: &str = "update resourceclaims.resource.k8s.io default/one";

    #[test]
    fn a_claim_is_deallocated_when_its_last_consumer_is_done() {
        let mut used = claim("one");
        allocate(&mut used, &["a", "b"]);
        assert_eq!(planned(&used, &[Need::Needed, Need::Needed], None), [""; 0]);
        let one_left = planned(&used, &[Need::Over, Need::Needed], None);
        assert_eq!(one_left.len(), 1);
        assert!(one_left[0].contains("\"allocation\":") && one_left[0].contains("uid-b"), "{one_left:?}");
        assert!(!one_left[0].contains("uid-a"), "{one_left:?}");
        assert_eq!(planned(&used, &[Need::Over, Need::Over], None), [FREED, UNPROTECTED]);
        // A claim that somebody allocated by hand, without the finalizer, keeps its devices.
        used.metadata.finalizers = None;
        let kept = planned(&used, &[Need::Over, Need::Over], None);
        assert!(kept.len() == 1 && kept[0].contains("\"allocation\":"), "{kept:?}");
    }

    #[test]
    fn a_claim_that_waits_for_its_first_consumer_is_left_alone() {
        let mut waiting = claim("one");
        allocate(&mut waiting, &[]);
        assert_eq!(planned(&waiting, &[], None), [""; 0]);
        waiting.metadata.deletion_timestamp = Some(time(5));
        assert_eq!(planned(&waiting, &[], None), [FREED, UNPROTECTED]);
        waiting.status.as_mut().unwrap().allocation = None;
        assert_eq!(planned(&waiting, &[], None), [UNPROTECTED]);
        allocate(&mut waiting, &["a"]);
        assert_eq!(planned(&waiting, &[Need::Needed], None), [""; 0]);
    }

    #[test]
    fn a_generated_claim_goes_when_its_pod_is_done() {
        let mut pod = pod_with(vec![own_entry("gpu", "t")]);
        let mut own = own_claim("one", &pod, "gpu");
        allocate(&mut own, &["web"]);
        assert_eq!(planned(&own, &[Need::Needed], Some(&pod)), [""; 0]);
        set_phase(&mut pod, "Succeeded");
        let deleted = "delete resourceclaims.resource.k8s.io default/one uid=uid-one";
        assert_eq!(planned(&own, &[Need::Over], Some(&pod)), [FREED, UNPROTECTED, deleted]);
        // It is the garbage collector that deletes the claims of pods that are gone.
        assert_eq!(planned(&own, &[Need::Over], None), [FREED, UNPROTECTED]);
        own.metadata.deletion_timestamp = Some(time(5));
        assert_eq!(planned(&own, &[Need::Over], Some(&pod)), [FREED, UNPROTECTED]);
    }
}
