//! Applies an `Object{…}` expression to the object, merged as by server-side apply but without field ownership.
//!
//! Corresponds to smd.go of k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.

use crate::dynamic::expressions::values;
use cel::admission::mutation::OBJECT;
use patch::apply::atoms::{Atom, Type, items};
use patch::apply::merge::merge;
use serde_json::Value;

pub fn apply(schema: Type<'_>, object: &Value, configuration: &cel::Value) -> Result<Value, String> {
    values::check_places(configuration, OBJECT).map_err(|why| format!("type mismatch: {why}"))?;
    let mut patch = values::json(configuration)?;
    // `apiVersion` and `kind` stay the object's.
    for field in ["apiVersion", "kind"] {
        if let Some(own) = object.get(field) {
            patch[field] = own.clone();
        }
    }
    let mut atomic = Vec::new();
    find_atomic(schema, &patch, "", &mut atomic);
    if !atomic.is_empty() {
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomic.join(", ")
        ));
    }
    merge(schema, object, &patch).map_err(|why| format!("error applying patch: failed to merge patch: {why}"))
}

/// Finds atomic fields, which a merge would replace as a whole.
fn find_atomic(schema: Type<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (schema.atom(value), value) {
        (Atom::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.to_owned());
            }
            for (name, value) in fields {
                if let Some((inner, _)) = map.field(name) {
                    find_atomic(inner, value, &format!("{path}.{name}"), found);
                }
            }
        }
        (Atom::List(list), Value::Array(_)) => {
            if list.is_atomic() {
                found.push(path.to_owned());
            }
            for (index, item) in items(value).iter().enumerate() {
                find_atomic(list.items, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
