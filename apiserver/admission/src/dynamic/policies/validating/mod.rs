//! ValidatingAdmissionPolicy: refuses, warns of or notes what policies say no to.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy/validating.

pub mod definition;
#[cfg(test)]
mod tests;

use super::FailurePolicy;
use super::binding::Binding;
use super::params;
use super::source::{Hook, PolicySource};
use super::view::View;
use crate::dynamic::expressions::Authorizer;
use crate::dynamic::matching::is_hidden_from_policies;
use crate::metrics::policies::PolicyMeters;
use crate::traced::{Asked, Word};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use component_base::env::Env;
use definition::{Decision, Definition, Outcome, Said};
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

/// The value of the annotation that tells of a failure.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

/// Who refuses, and why.
struct Refusal {
    policy: String,
    /// `None`: the policy cannot be asked at all.
    binding: Option<String>,
    message: String,
    reason: String,
}

/// One write on its way through all policies.
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
    async fn ask(&mut self, hook: &Hook<Definition>) -> Result<(), Status> {
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
            let facts = match self.view.facts(attributes, version).await {
                Ok(facts) => facts,
                Err(status) => {
                    self.misconfigured(hook, None, &format!("failed to convert object version: {}", status.message));
                    continue;
                }
            };
            let namespace = self.view.namespace(attributes).await?;
            let started = self.plugin.env.now();
            let now = || self.plugin.env.now().duration_since(started);
            let said: Vec<Said> =
                params.iter().map(|params| definition.evaluate(&facts.with_params(params), namespace, &now)).collect();
            if attributes.steps.is_some() {
                self.tell(hook, binding, &said);
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

    /// For a trace of the request.
    fn tell(&self, hook: &Hook<Definition>, binding: &Binding, said: &[Said]) {
        let overlooks_errors = hook.definition.failure_policy == FailurePolicy::Ignore;
        let (mut objections, mut overlooked) = (Vec::new(), Vec::new());
        for decision in said.iter().flat_map(|said| &said.decisions) {
            match &decision.outcome {
                Outcome::Admit => {}
                Outcome::Error(why) if overlooks_errors => overlooked.push(why.as_str()),
                Outcome::Error(why) | Outcome::Deny(why, _) => objections.push(why.as_str()),
            }
        }
        let refuses = binding.actions.iter().any(|action| action == "Deny");
        let name = format!("policy {} by {}", hook.name, binding.name);
        if !overlooked.is_empty() {
            self.attributes.overlooked(asked(&name), &overlooked.join("; "), None);
        }
        let why = format!("{}: {}", binding.actions.join(", "), objections.join("; "));
        let word = match (objections.is_empty(), refuses) {
            (true, _) if !overlooked.is_empty() => return,
            (true, _) => Word::Admits,
            (false, false) => Word::Objects(&why),
            (false, true) => Word::Refuses(&why),
        };
        self.attributes.heard(asked(&name), None, word, None);
    }

    /// The policy cannot be asked.
    fn misconfigured(&mut self, hook: &Hook<Definition>, binding: Option<&Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let why = format!("failed to configure {what}: {why}");
        if hook.definition.failure_policy == FailurePolicy::Ignore {
            let by = binding.map(|binding| format!(" by {}", binding.name)).unwrap_or_default();
            let name = format!("policy {}{by}", hook.name);
            return self.attributes.overlooked(asked(&name), &why, None);
        }
        self.refuse(hook, binding, why, "Invalid");
    }

    fn refuse(&mut self, hook: &Hook<Definition>, binding: Option<&Binding>, message: String, reason: &str) {
        let binding = binding.map(|binding| binding.name.clone());
        self.refusals.push(Refusal { policy: hook.name.clone(), binding, message, reason: reason.to_owned() });
    }

    /// What follows from what the policy says with one parameter.
    fn follow(
        &mut self,
        hook: &Hook<Definition>,
        binding: &Binding,
        said: Said,
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
                    self.refuse(hook, Some(binding), why, "Invalid");
                }
            }
        }
    }

    fn decide(&mut self, hook: &Hook<Definition>, binding: &Binding, decision: Decision) {
        let Decision { place, outcome, elapsed } = decision;
        let (message, reason, error) = match outcome {
            Outcome::Admit => return,
            Outcome::Error(why) if hook.definition.failure_policy == FailurePolicy::Ignore => {
                return self.count(hook, binding, "allow", Some(&why), elapsed);
            }
            Outcome::Error(why) => (why.clone(), "Invalid".to_owned(), Some(why)),
            Outcome::Deny(message, reason) => (message, reason, None),
        };
        let error = error.as_deref();
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
                // A later release's.
                _ => {}
            }
        }
    }

    fn count(
        &self,
        hook: &Hook<Definition>,
        binding: &Binding,
        action: &'static str,
        error: Option<&str>,
        d: Duration,
    ) {
        self.plugin.meters.observe(&hook.name, &binding.name, error, Some(action), d);
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

/// For a trace of the request.
fn asked(name: &str) -> Asked<'_> {
    Asked { gate: Gate::ValidatingAdmission, plugin: NAME, name }
}

/// At most so many bytes, and whole characters.
fn shortened(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
