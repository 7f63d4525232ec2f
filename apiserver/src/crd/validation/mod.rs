//! Every error of a CustomResourceDefinition at once.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation. As there, what all versions have in
//! common is named by the path that it had when a definition had one version: `spec.validation.openAPIV3Schema`.

mod conversion;
mod names;
mod paths;
mod rules;
mod schema;
mod structure;

use super::conditions::ESTABLISHED;
use super::definition::{APPROVED, Definition, Version, is_protected_group};
use crate::registry::strategy::WriteContext;
use crate::registry::validation::at::{At, Errors};
use proto::meta::names::{dns1035_label, dns1123_subdomain};
use proto::schema::structural::formats;
use serde_json::{Value, json};

/// A new definition, metadata aside.
pub fn create(_context: &WriteContext<'_>, object: &At<'_>, errors: &mut Errors) {
    let definition = Definition(object.value);
    let expected = format!("{}.{}", definition.names().plural(), definition.group());
    let name = object.down("metadata.name");
    if name.text() != expected {
        errors.push(name.invalid_text("must be spec.names.plural+\".\"+spec.group"));
    }
    check_spec(object, errors);
    check_stored_versions(object, errors);
    let annotation = object.down("metadata.annotations").key(APPROVED);
    if is_protected_group(definition.group()) && annotation.text().is_empty() {
        errors.push(annotation.required(&format!(
            "protected groups must have approval annotation \"{APPROVED}\", see https://github.com/kubernetes/enhancements/pull/1111"
        )));
    }
}

pub fn update(_context: &WriteContext<'_>, object: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if object.field("spec").value != old.field("spec").value {
        check_spec(object, errors);
    }
    if Definition(old.value).is_true(ESTABLISHED) {
        for path in ["spec.scope", "spec.names.kind"] {
            object.down(path).check_unchanged(&old.down(path), errors);
        }
    }
    for path in ["spec.group", "spec.names.plural"] {
        object.down(path).check_unchanged(&old.down(path), errors);
    }
    check_stored_versions(object, errors);
}

/// The storage version is one in which objects may be stored from now on.
pub fn note_storage_version(_context: &WriteContext<'_>, definition: &mut Value) {
    let view = Definition(definition);
    let mut stored: Vec<String> = view.stored_versions().into_iter().map(str::to_owned).collect();
    let versions = view.versions();
    for name in versions.iter().filter(|version| version.is_storage()).map(Version::name).take(1) {
        if !stored.iter().any(|known| known == name) {
            stored.push(name.to_owned());
            definition["status"]["storedVersions"] = json!(stored);
            return;
        }
    }
}

/// Formats that nobody checks.
pub fn warnings(_context: &WriteContext<'_>, object: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let mut formats = Vec::new();
    for version in Definition(object.value).versions() {
        collect_formats(version.schema(), &mut formats);
    }
    formats.sort_unstable();
    formats.dedup();
    let unknown = formats.into_iter().filter(|format| !formats::KNOWN.contains(format));
    unknown.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn collect_formats<'v>(schema: &'v Value, formats: &mut Vec<&'v str>) {
    if let Some(format) = schema.get("format").and_then(Value::as_str).filter(|format| !format.is_empty()) {
        formats.push(format);
    }
    for key in ["items", "additionalProperties", "not"] {
        schema.get(key).into_iter().for_each(|inner| collect_formats(inner, formats));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        branches.for_each(|inner| collect_formats(inner, formats));
    }
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.for_each(|(_, inner)| collect_formats(inner, formats));
}

fn check_spec(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let definition = Definition(object.value);
    let versions = definition.versions();
    let group = spec.field("group");
    if group.text().is_empty() {
        errors.push(group.required(""));
    } else {
        let before = errors.len();
        group.check(dns1123_subdomain, errors);
        if errors.len() == before && !group.text().contains('.') {
            errors.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    spec.field("scope").check_enum(&["Cluster", "Namespaced"], errors);
    if spec.field("preserveUnknownFields").is_true() {
        errors.push(spec.field("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    check_versions(&spec, &versions, errors);
    for (schema, prefix) in placed(&spec, &versions, "schema", "spec.validation") {
        if schema.field("openAPIV3Schema").is_set() {
            let at = At::new(format!("{prefix}.openAPIV3Schema"), schema.field("openAPIV3Schema").value);
            schema::check(&at, errors);
            if errors.iter().all(|error| !error.field.starts_with(&at.path)) {
                structure::check(&at, errors);
            }
            // A schema that is not sound has no types to compile against.
            if errors.iter().all(|error| !error.field.starts_with(&at.path)) {
                rules::check(&at, errors);
            }
        } else {
            errors.push(schema.field("openAPIV3Schema").required(""));
        }
    }
    for (parts, prefix) in placed(&spec, &versions, "subresources", "spec.subresources") {
        paths::check_subresources(&At::new(prefix, parts.value), errors);
    }
    for (columns, prefix) in placed(&spec, &versions, "additionalPrinterColumns", "spec.additionalPrinterColumns") {
        paths::check_columns(&At::new(prefix, columns.value), errors);
    }
    for (index, (fields, prefix)) in
        placed(&spec, &versions, "selectableFields", "spec.selectableFields").into_iter().enumerate()
    {
        let schema = versions.get(index).map_or(&Value::Null, Version::schema);
        paths::check_selectable(&At::new(prefix, fields.value), schema, errors);
    }
    names::check(&spec.field("names"), errors);
    conversion::check(&spec.field("conversion"), errors);
}

/// A part of every version with the path that errors name: one, where all versions have the same.
fn placed<'a>(spec: &At<'a>, versions: &[Version<'a>], key: &str, common: &str) -> Vec<(At<'a>, String)> {
    let all: Vec<At<'a>> = spec.field("versions").items().map(|version| version.field(key)).collect();
    let is_same = versions.windows(2).all(|pair| pair[0].part(key) == pair[1].part(key));
    match all.first() {
        // A part that is missing everywhere is missing in each.
        Some(first) if is_same && first.is_set() => vec![(first.clone(), common.to_owned())],
        _ => all.into_iter().map(|at| (at.clone(), at.path)).collect(),
    }
}

fn check_versions(spec: &At<'_>, versions: &[Version<'_>], errors: &mut Errors) {
    let list = spec.field("versions");
    for version in list.items() {
        version.field("name").check(dns1035_label, errors);
        let warning = version.field("deprecationWarning");
        if warning.is_set() {
            check_deprecation(&version, &warning, errors);
        }
    }
    let names: Vec<&str> = versions.iter().map(Version::name).collect();
    if (1..names.len()).any(|index| names[..index].contains(&names[index])) {
        errors.push(list.invalid("must contain unique version names"));
    }
    if versions.iter().filter(|version| version.is_storage()).count() != 1 {
        let shown = if list.is_set() { list.value } else { &json!([]) };
        errors.push(list.invalid_as(shown, "must have exactly one version marked as storage version"));
    }
    if let Some(first) = list.items().next() {
        let name = first.field("name");
        At::new("spec.version", name.value).check(dns1035_label, errors);
    }
}

fn check_deprecation(version: &At<'_>, warning: &At<'_>, errors: &mut Errors) {
    const MAX_BYTES: usize = 256;
    if !version.field("deprecated").is_true() {
        errors.push(warning.invalid("can only be set for deprecated versions"));
    }
    if warning.text().len() > MAX_BYTES {
        errors.push(warning.too_long(MAX_BYTES));
    }
    if warning.text().is_empty() {
        errors.push(warning.invalid("must not be an empty string"));
    }
    if warning.text().chars().any(char::is_control) {
        errors.push(warning.invalid("must only contain printable UTF-8 characters"));
    }
}

/// Versions in which objects may still be stored.
fn check_stored_versions(object: &At<'_>, errors: &mut Errors) {
    let definition = Definition(object.value);
    let stored = object.down("status.storedVersions");
    let versions = definition.versions();
    if stored.is_empty() {
        let shown = if stored.is_set() { stored.value } else { &Value::Null };
        errors.push(stored.invalid_as(shown, "must have at least one stored version"));
        return;
    }
    for version in stored.items() {
        let name = version.text();
        if !versions.iter().any(|known| known.name() == name) {
            errors.push(version.invalid(format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            )));
        }
    }
    let storage = versions.iter().rev().find(|version| version.is_storage());
    if let Some(storage) = storage.filter(|storage| !definition.stored_versions().contains(&storage.name())) {
        errors.push(stored.invalid(format!("must have the storage version {}", storage.name())));
    }
}
