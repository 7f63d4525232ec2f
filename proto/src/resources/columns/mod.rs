//! Printer columns: the columns that `kubectl get` shows for each kind.
//!
//! Corresponds to pkg/printers/internalversion/printers.go. A cell is a pure function of the object, in its storage
//! version, and of the current time. Kinds with few columns have them beside their row, the others in a file here.

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

use super::{Cell, CellOf, Column, Text};
use crate::meta::time;
use crate::schema::builtin::{OBJECT_META, builtin_type};
use serde_json::Value;

/// A column of an OpenAPI type. Clients may expect that type, but Kubernetes' own tables are not strict about it.
fn column(name: &'static str, kind: &'static str, description: &'static str, cell: Cell) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: Text::Borrowed(""),
        description: description.into(),
        priority: 0,
        cell,
    }
}

pub(super) fn string(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "string", description, Cell::Of(cell))
}

pub(super) fn integer(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "integer", description, Cell::Of(cell))
}

pub(super) fn boolean(name: &'static str, description: &'static str, cell: CellOf) -> Column {
    column(name, "boolean", description, Cell::Of(cell))
}

/// A column that shows the text at a JSON pointer. `.or("<none>")` sets a text for an absent one.
pub(super) fn text(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
    column(name, "string", description, Cell::Text { pointer, otherwise: "" })
}

/// A column that shows the number at a JSON pointer, or zero.
pub(super) fn number(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
    column(name, "integer", description, Cell::Number(pointer))
}

/// A column that shows the boolean at a JSON pointer, or `otherwise` if it is absent.
pub(super) fn flag(name: &'static str, description: &'static str, pointer: &'static str, otherwise: bool) -> Column {
    column(name, "boolean", description, Cell::Flag { pointer, otherwise })
}

impl Column {
    /// Sets the text that a `text` column shows if its own text is absent or empty.
    pub(super) fn or(mut self, absent: &'static str) -> Self {
        if let Cell::Text { otherwise, .. } = &mut self.cell {
            *otherwise = absent;
        }
        self
    }

    /// Shows the column with `-o wide` alone.
    pub(super) fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Marks the column that holds the object's name, which clients may link.
    pub(super) fn name_format(mut self) -> Self {
        self.format = "name".into();
        self
    }
}

const NAME: &str = "The name of the object, unique among its kind in the namespace.";

pub(super) fn name() -> Column {
    text("Name", NAME, "/metadata/name").name_format()
}

pub(super) fn age() -> Column {
    string("Age", "How long ago the object was created.", |o, now| read::since(o, "/metadata/creationTimestamp", now))
}

/// Returns the columns of a kind without its own.
pub fn default_columns() -> Vec<Column> {
    let time: CellOf = |o, _| o.pointer("/metadata/creationTimestamp").cloned().unwrap_or(Value::Null);
    vec![name(), column("Created At", "date", "When the object was created.", Cell::Of(time))]
}

/// Returns a value as a cell of a type. Corresponds to cellForJSONValue of apiextensions-apiserver.
pub(super) fn typed(value: &Value, kind: &str, now_s: i64) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) => value.clone(),
        ("string", other) => Value::String(other.to_string()),
        ("integer", Value::Number(number)) => {
            number.as_i64().or(number.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) if text.parse::<jiff::Timestamp>().is_ok() => time::since(text, now_s).into(),
        ("date", Value::String(_)) => "<invalid>".into(),
        _ => Value::Null,
    }
}

/// Returns the columns of a custom resource: its name, and then its own columns, or its age if it has none.
pub fn custom(own: Vec<Column>) -> Vec<Column> {
    let meta = builtin_type(OBJECT_META);
    let described = |field: &str| {
        let described = meta.schema().field(field).map(|field| field.description.to_string());
        Text::Owned(described.unwrap_or_default())
    };
    let mut columns = vec![Column { description: described("name"), ..name() }];
    if own.is_empty() {
        columns.push(Column { description: described("creationTimestamp"), kind: "date".into(), ..age() });
    }
    columns.extend(own);
    columns
}

/// Returns the columns of the `scale` subresource.
pub fn scale() -> Vec<Column> {
    vec![
        text("Name", NAME, "/metadata/name"),
        number("Desired", "How many replicas are wanted.", "/spec/replicas"),
        number("Available", "How many replicas there are.", "/status/replicas"),
        age(),
    ]
}

/// Returns the cells of an object as one text, which tests compare.
#[cfg(test)]
pub(super) fn cells(columns: &[Column], object: &Value, now_s: i64) -> String {
    let cells = columns.iter().map(|column| match column.cell.value(object, now_s) {
        Value::String(text) => text,
        other => other.to_string(),
    });
    cells.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use crate::resources::builtin;
    use serde_json::json;

    #[test]
    fn every_cell_can_be_computed_of_an_object_with_nothing_in_it() {
        for row in builtin() {
            for column in &row.storage_version().columns {
                column.cell.value(&json!({}), 0);
                column.cell.value(&json!({"metadata": null, "spec": null, "status": null}), 0);
                column.cell.value(&json!({"metadata": [], "spec": "x", "status": 1, "subsets": {}, "data": 1}), 0);
            }
        }
    }
}
