//! Migration from client-side apply: `kubectl` owns the fields that it last applied, even if `managedFields` do not say
//! so.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/managedfields lastAppliedManager and lastAppliedUpdater.

use super::atoms::Type;
use super::compare::compare;
use super::fields::FieldSet;
use super::ownership::{claimed, type_errors};
use serde_json::Value;

pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that takes over fields from client-side apply.
pub const MANAGER: &str = "kubectl";

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()
}

/// Returns the fields that the last client-side apply set and that nobody has changed since.
pub fn unchanged_since_applied(schema: Type<'_>, live: &Value, api_version: &str) -> FieldSet {
    let Some(text) = annotation(live).filter(|text| !text.is_empty()) else { return FieldSet::default() };
    let Ok(applied) = serde_json::from_str::<Value>(text) else { return FieldSet::default() };
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version)
        || !type_errors(schema, &applied).is_empty()
    {
        return FieldSet::default();
    }
    let changes = compare(schema, &applied, live);
    claimed(schema, &applied).difference(&changes.modified).difference(&changes.added).difference(&changes.removed)
}

/// Updates the annotation, if the object has one, to the configuration that is applied now.
pub fn update_annotation(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    object["metadata"]["annotations"][ANNOTATION] = Value::String(format!("{}\n", go_json(&applied)));
}

/// Writes JSON as Go's encoder does: with escapes for the characters that HTML treats specially.
fn go_json(value: &Value) -> String {
    let escape = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    value.to_string().chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_annotation_follows_an_apply() {
        let mut object = json!({"metadata":{"annotations":{ANNOTATION:"old"}}});
        update_annotation(&mut object, &json!({"metadata":{"name":"a<b","annotations":{ANNOTATION:"old","x":"y"}}}));
        let expected = "{\"metadata\":{\"annotations\":{\"x\":\"y\"},\"name\":\"a\\u003cb\"}}\n";
        assert_eq!(object["metadata"]["annotations"][ANNOTATION], expected);
        let mut without = json!({"metadata":{}});
        update_annotation(&mut without, &json!({}));
        assert_eq!(without, json!({"metadata":{}}));
    }
}
