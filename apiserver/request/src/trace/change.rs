//! `Change`: how an object was changed, as a JSON patch in which secrets are hidden.

use serde_json::Value;

/// Replaces a secret value.
const HIDDEN: &str = "(hidden)";
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// An object before a step changes it.
#[derive(Debug)]
pub struct Before(Value);

impl Before {
    pub fn of(object: &Value) -> Self {
        Self(object.clone())
    }

    pub fn then(&self, after: &Value, group: &str, resource: &str) -> Change {
        Change::between(&self.0, after, group, resource)
    }
}

/// The operations in the order of RFC 6902, or `None` if nothing changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change(Option<Value>);

impl Change {
    pub fn between(before: &Value, after: &Value, group: &str, resource: &str) -> Self {
        let patch = json_patch::diff(before, after);
        if patch.0.is_empty() {
            return Self(None);
        }
        let mut operations = serde_json::to_value(patch).expect("a patch is JSON");
        if let Some(is_secret) = secrets_of(group, resource) {
            for operation in operations.as_array_mut().into_iter().flatten() {
                let mut path = operation["path"].as_str().unwrap_or_default().to_owned();
                if let Some(value) = operation.get_mut("value") {
                    hide(value, &mut path, is_secret);
                }
            }
        }
        Self(Some(operations))
    }

    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub fn into_patch(self) -> Option<Value> {
        self.0
    }
}

type IsSecret = fn(&str) -> bool;

/// Returns which fields of a resource hold secrets, which a trace must not show.
fn secrets_of(group: &str, resource: &str) -> Option<IsSecret> {
    match (group, resource) {
        ("", "secrets") => Some(|path| {
            let below =
                |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            below("/data") || below("/stringData") || path == LAST_APPLIED
        }),
        ("", "serviceaccounts") | ("authentication.k8s.io", _) => {
            Some(|path| matches!(path, "/status/token" | "/spec/token"))
        }
        _ => None,
    }
}

/// Hides every value at or below a secret field; the names of the fields stay.
fn hide(value: &mut Value, path: &mut String, is_secret: IsSecret) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let length = path.len();
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                hide(field, path, is_secret);
                path.truncate(length);
            }
        }
        value if is_secret(path) => *value = Value::String(HIDDEN.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_a_patch() {
        let before = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"list": [1, 2], "gone": true}});
        let after = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"list": [1, 2, 3]}});
        let expected = json!([
            {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
            {"op": "add", "path": "/spec/list/2", "value": 3},
            {"op": "remove", "path": "/spec/gone"},
        ]);
        let of = |expected: &Value| {
            let mut operations = expected.as_array().cloned().unwrap_or_default();
            operations.sort_by_key(ToString::to_string);
            operations
        };
        let patch = Change::between(&before, &after, "", "pods").into_patch().unwrap();
        assert_eq!(of(&patch), of(&expected));
        assert_eq!(patch::json_patch::apply(&before, &patch), Ok(after.clone()));
        assert!(!Change::between(&after, &after, "", "pods").is_some());
    }

    #[test]
    fn secrets_are_not_told() {
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        let metadata = |value: &str| json!({"annotations": {"note": "seen", applied: value}});
        for (group, resource, before, after, expected) in [
            (
                "",
                "secrets",
                json!({"data": {"a": "b2xk"}}),
                json!({"data": {"a": "bmV3", "b/c": "bmV3"}, "stringData": {"d": "new"}, "type": "Opaque"}),
                json!([
                    {"op": "add", "path": "/data/b~1c", "value": HIDDEN},
                    {"op": "add", "path": "/stringData", "value": {"d": HIDDEN}},
                    {"op": "add", "path": "/type", "value": "Opaque"},
                    {"op": "replace", "path": "/data/a", "value": HIDDEN},
                ]),
            ),
            (
                "",
                "secrets",
                json!({}),
                json!({"metadata": metadata("{\"data\":{}}")}),
                json!([{"op": "add", "path": "/metadata", "value": metadata(HIDDEN)}]),
            ),
            (
                "",
                "secrets",
                json!({"metadata": metadata("old")}),
                json!({"metadata": metadata("new")}),
                json!([{
                    "op": "replace", "value": HIDDEN,
                    "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                }]),
            ),
            (
                "",
                "secrets",
                json!({}),
                json!({"dataless": "told"}),
                json!([{"op": "add", "path": "/dataless", "value": "told"}]),
            ),
            (
                "",
                "secrets",
                json!(null),
                json!({"data": {"a": "x"}}),
                json!([{"op": "replace", "path": "", "value": {"data": {"a": HIDDEN}}}]),
            ),
            (
                "",
                "secrets",
                json!({}),
                json!({"data": ["x"]}),
                json!([{"op": "add", "path": "/data", "value": HIDDEN}]),
            ),
            (
                "",
                "serviceaccounts",
                json!({"status": {}}),
                json!({"status": {"token": "ey"}}),
                json!([{"op": "add", "path": "/status/token", "value": HIDDEN}]),
            ),
            (
                "",
                "configmaps",
                json!({"data": {"a": "old"}}),
                json!({"data": {"a": "new"}}),
                json!([{"op": "replace", "path": "/data/a", "value": "new"}]),
            ),
        ] {
            let mut patch = Change::between(&before, &after, group, resource).into_patch().unwrap();
            patch.as_array_mut().unwrap().sort_by_key(ToString::to_string);
            assert_eq!(patch, expected);
        }
    }
}
