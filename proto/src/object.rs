//! `Object`: one revision of one stored object, immutable and shared by the store, the cache and all answers.
//!
//! Its bytes are canonical JSON (sorted keys, no white space) in the row's storage version. They lack
//! `resourceVersion`, which is inserted when the object is written to a client. A small index beside the bytes serves
//! selectors, owner references and preconditions, so that these need not parse the bytes.

use crate::meta::field_selector::FieldSelector;
use crate::serializer::json;
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// One entry of `metadata.ownerReferences`, for the garbage collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

/// The name of a selectable field. A custom resource defines its own while the server runs.
pub type FieldKey = Cow<'static, str>;

/// The facts about an object that are known without parsing its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub owners: Vec<Owner>,
    /// Values of the row's selectable fields by path, except `metadata.name` and `metadata.namespace`.
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
    /// The place in `bytes` at which `"resourceVersion":"N"` is inserted.
    splice: Splice,
    pub index: Arc<Index>,
    /// The store revision of the write. Clients see it as `resourceVersion`.
    pub revision: u64,
    parsed: OnceLock<Arc<Value>>,
}

/// Objects are equal if they have the same content at the same revision.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision && self.bytes == other.bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Splice {
    /// Offset of the value of `metadata`.
    metadata: usize,
    at: usize,
    comma_before: bool,
    comma_after: bool,
}

impl Object {
    /// Builds an object from a tree. `revision` replaces a `resourceVersion` in it. `fields` are the values of the
    /// row's selectable fields.
    pub fn from_value(mut value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("resourceVersion");
        }
        Self::of(value, revision, fields)
    }

    /// Builds the result of a dry run. It has no revision, but keeps the `resourceVersion` that the client sent.
    pub fn of_dry_run(mut value: Value, given: &str, fields: BTreeMap<FieldKey, String>) -> Self {
        if given.is_empty() {
            return Self::from_value(value, 0, fields);
        }
        value["metadata"]["resourceVersion"] = Value::from(given);
        Self::of(value, 0, fields)
    }

    fn of(value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        // A copy has no room to grow, which would take a tenth of the memory of a server with many pods.
        let bytes = Bytes::copy_from_slice(&json::to_canonical(&value));
        let mut index = index_of(&value);
        index.fields = fields;
        let object =
            Self { splice: splice_of(&bytes), bytes, index: Arc::new(index), revision, parsed: OnceLock::new() };
        let _ = object.parsed.set(Arc::new(value));
        object
    }

    /// Builds the object that the cache holds: it shares the stored bytes and keeps no tree. A tree takes many times as
    /// much memory, and most objects are never read again.
    pub fn from_stored(stored: &Bytes, value: Value, revision: u64, fields: BTreeMap<FieldKey, String>) -> Self {
        let mut object = Self::from_value(value, revision, fields);
        object.compact();
        // Another program may have written bytes into the store that are not canonical.
        if object.bytes == *stored {
            object.bytes = stored.clone();
        }
        object
    }

    /// Returns the same content under the revision that the store has given to it.
    pub fn at_revision(self, revision: u64) -> Self {
        Self { revision, ..self }
    }

    /// Copies the content under another revision: the last state of a deleted object.
    pub fn copy_at(&self, revision: u64) -> Self {
        Self {
            bytes: self.bytes.clone(),
            splice: self.splice,
            index: self.index.clone(),
            revision,
            parsed: self.parsed.clone(),
        }
    }

    /// Copies the object without its parsed tree, as the cache holds it.
    pub fn without_tree(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            splice: self.splice,
            index: self.index.clone(),
            revision: self.revision,
            parsed: OnceLock::new(),
        }
    }

    /// Returns the stored form, which has no `resourceVersion`.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the parsed tree, without `resourceVersion`. The object keeps it, so that it is parsed once.
    pub fn value(&self) -> Arc<Value> {
        self.parsed.get_or_init(|| Arc::new(self.parse())).clone()
    }

    /// Returns a tree for the caller to change, with `resourceVersion` as clients see it. Does not make the object keep
    /// a tree.
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

    /// Returns the same tree as `value`, but does not make the object keep it.
    pub fn peek(&self) -> Arc<Value> {
        self.parsed.get().cloned().unwrap_or_else(|| Arc::new(self.parse()))
    }

    fn parse(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are canonical JSON")
    }

    /// Drops the parsed tree.
    pub fn compact(&mut self) {
        self.parsed = OnceLock::new();
    }

    /// Returns the wire form in the storage version as three slices, without encoding anything again. An object of
    /// revision 0 was never stored and has no `resourceVersion`.
    pub fn to_wire(&self) -> [Bytes; 3] {
        [self.bytes.slice(..self.splice.at), self.resource_version(), self.bytes.slice(self.splice.at..)]
    }

    /// Returns the value of `metadata` in the same form.
    pub fn metadata_to_wire(&self) -> [Bytes; 3] {
        let Splice { metadata, at, .. } = self.splice;
        let end = json::value_end(&self.bytes, metadata);
        [self.bytes.slice(metadata..at), self.resource_version(), self.bytes.slice(at..end)]
    }

    /// Returns `"resourceVersion":"N"` with the commas that it needs.
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

/// Finds the place of `resourceVersion` among the sorted keys of `metadata`. Scans the canonical bytes once: first the
/// keys of the outermost object, then those of `metadata`.
fn splice_of(bytes: &[u8]) -> Splice {
    let meta = json::member_start(bytes, 0, "metadata").expect("a stored object has metadata");
    let place = json::insert_point(bytes, meta, "resourceVersion");
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
