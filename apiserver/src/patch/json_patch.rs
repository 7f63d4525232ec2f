//! JSON Patch, in the dialect that Kubernetes speaks.
//!
//! It is laxer than RFC 6902: `replace` and `add` set whatever is there, a missing value is null, an index may be
//! negative, and a path need not begin with a slash. Corresponds to github.com/evanphx/json-patch v4.

use proto::Status;
use serde_json::Value;

/// A patch that takes longer would keep the server busy for one request.
pub const MAX_OPERATIONS: usize = 10_000;

/// What all `copy` operations together may add: no more than a request may carry.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// `current` with the operations of `patch` carried out in turn; none of them unless all succeed.
pub fn apply(current: &Value, patch: &Value) -> Result<Value, Status> {
    let operations = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    let mut document = current.clone();
    let mut copied_bytes = 0;
    for operation in &operations {
        operation.carry_out(&mut document, &mut copied_bytes).ok_or_else(inapplicable)?;
    }
    Ok(document)
}

/// An operation that does not apply. Kubernetes does not say which.
fn inapplicable() -> Status {
    let mut status = Status::failure(422, "Invalid", "the server rejected our request due to an error in our request");
    status.details = Some(Box::default());
    status
}

struct Operation<'p> {
    op: &'p str,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: &'p Value,
}

/// What Go's decoder calls a JSON value.
pub fn go_json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, Status> {
    match patch {
        Value::Array(operations) => operations.iter().map(decode_operation).collect(),
        Value::Null => Ok(Vec::new()),
        other => Err(undecodable(other, "Go value of type []handlers.jsonPatchOp")),
    }
}

fn decode_operation(operation: &Value) -> Result<Operation<'_>, Status> {
    let Value::Object(fields) = operation else {
        return Err(undecodable(operation, "Go value of type handlers.jsonPatchOp"));
    };
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(undecodable(other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
    };
    let value = fields.get("value").unwrap_or(&Value::Null);
    Ok(Operation { op: text("op")?.unwrap_or("unknown"), path: text("path")?, from: text("from")?, value })
}

fn undecodable(value: &Value, what: &str) -> Status {
    let kind = go_json_kind(value);
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {kind} into {what}"))
}

impl Operation<'_> {
    /// `None` if it cannot be done.
    fn carry_out(&self, document: &mut Value, copied_bytes: &mut usize) -> Option<()> {
        let path = self.path?;
        match self.op {
            "add" => {
                let (container, key) = container(document, path)?;
                add(container, &key, self.value.clone())
            }
            "replace" if path.is_empty() => {
                *document = (self.value.is_object() || self.value.is_array()).then(|| self.value.clone())?;
                Some(())
            }
            "replace" => {
                let (container, key) = container(document, path)?;
                match container {
                    Value::Object(fields) => {
                        fields.insert(key, self.value.clone());
                    }
                    Value::Array(items) => {
                        let index = index(&key, items.len())?;
                        *items.get_mut(index)? = self.value.clone();
                    }
                    _ => return None,
                }
                Some(())
            }
            "remove" => {
                let (container, key) = container(document, path)?;
                take(container, &key).map(drop)
            }
            "move" => {
                let (source, key) = container(document, self.from?)?;
                // Kubernetes' library looks before it takes, so that a missing field moves nothing.
                let value = take(source, &key)?;
                let (target, key) = container(document, path)?;
                add(target, &key, value)
            }
            "copy" => {
                let (source, key) = container(document, self.from?)?;
                let value = get(source, &key)?.cloned().unwrap_or(Value::Null);
                *copied_bytes += value.to_string().len();
                if *copied_bytes > MAX_COPIED_BYTES {
                    return None;
                }
                let (target, key) = container(document, path)?;
                add(target, &key, value)
            }
            "test" if path.is_empty() => (document == self.value).then_some(()),
            "test" => {
                let (container, key) = container(document, path)?;
                let found = match container {
                    Value::Object(fields) => fields.get(&key),
                    other => get(other, &key)?,
                };
                (found.unwrap_or(&Value::Null) == self.value).then_some(())
            }
            _ => None,
        }
    }
}

/// What holds the last step of a path, and that step.
fn container<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    // Whatever stands before the first slash is not looked at, so `data/x` means the field `x`.
    let mut steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut current = document;
    let mut key = steps.next()?;
    for next in steps {
        current = match current {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let index = index(&key, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
        key = next;
    }
    (current.is_object() || current.is_array()).then_some((current, key))
}

/// An index into `length` items; negative ones count from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    if index < 0 { usize::try_from(index + i64::try_from(length).ok()?).ok() } else { usize::try_from(index).ok() }
}

/// `Some(None)` for a field that is not there, `None` for an item that cannot be.
fn get<'d>(container: &'d Value, key: &str) -> Option<Option<&'d Value>> {
    match container {
        Value::Object(fields) => Some(fields.get(key)),
        Value::Array(items) => items.get(index(key, items.len())?).map(Some),
        _ => None,
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Option<()> {
    match container {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(key, items.len() + 1).filter(|index| *index <= items.len())?;
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn take(container: &mut Value, key: &str) -> Option<Value> {
    match container {
        Value::Object(fields) => fields.remove(key),
        Value::Array(items) => {
            let index = index(key, items.len()).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(operations: Value) -> Result<Value, String> {
        let current = json!({"a":{"x":"1"},"list":[1,2,3],"~s/":"t"});
        apply(&current, &operations).map_err(|status| format!("{} {}", status.code, status.message))
    }

    #[test]
    fn operations() {
        let base = json!({"a":{"x":"1"},"list":[1,2,3],"~s/":"t"});
        let with = |pointer: &str, value: Value| {
            let mut changed = base.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed
        };
        let cases = [
            (json!([]), base.clone()),
            (json!([{"op":"add","path":"/a/y","value":2}]), with("/a", json!({"x":"1","y":2}))),
            (json!([{"op":"add","path":"/a/y"}]), with("/a", json!({"x":"1","y":null}))),
            (json!([{"op":"replace","path":"/a/new","value":2}]), with("/a", json!({"x":"1","new":2}))),
            (json!([{"op":"add","path":"/list/-","value":4}]), with("/list", json!([1, 2, 3, 4]))),
            (json!([{"op":"add","path":"/list/0","value":0}]), with("/list", json!([0, 1, 2, 3]))),
            (json!([{"op":"add","path":"/list/-1","value":4}]), with("/list", json!([1, 2, 3, 4]))),
            (json!([{"op":"replace","path":"/list/-1","value":9}]), with("/list", json!([1, 2, 9]))),
            (json!([{"op":"remove","path":"/list/1"}]), with("/list", json!([1, 3]))),
            (json!([{"op":"move","path":"/a/x","from":"/list/0"},{"op":"test","path":"/a/x","value":1}]), {
                let mut moved = with("/list", json!([2, 3]));
                moved["a"]["x"] = json!(1);
                moved
            }),
            (json!([{"op":"copy","path":"/a/y","from":"/a/none"}]), with("/a", json!({"x":"1","y":null}))),
            (json!([{"op":"replace","path":"/~0s~1","value":"u"}]), with("/~0s~1", json!("u"))),
            (json!([{"op":"test","path":"/a/none","value":null}]), base.clone()),
            (json!([{"op":"replace","path":"","value":{"b":1}}]), json!({"b":1})),
            (json!([{"op":"add","path":"data/q","value":1},{"op":"remove","path":"/q"}]), base.clone()),
        ];
        for (operations, expected) in cases {
            assert_eq!(patched(operations.clone()), Ok(expected), "{operations}");
        }
    }

    #[test]
    fn what_does_not_apply_is_a_422_without_reasons() {
        let cases = [
            json!([{"op":"test","path":"/a/x","value":"2"}]),
            json!([{"op":"test","path":"/a/none","value":"2"}]),
            json!([{"op":"remove","path":"/a/none"}]),
            json!([{"op":"remove","path":"/list/3"}]),
            json!([{"op":"add","path":"/list/5","value":1}]),
            json!([{"op":"replace","path":"/list/3","value":1}]),
            json!([{"op":"add","path":"/none/deep","value":1}]),
            json!([{"op":"add","path":"/a/x/y","value":1}]),
            json!([{"op":"odd","path":"/a"}]),
            json!([{"op":"add"}]),
            json!([{"path":"/a"}]),
            json!([{"op":"replace","path":"","value":5}]),
            json!([{"op":"add","path":"/a/z","value":1},{"op":"remove","path":"/none"}]),
        ];
        for operations in cases {
            let expected = "422 the server rejected our request due to an error in our request";
            assert_eq!(patched(operations.clone()), Err(expected.to_owned()), "{operations}");
        }
    }

    #[test]
    fn what_is_no_patch_is_a_400() {
        let cases = [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!("x"), "string into Go value of type []handlers.jsonPatchOp"),
            (json!([5]), "number into Go value of type handlers.jsonPatchOp"),
            (json!([[]]), "array into Go value of type handlers.jsonPatchOp"),
            (json!([{"op":5,"path":"/a"}]), "number into Go struct field jsonPatchOp.op of type string"),
        ];
        for (operations, what) in cases {
            assert_eq!(patched(operations), Err(format!("400 error decoding patch: json: cannot unmarshal {what}")));
        }
    }

    #[test]
    fn limits() {
        let too_many = Value::Array(vec![json!({"op":"test","path":"/a/x","value":"1"}); MAX_OPERATIONS + 1]);
        let message = "413 The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!(patched(too_many), Err(message.to_owned()));
        let double = json!({"op":"copy","from":"/list","path":"/list/-"});
        assert!(patched(Value::Array(vec![double; 64])).is_err(), "copies of copies grow without end");
    }
}
