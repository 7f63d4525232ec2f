//! The order of merged lists: what the patch names stands in the patch's order, everything else keeps its place as
//! well as it can. `$setElementOrder` names items without changing them.
//!
//! Corresponds to strategicpatch's mergePatchIntoOriginal and normalizeElementOrder.

use super::lists::merge_list;
use super::{DIRECTIVE, Fields, SET_ELEMENT_ORDER, Wrong, list_rule, plain};
use crate::apply::ownership::shown_in_go;
use proto::schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// Merges every list that comes with an order, and takes both out of the patch.
pub(super) fn merge_ordered_lists(
    schema: Option<&Schema>,
    current: &mut Fields,
    patch: &mut Fields,
) -> Result<(), Wrong> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let malformed = || Wrong::Malformed("setElementOrder");
        let name = directive[SET_ELEMENT_ORDER.len()..].strip_prefix('/').ok_or_else(malformed)?;
        let Some(Value::Array(order)) = patch.remove(&directive) else { return Err(malformed()) };
        let rule = list_rule(schema, name);
        let before = list(current.get(name))?.cloned();
        let change = list(patch.get(name))?.cloned();
        check_order(change.as_deref().unwrap_or_default(), &order, rule.key)?;
        let serverside = before.clone().unwrap_or_default();
        let merged = match (before, change) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(change)) => change.into_iter().filter_map(plain).collect(),
            (Some(before), Some(change)) => merge_list(&rule, before, change, false)?,
        };
        let (named, others) = partition(merged, &order, rule.key);
        let ordered = in_order(named, others, &order, &serverside, rule.key);
        current.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

fn list(value: Option<&Value>) -> Result<Option<&Vec<Value>>, Wrong> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(Wrong::Malformed("setElementOrder")),
    }
}

/// What makes an item the item it is.
fn identity<'v>(item: &'v Value, key: Option<&Arc<str>>) -> &'v Value {
    match (key, item) {
        (Some(key), Value::Object(fields)) => fields.get(&**key).unwrap_or(&Value::Null),
        _ => item,
    }
}

fn place(list: &[Value], item: &Value, key: Option<&Arc<str>>) -> Option<usize> {
    list.iter().position(|other| identity(other, key) == identity(item, key))
}

/// Every changed item has to be in the order, and in that order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&Arc<str>>) -> Result<(), Wrong> {
    let mut changes = patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).peekable();
    for item in order {
        if changes.peek().is_some_and(|change| identity(change, key) == identity(item, key)) {
            changes.next();
        }
    }
    if changes.peek().is_none() {
        return Ok(());
    }
    let shown = |items: &[Value]| shown_in_go(&Value::Array(items.to_vec()));
    Err(Wrong::Other(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
        shown(patch),
        shown(order)
    )))
}

/// The items that `named` names, and the others.
pub(super) fn partition(items: Vec<Value>, named: &[Value], key: Option<&Arc<str>>) -> (Vec<Value>, Vec<Value>) {
    items.into_iter().partition(|item| place(named, item, key).is_some())
}

/// `named` in the order of `order`, with each of `others` put before the first named item that follows it on the
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
