//! `FieldSet`: the fields that a manager owns, and the set arithmetic of ownership.
//!
//! Its serialized form is `fieldsV1`: nested objects keyed by path elements, with `.` for an element that is a member
//! itself and has members below. Corresponds to sigs.k8s.io/structured-merge-diff/fieldpath Set.

use super::path::{Path, PathElement, PathError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of paths, as a tree. Every branch has a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: BTreeMap<PathElement, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    member: bool,
    below: FieldSet,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&Path::of_fields(path).0);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The root itself (an empty path) is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.entries.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.entries.get(first).is_some_and(|entry| if rest.is_empty() { entry.member } else { entry.below.has(rest) })
    }

    /// Returns whether the element right below the root is a member.
    pub fn has_element(&self, element: &PathElement) -> bool {
        self.entries.get(element).is_some_and(|entry| entry.member)
    }

    /// Returns the members below that element.
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.entries.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        for (element, theirs) in &other.entries {
            let ours = result.entries.entry(element.clone()).or_default();
            ours.member |= theirs.member;
            if !theirs.below.is_empty() {
                ours.below = ours.below.union(&theirs.below);
            }
        }
        result
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |entry, theirs| match theirs {
            Some(theirs) => {
                Entry { member: entry.member && theirs.member, below: entry.below.intersection(&theirs.below) }
            }
            None => Entry::default(),
        })
    }

    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |entry, theirs| match theirs {
            Some(theirs) => {
                Entry { member: entry.member && !theirs.member, below: entry.below.difference(&theirs.below) }
            }
            None => entry.clone(),
        })
    }

    /// Removes the members of the other set: `difference` in place.
    pub fn subtract(&mut self, other: &Self) {
        for (element, theirs) in &other.entries {
            let Some(entry) = self.entries.get_mut(element) else { continue };
            entry.member &= !theirs.member;
            entry.below.subtract(&theirs.below);
            if entry.is_empty() {
                self.entries.remove(element);
            }
        }
    }

    /// As `difference`, and also removes everything below the other set's members.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(other, |entry, theirs| match theirs {
            Some(theirs) if theirs.member => Entry::default(),
            Some(theirs) => Entry { member: entry.member, below: entry.below.recursive_difference(&theirs.below) },
            None => entry.clone(),
        })
    }

    fn combine(&self, other: &Self, decide: impl Fn(&Entry, Option<&Entry>) -> Entry) -> Self {
        let entries = self.entries.iter().filter_map(|(element, entry)| {
            let entry = decide(entry, other.entries.get(element));
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self { entries: entries.collect() }
    }

    /// Adds the elements that only lead to members if `decide` returns true for the path so far.
    pub(super) fn add_members(&self, decide: &mut impl FnMut(&[PathElement]) -> bool) -> Self {
        let mut path = Vec::new();
        self.add_members_below(&mut path, decide)
    }

    fn add_members_below(&self, path: &mut Vec<PathElement>, decide: &mut impl FnMut(&[PathElement]) -> bool) -> Self {
        let mut entries = BTreeMap::new();
        for (element, entry) in &self.entries {
            path.push(element.clone());
            let member = entry.member || decide(path);
            let below = entry.below.add_members_below(path, decide);
            path.pop();
            entries.insert(element.clone(), Entry { member, below });
        }
        Self { entries }
    }

    /// Returns every member, parents before children.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for (element, entry) in &self.entries {
            prefix.push(element.clone());
            if entry.member {
                paths.push(Path(prefix.clone()));
            }
            entry.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Returns the set as `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (element, entry) in &self.entries {
            let mut below = entry.below.to_value();
            if let (true, Value::Object(inner)) = (entry.member && !entry.below.is_empty(), &mut below) {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.notation(), below);
        }
        Value::Object(map)
    }

    pub fn from_value(value: &Value) -> Result<Self, PathError> {
        let Value::Object(map) = value else { return Err(PathError::NotJson(value.to_string())) };
        let mut set = Self::default();
        for (key, below) in map {
            if key == "." {
                continue; // it belongs to the level above
            }
            let Some(element) = PathElement::parse(key)? else { continue };
            let inner = Self::from_value(below)?;
            let member = inner.is_empty() || below.get(".").is_some();
            set.entries.insert(element, Entry { member, below: inner });
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_value(&value).unwrap()
    }

    #[test]
    fn notation_round_trips() {
        let cases = [
            json!({}),
            json!({"f:data":{}}),
            json!({"f:data":{".":{},"f:a":{},"f:b":{}}}),
            json!({"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}),
            json!({"f:metadata":{"f:finalizers":{"v:\"a\"":{},"v:\"b\"":{}}}}),
        ];
        for case in cases {
            assert_eq!(set(case.clone()).to_value(), case);
        }
    }

    #[test]
    fn arithmetic() {
        let whole = set(json!({"f:a":{".":{},"f:x":{},"f:y":{}},"f:b":{}}));
        let part = set(json!({"f:a":{"f:x":{}},"f:c":{}}));
        assert_eq!(whole.difference(&part), set(json!({"f:a":{".":{},"f:y":{}},"f:b":{}})));
        assert_eq!(whole.intersection(&part), set(json!({"f:a":{"f:x":{}}})));
        assert_eq!(whole.union(&part), set(json!({"f:a":{".":{},"f:x":{},"f:y":{}},"f:b":{},"f:c":{}})));
        assert_eq!(whole.recursive_difference(&set(json!({"f:a":{}}))), set(json!({"f:b":{}})));
        assert_eq!(whole.difference(&set(json!({"f:a":{}}))), set(json!({"f:a":{"f:x":{},"f:y":{}},"f:b":{}})));
        assert!(whole.difference(&whole).is_empty());
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = proptest::collection::vec("[abc]", 1..4);
        proptest::collection::vec(path, 0..8).prop_map(|paths| {
            let paths: Vec<Vec<&str>> = paths.iter().map(|p| p.iter().map(String::as_str).collect()).collect();
            FieldSet::of(paths.iter().map(Vec::as_slice))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sets_behave_as_sets(a in any_set(), b in any_set()) {
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            let mut rest = a.clone();
            rest.subtract(&b);
            prop_assert_eq!(rest, a.difference(&b));
            prop_assert_eq!(FieldSet::from_value(&a.to_value()).unwrap(), a);
        }
    }
}
