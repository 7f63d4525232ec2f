//! Makes the row of the resource table for a definition.
//!
//! Corresponds to getOrCreateServingInfoFor of k8s.io/apiextensions-apiserver/pkg/apiserver.

use super::conditions::TERMINATING;
use super::definition::{Definition, Names, Version};
use proto::gvk::compare_versions;
use proto::resources::columns;
use proto::resources::{
    Cell, Column, Conversion, PART_VERBS, Resource, STORED_VERBS, ScalePaths, Scope, SelectableField,
};
use proto::resources::{Served, Subresource, UnknownField};
use proto::schema::TypeRef;
use proto::schema::structural::Structural;
use proto::schema::structural::json_path::JsonPath;
use serde_json::Value;
use std::sync::Arc;

/// Returns the row of a definition under the given names; `None` when it has no storage version.
pub fn of(definition: &Definition<'_>, names: Names<'_>) -> Option<Resource> {
    let versions = definition.versions();
    let storage = versions.iter().position(Version::is_storage)?;
    let served = (0..versions.len())
        .map(|index| served(definition, names, &versions, index, index == storage))
        .collect::<Vec<_>>();
    Some(Resource {
        prefix: Some(format!("{}/{}", definition.group(), definition.names().plural()).into()),
        scope: if definition.is_namespaced() { Scope::Namespaced } else { Scope::Cluster },
        storage,
        served,
        is_terminating: definition.is_deleting() || definition.is_true(TERMINATING),
        returns_deleted: false,
        is_followed_by_server: false,
        expires: false,
        gate: None,
    })
}

fn served(
    definition: &Definition<'_>,
    names: Names<'_>,
    versions: &[Version<'_>],
    index: usize,
    is_storage: bool,
) -> Served {
    let version = versions[index];
    let owned = |texts: Vec<&str>| texts.into_iter().map(|text| text.to_owned().into()).collect();
    let structural = Arc::new(Structural::parse(version.schema()));
    let type_name = type_name(definition.group(), version.name(), names.kind());
    Served {
        group: definition.group().to_owned().into(),
        version: version.name().to_owned().into(),
        resource: names.plural().to_owned().into(),
        singular: names.singular().to_owned().into(),
        kind: names.kind().to_owned().into(),
        short_names: owned(names.list("shortNames")),
        categories: owned(names.list("categories")),
        is_served: version.is_served(),
        deprecation: version.flag("deprecated").then(|| deprecation(definition, names, versions, index).into()),
        verbs: STORED_VERBS,
        subresources: subresources(version),
        scale: scale_paths(version),
        schema: TypeRef::custom(&type_name, structural),
        columns: columns::custom(version.items("additionalPrinterColumns").iter().filter_map(column).collect()),
        row_conditions: None,
        row_order: None,
        selectable_fields: version.items("selectableFields").iter().filter_map(selectable).collect(),
        unknown_field: UnknownField::Plain,
        conversion: match definition.conversion() {
            _ if is_storage => Conversion::Same,
            "Webhook" => Conversion::Webhook,
            _ => Conversion::Pruned,
        },
    }
}

/// Returns the name of the type of a version, such as `com.example.stable.v1.CronTab`.
fn type_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// Returns the warning for a deprecated version: the definition's own, or a sentence that names the newest version.
fn deprecation(definition: &Definition<'_>, names: Names<'_>, versions: &[Version<'_>], index: usize) -> String {
    let version = versions[index];
    if let Some(own) = version.part("deprecationWarning").as_str() {
        return own.to_owned();
    }
    let (group, kind) = (definition.group(), names.kind());
    let newer = versions.iter().filter(|other| other.is_served() && !other.flag("deprecated"));
    let newest = newer.min_by(|a, b| compare_versions(a.name(), b.name()));
    let advice = newest
        .filter(|newest| compare_versions(newest.name(), version.name()).is_lt())
        .map_or_else(String::new, |newest| format!("; use {group}/{} {kind}", newest.name()));
    format!("{group}/{} {kind} is deprecated{advice}", version.name())
}

fn subresources(version: Version<'_>) -> Vec<Subresource> {
    let has = |name: &str| version.part("subresources").get(name).is_some_and(|part| !part.is_null());
    let scale = ("autoscaling".into(), "v1".into(), "Scale".into());
    let mut parts = Vec::new();
    if has("scale") {
        parts.push(Subresource { name: "scale".into(), kind: Some(scale), verbs: PART_VERBS });
    }
    if has("status") {
        parts.push(Subresource { name: "status".into(), kind: None, verbs: PART_VERBS });
    }
    parts
}

fn scale_paths(version: Version<'_>) -> ScalePaths {
    let Some(scale) = version.part("subresources").get("scale") else { return ScalePaths::default() };
    let path = |key: &str| -> Option<Vec<String>> {
        let path = JsonPath::parse(scale.get(key)?.as_str().filter(|path| !path.is_empty())?)?;
        Some(path.names()?.into_iter().map(str::to_owned).collect())
    };
    ScalePaths {
        spec_replicas: path("specReplicasPath").unwrap_or_default(),
        status_replicas: path("statusReplicasPath").unwrap_or_default(),
        // Without a path, the Scale has no selector.
        selector: Some(path("labelSelectorPath").unwrap_or_default()),
    }
}

fn column(column: &Value) -> Option<Column> {
    let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let description = match text("description") {
        none if none.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
        description => description,
    };
    Some(Column {
        name: text("name").into(),
        kind: text("type").into(),
        format: text("format").into(),
        description: description.into(),
        priority: column.get("priority").and_then(Value::as_i64).and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
        cell: Cell::At(JsonPath::parse(&path)?, text("type").into()),
    })
}

fn selectable(field: &Value) -> Option<SelectableField> {
    let path = JsonPath::parse(field.get("jsonPath")?.as_str()?)?;
    let path = path.names()?.join(".");
    Some(SelectableField { path: path.clone().into(), key: path.into(), value: None })
}
