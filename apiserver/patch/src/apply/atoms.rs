//! A schema as merging sees it: every value is a scalar, a list or a map, and a list or map is either one value
//! (atomic) or the sum of its parts.
//!
//! Corresponds to sigs.k8s.io/structured-merge-diff/schema and kube-openapi's schemaconv.

use super::path::PathElement;
use proto::schema::{ListType, Merge, Properties, Schema, Shape};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A declared type, or `None` for a type that is deduced from the value (free-form parts).
#[derive(Clone, Copy, Debug)]
pub struct Type<'s>(pub Option<&'s Schema>);

#[derive(Clone, Copy, Debug)]
pub enum Atom<'s> {
    Scalar(Scalar),
    List(ListAtom<'s>),
    Map(MapAtom<'s>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    String,
    Numeric,
    Boolean,
    Untyped,
}

#[derive(Clone, Copy, Debug)]
pub struct ListAtom<'s> {
    pub items: Type<'s>,
    pub relation: Relation<'s>,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub enum Relation<'s> {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By the values of some of their fields, with defaults for absent ones.
    Keys { keys: &'s [Arc<str>], defaults: &'s [(Arc<str>, Value)] },
}

#[derive(Clone, Copy, Debug)]
pub struct MapAtom<'s> {
    pub atomic: bool,
    fields: Fields<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Fields<'s> {
    Named(&'s Properties),
    Any(Type<'s>),
}

impl<'s> Type<'s> {
    pub const DEDUCED: Self = Self(None);

    pub fn of(schema: &'s Schema) -> Self {
        Self(Some(schema))
    }

    /// Returns the atom of a value. The value matters only if the schema leaves its shape open.
    pub fn atom(self, value: &Value) -> Atom<'s> {
        let Some(schema) = self.0 else { return deduced(value) };
        let target = schema.resolve();
        // The map type of the field may override that of its type.
        let atomic = schema.merge.atomic_map;
        match &target.shape {
            Shape::Any => deduced(value),
            Shape::Object(properties) => Atom::Map(MapAtom { atomic, fields: Fields::Named(properties) }),
            Shape::Map(values) => Atom::Map(MapAtom { atomic, fields: Fields::Any(Self::of(values)) }),
            Shape::List(items) => {
                let merge = if schema.merge == Merge::default() { &target.merge } else { &schema.merge };
                Atom::List(ListAtom { items: Self::of(items), relation: relation(merge) })
            }
            Shape::String => Atom::Scalar(Scalar::String),
            Shape::Integer | Shape::Number => Atom::Scalar(Scalar::Numeric),
            Shape::Boolean => Atom::Scalar(Scalar::Boolean),
            Shape::IntOrString | Shape::Quantity | Shape::Time | Shape::MicroTime => Atom::Scalar(Scalar::Untyped),
            Shape::Ref(_) => Atom::Scalar(Scalar::Untyped), // `resolve` leaves none
        }
    }
}

fn deduced<'s>(value: &Value) -> Atom<'s> {
    match value {
        Value::Array(_) => Atom::List(ListAtom { items: Type::DEDUCED, relation: Relation::Atomic }),
        Value::Object(_) | Value::Null => Atom::Map(MapAtom { atomic: false, fields: Fields::Any(Type::DEDUCED) }),
        _ => Atom::Scalar(Scalar::Untyped),
    }
}

/// Returns the list type, or the one that the patch strategy implies if none is given.
fn relation(merge: &Merge) -> Relation<'_> {
    match merge.list_type {
        Some(ListType::Atomic) => Relation::Atomic,
        Some(ListType::Set) => Relation::Set,
        Some(ListType::Map) => Relation::Keys { keys: &merge.map_keys, defaults: &merge.key_defaults },
        None if merge.patch_strategy.merge => match &merge.patch_merge_key {
            Some(key) => Relation::Keys { keys: std::slice::from_ref(key), defaults: &merge.key_defaults },
            None => Relation::Set,
        },
        None => Relation::Atomic,
    }
}

impl<'s> ListAtom<'s> {
    pub fn is_atomic(&self) -> bool {
        matches!(self.relation, Relation::Atomic)
    }

    /// Returns the path element that identifies an item, or why the item cannot have one.
    pub fn element(&self, item: &Value) -> Result<PathElement, &'static str> {
        match (self.relation, item) {
            (Relation::Atomic, _) => Err("invalid indexing of non-associative list"),
            (Relation::Set, Value::Object(_)) => Err("associative list without keys has an element that's a map type"),
            (Relation::Set, Value::Array(_)) => Err("not supported: associative list with lists as elements"),
            (Relation::Set, Value::Null) => Err("associative list without keys has an element that's an explicit null"),
            (Relation::Set, value) => Ok(PathElement::value(value)),
            (Relation::Keys { keys, defaults }, Value::Object(fields)) => {
                let value = |key: &Arc<str>| {
                    let default = || defaults.iter().find(|(name, _)| name == key).map(|(_, value)| value);
                    fields.get(&**key).or_else(default).cloned().unwrap_or(Value::Null)
                };
                let keys: Map<String, Value> = keys.iter().map(|key| (key.to_string(), value(key))).collect();
                Ok(PathElement::key(keys))
            }
            (Relation::Keys { .. }, Value::Null) => Err("associative list with keys may not have a null element"),
            (Relation::Keys { .. }, _) => Err("associative list with keys may not have non-map elements"),
        }
    }
}

impl<'s> MapAtom<'s> {
    /// Returns the type of a field, and whether the schema names it; `None` for a field that is not declared.
    pub fn field(&self, name: &str) -> Option<(Type<'s>, bool)> {
        match self.fields {
            Fields::Any(values) => Some((values, false)),
            Fields::Named(properties) => match properties.fields.get(name) {
                Some(schema) => Some((Type::of(schema), true)),
                None => properties.preserve_unknown.then_some((Type::DEDUCED, false)),
            },
        }
    }

    /// Returns the type of a field, as `field` does; the type of an undeclared one is deduced.
    pub fn field_or_deduced(&self, name: &str) -> Type<'s> {
        self.field(name).map_or(Type::DEDUCED, |(ty, _)| ty)
    }
}

/// Returns the items of a list; null has none.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
