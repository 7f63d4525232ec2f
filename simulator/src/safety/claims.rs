//! The rule that a ResourceClaim is not taken from a pod that still needs its devices.
//!
//! A consumer leaves `status.reservedFor`, and an allocated claim goes, only when the pod is gone or none of its containers
//! will run again. A pod that is done stays done, so a late cache is no excuse.
//!
//! The scheduler takes back the reservation of a pod that it could not bind. If only the answer of the binding was lost, the pod has
//! a node without a reservation until the controller reserves the claim again; until then the pod keeps the devices.

use super::fields::{Pod, ResourceClaim};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::{BTreeMap, BTreeSet};

const PODS: &str = "/registry/pods/";
const CLAIMS: &str = "/registry/resourceclaims/";

#[derive(Default)]
pub struct Claims {
    claims: BTreeMap<String, Claim>,
    /// The pods that are not done, by their UID.
    pods: BTreeMap<String, Consumer>,
}

struct Consumer {
    key: String,
    has_node: bool,
}

#[derive(Default)]
struct Claim {
    is_allocated: bool,
    /// UIDs of the pods that use it.
    consumers: BTreeSet<String>,
    /// UIDs of the pods whose reservation the scheduler took back.
    taken_back: BTreeSet<String>,
}

impl Claims {
    fn record_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        self.pods.retain(|_, other| other.key != key);
        let Some(pod) = read::<Pod>(key, value)? else { return Ok(()) };
        let is_done = pod.has_ended() || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty());
        if !is_done {
            let has_node = !pod.spec.node_name.is_empty();
            self.pods.insert(pod.metadata.uid, Consumer { key: key.to_owned(), has_node });
        }
        Ok(())
    }

    /// Checks a write of a claim. Controllers take reservations from pods that are done alone.
    fn check_claim(&mut self, key: &str, value: Option<&[u8]>, is_by_controller: bool) -> Result<(), RuleViolation> {
        let before = self.claims.remove(key).unwrap_or_default();
        let claim = read::<ResourceClaim>(key, value)?;
        let now = claim.map(|ResourceClaim { status }| Claim {
            is_allocated: !status.allocation.is_null(),
            consumers: status.reserved_for.into_iter().map(|consumer| consumer.uid).collect(),
            taken_back: BTreeSet::new(),
        });
        let mut now = now.unwrap_or_default();
        let left = before.consumers.difference(&now.consumers);
        let is_taken_away = before.is_allocated && !now.is_allocated;
        let needs = |uid: &String| self.pods.get(uid).filter(|pod| is_by_controller || pod.has_node);
        let lost = match (is_taken_away, is_by_controller) {
            (true, _) => {
                let by_mistake = before.taken_back.iter().filter_map(|uid| self.pods.get(uid)).find(|pod| pod.has_node);
                before.consumers.iter().find_map(needs).or(by_mistake)
            }
            (false, true) => left.clone().find_map(needs),
            (false, false) => None,
        };
        let lost = lost.map(|pod| pod.key.clone());
        now.taken_back =
            before.taken_back.iter().chain(left).filter(|uid| self.pods.contains_key(*uid)).cloned().collect();
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

    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        match key.starts_with(PODS) {
            true => self.record_pod(key, value),
            false => self.check_claim(key, value, context.writer.is_some()),
        }
    }
}
