//! What happens to a custom resource on its way to the store.
//!
//! Objects arrive under the storage version's name and with the request version's content: they are validated by the
//! schema that their writer knows, and pruned by the stored one at last.
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

/// The strategy of one definition's objects.
pub struct CustomStrategy {
    resource: Arc<Resource>,
    /// Of each version.
    rules: Vec<Option<Rules>>,
}

impl CustomStrategy {
    pub fn new(resource: Arc<Resource>) -> Self {
        let rules = resource.served.iter().map(|served| Rules::of(served.schema.structural()?)).collect();
        Self { resource, rules }
    }

    /// Rules come last, and only over what has the form that they expect.
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

/// Errors after which a value may be none that rules can be asked about.
const BLOCKING: [&str; 5] =
    ["FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"];

fn has_status(served: &Served) -> bool {
    served.subresource("status").is_some()
}

/// The content whose changes count as generations.
fn content(served: &Served, object: &Value) -> Map<String, Value> {
    let mut content = object.as_object().cloned().unwrap_or_default();
    let is_apart = |name: &str| is_meta_field(name) || (name == "status" && has_status(served));
    content.retain(|name, _| !is_apart(name));
    content
}

/// The object as it was, with the new status and the new record of who owns it.
fn only_status(object: &mut Value, old: &Value) {
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

/// In the version that the request speaks.
fn shown(served: &Served, object: &Value) -> Value {
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
            only_status(object, old);
            return;
        }
        if has_status(context.served) {
            restore(object, old, &["status"]);
        }
        let before = shown(context.served, old);
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
        let old = shown(context.served, old);
        if context.subresource == "status" {
            if let (Some(of_status), Some(status)) = (schema.properties.get("status"), object.get("status")) {
                errors.extend(validate::validate(of_status, status, "status", old.get("status")));
            }
        } else {
            errors.extend(validate::validate(schema, object, "", Some(&old)));
            check_scale(context.served, object, &mut errors);
        }
        embedded::check(schema, object, "", &mut errors);
        // Old duplicates may stay: nobody could write the object otherwise.
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

/// What `scale` shows has to be a number of replicas.
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
