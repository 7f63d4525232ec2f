//! Environment variables and where their values come from.
//!
//! Corresponds to ValidateEnv and ValidateEnvFrom.

use crate::registry::validation::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::json;

fn nothing_invalid(at: &At<'_>, detail: &str, errors: &mut Errors) {
    errors.push(at.invalid_as(&json!(""), detail));
}

/// Anything printable but `=`.
fn variable_name(name: &str) -> Vec<String> {
    let fits = name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    if fits {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub fn variables(variables: &At<'_>, errors: &mut Errors) {
    for variable in variables.items() {
        variable.field("name").check_required(variable_name, errors);
        let from = variable.field("valueFrom");
        if from.is_set() {
            value_from(&from, !variable.field("value").is_empty(), errors);
        }
    }
}

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

fn value_from(from: &At<'_>, has_value: bool, errors: &mut Errors) {
    if from.field("fieldRef").is_set() {
        field_ref(&from.field("fieldRef"), VARIABLE_FIELDS, errors);
    }
    if from.field("resourceFieldRef").is_set() {
        resource_field_ref(&from.field("resourceFieldRef"), false, errors);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        let reference = from.field(source);
        if reference.is_set() {
            reference.field("name").check(names::dns1123_subdomain, errors);
            reference.field("key").check_required(names::config_map_key, errors);
        }
    }
    match SOURCES.iter().filter(|source| from.field(source).is_set()).count() {
        0 => nothing_invalid(
            from,
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            errors,
        ),
        _ if has_value => nothing_invalid(from, "may not be specified when `value` is not empty", errors),
        1 => {}
        _ => nothing_invalid(from, "may not have more than one field specified at a time", errors),
    }
}

/// Fields of a pod that a variable may show.
const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a pod that a downward API volume may show.
pub const VOLUME_FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"];

/// Labels that any selector of a pod's fields knows, even if no variable may show them.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.hostNetwork",
];

/// `metadata.labels['key']`
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, rest) = path.split_once("['")?;
    Some((field, rest.strip_suffix("']")?))
}

pub fn field_ref(reference: &At<'_>, allowed: &[&str], errors: &mut Errors) {
    let (version, path) = (reference.field("apiVersion"), reference.field("fieldPath"));
    if version.is_empty() {
        errors.push(version.required(""));
        return;
    }
    if path.is_empty() {
        errors.push(path.required(""));
        return;
    }
    if let Some((field, key)) = subscript(path.text()) {
        let complaints = match field {
            "metadata.annotations" => names::qualified_name(&key.to_lowercase()),
            "metadata.labels" => names::qualified_name(key),
            _ => {
                errors.push(path.invalid("does not support subscript"));
                return;
            }
        };
        errors.extend(complaints.into_iter().map(|complaint| path.invalid_as(&json!(key), complaint)));
        return;
    }
    let known =
        allowed.contains(&path.text()) || VARIABLE_FIELDS.contains(&path.text()) || KNOWN_FIELDS.contains(&path.text());
    if version.text() != "v1" {
        let version = version.text();
        errors.push(path.invalid(format!("error converting fieldPath: unsupported pod version: {version}")));
    } else if !known {
        let field = path.text();
        errors.push(path.invalid(format!("error converting fieldPath: field label not supported: {field}")));
    } else if !allowed.contains(&path.text()) {
        let mut supported = allowed.to_vec();
        supported.sort_unstable();
        errors.push(path.not_supported(&supported));
    }
}

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub fn resource_field_ref(reference: &At<'_>, in_volume: bool, errors: &mut Errors) {
    let (container, resource) = (reference.field("containerName"), reference.field("resource"));
    if in_volume && container.is_empty() {
        errors.push(container.required(""));
        return;
    }
    let is_huge = |text: &str| text.starts_with("limits.hugepages-") || text.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.text()) && !is_huge(resource.text()) {
        errors.push(resource.not_supported(RESOURCES));
    }
    divisor(reference, &resource, errors);
}

fn divisor(reference: &At<'_>, resource: &At<'_>, errors: &mut Errors) {
    let divisor = reference.field("divisor");
    let Ok(amount) = Quantity::try_from(divisor.value) else { return };
    if amount.is_zero() {
        return;
    }
    let among = |allowed: &[&str]| allowed.iter().any(|one| Quantity::parse(one).is_ok_and(|one| one == amount));
    let units = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (_, name) = resource.text().split_once('.').unwrap_or_default();
    let why = match name {
        "cpu" if !among(&["1m", "1"]) => "only divisor's values 1m and 1 are supported with the cpu resource",
        "memory" if !among(&units) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
        }
        "ephemeral-storage" if !among(&units) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
        }
        _ => return,
    };
    errors.push(divisor.invalid_as(&json!(resource.text()), why));
}

pub fn sources(sources: &At<'_>, errors: &mut Errors) {
    for source in sources.items() {
        if !source.field("prefix").is_empty() {
            source.field("prefix").check(variable_name, errors);
        }
        let references = ["configMapRef", "secretRef"].map(|name| source.field(name));
        for reference in references.iter().filter(|reference| reference.is_set()) {
            reference.field("name").check(names::dns1123_subdomain, errors);
        }
        match references.iter().filter(|reference| reference.is_set()).count() {
            0 => nothing_invalid(sources, "must specify one of: `configMapRef` or `secretRef`", errors),
            1 => {}
            _ => nothing_invalid(sources, "may not have more than one field specified at a time", errors),
        }
    }
}
