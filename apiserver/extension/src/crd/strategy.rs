//! `CustomStrategy`: prepares and validates custom resources before they are stored.
//!
//! An object arrives with the `apiVersion` of the storage version and the content of the request's version. It is validated
//! by the schema of the request's version. At the end, it is pruned by the schema of the storage version.
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/registry/customresource.

use super::embedded;
use super::rules::Rules;
use proto::meta::status::FieldError;
use proto::resources::{Conversion, Resource, Served};
use proto::schema::structural::{is_meta_field, lists, validate};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use strategy::Strategy;
use strategy::validation::at::{At, Errors};
use strategy::validation::object_meta;
use strategy::validation::restore::restore;
use strategy::write_context::WriteContext;

/// The strategy of the custom resources of one definition.
pub struct CustomStrategy {
    resource: Arc<Resource>,
    /// The compiled CEL rules of each version.
    rules: Vec<Option<Rules>>,
}

impl CustomStrategy {
    pub fn new(resource: Arc<Resource>) -> Self {
        let rules = resource.served.iter().map(|served| Rules::of(served.schema.structural()?)).collect();
        Self { resource, rules }
    }

    /// Checks the CEL rules, unless earlier errors show that the object may not fit its schema.
    fn check_rules(&self, served: &Served, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let version = self.resource.served.iter().position(|own| own.version == served.version);
        let Some(rules) = version.and_then(|version| self.rules[version].as_ref()) else { return };
        if errors.iter().any(|error| BLOCKING.contains(&error.reason)) {
            errors.push(FieldError::invalid(
                "<nil>",
                &json!("null"),
                "some validation rules were not checked because the object was invalid; correct the existing errors to \
                 complete validation",
            ));
            return;
        }
        errors.extend(rules.check(object, old, ""));
    }
}

/// Reasons of errors after which the CEL rules are not checked.
const BLOCKING: [&str; 5] =
    ["FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"];

fn has_status(served: &Served) -> bool {
    served.subresource("status").is_some()
}

/// Returns the fields whose changes increase `metadata.generation`.
fn content(served: &Served, object: &Value) -> Map<String, Value> {
    let mut content = object.as_object().cloned().unwrap_or_default();
    let is_excluded = |name: &str| is_meta_field(name) || (name == "status" && has_status(served));
    content.retain(|name, _| !is_excluded(name));
    content
}

/// Resets everything but the status, `managedFields` and `resourceVersion` to the old object.
fn keep_only_status(object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    match object.get_mut("status") {
        Some(status) => kept["status"] = status.take(),
        None => drop(kept.as_object_mut().and_then(|fields| fields.remove("status"))),
    }
    for field in ["managedFields", "resourceVersion"] {
        restore(&mut kept, object, &["metadata", field]);
    }
    *object = kept;
}

/// Returns a stored object in the request's version.
fn in_request_version(served: &Served, object: &Value) -> Value {
    match served.conversion {
        Conversion::Same => object.clone(),
        _ => served.from_storage(object.clone()),
    }
}

impl Strategy for CustomStrategy {
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) {
        if has_status(context.served) {
            drop(object.as_object_mut().and_then(|fields| fields.remove("status")));
        }
        object["metadata"]["generation"] = json!(1);
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) {
        if context.subresource == "status" {
            keep_only_status(object, old);
            return;
        }
        if has_status(context.served) {
            restore(object, old, &["status"]);
        }
        let before = in_request_version(context.served, old);
        if content(context.served, object) != content(context.served, &before) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let meta = At::new("metadata", &object["metadata"]);
        object_meta::validate(&meta, context.row.is_namespaced(), object_meta::subdomain, &mut errors);
        let Some(schema) = context.served.schema.structural() else { return errors };
        errors.extend(validate::validate(schema, object, "", None));
        check_scale(context.served, object, &mut errors);
        embedded::check(schema, object, "", &mut errors);
        errors.extend(lists::duplicates(schema, object));
        self.check_rules(context.served, object, None, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let (meta, old_meta) = (At::new("metadata", &object["metadata"]), At::new("metadata", &old["metadata"]));
        object_meta::validate(&meta, context.row.is_namespaced(), object_meta::path_segment, &mut errors);
        object_meta::validate_update(&meta, &old_meta, &mut errors);
        let Some(schema) = context.served.schema.structural() else { return errors };
        let old = in_request_version(context.served, old);
        if context.subresource == "status" {
            if let (Some(of_status), Some(status)) = (schema.properties.get("status"), object.get("status")) {
                errors.extend(validate::validate(of_status, status, "status", old.get("status")));
            }
        } else {
            errors.extend(validate::validate(schema, object, "", Some(&old)));
            check_scale(context.served, object, &mut errors);
        }
        embedded::check(schema, object, "", &mut errors);
        // Duplicates of the old object are allowed. Otherwise no update of it would be.
        if lists::duplicates(schema, &old).is_empty() {
            errors.extend(lists::duplicates(schema, object));
        }
        self.check_rules(context.served, object, Some(&old), &mut errors);
        errors
    }

    fn canonicalize(&self, object: &mut Value) {
        if self.resource.served.len() > 1 {
            *object = self.resource.storage_version().pruned(object.take());
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// Checks that the numbers of replicas in the scale subresource are not negative.
fn check_scale(served: &Served, object: &Value, errors: &mut Errors) {
    if served.subresource("scale").is_none() {
        return;
    }
    for path in [&served.scale.spec_replicas, &served.scale.status_replicas] {
        let at = path.iter().try_fold(object, |value, name| value.get(name));
        if at.and_then(Value::as_i64).is_some_and(|replicas| replicas < 0) {
            let at = At::new(format!(".{}", path.join(".")), at.unwrap_or(&Value::Null));
            errors.push(at.invalid("should be a non-negative integer"));
        }
    }
}
