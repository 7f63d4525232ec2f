//! `metadata.managedFields`: which manager owns which fields, since when and through which version.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/managedfields (Managed, manager identifiers).

use super::fields::FieldSet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

/// Identifies a manager. An applier is the same manager in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for appliers.
    pub api_version: String,
    pub subresource: String,
}

/// The fields that a manager owns, written in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    pub fields: FieldSet,
    pub api_version: String,
    /// Time of the manager's last change; absent if there was none.
    pub time: Option<String>,
}

/// All managers of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers(pub BTreeMap<Manager, Owned>);

/// An entry of `managedFields` that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{0}")]
pub struct UnreadableEntry(String);

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Manager {
    pub fn applier(name: &str, subresource: &str) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::Apply,
            api_version: String::new(),
            subresource: subresource.to_owned(),
        }
    }

    pub fn updater(name: &str, api_version: &str, subresource: &str) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::Update,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// Prints a manager as conflicts name it: `"kubectl" with subresource "status" using apps/v1`.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl Owned {
    fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
    }
}

impl Managers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the entries of `metadata.managedFields`.
    pub fn read(entries: &[Value]) -> Result<Self, UnreadableEntry> {
        let mut managers = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(UnreadableEntry("operation must be `Apply` or `Update`".to_owned())),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(UnreadableEntry("apiVersion must not be empty".to_owned()));
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(UnreadableEntry(format!("missing fieldsType in managed fields entry {index}"))),
                other => {
                    return Err(UnreadableEntry(format!(
                        "invalid fieldsType {other:?} in managed fields entry {index}"
                    )));
                }
            }
            let fields = match entry.get("fieldsV1") {
                Some(fields) => FieldSet::from_value(fields).map_err(|e| UnreadableEntry(e.to_string()))?,
                None => FieldSet::default(),
            };
            let manager = match operation {
                Operation::Apply => Manager::applier(text("manager"), text("subresource")),
                Operation::Update => Manager::updater(text("manager"), api_version, text("subresource")),
            };
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            managers.insert(manager, Owned { fields, api_version: api_version.to_owned(), time });
        }
        Ok(Self(managers))
    }

    /// Returns the entries in Kubernetes' order: appliers first, then by time, then by name.
    pub fn write(&self) -> Vec<Value> {
        let mut sorted: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        sorted.sort_by_key(|(manager, owned)| {
            (manager.operation, owned.seconds(), &manager.name, &owned.api_version, &manager.subresource)
        });
        sorted.into_iter().map(|(manager, owned)| entry(manager, owned)).collect()
    }

    /// Writes these managers into an object, or removes the field when there are none.
    pub fn write_into(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(self.write()));
        }
    }

    /// Merges the oldest updaters into one per version until no more than `limit` are left.
    pub fn cap_updaters(&mut self, limit: usize) {
        let mut updaters: Vec<Manager> =
            self.0.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut left = updaters.len();
        if left <= limit {
            return;
        }
        updaters.sort_by_key(|manager| (self.0[manager].seconds(), manager.clone()));
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if left <= limit {
                break;
            }
            let version = manager.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let ancient = Manager::updater(ANCIENT_CHANGES, &version, "");
            if !self.0.contains_key(&ancient)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(ancient.clone(), owned);
            }
            if let (Some(newer), Some(older)) = (self.0.remove(&manager), self.0.get_mut(&ancient)) {
                older.fields = older.fields.union(&newer.fields);
                older.time = newer.time;
            }
            left -= 1;
        }
    }
}

/// Name of the manager that stands for old, merged updaters.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    if !manager.name.is_empty() {
        entry.insert("manager".to_owned(), json!(manager.name));
    }
    entry.insert("operation".to_owned(), json!(manager.operation.name()));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), json!(time));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.fields.to_value());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(manager.subresource));
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(second: u32, field: &str) -> Owned {
        Owned {
            fields: FieldSet::of([[field].as_slice()]),
            api_version: "v1".to_owned(),
            time: Some(format!("2026-01-01T00:00:{second:02}Z")),
        }
    }

    #[test]
    fn entries_round_trip_in_order() {
        let mut managers = Managers::default();
        managers.0.insert(Manager::updater("late", "v1", ""), owned(9, "a"));
        managers.0.insert(Manager::updater("early", "v1", "status"), owned(1, "b"));
        managers.0.insert(Manager::applier("zeta", ""), Owned { time: None, ..owned(0, "c") });
        let entries = managers.write();
        let names: Vec<&str> = entries.iter().filter_map(|e| e["manager"].as_str()).collect();
        assert_eq!(names, ["zeta", "early", "late"]);
        assert_eq!(Managers::read(&entries), Ok(managers));
    }

    #[test]
    fn of_one_second_the_names_decide() {
        let names = |at: u32| {
            let mut managers = Managers::default();
            managers.0.insert(Manager::updater("author", "v1", ""), owned(at, "a"));
            managers.0.insert(Manager::updater("server", "v1", "status"), owned(3, "b"));
            managers.0.insert(Manager::updater("timeless", "v1", "scale"), Owned { time: None, ..owned(0, "c") });
            let names = managers.write().into_iter().map(|entry| entry["manager"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(3), "timeless author server");
        assert_eq!(names(4), "timeless server author");
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let good = json!({"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}});
        assert!(Managers::read(std::slice::from_ref(&good)).is_ok());
        let cases = [
            ("operation", "Odd", "operation must be `Apply` or `Update`"),
            ("apiVersion", "", "apiVersion must not be empty"),
            ("fieldsType", "", "missing fieldsType in managed fields entry 1"),
            ("fieldsType", "FieldsV9", "invalid fieldsType \"FieldsV9\" in managed fields entry 1"),
        ];
        for (key, value, why) in cases {
            let mut bad = good.clone();
            bad[key] = json!(value);
            assert_eq!(Managers::read(&[good.clone(), bad]).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn old_updaters_are_folded() {
        let mut managers = Managers::default();
        for second in 0..5 {
            managers.0.insert(Manager::updater(&format!("m{second}"), "v1", ""), owned(second, &format!("f{second}")));
        }
        managers.cap_updaters(3);
        let names: Vec<&str> = managers.0.keys().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["ancient-changes", "m3", "m4"]);
        let ancient = &managers.0[&Manager::updater(ANCIENT_CHANGES, "v1", "")];
        assert_eq!(ancient.fields, FieldSet::of([["f0"].as_slice(), &["f1"], &["f2"]]));
        assert_eq!(ancient.time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }
}
