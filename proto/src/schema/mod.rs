//! The schema engine: one description of types that serves built-in and custom resources alike.
//!
//! A `Schema` says what a value may be and how two values merge. It is read by strict decoding, pruning,
//! defaulting, strategic merge, server-side apply and the OpenAPI documents.
//! Corresponds to k8s.io/kube-openapi and sigs.k8s.io/structured-merge-diff/typed.

pub mod builtin;
pub mod decode;
pub mod defaults;
pub mod facts;
pub mod go_time;
mod go_type;
mod protobuf;
pub mod structural;

pub use builtin::builtin_type;
pub use decode::{DecodeError, Decoded, decode, decode_document};
pub use defaults::apply_defaults;

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use structural::Structural;

/// What a value may be, and how it merges.
#[derive(Clone, Debug)]
pub struct Schema {
    pub description: Arc<str>,
    pub shape: Shape,
    pub merge: Merge,
    /// Allowed values; empty where any will do.
    pub allowed: Vec<Value>,
    /// Shown in OpenAPI and `kubectl explain`; defaulting itself is a table of its own for built-in kinds.
    pub default: Option<Value>,
    pub nullable: bool,
    /// OpenAPI `format`: `int32`, `int64`, `byte`, `date-time`, …; empty where none.
    pub format: Arc<str>,
    /// How a field of this schema is written where it is absent or empty.
    pub written: Written,
}

/// When a field of a built-in type is written: what Go makes of pointers and `omitempty`. Custom resources keep
/// what they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// A pointer: written as given, left out when absent or null.
    #[default]
    AsGiven,
    /// A value that may be omitted: left out when empty, zero, false or null.
    UnlessEmpty,
    /// Always there: absent or null is the zero value of the shape (null for lists, maps and times).
    Always,
    /// A pointer that is always there: absent is null.
    AlwaysNull,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Named properties.
    Object(Properties),
    /// Any keys, values of one schema: labels, data, resource quantities.
    Map(Box<Schema>),
    List(Box<Schema>),
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// resource.Quantity: a string or a number, kept in canonical form.
    Quantity,
    /// metav1.Time, second precision.
    Time,
    /// metav1.MicroTime.
    MicroTime,
    /// Anything at all: RawExtension, JSON, fieldsV1, unstructured parts.
    Any,
    /// A named type, shared and possibly recursive.
    Ref(TypeRef),
}

#[derive(Clone, Debug, Default)]
pub struct Properties {
    pub fields: BTreeMap<Arc<str>, Schema>,
    pub required: Vec<Arc<str>>,
    /// x-kubernetes-preserve-unknown-fields
    pub preserve_unknown: bool,
    /// The fields that are written even if nobody set them (`Written::Always`, `Written::AlwaysNull`).
    pub always: Vec<Arc<str>>,
}

/// How lists and maps combine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merge {
    /// x-kubernetes-list-type
    pub list_type: Option<ListType>,
    /// x-kubernetes-list-map-keys, for server-side apply.
    pub map_keys: Vec<Arc<str>>,
    /// Fields of list elements that key defaulting fills in before comparing (`protocol` of ports).
    pub key_defaults: Vec<(Arc<str>, Value)>,
    /// x-kubernetes-map-type: atomic
    pub atomic_map: bool,
    /// x-kubernetes-patch-strategy: what strategic merge does.
    pub patch_strategy: PatchStrategy,
    /// x-kubernetes-patch-merge-key, for strategic merge.
    pub patch_merge_key: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// x-kubernetes-patch-strategy; `merge,retainKeys` sets both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    pub retain_keys: bool,
    /// The whole value is replaced, where a struct would be merged.
    pub replace: bool,
}

/// A named type: `io.k8s.api.core.v1.Pod`. Cloning shares the definition.
#[derive(Clone)]
pub struct TypeRef {
    pub name: Arc<str>,
    target: Arc<OnceLock<Schema>>,
    /// Of custom resources: the schema that they are pruned, filled and validated by.
    structural: Option<Arc<Structural>>,
}

impl TypeRef {
    /// A name whose definition follows: types may refer to themselves.
    pub fn declared(name: &str) -> Self {
        Self { name: name.into(), target: Arc::default(), structural: None }
    }

    /// Gives the name its definition; the first one stays.
    pub fn define(&self, schema: Schema) {
        let _ = self.target.set(schema);
    }

    /// Whether it is one of Kubernetes' own types, not the schema of a custom resource.
    pub fn is_builtin(&self) -> bool {
        self.structural.is_none()
    }

    /// The schema of a custom resource; `None` for Kubernetes' own types.
    pub fn structural(&self) -> Option<&Arc<Structural>> {
        self.structural.as_ref()
    }

    pub fn schema(&self) -> &Schema {
        self.target.get().expect("every declared type is defined before the table is used")
    }
}

impl std::fmt::Debug for TypeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TypeRef({})", self.name)
    }
}

impl Schema {
    pub fn of(shape: Shape) -> Self {
        Self {
            description: "".into(),
            shape,
            merge: Merge::default(),
            allowed: Vec::new(),
            default: None,
            nullable: false,
            format: "".into(),
            written: Written::default(),
        }
    }

    /// The schema behind any chain of references. Merge facts belong to the referring field, not to the target.
    pub fn resolve(&self) -> &Schema {
        let mut schema = self;
        while let Shape::Ref(reference) = &schema.shape {
            schema = reference.schema();
        }
        schema
    }

    /// The schema of a named property, through references; also of a map's values.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match &self.resolve().shape {
            Shape::Object(properties) => properties.fields.get(name),
            Shape::Map(values) => Some(values),
            _ => None,
        }
    }

    /// The schema of a list's elements, through references.
    pub fn items(&self) -> Option<&Schema> {
        match &self.resolve().shape {
            Shape::List(items) => Some(items),
            _ => None,
        }
    }
}
