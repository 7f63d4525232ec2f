//! `Object{…}`: laid over the object as server-side apply does, but that nobody owns what it sets.
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
    // The kind is the object's, whatever the expression says of it.
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

/// Parts that would be replaced as a whole, with all that the expression does not know of.
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
