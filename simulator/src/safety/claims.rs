//! The rule that a ResourceClaim is not taken from a pod that still needs its devices.
//!
//! A consumer leaves `status.reservedFor`, and an allocated claim goes, only when the pod is gone or none of its containers
//! will run again. A pod that is done stays done, so a late cache is no excuse.

use super::fields::{Pod, ResourceClaim};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::{BTreeMap, BTreeSet};

const PODS: &str = "/registry/pods/";
const CLAIMS: &str = "/registry/resourceclaims/";

#[derive(Default)]
pub struct Claims {
    claims: BTreeMap<String, Claim>,
    /// Keys of the pods that are not done, by their UID.
    pods: BTreeMap<String, String>,
}

#[derive(Default)]
struct Claim {
    is_allocated: bool,
    /// UIDs of the pods that use it.
    consumers: BTreeSet<String>,
}

impl Claims {
    fn record_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        self.pods.retain(|_, other| other != key);
        let Some(pod) = read::<Pod>(key, value)? else { return Ok(()) };
        let is_done = pod.has_ended() || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty());
        if !is_done {
            self.pods.insert(pod.metadata.uid, key.to_owned());
        }
        Ok(())
    }

    fn check_claim(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let before = self.claims.remove(key).unwrap_or_default();
        let claim = read::<ResourceClaim>(key, value)?;
        let now = claim.map(|ResourceClaim { status }| Claim {
            is_allocated: !status.allocation.is_null(),
            consumers: status.reserved_for.into_iter().map(|consumer| consumer.uid).collect(),
        });
        let now = now.unwrap_or_default();
        let lost = if before.is_allocated && !now.is_allocated {
            before.consumers.iter().find_map(|uid| self.pods.get(uid))
        } else {
            before.consumers.difference(&now.consumers).find_map(|uid| self.pods.get(uid))
        };
        let lost = lost.cloned();
        if value.is_some() {
            self.claims.insert(key.to_owned(), now);
        }
        match lost {
            Some(pod) => Err(RuleViolation::about(format!("{key} was taken from {pod}, which still needs it"), [pod])),
            None => Ok(()),
        }
    }
}

impl Rule for Claims {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS, CLAIMS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(PODS) { self.record_pod(key, value) } else { self.check_claim(key, value) }
    }
}
