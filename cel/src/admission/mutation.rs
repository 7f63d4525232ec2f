//! The types of mutations: `Object` and `JSONPatch`.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/mutation and to k8s.io/apiserver/pkg/cel/library/jsonpatch.go.

use crate::{Library, Meter, ObjectType, Outcome, Type, Value, no_overload};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Type of an apply configuration.
pub const OBJECT: &str = "Object";
pub const JSON_PATCH: &str = "JSONPatch";

/// Returns the type of a name: `Object`, `Object.spec` and so on have any field; `JSONPatch` is one operation.
pub fn patch_type(name: &str) -> Option<Type> {
    if name == JSON_PATCH {
        let fields = [("op", Type::String), ("path", Type::String), ("from", Type::String), ("value", Type::Dyn)];
        return Some(Type::object(JSON_PATCH, &fields));
    }
    let is_object = name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'));
    is_object
        .then(|| Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields: BTreeMap::new(), is_open: true })))
}

pub static PATCH_LIBRARY: LazyLock<Library> =
    LazyLock::new(|| Library::new(escape_key, "fn jsonpatch.escapeKey(string) string", &[]));

/// Escapes a key for a JSON pointer.
fn escape_key(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    match arguments {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => no_overload(name, arguments),
    }
}
