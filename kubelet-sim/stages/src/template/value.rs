//! `Value`: what a template computes with. Copies are cheap.

use serde_json::{Number, Value as Json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Value {
    /// An absent field, or null.
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A number of the object. It keeps its digits; as in KWOK, it counts as true even if it is zero.
    Number(Number),
    Text(Arc<str>),
    List(Arc<Collection<Vec<Value>>>),
    Map(Arc<Collection<BTreeMap<String, Value>>>),
}

/// A list or map, and how much it holds. Values share their parts, so counting them again would take too long.
#[derive(Debug)]
pub struct Collection<T> {
    parts: T,
    size: usize,
    depth: usize,
}

impl<T> Deref for Collection<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.parts
    }
}

impl Value {
    pub fn of(json: &Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::Number(number.clone()),
            Json::String(text) => Self::text(text),
            Json::Array(items) => Self::list(items.iter().map(Self::of).collect()),
            Json::Object(members) => {
                Self::map(members.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
        }
    }

    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Arc::from(text.as_ref()))
    }

    pub fn list(items: Vec<Value>) -> Self {
        let (size, depth) = extent(items.iter());
        Self::List(Arc::new(Collection { parts: items, size, depth }))
    }

    pub fn map(members: BTreeMap<String, Value>) -> Self {
        let (size, depth) = extent(members.values());
        Self::Map(Arc::new(Collection { parts: members, size, depth }))
    }

    /// Returns how much the value holds: a unit for each value in it, and for each 16 bytes of a text.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => 1 + text.len() / 16,
            Self::List(items) => items.size,
            Self::Map(members) => members.size,
            Self::Nil | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Number(_) => 1,
        }
    }

    /// Returns how many lists and maps lie in each other at most.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(items) => items.depth,
            Self::Map(members) => members.depth,
            _ => 0,
        }
    }

    pub fn json(&self) -> Json {
        match self {
            Self::Nil => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Float(value) => Json::from(*value),
            Self::Number(number) => Json::Number(number.clone()),
            Self::Text(text) => Json::String(text.to_string()),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(members) => members.iter().map(|(key, value)| (key.clone(), value.json())).collect(),
        }
    }

    /// Returns Go's truth of a value: false for what is absent, zero or empty.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Number(_) => true,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Map(members) => !members.is_empty(),
        }
    }

    /// Returns whether Sprig's `default` and `empty` take a value for empty: numbers of the object count here.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Number(number) => number.as_f64() == Some(0.0),
            other => !other.is_true(),
        }
    }

    /// Returns the name of a value's type in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float64",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// Returns the value as Go's `%v` shows it.
    pub fn shown(&self) -> String {
        match self {
            Self::Nil => "<nil>".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::shown).collect();
                format!("[{}]", items.join(" "))
            }
            Self::Map(members) => {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| format!("{key}:{}", value.shown())).collect();
                format!("map[{}]", members.join(" "))
            }
        }
    }

    pub fn as_text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Nil => Err("invalid value; expected string".to_owned()),
            other => Err(format!("wrong type for value; expected string; got {}", other.type_name())),
        }
    }

    pub fn as_list(&self) -> Result<&[Value], String> {
        match self {
            Self::List(items) => Ok(items),
            Self::Nil => Ok(&[]),
            other => Err(format!("wrong type for value; expected list; got {}", other.type_name())),
        }
    }

    pub fn as_map(&self) -> Result<&BTreeMap<String, Value>, String> {
        static NONE: BTreeMap<String, Value> = BTreeMap::new();
        match self {
            Self::Map(members) => Ok(members),
            Self::Nil => Ok(&NONE),
            other => Err(format!("wrong type for value; expected map; got {}", other.type_name())),
        }
    }

    /// Converts to a whole number as Sprig's `int64` does: what is no number counts as zero.
    pub fn to_int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            Self::Bool(value) => i64::from(*value),
            Self::Text(text) => text.trim().parse().unwrap_or_else(|_| self.to_float() as i64),
            Self::Number(number) => number.as_i64().unwrap_or_else(|| self.to_float() as i64),
            other => other.to_float() as i64,
        }
    }

    pub fn to_float(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Float(value) => *value,
            Self::Bool(value) => f64::from(u8::from(*value)),
            Self::Number(number) => number.as_f64().unwrap_or_default(),
            Self::Text(text) => text.trim().parse().unwrap_or_default(),
            Self::Nil | Self::List(_) | Self::Map(_) => 0.0,
        }
    }

    /// Compares two values as `eq` and `lt` do; `None` when they have no order.
    pub fn compare(&self, other: &Self) -> Result<Option<Ordering>, String> {
        let incompatible = "incompatible types for comparison";
        match (self, other) {
            (Self::List(_) | Self::Map(_), _) | (_, Self::List(_) | Self::Map(_)) => {
                Err("non-comparable type".to_owned())
            }
            (Self::Nil, Self::Nil) => Ok(Some(Ordering::Equal)),
            (Self::Nil, _) | (_, Self::Nil) => Ok(None),
            (Self::Bool(a), Self::Bool(b)) => Ok(if a == b { Some(Ordering::Equal) } else { None }),
            (Self::Text(a), Self::Text(b)) => Ok(Some(a.cmp(b))),
            (Self::Text(a), Self::Number(b)) => Ok(Some(a.as_ref().cmp(b.to_string().as_str()))),
            (Self::Number(a), Self::Text(b)) => Ok(Some(a.to_string().as_str().cmp(b))),
            (Self::Bool(_) | Self::Text(_), _) | (_, Self::Bool(_) | Self::Text(_)) => Err(incompatible.to_owned()),
            (Self::Int(a), Self::Int(b)) => Ok(Some(a.cmp(b))),
            (a, b) => Ok(a.to_float().partial_cmp(&b.to_float())),
        }
    }
}

/// Returns the size and depth of a collection of these values.
fn extent<'v>(values: impl Iterator<Item = &'v Value>) -> (usize, usize) {
    values.fold((1, 1), |(size, depth): (usize, usize), value| {
        (size.saturating_add(value.size()), depth.max(1 + value.depth()))
    })
}
