//! Pods and pod templates.
//!
//! Corresponds to ValidatePodCreate, ValidatePodSpec and ValidatePodTemplateSpec of pkg/apis/core/validation.

pub mod affinity;
pub mod containers;
pub mod env;
pub mod handlers;
pub mod resources;
pub mod security;
pub mod update;
pub mod volumes;
pub mod warnings;
pub mod windows;

use super::at::{At, Errors, check_ip};
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use resources::Claims;
use serde_json::json;

pub const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A pod that is to be created.
pub fn pod(_context: &WriteContext<'_>, pod: &At<'_>, errors: &mut Errors) {
    pod_content(pod, errors);
    let spec = pod.field("spec");
    if !spec.field("ephemeralContainers").is_empty() {
        errors.push(spec.field("ephemeralContainers").forbidden("cannot be set on create"));
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        errors.push(spec.field("nodeName").forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}

/// What holds for a pod at any time, its metadata aside.
pub fn pod_content(pod: &At<'_>, errors: &mut Errors) {
    let spec = pod.field("spec");
    pod_spec(&spec, HostPorts::Given, errors);
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
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            let image = container.field("image");
            if image.text().trim() != image.text() {
                errors.push(image.invalid("must not have leading or trailing whitespace"));
            }
        }
    }
}

/// A template on its own: what its controller adds to it has to stand in it already.
pub fn template(template: &At<'_>, errors: &mut Errors) {
    template_metadata(template, errors);
    let spec = template.field("spec");
    pod_spec(&spec, HostPorts::ToCome, errors);
    if !spec.field("ephemeralContainers").is_empty() {
        errors.push(spec.field("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Labels and annotations stand right below the template, as Kubernetes' own paths have it.
pub fn template_metadata(template: &At<'_>, errors: &mut Errors) {
    let meta = template.field("metadata");
    let labels = At::new(template.path_of("labels"), meta.field("labels").value);
    labels.check_labels(errors);
    let annotations = At::new(template.path_of("annotations"), meta.field("annotations").value);
    super::object_meta::validate_annotations(&annotations, errors);
}

/// Whether a pod on its node's network has its host ports already: a template may leave them to the pods' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPorts {
    Given,
    ToCome,
}

fn pod_spec(spec: &At<'_>, host_ports: HostPorts, errors: &mut Errors) {
    let grace_period_s = spec.field("terminationGracePeriodSeconds").integer().unwrap_or(0);
    let volumes = volumes::validate(&spec.field("volumes"), errors);
    let claims = Claims::of(&spec.field("resourceClaims"), errors);
    let shared = containers::Shared { volumes: &volumes, claims: &claims, grace_period_s };
    containers::regular(&spec.field("containers"), &shared, errors);
    containers::init(&spec.field("initContainers"), &spec.field("containers"), &shared, errors);
    containers::ephemeral(spec, &shared, errors);
    resources::of_pod(spec, &claims, errors);
    containers::host_network(spec, host_ports, errors);
    spec.field("restartPolicy").check_enum(RESTART_POLICIES, errors);
    spec.field("dnsPolicy").check_enum(DNS_POLICIES, errors);
    spec.field("nodeSelector").check_labels(errors);
    security::of_pod(&spec.field("securityContext"), errors);
    affinity::validate(&spec.field("affinity"), errors);
    dns_config(spec, errors);
    gates(spec, errors);
    affinity::topology_spread(&spec.field("topologySpreadConstraints"), errors);
    scalars(spec, errors);
    tolerations(&spec.field("tolerations"), errors);
    host_aliases(&spec.field("hostAliases"), errors);
    for (field, name) in [("priorityClassName", true), ("runtimeClassName", false)] {
        let at = spec.field(field);
        if (name && !at.is_empty()) || (!name && at.is_set()) {
            at.check(names::dns1123_subdomain, errors);
        }
    }
    spec.field("preemptionPolicy").check_optional_enum(&["PreemptLowerPriority", "Never"], errors);
    resources::quantities(&spec.field("overhead"), errors);
    security::unmasked_mounts(spec, errors);
    windows::host_processes(spec, errors);
    windows::of_system(spec, errors);
}

fn dns_config(spec: &At<'_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
        } else if servers.is_empty() {
            errors.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
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
    for search in searches.items().filter(|search| search.text() != ".") {
        let complaints = names::dns1123_subdomain(search.text().trim_end_matches('.'));
        errors.extend(complaints.into_iter().map(|complaint| search.invalid(complaint)));
    }
    for option in config.field("options").items() {
        if option.field("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn gates(spec: &At<'_>, errors: &mut Errors) {
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").check(names::qualified_name, errors);
    }
    let mut seen = Vec::new();
    for gate in spec.field("schedulingGates").items() {
        gate.field("name").check(names::qualified_name, errors);
        if seen.contains(&gate.field("name").text()) {
            errors.push(At::new(gate.path.clone(), gate.field("name").value).duplicate());
        }
        seen.push(gate.field("name").text());
    }
}

fn scalars(spec: &At<'_>, errors: &mut Errors) {
    for (field, check) in [
        ("serviceAccountName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns1123_subdomain),
    ] {
        if !spec.field(field).is_empty() {
            spec.field(field).check(check, errors);
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
        } else if operator.text() != "Exists" {
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
                errors.push(operator.invalid_as(toleration.value, "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
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
            let path = alias.path_of("hostnames");
            At::new(path, hostname.value).check(names::dns1123_subdomain, errors);
        }
    }
}
