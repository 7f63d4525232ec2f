//! Applies a `[JSONPatch{…}]` expression; a failing `test` operation leaves the object unchanged.
//!
//! Corresponds to json_patch.go of k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.

use crate::dynamic::expressions::values;
use cel;
use patch::json_patch;
use patch::json_patch::Refusal;
use serde_json::{Value, json};

pub fn apply(object: &Value, operations: &[cel::Value]) -> Result<Value, String> {
    let mut patched = object.clone();
    for operation in operations {
        let operation = operation_of(operation)?;
        match json_patch::try_apply(&patched, &json!([operation])) {
            Ok(next) => patched = next,
            Err(Refusal::TestFailed(_)) => return Ok(object.clone()),
            Err(Refusal::Inapplicable(why)) => return Err(format!("JSON Patch: {why}")),
            Err(Refusal::Unfit(status)) => return Err(status.message),
        }
    }
    Ok(patched)
}

fn operation_of(operation: &cel::Value) -> Result<Value, String> {
    if let Some(part @ cel::Value::Message(message)) = &operation.field(&"value".into()) {
        // The type name of a part is its path.
        values::check_places(part, &message.name).map_err(|why| format!("type mismatch: {why}"))?;
    }
    values::json(operation)
        .map_err(|why| format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"))
}
