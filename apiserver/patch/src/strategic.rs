//! Strategic merge patch: lists of a type merge by its merge key, and directives delete, replace and order.
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

/// `current` with `patch` laid over it, as `schema` says.
pub fn apply(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, Status> {
    // Go reads null as a map without members.
    if patch.is_null() {
        return Ok(current.clone());
    }
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        let kind = super::json_patch::go_json_kind(patch);
        return Err(Status::bad_request(format!(
            "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )));
    };
    merge_map(Some(schema), current.clone(), patch.clone()).map(Value::Object).map_err(Wrong::into_status)
}

/// What is wrong with a patch. Kubernetes answers the malformed with 400 and most else with 500.
#[derive(Debug, PartialEq, thiserror::Error)]
enum Wrong {
    #[error("invalid patch format of {0} list")]
    Malformed(&'static str),
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("{0}")]
    Other(String),
}

impl Wrong {
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

/// What the schema says of a list: whether it merges, and by which key.
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

fn merge_map(schema: Option<&Schema>, mut current: Fields, mut patch: Fields) -> Result<Fields, Wrong> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(Wrong::unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut current, &mut patch)?;
    merge_ordered_lists(schema, &mut current, &mut patch)?;
    for (name, value) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => (rest.strip_prefix('/').ok_or(Wrong::Malformed("primitive"))?.to_owned(), true),
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
            // Deleting from what is no list changes nothing.
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

/// A value that meets nothing to merge with: without nulls, and without what carries a directive.
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

/// `$retainKeys`: of the current fields only those named stay, and the patch may set no other.
fn retain_keys(current: &mut Fields, patch: &mut Fields) -> Result<(), Wrong> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || Wrong::Malformed("retainKeys");
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
