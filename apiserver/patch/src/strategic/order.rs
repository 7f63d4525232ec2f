//! The order of merged lists: items that the patch names take the patch's order, and all others keep their place as
//! well as possible.
//!
//! Corresponds to strategicpatch's normalizeElementOrder.

use serde_json::Value;
use std::sync::Arc;

/// Returns the part that identifies an item: its merge key, or the scalar itself.
pub(super) fn identity<'v>(item: &'v Value, key: Option<&Arc<str>>) -> &'v Value {
    match (key, item) {
        (Some(key), Value::Object(fields)) => fields.get(&**key).unwrap_or(&Value::Null),
        _ => item,
    }
}

fn place(list: &[Value], item: &Value, key: Option<&Arc<str>>) -> Option<usize> {
    list.iter().position(|other| identity(other, key) == identity(item, key))
}

/// Splits items into those that `named` names, and the others.
pub(super) fn partition(items: Vec<Value>, named: &[Value], key: Option<&Arc<str>>) -> (Vec<Value>, Vec<Value>) {
    items.into_iter().partition(|item| place(named, item, key).is_some())
}

/// Returns `named` in the order of `order`, with each of `others` before the first named item that follows it on the
/// server.
pub(super) fn in_order(
    mut named: Vec<Value>,
    mut others: Vec<Value>,
    order: &[Value],
    server: &[Value],
    key: Option<&Arc<str>>,
) -> Vec<Value> {
    named.sort_by_key(|item| place(order, item, key));
    others.sort_by_key(|item| place(server, item, key));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let here = place(server, &item, key);
        while let Some(other) = others.next_if(|other| {
            let there = place(server, other, key);
            there.is_some() && here.is_some() && there < here
        }) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others);
    result
}
