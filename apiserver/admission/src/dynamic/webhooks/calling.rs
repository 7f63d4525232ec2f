//! `Caller`: calls one webhook for one write, and applies its failure policy.
//!
//! Corresponds to callHook and callAttrMutatingHook of the dispatchers in k8s.io/apiserver/pkg/admission/plugin/webhook.

use super::hook::{self, Hook};
use super::review::{self, InvalidResponse, Question, Response};
use crate::Attributes;
use crate::dynamic::configuration_manager::ConfigurationManager;
use crate::dynamic::expressions::{Activation, Authorizer, Subject, Verdict};
use crate::dynamic::versioned_attributes::VersionedAttributes;
use crate::metrics::webhooks::{Called, ErrorType, WebhookMeter};
use crate::parts::PluginParts;
use crate::traced::{HookDecision, TracedHook};
use component_base::env::Env;
use component_base::rng::Random;
use proto::Status;
use remote::clients::Clients;
use remote::users::Users;
use remote::webhook::WebhookContext;
use request::trace::Gate;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

/// The webhooks of one type of configuration, and the means to call them.
pub struct Caller {
    env: Env,
    random: Random,
    clients: Arc<Clients>,
    users: Users,
    authorizer: Arc<dyn Authorizer>,
    hooks: ConfigurationManager<Vec<Hook>>,
    meter: WebhookMeter,
    mutating: bool,
    /// Name of the plugin.
    plugin: &'static str,
}

/// Why a webhook makes a request fail.
#[derive(Debug)]
pub enum Failure {
    /// The call failed or the response is invalid: the failure policy decides. The number is the code for the metrics.
    Calling(String, u16),
    /// The webhook denied the request.
    Denied(Status),
    /// Another error, which the failure policy does not cover.
    Other(Status),
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Calling(why, _) => why.clone(),
            Self::Denied(status) | Self::Other(status) => status.message.clone(),
        }
    }
}

impl Caller {
    pub fn new(parts: &PluginParts<'_>, resource: &'static str, kind: &'static str, mutating: bool) -> Self {
        let [of_mutating, of_validating] = &parts.webhooks;
        let configurations = if mutating { of_mutating } else { of_validating };
        let configured = parts.configurations;
        let users = if mutating { &configured.mutating_webhook_users } else { &configured.validating_webhook_users };
        Self {
            env: parts.env.clone(),
            random: parts.env.random(&format!("apiserver/admission/{resource}")),
            clients: parts.clients.clone(),
            users: users.clone(),
            authorizer: parts.authorization.clone(),
            hooks: ConfigurationManager::new(configurations.clone(), hook::read_all),
            meter: WebhookMeter::new(parts.env, kind),
            mutating,
            plugin: if mutating { "MutatingAdmissionWebhook" } else { "ValidatingAdmissionWebhook" },
        }
    }

    /// Returns all webhooks, in the order of calls.
    pub async fn hooks(&self, attributes: &Attributes<'_>) -> Result<Arc<Vec<Hook>>, Status> {
        let hooks = self.hooks.get(&self.env).await;
        hooks.ok_or_else(|| attributes.forbidden("not yet ready to handle request"))
    }

    /// Returns the version that the webhook matches; `None` if it is not called.
    pub async fn matched(&self, hook: &Hook, attributes: &Attributes<'_>) -> Result<Option<usize>, Status> {
        let Some(place) = hook.matching.matched(attributes).await? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(place));
        }
        let seen = VersionedAttributes::of(attributes, place).await?;
        let served = &attributes.versions.all()[place];
        let subject = Subject { served, object: &seen.object, old_object: &seen.old_object };
        match hook.conditions.evaluate(&Activation::of(attributes, subject, &self.authorizer)) {
            Verdict::Matches => Ok(Some(place)),
            Verdict::DoesNotMatch(_) => Ok(None),
            Verdict::Error(why) if hook.ignores_failures => {
                attributes.record_ignored_failure(self.traced_hook(&name_of(hook)), &why.to_string(), None);
                Ok(None)
            }
            Verdict::Error(why) => Err(attributes.forbidden(why.to_string())),
        }
    }

    pub fn now(&self) -> Instant {
        self.env.now()
    }

    /// Calls the webhook, and passes on its audit annotations and warnings.
    pub async fn call(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        seen: &VersionedAttributes<'_>,
    ) -> Result<Response, Failure> {
        if attributes.dry_run && !hook.supports_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Failure::Other(Status::bad_request(why)));
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return Err(Failure::Calling(why.to_owned(), 400));
        };
        let Some(webhook) = &hook.webhook else {
            let why = "could not get REST client: webhook configuration must have either service or URL";
            return Err(Failure::Calling(why.to_owned(), 400));
        };
        let uid = self.random.uid();
        let question = Question { version, uid: &uid, attributes, seen };
        let patience = attributes.deadline.map(|deadline| deadline.saturating_duration_since(self.env.now()));
        let limit = patience.map_or(hook.limit, |patience| patience.min(hook.limit));
        let context =
            WebhookContext { env: &self.env, clients: &self.clients, objects: attributes.lookup, users: &self.users };
        let answer = webhook.call(context, &question.to_value(), limit).await;
        let answer = answer.map_err(|error| not_called(error.message, error.code.unwrap_or(503)))?;
        let response = review::parse_response(version, &uid, self.mutating, &answer).map_err(|wrong| match wrong {
            InvalidResponse::Form(why) => not_called(why, 503),
            InvalidResponse::Content(why) => Failure::Calling(format!("received invalid webhook response: {why}"), 503),
        })?;
        for (key, value) in &response.annotations {
            attributes.annotate(format!("{}/{key}", hook.name), value);
        }
        for warning in &response.warnings {
            attributes.warnings.add(warning);
        }
        match response.allowed {
            true => Ok(response),
            false => Err(Failure::Denied(review::denied(&hook.name, response.result))),
        }
    }

    /// Counts a finished call and applies the failure policy. `patch` is the webhook's change, if the request is traced.
    pub fn judge(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        began: Instant,
        patch: Option<Value>,
        failure: Option<Failure>,
    ) -> Result<FailureIgnored, Status> {
        let failure_text = attributes.steps.map(|_| failure.as_ref().map_or_else(String::new, Failure::text));
        let result = self.counted(hook, attributes, began, failure);
        if let Some(why) = failure_text {
            self.trace(hook, attributes, began, patch, &result, &why);
        }
        result
    }

    /// Records the call in the trace of the request.
    fn trace(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        began: Instant,
        patch: Option<Value>,
        result: &Result<FailureIgnored, Status>,
        why: &str,
    ) {
        let name = name_of(hook);
        let traced = self.traced_hook(&name);
        match result {
            Ok(FailureIgnored(true)) => attributes.record_ignored_failure(traced, why, Some(began)),
            Ok(FailureIgnored(false)) => attributes.record_hook(traced, patch, HookDecision::Admits, Some(began)),
            Err(status) => attributes.record_hook(traced, None, HookDecision::Refuses(&status.message), Some(began)),
        }
    }

    fn traced_hook<'a>(&self, name: &'a str) -> TracedHook<'a> {
        let gate = if self.mutating { Gate::MutatingAdmission } else { Gate::ValidatingAdmission };
        TracedHook { gate, plugin: self.plugin, name }
    }

    fn counted(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        began: Instant,
        failure: Option<Failure>,
    ) -> Result<FailureIgnored, Status> {
        let operation = attributes.operation;
        let elapsed = self.env.now().duration_since(began);
        let observe = |code, rejected| self.meter.observe(&hook.name, Called { operation, elapsed, code, rejected });
        let Some(failure) = failure else {
            observe(200, None);
            return Ok(FailureIgnored(false));
        };
        match failure {
            Failure::Calling(why, code) => {
                let why = format!("failed calling webhook {:?}: {why}", hook.name);
                if !hook.ignores_failures {
                    observe(code, Some(ErrorType::CallingWebhook));
                    tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing closed");
                    return Err(Status::internal(why));
                }
                observe(code, None);
                self.meter.failed_open(&hook.name);
                tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
                match attributes.deadline {
                    // The request has timed out.
                    Some(deadline) if deadline <= self.env.now() => Err(Status::timed_out()),
                    _ => Ok(FailureIgnored(true)),
                }
            }
            Failure::Denied(status) => {
                observe(status.code, Some(ErrorType::None));
                Err(status)
            }
            Failure::Other(status) => {
                observe(0, Some(ErrorType::ApiserverInternal));
                Err(status)
            }
        }
    }
}

/// True if a webhook failed and its failure policy is Ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureIgnored(pub bool);

/// Returns the name of the webhook in a trace.
fn name_of(hook: &Hook) -> String {
    format!("webhook {} of {}", hook.name, hook.configuration)
}

fn not_called(why: String, code: u16) -> Failure {
    Failure::Calling(format!("failed to call webhook: {why}"), code)
}
