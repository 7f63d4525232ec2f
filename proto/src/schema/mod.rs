//! The schema engine: one description of types for built-in and custom resources.
//!
//! A `Schema` describes the allowed values and how two values merge. Strict decoding, pruning, defaulting, strategic
//! merge, server-side apply and the OpenAPI documents read it. Corresponds to k8s.io/kube-openapi and
//! sigs.k8s.io/structured-merge-diff/typed.

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

/// The description of a value: its shape, and how it merges.
#[derive(Clone, Debug)]
pub struct Schema {
    pub description: Arc<str>,
    pub shape: Shape,
    pub merge: Merge,
    /// The allowed values, empty if all are.
    pub allowed: Vec<Value>,
    /// The default in OpenAPI and `kubectl explain`. For built-in kinds, the tables in `defaults` set defaults.
    pub default: Option<Value>,
    pub nullable: bool,
    /// OpenAPI `format`: `int32`, `int64`, `byte`, `date-time`, …, or empty.
    pub format: Arc<str>,
    /// The form of a field of this schema that is absent or empty.
    pub written: Written,
}

/// The condition for writing a field of a built-in type, which follows from pointers and `omitempty` in Go. The fields
/// of custom resources are `AsGiven`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// A pointer: written as given, omitted if absent or null.
    #[default]
    AsGiven,
    /// A value with `omitempty`: omitted if empty, zero, false or null.
    UnlessEmpty,
    /// A value without `omitempty`: if absent or null, the zero value of the shape (null for lists, maps and times).
    Always,
    /// A pointer without `omitempty`: null if absent.
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
    /// resource.Quantity: a string or a number, stored in canonical form.
    Quantity,
    /// metav1.Time, second precision.
    Time,
    /// metav1.MicroTime.
    MicroTime,
    /// Any value: RawExtension, JSON, fieldsV1, unstructured parts.
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
    /// The fields that are written even if absent (`Written::Always`, `Written::AlwaysNull`).
    pub always: Vec<Arc<str>>,
}

/// The rules by which lists and maps merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merge {
    /// x-kubernetes-list-type
    pub list_type: Option<ListType>,
    /// x-kubernetes-list-map-keys, for server-side apply.
    pub map_keys: Vec<Arc<str>>,
    /// Defaults of key fields, which apply before two list elements are compared (`protocol` of ports).
    pub key_defaults: Vec<(Arc<str>, Value)>,
    /// x-kubernetes-map-type: atomic
    pub atomic_map: bool,
    /// x-kubernetes-patch-strategy, for strategic merge.
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
    /// Replaces the whole value, although a struct would be merged.
    pub replace: bool,
}

/// A named type: `io.k8s.api.core.v1.Pod`. Cloning shares the definition.
#[derive(Clone)]
pub struct TypeRef {
    pub name: Arc<str>,
    target: Arc<OnceLock<Schema>>,
    /// The structural schema, for the types of custom resources.
    structural: Option<Arc<Structural>>,
}

impl TypeRef {
    /// Declares a name. `define` gives its schema later, because types may refer to themselves.
    pub fn declared(name: &str) -> Self {
        Self { name: name.into(), target: Arc::default(), structural: None }
    }

    /// Defines the name. A second definition has no effect.
    pub fn define(&self, schema: Schema) {
        let _ = self.target.set(schema);
    }

    /// Returns whether this is one of Kubernetes' own types, not the type of a custom resource.
    pub fn is_builtin(&self) -> bool {
        self.structural.is_none()
    }

    /// Returns the structural schema of a custom resource, or `None` for Kubernetes' own types.
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

    /// Follows references to the schema that is none. The merge rules of a field are those of the reference.
    pub fn resolve(&self) -> &Schema {
        let mut schema = self;
        while let Shape::Ref(reference) = &schema.shape {
            schema = reference.schema();
        }
        schema
    }

    /// Returns the schema of a named property, or of a map's values. Follows references.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match &self.resolve().shape {
            Shape::Object(properties) => properties.fields.get(name),
            Shape::Map(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the schema of a list's elements. Follows references.
    pub fn items(&self) -> Option<&Schema> {
        match &self.resolve().shape {
            Shape::List(items) => Some(items),
            _ => None,
        }
    }
}
