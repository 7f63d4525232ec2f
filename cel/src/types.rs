//! The types that expressions have before there is a value.
//!
//! Corresponds to github.com/google/cel-go/common/types.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type. What is `Dyn` is judged when the expression runs.
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
    /// Of a library: `kubernetes.Quantity`.
    Opaque(&'static str),
    /// Stands for a type that is found by the checker; in the table of functions, for one of the call.
    Param(usize),
}

/// Named fields, each of its own type.
#[derive(Debug)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
    /// Further fields may be named, which can be anything.
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

    /// Of one size, whatever the value.
    pub fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// Null may stand where such a value is expected.
    pub fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Object(_) | Self::Duration | Self::Timestamp | Self::Opaque(_) | Self::Optional(_)
        )
    }

    /// The type inside an optional, and whether there was one.
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
