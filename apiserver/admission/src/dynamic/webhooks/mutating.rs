//! MutatingAdmissionWebhook: calls one webhook after the other; each may patch the object or reject the write.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.

use super::calling::{Caller, Failure, FailureIgnored};
use super::hook::Hook;
use super::review::{self, Response};
use crate::dynamic::admission_request::is_of_resource;
use crate::dynamic::matching::is_exempt;
use crate::dynamic::versioned_attributes::{VersionedAttributes, decoded, restored};
use crate::parts::PluginParts;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use patch::defaults::set_defaults;
use patch::json_patch;
use patch::json_patch::Refusal;
use proto::Status;
use serde_json::{Value, json};

const NAME: &str = "MutatingAdmissionWebhook";
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

pub struct MutatingAdmissionWebhook(Caller);

impl MutatingAdmissionWebhook {
    pub fn new(parts: &PluginParts<'_>) -> Self {
        Self(Caller::new(parts, "mutatingwebhookconfigurations", "admit", true))
    }

    /// Calls a webhook and returns the changed object, or `None` without a change.
    async fn call(&self, hook: &Hook, attributes: &Attributes<'_>, place: usize) -> Result<Option<Value>, Failure> {
        let seen = VersionedAttributes::of(attributes, place).await.map_err(Failure::Other)?;
        let response = self.0.call(hook, attributes, &seen).await?;
        let Some(changed) = patched(hook, attributes, &seen, &response)? else { return Ok(None) };
        restored(attributes, place, changed).await.map(Some).map_err(Failure::Other)
    }
}

/// Returns the patched object; `None` if it is the same.
fn patched(
    hook: &Hook,
    attributes: &Attributes<'_>,
    seen: &VersionedAttributes<'_>,
    response: &Response,
) -> Result<Option<Value>, Failure> {
    let internal = |why: String| Failure::Other(Status::internal(why));
    let operations = review::operations(response).map_err(internal)?;
    if operations.as_array().is_some_and(Vec::is_empty) || operations.is_null() {
        return Ok(None);
    }
    if seen.object.is_null() {
        let name = &hook.name;
        return Err(internal(format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
        )));
    }
    if !review::is_json_patch(response) {
        return Err(Failure::Calling(format!("unsupported patch type {:?}", response.patch_type), 400));
    }
    let patched = json_patch::try_apply(&seen.object, &operations).map_err(|refusal| match refusal {
        Refusal::Unfit(status) => internal(status.message),
        Refusal::TestFailed(why) | Refusal::Inapplicable(why) => internal(why),
    })?;
    let mut patched = decoded(attributes, seen.place, patched).map_err(Failure::Other)?;
    if patched == *seen.object {
        return Ok(None);
    }
    let served = &attributes.versions.all()[seen.place];
    if is_of_resource(served, attributes.subresource) {
        set_defaults(served, &mut patched);
    }
    Ok(Some(patched))
}

#[async_trait]
impl AdmissionPlugin for MutatingAdmissionWebhook {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if is_exempt(attributes) {
            return Ok(());
        }
        let hooks = self.0.hooks(attributes).await?;
        if hooks.is_empty() {
            return Ok(());
        }
        let round = u8::from(attributes.reinvocation.is_second());
        attributes.reinvocation.begin(NAME, attributes.object.as_deref().unwrap_or(&Value::Null));
        for (index, hook) in hooks.iter().enumerate() {
            let Some(place) = self.0.matched(hook, attributes).await? else { continue };
            if !attributes.reinvocation.is_due(NAME, &hook.uid) {
                continue;
            }
            let began = self.0.now();
            let (changed, failure) = match self.call(hook, attributes, place).await {
                Ok(changed) => (changed, None),
                Err(failure) => (None, Some(failure)),
            };
            let note = json!({
                "configuration": hook.configuration, "webhook": hook.name, "mutated": changed.is_some(),
            });
            attributes.annotate(format!("{MUTATION}round_{round}_index_{index}"), note.to_string());
            attributes.reinvocation.called(NAME, &hook.uid, changed.is_some(), hook.reinvoked_if_needed);
            let patch = attributes.patch_to(changed.as_ref());
            if self.0.judge(hook, attributes, began, patch, failure)? == FailureIgnored(true) {
                attributes.annotate(format!("{FAILED_OPEN}round_{round}_index_{index}"), &*hook.name);
            }
            if let Some(changed) = changed {
                attributes.replace_object(changed);
            }
        }
        attributes.reinvocation.end(NAME, attributes.object.as_deref().unwrap_or(&Value::Null));
        Ok(())
    }
}
