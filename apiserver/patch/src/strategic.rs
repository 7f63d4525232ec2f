//! Strategic merge patch: lists merge by the merge key of their type, and directives delete, replace and order.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/strategicpatch.

mod element_order;
mod lists;
mod order;

use crate::apply::ownership::shown_in_go;
use element_order::merge_ordered_lists;
use lists::merge_list;
use proto::Status;
use proto::schema::{Merge, Schema};
use serde_json::{Map, Value};
use std::sync::Arc;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Returns `current` merged with `patch` by the rules of `schema`.
pub fn apply(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, Status> {
    apply_to(schema, current.clone(), patch)
}

/// Does what [`apply`] does, with an object that belongs to the caller.
pub fn apply_to(schema: &Schema, current: Value, patch: &Value) -> Result<Value, Status> {
    // Go reads null as an empty map.
    if patch.is_null() {
        return Ok(current);
    }
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        let kind = super::json_patch::go_json_kind(patch);
        return Err(Status::bad_request(format!(
            "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )));
    };
    merge_map(Some(schema), current, patch.clone()).map(Value::Object).map_err(PatchError::into_status)
}

/// The errors of a patch. Kubernetes answers a malformed one with 400 and most others with 500.
#[derive(Debug, PartialEq, thiserror::Error)]
enum PatchError {
    #[error("invalid patch format of {0} list")]
    Malformed(&'static str),
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("{0}")]
    Other(String),
}

impl PatchError {
    fn into_status(self) -> Status {
        match &self {
            Self::Malformed(_) => Status::bad_request(self.to_string()),
            Self::ListOfLists => Status::failure(422, "Invalid", self.to_string()),
            Self::Other(_) => Status::failure(500, "", self.to_string()),
        }
    }

    fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Self {
        let shown = match directive {
            Value::String(text) => text.clone(),
            number @ Value::Number(_) => format!("%!s(int64={number})"),
            other => format!("%!s({})", shown_in_go(other)),
        };
        Self::Other(format!("unknown patch type: {shown} in map: {}", shown_in_go(&Value::Object(map.clone()))))
    }

    fn no_merge_key(map: &Map<String, Value>, key: &str) -> Self {
        let map = shown_in_go(&Value::Object(map.clone()));
        Self::Other(format!("map: {map} does not contain declared merge key: {key}"))
    }
}

type Fields = Map<String, Value>;

/// The schema's rule for a list: whether it merges, and by which key.
struct ListRule<'s> {
    items: Option<&'s Schema>,
    merges: bool,
    key: Option<&'s Arc<str>>,
}

fn list_rule<'s>(schema: Option<&'s Schema>, name: &str) -> ListRule<'s> {
    let field = schema.and_then(|schema| schema.field(name));
    let merge: Option<&Merge> = field.map(|field| &field.merge);
    ListRule {
        items: field.and_then(Schema::items),
        merges: merge.is_some_and(|merge| merge.patch_strategy.merge),
        key: merge.and_then(|merge| merge.patch_merge_key.as_ref()),
    }
}

fn merge_map(schema: Option<&Schema>, mut current: Fields, mut patch: Fields) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(PatchError::unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut current, &mut patch)?;
    merge_ordered_lists(schema, &mut current, &mut patch)?;
    for (name, value) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => (rest.strip_prefix('/').ok_or(PatchError::Malformed("primitive"))?.to_owned(), true),
            None => (name, false),
        };
        if value.is_null() {
            current.remove(&name);
            continue;
        }
        let merged = match (current.remove(&name), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let field = schema.and_then(|schema| schema.field(&name));
                if field.is_some_and(|field| field.merge.patch_strategy.replace) {
                    Value::Object(after)
                } else {
                    Value::Object(merge_map(field, before, after)?)
                }
            }
            (Some(Value::Array(before)), Value::Array(after)) => {
                let rule = list_rule(schema, &name);
                Value::Array(merge_list(&rule, before, after, deletes)?)
            }
            // Deleting from a value that is no list changes nothing.
            (before, _) if deletes => match before {
                Some(before) => before,
                None => continue,
            },
            (_, after) => match plain(after) {
                Some(after) => after,
                None => continue,
            },
        };
        current.insert(name, merged);
    }
    Ok(current)
}

/// Returns a value that has nothing to merge with: without nulls, and without items that carry a directive.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Some(Value::Object(kept.filter_map(|(name, value)| Some((name, plain(value)?))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(plain).collect())),
        scalar => Some(scalar),
    }
}

/// Applies `$retainKeys`: only the named fields of `current` stay, and the patch may set no other.
fn retain_keys(current: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Malformed("retainKeys");
    let Value::Array(keys) = keys else { return Err(malformed()) };
    let retained = |name: &str| keys.iter().any(|key| key == name);
    let directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !directive(name) && !retained(name)) {
        return Err(malformed());
    }
    current.retain(|name, _| retained(name));
    Ok(())
}

#[cfg(test)]
mod tests;
