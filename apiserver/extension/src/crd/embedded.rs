//! Validates objects that are embedded in custom resources: their apiVersion, kind and metadata.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.

use proto::meta::names;
use proto::schema::structural::Structural;
use proto::schema::structural::embedded;
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};
use strategy::validation::object_meta;

/// Checks every embedded object in `value`, which may be one itself. `base` is the path of `value`.
pub fn check(schema: &Structural, value: &Value, base: &str, errors: &mut Errors) {
    embedded::each(schema, value, &mut |path, object| {
        let dot = if base.is_empty() || path.is_empty() || path.starts_with('[') { "" } else { "." };
        check_object(&At::new(format!("{base}{dot}{path}"), object), errors);
    });
}

/// Checks one embedded object.
pub fn check_object(object: &At<'_>, errors: &mut Errors) {
    for (key, check) in [("apiVersion", api_version as fn(&At<'_>, &mut Errors)), ("kind", kind)] {
        let at = object.field(key);
        match at.value {
            Value::Null => errors.push(at.required("")),
            Value::String(text) if text.is_empty() => errors.push(at.required("")),
            Value::String(_) => check(&at, errors),
            _ => errors.push(at.invalid("must be a string")),
        }
    }
    if !object.value["metadata"].is_object() {
        return;
    }
    let mut metadata = object.value["metadata"].clone();
    if metadata["name"].as_str().is_none_or(str::is_empty) {
        metadata["name"] = json!("fakename"); // The name is optional.
    }
    let metadata = At::new(object.path_of("metadata"), &metadata);
    let is_namespaced = !metadata.field("namespace").is_empty();
    object_meta::validate(&metadata, is_namespaced, object_meta::path_segment, errors);
}

fn api_version(at: &At<'_>, errors: &mut Errors) {
    if at.text().matches('/').count() > 1 {
        errors.push(at.invalid(format!("unexpected GroupVersion string: {}", at.text())));
    }
}

fn kind(at: &At<'_>, errors: &mut Errors) {
    let complaints = names::dns1035_label(&at.text().to_lowercase());
    if !complaints.is_empty() {
        let why = complaints.join(",");
        errors.push(at.invalid(format!("may have mixed case, but should otherwise match: {why}")));
    }
}
