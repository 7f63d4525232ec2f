//! Printer columns: what `kubectl get` shows of each kind.
//!
//! Corresponds to pkg/printers/internalversion/printers.go. A cell is a pure function of the object, in its storage
//! version, and of the present time. Kinds with few columns have them beside their row, the others in a file here.

pub(super) mod autoscaler;
pub(super) mod endpoints;
pub(super) mod event;
pub(super) mod ingress;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod read;
pub(super) mod service;
pub(super) mod volume;
pub(super) mod workload;

use super::{Cell, Column, Text};
use serde_json::{Value, json};

pub(super) type CellOf = fn(&Value, i64) -> Value;

/// The type is what clients may expect; Kubernetes' own tables are not strict about it.
pub(super) fn column(name: &'static str, kind: &'static str, description: &'static str, cell: CellOf) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: Text::Borrowed(""),
        description: description.into(),
        priority: 0,
        cell: Cell::Of(cell),
    }
}

pub(super) fn string(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "string", description, cell)
}

pub(super) fn integer(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "integer", description, cell)
}

pub(super) fn boolean(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "boolean", description, cell)
}

impl Column {
    /// Shown with `-o wide` alone.
    pub(super) fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// The column holds the object's name: clients may link it.
    pub(super) fn name_format(mut self) -> Self {
        self.format = "name".into();
        self
    }
}

const NAME: &str = "The name of the object, unique among its kind in the namespace.";

pub(super) fn name() -> Column {
    string("Name", NAME, |o, _| read::text(o, "/metadata/name")).name_format()
}

pub(super) fn age() -> Column {
    string("Age", "How long ago the object was created.", |o, now| read::since(o, "/metadata/creationTimestamp", now))
}

/// What a kind without columns of its own shows.
pub fn default_columns() -> Vec<Column> {
    let created = column("Created At", "date", "When the object was created.", |o, _| {
        o.pointer("/metadata/creationTimestamp").cloned().unwrap_or(Value::Null)
    });
    vec![name(), created]
}

/// What a custom resource shows whose definition names no columns.
pub fn default_custom_columns() -> Vec<Column> {
    let created = "How long ago the object was created.";
    vec![
        name(),
        Column {
            name: "Age".into(),
            kind: "date".into(),
            format: "".into(),
            description: created.into(),
            priority: 0,
            cell: Cell::JsonPath(".metadata.creationTimestamp".parse().expect("a constant path is well formed")),
        },
    ]
}

/// The columns of the `scale` subresource.
pub fn scale() -> Vec<Column> {
    vec![
        string("Name", NAME, |o, _| read::text(o, "/metadata/name")),
        integer("Desired", "How many replicas are wanted.", |o, _| read::number(o, "/spec/replicas")),
        integer("Available", "How many replicas there are.", |o, _| read::number(o, "/status/replicas")),
        age(),
    ]
}

impl Column {
    /// The value under this column in an object's row.
    pub fn value(&self, object: &Value, now_s: i64) -> Value {
        match &self.cell {
            Cell::Of(cell) => cell(object, now_s),
            Cell::JsonPath(path) => path.first(object).map_or(Value::Null, |found| self.custom_value(found, now_s)),
        }
    }

    /// A custom resource's value has to be of the column's type, or nothing is shown.
    fn custom_value(&self, found: &Value, now_s: i64) -> Value {
        match (self.kind.as_ref(), found) {
            ("string", Value::String(_)) => found.clone(),
            ("string", Value::Null) => json!(""),
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) if number.is_i64() => found.clone(),
            ("integer", Value::Number(number)) => number.as_f64().map_or(Value::Null, |n| json!(n as i64)),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
            ("date", Value::String(time)) if crate::meta::time::parse(time).is_none() => json!("<invalid>"),
            ("date", Value::String(time)) => json!(crate::meta::time::since(time, now_s)),
            _ => Value::Null,
        }
    }
}

/// The cells of an object, by column name: what tests compare.
#[cfg(test)]
pub(super) fn cells(columns: &[Column], object: &Value, now_s: i64) -> String {
    let cells = columns.iter().map(|column| match column.value(object, now_s) {
        Value::String(text) => text,
        other => other.to_string(),
    });
    cells.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::builtin;

    #[test]
    fn every_cell_can_be_computed_of_an_object_with_nothing_in_it() {
        for row in builtin() {
            for column in &row.storage_version().columns {
                column.value(&json!({}), 0);
                column.value(&json!({"metadata": null, "spec": null, "status": null}), 0);
                column.value(&json!({"metadata": [], "spec": "x", "status": 1, "subsets": {}, "data": 1}), 0);
            }
        }
    }

    #[test]
    fn custom_cells_show_only_values_of_their_type() {
        let column = |kind: &'static str, path: &str| Column {
            name: "X".into(),
            kind: kind.into(),
            format: "".into(),
            description: "".into(),
            priority: 0,
            cell: Cell::JsonPath(path.parse().unwrap()),
        };
        let object = json!({"n": 3, "f": 2.5, "s": "x", "b": true, "l": [1, "a"], "t": "1970-01-01T00:00:00Z"});
        let cases = [
            ("integer", ".n", json!(3)),
            ("integer", ".f", json!(2)),
            ("integer", ".s", json!(null)),
            ("number", ".f", json!(2.5)),
            ("boolean", ".b", json!(true)),
            ("string", ".s", json!("x")),
            ("string", ".n", json!("3")),
            ("string", ".l", json!("[1,\"a\"]")),
            ("string", ".absent", json!(null)),
            ("date", ".t", json!("5m10s")),
            ("date", ".s", json!("<invalid>")),
        ];
        for (kind, path, expected) in cases {
            assert_eq!(column(kind, path).value(&object, 310), expected, "{kind} {path}");
        }
    }
}
