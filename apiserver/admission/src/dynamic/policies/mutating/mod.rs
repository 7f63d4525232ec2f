//! MutatingAdmissionPolicy: mutates objects by apply configurations and JSON patches, which CEL expressions return.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy/mutating.

pub mod definition;
mod apply_configuration;
mod json_patch;
#[cfg(test)]
mod tests;

use super::FailurePolicy;
use super::params;
use super::source::{PolicyHook, PolicySource};
use super::view::View;
use crate::dynamic::admission_request::is_of_resource;
use crate::dynamic::expressions::{Authorizer, ExpressionError};
use crate::dynamic::matching::is_hidden_from_policies;
use crate::dynamic::versioned_attributes::{VersionedAttributes, decoded, restored};
use crate::metrics::policies::PolicyMeters;
use crate::traced::TracedHook;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use component_base::env::Env;
use definition::{Definition, Mutation};
use patch::apply::atoms::Type;
use patch::defaults::set_defaults;
use proto::Status;
use proto::meta::status::Cause;
use proto::resources::Served;
use proto::schema::decode;
use request::trace::Gate;
use serde_json::Value;
use std::sync::Arc;

const NAME: &str = "MutatingAdmissionPolicy";

pub struct MutatingAdmissionPolicy {
    env: Env,
    authorizer: Arc<dyn Authorizer>,
    source: PolicySource<Definition>,
    meters: PolicyMeters,
}

impl MutatingAdmissionPolicy {
    pub fn new(env: &Env, authorizer: Arc<dyn Authorizer>) -> Self {
        let meters = PolicyMeters::of_mutation(env);
        Self { env: env.clone(), authorizer, source: PolicySource::default(), meters }
    }
}

/// One evaluation: a policy, one of its bindings, and one parameter.
struct Invocation<'h> {
    hook: &'h PolicyHook<Definition>,
    binding: &'h str,
    params: Value,
    version: usize,
}

impl Invocation<'_> {
    /// Identifies the invocation among those of the write.
    fn key(&self) -> String {
        let of_params = |field: &str| self.params.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
        let [namespace, name] = ["namespace", "name"].map(|field| of_params(field).unwrap_or_default());
        format!("{}/{}/{namespace}/{name}", self.hook.name, self.binding)
    }
}

/// A policy whose evaluation failed.
struct Failure {
    message: String,
}

impl Failure {
    /// Returns `None` if the failure policy is Ignore, after recording the failure in the trace.
    fn of(
        hook: &PolicyHook<Definition>,
        binding: Option<&str>,
        attributes: &Attributes<'_>,
        why: &str,
    ) -> Option<Self> {
        let name = &hook.name;
        if hook.definition.failure_policy == FailurePolicy::Ignore {
            attributes.record_ignored_failure(traced_hook(&name_of(name, binding)), why, None);
            return None;
        }
        let message = match binding {
            Some(binding) => format!("policy '{name}' with binding '{binding}' denied request: {why}"),
            None => format!("policy \"{name}\" denied request: {why}"),
        };
        Some(Self { message })
    }
}

/// Returns the name of the policy in a trace.
fn name_of(policy: &str, binding: Option<&str>) -> String {
    let by = binding.map(|binding| format!(" by {binding}")).unwrap_or_default();
    format!("policy {policy}{by}")
}

fn traced_hook(name: &str) -> TracedHook<'_> {
    TracedHook { gate: Gate::MutatingAdmission, plugin: NAME, name }
}

#[async_trait]
impl AdmissionPlugin for MutatingAdmissionPolicy {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if is_hidden_from_policies(attributes) {
            return Ok(());
        }
        let hooks = self.source.hooks(attributes.lookup)?;
        if hooks.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::new();
        let mut invocations = Vec::new();
        for hook in hooks.iter() {
            invoked(hook, attributes, &mut invocations, &mut failures).await;
        }
        let mut pass = Pass { plugin: self, view: View::new(&self.authorizer), failures };
        attributes.reinvocation.begin(NAME, attributes.object.as_deref().unwrap_or(&Value::Null));
        for invocation in &invocations {
            let key = invocation.key();
            if attributes.reinvocation.is_due(NAME, &key) {
                let (before, failed) = (attributes.before_plugin(), pass.failures.len());
                let changed = pass.invoke(invocation, attributes).await?;
                if let Some(before) = before {
                    let failure = pass.failures.get(failed).map(|failure| failure.message.as_str());
                    let name = name_of(&invocation.hook.name, Some(invocation.binding));
                    attributes.record_policy(before, traced_hook(&name), failure);
                }
                let is_reinvoked = invocation.hook.definition.is_reinvoked;
                attributes.reinvocation.called(NAME, &key, changed, is_reinvoked);
            }
        }
        attributes.reinvocation.end(NAME, attributes.object.as_deref().unwrap_or(&Value::Null));
        if pass.failures.is_empty() { Ok(()) } else { Err(refused(attributes, pass.failures)) }
    }
}

/// Adds the invocations of a policy's bindings that match the write.
async fn invoked<'h>(
    hook: &'h PolicyHook<Definition>,
    attributes: &Attributes<'_>,
    invocations: &mut Vec<Invocation<'h>>,
    failures: &mut Vec<Failure>,
) {
    let definition = &hook.definition;
    let version = match definition.matching.matched(attributes).await {
        Ok(Some(version)) => version,
        Ok(None) => return,
        Err(status) => {
            let why = format!("failed to configure policy: {}", status.message);
            return failures.extend(Failure::of(hook, None, attributes, &why));
        }
    };
    for binding in &hook.bindings {
        let params = match binding.matching.matched(attributes).await {
            Ok(None) => continue,
            Ok(Some(_)) => {
                params::collect(attributes, definition.param_kind.as_ref(), binding.param_ref.as_ref()).await
            }
            Err(status) => Err(status.message),
        };
        match params {
            Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                hook,
                binding: &binding.name,
                params,
                version,
            })),
            Err(why) => {
                let why = format!("failed to configure binding: {why}");
                failures.extend(Failure::of(hook, Some(&binding.name), attributes, &why));
            }
        }
    }
}

/// State of one write over all policies.
struct Pass<'a> {
    plugin: &'a MutatingAdmissionPolicy,
    view: View<'a>,
    failures: Vec<Failure>,
}

impl Pass<'_> {
    /// Applies all mutations of a policy; tells whether the object has changed.
    async fn invoke(&mut self, invocation: &Invocation<'_>, attributes: &mut Attributes<'_>) -> Result<bool, Status> {
        let definition = &invocation.hook.definition;
        let activation = self.view.activation(attributes, invocation.version).await?.with_params(&invocation.params);
        match definition.applies(&activation) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                self.fail(invocation, attributes, &why.to_string());
                return Ok(false);
            }
        }
        let mut changed = false;
        for mutation in &definition.mutations {
            let began = self.plugin.env.now();
            let mutated = self.mutated(invocation, mutation, attributes).await?;
            let elapsed = self.plugin.env.now() - began;
            let error = mutated.as_ref().err().map(ExpressionError::error_type);
            self.plugin.meters.observe(&invocation.hook.name, invocation.binding, error, None, elapsed);
            match mutated {
                Ok(None) => {}
                Ok(Some(mutated)) => {
                    changed = true;
                    self.view.forget_objects();
                    attributes.replace_object(mutated);
                }
                Err(why) => self.fail(invocation, attributes, &why.to_string()),
            }
        }
        Ok(changed)
    }

    fn fail(&mut self, invocation: &Invocation<'_>, attributes: &Attributes<'_>, why: &str) {
        self.failures.extend(Failure::of(invocation.hook, Some(invocation.binding), attributes, why));
    }

    /// Applies one mutation to the result of the previous ones, in the version that the policy matched, and converts it back.
    /// Returns `None` if the object is the same.
    async fn mutated(
        &mut self,
        invocation: &Invocation<'_>,
        mutation: &Mutation,
        attributes: &Attributes<'_>,
    ) -> Result<Result<Option<Value>, ExpressionError>, Status> {
        if attributes.object.is_none() {
            return Ok(Ok(None));
        }
        let version = invocation.version;
        let namespace = self.view.namespace(attributes).await?.clone();
        let activation = self.view.activation(attributes, version).await?;
        let activation = activation.with_params(&invocation.params).with_namespace(&namespace);
        let seen = VersionedAttributes::of(attributes, version).await?;
        let served = &attributes.versions.all()[version];
        let is_of_resource = is_of_resource(served, attributes.subresource);
        let schema = if is_of_resource { Type::of(served.schema.schema()) } else { Type::DEDUCED };
        let mutated = match invocation.hook.definition.mutate(mutation, &activation, &seen.object, schema) {
            Ok(mutated) if mutated == *seen.object => return Ok(Ok(None)),
            Ok(mutated) => mutated,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = is_of_resource.then(|| mistake(served, &mutated)).flatten() {
            return Ok(Err(why.into()));
        }
        let mut mutated = decoded(attributes, version, mutated)?;
        if is_of_resource {
            set_defaults(served, &mut mutated);
        }
        restored(attributes, version, mutated).await.map(Some).map(Ok)
    }
}

/// Returns an unknown field or a value of the wrong type, if there is one.
fn mistake(served: &Served, object: &Value) -> Option<String> {
    match decode(&served.schema, object.clone()) {
        Ok(decoded) if decoded.strict_errors.is_empty() => None,
        Ok(decoded) => Some(format!("strict decoding error: {}", decoded.strict_errors.join(", "))),
        Err(error) => Some(error.0),
    }
}

fn refused(attributes: &Attributes<'_>, failures: Vec<Failure>) -> Status {
    let mut status = attributes.forbidden("admission request denied by policy");
    status.message = failures.first().map(|first| first.message.clone()).unwrap_or_default();
    // As in Kubernetes, the code stays 403.
    status.reason = "Invalid".to_owned();
    let causes = failures.into_iter().map(|failure| Cause { message: failure.message, ..Cause::default() });
    status.details.get_or_insert_default().causes.extend(causes);
    status
}
