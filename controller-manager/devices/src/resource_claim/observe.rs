//! Reads the caches of the resource claim controller, and asks the server for pods that they may not show yet.
//!
//! Corresponds to the listers and the deletedObjects cache in pkg/controller/resourceclaim/controller.go.

use super::claim_plan::{self, Need};
use super::pod_plan;
use crate::pod_claims::{claim_keys, consumers, entries, is_done, is_pod};
use client::{Client, Error, Lister};
use controller_base::controller_ref::controller_of;
use controller_base::indexes::BY_CONTROLLER_UID;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate};
use std::sync::Arc;

pub struct Caches {
    pub pods: Lister<Pod>,
    pub claims: Lister<ResourceClaim>,
    pub templates: Lister<ResourceClaimTemplate>,
}

impl Caches {
    pub fn pod(&self, key: &str) -> Option<pod_plan::Observed> {
        let pod = self.pods.by_key(key)?;
        let named = claim_keys(&pod).into_iter().filter_map(|key| self.claims.by_key(&key));
        let own = self.claims.by_index(BY_CONTROLLER_UID, pod.uid());
        let claims = named.chain(own).map(|claim| (claim.name().to_owned(), claim)).collect();
        let templates = entries(&pod).filter_map(|entry| entry.resource_claim_template_name.as_deref());
        let templates = templates.filter_map(|name| self.templates.get(pod.namespace(), name));
        let templates = templates.map(|template| (template.name().to_owned(), template)).collect();
        Some(pod_plan::Observed { pod, claims, templates })
    }

    pub fn claim(&self, key: &str) -> Option<claim_plan::Observed> {
        let claim = self.claims.by_key(key)?;
        let needs = consumers(&claim).iter().map(|consumer| self.need(&claim, consumer)).collect();
        let owner = controller_of(&*claim).filter(|owner| owner.kind == Pod::KIND && owner.api_version == "v1");
        let owner = owner.and_then(|owner| {
            let pod = self.pods.get(claim.namespace(), &owner.name)?;
            (pod.uid() == owner.uid).then_some(pod)
        });
        Some(claim_plan::Observed { claim, needs, owner })
    }

    fn need(&self, claim: &ResourceClaim, consumer: &ResourceClaimConsumerReference) -> Need {
        if !is_pod(consumer) {
            return Need::Needed;
        }
        match self.pods.get(claim.namespace(), &consumer.name).filter(|pod| pod.uid() == consumer.uid) {
            Some(pod) if is_done(&pod) => Need::Over,
            Some(_) => Need::Needed,
            None if self.is_as_new_as(claim) => Need::Over,
            None => Need::Unknown,
        }
    }

    /// Returns true if the cache of pods is not older than the claim. It then shows every pod that the claim is reserved
    /// for, since the pod was there before the reservation. Pods and claims are kept in one store, which numbers all writes.
    fn is_as_new_as(&self, claim: &ResourceClaim) -> bool {
        let written: Option<u64> = claim.resource_version().parse().ok();
        written.zip(self.pods.synced_version()).is_some_and(|(written, synced)| synced >= written)
    }
}

/// Asks the server for the consumers that the cache does not show.
pub async fn resolve(client: &Client, observed: &mut claim_plan::Observed) -> Result<(), Error> {
    let pods = client.api::<Pod>(observed.claim.namespace());
    let claim: Arc<ResourceClaim> = observed.claim.clone();
    for (consumer, need) in consumers(&claim).iter().zip(&mut observed.needs) {
        if *need != Need::Unknown {
            continue;
        }
        *need = match pods.get(&consumer.name).await {
            Ok(pod) if pod.uid() == consumer.uid && !is_done(&pod) => Need::Needed,
            Ok(_) => Need::Over,
            Err(error) if error.is_not_found() => Need::Over,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}
