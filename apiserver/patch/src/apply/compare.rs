//! Compares two objects field by field: which fields were added, modified and removed.
//!
//! Corresponds to sigs.k8s.io/structured-merge-diff/typed Compare.

use super::atoms::{Atom, ListAtom, MapAtom, Type, items};
use super::fields::FieldSet;
use super::path::PathElement;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::mem::discriminant;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// Returns the comparison without the fields that the endpoint resets, and without everything below them.
    pub fn without(self, reset: &FieldSet) -> Self {
        if reset.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(reset),
            modified: self.modified.recursive_difference(reset),
            removed: self.removed.recursive_difference(reset),
        }
    }
}

/// Compares `old` with `new`.
pub fn compare(ty: Type<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { found: Comparison::default(), path: Vec::new() };
    if old != new {
        walk.visit(ty, Some(old), Some(new));
    }
    walk.found
}

struct Walk {
    found: Comparison,
    path: Vec<PathElement>,
}

impl Walk {
    /// Compares a value that exists on at least one side and differs.
    fn visit(&mut self, ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match (old, new) {
            (None, None) => return,
            (Some(one), None) | (None, Some(one)) => self.visit_atom(ty.atom(one), old, new),
            (Some(left), Some(right)) => {
                let (before, after) = (ty.atom(left), ty.atom(right));
                if discriminant(&before) != discriminant(&after) {
                    self.visit_atom(before, old, new);
                }
                self.visit_atom(after, old, new)
            }
        };
        if !leaf {
            match (old, new) {
                (None, Some(_)) => self.found.added.insert(&self.path),
                (Some(_), None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares a value without parts. Returns false if the value has parts.
    fn visit_atom(&mut self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let leaf = match atom {
            Atom::Scalar(_) => true,
            Atom::List(list) => list.is_atomic() || (no_items(old) && no_items(new)),
            Atom::Map(map) => map.atomic || (no_fields(old) && no_fields(new)),
        };
        match atom {
            _ if leaf => self.leaf(old, new),
            Atom::List(list) => self.visit_items(list, old, new),
            Atom::Map(map) => self.visit_fields(map, old, new),
            Atom::Scalar(_) => {}
        }
        leaf
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn visit_fields(&mut self, map: MapAtom<'_>, old: Option<&Value>, new: Option<&Value>) {
        let none = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&none);
        let new = new.and_then(Value::as_object).unwrap_or(&none);
        let absent_before = new.keys().filter(|name| !old.contains_key(*name));
        for name in old.keys().chain(absent_before) {
            let (left, right) = (old.get(name), new.get(name));
            if left != right {
                self.path.push(PathElement::field(name));
                self.visit(map.field_or_deduced(name), left, right);
                self.path.pop();
            }
        }
    }

    fn visit_items(&mut self, list: ListAtom<'_>, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (by_element(list, old), by_element(list, new));
        let absent_before = new.keys().filter(|element| !old.contains_key(*element));
        for element in old.keys().chain(absent_before) {
            let none = Vec::new();
            let (left, right) = (old.get(element).unwrap_or(&none), new.get(element).unwrap_or(&none));
            self.path.push(element.clone());
            match (left.len(), right.len()) {
                (0 | 1, 0 | 1) if left == right => {}
                (0 | 1, 0 | 1) => self.visit(list.items, left.first().copied(), right.first().copied()),
                // Items with the same element are compared as one value.
                (2.., 2..) if left != right => self.found.modified.insert(&self.path),
                (2.., 2..) => {}
                (2.., _) => {
                    self.visit(list.items, None, right.first().copied());
                    self.found.removed.insert(&self.path);
                }
                _ => {
                    self.visit(list.items, left.first().copied(), None);
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

fn no_items(value: Option<&Value>) -> bool {
    value.is_none_or(|value| items(value).is_empty())
}

fn no_fields(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_none_or(Map::is_empty)
}

fn by_element<'v>(list: ListAtom<'_>, value: Option<&'v Value>) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut found: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in value.map_or(&[][..], items) {
        if let Ok(element) = list.element(item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}
