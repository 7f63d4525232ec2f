//! Values that several parts of a template have: checked names, and quantities.

use proto::meta::quantity::Quantity;
use serde_json::Value;
use stages::reader::{Fields, Reader};
use std::collections::BTreeMap;

/// Reports each fault of the value at a path.
pub fn check(reader: &mut Reader, path: String, why: Vec<String>) {
    why.into_iter().for_each(|why| reader.report(path.clone(), why));
}

/// Reads quantities by name, which may be written as texts or as numbers.
pub fn resource_amounts(
    reader: &mut Reader,
    fields: &Fields<'_>,
    name: &str,
    check_name: impl Fn(&mut Reader, &str, &str),
) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    let path = fields.path_of(name);
    let members = match fields.get(name) {
        None => return read,
        Some(Value::Object(members)) => members,
        Some(_) => {
            reader.report(path, "must be an object");
            return read;
        }
    };
    for (resource, amount) in members {
        let path = format!("{path}.{resource}");
        let text = match amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => {
                reader.report(path, "must be a quantity");
                continue;
            }
        };
        check_name(reader, &path, resource);
        match Quantity::parse(&text) {
            Err(why) => reader.report(path, why.to_string()),
            Ok(quantity) if quantity.signum() < 0 => reader.report(path, "must not be negative"),
            Ok(_) => drop(read.insert(resource.clone(), text)),
        }
    }
    read
}
