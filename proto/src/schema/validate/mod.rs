//! Validation that needs nothing but the schema: required fields and allowed values.
//!
//! Corresponds to the declarative part of k8s.io/kubernetes/pkg/apis/*/validation. What depends on other fields belongs
//! to the strategies; so does `status`, which its own subresource validates.

mod words;

use super::go_type::short;
use super::{Properties, Schema, Shape, TypeRef};
use crate::meta::status::FieldError;
use serde_json::Value;
use words::Word;

/// Every field that is missing or has a value that is not allowed, in the order of the fields' names.
pub fn validate(target: &TypeRef, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Shape::Object(properties) = &target.schema().shape {
        for (name, field) in &properties.fields {
            // Metadata has a validation of its own for every kind.
            if !matches!(&**name, "status" | "metadata") {
                member(properties, short(&target.name), name, field, value, "", &mut errors);
            }
        }
    }
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (&schema.shape, value) {
        (Shape::Ref(target), _) => match (&target.schema().shape, value) {
            (Shape::Object(properties), Value::Object(_)) => {
                let owner = short(&target.name);
                for (name, field) in &properties.fields {
                    member(properties, owner, name, field, value, path, errors);
                }
            }
            _ => walk(target.schema(), value, path, errors),
        },
        (Shape::List(items), Value::Array(elements)) if holds_types(items) => {
            for (index, element) in elements.iter().enumerate() {
                walk(items, element, &format!("{path}[{index}]"), errors);
            }
        }
        (Shape::Map(values), Value::Object(members)) if holds_types(values) => {
            for (key, member) in members {
                walk(values, member, &format!("{path}[{key}]"), errors);
            }
        }
        _ => {}
    }
}

fn member(
    properties: &Properties,
    owner: &str,
    name: &str,
    field: &Schema,
    object: &Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let value = object.get(name).unwrap_or(&Value::Null);
    let is_required = || properties.required.iter().any(|required| &**required == name);
    if is_empty(value) {
        let detail = match words::about(owner, name) {
            Some(Word::Unchecked | Word::Elsewhere) => return,
            Some(Word::Required(detail)) => detail,
            Some(Word::Allowed(_)) | None if is_required() => "",
            Some(Word::Allowed(_)) | None => return,
        };
        errors.push(FieldError::required(joined(path, name), detail));
    } else if !field.allowed.is_empty() {
        allowed(owner, name, field, value, path, errors);
    } else if holds_types(field) && words::about(owner, name) != Some(Word::Elsewhere) {
        walk(field, value, &joined(path, name), errors);
    }
}

fn allowed(owner: &str, name: &str, field: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let usual: Vec<&str> = field.allowed.iter().filter_map(Value::as_str).collect();
    let supported = match words::about(owner, name) {
        Some(Word::Unchecked | Word::Elsewhere) => return,
        Some(Word::Allowed(values)) => values,
        Some(Word::Required(_)) | None => usual.as_slice(),
    };
    if value.as_str().is_some_and(|text| !supported.contains(&text)) {
        errors.push(FieldError::not_supported(joined(path, name), value, supported));
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn holds_types(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Ref(_) | Shape::List(_) | Shape::Map(_))
}

/// Zero numbers and false are values; what else is empty is not there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin_type;
    use serde_json::json;

    fn errors(kind: &str, value: Value) -> Vec<String> {
        validate(&builtin_type(kind), &value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_fields_and_foreign_values_are_named_with_their_path() {
        let spec =
            json!({"containers": [{"name": "", "image": "x", "imagePullPolicy": "Often"}], "dnsPolicy": "Default"});
        let deployment = json!({"spec": {"selector": null, "template": {"spec": spec}}});
        let supported = r#"supported values: "Always", "IfNotPresent", "Never""#;
        assert_eq!(
            errors("io.k8s.api.apps.v1.Deployment", deployment),
            [
                "spec.selector: Required value".to_owned(),
                format!(r#"spec.template.spec.containers[0].imagePullPolicy: Unsupported value: "Often": {supported}"#),
                "spec.template.spec.containers[0].name: Required value".to_owned(),
            ]
        );
        assert_eq!(
            errors("io.k8s.api.core.v1.Pod", json!({"spec": {"containers": null}})),
            ["spec.containers: Required value"]
        );
    }

    #[test]
    fn words_of_kubernetes_own_are_used() {
        let role = json!({"rules": [{"resources": ["pods"], "verbs": null}]});
        let verbs = "rules[0].verbs: Required value: verbs must contain at least one value";
        assert_eq!(errors("io.k8s.api.rbac.v1.Role", role), [verbs]);
        let class = json!({"provisioner": "x", "reclaimPolicy": "Odd"});
        assert_eq!(
            errors("io.k8s.api.storage.v1.StorageClass", class),
            [r#"reclaimPolicy: Unsupported value: "Odd": supported values: "Delete", "Retain""#]
        );
    }

    #[test]
    fn status_and_metadata_are_left_to_others() {
        let node =
            json!({"metadata": {"ownerReferences": [{}]}, "status": {"nodeInfo": {"machineID": ""}, "phase": "Odd"}});
        assert_eq!(errors("io.k8s.api.core.v1.Node", node), [""; 0]);
    }
}
