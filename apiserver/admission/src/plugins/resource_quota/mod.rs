//! ResourceQuota: nothing is given out beyond what a namespace may use.
//!
//! Usage is kept in each quota's status. It is raised here, by compare-and-swap and before the object is written, so that
//! no two writes get the last of something; the quota controller lowers it when it has seen an object go, and sets right
//! what was raised for a write that then failed. Deletions are never asked for.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/resourcequota.

pub mod claim;
pub mod counter;
pub mod limited;
#[cfg(test)]
mod tests;

use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use claim::Claim;
use counter::{Books, Counters};
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
        let limited = self.limited.iter().filter(|limited| limited.concerns(&served.group, &served.resource));
        let limited: Vec<&LimitedResource> = limited.collect();
        if quotas.is_empty() && limited.is_empty() {
            return Ok(());
        }
        let quotas: Vec<Arc<Value>> = quotas.iter().map(|quota| quota.value()).collect();
        let claim = Claim::of(attributes, quotas.iter().map(AsRef::as_ref));
        for quota in quotas.iter().filter(|quota| claim.quotas.contains(text(quota, "/metadata/name"))) {
            claim.must_say(quota, attributes.new_object())?;
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
        self.counters.charge(Books { namespace, lookup, quotas }, claim).await
    }
}

/// Of updates, only those that can take more.
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
