//! Reads the types of kinds from the OpenAPI documents of their groups.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/openapi/resolver.

use cel::Type;
use cel::declared::{accessible, declared};
use proto::Gvk;
use proto::schema::structural::Structural;
use serde_json::{Map, Value, json};

const REFERENCE: &str = "#/components/schemas/";

/// Returns the path of the document of a kind's group and version.
pub fn document_path(kind: &Gvk) -> String {
    match kind.group.is_empty() {
        true => format!("/openapi/v3/api/{}", kind.version),
        false => format!("/openapi/v3/apis/{}/{}", kind.group, kind.version),
    }
}

/// Returns the type of a kind; `None` if the document does not describe it.
pub fn kind_type(document: &Value, kind: &Gvk) -> Option<Type> {
    let schemas = document.pointer("/components/schemas")?.as_object()?;
    let described = schemas.values().find(|schema| {
        let mut kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
        kinds.any(|own| own["group"] == *kind.group && own["version"] == *kind.version && own["kind"] == *kind.kind)
    })?;
    let whole = Structural::parse(&resolve(described, schemas, &mut Vec::new()));
    declared(&accessible(&whole, true), &kind.kind).map(|declaration| declaration.kind)
}

/// Returns a schema with its references replaced by their schemas. A schema that is untyped or recursive accepts
/// anything.
fn resolve<'d>(schema: &'d Value, schemas: &'d Map<String, Value>, inside: &mut Vec<&'d str>) -> Value {
    let anything = || json!({"x-kubernetes-int-or-string": true});
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(name) = reference.and_then(|reference| reference.strip_prefix(REFERENCE)) {
        let Some(referenced) = schemas.get(name).filter(|_| !inside.contains(&name)) else { return anything() };
        inside.push(name);
        let referenced = resolve(referenced, schemas, inside);
        inside.pop();
        return referenced;
    }
    if schema.get("type").is_none() {
        return anything();
    }
    let mut whole = schema.clone();
    if let Some(properties) = schema["properties"].as_object() {
        let each = properties.iter().map(|(name, property)| (name.clone(), resolve(property, schemas, inside)));
        whole["properties"] = Value::Object(each.collect());
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(part) = schema.get(inner).filter(|part| part.is_object()) {
            whole[inner] = resolve(part, schemas, inside);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        let gvk = json!([{"group": "apps", "version": "v1", "kind": "Robot"}]);
        let reference = |name: &str| json!({"$ref": format!("{REFERENCE}{name}")});
        json!({"components": {"schemas": {
            "Robot": {"type": "object", "x-kubernetes-group-version-kind": gvk, "properties": {
                "metadata": {"allOf": [reference("Meta")], "default": {}},
                "parts": {"type": "object", "additionalProperties": reference("Part")},
                "port": reference("IntOrString"),
            }},
            "Meta": {"type": "object", "properties": {"name": {"type": "string"}}},
            "Part": {"type": "object", "properties": {
                "count": {"type": "integer"}, "inner": {"type": "array", "items": reference("Part")}}},
            "IntOrString": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        }}})
    }

    #[test]
    fn references_are_followed() {
        let kind = kind_type(&document(), &Gvk::new("apps", "v1", "Robot")).unwrap();
        let Type::Object(robot) = &kind else { panic!("{kind}") };
        let field = |name: &str| robot.field(name).map(|kind| kind.to_string());
        assert_eq!(field("kind").as_deref(), Some("string"));
        assert_eq!(field("parts").as_deref(), Some("map(string, Robot.parts.@elem)"));
        assert_eq!(field("port").as_deref(), Some("dyn"));
        assert_eq!(field("other"), None);
        let Some(Type::Map(_, part)) = robot.field("parts") else { panic!("{kind}") };
        let Type::Object(part) = &*part else { panic!("{part}") };
        assert_eq!(part.field("inner").map(|kind| kind.to_string()).as_deref(), Some("list(dyn)"));
    }

    #[test]
    fn kinds_that_are_not_described_have_no_type() {
        assert_eq!(kind_type(&document(), &Gvk::new("apps", "v2", "Robot")), None);
        assert_eq!(kind_type(&json!({}), &Gvk::new("apps", "v1", "Robot")), None);
    }

    #[test]
    fn documents_have_paths() {
        assert_eq!(document_path(&Gvk::new("", "v1", "Pod")), "/openapi/v3/api/v1");
        assert_eq!(document_path(&Gvk::new("apps", "v1", "Deployment")), "/openapi/v3/apis/apps/v1");
    }
}
