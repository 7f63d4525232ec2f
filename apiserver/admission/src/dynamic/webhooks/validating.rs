//! ValidatingAdmissionWebhook: calls all matching webhooks concurrently; each may reject the write.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/validating.

use super::calling::{Caller, FailureIgnored};
use super::hook::Hook;
use crate::dynamic::matching::is_exempt;
use crate::dynamic::versioned_attributes::VersionedAttributes;
use crate::parts::PluginParts;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use proto::Status;

const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

pub struct ValidatingAdmissionWebhook(Caller);

impl ValidatingAdmissionWebhook {
    pub fn new(parts: &PluginParts<'_>) -> Self {
        Self(Caller::new(parts, "validatingwebhookconfigurations", "validating", false))
    }

    async fn call(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        seen: &VersionedAttributes<'_>,
    ) -> Result<FailureIgnored, Status> {
        let began = self.0.now();
        let failure = self.0.call(hook, attributes, seen).await.err();
        self.0.judge(hook, attributes, began, None, failure)
    }
}

#[async_trait]
impl AdmissionPlugin for ValidatingAdmissionWebhook {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if is_exempt(attributes) {
            return Ok(());
        }
        let hooks = self.0.hooks(attributes).await?;
        let mut relevant = Vec::new();
        for hook in hooks.iter() {
            if let Some(place) = self.0.matched(hook, attributes).await? {
                relevant.push((hook, VersionedAttributes::of(attributes, place).await?));
            }
        }
        let calls = relevant.iter().enumerate().map(async |(index, (hook, seen))| {
            let outcome = self.call(hook, attributes, seen).await;
            if outcome == Ok(FailureIgnored(true)) {
                attributes.annotate(format!("{FAILED_OPEN}round_0_index_{index}"), &*hook.name);
            }
            outcome.err()
        });
        // All calls are completed; the first rejection is returned.
        let refusals: Vec<Status> =
            calls.collect::<FuturesUnordered<_>>().filter_map(async |refusal| refusal).collect().await;
        refusals.into_iter().next().map_or(Ok(()), Err)
    }
}
