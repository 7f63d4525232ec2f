//! Tables: columns and rows for clients that do not know a kind.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/response.go and pkg/registry/rest/table.go. A list is one
//! document. A watch sends a table of one row for each event, and defines the columns in the first event alone.

use super::shown::{self, MetaVersion};
use crate::meta::list::ListMeta;
use crate::meta::status::Status;
use crate::object::Object;
use crate::resources::columns::default_columns;
use crate::resources::{Column, Conversion, Target};
use crate::serializer::field_order::{InOrder, TABLE_COLUMN, TABLE_ROW_CONDITION};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

/// The part of the object that its row contains: `?includeObject=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The table of one served version of a resource.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    target: &'a Target,
    columns: Cow<'a, [Column]>,
    pub version: MetaVersion,
    pub include: IncludeObject,
    /// The current time, for ages.
    pub now_s: i64,
}

/// Whether a table contains the definitions of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnDefinitions {
    Included,
    /// For every event of a watch but the first.
    Omitted,
}

impl<'a> Table<'a> {
    pub fn new(target: &'a Target, version: MetaVersion, include: IncludeObject, now_s: i64) -> Self {
        let columns = &target.served().columns;
        let columns = if columns.is_empty() { Cow::Owned(default_columns()) } else { Cow::Borrowed(&columns[..]) };
        Self { target, columns, version, include, now_s }
    }

    /// Replaces the columns, for the `scale` subresource.
    pub fn with_columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = Cow::Owned(columns);
        self
    }

    fn column_definitions(&self) -> Value {
        let named = self.columns.iter().filter(|column| !column.name.is_empty());
        let definition = |column: &Column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        };
        named.map(definition).collect()
    }

    /// Appends the row of an object.
    fn write_row(&self, out: &mut Vec<u8>, object: &Object) {
        let stored = match self.target.served().conversion {
            Conversion::Pruned => Arc::new(self.target.served().from_storage(object.to_value())),
            Conversion::Same | Conversion::With { .. } | Conversion::Webhook => object.peek(),
        };
        let cells: Vec<Value> = self.columns.iter().map(|column| column.cell.value(&stored, self.now_s)).collect();
        write!(out, "{{\"cells\":{}", json!(cells)).expect("writing to memory cannot fail");
        let conditions = self.target.served().row_conditions.map(|conditions| conditions(&stored)).unwrap_or_default();
        if !conditions.is_empty() {
            let conditions = InOrder(&Value::Array(conditions), &TABLE_ROW_CONDITION).to_json();
            write!(out, ",\"conditions\":{conditions}").expect("writing to memory cannot fail");
        }
        out.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => shown::write_metadata(out, self.target, object, self.version),
            IncludeObject::Object => {
                shown::whole(self.target, object).iter().for_each(|slice| out.extend_from_slice(slice));
            }
        }
        out.push(b'}');
    }

    /// Writes the table of a list.
    pub fn list(&self, meta: &ListMeta, mut objects: Vec<Arc<Object>>) -> Vec<u8> {
        let served = self.target.served();
        if let Some(order) = served.row_order {
            objects.sort_by_cached_key(|object| order(&object.peek()));
        }
        // Without objects, Kubernetes answers an empty list, but null for a kind without columns of its own.
        let nothing: &[u8] = if served.columns.is_empty() { b"null" } else { b"[]" };
        self.document(meta, &objects, nothing, ColumnDefinitions::Included)
    }

    /// Writes the table of one object: the answer to a get, or one event of a watch.
    pub fn single(&self, object: &Arc<Object>, column_definitions: ColumnDefinitions) -> Vec<u8> {
        let meta = ListMeta::at(object.revision);
        self.document(&meta, std::slice::from_ref(object), b"[]", column_definitions)
    }

    /// Returns the table of a bookmark, which has no rows.
    pub fn bookmark(version: MetaVersion, meta: &Value) -> Value {
        json!({
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": meta,
            "columnDefinitions": null,
            "rows": [],
        })
    }

    fn document(
        &self,
        meta: &ListMeta,
        objects: &[Arc<Object>],
        nothing: &[u8],
        column_definitions: ColumnDefinitions,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 * (objects.len() + 1));
        let columns = match column_definitions {
            ColumnDefinitions::Included => self.column_definitions(),
            ColumnDefinitions::Omitted => Value::Null,
        };
        let columns = InOrder(&columns, &TABLE_COLUMN).to_json();
        let (api_version, meta) = (self.version.api_version(), meta.to_json());
        write!(
            out,
            "{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"columnDefinitions\":{columns},\"rows\":"
        )
        .expect("writing to memory cannot fail");
        if objects.is_empty() {
            out.extend_from_slice(nothing);
        }
        for (index, object) in objects.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            self.write_row(&mut out, object);
        }
        if !objects.is_empty() {
            out.push(b']');
        }
        out.push(b'}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gvk::Gvr;
    use crate::resources::Catalogue;
    use std::collections::BTreeMap;

    fn target(group: &str, version: &str, resource: &str) -> Target {
        Catalogue::builtin().by_gvr(&Gvr::new(group, version, resource)).unwrap()
    }

    fn object(value: Value, revision: u64) -> Arc<Object> {
        Arc::new(Object::from_value(value, revision, BTreeMap::new()))
    }

    fn config_map(revision: u64) -> Arc<Object> {
        object(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"},
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"}}),
            revision,
        )
    }

    fn list(table: &Table<'_>, objects: Vec<Arc<Object>>) -> Value {
        serde_json::from_slice(&table.list(&ListMeta::at(9), objects)).unwrap()
    }

    fn single(table: &Table<'_>, object: &Arc<Object>, column_definitions: ColumnDefinitions) -> Value {
        serde_json::from_slice(&table.single(object, column_definitions)).unwrap()
    }

    /// The one row of a table of one object.
    fn row(table: &Table<'_>, value: Value) -> Value {
        single(table, &object(value, 7), ColumnDefinitions::Omitted)["rows"][0].take()
    }

    #[test]
    fn a_list_is_columns_and_rows() {
        let target = target("", "v1", "configmaps");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::default(), 310);
        let document = list(&table, vec![config_map(7), config_map(8)]);
        assert_eq!(document["kind"], "Table");
        assert_eq!(document["metadata"], json!({"resourceVersion": "9"}));
        let columns: Vec<String> = document["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| format!("{} {} {} {}", c["name"], c["type"], c["format"], c["priority"]))
            .collect();
        assert_eq!(columns, [r#""Name" "string" "name" 0"#, r#""Data" "string" "" 0"#, r#""Age" "string" "" 0"#]);
        let row = |version: &str| {
            json!({
                "cells": ["a", 1, "5m10s"],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": version}},
            })
        };
        assert_eq!(document["rows"], json!([row("7"), row("8")]));
        assert_eq!(list(&table, vec![])["rows"], json!([]));
    }

    #[test]
    fn the_object_goes_along_as_asked() {
        let target = target("", "v1", "configmaps");
        let shown = |include| {
            let table = Table::new(&target, MetaVersion::V1Beta1, include, 0);
            single(&table, &config_map(7), ColumnDefinitions::Omitted)["rows"][0]["object"].take()
        };
        assert_eq!(shown(IncludeObject::None), Value::Null);
        assert_eq!(shown(IncludeObject::Metadata)["apiVersion"], "meta.k8s.io/v1beta1");
        let whole = shown(IncludeObject::Object);
        assert_eq!((&whole["kind"], &whole["data"]["x"]), (&json!("ConfigMap"), &json!("1")));
        assert_eq!(whole["metadata"]["resourceVersion"], "7");
        assert_eq!(IncludeObject::parse("").unwrap(), IncludeObject::Metadata);
        assert_eq!(
            IncludeObject::parse("Bogus").unwrap_err().message,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Bogus\": must be 'Metadata', 'Object', 'None', or empty"
        );
    }

    #[test]
    fn a_kind_without_columns_shows_name_and_time() {
        let target = target("rbac.authorization.k8s.io", "v1", "roles");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::None, 0);
        let empty = list(&table, vec![]);
        assert_eq!(empty["rows"], Value::Null);
        assert_eq!(empty["columnDefinitions"][1]["name"], "Created At");
        assert_eq!(empty["columnDefinitions"][1]["type"], "date");
        let cells = single(&table, &config_map(7), ColumnDefinitions::Omitted)["rows"][0]["cells"].take();
        assert_eq!(cells, json!(["a", "1970-01-01T00:00:00Z"]));
    }

    #[test]
    fn events_of_a_watch_announce_columns_once() {
        let target = target("coordination.k8s.io", "v1", "leases");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::None, 0);
        let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
        let first = single(&table, &object(lease.clone(), 4), ColumnDefinitions::Included);
        let next = single(&table, &object(lease, 5), ColumnDefinitions::Omitted);
        assert_eq!(first["columnDefinitions"].as_array().unwrap().len(), 3);
        assert_eq!(next["columnDefinitions"], Value::Null);
        assert_eq!(next["metadata"], json!({"resourceVersion": "5"}));
        assert_eq!(next["rows"], json!([{"cells": ["l", "me", "<unknown>"], "object": null}]));
    }

    #[test]
    fn cells_read_the_stored_form_and_objects_show_the_served_one() {
        let target = target("autoscaling", "v1", "horizontalpodautoscalers");
        let stored = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "metrics": [
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}}]}});
        let whole = row(&Table::new(&target, MetaVersion::V1, IncludeObject::Object, 0), stored.clone());
        assert_eq!(whole["cells"][2], "<unknown>/5");
        assert_eq!(whole["object"]["apiVersion"], "autoscaling/v1");
        let partial = row(&Table::new(&target, MetaVersion::V1, IncludeObject::Metadata, 0), stored);
        assert!(partial.pointer("/object/metadata/annotations/autoscaling.alpha.kubernetes.io~1metrics").is_some());
    }

    #[test]
    fn pods_that_have_ended_say_so_and_addresses_have_an_unannounced_age() {
        let pods = target("", "v1", "pods");
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
        let ended = row(&Table::new(&pods, MetaVersion::V1, IncludeObject::None, 0), pod);
        assert_eq!(ended["conditions"][0]["reason"], "Succeeded");
        let addresses = target("networking.k8s.io", "v1", "ipaddresses");
        let table = Table::new(&addresses, MetaVersion::V1, IncludeObject::None, 0);
        assert_eq!(table.column_definitions().as_array().unwrap().len(), 2);
        assert_eq!(row(&table, json!({"metadata": {}}))["cells"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn flow_schemas_are_listed_in_the_order_in_which_they_are_tried() {
        let target = target("flowcontrol.apiserver.k8s.io", "v1", "flowschemas");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::None, 0);
        let schema = |name: &str, precedence: i64| {
            object(json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}}), 1)
        };
        let list = list(&table, vec![schema("a", 9000), schema("z", 1), schema("y", 1)]);
        let names: Vec<&Value> = list["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
        assert_eq!(names, ["y", "z", "a"]);
    }
}
