//! JSON Patch as Kubernetes implements it.
//!
//! It is laxer than RFC 6902: `replace` and `add` set any value, a missing value is null, an index may be
//! negative, and a path need not begin with a slash. Corresponds to github.com/evanphx/json-patch v4.

use proto::Status;
use serde_json::Value;

/// Largest number of operations: a longer patch would keep the server busy for one request.
pub const MAX_OPERATIONS: usize = 10_000;

/// The library's words for a value that does not exist.
const MISSING: &str = "missing value";

/// Largest size that all `copy` operations together may add: the limit of a request.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The reasons for which a patch cannot be applied.
#[derive(Debug)]
pub enum Refusal {
    /// It is no JSON patch, or it is too long.
    Unfit(Status),
    /// A `test` operation finds another value, in the words of Kubernetes' library.
    TestFailed(String),
    /// One of its operations fails, in the words of Kubernetes' library.
    Inapplicable(String),
}

/// Returns `current` after the operations of a client's `patch`. If one of them fails, none is applied.
pub fn apply(current: &Value, patch: &Value) -> Result<Value, Status> {
    try_apply(current, patch).map_err(|refusal| match refusal {
        Refusal::Unfit(status) => status,
        Refusal::TestFailed(_) | Refusal::Inapplicable(_) => inapplicable(),
    })
}

/// As `apply`, with an error that says which operation failed: for authors of webhooks and of policies.
pub fn try_apply(current: &Value, patch: &Value) -> Result<Value, Refusal> {
    let operations = decode(patch).map_err(Refusal::Unfit)?;
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(Refusal::Unfit(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        ))));
    }
    let mut document = current.clone();
    let mut copied_bytes = 0;
    for operation in &operations {
        match operation.op {
            "test" => operation.test(&mut document)?,
            _ => operation.carry_out(&mut document, &mut copied_bytes).map_err(Refusal::Inapplicable)?,
        }
    }
    Ok(document)
}

/// Returns the status for an operation that fails. Kubernetes does not tell clients which one.
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

/// Returns the name that Go's decoder gives to a kind of JSON value.
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
    /// Applies one operation. The error is in the words of the library.
    fn carry_out(&self, document: &mut Value, copied_bytes: &mut usize) -> Result<(), String> {
        let op = self.op;
        let named = |name: &str, pointer: Option<&'_ str>| {
            pointer.map(str::to_owned).ok_or_else(|| format!("{op} operation failed to decode {name}: {MISSING}"))
        };
        match op {
            "add" => {
                let path = named("path", self.path)?;
                let lost = || format!("add operation does not apply: doc is missing path: {path:?}: {MISSING}");
                let (container, key) = container(document, &path).ok_or_else(lost)?;
                add(container, &key, self.value.clone())
                    .map_err(|why| format!("error in add for path: '{path}': {why}"))
            }
            "replace" if self.path == Some("") => {
                let is_whole = self.value.is_object() || self.value.is_array();
                *document = is_whole
                    .then(|| self.value.clone())
                    .ok_or("replace operation value must be object or array: unknown object type")?;
                Ok(())
            }
            "replace" => {
                let path = named("path", self.path)?;
                let lost =
                    |what: &str| format!("replace operation does not apply: doc is missing {what}: {path}: {MISSING}");
                let (container, key) = container(document, &path).ok_or_else(|| lost("path"))?;
                get(container, &key).map_err(|_| lost("key"))?;
                match container {
                    Value::Array(items) => {
                        let index = index(&key, items.len())?;
                        items[index] = self.value.clone();
                    }
                    other => other[&key] = self.value.clone(),
                }
                Ok(())
            }
            "remove" => {
                let path = named("path", self.path)?;
                let lost = || format!("remove operation does not apply: doc is missing path: {path:?}: {MISSING}");
                let (container, key) = container(document, &path).ok_or_else(lost)?;
                take(container, &key).map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
            }
            "move" | "copy" => {
                let from = named("from", self.from)?;
                let lost = |what: &str, path: &str| {
                    format!("{op} operation does not apply: doc is missing {what} path: {path}: {MISSING}")
                };
                let (source, key) = container(document, &from).ok_or_else(|| lost("from", &from))?;
                // Kubernetes' library checks before it removes, so that a missing field changes nothing.
                let value = match op {
                    "move" => take(source, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?,
                    _ => get(source, &key)
                        .map_err(|why| format!("error in copy for from: '{from}': {why}"))?
                        .cloned()
                        .unwrap_or(Value::Null),
                };
                if op == "copy" {
                    *copied_bytes += value.to_string().len();
                    if *copied_bytes > MAX_COPIED_BYTES {
                        return Err(format!(
                            "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, \
                             exceeding the limit {MAX_COPIED_BYTES}"
                        ));
                    }
                }
                let path = named("path", self.path)?;
                let (target, key) = container(document, &path).ok_or_else(|| lost("destination", &path))?;
                add(target, &key, value).map_err(|why| match op {
                    "move" => format!("error in move for path: '{path}': {why}"),
                    _ => format!("error while adding value during copy: {why}"),
                })
            }
            unknown => Err(format!("Unexpected kind: {unknown}")),
        }
    }
}

impl Operation<'_> {
    /// Compares the value at the path with the operation's.
    fn test(&self, document: &mut Value) -> Result<(), Refusal> {
        let undecoded = || Refusal::Inapplicable(format!("test operation failed to decode path: {MISSING}"));
        let path = self.path.ok_or_else(undecoded)?;
        let same = |is_same: bool| {
            let failed = || Refusal::TestFailed(format!("testing value {path} failed: test failed"));
            is_same.then_some(()).ok_or_else(failed)
        };
        if path.is_empty() {
            return same(document == self.value);
        }
        let lost =
            || Refusal::Inapplicable(format!("test operation does not apply: is missing path: {path}: {MISSING}"));
        let (container, key) = container(document, path).ok_or_else(lost)?;
        let found = get(container, &key)
            .map_err(|why| Refusal::Inapplicable(format!("error in test for path: '{path}': {why}")))?;
        same(found.unwrap_or(&Value::Null) == self.value)
    }
}

/// Returns the value that contains the last element of a path, and that element.
fn container<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    // Text before the first slash is ignored, so `data/x` means the field `x`.
    let mut steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut current = document;
    let mut key = steps.next()?;
    for next in steps {
        current = match current {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let index = index(&key, items.len()).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
        key = next;
    }
    (current.is_object() || current.is_array()).then_some((current, key))
}

/// Parses an index into `length` items; negative ones count from the end.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let from_start = if index < 0 { index + i64::try_from(length).unwrap_or(i64::MAX) } else { index };
    usize::try_from(from_start)
        .ok()
        .filter(|index| *index < length)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

/// Returns a field or item; `None` for a field that does not exist.
fn get<'d>(container: &'d Value, key: &str) -> Result<Option<&'d Value>, String> {
    match container {
        Value::Array(items) => index(key, items.len()).map(|index| items.get(index)),
        fields => Ok(fields.get(key)),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(key, items.len() + 1)?;
            items.insert(index, value);
        }
        fields => fields[key] = value,
    }
    Ok(())
}

fn take(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => {
            let index = index(key, items.len())?;
            Ok(items.remove(index))
        }
        fields => fields
            .as_object_mut()
            .and_then(|fields| fields.remove(key))
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
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
    fn authors_of_webhooks_are_told_why() {
        let current = json!({"a":{"x":"1"},"list":[1]});
        for (operation, expected) in [
            (
                json!({"op":"remove","path":"/b"}),
                "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value",
            ),
            (
                json!({"op":"remove","path":"/b/c"}),
                r#"remove operation does not apply: doc is missing path: "/b/c": missing value"#,
            ),
            (
                json!({"op":"add","path":"/b/c"}),
                r#"add operation does not apply: doc is missing path: "/b/c": missing value"#,
            ),
            (
                json!({"op":"add","path":"/list/7"}),
                "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op":"add","path":"/list/x"}),
                "error in add for path: '/list/x': value was not a proper array index: 'x'",
            ),
            (
                json!({"op":"replace","path":"/b/c"}),
                "replace operation does not apply: doc is missing path: /b/c: missing value",
            ),
            (
                json!({"op":"move","path":"/y","from":"/b"}),
                "error in move for path: 'b': Unable to remove nonexistent key: b: missing value",
            ),
            (
                json!({"op":"copy","path":"/y","from":"/b/c"}),
                "copy operation does not apply: doc is missing from path: /b/c: missing value",
            ),
            (json!({"op":"test","path":"/a/x","value":"2"}), "testing value /a/x failed: test failed"),
            (json!({"op":"add"}), "add operation failed to decode path: missing value"),
            (json!({"op":"odd","path":"/a"}), "Unexpected kind: odd"),
        ] {
            let Err(Refusal::Inapplicable(why) | Refusal::TestFailed(why)) = try_apply(&current, &json!([operation]))
            else {
                panic!("{operation} was carried out");
            };
            assert_eq!(why, expected);
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
