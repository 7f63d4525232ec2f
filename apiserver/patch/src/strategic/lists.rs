//! Merges lists: items by their merge key, scalars as sets.
//!
//! Corresponds to strategicpatch's mergeSlice.

use super::order::{in_order, partition};
use super::{DIRECTIVE, ListRule, PatchError, merge_map, plain};
use serde_json::Value;
use std::mem::discriminant;

/// Returns `current` merged with `patch`, or without its items if `deletes`. A list that does not merge is replaced.
pub(super) fn merge_list(
    rule: &ListRule<'_>,
    current: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if !rule.merges && !deletes {
        return Ok(patch);
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    let (current, patch, merged) = if are_maps(&current, &patch)? {
        let Some(key) = rule.key else {
            return Err(PatchError::Other("cannot merge lists without merge key".to_owned()));
        };
        let (current, patch) = apply_directives(current, patch, key)?;
        let merged = merge_items(rule, key, current.clone(), &patch)?;
        (current, patch, merged)
    } else if deletes {
        let left = current.into_iter().filter(|item| !patch.contains(item)).collect();
        return Ok(left);
    } else {
        let mut merged: Vec<Value> = Vec::new();
        for item in current.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        (current, patch, merged)
    };
    let (named, others) = partition(merged, &patch, rule.key);
    Ok(in_order(named, others, &patch, &current, rule.key))
}

/// Returns whether the items are maps. They all have to be maps or all scalars.
pub(super) fn are_maps(current: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut items = current.iter().chain(patch);
    let Some(first) = items.next() else { return Ok(false) };
    if first.is_array() {
        return Err(PatchError::ListOfLists);
    }
    if items.any(|item| discriminant(item) != discriminant(first)) {
        return Err(PatchError::Other("list element types are not identical".to_owned()));
    }
    Ok(first.is_object())
}

/// Applies the items that are directives. Returns the rest of the current list and of the patch.
fn apply_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = &item else { continue };
        let Some(directive) = fields.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| PatchError::no_merge_key(fields, key))?;
                current.retain(|item| item.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(PatchError::unknown_directive(directive, fields)),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (current, rest) })
}

fn merge_items(
    rule: &ListRule<'_>,
    key: &str,
    mut merged: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, PatchError> {
    for item in patch {
        let Value::Object(fields) = item else { continue };
        let value = fields.get(key).ok_or_else(|| PatchError::no_merge_key(fields, key))?;
        match merged.iter_mut().find(|current| current.get(key) == Some(value)) {
            Some(Value::Object(current)) => *current = merge_map(rule.items, std::mem::take(current), fields.clone())?,
            _ => merged.extend(plain(item.clone())),
        }
    }
    Ok(merged)
}
