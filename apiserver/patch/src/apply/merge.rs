//! Merges a configuration into an object, and removes fields from one.
//!
//! Corresponds to sigs.k8s.io/structured-merge-diff/typed Merge and RemoveItems.

use super::atoms::{Atom, ListAtom, MapAtom, Type, items};
use super::fields::FieldSet;
use super::path::PathElement;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;

/// Returns `object` with every field that `config` sets. An error names an item that the configuration has twice.
pub fn merge(ty: Type<'_>, object: &Value, config: &Value) -> Result<Value, String> {
    Ok(merged(ty, Some(object), Some(config))?.unwrap_or(Value::Null))
}

fn merged(ty: Type<'_>, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Value>, String> {
    match (left, right) {
        (None, None) => Ok(None),
        (Some(one), None) => merged_atom(ty.atom(one), left, right),
        (None, Some(one)) => merged_atom(ty.atom(one), left, right),
        (Some(before), Some(after)) => {
            let (old, new) = (ty.atom(before), ty.atom(after));
            // A free-form part changed its shape: the new value replaces the old one.
            if discriminant(&old) != discriminant(&new) {
                Ok(Some(after.clone()))
            } else {
                merged_atom(new, left, right)
            }
        }
    }
}

fn merged_atom(atom: Atom<'_>, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Value>, String> {
    let whole = || Ok(right.or(left).cloned());
    let none = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        _ => true,
    };
    match atom {
        Atom::Scalar(_) => whole(),
        _ if none(left) && none(right) => whole(),
        Atom::List(list) if list.is_atomic() => whole(),
        Atom::Map(map) if map.atomic => whole(),
        Atom::List(list) => merged_items(list, left, right),
        Atom::Map(map) => merged_fields(map, left, right),
    }
}

fn merged_fields(map: MapAtom<'_>, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Value>, String> {
    let none = Map::new();
    let left = left.and_then(Value::as_object).unwrap_or(&none);
    let right = right.and_then(Value::as_object).unwrap_or(&none);
    let mut result = Map::new();
    let only_right = right.keys().filter(|name| !left.contains_key(*name));
    for name in left.keys().chain(only_right) {
        let value = match right.get(name) {
            None => left.get(name).cloned(), // unchanged below
            some => merged(map.field_or_deduced(name), left.get(name), some).map_err(|e| format!(".{name}{e}"))?,
        };
        if let Some(value) = value {
            result.insert(name.clone(), value);
        }
    }
    Ok((!result.is_empty()).then_some(Value::Object(result)))
}

/// Merges two lists in the order of the configuration. Other items keep their place among their neighbours.
fn merged_items(list: ListAtom<'_>, left: Option<&Value>, right: Option<&Value>) -> Result<Option<Value>, String> {
    let left = left.map_or(&[][..], items);
    let right = right.map_or(&[][..], items);
    let left_elements = elements(list, left)?;
    let right_elements = elements(list, right)?;
    let ours: BTreeMap<&PathElement, Option<&Value>> = index(&left_elements, left);
    let mut theirs: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (element, item) in right_elements.iter().zip(right) {
        if theirs.insert(element, item).is_some() {
            return Err(format!(": duplicate entries for key {element}"));
        }
    }

    let mut shared: VecDeque<&PathElement> = right_elements.iter().filter(|e| ours.contains_key(e)).collect();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut result = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            let element = &left_elements[l];
            if *element == right_elements[r] {
                // Both lists are at the same item.
                let both =
                    merged(list.items, ours[element], Some(theirs[element])).map_err(|e| format!("{element}{e}"))?;
                result.extend(both);
                done.insert(element);
                shared.pop_front();
                (l, r) = (l + 1, r + 1);
                continue;
            }
            if theirs.contains_key(element) && shared.front().is_some_and(|next| *next != element) {
                l += 1; // in both lists, and placed later
                continue;
            }
        }
        if l < left.len() {
            let element = &left_elements[l];
            if !theirs.contains_key(element) {
                result.push(left[l].clone());
                l += 1;
                continue;
            }
            if done.contains(element) {
                l += 1;
            }
        }
        if r < right.len() {
            let element = &right_elements[r];
            let before = ours.get(element).copied().flatten();
            let item = merged(list.items, before, Some(&right[r])).map_err(|e| format!("{element}{e}"))?;
            result.extend(item);
            done.insert(element);
            r += 1;
            if shared.front() == Some(&element) {
                shared.pop_front();
            }
        }
    }
    Ok((!result.is_empty()).then_some(Value::Array(result)))
}

fn elements(list: ListAtom<'_>, items: &[Value]) -> Result<Vec<PathElement>, String> {
    let element = |(index, item)| list.element(item).map_err(|why| format!(": element {index}: {why}"));
    items.iter().enumerate().map(element).collect()
}

/// Maps elements to items. An item that exists twice maps to `None`: nothing merges with it.
fn index<'v>(elements: &'v [PathElement], items: &'v [Value]) -> BTreeMap<&'v PathElement, Option<&'v Value>> {
    let mut found: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (element, item) in elements.iter().zip(items) {
        found.entry(element).and_modify(|twice| *twice = None).or_insert(Some(item));
    }
    found
}

/// Returns `value` without the members of `gone`. A map or list that loses everything becomes null.
pub fn without(ty: Type<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (ty.atom(value), value) {
        (Atom::Map(map), Value::Object(fields)) => {
            let mut kept = Map::new();
            for (name, field) in fields {
                let element = PathElement::field(name);
                if gone.has_element(&element) {
                    continue;
                }
                let field = match gone.below(&element) {
                    Some(below) => without(map.field_or_deduced(name), field, below),
                    None => field.clone(),
                };
                kept.insert(name.clone(), field);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Atom::List(list), Value::Array(items)) => {
            let mut kept = Vec::new();
            for item in items {
                let Ok(element) = list.element(item) else {
                    kept.push(item.clone());
                    continue;
                };
                if gone.has_element(&element) {
                    continue;
                }
                kept.push(match gone.below(&element) {
                    Some(below) => without(list.items, item, below),
                    None => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => value.clone(),
    }
}

/// Returns `set` with the fields that lead to its members and that the schema names. Claims leave those out.
pub fn with_named_fields(ty: Type<'_>, set: &FieldSet) -> FieldSet {
    set.add_members(&mut |path| is_named(ty, path))
}

/// Returns whether the path ends in a field that the schema names. Free-form parts have none.
fn is_named(ty: Type<'_>, path: &[PathElement]) -> bool {
    let mut ty = ty;
    for (depth, element) in path.iter().enumerate() {
        let last = depth + 1 == path.len();
        match element {
            PathElement::Field(name) => {
                let Atom::Map(map) = ty.atom(&Value::Null) else { return false };
                match map.field(name) {
                    Some((_, named)) if last => return named,
                    Some((next, _)) => ty = next,
                    None => return false,
                }
            }
            PathElement::Key(_) => {
                let Atom::List(list) = ty.atom(&Value::Null) else { return false };
                ty = list.items;
            }
            _ => return false,
        }
    }
    false
}
