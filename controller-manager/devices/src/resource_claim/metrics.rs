//! The metrics of the resource claim controller.
//!
//! Corresponds to pkg/controller/resourceclaim/metrics.

use super::pod_plan::POD_CLAIM_NAME;
use client::Lister;
use component_base::env::Env;
use component_base::metrics::{Counters, Labels};
use proto::kinds::api::resource::v1::ResourceClaim;
use serde_json::Value;
use std::collections::BTreeMap;

/// Annotation of a claim that a scheduler made for an extended resource.
const EXTENDED_RESOURCE: &str = "resource.kubernetes.io/extended-resource-claim";

#[derive(Clone)]
pub struct Metrics {
    creates: Counters,
}

impl Metrics {
    pub fn new(env: &Env) -> Self {
        let help = "Number of ResourceClaims creation requests, categorized by creation status and admin access";
        Self { creates: env.metrics().counters("resourceclaim_controller_creates_total", help) }
    }

    /// Counts a request that created a claim, or failed to.
    pub fn created(&self, claim: &Value, is_success: bool) {
        let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
        let is_admin = requests.into_iter().flatten().any(|request| request["exactly"]["adminAccess"] == true);
        let status = if is_success { "success" } else { "failure" };
        let labels = vec![("status", status.to_owned()), ("admin_access", is_admin.to_string())];
        self.creates.get_or_create(&labels).inc();
    }
}

/// Counts the claims of the cache at each scrape, for as long as the environment runs.
pub fn count_claims(env: &Env, claims: Lister<ResourceClaim>) {
    let help = "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
                'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty \
                (manually created by a user).";
    let family = env.metrics().gauges("resourceclaim_controller_resource_claims", help);
    let shutdown = env.shutdown().clone();
    env.metrics().before_encoding(move || {
        let mut counts: BTreeMap<Labels, i64> = BTreeMap::new();
        for claim in claims.list() {
            *counts.entry(labels(&claim)).or_default() += 1;
        }
        family.clear();
        for (labels, count) in counts {
            family.get_or_create(&labels).set(count);
        }
        !shutdown.is_cancelled()
    });
}

fn labels(claim: &ResourceClaim) -> Labels {
    let is_allocated = claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
    let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
    let is_admin = requests
        .into_iter()
        .any(|request| request.exactly.as_ref().is_some_and(|exactly| exactly.admin_access == Some(true)));
    let annotations = claim.metadata.annotations.as_ref();
    let has = |name: &str| annotations.is_some_and(|annotations| annotations.contains_key(name));
    let source = if has(POD_CLAIM_NAME) {
        "resource_claim_template"
    } else if has(EXTENDED_RESOURCE) {
        "extended_resource"
    } else {
        ""
    };
    vec![("allocated", is_allocated.to_string()), ("admin_access", is_admin.to_string()), ("source", source.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::json;

    #[test]
    fn claims_are_told_apart_by_state_and_source() {
        let request = |is_admin: bool| json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": is_admin}}]});
        for (annotations, is_admin, status, expected) in [
            (json!({}), false, json!({}), ["false", "false", ""]),
            (
                json!({POD_CLAIM_NAME: "gpu"}),
                false,
                json!({"allocation": {}}),
                ["true", "false", "resource_claim_template"],
            ),
            (json!({EXTENDED_RESOURCE: "true"}), true, json!({}), ["false", "true", "extended_resource"]),
        ] {
            let claim = json!({
                "metadata": {"name": "c", "annotations": annotations},
                "spec": {"devices": request(is_admin)},
                "status": status,
            });
            let labels = labels(&ResourceClaim::decode_value(claim).unwrap());
            assert_eq!(labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), expected);
        }
    }
}
