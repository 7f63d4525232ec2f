//! `Value`: the values of the language.
//!
//! Copies are cheap, since large values are shared. Corresponds to github.com/google/cel-go/common/types.

use super::failure::{Failure, error};
use super::meter::Meter;
use super::types;
use super::types::Type;
use super::url::Url;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use proto::meta::quantity::Quantity;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    List(Arc<List>),
    Map(Arc<Map>),
    /// A map in which every absent key reads as the second value. It does not contain such a key.
    Defaulting(Arc<Map>, Arc<Value>),
    Optional(Option<Arc<Value>>),
    Type(&'static str),
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(IpNet),
    Format(&'static str),
    Semver(Arc<semver::Version>),
    Message(Arc<Message>),
    /// A value of a type that an extension defines.
    Foreign(Arc<dyn Foreign>),
    /// A value that could not be read, with the reason; using it fails.
    Broken(Arc<str>),
}

/// A value of an extension's type; its functions are methods.
pub trait Foreign: fmt::Debug + Send + Sync {
    /// Returns the name in its `Type::Opaque`.
    fn type_name(&self) -> &'static str;
    fn call(&self, name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome;
}

/// A message `Name{field: value}`, of a type in the environment.
#[derive(Debug)]
pub struct Message {
    pub name: Arc<str>,
    pub fields: Map,
}

/// The result of an evaluation.
pub type Outcome = Result<Value, Failure>;

pub type Map = BTreeMap<Key, Value>;

#[derive(Clone, Debug, Default)]
pub struct List {
    pub items: Vec<Value>,
    pub list_type: ListType,
}

/// The list type (`x-kubernetes-list-type`), which determines equality and `+`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ListType {
    #[default]
    Atomic,
    /// A set: each item once, without order.
    Set,
    /// The items are identified by these fields (`x-kubernetes-list-map-keys`), without order.
    Map(Arc<[String]>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    /// A number larger than any `Int`.
    Uint(u64),
    String(Arc<str>),
}

impl Key {
    /// Makes a key; equal numbers of any type are equal keys.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => i64::try_from(*number).map_or(Self::Uint(*number), Self::Int),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => Self::Int(*number as i64),
            Value::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }

    pub fn value(&self) -> Value {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }
}

impl Value {
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::String(text.as_ref().into())
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List { items, list_type: ListType::Atomic }))
    }

    pub fn map(entries: Map) -> Self {
        Self::Map(Arc::new(entries))
    }

    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns the entries of a map.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) | Self::Defaulting(map, _) => Some(map),
            _ => None,
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) | Self::Defaulting(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => types::QUANTITY,
            Self::Url(_) => types::URL,
            Self::Ip(_) => types::IP,
            Self::Cidr(_) => types::CIDR,
            Self::Format(_) => types::FORMAT,
            Self::Semver(_) => types::SEMVER,
            Self::Message(_) => "object",
            Self::Foreign(value) => value.type_name(),
            Self::Broken(_) => "error",
        }
    }

    /// Returns true if the value can be an argument of that type.
    pub fn is(&self, kind: &Type) -> bool {
        match kind {
            Type::Dyn | Type::Param(_) => true,
            Type::Null => matches!(self, Self::Null),
            Type::Bool => matches!(self, Self::Bool(_)),
            Type::Int => matches!(self, Self::Int(_)),
            Type::Uint => matches!(self, Self::Uint(_)),
            Type::Double => matches!(self, Self::Double(_)),
            Type::String => matches!(self, Self::String(_)),
            Type::Bytes => matches!(self, Self::Bytes(_)),
            Type::Duration => matches!(self, Self::Duration(_)),
            Type::Timestamp => matches!(self, Self::Timestamp(_)),
            // The items are checked when they are used.
            Type::List(_) => matches!(self, Self::List(_)),
            Type::Map(..) => self.as_map().is_some(),
            Type::Object(_) => self.as_map().is_some() || matches!(self, Self::Message(_)),
            Type::Optional(_) => matches!(self, Self::Optional(_)),
            Type::Type => matches!(self, Self::Type(_)),
            Type::Opaque(name) => self.type_name() == *name,
        }
    }

    /// Returns the number of characters, bytes, items or entries; 1 for a scalar.
    pub fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.items.len(),
            Self::Map(map) | Self::Defaulting(map, _) => map.len(),
            _ => 1,
        };
        size as u64
    }

    /// Converts any number to a double.
    pub fn double(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Uint(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }

    /// Compares two values; `None` if they have no order.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => self.double()?.partial_cmp(&other.double()?),
        }
    }

    /// Compares for equality. Values of different types differ, except numbers. Each compared value counts as work.
    pub fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Failure> {
        meter.work(0)?;
        Ok(match (self, other) {
            (Self::Broken(why), _) | (_, Self::Broken(why)) => return error(&**why),
            (Self::Null, Self::Null) => true,
            (Self::List(a), Self::List(b)) => return a.equals(b, meter),
            (Self::Message(a), Self::Message(b)) => {
                return Ok(a.name == b.name && maps_equal(&a.fields, &b.fields, meter)?);
            }
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => return a.equals(b, meter),
            (Self::Optional(a), Self::Optional(b)) => a.is_none() && b.is_none(),
            (Self::Type(a), Self::Type(b)) | (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.cmp_precedence(b).is_eq(),
            (Self::String(a), Self::String(b)) => {
                meter.work(a.len().min(b.len()) / 10)?;
                a == b
            }
            _ => match (self.as_map(), other.as_map()) {
                (Some(a), Some(b)) => return maps_equal(a, b, meter),
                _ => self.compare(other) == Some(Ordering::Equal),
            },
        })
    }

    /// Returns the item or entry at a key, if any.
    pub fn at(&self, key: &Self) -> Option<Self> {
        match self {
            Self::Map(map) => map.get(&Key::of(key)?).cloned(),
            Self::Defaulting(map, default) => Some(map.get(&Key::of(key)?).unwrap_or(default).clone()),
            Self::List(list) => match Key::of(key)? {
                Key::Int(index) => list.items.get(usize::try_from(index).ok()?).cloned(),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn field(&self, name: &Arc<str>) -> Option<Self> {
        match self {
            Self::Map(map) => map.get(&Key::String(name.clone())).cloned(),
            Self::Defaulting(map, default) => Some(map.get(&Key::String(name.clone())).unwrap_or(default).clone()),
            Self::Message(message) => message.fields.get(&Key::String(name.clone())).cloned(),
            _ => None,
        }
    }

    /// Returns true for the zero value of a type.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) | Self::Defaulting(..) => self.size() == 0,
            Self::Duration(duration) => duration.is_zero(),
            Self::Optional(inner) => inner.is_none(),
            other => other.double() == Some(0.0),
        }
    }
}

fn maps_equal(a: &Map, b: &Map, meter: &mut Meter) -> Result<bool, Failure> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (key, value) in a {
        let Some(theirs) = b.get(key) else { return Ok(false) };
        if !value.equals(theirs, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl List {
    fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Failure> {
        let (mine, theirs) = (&self.items, &other.items);
        if mine.len() != theirs.len() {
            return Ok(false);
        }
        let is_unordered = self.list_type != ListType::Atomic || other.list_type != ListType::Atomic;
        for (index, item) in mine.iter().enumerate() {
            let is_there =
                if is_unordered { other.contains(item, meter)? } else { item.equals(&theirs[index], meter)? };
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn contains(&self, wanted: &Value, meter: &mut Meter) -> Result<bool, Failure> {
        for item in &self.items {
            if item.equals(wanted, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends, for `+`. A set gets only new items, and a list of type map replaces items with the same key.
    pub fn add(&mut self, other: &Self, meter: &mut Meter) -> Result<(), Failure> {
        meter.work(other.items.len())?;
        match self.list_type.clone() {
            ListType::Atomic => self.items.extend(other.items.iter().cloned()),
            ListType::Set => {
                for item in &other.items {
                    if !self.contains(item, meter)? {
                        self.items.push(item.clone());
                    }
                }
            }
            ListType::Map(names) => {
                let of = |item: &Value| -> Vec<Value> {
                    names.iter().map(|name| item.field(&name.as_str().into()).unwrap_or(Value::Null)).collect()
                };
                for item in &other.items {
                    let wanted = Value::list(of(item));
                    let mut place = None;
                    for (index, mine) in self.items.iter().enumerate() {
                        if Value::list(of(mine)).equals(&wanted, meter)? {
                            place = Some(index);
                            break;
                        }
                    }
                    match place {
                        Some(index) => self.items[index] = item.clone(),
                        None => self.items.push(item.clone()),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Appends in place if the list is not shared, and to a copy otherwise.
pub fn appended(list: &mut Arc<List>, more: &List, meter: &mut Meter) -> Result<(), Failure> {
    if Arc::get_mut(list).is_none() {
        meter.work(list.items.len())?;
    }
    Arc::make_mut(list).add(more, meter)
}

/// Inserts an entry; a repeated key is an error.
pub fn insert(map: &mut Map, key: &Value, value: Value) -> Result<(), Failure> {
    let Some(of_key) = Key::of(key) else { return error(format!("unsupported key type: {}", key.type_name())) };
    let shown = shown_key(key);
    match map.insert(of_key, value) {
        None => Ok(()),
        Some(_) => error(format!("insert failed: key {shown} already exists")),
    }
}

pub fn shown_key(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => other.type_name().to_owned(),
    }
}

pub fn no_overload<T>(function: &str, arguments: &[Value]) -> Result<T, Failure> {
    let broken = arguments.iter().find_map(|argument| match argument {
        Value::Broken(why) => Some(why),
        _ => None,
    });
    if let Some(why) = broken {
        return error(&**why);
    }
    let kinds: Vec<&str> = arguments.iter().map(Value::type_name).collect();
    error(format!("no such overload: {function}({})", kinds.join(", ")))
}
