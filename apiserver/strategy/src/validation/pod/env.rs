//! Validates environment variables and the sources of their values.
//!
//! Corresponds to ValidateEnv and ValidateEnvFrom.

use super::all_containers;
use crate::validation::object_meta;
use crate::validation::paths::no_backsteps;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::json;

/// Adds an error that shows no value.
fn invalid_without_value(at: &At<'_>, detail: &str, errors: &mut Errors) {
    errors.push(at.invalid_as(&json!(""), detail));
}

/// Returns the error of a variable's name, which has to be printable ASCII without `=`.
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

/// Checks that a variable has exactly one source and no value beside it.
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
    let file = from.field("fileKeyRef");
    if file.is_set() {
        file.field("key").check_required(variable_name, errors);
        file.field("volumeName").check_required(names::dns1123_label, errors);
        if file.field("path").is_empty() {
            errors.push(file.field("path").required(""));
        }
        no_backsteps(&file.field("path"), errors);
    }
    match SOURCES.iter().filter(|source| from.field(source).is_set()).count() {
        0 => invalid_without_value(
            from,
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            errors,
        ),
        _ if has_value => invalid_without_value(from, "may not be specified when `value` is not empty", errors),
        1 => {}
        _ => invalid_without_value(from, "may not have more than one field specified at a time", errors),
    }
}

/// Checks that a `fileKeyRef` refers to a volume of the type emptyDir.
pub fn file_volumes(spec: &At<'_>, errors: &mut Errors) {
    for container in all_containers(spec) {
        for variable in container.field("env").items() {
            let name = variable.down("valueFrom.fileKeyRef.volumeName");
            if !variable.down("valueFrom.fileKeyRef").is_set() {
                continue;
            }
            let mut volumes = spec.field("volumes").items();
            match volumes.find(|volume| volume.field("name").text() == name.text()) {
                None => errors.push(At::new(name.path.clone(), &json!(name.text())).not_found()),
                Some(volume) if !volume.field("emptyDir").is_set() => {
                    errors.push(name.invalid_text("referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
}

/// Fields of a pod that a variable may have as its value.
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

/// Fields of a pod that a file of a downward API volume may hold.
pub const VOLUME_FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"];

/// Other fields that Kubernetes knows. A field that is known but not supported has an error of its own.
const KNOWN_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// Splits a path with a subscript, as in `metadata.labels['key']`, into field and key.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let (field, rest) = path.split_once("['")?;
    (!field.is_empty()).then_some((field, rest.strip_suffix("']")?))
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
    let unconverted = |why: String| path.invalid(format!("error converting fieldPath: {why}"));
    if version.text() != "v1" {
        errors.push(unconverted(format!("unsupported pod version: {}", version.text())));
        return;
    }
    if let Some((field, key)) = split_subscript(path.text()) {
        // As in Kubernetes, the path is that of the reference, not of its `fieldPath`.
        let complaints = match field {
            "metadata.annotations" => names::qualified_name(&key.to_lowercase()),
            "metadata.labels" => names::qualified_name(key),
            _ => {
                errors.push(unconverted(format!("field label does not support subscript: {}", path.text())));
                return;
            }
        };
        let key = if field == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        errors.extend(complaints.into_iter().map(|complaint| reference.invalid_as(&json!(key), complaint)));
        return;
    }
    // `spec.host` is the former name of `spec.nodeName`.
    let field = if path.text() == "spec.host" { "spec.nodeName" } else { path.text() };
    let known = VOLUME_FIELDS.contains(&field) || VARIABLE_FIELDS.contains(&field) || KNOWN_FIELDS.contains(&field);
    if !known {
        errors.push(unconverted(format!("field label not supported: {field}")));
    } else if !allowed.contains(&field) {
        let mut supported = allowed.to_vec();
        supported.sort_unstable();
        errors.push(At::new(path.path.clone(), &json!(field)).not_supported(&supported));
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
    let is_huge_page = |text: &str| text.starts_with("limits.hugepages-") || text.starts_with("requests.hugepages-");
    if in_volume && container.is_empty() {
        errors.push(container.required(""));
    } else if resource.is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.text()) && !is_huge_page(resource.text()) {
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
    let is_one_of = |allowed: &[&str]| allowed.iter().any(|one| Quantity::parse(one).is_ok_and(|one| one == amount));
    let units = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (_, name) = resource.text().split_once('.').unwrap_or_default();
    let why = match name {
        "cpu" if !is_one_of(&["1m", "1"]) => "only divisor's values 1m and 1 are supported with the cpu resource",
        "memory" if !is_one_of(&units) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
        }
        "ephemeral-storage" if !is_one_of(&units) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
        }
        name if name.starts_with("hugepages-") && !is_one_of(&units) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource"
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
            let name = reference.field("name");
            if name.is_empty() {
                errors.push(name.required(""));
                continue;
            }
            // As in Kubernetes, the name is checked as a `generateName`, which may end in a hyphen.
            let complaints = object_meta::subdomain(name.text(), true);
            errors.extend(complaints.into_iter().map(|complaint| name.invalid(complaint)));
        }
        match references.iter().filter(|reference| reference.is_set()).count() {
            0 => invalid_without_value(sources, "must specify one of: `configMapRef` or `secretRef`", errors),
            1 => {}
            _ => invalid_without_value(sources, "may not have more than one field specified at a time", errors),
        }
    }
}
