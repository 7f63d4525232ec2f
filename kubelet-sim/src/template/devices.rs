//! The devices of a template, which a simulated driver on each of its nodes offers by dynamic resource allocation.

use crate::template::values::{check, resource_amounts};
use proto::meta::names;
use serde_json::{Value, json};
use stages::reader::{Fields, Reader};
use std::collections::BTreeMap;

/// Most devices that a machine has of one kind.
const MAX_COUNT: u64 = 1_024;
/// Longest name of an attribute, as in the API.
const MAX_NAME: usize = 32;

/// Equal devices of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceGroup {
    /// Name of the driver, such as `gpu.example.com`.
    pub driver: String,
    /// The devices' names begin with this; a number follows.
    pub name: String,
    pub count: u32,
    /// Attributes as the API has them, such as `{"string": "A100"}`, by name.
    pub attributes: BTreeMap<String, Value>,
    /// Quantities by name.
    pub capacity: BTreeMap<String, String>,
}

/// Reads the groups of devices of a template.
pub fn read(reader: &mut Reader, fields: &Fields<'_>) -> Vec<DeviceGroup> {
    let mut groups: Vec<DeviceGroup> = Vec::new();
    for (item, path) in reader.items(fields, "devices") {
        let Some(fields) = reader.object(item, &path, &["driver", "name", "count", "attributes", "capacity"]) else {
            continue;
        };
        let driver = reader.required_text(&fields, "driver").unwrap_or_default().to_owned();
        if !driver.is_empty() {
            check(reader, fields.path_of("driver"), names::dns1123_subdomain(&driver));
        }
        let name = reader.text(&fields, "name").unwrap_or("device").to_owned();
        check(reader, fields.path_of("name"), names::dns1123_label(&name));
        let count = reader.count(&fields, "count").unwrap_or(1);
        if count > MAX_COUNT {
            reader.report(fields.path_of("count"), format!("must not be greater than {MAX_COUNT}"));
        }
        if groups.iter().any(|other| other.driver == driver && other.name == name) {
            reader.report(path, "another group of this driver has this name");
        }
        let attributes = attributes(reader, &fields);
        let capacity = resource_amounts(reader, &fields, "capacity", check_name);
        groups.push(DeviceGroup { driver, name, count: u32::try_from(count).unwrap_or(0), attributes, capacity });
    }
    groups
}

/// Reads attributes: texts, numbers and truth values, or `{version: 1.2.3}`.
fn attributes(reader: &mut Reader, fields: &Fields<'_>) -> BTreeMap<String, Value> {
    let mut read = BTreeMap::new();
    let path = fields.path_of("attributes");
    let members = match fields.get("attributes") {
        None => return read,
        Some(Value::Object(members)) => members,
        Some(_) => {
            reader.report(path, "must be an object");
            return read;
        }
    };
    for (name, value) in members {
        let path = format!("{path}.{name}");
        check_name(reader, &path, name);
        let typed = match value {
            Value::String(text) => json!({"string": text}),
            Value::Bool(flag) => json!({"bool": flag}),
            Value::Number(number) if number.is_i64() => json!({"int": number}),
            Value::Object(members) if members.len() == 1 && members.get("version").is_some_and(Value::is_string) => {
                value.clone()
            }
            _ => {
                reader.report(path, "must be a text, a whole number, a boolean or {version: TEXT}");
                continue;
            }
        };
        read.insert(name.clone(), typed);
    }
    read
}

/// Checks a name as C allows it, perhaps with a domain before it.
fn check_name(reader: &mut Reader, path: &str, name: &str) {
    let (domain, name) = name.split_once('/').map_or((None, name), |(domain, name)| (Some(domain), name));
    let mut wrong: Vec<String> = domain.into_iter().flat_map(names::dns1123_subdomain).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_')
    {
        wrong.push("must consist of letters, digits and underscores, and begin with no digit".to_owned());
    }
    if name.is_empty() || name.len() > MAX_NAME {
        wrong.push(format!("must have 1 to {MAX_NAME} characters"));
    }
    check(reader, path.to_owned(), wrong);
}
