//! Sets the defaults of custom resources, and removes nulls that are not allowed.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.

use super::{Additional, Structural};
use serde_json::Value;

/// Sets the default of every absent field. A null that is not allowed becomes the default, or is removed.
pub fn fill(schema: &Structural, value: &mut Value) {
    defaults(schema, value);
    drop_nulls(schema, value);
}

fn defaults(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                if members.get(&**name).is_none_or(|there| property.refuses_null(there)) {
                    members.insert(name.to_string(), default.clone());
                }
            }
            for (name, member) in members.iter_mut() {
                if let Some(inner) = schema.field(name) {
                    replace_null(inner, member);
                    defaults(inner, member);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = &schema.items else { return };
            for item in items {
                replace_null(of_items, item);
                defaults(of_items, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Structural, value: &mut Value) {
    if let Some(default) = schema.default.as_ref().filter(|_| schema.refuses_null(value)) {
        *value = default.clone();
    }
}

fn drop_nulls(schema: &Structural, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| match (schema.properties.get(name.as_str()), &schema.additional) {
                (Some(property), _) => keeps(property, member),
                (None, Additional::Schema(values)) => keeps(values, member),
                _ => true,
            });
        }
        Value::Array(items) => {
            if let Some(of_items) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(of_items, item));
            }
        }
        _ => {}
    }
}

fn keeps(schema: &Structural, member: &mut Value) -> bool {
    drop_nulls(schema, member);
    !(schema.refuses_null(member) && schema.default.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_fields_and_wrong_nulls_get_their_defaults() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "pages": {"type": "integer", "default": 12},
                "note": {"type": "string", "nullable": true, "default": "n"},
                "plain": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "z"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 3}},
            }},
        }}));
        for (given, filled) in [
            (json!({}), json!({"spec": {"pages": 12, "note": "n"}})),
            (json!({"spec": null}), json!({"spec": {"pages": 12, "note": "n"}})),
            (
                json!({"spec": {"pages": null, "note": null, "plain": null}}),
                json!({"spec": {"pages": 12, "note": null}}),
            ),
            (
                json!({"spec": {"pages": 1, "note": "", "list": [{}, {"a": "b"}], "map": {"x": null, "y": 1}}}),
                json!({"spec": {"pages": 1, "note": "", "list": [{"a": "z"}, {"a": "b"}], "map": {"x": 3, "y": 1}}}),
            ),
        ] {
            let mut object = given.clone();
            fill(&schema, &mut object);
            assert_eq!(object, filled, "{given}");
        }
    }
}
