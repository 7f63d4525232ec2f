//! Validates the JSON paths of printer columns, selectable fields and the scale subresource.

use proto::meta::status::FieldError;
use proto::schema::structural::Structural;
use proto::schema::structural::json_path::JsonPath;
use serde_json::Value;
use strategy::validation::at::{At, Errors};

const SIMPLE: &str = "must be a simple json path starting with .";
const MAX_SELECTABLE: usize = 8;

/// Tells whether a path is simple, and adds an error if it is not.
fn check_simple(path: &At<'_>, errors: &mut Errors) -> bool {
    let is_simple = path.text().starts_with('.') && JsonPath::parse(path.text()).is_some();
    if !is_simple {
        errors.push(path.invalid(SIMPLE));
    }
    is_simple
}

pub fn check_subresources(parts: &At<'_>, errors: &mut Errors) {
    let scale = parts.field("scale");
    if !scale.is_set() {
        return;
    }
    for (key, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = scale.field(key);
        if path.text().is_empty() {
            errors.push(path.required(""));
        } else if check_simple(&path, errors) && !path.text().starts_with(root) {
            errors.push(path.invalid(format!("should be a json path under {}", root.trim_end_matches('.'))));
        }
    }
    let selector = scale.field("labelSelectorPath");
    if !selector.is_empty() && check_simple(&selector, errors) {
        let text = selector.text();
        if !text.starts_with(".spec.") && !text.starts_with(".status.") {
            errors.push(selector.invalid("should be a json path under either .spec or .status"));
        }
    }
}

pub fn check_columns(columns: &At<'_>, errors: &mut Errors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    for column in columns.items() {
        if column.field("name").text().is_empty() {
            errors.push(column.field("name").required(""));
        }
        let kind = column.field("type");
        if kind.text().is_empty() {
            errors.push(kind.required(&format!("must be one of {}", TYPES.join(","))));
        } else if !TYPES.contains(&kind.text()) {
            errors.push(kind.invalid(format!("must be one of {}", TYPES.join(","))));
        }
        let format = column.field("format");
        let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        if !format.is_empty() && !formats.contains(&format.text()) {
            errors.push(format.invalid(format!("must be one of {}", formats.join(","))));
        }
        let path = At::new(format!("{}.JSONPath", column.path), column.field("jsonPath").value);
        if path.text().is_empty() {
            errors.push(path.required(""));
        } else {
            check_simple(&path, errors);
        }
    }
}

/// Checks that selectable fields exist, and that they are strings, booleans or integers.
pub fn check_selectable(fields: &At<'_>, schema: &Value, errors: &mut Errors) {
    let schema = Structural::parse(schema);
    let mut seen: Vec<&str> = Vec::new();
    for field in fields.items() {
        let path = field.field("jsonPath");
        if path.text().is_empty() {
            errors.push(path.required(""));
            continue;
        }
        let Some(leaf) = leaf(&schema, path.text()) else {
            errors.push(path.invalid("is an invalid path: does not refer to a valid field"));
            continue;
        };
        if path.text().starts_with(".metadata.") {
            errors.push(path.invalid("must not point to fields in metadata"));
        }
        if !is_selectable(leaf) {
            errors.push(path.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."));
        }
        if seen.contains(&path.text()) {
            errors.push(path.duplicate());
        } else {
            seen.push(path.text());
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(fields.path.clone(), seen.len(), MAX_SELECTABLE));
    }
}

fn leaf<'s>(schema: &'s Structural, path: &str) -> Option<&'s Structural> {
    let path = JsonPath::parse(path)?;
    path.names()?.iter().try_fold(schema, |at, name| at.properties.get(*name))
}

fn is_selectable(leaf: &Structural) -> bool {
    matches!(leaf.types.as_slice(), ["string" | "boolean" | "integer"])
}
