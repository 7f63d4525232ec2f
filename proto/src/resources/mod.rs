//! The resource table: every row is a stored resource, with all the names and versions it is served under.
//!
//! One table drives routes, discovery, OpenAPI, RBAC names, storage prefixes, printer columns, field selectors
//! and the garbage collector's graph. A CustomResourceDefinition adds rows of the same struct at run time.

use crate::gvk::{Gvk, Gvr};
use crate::schema::TypeRef;
use serde_json::Value;
use std::borrow::Cow;

pub type Text = Cow<'static, str>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// One row: one stored resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Kubernetes' own etcd prefix below `/registry/`: `pods`, `minions`, `services/specs`.
    /// `None` for what is never stored: reviews, bindings, component statuses.
    pub prefix: Option<Text>,
    pub scope: Scope,
    /// Which `served` entry the bytes in the store are written in.
    pub storage: usize,
    pub served: Vec<Served>,
}

/// One version under which a row is served.
#[derive(Clone, Debug)]
pub struct Served {
    pub group: Text,
    pub version: Text,
    /// Plural, lower case: the URL segment.
    pub resource: Text,
    pub singular: Text,
    pub kind: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub verbs: &'static [Verb],
    pub subresources: Vec<Subresource>,
    pub schema: TypeRef,
    pub columns: Vec<Column>,
    /// Paths that field selectors may name besides `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<SelectableField>,
    pub conversion: Conversion,
}

/// Discovery verbs, in the alphabetical order in which Kubernetes lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// `status`, `scale`, `log`, …
    pub name: Text,
    /// What a request or answer carries: `autoscaling/v1 Scale`, `policy/v1 Eviction`. `None`: the parent's own kind.
    pub kind: Option<(Text, Text, Text)>,
    pub verbs: &'static [Verb],
}

/// One printer column of `kubectl get`.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: Text,
    /// OpenAPI type: `string`, `integer`, `date`, …
    pub kind: &'static str,
    /// `name` for the first column, else mostly empty.
    pub format: &'static str,
    pub description: Text,
    /// 0 is always shown; more only with `-o wide`.
    pub priority: i32,
    pub cell: Cell,
}

/// How a column's value is found.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A pure function of the object and the present time, in seconds since the epoch.
    Of(fn(&Value, i64) -> Value),
    /// `additionalPrinterColumns` of a custom resource.
    JsonPath(String),
}

#[derive(Clone, Copy, Debug)]
pub struct SelectableField {
    pub path: &'static str,
    /// The field's value as the selector compares it; an absent field is the empty string (or its documented default).
    pub value: fn(&Value) -> String,
}

/// Between a served version and the storage version. Both functions take and return whole objects and
/// rewrite `apiVersion` and `kind`.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// Same shape; `apiVersion` alone differs, if anything.
    Same,
    With { to_storage: fn(Value) -> Value, from_storage: fn(Value) -> Value },
}

impl Served {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(self.group.as_ref(), self.version.as_ref(), self.kind.as_ref())
    }

    pub fn gvr(&self) -> Gvr {
        Gvr::new(self.group.as_ref(), self.version.as_ref(), self.resource.as_ref())
    }

    pub fn api_version(&self) -> String {
        crate::gvk::api_version(&self.group, &self.version)
    }

    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

impl Resource {
    pub fn storage_version(&self) -> &Served {
        &self.served[self.storage]
    }
}
