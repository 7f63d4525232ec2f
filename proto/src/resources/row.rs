//! The notation for rows: a group names the resource, and short methods add the rest.
//!
//! `APPS.namespaced("deployments", "Deployment").short("deploy").category("all").scale().status()`

use super::{Column, Conversion, Resource, ScalePaths, Scope, SelectableField, Served, Subresource};
use super::{UnknownField, Verb};
use crate::schema::builtin_type;
use serde_json::Value;

/// The verbs of a stored resource, custom ones included.
pub const STORED_VERBS: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];
/// The verbs of a subresource that shows a part of its parent.
pub const PART_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// One version of one API group.
pub(super) struct Group {
    /// Empty for the core group.
    pub name: &'static str,
    pub version: &'static str,
    /// The prefix of its types' OpenAPI names: `io.k8s.api.apps.v1`.
    pub package: &'static str,
}

impl Group {
    pub fn namespaced(&self, resource: &'static str, kind: &'static str) -> Resource {
        self.row(resource, kind, Scope::Namespaced)
    }

    pub fn cluster(&self, resource: &'static str, kind: &'static str) -> Resource {
        self.row(resource, kind, Scope::Cluster)
    }

    fn row(&self, resource: &'static str, kind: &'static str, scope: Scope) -> Resource {
        let served = Served {
            group: self.name.into(),
            version: self.version.into(),
            resource: resource.into(),
            singular: kind.to_lowercase().into(),
            kind: kind.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            is_served: true,
            deprecation: None,
            verbs: STORED_VERBS,
            subresources: Vec::new(),
            scale: ScalePaths::default(),
            schema: builtin_type(&format!("{}.{kind}", self.package)),
            columns: Vec::new(),
            row_conditions: None,
            row_order: None,
            selectable_fields: Vec::new(),
            unknown_field: UnknownField::OnlyMetadata,
            conversion: Conversion::Same,
        };
        Resource {
            prefix: Some(resource.into()),
            scope,
            storage: 0,
            served: vec![served],
            is_terminating: false,
            returns_deleted: false,
            is_followed_by_server: false,
            expires: false,
            gate: None,
        }
    }
}

/// Each method changes the version that was added last.
impl Resource {
    fn last(&mut self) -> &mut Served {
        self.served.last_mut().expect("a row is made with one version")
    }

    /// Sets the prefix in the store, if it is not the plural.
    pub(super) fn stored_at(mut self, prefix: &'static str) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Makes a resource that is computed and never stored.
    pub(super) fn computed(mut self, verbs: &'static [Verb]) -> Self {
        self.prefix = None;
        self.verbs(verbs)
    }

    pub(super) fn returns_deleted(self) -> Self {
        Self { returns_deleted: true, ..self }
    }

    pub(super) fn followed_by_server(self) -> Self {
        Self { is_followed_by_server: true, ..self }
    }

    pub(super) fn expires(self) -> Self {
        Self { expires: true, ..self }
    }

    /// Serves the resource only where a feature gate is on.
    pub(super) fn gated(self, gate: &'static str) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Sets the warning that answers each request for the version.
    pub(super) fn deprecated(mut self, warning: &'static str) -> Self {
        self.last().deprecation = Some(warning.into());
        self
    }

    pub(super) fn verbs(mut self, verbs: &'static [Verb]) -> Self {
        self.last().verbs = verbs;
        self
    }

    pub(super) fn short(mut self, name: &'static str) -> Self {
        self.last().short_names.push(name.into());
        self
    }

    pub(super) fn category(mut self, name: &'static str) -> Self {
        self.last().categories.push(name.into());
        self
    }

    /// Adds a subresource that shows a part of the object, like `status`.
    pub(super) fn part(self, name: &'static str) -> Self {
        self.subresource(name, PART_VERBS, None)
    }

    pub(super) fn status(self) -> Self {
        self.part("status")
    }

    pub(super) fn scale(self) -> Self {
        self.subresource("scale", PART_VERBS, Some(("autoscaling", "v1", "Scale")))
    }

    pub(super) fn subresource(
        mut self,
        name: &'static str,
        verbs: &'static [Verb],
        kind: Option<(&'static str, &'static str, &'static str)>,
    ) -> Self {
        let kind = kind.map(|(group, version, kind)| (group.into(), version.into(), kind.into()));
        self.last().subresources.push(Subresource { name: name.into(), kind, verbs });
        self
    }

    pub(super) fn columns(mut self, columns: Vec<Column>) -> Self {
        self.last().columns = columns;
        self
    }

    pub(super) fn row_conditions(mut self, conditions: fn(&Value) -> Vec<Value>) -> Self {
        self.last().row_conditions = Some(conditions);
        self
    }

    pub(super) fn row_order(mut self, order: fn(&Value) -> (i64, String)) -> Self {
        self.last().row_order = Some(order);
        self
    }

    /// Sets the fields that field selectors may name, and the wording of the error for others.
    pub(super) fn selectable(mut self, fields: Vec<SelectableField>, unknown: UnknownField) -> Self {
        self.last().selectable_fields = fields;
        self.last().unknown_field = unknown;
        self
    }

    /// Serves the same objects under another group or version, with the same names, verbs, subresources and columns.
    pub(super) fn also(mut self, group: &Group, conversion: Conversion) -> Self {
        let mut served = self.last().clone();
        served.group = group.name.into();
        served.version = group.version.into();
        served.schema = builtin_type(&format!("{}.{}", group.package, served.kind));
        served.conversion = conversion;
        self.served.push(served);
        self
    }
}
