//! Pruning: removes the fields that a schema does not name, unless the schema preserves unknown fields.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning.

use super::{Additional, Structural, is_meta_field};
use crate::serializer::path::Segment;
use serde_json::Value;

/// Prunes a whole object. Appends the paths of unknown fields to `unknown`, in the order of the object.
pub fn prune(schema: &Structural, object: &mut Value, unknown: &mut Vec<String>) {
    let mut pruner = Pruner { path: String::new(), unknown };
    pruner.value(Some(schema), object, true);
}

/// Prunes a value inside an object.
pub fn prune_part(schema: &Structural, value: &mut Value) {
    let mut pruner = Pruner { path: String::new(), unknown: &mut Vec::new() };
    pruner.value(Some(schema), value, schema.embedded_resource);
}

struct Pruner<'a> {
    path: String,
    unknown: &'a mut Vec<String>,
}

impl Pruner<'_> {
    /// Prunes a value. If it is a resource, it keeps `apiVersion`, `kind` and `metadata`.
    fn value(&mut self, schema: Option<&Structural>, value: &mut Value, is_resource: bool) {
        match value {
            Value::Object(members) => {
                let keeps = schema.is_some_and(|schema| schema.preserve_unknown);
                let before = self.path.len();
                members.retain(|name, member| {
                    if is_resource && is_meta_field(name) {
                        return true;
                    }
                    Segment::Key(name).push_to(&mut self.path);
                    let kept = self.member(schema, keeps, name, member);
                    self.path.truncate(before);
                    kept
                });
            }
            Value::Array(items) => {
                let before = self.path.len();
                let of_items = schema.and_then(|schema| schema.items.as_deref());
                let keeps = schema.is_some_and(|schema| schema.preserve_unknown);
                for (index, item) in items.iter_mut().enumerate() {
                    if of_items.is_some() || !keeps {
                        Segment::Index(index).push_to(&mut self.path);
                        self.value(of_items, item, of_items.is_some_and(|items| items.embedded_resource));
                        self.path.truncate(before);
                    }
                }
            }
            _ => {}
        }
    }

    /// Prunes a member and returns whether it is kept.
    fn member(&mut self, schema: Option<&Structural>, keeps: bool, name: &str, member: &mut Value) -> bool {
        let known = schema.and_then(|schema| schema.properties.get(name));
        let inner = match (known, schema.map(|schema| &schema.additional)) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Schema(values))) => Some(&**values),
            (None, Some(Additional::Anything)) => None,
            (None, Some(Additional::None) | None) => {
                if !keeps {
                    self.unknown.push(self.path.clone());
                }
                return keeps;
            }
        };
        self.value(inner, member, inner.is_some_and(|inner| inner.embedded_resource));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_no_schema_names_goes() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                         "properties": {"strict": {"type": "object", "properties": {"x": {"type": "string"}}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
                "any": {"type": "object", "additionalProperties": true},
                "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                        "properties": {"spec": {"type": "object"}}},
            }},
        }}));
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "other": 1,
            "spec": {
                "a": 1, "b": 2,
                "free": {"kept": {"deep": 1}, "strict": {"x": "1", "y": "2"}},
                "map": {"one": {"k": "v", "l": "w"}},
                "any": {"one": {"gone": 1}, "two": 2},
                "list": [{"n": "1", "m": "2"}],
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"gone": 1}, "odd": 1},
            },
        });
        let mut unknown = Vec::new();
        prune(&schema, &mut object, &mut unknown);
        assert_eq!(
            object["spec"],
            json!({
                "a": 1,
                "free": {"kept": {"deep": 1}, "strict": {"x": "1"}},
                "map": {"one": {"k": "v"}},
                "any": {"one": {}, "two": 2},
                "list": [{"n": "1"}],
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            })
        );
        unknown.sort();
        assert_eq!(
            unknown,
            [
                "other",
                "spec.any.one.gone",
                "spec.b",
                "spec.free.strict.y",
                "spec.list[0].m",
                "spec.map.one.l",
                "spec.pod.odd",
                "spec.pod.spec.gone",
            ]
        );
    }
}
