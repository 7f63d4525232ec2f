//! Admission: plugins that change or refuse a write after it is authorised and before it is stored.
//!
//! Mutating plugins run in the order of `chain`, then validating ones. Objects are in the request's version.
//! Corresponds to k8s.io/apiserver/pkg/admission.

pub mod operation;
pub mod versions;
pub mod reinvocation;
mod traced;
pub mod metrics;

// What asks outside of the server's own code: webhooks, and policies that users write.
pub mod dynamic;
pub mod plugins;

// Which plugins there are, and what they are made of.
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

/// The one thing that a plugin writes: what a quota has given out.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Stores a ResourceQuota with new usage; false if it is no longer at the version that it names.
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status>;
}

/// One write, as a plugin sees it.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// The version that the request speaks: its kind, group and resource.
    pub served: &'a Served,
    /// That version among the others of the resource.
    pub versions: &'a dyn Versions,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty while a name is still to be generated.
    pub name: &'a str,
    /// The new object, or a subresource's own body (Binding, Eviction); none for a deletion.
    pub object: Option<&'a mut Value>,
    /// None for a creation.
    pub old_object: Option<&'a Value>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as the request gave them.
    pub options: &'a Value,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    pub now: Timestamp,
    /// When whoever asked waits no longer.
    pub deadline: Option<Instant>,
    pub reinvocation: Reinvocation,
    pub random: &'a Random,
    pub lookup: &'a dyn Lookup,
    pub quotas: &'a dyn QuotaStore,
    pub warnings: Warnings,
    pub annotations: Annotations,
    /// Where a trace of the request is wanted.
    pub steps: Option<&'a Steps>,
}

/// Collected for the answer's `Warning` headers; validating plugins, too, may warn.
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

/// Collected for the audit log, by key; of two for one key the first counts.
#[derive(Debug, Default)]
pub struct Annotations(Mutex<BTreeMap<String, String>>);

impl Annotations {
    pub fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// What stands for an object that is not there.
static NOTHING: Value = Value::Null;

impl Attributes<'_> {
    /// Takes over what a plugin from outside has made of the object. A record of field managers that cannot be read any
    /// more stays as it was.
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

    /// The new object, or null.
    pub fn new_object(&self) -> &Value {
        self.object.as_deref().unwrap_or(&NOTHING)
    }

    /// The old object, or null.
    pub fn old(&self) -> &Value {
        self.old_object.unwrap_or(&NOTHING)
    }

    /// Notes for the audit log what the plugin decided, and why.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.0.lock().entry(key.into()).or_insert_with(|| value.into());
    }

    /// The request's name, or the object's own once it has one; empty while it is still to be generated.
    pub fn object_name(&self) -> &str {
        match self.name {
            "" => self.new_object().pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            name => name,
        }
    }

    /// The namespace as webhooks and policies see it: a Namespace is in itself.
    pub fn namespace_name(&self) -> &str {
        let is_namespace = self.served.group.is_empty() && self.served.resource == "namespaces";
        if is_namespace { self.object_name() } else { self.namespace }
    }

    pub fn gvr(&self) -> Gvr {
        self.served.gvr()
    }

    /// Whether the write is of that resource itself (not of a subresource).
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.served.group == group && self.served.resource == resource
    }

    /// The object's name, or what stands for it until one is generated.
    pub fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let meta = |key: &str| self.object.as_deref()?.get("metadata")?.get(key)?.as_str().filter(|s| !s.is_empty());
        meta("name").or_else(|| meta("generateName")).unwrap_or("Unknown")
    }

    /// 403 `pods "web" is forbidden: why`.
    pub fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.served.group, &self.served.resource, self.shown_name(), why)
    }
}

/// One admission plugin.
#[async_trait]
pub trait AdmissionPlugin: Send + Sync {
    /// May change the object.
    async fn admit(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
    /// Sees the object as it will be stored.
    async fn validate(&self, _attributes: &Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// One plugin of the chain.
#[derive(Clone)]
pub struct Link {
    pub name: &'static str,
    pub looks_at: &'static [Operation],
    pub plugin: Arc<dyn AdmissionPlugin>,
    pub meter: AdmissionMeter,
}

/// One half of the chain over one write.
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

    /// The object before a plugin sees it, where a trace is wanted.
    fn before(&self) -> Option<BeforePlugin> {
        self.attributes().before_plugin()
    }

    fn after(&self, before: BeforePlugin, name: &str, outcome: &Result<(), Status>) {
        self.attributes().after_plugin(before, self.gate(), name, outcome);
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

    /// A second time where a webhook or a policy asks for it, for what the ones after it have changed.
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

    /// Plugin by plugin, until one refuses.
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

    /// Answers the present, where the next measurement begins.
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
