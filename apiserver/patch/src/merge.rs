//! JSON merge patch: maps merge, null removes, everything else replaces.
//!
//! Corresponds to RFC 7396.

use proto::Status;
use serde_json::Value;

/// Returns `current` merged with `patch`, which has to be an object, as every resource is.
pub fn apply(current: &Value, patch: &Value) -> Result<Value, Status> {
    if patch.is_null() {
        return Err(Status::bad_request("Invalid JSON Patch"));
    }
    if !patch.is_object() {
        let kind = super::json_patch::go_json_kind(patch);
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )));
    }
    let mut result = current.clone();
    merge(&mut result, patch);
    Ok(result)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_standard() {
        let cases = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (current, patch, expected) in cases {
            assert_eq!(apply(&current, &patch).unwrap(), expected, "{patch}");
        }
        let refused = apply(&json!({}), &json!([])).unwrap_err();
        assert_eq!(
            refused.message,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
        assert_eq!(apply(&json!({}), &json!(null)).unwrap_err().message, "Invalid JSON Patch");
    }
}
