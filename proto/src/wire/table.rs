//! Tables and partial objects: what a server shows of objects to those who do not know their kind.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/response.go and pkg/registry/rest/table.go. A list is built
//! as one document; a watch sends a table of one row for each event, and announces the columns in the first alone.

use crate::meta::list::ListMeta;
use crate::meta::status::Status;
use crate::resources::columns::default_columns;
use crate::resources::{Column, Conversion, Target};
use serde_json::{Value, json};
use std::borrow::Cow;

/// How much of the object goes with its row: `?includeObject=`.
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

/// The version of meta.k8s.io in which tables and partial objects were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// How one served version of a resource is shown as a table.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    target: &'a Target,
    columns: Cow<'a, [Column]>,
    pub version: MetaVersion,
    pub include: IncludeObject,
    /// The present, for ages.
    pub now_s: i64,
}

/// Whether a table says what its columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    Columns,
    /// Said before: every event of a watch but the first.
    Nothing,
}

impl<'a> Table<'a> {
    pub fn new(target: &'a Target, version: MetaVersion, include: IncludeObject, now_s: i64) -> Self {
        let columns = &target.served().columns;
        let columns = if columns.is_empty() { Cow::Owned(default_columns()) } else { Cow::Borrowed(&columns[..]) };
        Self { target, columns, version, include, now_s }
    }

    /// A table with columns of another kind: the `scale` subresource.
    pub fn with_columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = Cow::Owned(columns);
        self
    }

    pub fn column_definitions(&self) -> Value {
        let announced = self.columns.iter().filter(|column| !column.name.is_empty());
        let definition = |column: &Column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        };
        announced.map(definition).collect()
    }

    /// The row of an object in its storage version. `revision` becomes its `resourceVersion`, unless it has one.
    pub fn row(&self, stored: &Value, revision: Option<u64>) -> Value {
        let cells: Vec<Value> = self.columns.iter().map(|column| column.value(stored, self.now_s)).collect();
        let object = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_object(self.target, stored, revision, self.version),
            IncludeObject::Object => with_revision(self.target.served().from_storage(stored.clone()), revision),
        };
        let mut row = json!({"cells": cells, "object": object});
        let conditions = self.target.served().row_conditions.map(|conditions| conditions(stored)).unwrap_or_default();
        if !conditions.is_empty() {
            row["conditions"] = Value::Array(conditions);
        }
        row
    }

    /// The table of a list.
    pub fn list<'o>(&self, meta: &ListMeta, objects: impl Iterator<Item = (Cow<'o, Value>, u64)>) -> Value {
        let mut objects: Vec<(Cow<'o, Value>, u64)> = objects.collect();
        if let Some(order) = self.target.served().row_order {
            objects.sort_by_cached_key(|(object, _)| order(object));
        }
        let rows: Vec<Value> = objects.iter().map(|(object, revision)| self.row(object, Some(*revision))).collect();
        // Kubernetes' own converter for kinds without columns answers null where the others answer an empty list.
        let nothing = rows.is_empty() && self.target.served().columns.is_empty();
        self.document(meta.to_value(), if nothing { Value::Null } else { Value::Array(rows) }, Announce::Columns)
    }

    /// The table of one object: the answer to a get, or one event of a watch.
    pub fn single(&self, stored: &Value, revision: Option<u64>, announce: Announce) -> Value {
        let own = || stored.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let resource_version = revision.map_or_else(own, |revision| revision.to_string());
        let meta = ListMeta { resource_version, ..ListMeta::default() };
        self.document(meta.to_value(), json!([self.row(stored, revision)]), announce)
    }

    fn document(&self, metadata: Value, rows: Value, announce: Announce) -> Value {
        json!({
            "kind": "Table",
            "apiVersion": self.version.api_version(),
            "metadata": metadata,
            "columnDefinitions": match announce {
                Announce::Columns => self.column_definitions(),
                Announce::Nothing => Value::Null,
            },
            "rows": rows,
        })
    }
}

/// An object's metadata alone, as the served version shows it.
pub fn partial_object(target: &Target, stored: &Value, revision: Option<u64>, version: MetaVersion) -> Value {
    let metadata = match target.served().conversion {
        Conversion::Same => stored.get("metadata").cloned(),
        // Annotations may stand for fields of another version.
        Conversion::With { .. } => target.served().from_storage(stored.clone()).get_mut("metadata").map(Value::take),
    };
    let partial = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata.unwrap_or_else(|| json!({})),
    });
    with_revision(partial, revision)
}

/// A list of metadata; `items` is null where there are none, as Kubernetes has it.
pub fn partial_object_list(meta: &ListMeta, items: Vec<Value>, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": meta.to_value(),
        "items": if items.is_empty() { Value::Null } else { Value::Array(items) },
    })
}

fn with_revision(mut object: Value, revision: Option<u64>) -> Value {
    if let Some(revision) = revision {
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gvk::Gvr;
    use crate::resources::Catalogue;

    fn target(group: &str, version: &str, resource: &str) -> Target {
        Catalogue::builtin().by_gvr(&Gvr::new(group, version, resource)).unwrap()
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"},
            "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:00Z"}})
    }

    #[test]
    fn a_list_is_columns_and_rows() {
        let target = target("", "v1", "configmaps");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::default(), 310);
        let object = config_map("a");
        let document = table.list(&ListMeta::at(9), [(Cow::Borrowed(&object), 7)].into_iter());
        assert_eq!(document["kind"], "Table");
        assert_eq!(document["metadata"], json!({"resourceVersion": "9"}));
        let columns: Vec<String> = document["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| format!("{} {} {} {}", c["name"], c["type"], c["format"], c["priority"]))
            .collect();
        assert_eq!(columns, [r#""Name" "string" "name" 0"#, r#""Data" "string" "" 0"#, r#""Age" "string" "" 0"#]);
        assert_eq!(
            document["rows"],
            json!([{
                "cells": ["a", 1, "5m10s"],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": "7"}},
            }])
        );
    }

    #[test]
    fn the_object_goes_along_as_asked() {
        let target = target("", "v1", "configmaps");
        let row = |include| Table::new(&target, MetaVersion::V1Beta1, include, 0).row(&config_map("a"), Some(7));
        assert_eq!(row(IncludeObject::None)["object"], Value::Null);
        assert_eq!(row(IncludeObject::Metadata)["object"]["apiVersion"], "meta.k8s.io/v1beta1");
        let whole = &row(IncludeObject::Object)["object"];
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
        let empty = table.list(&ListMeta::at(1), std::iter::empty());
        assert_eq!(empty["rows"], Value::Null);
        assert_eq!(empty["columnDefinitions"][1]["name"], "Created At");
        assert_eq!(empty["columnDefinitions"][1]["type"], "date");
        let row = table.row(&config_map("a"), None);
        assert_eq!(row["cells"], json!(["a", "1970-01-01T00:00:00Z"]));
    }

    #[test]
    fn events_of_a_watch_announce_columns_once() {
        let target = target("coordination.k8s.io", "v1", "leases");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::None, 0);
        let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
        let first = table.single(&lease, Some(4), Announce::Columns);
        let next = table.single(&lease, Some(5), Announce::Nothing);
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
        let row = Table::new(&target, MetaVersion::V1, IncludeObject::Object, 0).row(&stored, Some(1));
        assert_eq!(row["cells"][2], "<unknown>/5");
        assert_eq!(row["object"]["apiVersion"], "autoscaling/v1");
        let partial = partial_object(&target, &stored, Some(1), MetaVersion::V1);
        assert!(partial.pointer("/metadata/annotations/autoscaling.alpha.kubernetes.io~1metrics").is_some());
    }

    #[test]
    fn pods_that_have_ended_say_so_and_addresses_have_an_unannounced_age() {
        let pods = target("", "v1", "pods");
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
        let row = Table::new(&pods, MetaVersion::V1, IncludeObject::None, 0).row(&pod, None);
        assert_eq!(row["conditions"][0]["reason"], "Succeeded");
        let addresses = target("networking.k8s.io", "v1", "ipaddresses");
        let table = Table::new(&addresses, MetaVersion::V1, IncludeObject::None, 0);
        assert_eq!(table.column_definitions().as_array().unwrap().len(), 2);
        assert_eq!(table.row(&json!({}), None)["cells"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn flow_schemas_are_listed_in_the_order_in_which_they_are_tried() {
        let target = target("flowcontrol.apiserver.k8s.io", "v1", "flowschemas");
        let table = Table::new(&target, MetaVersion::V1, IncludeObject::None, 0);
        let schema = |name: &str, precedence: i64| {
            (Cow::Owned(json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}})), 1)
        };
        let list = table.list(&ListMeta::at(1), [schema("a", 9000), schema("z", 1), schema("y", 1)].into_iter());
        let names: Vec<&Value> = list["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
        assert_eq!(names, ["y", "z", "a"]);
    }

    #[test]
    fn lists_of_metadata() {
        let target = target("", "v1", "configmaps");
        let items = vec![partial_object(&target, &config_map("a"), Some(3), MetaVersion::V1)];
        let list = partial_object_list(&ListMeta::at(5), items, MetaVersion::V1);
        assert_eq!(list["items"][0]["metadata"]["resourceVersion"], "3");
        assert_eq!(partial_object_list(&ListMeta::at(5), vec![], MetaVersion::V1)["items"], Value::Null);
    }
}
