//! `restore`: undoes the change of a field that a request may not change.

use serde_json::{Value, json};

/// Sets the field at `path` to its old value, or removes it if the old object does not have it.
pub fn restore(object: &mut Value, old: &Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let before = path.iter().try_fold(old, |value, name| value.get(name)).cloned();
    let mut parent = object;
    for name in parents {
        if before.is_some() && parent.get(name).is_none_or(Value::is_null) && parent.is_object() {
            parent[name] = json!({});
        }
        match parent.get_mut(name) {
            Some(next) => parent = next,
            None => return,
        }
    }
    let Some(fields) = parent.as_object_mut() else { return };
    match before {
        Some(value) => {
            fields.insert((*last).to_owned(), value);
        }
        None => {
            fields.remove(*last);
        }
    }
}
