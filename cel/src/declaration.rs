//! `Declaration`: the type of a variable with the largest sizes of its parts.
//!
//! The checker needs the types, and the cost estimate needs the sizes. Corresponds to k8s.io/apiserver/pkg/cel DeclType.

use super::types::{ObjectType, Type};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of a request, and so of any value in it.
pub const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// The declaration of a variable or a part of one.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub kind: Type,
    /// Most characters, bytes, items or entries.
    pub max_elements: u64,
    /// Least bytes of its JSON.
    pub min_bytes: u64,
    fields: BTreeMap<String, Declaration>,
    /// Declaration of a list's items or a map's values.
    element: Option<Box<Declaration>>,
}

impl Declaration {
    pub fn scalar(kind: Type, min_bytes: u64) -> Self {
        Self { kind, max_elements: 0, min_bytes, fields: BTreeMap::new(), element: None }
    }

    pub fn with_max(mut self, max_elements: u64) -> Self {
        self.max_elements = max_elements;
        self
    }

    /// Declares a list. Without `max`, a request's size limits the number of items.
    pub fn list(items: Self, max: Option<u64>) -> Self {
        const BRACKETS: u64 = 2;
        let max = max.unwrap_or((MAX_REQUEST_BYTES - BRACKETS) / (items.min_bytes + 1));
        let kind = Type::list(items.kind.clone());
        Self { element: Some(Box::new(items)), ..Self::scalar(kind, BRACKETS).with_max(max) }
    }

    /// Declares a map. Without `max`, a request's size limits the number of entries.
    pub fn map(values: Self, max: Option<u64>) -> Self {
        const BRACES: u64 = 2;
        // Two bytes of a key, its quotes, colon and comma.
        const KEY: u64 = 6;
        let max = max.unwrap_or((MAX_REQUEST_BYTES - BRACES) / (values.min_bytes + KEY));
        let kind = Type::map(Type::String, values.kind.clone());
        Self { element: Some(Box::new(values)), ..Self::scalar(kind, BRACES).with_max(max) }
    }

    /// Declares an object. `min_bytes` counts its required content without the braces.
    pub fn object(name: &str, fields: BTreeMap<String, Self>, min_bytes: u64) -> Self {
        let types = fields.iter().map(|(name, field)| (name.clone(), field.kind.clone())).collect();
        let kind = Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields: types, is_open: false }));
        Self { fields, ..Self::scalar(kind, 2 + min_bytes) }
    }

    pub fn field(&self, name: &str) -> Option<&Self> {
        self.fields.get(name)
    }

    pub fn element(&self) -> Option<&Self> {
        self.element.as_deref()
    }
}
