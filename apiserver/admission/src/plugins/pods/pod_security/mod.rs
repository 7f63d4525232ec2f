//! PodSecurity: enforces the Pod Security Standards, by the labels of the namespace.
//!
//! Reading order: [`policy`] reads levels from labels, [`configuration`] the defaults and exemptions, [`checks`] finds the
//! violations of a pod.
//!
//! Corresponds to k8s.io/pod-security-admission/admission.

pub mod policy;
pub mod configuration;
mod setters;
pub mod checks;
#[cfg(test)]
mod tests;

use crate::plugins::pod_parts::{CONTAINER_FIELDS, containers, items, metadata_entry, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use checks::{Violation, violations};
use configuration::{Exemptions, PodSecurityConfiguration};
use policy::{Level, LevelVersion, PREFIX, Policy};
use proto::Status;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most existing pods that are checked when a namespace's level changes.
const MAX_EXISTING_PODS: usize = 3000;
/// Subresources of a pod that are not checked.
const IGNORED_SUBRESOURCES: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// Kinds with a pod template, and its path.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("", "replicationcontrollers", "/spec/template"),
    ("", "podtemplates", "/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("batch", "jobs", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

pub struct PodSecurity {
    /// Policy of namespaces without labels.
    defaults: Policy,
    exemptions: Exemptions,
}

impl PodSecurity {
    pub fn new(configuration: &PodSecurityConfiguration) -> Self {
        Self { defaults: configuration.defaults.policy(), exemptions: configuration.exemptions.clone() }
    }

    /// Tells whether the write is exempt by user, namespace or RuntimeClass, and annotates the audit event.
    fn exempts(&self, attributes: &Attributes<'_>, spec: &Value) -> bool {
        let class = spec["runtimeClassName"].as_str();
        let reason = self.exemptions.hold_for(&attributes.user.name, attributes.namespace, class);
        if let Some(reason) = reason {
            note(attributes, "exempt", reason);
        }
        reason.is_some()
    }
}

impl Default for PodSecurity {
    fn default() -> Self {
        Self::new(&PodSecurityConfiguration::default())
    }
}

#[async_trait]
impl AdmissionPlugin for PodSecurity {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.is("", "namespaces") {
            return self.namespace(attributes).await;
        }
        let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
        if (group, resource) == ("", "pods") {
            return self.pod(attributes).await;
        }
        let template = TEMPLATES.iter().find(|(g, r, _)| (*g, *r) == (group, resource)).map(|(_, _, at)| *at);
        match template.filter(|_| attributes.subresource.is_empty()) {
            Some(at) => self.controller(attributes, at).await,
            None => Ok(()),
        }
    }
}

impl PodSecurity {
    /// Checks a Namespace: changed labels must be valid. Existing pods that violate the new level cause a warning.
    async fn namespace(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let namespace = attributes.new_object();
        let name = text(namespace, "/metadata/name");
        let (new, errors) = Policy::of(namespace, &self.defaults);
        let is_update = attributes.operation == Operation::Update;
        let (old, old_errors) = Policy::of(attributes.old(), &self.defaults);
        if !errors.is_empty() && (!is_update || errors != old_errors) {
            return Err(Status::invalid("", "Namespace", name, &errors));
        }
        let is_stricter = new.enforce.version != old.enforce.version || new.enforce.level > old.enforce.level;
        if is_update && new.enforce.level != Level::Privileged && is_stricter {
            warn_of_existing(attributes, name, new.enforce).await?;
        }
        Ok(())
    }

    async fn policy_of(&self, attributes: &Attributes<'_>) -> Result<Policy, Status> {
        let (lookup, name) = (attributes.lookup, attributes.namespace);
        match lookup.find(ObjectKey::cluster("", "namespaces", name)).await? {
            Some(namespace) => {
                let (policy, errors) = Policy::of(&namespace.value(), &self.defaults);
                if !errors.is_empty() {
                    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    note(attributes, "error", format!("Failed to parse policy: {}", aggregate(&errors)));
                }
                Ok(policy)
            }
            None => Err(Status::internal(format_args!("failed to lookup namespace {name}"))),
        }
    }

    async fn pod(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if IGNORED_SUBRESOURCES.contains(&attributes.subresource) {
            return Ok(());
        }
        let pod = attributes.new_object();
        if attributes.operation == Operation::Update && !is_significant(pod, attributes.old()) {
            return Ok(());
        }
        if self.exempts(attributes, &pod["spec"]) {
            return Ok(());
        }
        let policy = self.policy_of(attributes).await?;
        note(attributes, "enforce-policy", policy.enforce.to_string());
        audit(attributes, policy.audit, pod);
        let found = violations(policy.enforce, &pod["metadata"], &pod["spec"]);
        if !found.is_empty() {
            let (level, details) = (policy.enforce, details(&found));
            return Err(attributes.forbidden(format_args!("violates PodSecurity \"{level}\": {details}")));
        }
        warn(attributes, policy.warn, pod);
        Ok(())
    }

    /// Checks the pod template of a workload. It is never rejected; its pods may be.
    async fn controller(&self, attributes: &Attributes<'_>, template: &str) -> Result<(), Status> {
        let Some(template) = attributes.new_object().pointer(template) else { return Ok(()) };
        if self.exempts(attributes, &template["spec"]) {
            return Ok(());
        }
        let policy = self.policy_of(attributes).await?;
        audit(attributes, policy.audit, template);
        warn(attributes, policy.warn, template);
        Ok(())
    }
}

async fn warn_of_existing(attributes: &Attributes<'_>, namespace: &str, enforce: LevelVersion) -> Result<(), Status> {
    let pods = attributes.lookup.list("", "pods", namespace)?;
    if pods.len() > MAX_EXISTING_PODS {
        attributes.warnings.add(format!(
            "new PodSecurity enforce level only checked against the first {MAX_EXISTING_PODS} of {} existing pods",
            pods.len()
        ));
    }
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods.iter().take(MAX_EXISTING_PODS) {
        let value = pod.peek();
        let found = violations(enforce, &value["metadata"], &value["spec"]);
        if !found.is_empty() {
            let reasons: Vec<&str> = found.iter().map(|violation| violation.reason).collect();
            by_reason.entry(reasons.join(", ")).or_default().push(&pod.index.name);
        }
    }
    if by_reason.is_empty() {
        return Ok(());
    }
    attributes.warnings.add(format!(
        "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
    ));
    let mut lines: Vec<String> = by_reason.iter().map(|(reason, pods)| line(reason, pods)).collect();
    lines.sort();
    for line in lines {
        attributes.warnings.add(line);
    }
    Ok(())
}

/// Formats the warning about pods with the same violations: the first name, and the number of others.
fn line(reason: &str, pods: &[&str]) -> String {
    match pods {
        [] => reason.to_owned(),
        [one] => format!("{one}: {reason}"),
        [first, _] => format!("{first} (and 1 other pod): {reason}"),
        [first, others @ ..] => format!("{first} (and {} other pods): {reason}", others.len()),
    }
}

fn warn(attributes: &Attributes<'_>, level: LevelVersion, pod: &Value) {
    if let Some(what) = would_violate(level, pod) {
        attributes.warnings.add(what);
    }
}

fn audit(attributes: &Attributes<'_>, level: LevelVersion, pod: &Value) {
    if let Some(what) = would_violate(level, pod) {
        note(attributes, "audit-violations", what);
    }
}

fn would_violate(level: LevelVersion, pod: &Value) -> Option<String> {
    let found = violations(level, &pod["metadata"], &pod["spec"]);
    (!found.is_empty()).then(|| format!("would violate PodSecurity \"{level}\": {}", details(&found)))
}

/// Adds an annotation to the audit event.
fn note(attributes: &Attributes<'_>, what: &str, value: impl Into<String>) {
    attributes.annotate(format!("{PREFIX}{what}"), value);
}

/// Joins errors as Go's `NewAggregate` does.
fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn details(found: &[Violation]) -> String {
    found.iter().map(|v| format!("{} ({})", v.reason, v.detail)).collect::<Vec<_>>().join(", ")
}

/// Tells whether an update can cause a violation: by images, new containers, or the old seccomp annotations.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let annotation = |key: &str| {
        let of = |object| metadata_entry(object, "annotations", key).unwrap_or_default().to_owned();
        of(pod) != of(old)
    };
    let count = |object: &Value, field: &str| items(&object["spec"], &format!("/{field}")).count();
    let is_changed = |container: &Value| {
        let name = text(container, "/name");
        let before = containers(&old["spec"]).find(|c| text(c, "/name") == name);
        before.is_none_or(|before| text(before, "/image") != text(container, "/image"))
            || annotation(&format!("{SECCOMP_CONTAINER}{name}"))
    };
    annotation(SECCOMP_POD)
        || CONTAINER_FIELDS.iter().any(|field| count(pod, field) != count(old, field))
        || containers(&pod["spec"]).any(is_changed)
}
