//! The resource table: every row is a stored resource, with all names and versions under which it is served.
//!
//! One table drives routes, discovery, OpenAPI, RBAC names, storage prefixes, printer columns, field selectors
//! and the garbage collector's graph.
//! Corresponds to the registry wiring of kube-apiserver (pkg/registry/*/rest) and its storage factory.

pub mod catalogue;
pub mod columns;
pub mod conversion;
pub mod fields;
pub mod groups;
mod row;

// One file per API group.
mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

use crate::gvk::{Gvk, Gvr};
use crate::object::Object;
use crate::schema::TypeRef;
use crate::schema::structural::json_path::JsonPath;
use crate::schema::structural::{fill, prune};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

pub use catalogue::{Catalogue, Target};
pub use fields::{SelectableField, UnknownField};
pub use row::{PART_VERBS, STORED_VERBS};

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
    /// `None` for resources that are never stored: reviews, bindings, component statuses.
    pub prefix: Option<Text>,
    pub scope: Scope,
    /// Index of the `served` entry that is the storage version.
    pub storage: usize,
    pub served: Vec<Served>,
    /// Whether its definition is being deleted, so that no object may be created.
    pub is_terminating: bool,
    /// Whether a deletion answers with the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// Whether the server itself acts by these objects, in what it allows, admits and completes. A write of one is
    /// answered when the server's own cache has it, so that the next request is judged by it.
    pub is_followed_by_server: bool,
    /// Whether the objects are removed by themselves, `--event-ttl` after their last write.
    pub expires: bool,
    /// The feature gate without which no version is served.
    pub gate: Option<&'static str>,
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
    /// Whether requests may use this version. If not, it only serves to read objects that were stored in it.
    pub is_served: bool,
    /// The warning that answers requests for this version.
    pub deprecation: Option<Text>,
    pub verbs: &'static [Verb],
    pub subresources: Vec<Subresource>,
    /// The fields behind the `scale` subresource.
    pub scale: ScalePaths,
    pub schema: TypeRef,
    /// Empty for a kind without columns of its own. Its tables show name and creation time.
    pub columns: Vec<Column>,
    /// Returns the conditions of a table row: that a pod has run to completion.
    pub row_conditions: Option<fn(&Value) -> Vec<Value>>,
    /// Returns the sort key of the objects in a table, if they are not sorted by name.
    pub row_order: Option<fn(&Value) -> (i64, String)>,
    /// The fields that field selectors may name besides `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<SelectableField>,
    /// The wording of the error for any other field.
    pub unknown_field: UnknownField,
    pub conversion: Conversion,
}

/// How far a version has come. Kubernetes serves alpha and beta versions only where it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Alpha,
    Beta,
    Stable,
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
    /// Group, version and kind of its requests and answers: `policy`, `v1`, `Eviction`. `None` for the parent's kind.
    pub kind: Option<(Text, Text, Text)>,
    pub verbs: &'static [Verb],
}

/// One printer column of `kubectl get`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Empty for a cell without a column definition.
    pub name: Text,
    /// OpenAPI type: `string`, `integer`, `date`, …
    pub kind: Text,
    /// `name` for the column with the object's name, else mostly empty.
    pub format: Text,
    pub description: Text,
    /// 0 for columns that are always shown, 1 for those of `-o wide`.
    pub priority: i32,
    pub cell: Cell,
}

/// A pure function of an object in its storage version and of the current time, in seconds since the epoch.
pub type CellOf = fn(&Value, i64) -> Value;

/// The way to compute the value of a column.
#[derive(Clone, Debug)]
pub enum Cell {
    Of(CellOf),
    /// The text at a JSON pointer, or `otherwise` if it is absent or empty.
    Text {
        pointer: &'static str,
        otherwise: &'static str,
    },
    /// The number at a JSON pointer, or zero.
    Number(&'static str),
    /// The boolean at a JSON pointer, or `otherwise` if it is absent.
    Flag {
        pointer: &'static str,
        otherwise: bool,
    },
    /// The value at a path of the object in the version shown, as a cell of this type.
    At(JsonPath, Text),
}

/// The fields behind the `scale` subresource. Each path is a list of names from the root.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    pub spec_replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    /// The path of the selector as text. `None` for `spec.selector`, which holds labels.
    pub selector: Option<Vec<String>>,
}

/// The conversion between a served version and the storage version. Both functions take and return whole objects, and
/// rewrite `apiVersion` and `kind`.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// Both versions have the same fields. At most `apiVersion` differs.
    Same,
    With {
        to_storage: fn(Value) -> Value,
        from_storage: fn(Value) -> Value,
    },
    /// Changes `apiVersion`, and removes the fields that the other version's schema does not have.
    Pruned,
    /// A webhook converts objects before this table handles them, so every object has this version already.
    Webhook,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
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

    /// Returns how far the version has come, by its name.
    pub fn stability(&self) -> Stability {
        match &*self.version {
            version if version.contains("alpha") => Stability::Alpha,
            version if version.contains("beta") => Stability::Beta,
            _ => Stability::Stable,
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub fn has_verb(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// Converts an object of the storage version into this version, with `apiVersion` and `kind`.
    pub fn from_storage(&self, value: Value) -> Value {
        match self.conversion {
            Conversion::Same => self.named(value),
            Conversion::With { from_storage, .. } => from_storage(value),
            Conversion::Pruned => self.pruned(self.named(value)),
            Conversion::Webhook => value,
        }
    }

    /// Removes the fields that the schema of this version does not have.
    pub fn pruned(&self, mut value: Value) -> Value {
        if let Some(schema) = self.schema.structural() {
            prune::prune(schema, &mut value, &mut Vec::new());
        }
        value
    }

    /// Sets the defaults of a custom resource.
    pub fn fill(&self, value: &mut Value) {
        if let Some(schema) = self.schema.structural() {
            fill::fill(schema, value);
        }
    }

    fn named(&self, mut value: Value) -> Value {
        value["apiVersion"] = Value::String(self.api_version());
        value["kind"] = Value::String(self.kind.clone().into_owned());
        value
    }
}

impl Cell {
    /// Computes the cell of an object in its storage version, or for `At` in the version shown.
    pub fn value(&self, object: &Value, now_s: i64) -> Value {
        match self {
            Self::Of(cell) => cell(object, now_s),
            Self::Text { pointer, otherwise } => columns::read::text_or(object, pointer, otherwise),
            Self::Number(pointer) => columns::read::number(object, pointer),
            Self::Flag { pointer, otherwise } => columns::read::flag_or(object, pointer, *otherwise),
            Self::At(path, kind) => {
                path.find(object).first().map_or(Value::Null, |found| columns::typed(found, kind, now_s))
            }
        }
    }
}

impl Default for ScalePaths {
    fn default() -> Self {
        let path = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        Self {
            spec_replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: None,
        }
    }
}

impl Resource {
    pub fn storage_version(&self) -> &Served {
        &self.served[self.storage]
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Converts an object that a client sent in version `served` into the storage version.
    pub fn to_storage(&self, served: usize, value: Value) -> Value {
        match self.served[served].conversion {
            // Unknown fields are pruned later, when the object is stored, because validation comes first.
            Conversion::Same | Conversion::Pruned => self.storage_version().named(value),
            Conversion::With { to_storage, .. } => to_storage(value),
            Conversion::Webhook => value,
        }
    }

    /// Returns whether a webhook converts between the versions.
    pub fn converts_by_webhook(&self) -> bool {
        self.served.iter().any(|served| matches!(served.conversion, Conversion::Webhook))
    }

    /// Converts a stored object of version `served` into the storage version, unless a webhook converts it later.
    /// Prunes and fills a custom resource, because its schema may have changed since it was stored.
    pub fn as_read(&self, served: usize, value: Value) -> Value {
        let value = if served == self.storage { value } else { self.to_storage(served, value) };
        let version = if self.converts_by_webhook() { &self.served[served] } else { self.storage_version() };
        if version.schema.is_builtin() {
            return value;
        }
        let mut value = version.pruned(value);
        version.fill(&mut value);
        value
    }

    /// Returns the values of the selectable fields of an object in the storage version, for its index.
    pub fn fields_of(&self, value: &Value) -> BTreeMap<Text, String> {
        let of = |served: &Served| -> Vec<(Text, String)> {
            served.selectable_fields.iter().map(|field| (field.key.clone(), field.read(value))).collect()
        };
        // Each version of a custom resource has its own selectable fields, which are read from the stored object.
        if self.served.len() > 1 && !self.storage_version().schema.is_builtin() {
            return self.served.iter().flat_map(of).collect();
        }
        of(self.storage_version()).into_iter().collect()
    }

    /// Builds an object of this row from its tree in the storage version.
    pub fn object(&self, value: Value, revision: u64) -> Object {
        let fields = self.fields_of(&value);
        Object::from_value(value, revision, fields)
    }
}

/// Returns the built-in rows: all resources that Kubernetes v1.36 serves by default, and some that stand behind gates.
pub fn builtin() -> &'static [Arc<Resource>] {
    static ROWS: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
        let groups = [
            core::rows(),
            apiregistration::rows(),
            apps::rows(),
            authentication::rows(),
            authorization::rows(),
            autoscaling::rows(),
            batch::rows(),
            certificates::rows(),
            networking::rows(),
            policy::rows(),
            rbac::rows(),
            storage::rows(),
            admissionregistration::rows(),
            apiextensions::rows(),
            scheduling::rows(),
            coordination::rows(),
            node::rows(),
            discovery::rows(),
            resource::rows(),
            flowcontrol::rows(),
            apiserverinternal::rows(),
            storagemigration::rows(),
        ];
        groups.into_iter().flatten().map(Arc::new).collect()
    });
    &ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes() -> Vec<String> {
        builtin().iter().filter_map(|row| row.prefix.as_ref()).map(|prefix| format!("{prefix}/")).collect()
    }

    #[test]
    fn no_key_of_a_row_lies_under_the_prefix_of_another() {
        let prefixes = prefixes();
        for (i, prefix) in prefixes.iter().enumerate() {
            for (j, other) in prefixes.iter().enumerate() {
                assert!(i == j || !other.starts_with(prefix.as_str()), "{other} lies under {prefix}");
            }
        }
    }

    #[test]
    fn prefixes_are_those_of_kubernetes_where_they_are_not_the_plural() {
        let odd: Vec<String> = builtin()
            .iter()
            .filter_map(|row| Some((row.prefix.as_ref()?, &row.storage_version().resource)))
            .filter(|(prefix, resource)| prefix != resource)
            .map(|(prefix, resource)| format!("{resource} {prefix}"))
            .collect();
        expect_test::expect![[r#"
            endpoints services/endpoints
            nodes minions
            replicationcontrollers controllers
            services services/specs
            apiservices apiregistration.k8s.io/apiservices
            ingresses ingress
            customresourcedefinitions apiextensions.k8s.io/customresourcedefinitions"#]]
        .assert_eq(&odd.join("\n"));
    }

    #[test]
    fn only_what_is_stored_can_be_listed_and_changed() {
        for row in builtin() {
            let verbs = row.storage_version().verbs;
            assert_eq!(row.prefix.is_some(), verbs.contains(&Verb::Watch), "{}", row.storage_version().resource);
            assert!(verbs.is_sorted(), "{}", row.storage_version().resource);
            for served in &row.served {
                assert!(served.subresources.is_sorted_by_key(|s| s.name.clone()), "{}", served.resource);
            }
        }
    }
}
