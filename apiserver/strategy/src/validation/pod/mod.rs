//! Validates pods and pod templates.
//!
//! Corresponds to ValidatePodCreate, ValidatePodSpec and ValidatePodTemplateSpec of pkg/apis/core/validation.

pub mod app_armor;
pub mod qos;
pub mod affinity;
mod annotations;
pub mod containers;
pub mod env;
pub mod handlers;
mod projected;
pub mod resources;
pub mod security;
pub mod status;
pub mod update;
mod volume_sources;
pub mod volumes;
pub mod warnings;
pub mod windows;

use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, check_ip};
use proto::meta::names;
use resources::Claims;
use serde_json::json;

pub const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
pub const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Returns the containers of all kinds, in the order in which Kubernetes visits them.
fn all_containers<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| spec.field(list).items())
}

/// Validates a pod that is to be created.
pub fn pod(_context: &WriteContext<'_>, pod: &At<'_>, errors: &mut Errors) {
    pod_content(pod, errors);
    let spec = pod.field("spec");
    if !spec.field("ephemeralContainers").is_empty() {
        errors.push(spec.field("ephemeralContainers").forbidden("cannot be set on create"));
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        errors.push(spec.field("nodeName").forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    annotations::agree_with_fields(pod, errors);
}

/// Validates the annotations and the spec of a pod, as on every write.
pub fn pod_content(pod: &At<'_>, errors: &mut Errors) {
    let (meta, spec) = (pod.field("metadata"), pod.field("spec"));
    annotations::validate(&meta.field("annotations"), &spec, errors);
    pod_spec(&spec, Some(&meta), errors);
    if spec.field("serviceAccountName").is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.down("projected.sources").items() {
                if source.field("serviceAccountToken").is_set() {
                    let token = source.field("serviceAccountToken");
                    errors.push(token.forbidden("must not be specified when serviceAccountName is not set"));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.field(list).items().for_each(|container| containers::image_of_pod(&container, errors));
    }
}

/// Validates a complete pod template.
pub fn template(template: &At<'_>, errors: &mut Errors) {
    template_metadata(template, errors);
    let spec = template.field("spec");
    pod_spec(&spec, None, errors);
    if !spec.field("ephemeralContainers").is_empty() {
        errors.push(spec.field("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Validates the labels and annotations of a template. As in Kubernetes, their paths have no `metadata`.
pub fn template_metadata(template: &At<'_>, errors: &mut Errors) {
    let meta = template.field("metadata");
    let labels = At::new(template.path_of("labels"), meta.field("labels").value);
    labels.check_labels(errors);
    let annotations = At::new(template.path_of("annotations"), meta.field("annotations").value);
    super::object_meta::validate_annotations(&annotations, errors);
    annotations::validate(&annotations, &template.field("spec"), errors);
}

/// Validates the spec of a pod, or of a template if `meta` is `None`. Only a pod has a name, and other names that are
/// derived from it.
fn pod_spec(spec: &At<'_>, meta: Option<&At<'_>>, errors: &mut Errors) {
    let grace_period = spec.field("terminationGracePeriodSeconds");
    if !grace_period.is_set() {
        errors.push(grace_period.required(""));
    }
    let volumes = volumes::validate(&spec.field("volumes"), meta, errors);
    let claims = Claims::of(&spec.field("resourceClaims"), meta, errors);
    let shared = containers::Shared {
        volumes: &volumes,
        claims: &claims,
        grace_period_s: grace_period.integer(),
        restart_policy: spec.field("restartPolicy").text(),
        host_users: spec.field("hostUsers").value != false,
    };
    containers::regular(&spec.field("containers"), &shared, errors);
    containers::init(&spec.field("initContainers"), &spec.field("containers"), &shared, errors);
    containers::ephemeral(spec, &shared, errors);
    resources::of_pod(spec, &claims, errors);
    containers::host_network_ports(spec, meta.is_some(), errors);
    spec.field("restartPolicy").check_enum(RESTART_POLICIES, errors);
    spec.field("dnsPolicy").check_enum(DNS_POLICIES, errors);
    spec.field("nodeSelector").check_labels(errors);
    security::of_pod(spec, errors);
    affinity::validate(&spec.field("affinity"), errors);
    dns_config(spec, errors);
    gates(spec, errors);
    affinity::topology_spread(&spec.field("topologySpreadConstraints"), errors);
    windows::host_processes(spec, errors);
    security::host_users(spec, errors);
    host_name_override(spec, errors);
    scalars(spec, errors);
    tolerations(&spec.field("tolerations"), errors);
    host_aliases(&spec.field("hostAliases"), errors);
    if !spec.field("priorityClassName").is_empty() {
        spec.field("priorityClassName").check(names::dns1123_subdomain, errors);
    }
    if spec.field("runtimeClassName").is_set() {
        spec.field("runtimeClassName").check(names::dns1123_subdomain, errors);
    }
    if spec.field("preemptionPolicy").is_set() {
        spec.field("preemptionPolicy").check_enum(PREEMPTION_POLICIES, errors);
    }
    resources::of_overhead(&spec.field("overhead"), errors);
    windows::operating_system(spec, errors);
    env::file_volumes(spec, errors);
}

/// Maximum length of the DNS search paths, joined by spaces.
const MAX_SEARCH_CHARS: usize = 2048;

fn dns_config(spec: &At<'_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            errors.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
            return;
        }
    }
    if servers.len() > 3 {
        errors.push(servers.invalid("must not have more than 3 nameservers"));
    }
    servers.items().for_each(|server| check_ip(&server, errors));
    let searches = config.field("searches");
    if searches.len() > 32 {
        errors.push(searches.invalid("must not have more than 32 search paths"));
    }
    let chars = searches.items().map(|search| search.text().len() + 1).sum::<usize>();
    if chars > MAX_SEARCH_CHARS + 1 {
        let why =
            format!("must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list");
        errors.push(searches.invalid(why));
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let domain = search.text().strip_suffix('.').unwrap_or(search.text());
        let complaints = search_domain(domain);
        errors.extend(complaints.into_iter().map(|complaint| search.invalid_as(&json!(domain), complaint)));
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

/// Returns the errors of a DNS search domain. Its labels may have underscores.
fn search_domain(text: &str) -> Vec<String> {
    let outer = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label).as_bytes();
        label.first().is_some_and(|b| outer(*b))
            && label.last().is_some_and(|b| outer(*b))
            && label.iter().all(|b| outer(*b) || matches!(b, b'-' | b'_'))
    };
    let mut complaints = Vec::new();
    if text.len() > 253 {
        complaints.push("must be no more than 253 characters".to_owned());
    }
    if !text.split('.').all(label) {
        complaints.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    complaints
}

/// Checks the readiness gates and the scheduling gates.
fn gates(spec: &At<'_>, errors: &mut Errors) {
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").check(names::qualified_name, errors);
    }
    let mut seen = Vec::new();
    for gate in spec.field("schedulingGates").items() {
        // As in Kubernetes, the path is that of the gate, not of its field `name`.
        let name = At::new(gate.path.clone(), gate.field("name").value);
        name.check(names::qualified_name, errors);
        if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
    }
}

const MAX_HOST_NAME_BYTES: usize = 64;

fn host_name_override(spec: &At<'_>, errors: &mut Errors) {
    let name = spec.field("hostnameOverride");
    if !name.is_set() {
        return;
    }
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.field(field).is_true() {
            errors.push(name.forbidden(format!("may not be specified when {field} is true")));
        }
    }
    if name.len() > MAX_HOST_NAME_BYTES {
        errors.push(name.too_long(MAX_HOST_NAME_BYTES));
    }
    name.check(names::dns1123_subdomain, errors);
}

/// Checks the fields of a pod that hold a single name or number.
fn scalars(spec: &At<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        if !spec.field(field).is_empty() {
            spec.field(field).check(names::dns1123_subdomain, errors);
        }
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.integer().is_some_and(|s| !(1..=i64::from(i32::MAX)).contains(&s)) {
        errors.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    for field in ["hostname", "subdomain"] {
        if !spec.field(field).is_empty() {
            spec.field(field).check(names::dns1123_label, errors);
        }
    }
}

pub fn tolerations(tolerations: &At<'_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (value, effect) = (toleration.field("value"), toleration.field("effect"));
        if !key.is_empty() {
            key.check(names::qualified_name, errors);
        }
        if key.is_empty() && operator.text() != "Exists" {
            errors.push(operator.invalid_text(
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            errors.push(effect.invalid_text("effect must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator.text() {
            "" | "Equal" => {
                let complaints = names::label_value(value.text());
                if !complaints.is_empty() {
                    errors.push(operator.invalid_as(&json!(value.text()), complaints.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(operator.invalid_as(value.value, "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            // As in Kubernetes, the error lists `Lt` and `Gt` as supported, although their feature gate is off.
            "Lt" | "Gt" => errors.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"])),
            _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            effect.check_enum(TAINT_EFFECTS, errors);
        }
    }
}

fn host_aliases(aliases: &At<'_>, errors: &mut Errors) {
    for alias in aliases.items() {
        check_ip(&alias.field("ip"), errors);
        for hostname in alias.field("hostnames").items() {
            hostname.check(names::dns1123_subdomain, errors);
        }
    }
}

#[cfg(test)]
mod tests;
