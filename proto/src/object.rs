//! `Object`: one revision of one stored object, immutable and shared by store, cache and every answer.
//!
//! Bytes are canonical JSON (sorted keys, no white space) in the row's storage version, without
//! `resourceVersion`, which is spliced in on the way out. Beside them lies the small index that
//! selectors, owners and preconditions need, so that none of them parses the bytes again.

use crate::meta::field_selector::FieldSelector;
use crate::serializer::json;
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// One entry of `metadata.ownerReferences`, as the garbage collector needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

/// The name of a selectable field; those of custom resources are known only while the server runs.
pub type FieldKey = Cow<'static, str>;

/// What is known of an object without parsing its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub owners: Vec<Owner>,
    /// Values of the row's selectable fields by path; `metadata.name` and `metadata.namespace` are not repeated here.
    pub fields: BTreeMap<FieldKey, String>,
    pub deleting: bool,
}

impl FieldSelector {
    /// Returns whether a selector whose paths are index keys selects an object with this index.
    pub fn matches(&self, index: &Index) -> bool {
        self.matches_by(|key| match key {
            "metadata.name" => index.name.as_str(),
            "metadata.namespace" => index.namespace.as_str(),
            key => index.fields.get(key).map_or("", String::as_str),
        })
    }
}

/// One revision of one object. Cheap to share: `Arc<Object>`.
#[derive(Debug)]
pub struct Object {
    /// Canonical JSON without `resourceVersion`.
    bytes: Bytes,
    /// Offset in `bytes` at which `"resourceVersion":"N"` belongs, and whether commas stand before and after it.
    splice: Splice,
    pub index: Arc<Index>,
    /// The store revision that wrote this; what clients see as `resourceVersion`.
    pub revision: u64,
    parsed: OnceLock<Arc<Value>>,
}

/// The same content at the same revision.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision && self.bytes == other.bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Splice {
    /// Where the value of `metadata` begins.
    metadata: usize,
    at: usize,
    comma_before: bool,
    comma_after: bool,
}

impl Object {
    /// From a tree. A `resourceVersion` in it is dropped; `revision` takes its place.
    /// `fields` are the row's selectable fields, already extracted.
    pub fn from_value(mut value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("resourceVersion");
        }
        Self::of(value, revision, fields)
    }

    /// What a dry run would have stored: of no revision, with the `resourceVersion` that its writer gave it, as a client
    /// sees it.
    pub fn tried(mut value: Value, given: &str, fields: BTreeMap<FieldKey, String>) -> Self {
        if given.is_empty() {
            return Self::from_value(value, 0, fields);
        }
        value["metadata"]["resourceVersion"] = Value::from(given);
        Self::of(value, 0, fields)
    }

    fn of(value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        let bytes = Bytes::from(json::to_canonical(&value));
        let mut index = index_of(&value);
        index.fields = fields;
        let object =
            Self { splice: splice_of(&bytes), bytes, index: Arc::new(index), revision, parsed: OnceLock::new() };
        let _ = object.parsed.set(Arc::new(value));
        object
    }

    /// From stored bytes and their tree. What the cache holds is these bytes, shared with the store, and no tree:
    /// a tree costs many times as much, and most objects are never looked into again.
    pub fn from_stored(stored: &Bytes, value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        let mut object = Self::from_value(value, revision, fields);
        object.compact();
        // Bytes that somebody else wrote into the store need not be canonical.
        if object.bytes == *stored {
            object.bytes = stored.clone();
        }
        object
    }

    /// The same content under the revision that the store gave it.
    pub fn at_revision(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    /// A copy of the same content under another revision, as the last state of a deleted object is shown.
    pub fn copy_at(&self, revision: u64) -> Self {
        Self {
            bytes: self.bytes.clone(),
            splice: self.splice,
            index: self.index.clone(),
            revision,
            parsed: self.parsed.clone(),
        }
    }

    /// The same object, with nothing but its bytes and its index, as the cache holds it.
    pub fn without_tree(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            splice: self.splice,
            index: self.index.clone(),
            revision: self.revision,
            parsed: OnceLock::new(),
        }
    }

    /// The stored form: no `resourceVersion`.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The parsed tree, without `resourceVersion`; parsed at most once.
    pub fn value(&self) -> Arc<Value> {
        self.parsed.get_or_init(|| Arc::new(self.parse())).clone()
    }

    /// A tree of one's own to change, with `resourceVersion` as clients see it. Where nobody has parsed the bytes yet,
    /// this tree is all that comes of it: the object keeps none.
    pub fn to_value(&self) -> Value {
        let mut value = match self.parsed.get() {
            Some(parsed) => Value::clone(parsed),
            None => self.parse(),
        };
        if self.revision != 0 {
            value["metadata"]["resourceVersion"] = Value::String(self.revision.to_string());
        }
        value
    }

    /// As `value`, for one look: where nobody has parsed the bytes yet, the object keeps no tree.
    pub fn peek(&self) -> Arc<Value> {
        self.parsed.get().cloned().unwrap_or_else(|| Arc::new(self.parse()))
    }

    fn parse(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are canonical JSON")
    }

    /// Drops the parsed tree, so that a cached object costs its bytes alone.
    pub fn compact(&mut self) {
        self.parsed = OnceLock::new();
    }

    /// The wire form in the storage version: three slices, nothing re-encoded. What was never stored, at revision 0,
    /// has no `resourceVersion`.
    pub fn to_wire(&self) -> [Bytes; 3] {
        [self.bytes.slice(..self.splice.at), self.resource_version(), self.bytes.slice(self.splice.at..)]
    }

    /// The value of `metadata` alone, in the same form.
    pub fn metadata_to_wire(&self) -> [Bytes; 3] {
        let Splice { metadata, at, .. } = self.splice;
        let end = json::value_end(&self.bytes, metadata);
        [self.bytes.slice(metadata..at), self.resource_version(), self.bytes.slice(at..end)]
    }

    /// `"resourceVersion":"N"` with the commas that it needs.
    fn resource_version(&self) -> Bytes {
        if self.revision == 0 {
            return Bytes::new();
        }
        let comma = |wanted| if wanted { "," } else { "" };
        let (before, after) = (comma(self.splice.comma_before), comma(self.splice.comma_after));
        Bytes::from(format!("{before}\"resourceVersion\":\"{}\"{after}", self.revision))
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn index_of(value: &Value) -> Index {
    let Some(meta) = value.get("metadata") else { return Index::default() };
    let labels = meta
        .get("labels")
        .and_then(Value::as_object)
        .map(|labels| labels.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect());
    let owners =
        meta.get("ownerReferences").and_then(Value::as_array).map(|owners| owners.iter().map(owner_of).collect());
    Index {
        namespace: text(meta, "namespace"),
        name: text(meta, "name"),
        uid: text(meta, "uid"),
        labels: labels.unwrap_or_default(),
        owners: owners.unwrap_or_default(),
        fields: BTreeMap::new(),
        deleting: meta.get("deletionTimestamp").is_some_and(|t| !t.is_null()),
    }
}

fn owner_of(owner: &Value) -> Owner {
    let flag = |key| owner.get(key).and_then(Value::as_bool).unwrap_or(false);
    Owner {
        api_version: text(owner, "apiVersion"),
        kind: text(owner, "kind"),
        name: text(owner, "name"),
        uid: text(owner, "uid"),
        controller: flag("controller"),
        block_owner_deletion: flag("blockOwnerDeletion"),
    }
}

/// Finds the place of `resourceVersion` among the sorted keys of `metadata`.
/// Scans the canonical bytes once: keys of the outermost object, then keys of `metadata`.
fn splice_of(bytes: &[u8]) -> Splice {
    let meta = json::member_start(bytes, 0, "metadata").expect("a stored object has metadata");
    let place = json::insert_place(bytes, meta, "resourceVersion");
    Splice { metadata: meta, at: place.at, comma_before: place.comma_before, comma_after: place.comma_after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wire(value: Value) -> String {
        String::from_utf8(Object::from_value(value, 7, BTreeMap::new()).to_wire().concat()).unwrap()
    }

    #[test]
    fn resource_version_is_spliced_at_its_sorted_place() {
        let cases = [
            (json!({"metadata":{}}), r#"{"metadata":{"resourceVersion":"7"}}"#),
            (json!({"metadata":{"name":"a"}}), r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#),
            (json!({"metadata":{"uid":"u"}}), r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#),
            (
                json!({"a":{"metadata":{"x":"}{\\\""}},"metadata":{"labels":{"resourceVersion":"1","z":"\"{"},"name":"n","uid":"u"}}),
                r#"{"a":{"metadata":{"x":"}{\\\""}},"metadata":{"labels":{"resourceVersion":"1","z":"\"{"},"name":"n","resourceVersion":"7","uid":"u"}}"#,
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(wire(value), expected);
        }
    }

    #[test]
    fn stored_bytes_are_shared_if_they_are_canonical() {
        let of = |text: &'static str| {
            let stored = Bytes::from_static(text.as_bytes());
            let object = Object::from_stored(&stored, serde_json::from_str(text).unwrap(), 7, BTreeMap::new());
            assert_eq!(object.to_value(), json!({"metadata":{"name":"a","resourceVersion":"7"}}));
            object.bytes().as_ptr() == stored.as_ptr()
        };
        assert!(of(r#"{"metadata":{"name":"a"}}"#));
        assert!(!of(r#"{ "metadata":{"name":"a"}}"#));
        assert!(!of(r#"{"metadata":{"name":"a","resourceVersion":"3"}}"#));
    }

    #[test]
    fn field_selectors_are_compared_with_the_index() {
        let index = Index {
            name: "web".into(),
            namespace: "shop".into(),
            fields: [("status.phase".into(), "Running".to_owned())].into(),
            ..Index::default()
        };
        let cases = [
            ("metadata.name=web,metadata.namespace=shop", true),
            ("metadata.namespace!=shop", false),
            ("metadata.name=web,status.phase!=Running", false),
            ("status.phase=Running", true),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
        ];
        for (text, expected) in cases {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(&index), expected, "{text}");
        }
    }

    #[test]
    fn what_was_never_stored_has_no_version() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}}), 0, BTreeMap::new());
        assert_eq!(object.to_wire().concat(), br#"{"metadata":{"name":"a"}}"#);
        assert_eq!(object.to_value(), json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn metadata_is_cut_out_with_its_version() {
        for (value, expected) in [
            (json!({"metadata": {}, "spec": {}}), r#"{"resourceVersion":"7"}"#),
            (
                json!({"data": {"metadata": "}"}, "metadata": {"name": "a", "uid": "u"}, "spec": {}}),
                r#"{"name":"a","resourceVersion":"7","uid":"u"}"#,
            ),
        ] {
            let object = Object::from_value(value, 7, BTreeMap::new());
            assert_eq!(object.metadata_to_wire().concat(), expected.as_bytes());
        }
    }

    #[test]
    fn a_version_in_the_tree_is_dropped() {
        let object = Object::from_value(json!({"metadata":{"resourceVersion":"3","name":"a"}}), 9, BTreeMap::new());
        assert_eq!(object.bytes(), r#"{"metadata":{"name":"a"}}"#);
        assert_eq!(object.to_value()["metadata"]["resourceVersion"], "9");
    }
}
