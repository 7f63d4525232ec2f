//! ResourceQuota: rejects writes that would exceed a quota of the namespace.
//!
//! Usage is in each quota's status. The plugin raises it before the object is written, by compare-and-swap, so that two
//! writes cannot both get the last unit. The quota controller lowers it after a deletion, and corrects it if the write
//! failed later. The plugin ignores deletions.
//!
//! Reading order: [`claim`] is what one write requests, [`limited`] what needs a quota, [`counter`] charges the quotas.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/resourcequota.

pub mod claim;
pub mod limited;
pub mod counter;
#[cfg(test)]
mod tests;

use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use claim::Claim;
use counter::{Counters, QuotaAccess};
use limited::{LimitedResource, must_be_covered};
use proto::Status;
use proto::fields::text;
use proto::quota::IGNORED;
use serde_json::Value;
use std::sync::Arc;

#[derive(Default)]
pub struct ResourceQuota {
    counters: Counters,
    limited: Vec<LimitedResource>,
}

impl ResourceQuota {
    pub fn new(limited: &[LimitedResource]) -> Self {
        Self { limited: limited.to_vec(), ..Self::default() }
    }
}

#[async_trait]
impl AdmissionPlugin for ResourceQuota {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !is_counted(attributes) {
            return Ok(());
        }
        let quotas = attributes.lookup.list("", "resourcequotas", attributes.namespace)?;
        let served = attributes.served;
        let limited = self.limited.iter().filter(|limited| limited.matches(&served.group, &served.resource));
        let limited: Vec<&LimitedResource> = limited.collect();
        if quotas.is_empty() && limited.is_empty() {
            return Ok(());
        }
        let quotas: Vec<Arc<Value>> = quotas.iter().map(|quota| quota.value()).collect();
        let claim = Claim::of(attributes, quotas.iter().map(AsRef::as_ref));
        for quota in quotas.iter().filter(|quota| claim.quotas.contains(text(quota, "/metadata/name"))) {
            claim.must_specify_limited_resources(quota, attributes.new_object())?;
            if attributes.dry_run {
                claim.charged(quota)?;
            }
        }
        if !limited.is_empty() && claim.takes_more() {
            let quotas: Vec<&Value> = quotas.iter().map(AsRef::as_ref).collect();
            must_be_covered(&limited, &claim, attributes.new_object(), &quotas)?;
        }
        if attributes.dry_run || claim.is_nothing() {
            return Ok(());
        }
        let Attributes { namespace, lookup, quotas, .. } = *attributes;
        self.counters.charge(QuotaAccess { namespace, lookup, quotas }, claim).await
    }
}

/// Tells whether a write is counted. Of updates, only those that can raise usage are.
fn is_counted(attributes: &Attributes<'_>) -> bool {
    let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
    if attributes.namespace.is_empty() || IGNORED.contains(&(group, resource)) {
        return false;
    }
    match (attributes.operation, attributes.subresource) {
        (Operation::Create, "") => true,
        (Operation::Update, "") => group.is_empty() && matches!(resource, "services" | "persistentvolumeclaims"),
        (Operation::Update, "resize") => group.is_empty() && resource == "pods",
        _ => false,
    }
}
