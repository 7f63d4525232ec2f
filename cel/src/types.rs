//! `Type`: the static types of expressions.
//!
//! Corresponds to github.com/google/cel-go/common/types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type; `Dyn` is checked at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Type {
    #[default]
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<ObjectType>),
    Optional(Arc<Type>),
    /// The type of a type.
    Type,
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A type parameter: of the checker, or in the table of functions of the overload.
    Param(usize),
}

/// An object type: named fields with types.
#[derive(Debug)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
    /// True if further fields of any type are allowed.
    pub is_open: bool,
}

impl ObjectType {
    pub fn field(&self, name: &str) -> Option<Type> {
        self.fields.get(name).cloned().or_else(|| self.is_open.then_some(Type::Dyn))
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

pub const QUANTITY: &str = "kubernetes.Quantity";
pub const URL: &str = "kubernetes.URL";
pub const IP: &str = "net.IP";
pub const CIDR: &str = "net.CIDR";
pub const FORMAT: &str = "kubernetes.NamedFormat";
pub const SEMVER: &str = "kubernetes.Semver";

impl Type {
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new(keys), Arc::new(values))
    }

    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub fn object(name: &str, fields: &[(&str, Self)]) -> Self {
        let fields = fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
        Self::Object(Arc::new(ObjectType { name: name.to_owned(), fields, is_open: false }))
    }

    /// Returns true if all values have the same size.
    pub fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// Returns true if null is allowed in place of a value.
    pub fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Object(_) | Self::Duration | Self::Timestamp | Self::Opaque(_) | Self::Optional(_)
        )
    }

    /// Returns the type inside an optional and true, or the type itself and false.
    pub fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Dyn | Self::Param(_) => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Type => "type",
            Self::Opaque(name) => name,
            Self::Object(object) => &object.name,
            Self::List(items) => return write!(f, "list({items})"),
            Self::Map(keys, values) => return write!(f, "map({keys}, {values})"),
            Self::Optional(inner) => return write!(f, "optional_type({inner})"),
        };
        f.write_str(word)
    }
}
