//! Validates CustomResourceDefinitions, and returns all errors at once.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation. As there, errors in a part that all
//! versions share have the path that it had when a definition had one version: `spec.validation.openAPIV3Schema`.

mod conversion;
mod defaults;
mod names;
mod paths;
mod rules;
mod schema;
mod structure;

use super::conditions::{Approval, ESTABLISHED};
use super::definition::{APPROVED, Definition, Version, is_protected_group};
use proto::meta::go_text;
use proto::meta::names::{dns1035_label, dns1123_subdomain};
use proto::schema::structural::formats;
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};
use strategy::write_context::WriteContext;

/// Checks a new definition, except for its metadata.
pub fn create(_context: &WriteContext<'_>, object: &At<'_>, errors: &mut Errors) {
    let definition = Definition(object.value);
    let expected = format!("{}.{}", definition.names().plural(), definition.group());
    let name = object.down("metadata.name");
    if name.text() != expected {
        errors.push(name.invalid_text("must be spec.names.plural+\".\"+spec.group"));
    }
    // The webhook is not called before the definition is served, so its `caBundle` is not checked yet.
    check_spec(object, false, errors);
    names::check(&object.down("status.acceptedNames"), errors);
    check_stored_versions(object, errors);
    check_approval(object, None, errors);
    check_pruning(object, None, errors);
}

pub fn update(_context: &WriteContext<'_>, object: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let is_established = Definition(old.value).is_true(ESTABLISHED);
    if object.field("spec").value != old.field("spec").value {
        let bundle = old.down("spec.conversion.webhook.clientConfig.caBundle");
        check_spec(object, is_established && (bundle.is_empty() || conversion::is_bundle(bundle.text())), errors);
    }
    let fixed = if is_established { &["spec.scope", "spec.names.kind"][..] } else { &[] };
    for path in fixed.iter().chain(&["spec.group", "spec.names.plural"]) {
        object.down(path).check_unchanged(&old.down(path), errors);
    }
    names::check(&object.down("status.acceptedNames"), errors);
    check_stored_versions(object, errors);
    check_approval(object, Some(old), errors);
    check_pruning(object, Some(old), errors);
}

pub fn status(_context: &WriteContext<'_>, object: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    names::check(&object.down("status.acceptedNames"), errors);
}

/// Checks the approval of a definition in one of Kubernetes' own groups. An update may keep the old approval.
fn check_approval(object: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    let definition = Definition(object.value);
    let approval = Approval::of(definition.annotation(APPROVED));
    let before = old.map(|old| Approval::of(Definition(old.value).annotation(APPROVED)));
    if !is_protected_group(definition.group()) || before == Some(approval) {
        return;
    }
    let annotation = object.down("metadata.annotations").key(APPROVED);
    match approval {
        Approval::Missing => errors.push(annotation.required(&approval.message(annotation.text()))),
        Approval::Unreadable => errors.push(annotation.invalid(approval.message(annotation.text()))),
        Approval::Given | Approval::Bypassed => {}
    }
}

/// Refuses `preserveUnknownFields: true`, unless the old definition has it.
fn check_pruning(object: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    let keeps = object.down("spec.preserveUnknownFields");
    if keeps.is_true() && !old.is_some_and(|old| old.down("spec.preserveUnknownFields").is_true()) {
        errors.push(keeps.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

/// Adds the storage version to `status.storedVersions`.
pub fn record_storage_version(_context: &WriteContext<'_>, definition: &mut Value) {
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

/// Warns of formats that validation does not know.
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

fn check_spec(object: &At<'_>, checks_bundle: bool, errors: &mut Errors) {
    let spec = object.field("spec");
    let versions = Definition(object.value).versions();
    let group = spec.field("group");
    if group.is_empty() {
        errors.push(group.required(""));
    } else {
        let before = errors.len();
        names::check_joined(&group, dns1123_subdomain, errors);
        if errors.len() == before && !group.text().contains('.') {
            errors.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    spec.field("scope").check_enum(&["Cluster", "Namespaced"], errors);
    for version in spec.field("versions").items().filter(|version| !has_schema(version)) {
        errors.push(version.down("schema.openAPIV3Schema").required(""));
    }
    let keeps = spec.field("preserveUnknownFields").is_true();
    if keeps && versions.iter().any(|version| has_defaults(version.schema())) {
        errors
            .push(spec.field("preserveUnknownFields").invalid("must be false in order to use defaults in the schema"));
    }
    check_versions(&spec, &versions, errors);
    names::check_spec_names(&spec.field("names"), errors);
    if let Some(first) = spec.field("versions").items().next() {
        for part in PARTS.iter().filter(|part| part.is_common(&versions)) {
            (part.check)(&first, &first.field(part.key).shown_at(format!("spec.{}", part.common)), errors);
        }
    }
    let conversion = spec.field("conversion");
    let strategy = conversion.field("strategy");
    if conversion.is_set() && strategy.text() != "None" && keeps {
        errors.push(strategy.invalid_text("must be None if spec.preserveUnknownFields is true"));
    }
    conversion::check(&conversion, checks_bundle, errors);
}

/// A part of a version. If all versions have the same, it is checked once, at the path in `spec` that it had when a
/// definition had one version.
struct Part {
    key: &'static str,
    /// The path in `spec` for a part that all versions share.
    common: &'static str,
    /// Checks the part. The arguments are the version and the part.
    check: fn(&At<'_>, &At<'_>, &mut Errors),
}

const PARTS: [Part; 4] = [
    Part { key: "schema", common: "validation", check: check_schema },
    Part {
        key: "subresources",
        common: "subresources",
        check: |_, part, errors| paths::check_subresources(part, errors),
    },
    Part {
        key: "additionalPrinterColumns",
        common: "additionalPrinterColumns",
        check: |_, part, errors| paths::check_columns(part, errors),
    },
    Part {
        key: "selectableFields",
        common: "selectableFields",
        check: |version, part, errors| paths::check_selectable(part, Version(version.value).schema(), errors),
    },
];

impl Part {
    fn is_common(&self, versions: &[Version<'_>]) -> bool {
        let is_same = versions.windows(2).all(|pair| pair[0].part(self.key) == pair[1].part(self.key));
        is_same && versions.first().is_some_and(|first| !first.part(self.key).is_null())
    }
}

fn has_schema(version: &At<'_>) -> bool {
    version.down("schema.openAPIV3Schema").is_set()
}

fn has_defaults(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("default") && fields.contains_key("type") || fields.values().any(has_defaults)
        }
        Value::Array(items) => items.iter().any(has_defaults),
        _ => false,
    }
}

fn check_schema(version: &At<'_>, part: &At<'_>, errors: &mut Errors) {
    let root = part.field("openAPIV3Schema");
    if !root.is_set() {
        return;
    }
    if version.down("subresources.status").is_set() {
        schema::check_root_of_status(&root, errors);
    }
    if root.field("nullable").is_true() {
        errors.push(root.field("nullable").forbidden("nullable cannot be true at the root"));
    }
    if schema::is_too_deep(&root) {
        schema::check(&root, errors);
        return;
    }
    let before = errors.len();
    let is_unparsable = schema::is_unparsable(&root);
    if !is_unparsable {
        structure::check(&root, errors);
    }
    schema::check(&root, errors);
    if is_unparsable && errors.len() == before {
        // All other unsupported features have an error by now.
        errors.push(root.invalid_as(&json!(""), "OpenAPIV3Schema 'schema' is not supported"));
    }
    // Without a valid schema, expressions have no types to compile against.
    rules::check(&root, errors.len() == before, errors);
}

fn check_versions(spec: &At<'_>, versions: &[Version<'_>], errors: &mut Errors) {
    let list = spec.field("versions");
    for version in list.items() {
        names::check_joined(&version.field("name"), dns1035_label, errors);
        let warning = version.field("deprecationWarning");
        if warning.is_set() {
            check_deprecation(&version, &warning, errors);
        }
        for part in PARTS.iter().filter(|part| !part.is_common(versions)) {
            (part.check)(&version, &version.field(part.key), errors);
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
    if let Some(name) = list.items().next().map(|first| first.field("name")).filter(|name| !name.is_empty()) {
        names::check_joined(&At::new("spec.version", name.value), dns1035_label, errors);
    }
}

fn check_deprecation(version: &At<'_>, warning: &At<'_>, errors: &mut Errors) {
    const MAX_BYTES: usize = 256;
    if !version.field("deprecated").is_true() {
        errors.push(warning.invalid("can only be set for deprecated versions"));
        return;
    }
    if warning.text().len() > MAX_BYTES {
        errors.push(warning.invalid(format!("must be <= {MAX_BYTES} characters long")));
    }
    if warning.text().is_empty() {
        errors.push(warning.invalid("must not be an empty string"));
    }
    if let Some((index, _)) = warning.text().char_indices().find(|(_, char)| !go_text::is_printable(*char)) {
        errors.push(warning.invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        )));
    }
}

/// Checks `status.storedVersions`, the versions in which objects may be stored.
fn check_stored_versions(object: &At<'_>, errors: &mut Errors) {
    let definition = Definition(object.value);
    let stored = object.down("status.storedVersions");
    let versions = definition.versions();
    if stored.is_empty() {
        let shown = if stored.is_set() { stored.value } else { &Value::Null };
        errors.push(stored.invalid_as(shown, "must have at least one stored version"));
        return;
    }
    let names: Vec<&str> = stored.items().map(|version| version.text()).collect();
    for version in versions.iter().filter(|version| version.is_storage() && !names.contains(&version.name())) {
        errors.push(stored.invalid(format!("must have the storage version {}", version.name())));
    }
    for version in stored.items().filter(|stored| !versions.iter().any(|version| version.name() == stored.text())) {
        let name = version.text();
        errors.push(version.invalid(format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        )));
    }
}

#[cfg(test)]
mod tests;
