//! Admission: plugins that change or reject a write after it is authorized and before it is stored.
//!
//! Each plugin of the [`chain`] may first mutate the object; then each may validate it. Objects are in the request's version.
//!
//! Reading order: [`Attributes`], [`AdmissionPlugin`] and [`Chain`] below; [`reinvocation`], the second mutating round;
//! [`plugins`], the compiled-in plugins; [`dynamic`], webhooks and policies; [`configuration`] and [`chain`], the table of
//! all plugins and how they are built. Corresponds to k8s.io/apiserver/pkg/admission.

pub mod operation;
pub mod versions;
pub mod reinvocation;
mod traced;
pub mod metrics;

pub mod plugins;
pub mod dynamic;

pub mod configuration;
pub mod parts;
pub mod chain;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use operation::Operation;
pub use reinvocation::Reinvocation;
pub use versions::Versions;

use crate::metrics::chain::{AdmissionMeter, Half};
use async_trait::async_trait;
use cacher::lookup::Lookup;
use component_base::env::Env;
use component_base::rng::Random;
use jiff::Timestamp;
use parking_lot::Mutex;
use patch::apply::keep_readable_record;
use proto::resources::Served;
use proto::{Gvr, Status};
use request::UserInfo;
use request::trace::{Gate, Steps};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use traced::BeforePlugin;

/// Writes the usage of quotas, the only objects that a plugin stores.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Stores a ResourceQuota with new usage; returns false if its `resourceVersion` is outdated.
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status>;
}

/// One write, as plugins see it.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// The version of the request, with its kind, group and resource.
    pub served: &'a Served,
    /// All served versions of the resource.
    pub versions: &'a dyn Versions,
    /// Empty for a write of the object itself.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty until a name is generated.
    pub name: &'a str,
    /// The new object, or the body of a subresource (Binding, Eviction); `None` for a deletion.
    pub object: Option<&'a mut Value>,
    /// `None` for a creation.
    pub old_object: Option<&'a Value>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as the request gave them.
    pub options: &'a Value,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    pub now: Timestamp,
    /// Time at which the request times out.
    pub deadline: Option<Instant>,
    pub reinvocation: Reinvocation,
    pub random: &'a Random,
    pub lookup: &'a dyn Lookup,
    pub quotas: &'a dyn QuotaStore,
    pub warnings: Warnings,
    pub annotations: Annotations,
    /// Steps of the request's trace, if it is traced.
    pub steps: Option<&'a Steps>,
}

/// Warnings for the `Warning` headers of the response, from mutating and validating plugins.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn add(&self, warning: impl Into<String>) {
        self.0.lock().push(warning.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Annotations of the audit event, by key. The first value of a key counts.
#[derive(Debug, Default)]
pub struct Annotations(Mutex<BTreeMap<String, String>>);

impl Annotations {
    pub fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Stands for an object that does not exist.
static NOTHING: Value = Value::Null;

impl Attributes<'_> {
    /// Replaces the object by the result of a webhook or policy. `managedFields` stay as they were if the new ones are invalid.
    pub fn replace_object(&mut self, mut changed: Value) {
        let Some(object) = self.object.as_deref_mut() else { return };
        if let Err(why) = keep_readable_record(object, &mut changed) {
            self.warnings.add(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            ));
        }
        *object = changed;
    }

    /// Returns the new object, or null.
    pub fn new_object(&self) -> &Value {
        self.object.as_deref().unwrap_or(&NOTHING)
    }

    /// Returns the old object, or null.
    pub fn old(&self) -> &Value {
        self.old_object.unwrap_or(&NOTHING)
    }

    /// Adds an annotation to the audit event.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.0.lock().entry(key.into()).or_insert_with(|| value.into());
    }

    /// Returns the request's name or else the object's; empty until a name is generated.
    pub fn object_name(&self) -> &str {
        match self.name {
            "" => self.new_object().pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            name => name,
        }
    }

    /// Returns the namespace as webhooks and policies see it: a Namespace is in itself.
    pub fn namespace_name(&self) -> &str {
        let is_namespace = self.served.group.is_empty() && self.served.resource == "namespaces";
        if is_namespace { self.object_name() } else { self.namespace }
    }

    pub fn gvr(&self) -> Gvr {
        self.served.gvr()
    }

    /// Tells whether the write is of that resource itself, not of a subresource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.served.group == group && self.served.resource == resource
    }

    /// Returns the object's name, or a placeholder until one is generated.
    pub fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let meta = |key: &str| self.object.as_deref()?.get("metadata")?.get(key)?.as_str().filter(|s| !s.is_empty());
        meta("name").or_else(|| meta("generateName")).unwrap_or("Unknown")
    }

    /// Returns 403 `pods "web" is forbidden: why`.
    pub fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.served.group, &self.served.resource, self.shown_name(), why)
    }
}

/// One admission plugin.
#[async_trait]
pub trait AdmissionPlugin: Send + Sync {
    /// Mutates the object, or rejects the write.
    async fn admit(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
    /// Rejects the write, or not. The object is the one that will be stored.
    async fn validate(&self, _attributes: &Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// One plugin of the chain, with the operations that it handles.
#[derive(Clone)]
pub struct Link {
    pub name: &'static str,
    pub looks_at: &'static [Operation],
    pub plugin: Arc<dyn AdmissionPlugin>,
    pub meter: AdmissionMeter,
}

/// The mutating or the validating half of the chain, over one write.
enum Pass<'a, 'w> {
    Admit(&'a mut Attributes<'w>),
    Validate(&'a Attributes<'w>),
}

impl<'w> Pass<'_, 'w> {
    fn half(&self) -> Half {
        match self {
            Self::Admit(_) => Half::Admit,
            Self::Validate(_) => Half::Validate,
        }
    }

    fn gate(&self) -> Gate {
        match self {
            Self::Admit(_) => Gate::MutatingAdmission,
            Self::Validate(_) => Gate::ValidatingAdmission,
        }
    }

    fn attributes(&self) -> &Attributes<'w> {
        match self {
            Self::Admit(attributes) => attributes,
            Self::Validate(attributes) => attributes,
        }
    }

    /// Copies the object before a plugin runs, if the request is traced.
    fn before(&self) -> Option<BeforePlugin> {
        self.attributes().before_plugin()
    }

    fn after(&self, before: BeforePlugin, name: &str, outcome: &Result<(), Status>) {
        self.attributes().record_plugin(before, self.gate(), name, outcome);
    }
}

/// The plugins in their order.
#[derive(Clone)]
pub struct Chain {
    env: Env,
    links: Vec<Link>,
    steps: AdmissionMeter,
}

impl Chain {
    pub fn new(env: &Env, links: Vec<Link>) -> Self {
        Self { env: env.clone(), links, steps: AdmissionMeter::of_step(env) }
    }

    fn looking_at(&self, operation: Operation) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.looks_at.contains(&operation))
    }

    /// Runs the mutating half. It runs a second time if a webhook or policy asks to be reinvoked after later changes.
    pub async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let began = self.env.now();
        let mut outcome = self.pass(attributes.operation, Pass::Admit(attributes)).await;
        if outcome.is_ok() && attributes.reinvocation.begin_again() {
            outcome = self.pass(attributes.operation, Pass::Admit(attributes)).await;
        }
        self.measured(&self.steps, attributes.operation, Half::Admit, &outcome, began);
        outcome
    }

    pub async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let began = self.env.now();
        let outcome = self.pass(attributes.operation, Pass::Validate(attributes)).await;
        self.measured(&self.steps, attributes.operation, Half::Validate, &outcome, began);
        outcome
    }

    /// Runs one plugin after the other, until one rejects the write.
    async fn pass(&self, operation: Operation, mut pass: Pass<'_, '_>) -> Result<(), Status> {
        let half = pass.half();
        let (mut began, mut outcome) = (self.env.now(), Ok(()));
        for link in self.looking_at(operation) {
            let before = pass.before();
            outcome = match &mut pass {
                Pass::Admit(attributes) => link.plugin.admit(attributes).await,
                Pass::Validate(attributes) => link.plugin.validate(attributes).await,
            };
            began = self.measured(&link.meter, operation, half, &outcome, began);
            if let Some(before) = before {
                pass.after(before, link.name, &outcome);
            }
            if outcome.is_err() {
                break;
            }
        }
        outcome
    }

    /// Records the duration since `began`. Returns the current time, at which the next measurement begins.
    fn measured(
        &self,
        meter: &AdmissionMeter,
        operation: Operation,
        half: Half,
        outcome: &Result<(), Status>,
        began: Instant,
    ) -> Instant {
        let now = self.env.now();
        meter.observe(operation, half, outcome.is_err(), now.duration_since(began));
        now
    }
}
