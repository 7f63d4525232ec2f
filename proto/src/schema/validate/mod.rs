//! Validation that needs nothing but the schema: required fields and allowed values.
//!
//! Corresponds to the declarative part of k8s.io/kubernetes/pkg/apis/*/validation. What depends on other fields belongs
//! to the strategies; so does `status`, which its own subresource validates.

mod words;

use super::go_type::short;
use super::{Properties, Schema, Shape, TypeRef};
use crate::meta::status::FieldError;
use serde_json::{Map, Value};
use words::Word;

/// Every field that is missing or has a value that is not allowed: of each object first what is missing.
pub fn validate(target: &TypeRef, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Shape::Object(properties), Value::Object(members)) = (&target.schema().shape, value) {
        // Metadata has a validation of its own for every kind.
        let skips = |name: &str| matches!(name, "status" | "metadata");
        object(properties, short(&target.name), members, "", skips, &mut errors);
    }
    errors
}

fn walk(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (&schema.shape, value) {
        (Shape::Ref(target), _) => match (&target.schema().shape, value) {
            (Shape::Object(properties), Value::Object(members)) => {
                object(properties, short(&target.name), members, path, |_| false, errors);
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

fn object(
    properties: &Properties,
    owner: &str,
    members: &Map<String, Value>,
    path: &str,
    skips: impl Fn(&str) -> bool,
    errors: &mut Vec<FieldError>,
) {
    let words = words::about(owner);
    let word = |name: &str| words.iter().find(|(_, field, _)| *field == name).map(|(.., word)| *word);
    missing(properties, words, members, path, &skips, errors);
    for (name, value) in members.iter().filter(|(name, value)| !skips(name) && !is_empty(value)) {
        let Some(field) = properties.fields.get(name.as_str()) else { continue };
        if !field.allowed.is_empty() {
            allowed(word(name), name, field, value, path, errors);
        } else if holds_types(field) && word(name) != Some(Word::Elsewhere) {
            walk(field, value, &joined(path, name), errors);
        }
    }
}

/// What the schema or a word requires, and is not there.
fn missing(
    properties: &Properties,
    words: &[(&str, &'static str, Word)],
    members: &Map<String, Value>,
    path: &str,
    skips: impl Fn(&str) -> bool,
    errors: &mut Vec<FieldError>,
) {
    let lacks = |name: &str| !skips(name) && members.get(name).is_none_or(is_empty);
    for (_, name, word) in words {
        if let (Word::Required(detail), true) = (word, lacks(name)) {
            errors.push(FieldError::required(joined(path, name), detail));
        }
    }
    for name in properties.required.iter().filter(|name| lacks(name)) {
        let word = words.iter().find(|(_, field, _)| *field == &**name).map(|(.., word)| word);
        if matches!(word, None | Some(Word::Allowed(_))) {
            errors.push(FieldError::required(joined(path, name), ""));
        }
    }
}

fn allowed(word: Option<Word>, name: &str, field: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let usual: Vec<&str>;
    let supported = match word {
        Some(Word::Unchecked | Word::Elsewhere) => return,
        Some(Word::Allowed(values)) => values,
        Some(Word::Required(_)) | None if field.allowed.contains(value) => return,
        Some(Word::Required(_)) | None => {
            usual = field.allowed.iter().filter_map(Value::as_str).collect();
            usual.as_slice()
        }
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
                "spec.template.spec.containers[0].name: Required value".to_owned(),
                format!(r#"spec.template.spec.containers[0].imagePullPolicy: Unsupported value: "Often": {supported}"#),
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
