//! `$setElementOrder`: sets the order of a merged list without changing its items.
//!
//! Corresponds to strategicpatch's mergePatchIntoOriginal.

use super::lists::merge_list;
use super::order::{identity, in_order, partition};
use super::{DIRECTIVE, Fields, PatchError, SET_ELEMENT_ORDER, list_rule, plain};
use crate::apply::ownership::shown_in_go;
use proto::schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// Merges every list with an order, and removes both from the patch.
pub(super) fn merge_ordered_lists(
    schema: Option<&Schema>,
    current: &mut Fields,
    patch: &mut Fields,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let malformed = || PatchError::Malformed("setElementOrder");
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

fn list(value: Option<&Value>) -> Result<Option<&Vec<Value>>, PatchError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(PatchError::Malformed("setElementOrder")),
    }
}

/// Checks that every changed item is in the order, and that they follow it.
fn check_order(patch: &[Value], order: &[Value], key: Option<&Arc<str>>) -> Result<(), PatchError> {
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
    Err(PatchError::Other(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
        shown(patch),
        shown(order)
    )))
}
