//! ValidatingAdmissionPolicy: rejects writes that policies deny, warns of them, or adds audit annotations.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy/validating.

pub mod definition;
#[cfg(test)]
mod tests;

use super::FailurePolicy;
use super::binding::Binding;
use super::params;
use super::source::{PolicyHook, PolicySource};
use super::view::View;
use crate::dynamic::expressions::{Authorizer, ExpressionError};
use crate::dynamic::matching::is_hidden_from_policies;
use crate::metrics::policies::PolicyMeters;
use crate::traced::{HookDecision, TracedHook};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use component_base::env::Env;
use definition::{Decision, Definition, Evaluation, Outcome};
use proto::Status;
use proto::meta::status::Cause;
use request::trace::Gate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "ValidatingAdmissionPolicy";
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

pub struct ValidatingAdmissionPolicy {
    env: Env,
    authorizer: Arc<dyn Authorizer>,
    source: PolicySource<Definition>,
    meters: PolicyMeters,
}

/// Value of the audit annotation for a failed validation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

/// A rejection by a policy.
struct Refusal {
    policy: String,
    /// `None` if the policy itself is misconfigured.
    binding: Option<String>,
    message: String,
    reason: String,
}

/// State of one write over all policies.
struct Pass<'a> {
    plugin: &'a ValidatingAdmissionPolicy,
    attributes: &'a Attributes<'a>,
    view: View<'a>,
    refusals: Vec<Refusal>,
}

impl ValidatingAdmissionPolicy {
    pub fn new(env: &Env, authorizer: Arc<dyn Authorizer>) -> Self {
        let meters = PolicyMeters::of_validation(env);
        Self { env: env.clone(), authorizer, source: PolicySource::default(), meters }
    }
}

#[async_trait]
impl AdmissionPlugin for ValidatingAdmissionPolicy {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if is_hidden_from_policies(attributes) {
            return Ok(());
        }
        let hooks = self.source.hooks(attributes.lookup)?;
        if hooks.is_empty() {
            return Ok(());
        }
        let view = View::new(&self.authorizer);
        let mut pass = Pass { plugin: self, attributes, view, refusals: Vec::new() };
        for hook in hooks.iter() {
            pass.ask(hook).await?;
        }
        match pass.refusals.into_iter().next() {
            Some(first) => Err(first.status(attributes)),
            None => Ok(()),
        }
    }
}

impl Pass<'_> {
    async fn ask(&mut self, hook: &PolicyHook<Definition>) -> Result<(), Status> {
        let (attributes, definition) = (self.attributes, &hook.definition);
        let version = match definition.matching.matched(attributes).await {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(hook, None, &status.message);
                return Ok(());
            }
        };
        let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in &hook.bindings {
            match binding.matching.matched(attributes).await {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(status) => {
                    self.misconfigured(hook, Some(binding), &status.message);
                    continue;
                }
            }
            let params = params::collect(attributes, definition.param_kind.as_ref(), binding.param_ref.as_ref()).await;
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(hook, Some(binding), &why);
                    continue;
                }
            };
            let activation = match self.view.activation(attributes, version).await {
                Ok(activation) => activation,
                Err(status) => {
                    self.misconfigured(hook, None, &format!("failed to convert object version: {}", status.message));
                    continue;
                }
            };
            let namespace = self.view.namespace(attributes).await?;
            let started = self.plugin.env.now();
            let now = || self.plugin.env.now().duration_since(started);
            let said: Vec<Evaluation> = params
                .iter()
                .map(|params| definition.evaluate(&activation.with_params(params), namespace, &now))
                .collect();
            if attributes.steps.is_some() {
                self.trace(hook, binding, &said);
            }
            for said in said {
                self.follow(hook, binding, said, &mut notes);
            }
        }
        for (key, values) in notes {
            attributes.annotate(format!("{}/{key}", hook.name), values.join(", "));
        }
        Ok(())
    }

    /// Records the results of a binding in the trace of the request.
    fn trace(&self, hook: &PolicyHook<Definition>, binding: &Binding, said: &[Evaluation]) {
        let overlooks_errors = hook.definition.failure_policy == FailurePolicy::Ignore;
        let (mut objections, mut overlooked) = (Vec::new(), Vec::new());
        for decision in said.iter().flat_map(|said| &said.decisions) {
            match &decision.outcome {
                Outcome::Admit => {}
                Outcome::Error(why) if overlooks_errors => overlooked.push(why.to_string()),
                Outcome::Error(why) => objections.push(why.to_string()),
                Outcome::Deny(why, _) => objections.push(why.clone()),
            }
        }
        let refuses = binding.actions.iter().any(|action| action == "Deny");
        let name = format!("policy {} by {}", hook.name, binding.name);
        if !overlooked.is_empty() {
            self.attributes.record_ignored_failure(traced_hook(&name), &overlooked.join("; "), None);
        }
        let why = format!("{}: {}", binding.actions.join(", "), objections.join("; "));
        let decision = match (objections.is_empty(), refuses) {
            (true, _) if !overlooked.is_empty() => return,
            (true, _) => HookDecision::Admits,
            (false, false) => HookDecision::AdmitsDespite(&why),
            (false, true) => HookDecision::Refuses(&why),
        };
        self.attributes.record_hook(traced_hook(&name), None, decision, None);
    }

    /// Handles a misconfigured policy by its failure policy.
    fn misconfigured(&mut self, hook: &PolicyHook<Definition>, binding: Option<&Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let why = format!("failed to configure {what}: {why}");
        if hook.definition.failure_policy == FailurePolicy::Ignore {
            let by = binding.map(|binding| format!(" by {}", binding.name)).unwrap_or_default();
            let name = format!("policy {}{by}", hook.name);
            return self.attributes.record_ignored_failure(traced_hook(&name), &why, None);
        }
        self.refuse(hook, binding, why, "Invalid");
    }

    fn refuse(&mut self, hook: &PolicyHook<Definition>, binding: Option<&Binding>, message: String, reason: &str) {
        let binding = binding.map(|binding| binding.name.clone());
        self.refusals.push(Refusal { policy: hook.name.clone(), binding, message, reason: reason.to_owned() });
    }

    /// Applies the validation actions of a binding to the results with one parameter.
    fn follow(
        &mut self,
        hook: &PolicyHook<Definition>,
        binding: &Binding,
        said: Evaluation,
        notes: &mut BTreeMap<String, Vec<String>>,
    ) {
        for decision in said.decisions {
            self.decide(hook, binding, decision);
        }
        for noted in said.notes {
            match noted.value {
                Ok(value) => {
                    let values = notes.entry(noted.key).or_default();
                    let value = shortened(&value, MAX_ANNOTATION_BYTES).to_owned();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Err(why) => {
                    self.count(hook, binding, "deny", Some(&why), noted.elapsed);
                    self.refuse(hook, Some(binding), why.to_string(), "Invalid");
                }
            }
        }
    }

    fn decide(&mut self, hook: &PolicyHook<Definition>, binding: &Binding, decision: Decision) {
        let Decision { place, outcome, elapsed } = decision;
        let (message, reason, error) = match outcome {
            Outcome::Admit => return,
            Outcome::Error(why) if hook.definition.failure_policy == FailurePolicy::Ignore => {
                return self.count(hook, binding, "allow", Some(&why), elapsed);
            }
            Outcome::Error(why) => (why.to_string(), "Invalid".to_owned(), Some(why)),
            Outcome::Deny(message, reason) => (message, reason, None),
        };
        let error = error.as_ref();
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => {
                    self.refuse(hook, Some(binding), message.clone(), &reason);
                    self.count(hook, binding, "deny", error, elapsed);
                }
                "Warn" => {
                    self.attributes.warnings.add(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        hook.name, binding.name
                    ));
                    self.count(hook, binding, "warn", error, elapsed);
                }
                "Audit" => {
                    let failure = ValidationFailure {
                        message: &message,
                        policy: &hook.name,
                        binding: &binding.name,
                        expression_index: place,
                        validation_actions: &binding.actions,
                    };
                    let value = serde_json::to_string(&[failure]).expect("texts and numbers are JSON");
                    self.attributes.annotate(FAILURE_ANNOTATION, value);
                    self.count(hook, binding, "audit", error, elapsed);
                }
                // An action of a later release.
                _ => {}
            }
        }
    }

    fn count(
        &self,
        hook: &PolicyHook<Definition>,
        binding: &Binding,
        action: &'static str,
        error: Option<&ExpressionError>,
        elapsed: Duration,
    ) {
        let error_type = error.map(ExpressionError::error_type);
        self.plugin.meters.observe(&hook.name, &binding.name, error_type, Some(action), elapsed);
    }
}

impl Refusal {
    fn status(self, attributes: &Attributes<'_>) -> Status {
        let by = match self.binding {
            Some(binding) => format!("ValidatingAdmissionPolicy '{}' with binding '{binding}'", self.policy),
            None => format!("ValidatingAdmissionPolicy '{}'", self.policy),
        };
        let message = format!("{by} denied request: {}", self.message);
        let mut status = attributes.forbidden(&message);
        status.code = match self.reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status.reason = self.reason;
        let details = status.details.get_or_insert_default();
        details.causes.push(Cause { message, ..Cause::default() });
        status
    }
}

/// Returns the policy as a trace names it.
fn traced_hook(name: &str) -> TracedHook<'_> {
    TracedHook { gate: Gate::ValidatingAdmission, plugin: NAME, name }
}

/// Truncates a text to at most `max_bytes`, at a character boundary.
fn shortened(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
