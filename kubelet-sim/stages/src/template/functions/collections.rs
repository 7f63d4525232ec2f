//! Lists and maps: Go's `len`, `index` and `slice`, and Sprig's functions.

use crate::template::functions::{Function, fixed, many};
use crate::template::value::Value;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::BTreeMap;

pub const FUNCTIONS: &[Function] = &[
    fixed("len", 1, |a, _| match &a[0] {
        Value::Text(text) => Ok(Value::Int(text.len() as i64)),
        Value::List(items) => Ok(Value::Int(items.len() as i64)),
        Value::Map(members) => Ok(Value::Int(members.len() as i64)),
        Value::Nil => Err("len of nil pointer".to_owned()),
        other => Err(format!("len of type {}", other.type_name())),
    }),
    many("index", 1, |a, _| a[1..].iter().try_fold(a[0].clone(), |value, key| indexed(&value, key))),
    many("slice", 1, |a, _| sliced(&a[0], &a[1..])),
    many("list", 0, |a, _| Ok(Value::list(a.to_vec()))),
    many("dict", 0, |a, _| {
        let pairs = a.chunks(2).map(|pair| (pair[0].shown(), pair.get(1).cloned().unwrap_or_else(|| Value::text(""))));
        Ok(Value::map(pairs.collect()))
    }),
    fixed("get", 2, |a, _| Ok(a[0].as_map()?.get(a[1].as_text()?).cloned().unwrap_or_else(|| Value::text("")))),
    fixed("hasKey", 2, |a, _| Ok(Value::Bool(a[0].as_map()?.contains_key(a[1].as_text()?)))),
    many("keys", 1, |a, _| {
        let mut keys = Vec::new();
        for map in a {
            keys.extend(map.as_map()?.keys().map(Value::text));
        }
        Ok(Value::list(keys))
    }),
    fixed("values", 1, |a, _| Ok(Value::list(a[0].as_map()?.values().cloned().collect()))),
    many("pick", 1, |a, _| kept(a, true)),
    many("omit", 1, |a, _| kept(a, false)),
    many("merge", 1, |a, _| {
        let mut merged = BTreeMap::new();
        for map in a.iter().rev() {
            merged.extend(map.as_map()?.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok(Value::map(merged))
    }),
    fixed("first", 1, |a, _| Ok(a[0].as_list()?.first().cloned().unwrap_or(Value::Nil))),
    fixed("last", 1, |a, _| Ok(a[0].as_list()?.last().cloned().unwrap_or(Value::Nil))),
    fixed("rest", 1, |a, _| Ok(Value::list(a[0].as_list()?.iter().skip(1).cloned().collect()))),
    fixed("append", 2, |a, _| Ok(Value::list(a[0].as_list()?.iter().chain([&a[1]]).cloned().collect()))),
    many("concat", 0, |a, _| {
        let mut items = Vec::new();
        for list in a {
            items.extend_from_slice(list.as_list()?);
        }
        Ok(Value::list(items))
    }),
    fixed("has", 2, |a, _| Ok(Value::Bool(a[1].as_list()?.iter().any(|item| is_same(item, &a[0]))))),
    fixed("uniq", 1, |a, _| {
        let mut items: Vec<Value> = Vec::new();
        for item in a[0].as_list()? {
            if !items.iter().any(|known| is_same(known, item)) {
                items.push(item.clone());
            }
        }
        Ok(Value::list(items))
    }),
    fixed("reverse", 1, |a, _| Ok(Value::list(a[0].as_list()?.iter().rev().cloned().collect()))),
    fixed("sortAlpha", 1, |a, _| {
        let mut texts: Vec<String> = a[0].as_list()?.iter().map(Value::shown).collect();
        texts.sort();
        Ok(Value::list(texts.iter().map(Value::text).collect()))
    }),
    fixed("toJson", 1, |a, _| Ok(Value::text(a[0].json().to_string()))),
    fixed("fromJson", 1, |a, _| {
        Ok(serde_json::from_str::<Json>(a[0].as_text()?).map_or(Value::Nil, |json| Value::of(&json)))
    }),
];

fn is_same(a: &Value, b: &Value) -> bool {
    a.compare(b).map_or_else(|_| a.json() == b.json(), |order| order == Some(Ordering::Equal))
}

/// Returns an item of a list or a member of a map. A map without the key has nothing there; a list has to be long
/// enough.
fn indexed(value: &Value, key: &Value) -> Result<Value, String> {
    match value {
        Value::Nil => Err("index of untyped nil".to_owned()),
        Value::Map(members) => Ok(members.get(key.as_text()?).cloned().unwrap_or(Value::Nil)),
        Value::List(items) => match key {
            Value::Int(_) | Value::Number(_) => {
                let index = key.to_int();
                let item = usize::try_from(index).ok().and_then(|index| items.get(index));
                item.cloned().ok_or_else(|| format!("index out of range: {index}"))
            }
            other => Err(format!("cannot index slice/array with type {}", other.type_name())),
        },
        other => Err(format!("can't index item of type {}", other.type_name())),
    }
}

fn sliced(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        other => other.as_list()?.len(),
    };
    let bound = |at: usize, otherwise: usize| match bounds.get(at) {
        Some(bound) => usize::try_from(bound.to_int()).map_err(|_| format!("index out of range: {}", bound.shown())),
        None => Ok(otherwise),
    };
    let (from, to) = (bound(0, 0)?, bound(1, length)?);
    let refused = || format!("invalid slice index: {from} > {to}");
    match value {
        Value::Text(text) => text.get(from..to).map(Value::text).ok_or_else(refused),
        other => other.as_list()?.get(from..to).map(|items| Value::list(items.to_vec())).ok_or_else(refused),
    }
}

fn kept(arguments: &[Value], keeps: bool) -> Result<Value, String> {
    let names: Vec<String> = arguments[1..].iter().map(Value::shown).collect();
    let members = arguments[0].as_map()?.iter().filter(|(key, _)| names.contains(key) == keeps);
    Ok(Value::map(members.map(|(key, value)| (key.clone(), value.clone())).collect()))
}
